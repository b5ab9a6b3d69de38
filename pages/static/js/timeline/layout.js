// Where everything stands: heights in CSS pixels from the top of each canvas. Pure.

const NARROW = 680;

/** Sizes that differ between a wide screen, with diagrams left of the tracks, and a phone, with a strip above them. */
function sizes(width) {
  return width >= NARROW
    ? { narrow: false, gutter: 190, title: 34, strip: 0, track: 30, link: 16, seam: 3, kv: 26, gap: 26, right: 12 }
    : { narrow: true, gutter: 46, title: 46, strip: 34, track: 26, link: 13, seam: 3, kv: 24, gap: 24, right: 6 };
}

const AXIS = 46;
const TOP = 2;
const ROW = 11;
const LONG_ROW = 16;
const ROWS_TITLE = 28;
export const MAX_ROWS = 32;

/** The engines' block: lanes with their tracks, their KV strip and the parts of their diagram. */
export function lanesLayout(model, width) {
  const size = sizes(width);
  const box = { left: size.gutter, right: width - size.right };
  let y = TOP;
  const lanes = model.lanes.map((lane) => {
    const top = y;
    y += size.title;
    const strip = size.strip && { y, height: size.strip - 10 };
    y += size.strip;
    const tracks = [];
    const grounds = [];
    lane.tracks.forEach((track, i) => {
      const height = track.name === "transfer" ? size.link : size.track;
      const before = lane.tracks[i - 1];
      if (before && before.worker !== track.worker) y += size.seam * 2;
      else if (before) y += size.seam;
      if (!before || before.worker !== track.worker) grounds.push({ y, height: 0 });
      tracks.push({ y, height });
      y += height;
      grounds.at(-1).height = y - grounds.at(-1).y;
    });
    y += 6;
    const kv = { y, height: size.kv };
    y += size.kv + size.gap;
    return { top, strip, tracks, grounds, kv, bottom: kv.y + kv.height };
  });
  y += 4 - size.gap;
  return { ...size, ...box, width, lanes, axis: y, height: y + AXIS };
}

/** The requests' block: a row each, at most MAX_ROWS a lane. */
export function rowsLayout(model, width) {
  const size = sizes(width);
  let y = 0;
  const lanes = model.lanes.map((lane) => {
    const top = y;
    if (!lane.rows.length) return { top, rows: [], bottom: top };
    y += ROWS_TITLE;
    const rows = lane.rows.slice(0, MAX_ROWS).map((row) => {
      const height = row.kind === "long" ? LONG_ROW : ROW;
      y += height;
      return { y: y - height, height };
    });
    const bottom = y;
    y += 14;
    return { top, rows, bottom };
  });
  return { ...size, left: size.gutter, right: width - size.right, width, lanes, axis: y - 8, height: y - 8 + AXIS };
}

/** The parts of a lane's diagram: on a wide screen each cell stands beside its track, on a phone all in a strip. */
export function diagramParts(lane, place, layout) {
  const wide = !layout.narrow;
  const engines = [];
  lane.tracks.forEach((track, i) => {
    if (track.name === "transfer") return;
    const last = engines.at(-1);
    if (last && last.worker === track.worker) last.cells.push(i);
    else engines.push({ worker: track.worker, cells: [i] });
  });
  const link = lane.tracks.findIndex((track) => track.name === "transfer");
  const cells = new Array(lane.tracks.length).fill(null);
  const boxes = [];
  if (wide) {
    const x = 66;
    const width = layout.left - 14 - x;
    for (const engine of engines) {
      const first = place.tracks[engine.cells[0]];
      const last = place.tracks[engine.cells.at(-1)];
      boxes.push({ x, y: first.y, width, height: last.y + last.height - first.y });
      engine.cells.forEach((i, k) => {
        const { y, height } = place.tracks[i];
        cells[i] = { x, y, width, height: height + (k < engine.cells.length - 1 ? layout.seam : 0) };
      });
    }
    const first = cells[0];
    const middle = first.y + first.height / 2;
    const queue = { x: 0, y: middle - 10, width: 46, height: 20 };
    const wire = link < 0 ? null : { x: x + width / 2, from: place.tracks[link].y - layout.seam * 2, to: place.tracks[link].y + place.tracks[link].height + layout.seam * 2, down: true };
    return { queue, arrow: { from: 49, to: x - 3, y: middle }, cells, boxes, wire };
  }
  const { y, height } = place.strip;
  const queue = { x: 0, y, width: 58, height };
  const start = 78;
  const wireWidth = link < 0 ? 0 : 44;
  const all = engines.reduce((n, engine) => n + engine.cells.length, 0);
  const unit = (layout.right - start - wireWidth - (engines.length - 1 - (wireWidth ? 1 : 0)) * 6) / all;
  let x = start;
  let wire = null;
  engines.forEach((engine, e) => {
    boxes.push({ x, y, width: unit * engine.cells.length, height });
    for (const i of engine.cells) {
      cells[i] = { x, y, width: unit, height };
      x += unit;
    }
    const following = engines[e + 1];
    if (following && link >= 0 && lane.tracks[following.cells[0]].name === "decode" && !wire) {
      wire = { x, from: x, to: x + wireWidth, y: y + height / 2, down: false };
      x += wireWidth;
    } else x += 6;
  });
  return { queue, arrow: { from: 61, to: start - 3, y: y + height / 2 }, cells, boxes, wire };
}
