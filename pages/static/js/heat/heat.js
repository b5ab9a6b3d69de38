// The whole: the overview, the head that was chosen from it, and what each key gets of it. Python hears of a choice once the
// keys rest, and answers with that head's map.

import { h, wording } from "../shared/dom.js";
import { Chart } from "../plot/chart.js";
import { ramp, rooted } from "./colour.js";
import { Grid, cellLines } from "./grid.js";
import { share, times } from "./label.js";
import { HeadMap } from "./map.js";

const REST_MS = 180;
const OVER_TICKS = [0, 0.25, 0.5, 0.75, 1];
const MAP_TICKS = [0, 0.05, 0.25, 0.5, 1];
const LEAST = 1e-5;

export class Heat {
  /** tell([layer, head]): called when the reader has chosen a head. */
  constructor(place, data, tell) {
    this.tell = tell;
    this.tip = h("div", { class: "pl-tip", "aria-hidden": "true" });
    this.tip.hidden = true;
    this.over = h("div", { class: "ht-over" });
    this.overLegend = h("div", { class: "ht-legend" });
    this.said = h("p", { class: "lab-said ht-chosen", role: "status", "aria-live": "polite" });
    this.mapTitle = h("h3", {});
    this.mapPlace = h("div", {});
    this.mapLegend = h("div", { class: "ht-legend" });
    this.cellSaid = h("p", { class: "ht-cell-said", "aria-live": "polite" });
    this.mapNote = h("p", { class: "lab-note" });
    this.profileTitle = h("h3", {});
    this.profilePlace = h("div", {});
    this.profileNote = h("p", { class: "lab-note" });
    this.pair = h(
      "div",
      { class: "ht-pair" },
      h("section", {}, this.mapTitle, this.mapPlace, this.mapLegend, this.cellSaid, this.mapNote),
      h("section", {}, this.profileTitle, this.profilePlace, this.profileNote),
    );
    this.element = h("div", { class: "ht" }, this.over, this.overLegend, this.said, this.pair, this.tip);
    place.append(this.element);
    this.grid = new Grid(this.over, (at, settled) => this.#choose(at, settled), (...what) => this.#tell(...what));
    this.map = new HeadMap(this.mapPlace, (text) => (this.cellSaid.textContent = text));
    this.chart = new Chart(this.profilePlace);
    this.watch = new ResizeObserver(() => this.element.clientWidth !== this.width && this.draw());
    this.watch.observe(this.element);
    this.update(data);
  }

  destroy() {
    clearTimeout(this.timer);
    this.watch.disconnect();
    this.chart.destroy();
    this.element.remove();
  }

  /** New data from Python. A choice that was made meanwhile stays, and is still on its way. */
  update(data) {
    this.data = { ...data, words: wording(data.words) };
    this.colours = ramp(data.ramp);
    this.shares = decoded(data.map);
    if (!this.timer) this.at = data.at;
    this.draw();
  }

  draw() {
    const { data, colours } = this;
    const { words, overview } = data;
    this.width = this.element.clientWidth;
    const at = this.at;
    this.grid.draw(overview, at, colours, words, (layer, head) => cellLines(overview, layer, head, words));
    this.#legend(this.overLegend, OVER_TICKS, (value) => value, words("heat.scale_over"), [overview.even, words("heat.even", { share: share(overview.even) })]);
    this.#sentence(at);
    this.#head();
  }

  #choose(at, settled) {
    this.at = at;
    this.#sentence(at);
    clearTimeout(this.timer);
    const send = () => {
      this.timer = null;
      if (String(at) !== String(this.data.at)) {
        this.pair.classList.add("ht-waits");
        this.tell(at);
      }
    };
    if (settled) send();
    else this.timer = setTimeout(send, REST_MS);
  }

