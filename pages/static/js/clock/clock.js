// The hands of one head as one turns them: position, method and s in; faces, wavelengths and sentences follow at once.
// Python hears of it when a slider is let go, so that the choice outlives the page.

import { h, icon, wording } from "../shared/dom.js";
import * as numbers from "../shared/numbers.js";
import { PAUSE, PLAY } from "../shared/steps.js";
import { Chart } from "../plot/chart.js";
import { face } from "./face.js";
import { RAMPED, picture, ranges } from "./hands.js";
import { waveSpec } from "./waves.js";

const TICK_MS = 140;
const CALM_MS = 700;
const LONGEST = 16; // times the trained length

export class Clock {
  /** tell(state): called when the reader has chosen. data: { words, heads, methods, ramps, at }. */
  constructor(place, data, tell) {
    this.tell = tell;
    this.timer = null;
    this.state = { ...data.at };
    this.place = h("div", { class: "rc-waves" });
    this.element = h("section", { class: "rc" });
    place.append(this.element);
    this.chart = new Chart(this.place);
    this.update(data);
  }

  destroy() {
    this.#stop();
    this.chart.destroy();
    this.element.remove();
  }

  /** New words; what was chosen stays. */
  update(data) {
    this.#stop();
    this.data = data;
    this.words = wording(data.words);
    this.#build();
    this.draw(true);
  }

  get head() {
    return this.data.heads.find((head) => head.name === this.state.head);
  }

  /** settled: nothing is dragged or playing, so that a screen reader may speak. */
  draw(settled) {
    const { words, state, head } = this;
    const found = picture(head, state);
    const at = this.#facts(found);
    this.said.setAttribute("aria-live", settled ? "polite" : "off");
    this.#say(this.said, words(found.outside ? (found.outside === 1 ? "clock.outside_one" : "clock.outside") : "clock.inside", at));
    this.#say(this.about, this.#about(found, at));
    this.#show(found, at);
    found.hands.forEach((hand, i) => {
      const divisor = hand.divisor < 1.005 ? words("clock.untouched") : words("clock.slower", { n: two(hand.divisor) });
      this.faces[i].show(hand, {
        wavelength: words("clock.wavelength", { n: compact((2 * Math.PI) / hand.frequency) }),
        said: words(hand.inside ? "clock.seen" : "clock.new"),
        divisor: state.method === "none" ? "" : divisor,
      });
    });
    this.grid.setAttribute("aria-label", `${words("clock.alt_faces", at)} ${found.outside ? words("clock.alt_outside", { pairs: ranges(found.hands.flatMap((hand, i) => (hand.inside ? [] : [i]))) }) : words("clock.alt_none")}`);
    this.#figures(found, at);
    this.#bands(found);
    this.chart.draw(waveSpec(head, state, found, words, this.names), words("clock.alt_waves", { ...at, fastest: compact((2 * Math.PI) / found.hands[0].frequency), slowest: compact((2 * Math.PI) / found.hands.at(-1).frequency) }));
  }

