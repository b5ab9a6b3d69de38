// What lies under the pointer, and the small box that says it.

import { h } from "../shared/dom.js";
import { barAt, countUntil, kvAt } from "./model.js";
import * as numbers from "../shared/numbers.js";

const NEAR_PX = 5;

/** What is at x, y of the engines' block: { box, lines, category } or null. */
export function atLanes(scene, x, y) {
  const { model, layout, scale, words } = scene;
  if (x < layout.left || x > layout.right) return null;
  const t = scale.t(x);
  for (const [n, lane] of model.lanes.entries()) {
    const place = layout.lanes[n];
    for (const [i, track] of lane.tracks.entries()) {
      const at = place.tracks[i];
      if (y < at.y - 1 || y > at.y + at.height + 1) continue;
      const k = barAt(track.bars, t, NEAR_PX / scale.perSecond);
      return k < 0 ? null : bar(scene, track.bars, k, at, track.worker);
    }
    if (y >= place.kv.y && y <= place.kv.y + place.kv.height && t <= lane.now) {
      const lines = [words("timeline.kv"), `${numbers.bytes(kvAt(lane.kv, t))} · ${numbers.moment(t)}`];
      if (lane.kv.workers.length > 1) {
        const i = countUntil(lane.kv.at, t) - 1;
        const each = lane.kv.workers.map((worker, j) => [worker, i < 0 ? 0 : lane.kv.levels[j][i] - (lane.kv.levels[j - 1]?.[i] ?? 0)]);
        lines.push(each.map(([worker, used]) => `${worker} ${numbers.bytes(used)}`).join(" · "));
      }
      return { lines, category: null, box: null };
    }
  }
  return null;
}

/** What is at x, y of the requests' block; `id` names the request. */
export function atRows(scene, x, y) {
  const { model, layout, scale, words } = scene;
  for (const [n, lane] of model.lanes.entries()) {
    for (const [i, at] of layout.lanes[n].rows.entries()) {
      if (y < at.y || y >= at.y + at.height) continue;
      const row = lane.rows[i];
      const found = { id: row.id, lane: n, lines: [row.id], category: null, box: { x: layout.left, y: at.y, width: layout.right - layout.left, height: at.height } };
      if (x < layout.left || x > layout.right) return found;
      const t = scale.t(x);
      const k = nearest(row.at, t);
      if (k >= 0 && Math.abs(row.at[k] - t) * scale.perSecond < NEAR_PX) {
        const gap = k ? `, ${words("timeline.gap", { s: numbers.seconds(row.at[k] - row.at[k - 1]) })}` : "";
        found.lines.push(`${words("timeline.token", { k: k + 1, n: row.at.length })} · ${row.at[k].toFixed(3)} s${gap}`);
      } else if (k >= 0 && row.stalls.has(countUntil(row.at, t) - 1)) {
        const from = countUntil(row.at, t) - 1;
        found.category = "stall";
        found.lines.push(words("category.stall.name"), span(words, row.at[from], row.at[from + 1]));
      } else {
        const b = barAt(row.bars, t, NEAR_PX / scale.perSecond);
        if (b >= 0) {
          found.category = row.bars.category[b];
          found.lines.push(words(`category.${found.category}.name`), span(words, row.bars.begin[b], row.bars.end[b]));
          if (row.bars.prefill[b]) found.lines.push(`${words("hover.prefill")} ${numbers.count(row.bars.prefill[b])}`);
        }
      }
      return found;
    }
  }
  return null;
}

function bar({ scale, layout, words }, bars, k, at, worker) {
  const category = bars.category[k];
  const lines = [words(`category.${category}.name`), span(words, bars.begin[k], bars.end[k])];
  if (category !== "stall" && category !== "transfer") {
    lines.push(`${words("hover.prefill")} ${numbers.count(bars.prefill[k] ?? 0)} · ${words("hover.decode")} ${numbers.count(bars.decode[k] ?? 0)}`);
  }
  if (worker && category !== "stall") lines.push(`${words("timeline.worker")} ${worker}`);
  const left = Math.max(scale.x(bars.begin[k]), layout.left);
  const right = Math.min(scale.x(bars.end[k]), layout.right);
  return { lines, category, box: { x: left, y: at.y, width: Math.max(right - left, 2), height: at.height } };
}

function span(words, begin, end) {
  return `${words("hover.from")} ${begin.toFixed(3)} s, ${words("hover.lasts")} ${numbers.seconds(end - begin)}`;
}

function nearest(values, t) {
  const k = countUntil(values, t);
  if (!k) return values.length ? 0 : -1;
  return k < values.length && values[k] - t < t - values[k - 1] ? k : k - 1;
}

/** The box itself; it stays inside the block it belongs to. */
export class Tooltip {
  constructor() {
    this.element = h("div", { class: "tl-tip", "aria-hidden": "true" });
    this.element.hidden = true;
  }

  show(found, x, y, width) {
    this.element.hidden = !found;
    if (!found) return;
    const [title, ...lines] = found.lines;
    const swatch = found.category ? h("span", { class: `lab-swatch lab-${found.category}` }) : null;
    this.element.replaceChildren(h("b", {}, swatch, title), ...lines.map((line) => h("span", {}, line)));
    const box = this.element.getBoundingClientRect();
    const left = x + 14 + box.width > width ? Math.max(0, x - 14 - box.width) : x + 14;
    this.element.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(0, y - box.height - 10))}px)`;
  }
}
