// A cache drawn as cells, twice beside each other: the window alone, and sinks with the window. One step is one token.

import { h, wording } from "../shared/dom.js";
import { Steps } from "../shared/steps.js";
import { evicted, kept, state } from "./policy.js";

const STEP_MS = 1300;

export class Cells {
  /** data: { words, tokens: [texts], window, sinks: how many to choose from, chosen: of them }. */
  constructor(place, data) {
    this.steps = new Steps({
      prefix: "cells",
      at: data.window,
      first: 1,
      last: () => this.data.tokens.length,
      every: STEP_MS,
      draw: () => this.#draw(),
      tell: () => this.#tell(),
    });
    this.element = h("section", { class: "kc", on: { keydown: (event) => this.steps.key(event) } });
    place.append(this.element);
    this.update(data);
  }

  destroy() {
    this.steps.stop();
    this.element.remove();
  }

  /** New words: the step and the number of sinks stay. */
  update(data) {
    this.steps.stop();
    this.data = data;
    this.words = wording(data.words);
    this.sinks = data.sinks.includes(this.sinks) ? this.sinks : data.chosen;
    this.#build();
    this.steps.show();
  }

  get at() {
    return this.steps.at;
  }

  #build() {
    const { words, data } = this;
    const choose = h(
      "select",
      { class: "kc-select", "aria-label": words("cells.sinks"), on: { change: (event) => this.#choose(Number(event.target.value)) } },
      ...data.sinks.map((n) => h("option", { value: n, selected: n === this.sinks }, String(n))),
    );
    this.rows = [0, 1].map(() => ({ text: h("ol", { class: "kc-text" }), cache: h("ol", { class: "kc-cache" }), title: h("h3", {}), said: h("p", { class: "kc-said" }) }));
    this.live = h("p", { class: "lab-unseen", "aria-live": "polite" });
    this.element.setAttribute("aria-label", words("cells.label"));
    this.element.replaceChildren(
      this.steps.controls(words, h("label", {}, words("cells.sinks"), choose)),
      this.#legend(),
      h(
        "div",
        { class: "kc-pair" },
        ...this.rows.map(({ title, text, cache, said }) =>
          h("div", { class: "kc-one" }, title, h("p", { class: "kc-what" }, words("cells.text")), text, h("p", { class: "kc-what" }, words("cells.cache")), cache, said),
        ),
      ),
      this.live,
    );
  }

  #legend() {
    const names = ["sink", "held", "newest", "evicted"];
    return h("ul", { class: "kc-legend", "aria-hidden": "true" }, ...names.map((name) => h("li", {}, h("i", { class: `kc-swatch kc-${name}` }), this.words(`cells.${name}`))));
  }

  #draw() {
    const { words, data, at } = this;
    const counts = [0, this.sinks];
    this.rows.forEach((row, i) => {
      row.title.textContent = words(i ? "cells.title_sinks" : "cells.title_window", { sinks: counts[i], recent: data.window - counts[i], window: data.window });
      row.text.setAttribute("aria-label", words("cells.text"));
      row.cache.setAttribute("aria-label", words("cells.cache"));
      row.text.replaceChildren(...data.tokens.map((token, n) => this.#cell(token, n, state(n, at, counts[i], data.window), [n])));
      const places = kept(at, counts[i], data.window);
      const held = places.map((n, place) => this.#cell(data.tokens[n], n, state(n, at, counts[i], data.window), [place, n]));
      const empty = Array.from({ length: data.window - held.length }, () => h("li", { class: "kc-cell kc-empty", "aria-hidden": "true" }, h("b", {}, "\u00a0")));
      row.cache.replaceChildren(...held, ...empty);
      row.said.textContent = this.#what(counts[i]);
    });
  }

  /** One token: its text, and below it where it stands. numbers: [in the text], or [in the cache, in the text]. */
  #cell(token, n, kind, numbers) {
    const [place, origin] = numbers;
    const name = kind === "later" ? "" : `: ${this.words(`cells.${kind}`)}`;
    const whole = origin === undefined ? this.words("cells.at_text", { n, token }) : this.words("cells.at_cache", { place, n: origin, token });
    return h(
      "li",
      { class: `kc-cell kc-${kind}` },
      h("span", { class: "lab-unseen" }, whole + name),
      h("b", { "aria-hidden": "true" }, token),
      h("small", { "aria-hidden": "true" }, String(place)),
    );
  }

  /** What the newest token did to a cache. */
  #what(sinks) {
    const { words, data, at } = this;
    const gone = evicted(at, sinks, data.window);
    if (gone === null) return at < data.window ? words("cells.room", { n: data.window - at }) : words("cells.full");
    const newest = kept(at, sinks, data.window).length - 1;
    const facts = { n: gone, token: data.tokens[gone], at: at - 1, place: newest, sinks, last: sinks - 1 };
    return words(sinks === 0 ? (gone === 0 ? "cells.lost_first" : "cells.lost") : sinks === 1 ? "cells.kept_one" : "cells.kept", facts);
  }

  #tell() {
    const { words, data, at } = this;
    const what = [0, this.sinks].map((sinks, i) => `${this.rows[i].title.textContent}: ${this.#what(sinks)}`);
    this.live.textContent = [words("cells.comes", { n: at - 1, token: data.tokens[at - 1] }), ...what].join(" ");
  }

  #choose(sinks) {
    this.sinks = sinks;
    this.steps.show();
    this.#tell();
  }
}
