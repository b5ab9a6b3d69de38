// Grids whose data comes whole from Python: see pages/_ui/grids.py.

import { Grids } from "./grids.js";

const mounted = new WeakMap();

/** Mount, or draw new data into what is mounted. Gives a clean-up. */
export function mount({ data, parentElement }) {
  let here = mounted.get(parentElement);
  if (!here) {
    here = { grids: new Grids(parentElement) };
    mounted.set(parentElement, here);
  }
  const key = JSON.stringify(data);
  if (key !== here.key) {
    here.key = key;
    here.grids.draw(data.spec, data.alt);
  }
  return () => {
    here.grids.destroy();
    mounted.delete(parentElement);
  };
}
