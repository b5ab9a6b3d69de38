// A walk in steps, by buttons, keys and a film: to the first, one back, play or pause, one forward. Knows which step it is, not what it shows.

import { h, icon } from "./dom.js";

export const PLAY = "M4.5 2.5 13 8l-8.500 5.500z";
export const PAUSE = "M4 3h3v10H4zM9.500 3h3v10h-3z";
const BACK = "M12.500 3v10L5.500 8zM3 3h1.800v10H3z";
const FORWARD = "M3.500 3v10l7-5zM11.200 3H13v10h-1.800z";
const FIRST = "M13 3v10L7 8zM7.500 3v10l-6-5z";

export class Steps {
  /**
   * prefix: of the words (its first, back, play, pause, forward, moment); at: the step to begin with; first: a step;
   * last(): a step, which may change; every: ms between two steps of the film; draw(): show the step; tell(): say it.
   */
  constructor({ prefix, at, first, last, every, draw, tell }) {
    Object.assign(this, { prefix, at, first, last, every, draw, tell, timer: null });
  }

  /** The row of controls in these words, with the owner's choice among them. The step stays, if there still is such a one. */
  controls(words, choice) {
    this.words = words;
    this.at = Math.min(this.at, this.last());
    const button = (name, picture, action) =>
      h("button", { type: "button", class: "kc-button", "aria-label": this.#word(name), title: this.#word(name), on: { click: action } }, icon(picture));
    this.play = button("play", PLAY, () => (this.timer === null ? this.#play() : this.#halt()));
    this.back = button("back", BACK, () => this.#go(this.at - 1));
    this.forward = button("forward", FORWARD, () => this.#go(this.at + 1));
    this.begin = button("first", FIRST, () => this.#go(this.first));
    this.moment = h("output", { class: "kc-moment" });
    return h("div", { class: "kc-controls" }, this.begin, this.back, this.play, this.forward, choice, this.moment);
  }

  /** The step in the row and in the picture. */
  show() {
    const { at, first } = this;
    const last = this.last();
    this.moment.textContent = this.#word("moment", { n: at, of: last });
    this.draw();
    this.#disable(this.back, at <= first);
    this.#disable(this.begin, at <= first);
    this.#disable(this.forward, at >= last);
  }

  /** Arrow keys step wherever the focus is inside, but not in a list, which has arrows of its own. */
  key(event) {
    if (event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: this.first, End: this.last() }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.#go(to);
  }

  stop() {
    if (this.timer === null) return;
    clearInterval(this.timer);
    this.timer = null;
    this.#button("play", PLAY);
  }

  #go(step, quietly = false) {
    const to = Math.min(Math.max(step, this.first), this.last());
    if (!quietly) this.stop();
    if (to === this.at) return;
    this.at = to;
    this.show();
    if (!quietly) this.tell();
  }

  #play() {
    if (this.at >= this.last()) this.#go(this.first, true);
    this.timer = setInterval(() => {
      this.#go(this.at + 1, true); // who listens hears the end of it, not every step of a film
      if (this.at >= this.last()) this.#halt();
    }, this.every);
    this.#button("pause", PAUSE);
  }

  #halt() {
    this.stop();
    this.tell();
  }

  #button(name, picture) {
    this.play.setAttribute("aria-label", this.#word(name));
    this.play.setAttribute("title", this.#word(name));
    this.play.replaceChildren(icon(picture));
  }

  /** A button that leads nowhere keeps the focus, and says so. */
  #disable(button, is) {
    button.setAttribute("aria-disabled", String(is));
  }

  #word(name, facts) {
    return this.words(`${this.prefix}.${name}`, facts);
  }
}
