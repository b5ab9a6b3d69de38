// A device's memory as a bar: weights, reserve, one piece for each request, and the wall. What is beyond it is hatched.

import { s } from "../shared/dom.js";
import * as numbers from "../shared/numbers.js";

const HEIGHT = 112;
const BAR = { top: 26, height: 46 };
const SEPARATED_PX = 4;
// More than this many times the capacity is not drawn to scale any more.
const MOST_SHOWN = 2.2;

/** The bar as SVG of a width. parts: { weights, reserve, request, batch, capacity } in bytes; label: in words. */
export function stack(parts, width, words, label) {
  const { weights, reserve, request, batch, capacity } = parts;
  const used = weights + reserve + request * batch;
  const shown = Math.min(Math.max(used * 1.03, capacity * 1.12), capacity * MOST_SHOWN);
  const x = (bytes) => Math.min(Math.max(0, (bytes / shown) * width), width);
  const piece = (from, to, kind) => s("rect", { class: `mw-${kind}`, x: x(from), y: BAR.top, width: Math.max(0, x(to) - x(from)), height: BAR.height });
  const kept = weights + reserve;
  const inside = Math.min(used, Math.max(capacity, kept));
  const pieces = [piece(0, Math.min(weights, shown), "weights"), piece(weights, kept, "reserve"), piece(kept, inside, "kv")];
  if (used > capacity) pieces.push(piece(Math.max(capacity, 0), used, "beyond"));
  const cuts = [];
  if (x(kept + request) - x(kept) >= SEPARATED_PX) for (let i = 1; i < batch && x(kept + request * i) < width; i++) cuts.push(`M${x(kept + request * i)} ${BAR.top}v${BAR.height}`);
  const wall = x(capacity);
  const late = wall > width * 0.6;
  return s(
    "svg",
    { class: "mw-stack", width, height: HEIGHT, viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": label },
    hatching(),
    s("path", { class: "mw-ground", d: `M0 ${BAR.top}H${wall}V${BAR.top + BAR.height}H0Z` }),
    ...pieces,
    s("path", { class: "mw-cuts", d: cuts.join("") }),
    s("path", { class: "mw-wall", d: `M${wall} ${BAR.top - 10}V${BAR.top + BAR.height + 10}` }),
    s("text", { class: "mw-wall-text", x: wall + (late ? -6 : 6), y: 12, "text-anchor": late ? "end" : "start" }, words("wall.capacity", { bytes: numbers.bytes(capacity) })),
    ...ticks(shown, x, width),
    used > shown ? s("text", { class: "mw-more", x: width - 4, y: BAR.top + BAR.height / 2 + 5, "text-anchor": "end" }, `… ${numbers.bytes(used)}`) : null,
  );
}

function ticks(shown, x, width) {
  const raw = shown / Math.max(3, width / 110);
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * size >= raw) * size;
  const found = [];
  for (let at = 0; at <= shown; at += step) {
    const place = x(at);
    found.push(s("path", { class: "mw-tick", d: `M${place} ${BAR.top + BAR.height}v5` }), s("text", { class: "mw-tick-text", x: place, y: HEIGHT - 18, "text-anchor": place < 20 ? "start" : place > width - 26 ? "end" : "middle" }, numbers.bytes(at)));
  }
  return found;
}

function hatching() {
  const pattern = { id: "mw-hatch", width: 8, height: 8, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  return s("defs", {}, s("pattern", pattern, s("rect", { class: "mw-hatch-ground", width: 8, height: 8 }), s("path", { class: "mw-hatch-line", d: "M0 0V8" })));
}
