// Keys and values going round a ring, once for each layout, beside each other. One step is one round.

import { h, icon, wording } from "../shared/dom.js";
import { bars, circle, doing, matrix } from "./pictures.js";
import { LAYOUTS, rounds, whole } from "./rounds.js";

const STEP_MS = 2200;
const PLAY = "M4.5 2.5 13 8l-8.500 5.500z";
const PAUSE = "M4 3h3v10H4zM9.500 3h3v10h-3z";
const BACK = "M12.500 3v10L5.500 8zM3 3h1.800v10H3z";
const FORWARD = "M3.500 3v10l7-5zM11.200 3H13v10h-1.800z";
const FIRST = "M13 3v10L7 8zM7.500 3v10l-6-5z";

export class Ring {
  /** data: { words, ranks: how many to choose from, chosen: of them }. */
  constructor(place, data) {
    this.timer = null;
    this.round = 0;
    this.element = h("section", { class: "rg" });
    place.append(this.element);
    this.update(data);
  }

  destroy() {
    this.#stop();
    this.element.remove();
  }

  /** New words: the round and the number of ranks stay. */
  update(data) {
    this.#stop();
    this.data = data;
    this.words = wording(data.words);
    this.ranks = data.ranks.includes(this.ranks) ? this.ranks : data.chosen;
    this.#build();
    this.#draw();
  }

  #build() {
    const { words, data } = this;
    const button = (name, picture, action) =>
      h("button", { type: "button", class: "kc-button", "aria-label": words(`steps.${name}`), title: words(`steps.${name}`), on: { click: action } }, icon(picture));
    this.play = button("play", PLAY, () => (this.timer === null ? this.#play() : this.#halt()));
    this.back = button("back", BACK, () => this.#go(this.round - 1));
    this.forward = button("forward", FORWARD, () => this.#go(this.round + 1));
    this.first = button("first", FIRST, () => this.#go(0));
    const choose = h(
      "select",
      { class: "kc-select", "aria-label": words("steps.ranks"), on: { change: (event) => this.#choose(Number(event.target.value)) } },
      ...data.ranks.map((n) => h("option", { value: n, selected: n === this.ranks }, String(n))),
    );
    this.moment = h("output", { class: "kc-moment" });
    this.live = h("p", { class: "kc-unseen", "aria-live": "polite" });
    this.place = h("div", { class: "rg-pair" });
    // Arrow keys step wherever the focus is inside, but not in the list, which has arrows of its own.
    this.element.onkeydown = (event) => this.#key(event);
    this.element.setAttribute("aria-label", words("steps.label"));
    const controls = h("div", { class: "kc-controls" }, this.first, this.back, this.play, this.forward, h("label", {}, words("steps.ranks"), choose), this.moment);
    this.element.replaceChildren(controls, this.#legend(), this.place, this.live);
    this.#arrange();
  }

  /** The pictures of both layouts, for the present number of ranks. */
  #arrange() {
    const { words, ranks } = this;
    const longest = Math.max(...LAYOUTS.map((layout) => whole(ranks, layout).length));
    this.layouts = LAYOUTS.map((layout) => ({
      layout,
      pictures: [circle(ranks, layout, words), matrix(ranks, layout, words), bars(ranks, layout, longest, words)],
      said: h("p", { class: "rg-said" }),
    }));
    this.place.replaceChildren(
      ...this.layouts.map(({ layout, pictures, said }) => {
        const [ring, pairs, time] = pictures.map(({ element }) => element);
        const { length, busy } = whole(ranks, layout);
        return h(
          "div",
          { class: "rg-one" },
          h("h3", {}, words(`steps.title_${layout}`)),
          h("div", { class: "rg-two" }, ring, h("figure", {}, pairs, h("figcaption", {}, words("steps.axes")))),
          h("p", { class: "kc-what" }, words("steps.bars_what")),
          time,
          said,
          h("p", { class: "rg-total" }, words("steps.total", { length, busy: percent(busy) })),
        );
      }),
    );
  }

  #legend() {
    const names = ["now", "done", "skipped", "idle"];
    return h("ul", { class: "kc-legend", "aria-hidden": "true" }, ...names.map((name) => h("li", {}, h("i", { class: `rg-swatch rg-swatch-${name}` }), this.words(`steps.${name}`))));
  }

  #draw() {
    const { words, ranks, round } = this;
    this.moment.textContent = words("steps.moment", { n: round, of: ranks - 1 });
    for (const { layout, pictures, said } of this.layouts) {
      const [ring, pairs, time] = pictures;
      ring.set(round, this.#ranks(layout));
      pairs.set(round);
      time.set(round);
      said.textContent = this.#what(layout);
    }
    this.#disable(this.back, round <= 0);
    this.#disable(this.first, round <= 0);
    this.#disable(this.forward, round >= ranks - 1);
  }

  /** What a round is like: who is the slowest, and how long the others wait. */
  #what(layout) {
    const { words, ranks, round } = this;
    const { each, longest } = rounds(ranks, layout)[round];
    const least = Math.min(...each);
    if (least === longest) return words("steps.even", { n: round, pairs: longest });
    const waits = 1 - each.reduce((a, b) => a + b, 0) / (ranks * longest);
    const facts = { n: round, most: longest, busy: named(each, longest), least, idle: named(each, least), waits: percent(waits) };
    return words("steps.uneven", facts);
  }

  /** Every rank in words, for who cannot see the circle. */
  #ranks(layout) {
    const { words, ranks, round } = this;
    const told = Array.from({ length: ranks }, (_, rank) => words("steps.doing", { rank, ...doing(rank, round, ranks, layout) }));
    return [words("steps.moment", { n: round, of: ranks - 1 }), ...told].join(" ");
  }

  #tell() {
    const { words, ranks, round } = this;
    const what = this.layouts.map(({ layout }) => `${words(`steps.title_${layout}`)}: ${this.#what(layout)}`);
    this.live.textContent = [words("steps.moment", { n: round, of: ranks - 1 }), ...what].join(" ");
  }

  #go(round, quietly = false) {
    const to = Math.min(Math.max(round, 0), this.ranks - 1);
    if (!quietly) this.#stop();
    if (to === this.round) return;
    this.round = to;
    this.#draw();
    if (!quietly) this.#tell();
  }

  #choose(ranks) {
    this.#stop();
    this.ranks = ranks;
    this.round = 0;
    this.#arrange();
    this.#draw();
    this.#tell();
  }

  #play() {
    if (this.round >= this.ranks - 1) this.#go(0, true);
    this.timer = setInterval(() => {
      this.#go(this.round + 1, true); // who listens hears the end of it, not every step of a film
      if (this.round >= this.ranks - 1) this.#halt();
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
    this.play.setAttribute("aria-label", this.words(`steps.${name}`));
    this.play.setAttribute("title", this.words(`steps.${name}`));
    this.play.replaceChildren(icon(picture));
  }

  #key(event) {
    if (event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowRight: this.round + 1, ArrowLeft: this.round - 1, Home: 0, End: this.ranks - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#go(to);
  }

  /** A button that leads nowhere keeps the focus, and says so. */
  #disable(button, is) {
    button.setAttribute("aria-disabled", String(is));
  }
}

function named(each, value) {
  return each.flatMap((done, rank) => (done === value ? [rank] : [])).join(", ");
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}
