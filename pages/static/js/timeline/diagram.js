// The schedule as a machine, beside its tracks: queue, engine or pools, link. At rest in outline; during play-back the
// parts that work at that moment light up in the colour and pattern of what they do.

import * as numbers from "../shared/numbers.js";
import { kvAt } from "./model.js";
import { measured, plate, text } from "./draw.js";
import { diagramParts } from "./layout.js";

const SLICES = 4;

/** The quiet outline, on the layer. */
export function drawOutline(c, scene) {
  const { model, layout, colors } = scene;
  model.lanes.forEach((lane, n) => {
    const place = layout.lanes[n];
    const parts = diagramParts(lane, place, layout);
    tray(c, parts.queue, colors);
    arrow(c, parts.arrow.from, parts.arrow.y, parts.arrow.to, parts.arrow.y, colors.muted);
    for (const box of parts.boxes) outline(c, box, colors.muted);
    parts.cells.forEach((cell, i) => {
      if (!cell) return;
      if (i && parts.cells[i - 1] && lane.tracks[i - 1].worker === lane.tracks[i].worker) seam(c, parts.cells[i - 1], cell, colors.muted);
      if (lane.schedule === "chunked" && lane.tracks[i].name === "prefill") slices(c, cell, colors.line);
      label(c, scene, cell, cellName(scene, lane, i), null);
    });
    if (parts.wire) wire(c, scene, parts.wire, null);
    text(c, scene, scene.words("diagram.queue"), parts.queue.x + parts.queue.width / 2, parts.queue.y + parts.queue.height / 2, { align: "center", muted: true, size: 11 });
    if (!layout.narrow) kvLabel(c, scene, lane, place, null);
  });
}

/** The parts at work at a moment, over the layer. `state`: see model.stateAt. */
export function drawLit(c, scene, n, state, t) {
  const { model, layout, colors, fills, words } = scene;
  const lane = model.lanes[n];
  const place = layout.lanes[n];
  const parts = diagramParts(lane, place, layout);
  const engines = lane.tracks.filter((track) => track.name === "decode").length;
  queue(c, scene, parts.queue, state.queue, lane.schedule === "chunked");
  parts.cells.forEach((cell, i) => {
    const now = state.tracks[i];
    const name = lane.tracks[i].name;
    const stalled = name === "decode" && (now?.category === "stall" || (!now && state.waiting));
    if (!cell || (!now && !stalled)) return;
    const category = stalled ? "stall" : now.category;
    plate(c, cell.x + 1.5, cell.y + 1.5, cell.width - 3, cell.height - 3, fills[category]);
    const n = name === "prefill" ? now?.prefill : now?.decode;
    // How many wait is known of a schedule, not of one engine among several.
    const waiting = engines > 1 || !state.waiting ? words("category.stall.name") : words("diagram.waiting", { n: state.waiting });
    label(c, scene, cell, stalled ? waiting : `${words(`track.${name}`)} · ${numbers.count(n)}`, colors.paper);
  });
  const link = lane.tracks.findIndex((track) => track.name === "transfer");
  if (parts.wire && link >= 0 && state.tracks[link]) wire(c, scene, parts.wire, fills.transfer);
  if (!layout.narrow) kvLabel(c, scene, lane, place, t);
}

function cellName({ words, layout }, lane, i) {
  const { name } = lane.tracks[i];
  const pool = lane.tracks.some((track) => track.name === "transfer") && !layout.narrow;
  return words(pool ? `diagram.${name}_pool` : `track.${name}`);
}

function label(c, scene, cell, words, ground) {
  const size = cell.width < 76 ? 11 : 12.5;
  const fits = (label) => measured(c, scene, label, size, 600) < cell.width - 8;
  // Where there is no room for both, the number says more than the name, which stands at the track.
  if (!fits(words)) words = words.split(" · ").at(-1);
  if (!fits(words)) return;
  text(c, scene, words, cell.x + cell.width / 2, cell.y + cell.height / 2, { align: "center", size, weight: ground ? 600 : 500, ground });
}

function outline(c, { x, y, width, height }, color) {
  c.strokeStyle = color;
  c.lineWidth = 1.2;
  c.beginPath();
  c.roundRect(x + 0.6, y + 0.6, width - 1.2, height - 1.2, 4);
  c.stroke();
}

function seam(c, before, cell, color) {
  c.fillStyle = color;
  if (before.x === cell.x) c.fillRect(cell.x, cell.y - 1.5, cell.width, 1);
  else c.fillRect(cell.x, cell.y, 1, cell.height);
}

