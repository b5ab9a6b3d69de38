// One pair as a clock: the angles it met in training as an arc, the hand, and where the hand stands for the next token.

import { h, s } from "../shared/dom.js";

const R = 42;
const TURN = 2 * Math.PI;

/** A face that stays and is drawn anew: { element, show(hand, texts) }. Zero is up, and the hand goes clockwise. */
export function face(pair) {
  const arc = s("path", { class: "rc-arc" });
  const step = s("path", { class: "rc-step" });
  const needle = s("line", { class: "rc-hand", x1: 0, y1: 0 });
  const tip = s("path", { class: "rc-tip" });
  const svg = s("svg", { viewBox: "-52 -52 104 104", "aria-hidden": "true" }, s("circle", { class: "rc-rim", r: R }), s("path", { class: "rc-zero", d: `M0 ${-R - 5}v10` }), arc, step, needle, tip, s("circle", { class: "rc-pin", r: 2.5 }));
  const name = h("b", {}, String(pair));
  const wave = h("span", {});
  const state = h("small", {});
  const pace = h("small", { class: "rc-pace" });
  const element = h("div", { class: "rc-face", "data-pair": pair }, h("div", { class: "rc-name" }, name, wave), svg, state, pace);
  return {
    element,
    show(hand, { wavelength, said, divisor }) {
      element.classList.toggle("rc-outside", !hand.inside);
      element.dataset.band = hand.band ?? "";
      arc.setAttribute("d", hand.whole ? circle(R) : sector(R, 0, hand.seen, false));
      // Between this token and the next; a hand that hardly moves has no sector to see.
      step.setAttribute("d", hand.frequency < TURN ? sector(R - 9, hand.angle, hand.angle + hand.frequency, true) : "");
      const [x, y] = at(R - 10, hand.angle);
      needle.setAttribute("x2", x);
      needle.setAttribute("y2", y);
      const [tx, ty] = at(R, hand.angle);
      tip.setAttribute("d", hand.inside ? `M${tx - 5.5} ${ty}a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0 -11 0Z` : `M${tx} ${ty - 9}l9 9l-9 9l-9 -9Z`);
      if (wave.textContent !== wavelength) wave.textContent = wavelength;
      if (state.textContent !== said) state.textContent = said;
      if (pace.textContent !== divisor) pace.textContent = divisor;
    },
  };
}

function at(radius, angle) {
  return [round(radius * Math.sin(angle)), round(-radius * Math.cos(angle))];
}

function circle(r) {
  return `M0 ${-r}A${r} ${r} 0 1 1 0 ${r}A${r} ${r} 0 1 1 0 ${-r}`;
}

function sector(r, from, to, filled) {
  const [x, y] = at(r, from);
  const [u, v] = at(r, to);
  const large = to - from > Math.PI ? 1 : 0;
  return filled ? `M0 0L${x} ${y}A${r} ${r} 0 ${large} 1 ${u} ${v}Z` : `M${x} ${y}A${r} ${r} 0 ${large} 1 ${u} ${v}`;
}

function round(value) {
  return Math.round(value * 100) / 100;
}
