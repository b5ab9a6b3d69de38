// The memory wall as one moves it: two sliders, the numbers, the bar, two charts. Redrawn at once while a slider is dragged;
// Python hears of it when the slider is let go.

import { h, wording } from "../shared/dom.js";
import * as numbers from "../shared/numbers.js";
import { Chart } from "../plot/chart.js";
import { stack } from "./stack.js";
import { BATCHES, LENGTHS, decodeSpec, lengthSpec, measures, nearestStep } from "./wall.js";

const HIGHEST = { length: 16_777_216, batch: 4096 };

export class Calculator {
  /** tell(state): called when the reader has chosen a length and a number of requests. */
  constructor(place, data, tell) {
    this.tell = tell;
    this.state = { ...data.at };
    this.#adopt(data);
    this.controls = { length: this.#control("length", LENGTHS), batch: this.#control("batch", BATCHES) };
    this.figures = h("dl", { class: "lab-figures" });
    this.said = h("p", { class: "lab-said", role: "status", "aria-live": "polite" });
    this.bar = h("div", { class: "mw-bar" });
    this.parts = h("ul", { class: "mw-parts" });
    this.heads = [0, 1].map(() => h("h3", {}));
    const [left, right] = this.heads.map((head) => h("section", {}, head));
    this.right = right;
    this.element = h("div", { class: "mw" }, h("div", { class: "mw-controls" }, this.controls.length.element, this.controls.batch.element), this.said, this.figures, this.bar, this.parts, h("div", { class: "mw-charts" }, left, right));
    place.append(this.element);
    this.charts = { length: new Chart(left), decode: new Chart(right) };
    this.watch = new ResizeObserver(() => this.#drawBar());
    this.watch.observe(this.bar);
    this.draw(true);
  }

  /** New data from Python; the sliders stay where they are. */
  update(data) {
    this.#adopt(data);
    this.draw(true);
  }

  destroy() {
    this.watch.disconnect();
    for (const chart of Object.values(this.charts)) chart.destroy();
    this.element.remove();
  }

  #adopt(data) {
    this.data = { ...data, words: wording(data.words) };
  }

  /** settled: the reader has let go, so that a screen reader may speak. */
  draw(settled) {
    const { data, state } = this;
    const { words } = data;
    const found = (this.found = measures(data, state));
    for (const [name, control] of Object.entries(this.controls)) control.show(state[name]);
    const both = (bytes) => words("wall.both", { decimal: numbers.bytes(bytes), binary: numbers.binaryBytes(bytes) });
    const unknown = words("wall.unknown");
    const entries = [
      [words("wall.per_token"), numbers.bytes(found.kv.total / state.length)],
      [words("wall.per_request"), both(found.request)],
      [words("wall.per_batch", { n: numbers.count(state.batch) }), both(found.all)],
      [words("wall.most"), found.most === null ? unknown : numbers.count(found.most)],
      [words("wall.longest", { n: numbers.count(state.batch) }), found.room === null ? unknown : found.longest === null ? words("wall.no_limit") : numbers.count(found.longest)],
    ];
    if (found.rate !== null) entries.push([words("wall.rate", { n: numbers.count(found.together) }), found.rate ? numbers.rate(found.rate) : "–"]);
    this.figures.replaceChildren(...entries.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
    const sentence = this.#sentence();
    this.sentence = sentence;
    this.said.setAttribute("aria-live", settled ? "polite" : "off");
    if (this.said.textContent !== sentence) this.said.textContent = sentence;
    this.#drawBar();
    this.heads[0].textContent = words("wall.head_length");
    this.heads[1].textContent = words("wall.head_decode");
    const alt = { batch: numbers.count(state.batch), length: numbers.count(state.length), bytes: numbers.bytes(found.all) };
    this.charts.length.draw(lengthSpec(data, state, found), words("wall.alt_length", { ...alt, models: [data.model, ...data.compare].map((model) => model.title).join(", ") }));
    this.right.hidden = found.rate === null;
    if (found.rate !== null) this.charts.decode.draw(decodeSpec(data, state, found), words("wall.alt_decode", { ...alt, rate: numbers.rate(found.rate), n: numbers.count(Math.min(state.batch, found.most)), most: numbers.count(found.most) }));
  }

  #sentence() {
    const { data, state, found } = this;
    const { words, device } = data;
    const facts = { batch: numbers.count(state.batch), length: numbers.count(state.length), device: device.title, capacity: numbers.bytes(device.capacity_bytes), most: numbers.count(found.most ?? 0), model: data.model.title };
    let text;
    if (found.room === null) text = words("wall.said_unknown", { ...facts, bytes: numbers.bytes(found.all) });
    else if (found.room <= 0) text = words("wall.said_weights", { ...facts, weights: numbers.bytes(data.weight_bytes), reserve: numbers.bytes(found.reserve) });
    else if (!found.most) text = words("wall.said_none", { ...facts, request: numbers.bytes(found.request), room: numbers.bytes(found.room) });
    else text = words(found.most < state.batch ? "wall.said_some" : state.batch === 1 ? "wall.said_one" : "wall.said_all", facts);
    const trained = data.model.max_context_tokens;
    return trained && state.length > trained ? `${text} ${words("wall.said_trained", { n: numbers.count(trained) })}` : text;
  }

  #drawBar() {
    const { data, state, found } = this;
    const { words } = data;
    const width = this.bar.clientWidth;
    this.bar.hidden = this.parts.hidden = data.weight_bytes === null;
    if (!width || data.weight_bytes === null) return;
    const parts = { weights: data.weight_bytes, reserve: found.reserve, request: found.request, batch: state.batch, capacity: data.device.capacity_bytes };
    this.bar.replaceChildren(stack(parts, width, words, `${this.sentence} ${words("wall.alt_bar", { weights: numbers.bytes(parts.weights), reserve: numbers.bytes(parts.reserve), kv: numbers.bytes(found.all) })}`));
    const beyond = parts.weights + parts.reserve + found.all - parts.capacity;
    const entries = [["weights", parts.weights], ["reserve", parts.reserve], ["kv", found.all]];
    if (beyond > 0) entries.push(["beyond", beyond]);
    this.parts.replaceChildren(...entries.map(([kind, bytes]) => h("li", {}, h("span", { class: `mw-swatch mw-of-${kind}`, "aria-hidden": "true" }), `${words(`wall.part_${kind}`, { n: numbers.count(state.batch) })} `, h("b", {}, numbers.bytes(bytes)))));
  }