  #facts(found) {
    const { state, head } = this;
    return {
      position: numbers.count(state.position),
      times: two(state.position / head.trained),
      trained: numbers.count(head.trained),
      stretched: numbers.count(Math.round(head.trained * found.factor)),
      outside: found.outside,
      all: found.hands.length,
      turned: found.turned,
      still: found.hands.length - found.turned,
      from: found.turned,
      last: found.hands.length - 1,
      s: two(found.factor),
      method: this.names[state.method],
      step: degrees(found.hands[0].frequency),
      plain: degrees(found.hands[0].plain),
      temperature: found.temperature.toFixed(3),
      sharper: (found.temperature ** 2).toFixed(2),
    };
  }

  /** What the method does, in a sentence or two. */
  #about(found, at) {
    if (this.state.method === "dynamic" && found.factor <= 1) return this.words("clock.about_dynamic_rests", at);
    return this.words(`clock.about_${this.state.method.replace("-", "_")}`, at);
  }

  #figures(found, at) {
    const { words } = this;
    const last = found.hands.at(-1);
    const entries = [
      ["clock.fig_s", at.s],
      ["clock.fig_step", found.hands[0].divisor < 1.005 ? at.step : words("clock.was", { now: at.step, before: at.plain })],
      ["clock.fig_slow", `÷ ${two(last.divisor)}`],
      ["clock.fig_outside", words("clock.of", at)],
    ];
    if (found.temperature !== 1) entries.push(["clock.fig_temperature", at.temperature]);
    this.figures.replaceChildren(...entries.map(([key, value]) => h("div", {}, h("dt", {}, words(key)), h("dd", {}, value))));
  }

  /** The three bands, and what the chosen ramp means with so short a trained length. */
  #bands(found) {
    const { words, state, head } = this;
    this.bands.hidden = !found.bands;
    if (!found.bands) return this.bands.replaceChildren();
    const rows = ["untouched", "ramp", "divided"].map((name) => {
      const pairs = found.bands[name];
      const who = pairs.length ? words(pairs.length === 1 ? "clock.pair" : "clock.pairs", { pairs: ranges(pairs) }) : words("clock.nobody");
      return h("li", { class: `rc-band rc-band-${name}`, style: `flex-grow: ${pairs.length}` }, h("b", {}, words(`clock.band_${name}`, { s: two(found.factor) })), h("span", {}, who));
    });
    const notes = [];
    if (RAMPED.includes(state.method)) {
      notes.push(words(`clock.ramp_${state.ramp}_what`));
      const turnsOfFastest = (head.trained * found.hands[0].plain) / (2 * Math.PI);
      if (turnsOfFastest < 32) notes.push(words(found.bands.untouched.length ? "clock.short_first" : "clock.short_none", { turns: two(turnsOfFastest), trained: numbers.count(head.trained) }));
    } else notes.push(words("clock.llama3_what"));
    this.bands.replaceChildren(h("h3", {}, words("clock.bands")), h("ul", { class: "rc-strip" }, ...rows), h("p", { class: "lab-note" }, notes.join(" ")));
  }

  #build() {
    const { words, data, state } = this;
    this.names = Object.fromEntries(data.methods.map((name) => [name, words(`method.${name}`)]));
    const options = (all, present, show) => all.map((name) => h("option", { value: name, selected: name === present }, show(name)));
    const select = (name, all, show, change) => {
      const box = h("select", { id: `rc-${name}`, on: { change: () => change(box.value) } }, ...options(all, state[name], show));
      return [box, h("div", { class: "rc-choice" }, h("label", { for: `rc-${name}` }, words(`clock.${name}`)), box)];
    };
    const title = Object.fromEntries(data.heads.map((head) => [head.name, head.title]));
    const [, heads] = select("head", Object.keys(title), (name) => title[name], (name) => this.#head(name));
    const [, methods] = select("method", data.methods, (name) => this.names[name], (name) => this.#change({ method: name }));
    const [, ramps] = select("ramp", data.ramps, (name) => words(`clock.ramp_${name}`), (name) => this.#change({ ramp: name }));
    this.ramps = ramps;
    this.factor = this.#range("factor", { min: 2, max: 16, step: 1 }, (value, settled) => this.#change({ factor: value }, settled));
    this.position = this.#range("position", { min: 0, step: 1 }, (value, settled) => this.#move(value, settled));
    this.exact = h("input", { type: "number", min: 0, step: 1, "aria-label": words("clock.exact"), on: { change: () => this.#move(Number(this.exact.value) || 0, true) } });
    this.play = h("button", { type: "button", class: "rc-button", on: { click: () => (this.timer === null ? this.#start() : this.#halt()) } });
    this.pace = h("select", { id: "rc-pace" });
    this.said = h("p", { class: "lab-headline", role: "status", "aria-live": "polite" });
    this.about = h("p", { class: "lab-said" });
    this.figures = h("dl", { class: "lab-figures" });
    this.bands = h("div", { class: "rc-bands" });
    this.grid = h("div", { class: "rc-faces", role: "img" });
    const legend = h("ul", { class: "rc-legend" }, ...["arc", "inside", "outside", "step"].map((name) => h("li", {}, h("i", { class: `rc-key rc-key-${name}`, "aria-hidden": "true" }), words(`clock.key_${name}`))));
    this.element.replaceChildren(
      h("div", { class: "rc-controls" }, heads, methods, this.factor.element, ramps),
      h("div", { class: "rc-where" }, this.play, h("div", { class: "rc-choice" }, h("label", { for: "rc-pace" }, words("clock.pace")), this.pace), this.position.element, this.exact),
      this.said,
      this.about,
      this.figures,
      legend,
      this.grid,
      this.bands,
      h("h3", {}, words("clock.waves")),
      h("p", { class: "lab-note" }, words("clock.waves_what")),
      this.place,
    );
    this.#button("play", PLAY);
    this.#faces();
  }

  /** Faces and paces of the head that is chosen. */
  #faces() {
    const { head, words } = this;
    this.faces = Array.from({ length: head.head_dim / 2 }, (_, i) => face(i));
    this.grid.replaceChildren(...this.faces.map((one) => one.element));
    this.grid.classList.toggle("rc-many", this.faces.length > 20);
    const most = LONGEST * head.trained;
    this.position.input.max = this.exact.max = most;
    const paces = [1, head.trained / 16, head.trained / 2];
    this.pace.replaceChildren(...paces.map((n) => h("option", { value: n }, words(n === 1 ? "clock.pace_one" : "clock.pace_many", { n: numbers.count(n) }))));
  }

  #range(name, limits, set) {
    const input = h("input", { type: "range", id: `rc-${name}`, ...limits });
    const value = h("output", { for: `rc-${name}` });
    input.addEventListener("input", () => set(Number(input.value), false));
    input.addEventListener("change", () => set(Number(input.value), true));
    return { input, value, element: h("div", { class: `rc-range rc-range-${name}` }, h("label", { for: `rc-${name}` }, this.words(`clock.${name}`), value), input) };
  }

  /** The controls as the state has them. */
  #show(found, at) {
    const { words, state, head } = this;
    const set = (input, value) => Number(input.value) !== value && (input.value = value);
    set(this.position.input, state.position);
    if (document.activeElement !== this.exact || Number(this.exact.value) !== state.position) this.exact.value = state.position;
    this.position.value.textContent = words("clock.where", at);
    this.position.input.setAttribute("aria-valuetext", words("clock.where", at));
    const fixed = state.method === "none" || state.method === "dynamic";
    set(this.factor.input, state.factor);
    this.factor.input.disabled = fixed;
    const value = state.method === "none" ? "–" : at.s;
    this.factor.value.textContent = state.method === "dynamic" ? words("clock.follows", { s: value }) : value;
    this.factor.input.setAttribute("aria-valuetext", this.factor.value.textContent);
    this.ramps.hidden = !RAMPED.includes(state.method);
  }

  #change(changes, settled = true) {
    Object.assign(this.state, changes);
    this.draw(settled);
    if (settled) this.tell({ ...this.state });
  }

  /** Another head, at as many times its trained length. */
  #head(name) {
    this.#stop();
    const times = this.state.position / this.head.trained;
    this.state.head = name;
    this.state.position = Math.round(times * this.head.trained);
    this.#faces();
    this.#change({});
  }

  #move(value, settled) {
    if (this.timer !== null) this.#stop();
    this.#change({ position: Math.min(Math.max(0, Math.round(value)), LONGEST * this.head.trained) }, settled);
  }

  #start() {
    const most = LONGEST * this.head.trained;
    if (this.state.position >= most) this.state.position = 0;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.timer = setInterval(() => {
      this.state.position = Math.min(most, this.state.position + Number(this.pace.value));
      if (this.state.position >= most) this.#halt();
      else this.draw(false);
    }, calm ? CALM_MS : TICK_MS);
    this.#button("pause", PAUSE);
  }

  #halt() {
    this.#stop();
    this.#change({});
  }

  #stop() {
    if (this.timer === null) return;
    clearInterval(this.timer);
    this.timer = null;
    this.#button("play", PLAY);
  }

  #button(name, picture_) {
    this.play.setAttribute("aria-label", this.words(`clock.${name}`));
    this.play.setAttribute("title", this.words(`clock.${name}`));
    this.play.replaceChildren(icon(picture_));
  }

  #say(place, text) {
    if (place.textContent !== text) place.textContent = text;
  }
}

function two(value) {
  return String(Number(value >= 100 ? value.toFixed(0) : value.toFixed(2)));
}

function degrees(radians) {
  return `${((radians * 180) / Math.PI).toFixed(1)}°`;
}

/** A wavelength in tokens: 6.3, 1,116, 35k, 4.2M. */
export function compact(tokens) {
  if (tokens < 99.95) return tokens.toFixed(1);
  if (tokens < 9_999.5) return numbers.count(tokens);
  return tokens < 999_500 ? `${numbers.count(tokens / 1e3)}k` : `${(tokens / 1e6).toFixed(1)}M`;
}
