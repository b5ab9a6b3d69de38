// The three pictures of a layout: the ranks on a circle with the keys and values they hold, the matrix of chunk pairs, and the
// rounds as bars in time. Each gives an SVG element and how to set it to a round. What they show is also said in words (ring.js).

import { s } from "../shared/dom.js";
import { chunksOf, kind, roundOf, rounds, source } from "./rounds.js";

const CIRCLE = { width: 292, height: 284, radius: { 2: 88, 3: 98, 4: 100, 6: 104 }, node: [84, 72], block: [72, 24] };
const MATRIX = { size: 288, label: 24 };
const BARS = { width: 440, row: 20, gap: 4, label: 52, foot: 2 };

let pictures = 0;

/** Ranks with their queries; blocks of K and V that wander from one to the next. */
export function circle(ranks, layout, words) {
  const id = `rg-arrow-${++pictures}`;
  const [w, hgt] = CIRCLE.node;
  const at = Array.from({ length: ranks }, (_, rank) => place(rank, ranks));
  const arrows = at.map((from, rank) => s("path", { class: "rg-arrow", d: between(from, at[(rank + 1) % ranks], ranks), "marker-end": `url(#${id})` }));
  const nodes = at.map(([x, y], rank) =>
    s(
      "g",
      { transform: `translate(${x} ${y})` },
      s("rect", { class: `rg-node rg-of-${rank}`, x: -w / 2, y: -hgt / 2, width: w, height: hgt, rx: 8 }),
      s("text", { class: "rg-name", y: -hgt / 2 + 16 }, words("steps.rank", { n: rank })),
      s("text", { y: -hgt / 2 + 32 }, `Q ${chunksOf(rank, ranks, layout).join(", ")}`),
    ),
  );
  const blocks = at.map((_, rank) => {
    const [bw, bh] = CIRCLE.block;
    const label = `K V ${chunksOf(rank, ranks, layout).join(", ")}`;
    return s("g", { class: "rg-block" }, s("rect", { class: `rg-of-${rank}`, x: -bw / 2, y: -bh / 2, width: bw, height: bh, rx: 5 }), s("text", { y: 5 }, label));
  });
  const marker = s("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }, s("path", { d: "M0 0L8 4L0 8Z" }));
  const element = s("svg", { class: "rg-circle", viewBox: `0 0 ${CIRCLE.width} ${CIRCLE.height}`, role: "img" }, s("defs", {}, marker), ...arrows, ...nodes, ...blocks);
  return {
    element,
    set(round, text) {
      element.setAttribute("aria-label", text);
      // In the last round nothing is handed on: the circle is not closed.
      element.classList.toggle("rg-last", round === ranks - 1);
      blocks.forEach((block, owner) => {
        const [x, y] = at[(owner + round) % ranks];
        block.style.transform = `translate(${x}px, ${y + 18}px)`;
      });
    },
  };
}

/** Chunks of queries down, chunks of keys across; in every cell the round in which it is computed. */
export function matrix(ranks, layout, words) {
  const n = 2 * ranks;
  const c = MATRIX.size / n;
  const ownerOf = (chunk) => Array.from({ length: ranks }, (_, r) => r).find((rank) => chunksOf(rank, ranks, layout).includes(chunk));
  const labels = [];
  const cells = [];
  for (let q = 0; q < n; q++) {
    for (const down of [true, false]) {
      const [x, y, w, h] = down ? [0, MATRIX.label + q * c + 1, MATRIX.label - 4, c - 2] : [MATRIX.label + q * c + 1, 0, c - 2, MATRIX.label - 4];
      labels.push(s("rect", { class: `rg-of-${ownerOf(q)}`, x, y, width: w, height: h, rx: 3 }), s("text", { class: "rg-mark", x: x + w / 2, y: y + h / 2 + 4 }, String(q)));
    }
    for (let k = 0; k < n; k++) cells.push(cell(q, k));
  }
  function cell(q, k) {
    const [x, y] = [MATRIX.label + k * c, MATRIX.label + q * c];
    const what = kind(q, k);
    const shape =
      what === "diagonal"
        ? s("path", { d: `M${x + 1} ${y + 1}L${x + c - 1} ${y + c - 1}H${x + 1}Z` })
        : s("rect", { x: x + 1, y: y + 1, width: c - 2, height: c - 2, rx: 2 });
    const middle = what === "diagonal" ? [x + c * 0.3, y + c * 0.84] : [x + c / 2, y + c / 2 + 4];
    const round = roundOf(q, k, ranks, layout);
    const text = what === "skipped" ? null : s("text", { x: middle[0], y: middle[1] }, String(round));
    return { round, what, group: s("g", { class: `rg-cell rg-${what}` }, shape, text) };
  }
  const side = MATRIX.size + MATRIX.label;
  const element = s("svg", { class: "rg-matrix", viewBox: `-1 -1 ${side + 2} ${side + 2}`, role: "img", "aria-label": words("steps.matrix") }, ...labels, ...cells.map(({ group }) => group));
  return {
    element,
    set(now) {
      for (const { round, what, group } of cells) {
        group.classList.toggle("rg-now", what !== "skipped" && round === now);
        group.classList.toggle("rg-done", what !== "skipped" && round < now);
      }
    },
  };
}

/** A row for each rank: what it computes in each round, and how long it waits for the slowest. longest: where the axis ends. */
export function bars(ranks, layout, longest, words) {
  const { width, row, gap, label } = BARS;
  const x = (value) => label + (value / longest) * (width - label - 2);
  const groups = rounds(ranks, layout).map(({ begin, each, longest: lasts }, round) => {
    const parts = each.flatMap((done, rank) => {
      const y = rank * (row + gap);
      const [from, until, to] = [x(begin), x(begin + done), x(begin + lasts)];
      return [
        done > 0 && s("rect", { class: "rg-busy", x: from + 1, y, width: until - from - 2, height: row, rx: 3 }),
        done > 0 && until - from > 14 && s("text", { x: (from + until) / 2, y: y + row / 2 + 4.5 }, String(round)),
        done < lasts && s("rect", { class: "rg-idle", x: until + 1, y: y + 1, width: to - until - 2, height: row - 2, rx: 3 }),
      ].filter(Boolean);
    });
    return s("g", { class: "rg-round" }, ...parts);
  });
  const names = Array.from({ length: ranks }, (_, rank) => s("text", { class: "rg-row", x: label - 8, y: rank * (row + gap) + row / 2 + 4.5 }, words("steps.rank", { n: rank })));
  const height = ranks * (row + gap) - gap + BARS.foot;
  const element = s("svg", { class: "rg-bars", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words("steps.bars") }, ...names, ...groups);
  return {
    element,
    set(now) {
      groups.forEach((group, round) => {
        group.classList.toggle("rg-now", round === now);
        group.classList.toggle("rg-later", round > now);
      });
    },
  };
}

/** What a rank does in a round: [chunks of queries, whose K and V, kinds of the chunk pairs]. */
export function doing(rank, round, ranks, layout) {
  const from = source(rank, round, ranks);
  const pairs = chunksOf(rank, ranks, layout).flatMap((q) => chunksOf(from, ranks, layout).map((k) => kind(q, k)));
  return { from, full: pairs.filter((p) => p === "full").length, diagonal: pairs.filter((p) => p === "diagonal").length };
}

function place(rank, ranks) {
  const turn = (2 * Math.PI * rank) / ranks - Math.PI / 2;
  const radius = CIRCLE.radius[ranks];
  return [CIRCLE.width / 2 + radius * Math.cos(turn), CIRCLE.height / 2 + radius * Math.sin(turn)].map((v) => Math.round(v * 10) / 10);
}

/** An arrow that bends outwards and ends short of the boxes. */
function between([x0, y0], [x1, y1], ranks) {
  const [cx, cy] = [CIRCLE.width / 2, CIRCLE.height / 2];
  const out = ranks === 2 ? [y1 > y0 ? 84 : -84, 0] : [((x0 + x1) / 2 - cx) * 0.42, ((y0 + y1) / 2 - cy) * 0.42];
  const [mx, my] = [(x0 + x1) / 2 + out[0], (y0 + y1) / 2 + out[1]];
  const short = ([x, y]) => {
    const [dx, dy] = [mx - x, my - y];
    const edge = Math.min(...[Math.abs((CIRCLE.node[0] / 2 + 4) / (dx || 1e-9)), Math.abs((CIRCLE.node[1] / 2 + 4) / (dy || 1e-9)), 0.9]);
    return [x + dx * edge, y + dy * edge].map((v) => Math.round(v * 10) / 10);
  };
  return `M${short([x0, y0]).join(" ")}Q${Math.round(mx)} ${Math.round(my)} ${short([x1, y1]).join(" ")}`;
}
