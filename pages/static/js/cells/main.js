// Two caches that evict, step by step. See pages/sinks/streaming.py for `data`.

import { Cells } from "./cells.js";

const mounted = new WeakMap();

/** Mount, or take new data into what is mounted. Gives a clean-up. */
export function mount({ data, parentElement }) {
  let here = mounted.get(parentElement);
  const key = JSON.stringify(data);
  if (!here) {
    here = { key, cells: new Cells(parentElement, data) };
    mounted.set(parentElement, here);
  } else if (here.key !== key) {
    here.key = key;
    here.cells.update(data);
  }
  return () => {
    here.cells.destroy();
    mounted.delete(parentElement);
  };
}