  #control(name, steps) {
    const { words } = this.data;
    const id = `mw-${name}`;
    const range = h("input", { type: "range", id, min: 0, max: steps.length - 1, step: 1 });
    const exact = h("input", { type: "number", min: 1, max: HIGHEST[name], step: 1, "aria-label": words(`wall.exact_${name}`) });
    const set = (value, settled) => {
      this.state[name] = Math.min(Math.max(1, Math.round(value)), HIGHEST[name]);
      this.draw(settled);
      if (settled) this.tell({ ...this.state });
    };
    range.addEventListener("input", () => set(steps[Number(range.value)], false));
    range.addEventListener("change", () => set(steps[Number(range.value)], true));
    exact.addEventListener("change", () => set(Number(exact.value) || this.state[name], true));
    const label = h("label", { for: id }, words(`wall.${name}`));
    return {
      element: h("div", { class: "mw-control" }, label, h("div", {}, range, exact)),
      show: (value) => {
        const step = nearestStep(steps, value);
        if (Number(range.value) !== step) range.value = step;
        range.setAttribute("aria-valuetext", numbers.count(value));
        label.textContent = this.data.words(`wall.${name}`);
        exact.setAttribute("aria-label", this.data.words(`wall.exact_${name}`));
        if (document.activeElement !== exact || Number(exact.value) !== value) exact.value = value;
      },
    };
  }
}
