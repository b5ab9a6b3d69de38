// The hands of one head: see pages/rope/clock.py for what `data` is.

import { Clock } from "./clock.js";

const mounted = new WeakMap();

/** Mount, or take new words into what is mounted. Gives a clean-up. */
export function mount({ data, parentElement, setStateValue }) {
  let here = mounted.get(parentElement);
  const key = JSON.stringify({ ...data, at: null });
  if (!here) {
    here = { key, tell: (state) => setStateValue("at", state) };
    here.clock = new Clock(parentElement, data, (state) => here.tell(state));
    mounted.set(parentElement, here);
  } else if (here.key !== key) {
    here.key = key;
    here.clock.update(data);
  }
  here.tell = (state) => setStateValue("at", state);
  return () => {
    here.clock.destroy();
    mounted.delete(parentElement);
  };
}
