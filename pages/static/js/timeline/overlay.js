// What lies over the layer in a frame: the future dimmed, the play-head, what works at that moment, and what the pointer does.

import { drawLit } from "./diagram.js";
import { plate, text } from "./draw.js";
import { openStall, stateAt, waitedFor } from "./model.js";
import * as numbers from "../shared/numbers.js";
import { faint } from "./palette.js";

/**
 * One block. `headOf(lane)`: the play-head's moment, null at rest; `live`: the future is not dimmed but unknown;
 * `engines`: whether it is the engines' block; `glow`: how long a transfer stays lit, in seconds of the run;
 * `hover`: what is under the pointer; `selection`: [x0, x1] while a span is dragged.
 */
export function drawOverlay(c, scene, { headOf, live, engines, glow, hover, selection }) {
  const { model, layout, scale, colors } = scene;
  let at = null;
  model.lanes.forEach((lane, n) => {
    const t = headOf(lane);
    if (t === null) return;
    at = t;
    const place = layout.lanes[n];
    const top = (place.grounds?.[0] ?? place.rows[0] ?? { y: place.top }).y - 2;
    const x = inside(layout, scale.x(t));
    if (live) {
      if (engines) openTrack(c, scene, lane, place, t);
      else openRows(c, scene, lane, place, t);
      notYet(c, scene, place, x);
    } else {
      c.fillStyle = faint(colors.paper, 0.74);
      c.fillRect(x, top, layout.right - x + 1, place.bottom - top + 1);
    }
    if (engines) drawLit(c, scene, n, stateAt(lane, t, glow), t);
    if (scale.x(t) < layout.left - 1 || scale.x(t) > layout.right + 1) return;
    c.fillStyle = colors.ink;
    c.fillRect(x - 0.75, top, 1.5, place.bottom - top + 1);
  });
  if (at !== null && engines) flag(c, scene, at);
  if (hover?.box) outline(c, hover.box, colors.ink);
  if (selection) span(c, scene, selection);
}

function inside(layout, x) {
  return Math.min(Math.max(x, layout.left), layout.right);
}

/** What is not over yet in a live run: a silence grows while it lasts. */
function openTrack(c, scene, lane, place, t) {
  const since = openStall(lane, t);
  const track = lane.tracks.findIndex((one) => one.name === "decode");
  if (since !== null && track >= 0) hatch(c, scene, since, t, place.tracks[track].y, place.tracks[track].height);
}

function openRows(c, scene, lane, place, t) {
  place.rows.forEach((at, i) => {
    const row = lane.rows[i];
    const waited = row.at.length && row.at.at(-1) < t ? waitedFor(lane, row, t) : 0;
    if (waited) hatch(c, scene, t - waited, t, at.y + 1, at.height - 2);
  });
}

function hatch(c, { scale, layout, fills }, from, to, y, height) {
  const left = inside(layout, scale.x(from));
  c.fillStyle = fills.stall;
  c.fillRect(left, y, inside(layout, scale.x(to)) - left, height);
}

/** What comes after the growing edge has no picture yet, only its ground. */
function notYet(c, { layout, colors }, place, x) {
  const blank = ({ y, height }, color) => {
    c.fillStyle = color;
    c.fillRect(x, y, layout.right - x + 1, height);
  };
  const first = place.grounds?.[0] ?? place.rows[0] ?? { y: place.top };
  blank({ y: first.y, height: place.bottom - first.y }, colors.paper);
  for (const ground of place.grounds ? [...place.grounds, place.kv] : [{ y: first.y, height: place.bottom - first.y }]) blank(ground, colors.panel);
}

/** The moment, written on the axis under the play-head. */
function flag(c, scene, t) {
  const { layout, scale, colors } = scene;
  const x = inside(layout, scale.x(t));
  const label = numbers.moment(t);
  const y = layout.axis + 1;
  c.font = `600 12px ${colors.font}`;
  const width = c.measureText(label).width + 12;
  const left = Math.min(Math.max(x - width / 2, 0), layout.width - width);
  plate(c, left, y + 4, width, 19, colors.ink);
  c.beginPath();
  c.moveTo(x, y - 1);
  c.lineTo(x - 5, y + 5);
  c.lineTo(x + 5, y + 5);
  c.fill();
  text(c, scene, label, left + width / 2, y + 13.5, { align: "center", size: 12, weight: 600, color: colors.paper });
}

function outline(c, { x, y, width, height }, color) {
  c.strokeStyle = color;
  c.lineWidth = 1.5;
  c.strokeRect(x - 0.75, y - 0.75, width + 1.5, height + 1.5);
}

function span(c, { layout, colors }, edges) {
  const [a, b] = edges.map((x) => inside(layout, x));
  c.fillStyle = faint(colors.accent, 0.18);
  c.fillRect(Math.min(a, b), 0, Math.abs(b - a), layout.axis);
  c.fillStyle = colors.accent;
  for (const edge of [a, b]) c.fillRect(edge - 0.5, 0, 1, layout.axis);
}
