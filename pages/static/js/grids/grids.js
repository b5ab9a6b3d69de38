// Small tables of shares side by side. One cell of each grid can be reached by Tab, the arrow keys go on from there; the cell
// under the pointer or the focus is told in full. Colours come from the style sheet.

import { h } from "../shared/dom.js";

const LEAST_PX = 258;
const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };

export class Grids {
  constructor(place) {
    this.at = new Map(); // of each grid, by title: the cell that Tab reaches
    this.list = h("div", { class: "gd-list" });
    this.tip = h("div", { class: "gd-tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    this.words = h("p", { class: "lab-unseen" });
    this.element = h("div", { class: "gd" }, this.words, this.list, this.tip);
    place.append(this.element);
    this.watch = new ResizeObserver(() => this.#spread());
    this.watch.observe(this.element);
    for (const kind of ["pointerover", "focusin"]) this.list.addEventListener(kind, (event) => this.#tell(event.target.closest(".gd-cell")));
    this.list.addEventListener("pointerleave", () => this.#tell(this.list.querySelector(".gd-cell:focus-visible")));
    this.list.addEventListener("focusout", () => this.#tell(null));
    this.list.addEventListener("keydown", (event) => this.#key(event));
  }

  destroy() {
    this.watch.disconnect();
    this.element.remove();
  }

  draw(spec, alt) {
    this.spec = spec;
    this.words.textContent = alt;
    const had = this.list.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    this.list.replaceChildren(...spec.grids.map((grid, number) => this.#grid(grid, number)));
    this.#spread();
    this.#tell(null);
    if (had) this.list.querySelector(`[data-at="${CSS.escape(had)}"]`)?.focus();
  }

  /** As many beside each other as have room, in rows that are as full as each other. */
  #spread() {
    const count = this.list.children.length;
    const most = Math.max(1, Math.floor(this.element.clientWidth / LEAST_PX));
    this.list.style.setProperty("--across", Math.ceil(count / Math.ceil(count / most)) || 1);
  }

  #grid(grid, number) {
    const { columns, rows, across, down } = this.spec;
    const known = this.at.get(grid.title);
    const first = known && grid.rows[known[0]]?.[known[1]] ? known : firstOf(grid.rows);
    const head = h("tr", {}, h("th", { class: "gd-corner", scope: "col" }, down), ...columns.map(([name, small]) => h("th", { scope: "col" }, name, h("small", {}, small))));
    const body = grid.rows.map((cells, row) =>
      h("tr", {}, h("th", { scope: "row" }, rows[row]), ...cells.map((cell, column) => this.#cell(cell, `${number} ${row} ${column}`, first && first[0] === row && first[1] === column))),
    );
    const over = h("th", { class: "gd-across", colspan: columns.length, scope: "colgroup" }, across);
    return h("table", { class: "gd-grid", role: "grid", "aria-label": grid.title }, h("caption", {}, grid.title), h("thead", {}, h("tr", {}, h("td"), over), head), h("tbody", {}, ...body));
  }

  #cell(cell, at, first) {
    if (!cell) return h("td", { class: "gd-none" }, "–");
    const made = h(
      "td",
      { class: `gd-cell${cell.low ? " gd-low" : ""}${cell.mark ? ` gd-${cell.mark}` : ""}`, role: "gridcell", tabindex: first ? 0 : -1, "data-at": at, "aria-label": cell.told.replaceAll("\n", ", ") },
      cell.text,
    );
    made.style.setProperty("--shade", cell.shade);
    return made;
  }

  #of(node) {
    const [number, row, column] = node.dataset.at.split(" ").map(Number);
    return { grid: this.spec.grids[number], number, row, column };
  }

  #key(event) {
    const node = event.target.closest(".gd-cell");
    const step = STEPS[event.key];
    if (!node || (!step && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    const { grid, number, row, column } = this.#of(node);
    const last = grid.rows[0].length - 1;
    let [to, over] = step ? [row + step[0], column + step[1]] : [row, event.key === "Home" ? 0 : last];
    while (step && grid.rows[to]?.[over] === null) [to, over] = [to + step[0], over + step[1]]; // over what is not measured
    const next = this.list.querySelector(`[data-at="${number} ${to} ${over}"]`);
    if (!next) return;
    node.tabIndex = -1;
    next.tabIndex = 0;
    this.at.set(grid.title, [to, over]);
    next.focus();
  }

  #tell(node) {
    this.tip.hidden = !node;
    if (!node) return;
    const { grid, row, column } = this.#of(node);
    const [title, ...lines] = grid.rows[row][column].told.split("\n");
    this.tip.replaceChildren(h("b", {}, title), ...lines.map((line) => h("span", {}, line)));
    const [cell, all, tip] = [node, this.element, this.tip].map((element) => element.getBoundingClientRect());
    const left = Math.min(Math.max(0, cell.left - all.left + cell.width / 2 - tip.width / 2), Math.max(0, all.width - tip.width));
    const above = cell.top - all.top - tip.height - 6;
    const top = above >= 0 ? above : cell.bottom - all.top + 6;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}

function firstOf(rows) {
  for (const [row, cells] of rows.entries()) {
    const column = cells.findIndex((cell) => cell !== null);
    if (column >= 0) return [row, column];
  }
  return null;
}
