// Where the timeline begins: see pages/_ui/timeline.py for what `data` is.

import { Timeline } from "./timeline.js";

// A page that is made anew, in another language for example, gives back what was left a moment ago.
const REMEMBERED_MS = 5000;

const mounted = new WeakMap();
let left = null;

/** Mount the component; called again with new data it keeps what the reader did. Gives a clean-up. */
export function mount({ data, parentElement }) {
  const before = mounted.get(parentElement);
  const key = JSON.stringify(data);
  if (before?.key === key) return before.clean;
  before?.timeline.destroy();
  const recent = left && performance.now() - left.at < REMEMBERED_MS && left.timeline.data.compact === data.compact ? left.timeline : null;
  const timeline = new Timeline(parentElement, data, before?.timeline ?? recent);
  const clean = () => {
    const gone = mounted.get(parentElement)?.timeline;
    gone?.destroy();
    mounted.delete(parentElement);
    if (gone?.model) left = { timeline: gone, at: performance.now() };
  };
  mounted.set(parentElement, { key, timeline, clean });
  return clean;
}
