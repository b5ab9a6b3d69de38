// Keys and values going round, step by step. See pages/ring/steps.py for `data`.

import { Ring } from "./ring.js";

const mounted = new WeakMap();

/** Mount, or take new data into what is mounted. Gives a clean-up. */
export function mount({ data, parentElement }) {
  let here = mounted.get(parentElement);
  const key = JSON.stringify(data);
  if (!here) {
    here = { key, ring: new Ring(parentElement, data) };
    mounted.set(parentElement, here);
  } else if (here.key !== key) {
    here.key = key;
    here.ring.update(data);
  }
  return () => {
    here.ring.destroy();
    mounted.delete(parentElement);
  };
}
