// Attention as it was measured: every head at a glance, and one of them in full. See pages/sinks/heatmap_payload.py for `data`.

import { Heat } from "./heat.js";

const mounted = new WeakMap();

/** Mount, or take new data into what is mounted. Gives a clean-up. */
export function mount({ data, parentElement, setStateValue }) {
  let here = mounted.get(parentElement);
  const key = JSON.stringify(data);
  if (!here) {
    here = { key };
    here.heat = new Heat(parentElement, data, (at) => here.tell(at));
    mounted.set(parentElement, here);
  } else if (here.key !== key) {
    here.key = key;
    here.heat.update(data);
  }
  here.tell = (at) => setStateValue("at", at);
  return () => {
    here.heat.destroy();
    mounted.delete(parentElement);
  };
}
