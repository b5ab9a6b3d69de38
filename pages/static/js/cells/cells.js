// A cache drawn as cells, twice beside each other: the window alone, and sinks with the window. One step is one token.

import { h, icon, wording } from "../shared/dom.js";
import { evicted, kept, state } from "./policy.js";

const STEP_MS = 1300;
const PLAY = "M4.5 2.5 13 8l-8.500 5.500z";
const PAUSE = "M4 3h3v10H4zM9.500 3h3v10h-3z";
const BACK = "M12.500 3v10L5.500 8zM3 3h1.800v10H3z";
const FORWARD = "M3.500 3v10l7-5zM11.200 3H13v10h-1.800z";
const FIRST = "M13 3v10L7 8zM7.500 3v10l-6-5z";

export class Cells {
  /** data: { words, tokens: [texts], window, sinks: how many to choose from, chosen: of them }. */
  constructor(place, data) {
    this.timer = null;
    this.element = h("section", { class: "kc" });
    place.append(this.element);
    this.update(data);
  }

  destroy() {
    this.#stop();
    this.element.remove();
  }

  /** New words: the step and the number of sinks stay. */
  update(data) {
    this.#stop();
    this.data = data;
    this.words = wording(data.words);
    this.sinks = data.sinks.includes(this.sinks) ? this.sinks : data.chosen;
    this.at = Math.min(this.at ?? data.window, data.tokens.length);
    this.#build();
    this.#draw();
  }

  #build() {
    const { words, data } = this;
    const button = (name, picture, action) =>
      h("button", { type: "button", class: "kc-button", "aria-label": words(`cells.${name}`), title: words(`cells.${name}`), on: { click: action } }, icon(picture));
    this.play = button("play", PLAY, () => (this.timer === null ? this.#play() : this.#halt()));
    this.back = button("back", BACK, () => this.#go(this.at - 1));
    this.forward = button("forward", FORWARD, () => this.#go(this.at + 1));
    this.first = button("first", FIRST, () => this.#go(1));
    const choose = h(
      "select",
      { class: "kc-select", "aria-label": words("cells.sinks"), on: { change: (event) => this.#choose(Number(event.target.value)) } },
      ...data.sinks.map((n) => h("option", { value: n, selected: n === this.sinks }, String(n))),
    );
    this.moment = h("output", { class: "kc-moment" });
    this.rows = [0, 1].map(() => ({ text: h("ol", { class: "kc-text" }), cache: h("ol", { class: "kc-cache" }), title: h("h3", {}), said: h("p", { class: "kc-said" }) }));
    this.live = h("p", { class: "kc-unseen", "aria-live": "polite" });
    const controls = h("div", { class: "kc-controls" }, this.first, this.back, this.play, this.forward, h("label", {}, words("cells.sinks"), choose), this.moment);
    // Arrow keys step wherever the focus is inside, but not in the list, which has arrows of its own.
    this.element.onkeydown = (event) => this.#key(event);
    this.element.setAttribute("aria-label", words("cells.label"));
    this.element.replaceChildren(
      controls,
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
    this.moment.textContent = words("cells.moment", { n: at, of: data.tokens.length });
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
    this.#disable(this.back, at <= 1);
    this.#disable(this.first, at <= 1);
    this.#disable(this.forward, at >= data.tokens.length);
  }

  /** One token: its text, and below it where it stands. numbers: [in the text], or [in the cache, in the text]. */
  #cell(token, n, kind, numbers) {
    const [place, origin] = numbers;
    const name = kind === "later" ? "" : `: ${this.words(`cells.${kind}`)}`;
    const whole = origin === undefined ? this.words("cells.at_text", { n, token }) : this.words("cells.at_cache", { place, n: origin, token });
    return h(
      "li",
      { class: `kc-cell kc-${kind}` },
      h("span", { class: "kc-unseen" }, whole + name),
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

  #go(at, quietly = false) {
    const to = Math.min(Math.max(at, 1), this.data.tokens.length);
    if (!quietly) this.#stop();
    if (to === this.at) return;
    this.at = to;
    this.#draw();
    if (!quietly) this.#tell();
  }

  #choose(sinks) {
    this.sinks = sinks;
    this.#draw();
    this.#tell();
  }

  #play() {
    if (this.at >= this.data.tokens.length) this.#go(1, true);
    this.timer = setInterval(() => {
      this.#go(this.at + 1, true); // who listens hears the end of it, not every step of a film
      if (this.at >= this.data.tokens.length) this.#halt();
    }, STEP_MS);
    this.#show("pause", PAUSE);
  }

  #halt() {
    this.#stop();
    this.#tell();
  }

  #stop() {
    if (this.timer === null) return;
    clearInterval(this.timer);
    this.timer = null;
    this.#show("play", PLAY);
  }

  #show(name, picture) {
    this.play.setAttribute("aria-label", this.words(`cells.${name}`));
    this.play.setAttribute("title", this.words(`cells.${name}`));
    this.play.replaceChildren(icon(picture));
  }

  #key(event) {
    if (event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: 1, End: this.data.tokens.length }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#go(to);
  }

  /** A button that leads nowhere keeps the focus, and says so. */
  #disable(button, is) {
    button.setAttribute("aria-disabled", String(is));
  }
}