  #sentence([layer, head]) {
    const { words, overview } = this.data;
    const value = overview.rows[layer][head];
    const facts = { layer, head, share: share(value), even: share(overview.even), times: times(value / overview.even), k: overview.k };
    const text = words(`heat.said_${overview.measure}`, facts);
    if (this.said.textContent !== text) this.said.textContent = text;
  }

  /** The map and the profile of the head that Python sent, which is not the chosen one for a moment. */
  #head() {
    const { data, colours } = this;
    const { words, map } = data;
    const [layer, head] = data.at;
    this.pair.classList.toggle("ht-waits", String(this.at) !== String(data.at));
    this.mapTitle.textContent = words("heat.map_title", { layer, head });
    const label = words("heat.map_label", { layer, head });
    this.map.draw({ size: map.size, bins: map.bins, reduced: map.reduced, shares: this.shares }, colours, words, label);
    this.#legend(this.mapLegend, MAP_TICKS, rooted, words("heat.scale_map"));
    this.mapNote.textContent = map.note;
    this.profileTitle.textContent = words("heat.profile_title", { layer, head });
    this.profileNote.textContent = data.profile.note;
    this.chart.draw(profileSpec(data.profile, words), data.profile.alt);
  }

  #legend(place, ticks, level, title, more = null) {
    const bar = h("span", { class: "ht-bar" });
    bar.style.background = this.colours.bar;
    const marks = ticks.map((value) => {
      const mark = h("span", {}, `${value * 100} %`);
      mark.style.left = `${level(value) * 100}%`;
      return mark;
    });
    const scale = h("span", { class: "ht-scale", role: "img", "aria-label": `${title}: ${ticks.map(share).join(", ")}` }, bar, h("span", { class: "ht-marks" }, ...marks));
    const entries = [h("span", { class: "ht-legend-title" }, title), scale];
    if (more) {
      const swatch = h("span", { class: "ht-swatch", "aria-hidden": "true" });
      swatch.style.background = this.colours.of(level(more[0]));
      entries.push(h("span", { class: "ht-legend-more" }, swatch, more[1]));
    }
    place.replaceChildren(...entries);
  }

  #tell(x, y, lines) {
    this.tip.hidden = x === null;
    if (x === null) return;
    const [title, ...rest] = lines;
    this.tip.replaceChildren(h("b", {}, title), ...rest.map((line) => h("span", {}, line)));
    const { width, height } = this.tip.getBoundingClientRect();
    const left = Math.min(Math.max(0, x + 16), Math.max(0, this.width - width));
    const top = y - height - 8 < 0 ? y + 30 : y - height - 8;
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }
}

/** Shares of one head up to the diagonal, query by query, from bytes (`as_shares` of engine/formulas/attention.py). */
function decoded({ cells }) {
  const bytes = Uint8Array.from(atob(cells), (c) => c.charCodeAt(0));
  return Float64Array.from(bytes, (value) => (value / 255) ** 2);
}

/** 0 and about five round numbers of tokens up to the last. */
function roundSteps(last) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500].find((size) => last / size <= 6);
  return Array.from({ length: Math.floor(last / step) + 1 }, (_, i) => i * step);
}

/** What each key gets, on a logarithmic scale: the first token and the rest differ by factors of a hundred. */
export function profileSpec({ head, layer, even, tokens }, words) {
  const points = (values) => values.map((value, i) => [i, Math.max(value, LEAST)]);
  const last = Math.max(1, tokens - 1);
  const line = (name, values, style, more) => ({ name, points: points(values), style, label: "legend", ...more });
  const lines = [];
  const texts = (values) => values.map((value, i) => `${words("heat.key", { n: i })}\n${share(value)}`);
  lines.push(line(words("heat.line_even"), even, 5, { width: 1.6 }));
  lines.push(line(words("heat.line_layer"), layer, 1, { width: 1.6, solid: true, texts: head ? null : texts(layer) }));
  if (head) lines.push(line(words("heat.line_head"), head, 0, { width: 2, solid: true, texts: texts(head) }));
  return {
    height: 420,
    x: { title: words("heat.profile_x"), range: [-last * 0.02, last], ticks: roundSteps(last).map((n) => [n, String(n)]) },
    y: { title: words("heat.profile_y"), log: true, range: [LEAST, 1.3], ticks: [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1].map((v) => [v, v < 1e-4 ? "≤ 0.001 %" : `${Number((v * 100).toPrecision(1))} %`]) },
    lines,
  };
}
