// The layer that changes only with zoom, size and theme: grounds, grid, bars, ticks of tokens, KV, marks, axis.

import * as numbers from "../shared/numbers.js";
import { ticks } from "./scale.js";
import { faint } from "./palette.js";

const ORDER = ["stall", "prefill", "chunk", "transfer", "mixed", "decode"];
// Where bars are typically thinner than this, they are drawn together: a seam between them would swallow them.
const THIN = 2;

/** The engines' block. `scene`: { model, layout, scale, colors, fills, words, chosen }. */
export function drawLanes(c, scene) {
  const { model, layout, scale, colors } = scene;
  c.clearRect(0, 0, layout.width, layout.height);
  const marks = axisTicks(scene);
  model.lanes.forEach((lane, n) => {
    const place = layout.lanes[n];
    for (const ground of place.grounds) plate(c, layout.left, ground.y, layout.right - layout.left, ground.height, colors.panel);
    plate(c, layout.left, place.kv.y, layout.right - layout.left, place.kv.height, colors.panel);
    grid(c, scene, marks, place.grounds[0]?.y ?? place.kv.y, place.bottom);
    clipped(c, layout, () => {
      lane.tracks.forEach((track, i) => bars(c, scene, track.bars, place.tracks[i], true));
      kv(c, scene, lane, place.kv);
    });
    trackLabels(c, scene, lane, place);
    marksOf(c, scene, lane, place);
  });
  axis(c, scene, marks, layout.axis);
}

/** The requests' block. `scene.chosen`: ids of the requests whose texts are shown. */
export function drawRows(c, scene) {
  const { model, layout, colors, words } = scene;
  c.clearRect(0, 0, layout.width, layout.height);
  const marks = axisTicks(scene);
  model.lanes.forEach((lane, n) => {
    const place = layout.lanes[n];
    if (!place.rows.length) return;
    text(c, scene, words(`schedule.${lane.schedule}.name`), layout.narrow ? 0 : layout.left, place.top + 16, { size: 14, weight: 660 });
    const first = place.rows[0].y;
    plate(c, layout.left, first, layout.right - layout.left, place.bottom - first, colors.panel);
    grid(c, scene, marks, first, place.bottom);
    clipped(c, layout, () => {
      place.rows.forEach((at, i) => bars(c, scene, waits(lane.rows[i]), { y: at.y + 1, height: at.height - 2 }, false));
      place.rows.forEach((at, i) => bars(c, scene, lane.rows[i].bars, { y: at.y + 1, height: at.height - 2 }, false));
      place.rows.forEach((at, i) => tokens(c, scene, lane.rows[i].at, at));
    });
    rowLabels(c, scene, lane, place);
  });
  axis(c, scene, marks, layout.axis);
}

/** Where a request waited between two of its tokens, as bars. */
function waits(row) {
  const stalls = [...row.stalls].sort((a, b) => a - b);
  return { n: stalls.length, category: stalls.map(() => "stall"), begin: stalls.map((k) => row.at[k]), end: stalls.map((k) => row.at[k + 1]) };
}

function bars(c, scene, found, { y, height }, seams) {
  const { scale, fills, colors } = scene;
  const [from, to] = scale.span;
  for (const category of ORDER) {
    c.fillStyle = fills[category];
    const together = !seams || typical(found, category) * scale.perSecond < THIN;
    let x0 = null;
    let x1 = 0;
    const flush = () => {
      if (x0 !== null) c.fillRect(x0, y, Math.max(x1 - x0, 0.8), height);
      x0 = null;
    };
    for (let i = 0; i < found.n; i++) {
      if (found.category[i] !== category || found.end[i] < from || found.begin[i] > to) continue;
      const left = scale.x(found.begin[i]);
      const right = scale.x(found.end[i]);
      const width = right - left;
      if (together || width < THIN / 4) {
        if (x0 !== null && left - x1 < 0.5) x1 = Math.max(x1, right);
        else {
          flush();
          [x0, x1] = [left, right];
        }
        continue;
      }
      flush();
      // A seam of paper between neighbouring steps shows that they are many.
      const seam = Math.min(1, width * 0.22);
      c.fillRect(left, y, Math.max(width - seam, 0.8), height);
      if (category === "stall") frame(c, left, y, width - seam, height, colors["stall-ink"]);
    }
    flush();
  }
}

