// A chart in SVG: lines, bands, points one can pick, marks. What to draw is data (see pages/_ui/plot.py for its form).
// Colours come from the style sheet, so that the theme needs no redrawing.

import { h, s } from "../shared/dom.js";
import { apart, placed, scale } from "./scale.js";

const NARROW_PX = 620;
const LABEL_PX = 17;
const NEAR_PX = 26;
const SYMBOLS = {
  circle: (r) => `M${-r} 0a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0Z`,
  square: (r) => `M${-r * 0.9} ${-r * 0.9}h${r * 1.8}v${r * 1.8}h${-r * 1.8}Z`,
  diamond: (r) => `M0 ${-r * 1.25}L${r * 1.25} 0L0 ${r * 1.25}L${-r * 1.25} 0Z`,
  triangle: (r) => `M0 ${-r * 1.15}L${r * 1.15} ${r * 0.9}L${-r * 1.15} ${r * 0.9}Z`,
};

let charts = 0;

/** draw() again whenever the data or the width has changed; what the reader did stays. */
export class Chart {
  /** picked(id): called when a point is chosen. */
  constructor(place, picked = () => {}) {
    this.picked = picked;
    this.id = `pl-${++charts}`;
    this.chosen = null;
    this.focused = null;
    this.legend = h("ul", { class: "pl-legend", "aria-hidden": "true" });
    this.svg = s("svg", { class: "pl-svg" });
    this.tip = h("div", { class: "pl-tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    this.element = h("div", { class: "pl" }, this.legend, h("div", { class: "pl-frame" }, this.svg, this.tip));
    place.append(this.element);
    this.svg.addEventListener("pointermove", (event) => this.#hover(event));
    this.svg.addEventListener("pointerleave", () => this.#tell(null));
    this.svg.addEventListener("click", (event) => this.#click(event));
    this.svg.addEventListener("keydown", (event) => this.#key(event));
    this.watch = new ResizeObserver(() => this.spec && this.element.clientWidth !== this.width && this.draw(this.spec, this.alt));
    this.watch.observe(this.element);
  }

  destroy() {
    this.watch.disconnect();
    this.element.remove();
  }

  draw(spec, alt) {
    this.spec = spec;
    this.alt = alt;
    this.width = this.element.clientWidth;
    if (!this.width) return;
    const narrow = this.width < NARROW_PX;
    const named = narrow ? [] : (spec.lines ?? []).filter((line) => line.label === "end" && line.points.length);
    const right = named.length ? Math.min(200, 16 + 1.04 * Math.max(...named.map((line) => textWidth(line.name)))) : 14;
    const left = 14 + Math.max(24, ...spec.y.ticks.map(([, label]) => textWidth(label, 11.5)));
    const box = { left: left + 22, right: this.width - right, top: 12, bottom: spec.height - 46 };
    const x = scale(spec.x, box.left, box.right);
    const y = scale(spec.y, box.bottom, box.top);
    Object.assign(this, { box, x, y, narrow });
    const pickable = (spec.points ?? []).length > 0;
    set(this.svg, { width: this.width, height: spec.height, viewBox: `0 0 ${this.width} ${spec.height}`, role: pickable ? "group" : "img", "aria-label": alt });
    const clip = s("clipPath", { id: `${this.id}-clip` }, s("rect", { x: box.left, y: box.top - 4, width: Math.max(0, box.right - box.left), height: box.bottom - box.top + 8 }));
    const inside = s("g", { "clip-path": `url(#${this.id}-clip)` }, ...(spec.areas ?? []).map((area) => this.#area(area)), ...(spec.lines ?? []).map((line) => this.#line(line)));
    const had = this.svg.contains(document.activeElement) ? this.focused : null;
    // The words of all marks above the lines of all marks: none is crossed out.
    const marks = (spec.marks ?? []).map((mark) => this.#mark(mark));
    const over = [...marks.flatMap(([line]) => line ?? []), ...marks.flatMap(([, text]) => text ?? [])];
    this.svg.replaceChildren(s("defs", {}, clip), ...this.#axes(), inside, ...over, ...this.#names(named), this.#points());
    if (had) this.svg.querySelector(`[data-id="${CSS.escape(had)}"]`)?.focus();
    this.#legend(named);
    this.#tell(null);
  }

  /** Show a point as the chosen one. */
  choose(id) {
    this.chosen = id;
    for (const node of this.svg.querySelectorAll(".pl-point")) {
      const is = node.dataset.id === id;
      node.classList.toggle("pl-chosen", is);
      node.setAttribute("aria-pressed", String(is));
    }
  }

  #axes() {
    const { spec, box, x, y } = this;
    const widest = Math.max(...spec.x.ticks.map(([, label]) => textWidth(label, 11.5)), 10);
    const across = placed(spec.x.ticks, x.at, widest + 16);
    const up = placed(spec.y.ticks, y.at, 16);
    return [
      s("g", { class: "pl-grid" }, ...across.map(([, , at]) => s("path", { d: `M${at} ${box.top}V${box.bottom}` })), ...up.map(([, , at]) => s("path", { d: `M${box.left} ${at}H${box.right}` }))),
      s("g", { class: "pl-ticks", "aria-hidden": "true" }, ...across.map(([, label, at]) => this.#tick(label, at)), ...up.map(([, label, at]) => s("text", { x: box.left - 7, y: at + 4, "text-anchor": "end" }, label))),
      s("text", { class: "pl-title", x: (box.left + box.right) / 2, y: spec.height - 8, "text-anchor": "middle", "aria-hidden": "true" }, spec.x.title),
      s("text", { class: "pl-title", transform: `translate(13 ${(box.top + box.bottom) / 2}) rotate(-90)`, "text-anchor": "middle", "aria-hidden": "true" }, spec.y.title),
    ];
  }

  /** A tick's label below the axis; the last one stays inside the picture. */
  #tick(label, at) {
    const late = at + textWidth(label, 11.5) / 2 > this.width - 2;
    return s("text", { x: late ? this.width - 2 : at, y: this.box.bottom + 17, "text-anchor": late ? "end" : "middle" }, label);
  }

  #area(area) {
    const up = area.points.map(([x, , high]) => `${this.x.at(x)} ${this.y.at(high)}`);
    const down = area.points.map(([x, low]) => `${this.x.at(x)} ${this.y.at(low)}`).reverse();
    return s("path", { class: `pl-area pl-style-${area.style ?? 0}`, d: area.points.length ? `M${up.join("L")}L${down.join("L")}Z` : "" });
  }

  #line(line) {
    const d = line.points.map(([x, y]) => `${round(this.x.at(x))} ${round(this.y.at(y))}`).join("L");
    return s("path", { class: `pl-line pl-style-${line.style ?? 0}${line.quiet ? " pl-quiet" : ""}${line.solid ? " pl-solid" : ""}`, "stroke-width": line.width ?? 2.2, d: d ? `M${d}` : "" });
  }

  #mark({ across, at, text }) {
    const { box } = this;
    if (across === "x") {
      const x = this.x.at(at);
      if (x < box.left - 1 || x > box.right + 1) return [];
      const late = x > box.left + (box.right - box.left) * 0.7;
      return [s("path", { class: "pl-mark", d: `M${x} ${box.top}V${box.bottom}` }), quiet(text, { x: x + (late ? -6 : 6), y: box.bottom - 8, "text-anchor": late ? "end" : "start", class: "pl-mark-text" })];
    }
    const y = this.y.at(at);
    if (y < box.top - 1 || y > box.bottom + 1) return [];
    return [s("path", { class: "pl-mark", d: `M${box.left} ${y}H${box.right}` }), quiet(text, { x: box.left + 6, y: y + (y < box.top + 18 ? 14 : -6), class: "pl-mark-text" })];
  }

  /** Each line's name at its right end. */
  #names(named) {
    const { box } = this;
    const ends = named.map((line) => line.points.findLast(([x]) => this.x.at(x) <= box.right + 1) ?? line.points.at(-1));
    const at = apart(ends.map(([, y]) => Math.min(Math.max(this.y.at(y), box.top), box.bottom)), LABEL_PX, box.top, box.bottom);
    return named.map((line, i) => s("text", { class: `pl-name pl-style-${line.style ?? 0}`, x: box.right + 8, y: at[i] + 4, "aria-hidden": "true" }, line.name));
  }

  #points() {
    const order = this.spec.points ?? [];
    const first = order.some((point) => point.id === this.focused) ? this.focused : order[0]?.id;
    return s(
      "g",
      {},
      ...order.map((point) =>
        s(
          "g",
          {
            class: `pl-point pl-style-${point.style ?? 0}${point.filled === false ? " pl-hollow" : ""}${point.id === this.chosen ? " pl-chosen" : ""}`,
            transform: `translate(${round(this.x.at(point.x))} ${round(this.y.at(point.y))})`,
            "data-id": point.id,
            role: "button",
            tabindex: point.id === first ? 0 : -1,
            "aria-label": point.text.replaceAll("\n", ", "),
            "aria-pressed": String(point.id === this.chosen),
            on: { focus: () => this.#focus(point) },
          },
          s("path", { class: "pl-ring", d: SYMBOLS.circle(10) }),
          s("path", { class: "pl-symbol", d: (SYMBOLS[point.shape] ?? SYMBOLS.circle)(5) }),
        ),
      ),
    );
  }

  /** The names that do not stand at their lines. */
  #legend(named) {
    const lines = (this.spec.lines ?? []).filter((line) => line.name && line.label !== "none" && !named.includes(line));
    const entries = [...(this.spec.legend ?? []), ...lines.map((line) => ({ name: line.name, style: line.style, solid: line.solid }))];
    this.legend.hidden = !entries.length;
    this.legend.replaceChildren(
      ...entries.map(({ name, style = 0, shape, filled, solid }) => {
        const mark = shape ? s("path", { class: "pl-symbol", d: SYMBOLS[shape](4.5), transform: "translate(12 7)" }) : s("path", { class: `pl-line${solid ? " pl-solid" : ""}`, "stroke-width": 2.4, d: "M1 7H23" });
        return h("li", {}, s("svg", { width: 24, height: 14, class: `pl-style-${style}${shape && filled === false ? " pl-hollow" : ""}` }, mark), name);
      }),
    );
  }

  #nearest(event) {
    const frame = this.svg.getBoundingClientRect();
    const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
    let best = null;
    const see = (x, y, text, id) => {
      const far = Math.hypot(x - px, y - py);
      if (text && far < NEAR_PX && (!best || far < best.far)) best = { far, x, y, text, id };
    };
    for (const point of this.spec.points ?? []) see(this.x.at(point.x), this.y.at(point.y), point.text, point.id);
    if (!best) for (const line of this.spec.lines ?? []) (line.texts ?? []).forEach((text, i) => see(this.x.at(line.points[i][0]), this.y.at(line.points[i][1]), text));
    return best;
  }

  #hover(event) {
    const found = this.#nearest(event);
    this.svg.style.cursor = found?.id ? "pointer" : "";
    this.#tell(found);
  }

  #click(event) {
    const found = this.#nearest(event);
    if (found?.id) this.#pick(found.id);
  }

  #pick(id) {
    this.choose(id);
    this.picked(id);
  }

  #focus(point) {
    this.focused = point.id;
    this.#tell({ x: this.x.at(point.x), y: this.y.at(point.y), text: point.text });
  }

