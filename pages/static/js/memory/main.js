// Where the memory wall begins: see pages/memory/calculator.py for what `data` is.

import { Calculator } from "./calculator.js";

const mounted = new WeakMap();

/** Mount, or take new data into what is mounted. Gives a clean-up. */
export function mount({ data, parentElement, setStateValue }) {
  let here = mounted.get(parentElement);
  const key = JSON.stringify({ ...data, at: null });
  if (!here) {
    here = { key };
    here.calculator = new Calculator(parentElement, data, (state) => here.tell(state));
    mounted.set(parentElement, here);
  } else if (here.key !== key) {
    here.key = key;
    here.calculator.update(data);
  }
  here.tell = (state) => setStateValue("at", state);
  return () => {
    here.calculator.destroy();
    mounted.delete(parentElement);
  };
}
