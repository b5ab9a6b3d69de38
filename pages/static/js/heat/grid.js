// All heads at a glance: a cell per layer and head. A click, a tap or the arrow keys choose one; on a narrow screen the layers
// run downwards. Beside the heads stand each layer's mean and what an even spread would give.

import { s } from "../shared/dom.js";
import { share } from "./label.js";

const NARROW_PX = 620;
const HEAD_PX = 21;
const LAYER_PX = 15;
const GAP_PX = 8;

export class Grid {
  /** chosen([layer, head], settled): settled is false while the keys still move; tip: shown(x, y, lines) or shown(null). */
  constructor(place, chosen, tip) {
    this.place = place;
    this.chosen = chosen;
    this.tip = tip;
    this.svg = s("svg", { class: "ht-grid", role: "group" });
    place.append(this.svg);
    this.svg.addEventListener("pointermove", (event) => this.#hover(event));
    this.svg.addEventListener("pointerleave", () => this.tip(null));
    this.svg.addEventListener("click", (event) => this.#click(event));
    this.svg.addEventListener("keydown", (event) => this.#key(event));
  }

  /** data: { rows: [layer][head] shares, even }; text(layer, head): a cell in words, line by line. */
  draw({ rows, even }, at, colours, words, text) {
    Object.assign(this, { rows, at, text });
    const width = this.place.clientWidth;
    if (!width) return;
    const [layers, heads] = [rows.length, rows[0].length];
    const narrow = width < NARROW_PX;
    this.narrow = narrow;
    const [left, top] = narrow ? [34, 34] : [72, 20];
    const across = narrow ? heads + 2 : layers;
    const cell = { w: (width - left - 2 - (narrow ? GAP_PX : 0)) / across, h: narrow ? LAYER_PX : HEAD_PX };
    // The last two rows (columns on a narrow screen) are the mean and the even spread, a little apart.
    const apart = (row) => (row < heads ? 0 : GAP_PX);
    const place = (layer, row) => (narrow ? [left + row * cell.w + apart(row), top + layer * cell.h] : [left + layer * cell.w, top + row * cell.h + apart(row)]);
    const height = narrow ? top + layers * cell.h + 22 : top + (heads + 2) * cell.h + GAP_PX + 40;
    const had = this.svg.contains(document.activeElement);
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) this.svg.setAttribute(name, value);
    this.svg.setAttribute("aria-label", words("heat.grid_label"));
    const box = (layer, row, value, more = {}) => {
      const [x, y] = place(layer, row);
      const rect = s("rect", { x, y, width: Math.max(1, cell.w - 1), height: cell.h - 1, ...more });
      rect.style.fill = colours.of(value);
      return rect;
    };
    this.cells = rows.map((row, layer) =>
      row.map((value, head) =>
        box(layer, head, value, { class: "ht-cell", role: "button", tabindex: -1, "data-at": `${layer} ${head}`, "aria-label": text(layer, head).join(", ") }),
      ),
    );
    const means = rows.map((row, layer) => box(layer, heads, row.reduce((sum, value) => sum + value, 0) / heads));
    const evens = rows.map((_, layer) => box(layer, heads + 1, even));
    this.ring = s("rect", { class: "ht-ring", width: cell.w + 1, height: cell.h + 1, "aria-hidden": "true" });
    this.place0 = place;
    this.svg.replaceChildren(...this.cells.flat(), s("g", { "aria-hidden": "true" }, ...means, ...evens, ...this.#labels(place, cell, layers, heads, width, height, words)), this.ring);
    this.mark(at);
    if (had) this.cells[at[0]][at[1]].focus();
  }

  /** Show a head as the chosen one. */
  mark([layer, head]) {
    const [was, old] = this.at;
    this.at = [layer, head];
    for (const [l, h, is] of [[was, old, false], [layer, head, true]]) {
      const cell = this.cells[l]?.[h];
      cell?.setAttribute("tabindex", is ? 0 : -1);
      cell?.setAttribute("aria-pressed", String(is));
    }
    const [x, y] = this.place0(layer, head);
    this.ring.setAttribute("x", x - 1);
    this.ring.setAttribute("y", y - 1);
  }

  #labels(place, cell, layers, heads, width, height, words) {
    const found = [];
    const label = (text, x, y, anchor = "middle", turn = null) => found.push(s("text", { class: "ht-tick", x, y, "text-anchor": anchor, transform: turn }, text));
    const every = this.narrow || cell.w >= 22 ? 1 : cell.w >= 11 ? 2 : 5;
    for (let layer = 0; layer < layers; layer += this.narrow ? 2 : every) {
      const [x, y] = place(layer, 0);
      if (this.narrow) label(layer, x - 6, y + cell.h - 4, "end");
      else label(layer, x + cell.w / 2, height - 24);
    }
    const names = [...Array.from({ length: heads }, (_, head) => String(head)), words("heat.mean"), words("heat.even_short")];
    names.forEach((name, row) => {
      const [x, y] = place(0, row);
      if (this.narrow) label(name, x + cell.w / 2, y - 5);
      else label(name, x - 6, y + cell.h / 2 + 4, "end");
    });
    if (this.narrow) {
      label(words("heat.head_axis"), (place(0, 0)[0] + place(0, heads)[0]) / 2, 12);
      label(words("heat.layer_axis"), 2, height - 6, "start");
    } else {
      label(words("heat.layer_axis"), (72 + width) / 2, height - 6);
      const y = (place(0, 0)[1] + place(0, heads)[1]) / 2;
      label(words("heat.head_axis"), 0, 0, "middle", `translate(12 ${y}) rotate(-90)`);
    }
    return found;
  }

  #hover(event) {
    const at = this.#under(event);
    if (!at) return this.tip(null);
    const [x, y] = this.place0(...at);
    this.tip(x, y, this.text(...at));
  }

  #under(event) {
    const named = event.target.dataset?.at;
    return named ? named.split(" ").map(Number) : null;
  }

  #click(event) {
    const at = this.#under(event);
    if (at) this.#choose(at, true);
  }

  #choose(at, settled) {
    this.mark(at);
    this.chosen(at, settled);
  }

  #key(event) {
    const [layer, head] = this.#under(event) ?? this.at;
    const [alongX, alongY] = this.narrow ? [[0, 1], [1, 0]] : [[1, 0], [0, 1]];
    const step = { ArrowRight: alongX, ArrowLeft: alongX.map((n) => -n), ArrowDown: alongY, ArrowUp: alongY.map((n) => -n) }[event.key];
    let to = null;
    if (step) to = [layer + step[0], head + step[1]];
    else if (event.key === "Home") to = [0, head];
    else if (event.key === "End") to = [this.rows.length - 1, head];
    else if (event.key === "Enter" || event.key === " ") return event.preventDefault(), this.#choose([layer, head], true);
    if (!to) return;
    event.preventDefault();
    const inside = (value, most) => Math.min(Math.max(value, 0), most - 1);
    to = [inside(to[0], this.rows.length), inside(to[1], this.rows[0].length)];
    this.#choose(to, false);
    this.cells[to[0]][to[1]].focus();
    const [x, y] = this.place0(...to);
    this.tip(x, y, this.text(...to));
  }
}

/** What a cell says, line by line. */
export function cellLines(data, layer, head, words) {
  const value = data.rows[layer][head];
  return [words("heat.head", { layer, head }), words(`heat.gets_${data.measure}`, { share: share(value), k: data.k }), words("heat.even", { share: share(data.even) })];
}
