// The bar above the picture: play, step, speed, the moment shown, zoom, and what part of the run is seen.

import { h, icon } from "../shared/dom.js";
import * as numbers from "../shared/numbers.js";
import { SPEEDS } from "./playback.js";

const PLAY = "M4.5 2.5 13 8l-8.500 5.500z";
const PAUSE = "M4 3h3v10H4zM9.500 3h3v10h-3z";
const STOP = "M3.500 3.500h9v9h-9z";
const BACK = "M12.500 3v10L5.500 8zM3 3h1.800v10H3z";
const FORWARD = "M3.500 3v10l7-5zM11.200 3H13v10h-1.800z";
const FINE_S = 0.1;
const COARSE_S = 1;

/** The bar. `act`: what its parts do: toggle, rest, step(±1), speed(x), seek(t), seekBy(seconds), zoom(factor), reset, show("focus" | "whole"). */
export class Controls {
  constructor(words, act) {
    this.words = words;
    this.playing = null;
    this.end = 1;
    const button = (name, picture, action, extra = "") =>
      h("button", { type: "button", class: `tl-button ${extra}`, "aria-label": words(name), title: words(name), on: { click: action } }, picture);
    this.play = button("play.play", icon(PLAY), act.toggle, "tl-play");
    this.stop = button("play.rest", icon(STOP), act.rest);
    this.speed = h(
      "select",
      { class: "tl-select", "aria-label": words("play.speed"), title: words("play.speed"), on: { change: () => act.speed(Number(this.speed.value)) } },
      ...SPEEDS.map((s) => h("option", { value: s, selected: s === 1 }, `${s}×`)),
    );
    this.scrub = h("input", {
      type: "range", class: "tl-scrub", min: 0, max: 1, step: 0.001, value: 1, "aria-label": words("play.position"),
      on: { input: () => act.seek(Number(this.scrub.value)), keydown: (event) => this.#keys(event, act) },
    });
    this.time = h("output", { class: "tl-time" });
    this.zoom = h(
      "div",
      { class: "tl-group", role: "group", "aria-label": words("timeline.zoom") },
      button("timeline.zoom_out", "−", () => act.zoom(1.6)),
      button("timeline.zoom_in", "+", () => act.zoom(1 / 1.6)),
      button("timeline.zoom_reset", icon("M2.500 6V2.500H6M10 2.500h3.500V6M13.500 10v3.500H10M6 13.500H2.500V10"), act.reset, "tl-line"),
    );
    const choice = (name) => h("button", { type: "button", class: "tl-choice", "aria-pressed": "false", on: { click: () => act.show(name) } }, words(`timeline.${name}`));
    this.choices = { focus: choice("focus"), whole: choice("whole") };
    this.span = h("div", { class: "tl-group", role: "group", "aria-label": words("timeline.span") }, this.choices.focus, this.choices.whole);
    this.said = h("span", { class: "lab-unseen", role: "status", "aria-live": "polite" });
    this.element = h(
      "div",
      { class: "tl-controls" },
      h("div", { class: "tl-group" }, this.play, this.stop, button("play.back", icon(BACK), () => act.step(-1)), button("play.forward", icon(FORWARD), () => act.step(1))),
      this.speed,
      h("div", { class: "tl-where" }, this.scrub, this.time),
      this.zoom,
      this.span,
      this.said,
    );
  }

  /** Show a state: the moment (null at rest), whether it plays, the end of the run, and which of the two spans is seen. */
  update({ at, playing, speed, end, focus, seen }) {
    const shown = at ?? end;
    if (this.end !== end) this.scrub.max = this.end = end;
    this.scrub.value = shown;
    if (this.speed.value !== String(speed)) this.speed.value = speed;
    const text = at === null ? numbers.moment(end) : `${numbers.moment(at)} / ${numbers.moment(end)}`;
    if (this.time.textContent !== text) {
      this.time.textContent = text;
      this.scrub.setAttribute("aria-valuetext", at === null ? this.words("play.at_rest", { end: numbers.moment(end) }) : numbers.moment(at));
    }
    this.stop.setAttribute("aria-disabled", String(at === null));
    if (this.playing !== playing) {
      const name = this.words(playing ? "play.pause" : "play.play");
      this.play.replaceChildren(icon(playing ? PAUSE : PLAY));
      this.play.setAttribute("aria-label", name);
      this.play.title = name;
      if (this.playing !== null) this.said.textContent = this.words(playing ? "play.playing" : "play.paused");
      this.playing = playing;
    }
    this.span.hidden = !focus;
    for (const [name, choice] of Object.entries(this.choices)) choice.setAttribute("aria-pressed", String(seen === name));
  }

  /** The browser's own steps on a range are too fine or too coarse for a run. */
  #keys(event, act) {
    const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    act.seekBy(by * (event.shiftKey ? COARSE_S : FINE_S));
  }
}