  #key(event) {
    const order = this.spec.points ?? [];
    const at = order.findIndex((point) => point.id === event.target.dataset?.id);
    if (at < 0) return;
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const to = event.key === "Home" ? 0 : event.key === "End" ? order.length - 1 : step ? Math.min(Math.max(at + step, 0), order.length - 1) : null;
    if (event.key === "Enter" || event.key === " ") this.#pick(order[at].id);
    else if (to === null) return;
    else {
      const nodes = [...this.svg.querySelectorAll(".pl-point")];
      nodes.forEach((node, i) => node.setAttribute("tabindex", i === to ? 0 : -1));
      nodes[to].focus();
    }
    event.preventDefault();
  }

  #tell(found) {
    this.tip.hidden = !found;
    if (!found) return;
    const [title, ...lines] = found.text.split("\n");
    this.tip.replaceChildren(h("b", {}, title), ...lines.map((line) => h("span", {}, line)));
    const { width, height } = this.tip.getBoundingClientRect();
    const left = found.x + 14 + width > this.width ? Math.max(0, found.x - 14 - width) : found.x + 14;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(Math.max(0, found.y - height - 10))}px)`;
  }
}

function quiet(text, attributes) {
  return s("text", { ...attributes, "aria-hidden": "true" }, text);
}

function set(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
}

function round(pixel) {
  return Math.round(pixel * 10) / 10;
}

let measure = null;

function textWidth(text, size = 12.5) {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = `${size}px Pretendard, sans-serif`;
  return measure.measureText(text).width;
}