/** The median duration of a track's bars of one category, in seconds. */
function typical(bars, category) {
  bars.typical ??= {};
  if (!(category in bars.typical)) {
    const durations = [];
    for (let i = 0; i < bars.n; i++) if (bars.category[i] === category) durations.push(bars.end[i] - bars.begin[i]);
    bars.typical[category] = durations.sort((a, b) => a - b)[durations.length >> 1] ?? 0;
  }
  return bars.typical[category];
}

function frame(c, x, y, width, height, color) {
  c.strokeStyle = color;
  c.lineWidth = 1;
  c.strokeRect(x + 0.5, y + 0.5, Math.max(width - 1, 0), height - 1);
}

function tokens(c, scene, at, { y, height }) {
  const { scale, colors } = scene;
  const [from, to] = scale.span;
  c.fillStyle = colors.decode;
  const width = scale.perSecond > 500 ? 1.6 : 1.1;
  let last = -9;
  for (const t of at) {
    if (t < from || t > to) continue;
    const x = scale.x(t) - width / 2;
    if (x - last < 0.3) continue;
    c.fillRect(x, y + 1.5, width, height - 3);
    last = x;
  }
}

// ---------------------------------------------------------------- KV

/** The same scale over all lanes: the highest total of any. */
function kvTop(model) {
  return Math.max(1, ...model.lanes.map((lane) => lane.kv.peak)) * 1.06;
}

function kv(c, scene, lane, { y, height }) {
  const { model, scale, colors } = scene;
  const top = kvTop(model);
  const bottom = y + height;
  const { at, levels } = lane.kv;
  const yOf = (value) => bottom - (value / top) * (height - 1);
  const end = scale.x(Math.max(lane.now, lane.end));
  // From the top of the stack down, so that each level is seen above the one below it.
  for (let j = levels.length - 1; j >= 0; j--) {
    const level = levels[j];
    c.beginPath();
    let before = yOf(0);
    c.moveTo(scale.x(at[0] ?? 0), before);
    for (let i = 0; i < at.length; i++) {
      const x = scale.x(at[i]);
      c.lineTo(x, before);
      before = yOf(level[i]);
      c.lineTo(x, before);
    }
    c.lineTo(end, before);
    c.strokeStyle = colors.accent;
    c.lineWidth = 1.4;
    c.setLineDash(j < levels.length - 1 ? [] : levels.length > 1 ? [2, 2] : []);
    c.stroke();
    c.setLineDash([]);
    c.lineTo(end, bottom);
    c.lineTo(scale.x(at[0] ?? 0), bottom);
    c.fillStyle = faint(colors.accent, j < levels.length - 1 || levels.length === 1 ? 0.2 : 0.1);
    c.fill();
  }
}

// ---------------------------------------------------------------- words in the picture

function trackLabels(c, scene, lane, place) {
  const { layout, words } = scene;
  if (layout.narrow) {
    lane.tracks.forEach((track, i) => {
      const at = place.tracks[i];
      text(c, scene, words(`track.${track.name}`), layout.left - 6, at.y + at.height / 2, { align: "right", muted: true, size: 11.5 });
    });
    text(c, scene, "KV", layout.left - 6, place.kv.y + place.kv.height / 2, { align: "right", muted: true, size: 11.5 });
  }
}

/** What a teacher points at, written where it happened: the longest silence, and the long prompt's first token. */
function marksOf(c, scene, lane, place) {
  const { scale, layout, words, colors } = scene;
  lane.tracks.forEach((track, i) => {
    const at = place.tracks[i];
    const middle = at.y + at.height / 2;
    if (track.name === "decode") {
      const b = track.bars;
      let best = -1;
      for (let k = 0; k < b.n; k++) if (b.category[k] === "stall" && (best < 0 || b.end[k] - b.begin[k] > b.end[best] - b.begin[best])) best = k;
      if (best >= 0) {
        const left = Math.max(scale.x(b.begin[best]), layout.left);
        const right = Math.min(scale.x(b.end[best]), layout.right);
        const label = words("mark.stall");
        if (right - left > measured(c, scene, label, 12.5) + 30) text(c, scene, label, (left + right) / 2, middle, { align: "center", size: 12.5, weight: 560, ground: colors.paper });
      }
    }
  });
  const top = lane.tracks.findIndex((track) => track.name === "prefill");
  if (lane.first === null || top < 0) return;
  const [arrival, first] = lane.first;
  if (first < scale.span[0] || first > scale.span[1]) return;
  const at = place.tracks[top];
  const middle = at.y + at.height / 2;
  const label = words(layout.narrow ? "mark.first_short" : "mark.first", { ttft: numbers.seconds(first - arrival) });
  const x = scale.x(first);
  const needed = measured(c, scene, label, 12.5) + 22;
  const late = x + needed > layout.right;
  const tip = late ? x - 3 : x + 3;
  const tail = late ? tip - 6 : tip + 6;
  if (late && x - needed < layout.left) return;
  if (late) plate(c, x - needed - 3, at.y + 4, needed + 1, at.height - 8, colors.paper);
  c.fillStyle = colors.ink;
  c.beginPath();
  c.moveTo(tip, middle);
  c.lineTo(tail, middle - 4);
  c.lineTo(tail, middle + 4);
  c.fill();
  text(c, scene, label, late ? tail - 4 : tail + 5, middle, { align: late ? "right" : "left", size: 12.5, weight: 560 });
}

