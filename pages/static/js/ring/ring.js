// Keys and values going round a ring, once for each layout, beside each other. One step is one round.

import { h, wording } from "../shared/dom.js";
import { Steps } from "../shared/steps.js";
import { bars, circle, doing, matrix } from "./pictures.js";
import { LAYOUTS, rounds, whole } from "./rounds.js";

const STEP_MS = 2200;

export class Ring {
  /** data: { words, ranks: how many to choose from, chosen: of them }. */
  constructor(place, data) {
    this.steps = new Steps({
      prefix: "steps",
      at: 0,
      first: 0,
      last: () => this.ranks - 1,
      every: STEP_MS,
      draw: () => this.#draw(),
      tell: () => this.#tell(),
    });
    this.element = h("section", { class: "rg", on: { keydown: (event) => this.steps.key(event) } });
    place.append(this.element);
    this.update(data);
  }

  destroy() {
    this.steps.stop();
    this.element.remove();
  }

  /** New words: the round and the number of ranks stay. */
  update(data) {
    this.steps.stop();
    this.data = data;
    this.words = wording(data.words);
    this.ranks = data.ranks.includes(this.ranks) ? this.ranks : data.chosen;
    this.#build();
    this.steps.show();
  }

  get round() {
    return this.steps.at;
  }

  #build() {
    const { words, data } = this;
    const choose = h(
      "select",
      { class: "kc-select", "aria-label": words("steps.ranks"), on: { change: (event) => this.#choose(Number(event.target.value)) } },
      ...data.ranks.map((n) => h("option", { value: n, selected: n === this.ranks }, String(n))),
    );
    this.live = h("p", { class: "lab-unseen", "aria-live": "polite" });
    this.place = h("div", { class: "rg-pair" });
    this.element.setAttribute("aria-label", words("steps.label"));
    const controls = this.steps.controls(words, h("label", {}, words("steps.ranks"), choose));
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
    for (const { layout, pictures, said } of this.layouts) {
      const [ring, pairs, time] = pictures;
      ring.set(round, this.#ranks(layout));
      pairs.set(round);
      time.set(round);
      said.textContent = this.#what(layout);
    }
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

  #choose(ranks) {
    this.steps.stop();
    this.ranks = ranks;
    this.steps.at = 0;
    this.#arrange();
    this.steps.show();
    this.#tell();
  }
}

function named(each, value) {
  return each.flatMap((done, rank) => (done === value ? [rank] : [])).join(", ");
}

function percent(share) {
  return `${Math.round(share * 100)} %`;
}