/** The cell of a schedule that cuts its prompts. */
function slices(c, cell, color) {
  c.strokeStyle = color;
  c.lineWidth = 1;
  c.setLineDash([3, 2]);
  c.beginPath();
  for (let k = 1; k < SLICES; k++) {
    const x = Math.round(cell.x + (cell.width * k) / SLICES) + 0.5;
    c.moveTo(x, cell.y + 3);
    c.lineTo(x, cell.y + cell.height - 3);
  }
  c.stroke();
  c.setLineDash([]);
}

/** A tray that is open where requests leave it. */
function tray(c, { x, y, width, height }, color) {
  c.strokeStyle = color.muted;
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(x + width, y + 0.5);
  c.lineTo(x + 0.5, y + 0.5);
  c.lineTo(x + 0.5, y + height - 0.5);
  c.lineTo(x + width, y + height - 0.5);
  c.stroke();
}

/** Who waits, next one at the opening: a dot for a chat, a bar for a long prompt, in slices where prompts are cut. */
function queue(c, scene, { x, y, width, height }, kinds, cut) {
  const { colors } = scene;
  plate(c, x + 1.5, y + 1.5, width - 2, height - 3, colors.paper);
  if (!kinds.length) return;
  const middle = y + height / 2;
  const many = kinds.length > 4;
  let at = x + width - 3;
  if (many) text(c, scene, String(kinds.length), x + 5, middle, { size: 12, weight: 600 });
  for (const kind of many ? kinds.slice(0, 3) : kinds) {
    const long = kind === "long";
    const w = long ? 15 : 6;
    if (at - w < x + (many ? 20 : 3)) break;
    c.fillStyle = colors.accent;
    c.beginPath();
    c.roundRect(at - w, middle - (long ? 4 : 3), w, long ? 8 : 6, long ? 2 : 3);
    c.fill();
    if (long && cut) {
      c.fillStyle = colors.paper;
      for (const k of [1, 2]) c.fillRect(at - (w * k) / 3 - 0.5, middle - 4, 1.2, 8);
    }
    at -= w + 3;
  }
}

function arrow(c, x0, y0, x1, y1, color, width = 1.2) {
  const angle = Math.atan2(y1 - y0, x1 - x0);
  c.strokeStyle = c.fillStyle = color;
  c.lineWidth = width;
  c.beginPath();
  c.moveTo(x0, y0);
  c.lineTo(x1 - 4 * Math.cos(angle), y1 - 4 * Math.sin(angle));
  c.stroke();
  c.beginPath();
  c.moveTo(x1, y1);
  for (const turn of [2.6, -2.6]) c.lineTo(x1 + 6 * Math.cos(angle + turn), y1 + 6 * Math.sin(angle + turn));
  c.fill();
}

function wire(c, scene, { x, y, from, to, down }, fill) {
  const { colors, words } = scene;
  const color = fill ? colors.transfer : colors.muted;
  if (down) {
    if (fill) plate(c, x - 5, from + 1, 10, to - from - 8, fill);
    arrow(c, x, from + 1, x, to - 1, color, fill ? 2.4 : 1.2);
    text(c, scene, words("diagram.link"), x + 10, (from + to) / 2, { size: 11.5, muted: !fill, weight: fill ? 650 : 450, color: fill ? colors.transfer : null });
  } else {
    if (fill) plate(c, from + 3, y - 5, to - from - 12, 10, fill);
    arrow(c, from + 3, y, to - 3, y, color, fill ? 2.4 : 1.2);
    text(c, scene, words("diagram.link"), (from + to) / 2, y - 9, { size: 10.5, muted: !fill, align: "center", color: fill ? colors.transfer : null });
  }
}

/** Beside the KV strip: the peak at rest, what is in use during play-back. */
function kvLabel(c, scene, lane, place, t) {
  const { layout, words, colors } = scene;
  const right = layout.left - 14;
  const middle = place.kv.y + place.kv.height / 2;
  if (t !== null) {
    c.fillStyle = colors.paper;
    c.fillRect(0, place.kv.y - 1, layout.left - 2, place.kv.height + 2);
  }
  if (!lane.kv.workers.length) return;
  text(c, scene, words("timeline.kv"), 0, middle - 7, { size: 11.5, weight: 600 });
  const value = t === null ? words("kv.peak", { peak: numbers.bytes(lane.kv.peak) }) : words("timeline.kv_now", { used: numbers.bytes(kvAt(lane.kv, t)) });
  text(c, scene, value, right, middle - 7, { align: "right", size: 11.5, weight: t === null ? 450 : 600 });
  text(c, scene, words("timeline.kv_capacity", { capacity: numbers.bytes(lane.kv.capacity) }), right, middle + 7, { align: "right", size: 11, muted: true });
}