function rowLabels(c, scene, lane, place) {
  const { layout, words, colors, chosen } = scene;
  const groups = new Map();
  place.rows.forEach((at, i) => {
    const { kind, id } = lane.rows[i];
    groups.set(kind, [...(groups.get(kind) ?? []), at.y + at.height / 2]);
    if (chosen.includes(id)) {
      c.fillStyle = colors.accent;
      c.beginPath();
      const y = at.y + at.height / 2;
      c.moveTo(layout.left - 2, y);
      c.lineTo(layout.left - 7, y - 4);
      c.lineTo(layout.left - 7, y + 4);
      c.fill();
    }
  });
  for (const [kind, ys] of groups) {
    const label = words(`kind.${kind}`);
    text(c, scene, label.startsWith("kind.") ? kind : label, layout.left - 11, ys.reduce((a, b) => a + b) / ys.length, { align: "right", muted: true, size: 12 });
  }
}

function axisTicks({ scale, layout }) {
  return ticks(scale.span, layout.narrow ? 5 : Math.floor((layout.right - layout.left) / 78));
}

function grid(c, { scale, layout, colors }, marks, top, bottom) {
  c.fillStyle = faint(colors.line, 0.75);
  for (const { at } of marks) {
    const x = Math.round(scale.x(at));
    if (x >= layout.left && x <= layout.right) c.fillRect(x, top, 1, bottom - top);
  }
}

function axis(c, scene, marks, y) {
  const { scale, layout, colors, words } = scene;
  c.fillStyle = colors.line;
  c.fillRect(layout.left, y, layout.right - layout.left, 1);
  for (const { at, text: label } of marks) {
    const x = scale.x(at);
    if (x < layout.left - 1 || x > layout.right + 1) continue;
    c.fillStyle = colors.muted;
    c.fillRect(Math.round(x), y, 1, 5);
    const half = measured(c, scene, label, 12) / 2;
    text(c, scene, label, Math.min(x, layout.width - half), y + 15, { align: "center", muted: true, size: 12 });
  }
  text(c, scene, words("lanes.axis"), (layout.left + layout.right) / 2, y + 36, { align: "center", muted: true, size: 11.5 });
}

// ---------------------------------------------------------------- small parts

export function plate(c, x, y, width, height, color) {
  c.fillStyle = color;
  c.beginPath();
  c.roundRect(x, y, width, height, 2);
  c.fill();
}

export function text(c, scene, label, x, y, { align = "left", size = 12, weight = 450, muted = false, ground = null, color = null } = {}) {
  c.font = `${weight} ${size}px ${scene.colors.font}`;
  c.textAlign = align;
  c.textBaseline = "middle";
  if (ground) {
    const width = c.measureText(label).width + 10;
    const left = align === "center" ? x - width / 2 : align === "right" ? x - width + 5 : x - 5;
    plate(c, left, y - size * 0.75, width, size * 1.5, ground);
  }
  c.fillStyle = color ?? (muted ? scene.colors.muted : scene.colors.ink);
  c.fillText(label, x, y + 0.5);
}

export function measured(c, scene, label, size, weight = 560) {
  c.font = `${weight} ${size}px ${scene.colors.font}`;
  return c.measureText(label).width;
}

function clipped(c, layout, draw) {
  c.save();
  c.beginPath();
  c.rect(layout.left, 0, layout.right - layout.left, layout.height);
  c.clip();
  draw();
  c.restore();
}
