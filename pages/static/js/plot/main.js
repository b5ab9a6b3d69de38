// A chart whose data comes whole from Python: see pages/_ui/plot.py.

import { Chart } from "./chart.js";

const mounted = new WeakMap();

/** Mount, or draw new data into what is mounted. Gives a clean-up. */
export function mount({ data, parentElement, setStateValue }) {
  let here = mounted.get(parentElement);
  if (!here) {
    here = { chart: new Chart(parentElement, (id) => here.tell(id)) };
    mounted.set(parentElement, here);
  }
  here.tell = (id) => setStateValue("picked", id);
  const key = JSON.stringify(data);
  if (key !== here.key) {
    here.key = key;
    here.chart.chosen = data.picked;
    here.chart.draw(data.spec, data.alt);
  }
  return () => {
    here.chart.destroy();
    mounted.delete(parentElement);
  };
}
