// One head in full: a row for every query, a column for every key, the colour its probability. The pointer or the arrow keys
// move the cell that is put into words below. Keys after the query cannot be seen and are left empty.

import { h, s } from "../shared/dom.js";
import { isolated, share, short } from "./label.js";
import { rooted } from "./colour.js";

const MOST_PX = 620;
const LABEL_PX = 13;
const NARROW_PX = 480;

export class HeadMap {
  /** said(text): what the chosen cell is, in words. */
  constructor(place, said) {
    this.said = said;
    this.cell = null;
    this.svg = s("svg", { class: "ht-map", "aria-hidden": "true" });
    this.element = h("div", { class: "ht-frame", role: "application", tabindex: 0 }, this.svg);
    place.append(this.element);
    this.svg.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.#at(event));
    this.svg.addEventListener("click", (event) => this.#at(event));
    this.element.addEventListener("keydown", (event) => this.#key(event));
  }

  /** map: { size, shares: up to the diagonal, query by query, bins: [[first, last, label, label], ...], reduced }. */
  draw(map, colours, words, label) {
    Object.assign(this, { map, words });
    const width = Math.min(this.element.clientWidth, MOST_PX);
    if (!width) return;
    const n = map.size;
    const margin = width < NARROW_PX ? 62 : 84;
    const side = width - margin - 2;
    const cell = side / n;
    Object.assign(this, { margin, side, width });
    const height = width;
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.svg.setAttribute(name, value);
    this.element.setAttribute("aria-label", label);
    const cells = [];
    const overlap = cell > 4 ? 0.5 : 0;
    for (let q = 0; q < n; q++) {
      for (let k = 0; k <= q; k++) {
        const rect = s("rect", { x: margin + k * cell, y: margin + q * cell, width: cell - overlap, height: cell - overlap });
        rect.style.fill = colours.of(rooted(map.shares[place(q, k)]));
        cells.push(rect);
      }
    }
    const late = s("text", { class: "ht-tick", x: margin + side - 6, y: margin + 18, "text-anchor": "end" }, words("heat.later"));
    this.cursor = s("rect", { class: "ht-ring", width: Math.max(cell, 4) + 1, height: Math.max(cell, 4) + 1 });
    const frame = s("rect", { class: "ht-edge", x: margin - 0.5, y: margin - 0.5, width: side + 1, height: side + 1 });
    this.svg.replaceChildren(frame, s("g", {}, ...cells), n > 3 ? late : "", ...this.#labels(cell), this.cursor);
    const [q, k] = this.cell ?? [n - 1, 0];
    this.#show(Math.min(q, n - 1), Math.min(k, q, n - 1));
  }

  #labels(cell) {
    const { map, margin, side, words } = this;
    const every = Math.max(1, Math.ceil(LABEL_PX / cell));
    const most = margin > 70 ? 8 : 5;
    const found = [
      s("text", { class: "ht-tick", x: 2, y: 12 }, words("heat.keys_axis")),
      s("text", { class: "ht-tick", x: 2, y: 26 }, words("heat.queries_axis")),
    ];
    for (let i = 0; i < map.size; i += every) {
      const [first, , label] = map.bins[i];
      const text = `${isolated(short(label, most))} ${first}`;
      const at = margin + (i + 0.5) * cell;
      found.push(s("text", { class: "ht-token", x: margin - 5, y: at + 4, "text-anchor": "end" }, text));
      if (at < margin + side - 2) found.push(s("text", { class: "ht-token", transform: `translate(${at + 4} ${margin - 6}) rotate(-90)` }, `${first} ${isolated(short(label, most))}`));
    }
    return found;
  }

  #at(event) {
    const frame = this.svg.getBoundingClientRect();
    const per = this.side / this.map.size;
    const k = Math.floor((event.clientX - frame.left - this.margin) / per);
    const q = Math.floor((event.clientY - frame.top - this.margin) / per);
    if (k < 0 || q < 0 || k >= this.map.size || q >= this.map.size) return;
    this.#show(q, k);
  }

  #key(event) {
    const n = this.map.size;
    const [q, k] = this.cell;
    const to = { ArrowRight: [q, k + 1], ArrowLeft: [q, k - 1], ArrowDown: [q + 1, k], ArrowUp: [q - 1, k], Home: [q, 0], End: [q, q], PageDown: [q + 8, k], PageUp: [q - 8, k] }[event.key];
    if (!to) return;
    event.preventDefault();
    const inside = (value) => Math.min(Math.max(value, 0), n - 1);
    this.#show(inside(to[0]), inside(to[1]));
  }

  #show(q, k) {
    this.cell = [q, k];
    const per = this.side / this.map.size;
    this.cursor.setAttribute("x", this.margin + k * per - 0.75);
    this.cursor.setAttribute("y", this.margin + q * per - 0.75);
    this.said(this.#text(q, k));
  }

  #text(q, k) {
    const { words, map } = this;
    const facts = { query: this.#name(map.bins[q]), key: this.#name(map.bins[k]) };
    if (k > q) return words("heat.cell_later", facts);
    return words(map.reduced ? "heat.cell_mean" : "heat.cell", { ...facts, share: share(map.shares[place(q, k)]) });
  }

  #name([first, last, from, to]) {
    if (first === last) return this.words("heat.token", { n: first, token: isolated(short(from, 24)) });
    return this.words("heat.tokens", { from: first, to: last, first: isolated(short(from, 16)), last: isolated(short(to, 16)) });
  }
}

/** Where a cell is among the bytes: a row ends at the diagonal. */
function place(q, k) {
  return (q * (q + 1)) / 2 + k;
}
