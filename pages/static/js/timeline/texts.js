// What users see: an answer appears as it came. Where the stream stopped, a hatched pill stands in the text.

import { h } from "../shared/dom.js";
import { begun, countUntil, waitedFor } from "./model.js";
import * as numbers from "../shared/numbers.js";

const REM = 16;
const LINE = 0.97 * 1.62 * REM;
const HEIGHTS = { chat: 9 * LINE + 4, long: 4 * LINE + 4 };
const LEAST = 2 * LINE;
// A stall is felt from about here on.
const FELT_S = 0.15;
// A shorter one is marked more quietly.
const BRIEF_S = 0.95;
// The end-of-text mark and a newline before it are no news.
const UNSAID_TOKENS = 4;

/** A card per schedule, each with one chat and one long prompt. */
export class Texts {
  constructor(words, choose) {
    this.words = words;
    this.choose = choose;
    this.answers = [];
    this.cards = h("div", { class: "tl-cards" });
    this.pickers = h("div", { class: "tl-pickers" });
    this.note = h("p", { class: "tl-note" }, words("play.no_pieces"));
    this.element = h("section", { class: "tl-texts" }, h("div", { class: "tl-heading" }, h("h3", {}, words("play.heading")), this.pickers), this.note, this.cards);
  }

  /** Build the cards for the chosen requests; chosen: { chat, long }, each a request id or null. */
  build(model, chosen) {
    this.#pick(model, chosen);
    this.answers = [];
    this.cards.replaceChildren(
      ...model.lanes.map((lane) => {
        const card = h("article", { class: "tl-card" }, h("h4", {}, this.words(`schedule.${lane.schedule}.name`)));
        for (const role of ["chat", "long"]) {
          const row = lane.rows.find((one) => one.id === chosen[role]);
          if (!row) continue;
          const answer = new Answer(lane, row, model.texts[row.id], role, this.words);
          this.answers.push(answer);
          card.append(answer.element);
        }
        return card;
      }),
    );
    this.element.hidden = !this.answers.length;
    this.note.hidden = !this.answers.some((answer) => answer.text && !answer.offsets && answer.lane.complete);
    this.fit();
  }

  /** Show every answer as it was at a moment; headOf(lane) is that moment, null for the whole. */
  show(headOf) {
    for (const answer of this.answers) answer.show(headOf(answer.lane));
  }

  /** Frames keep their height while a text grows in them, the same beside each other. */
  fit() {
    for (const role of ["chat", "long"]) {
      const answers = this.answers.filter((answer) => answer.role === role);
      const most = Math.max(0, ...answers.map((answer) => answer.natural()));
      if (!answers.length) continue;
      const height = answers.every((answer) => answer.lane.complete) ? Math.min(HEIGHTS[role], Math.max(most, LEAST)) : HEIGHTS[role];
      for (const answer of answers) answer.frame.style.height = `${height}px`;
    }
  }

  #pick(model, chosen) {
    const lists = { chat: [], long: [] };
    for (const row of begun(model)?.rows ?? []) lists[row.kind === "long" ? "long" : "chat"].push(row.id);
    const key = JSON.stringify([lists, chosen]);
    if (key === this.key) return;
    this.key = key;
    this.pickers.replaceChildren(
      ...Object.entries(lists)
        .filter(([, ids]) => ids.length > 1)
        .map(([role, ids]) => {
          const select = h("select", { class: "tl-select", "aria-label": this.words(`play.${role}`), on: { change: () => this.choose(role, select.value) } }, ...ids.sort(byNumber).map((id) => h("option", { value: id, selected: id === chosen[role] }, id)));
          return h("span", {}, this.words(`play.${role}`), " ", select);
        }),
    );
  }
}

/** chat-2 before chat-10. */
function byNumber(a, b) {
  return a.localeCompare(b, "en", { numeric: true });
}

/** One answer of one schedule. */
class Answer {
  constructor(lane, row, texts, role, words) {
    Object.assign(this, { lane, row, role, words, shown: -1 });
    const answer = texts?.lanes[lane.schedule];
    this.text = answer?.text ?? "";
    this.offsets = answer?.lengths ? offsets(answer.lengths) : null;
    this.count = h("span", { class: "tl-count" });
    this.caret = h("span", { class: "tl-caret", "aria-hidden": "true" });
    this.wait = pill(0, "", "tl-waiting");
    this.paragraph = h("p", {});
    this.frame = h("div", { class: `tl-answer tl-${role}`, tabindex: 0, role: "region", "aria-label": `${words(`schedule.${lane.schedule}.name`)}: ${row.id}` }, this.paragraph);
    const prompt = texts?.prompt && role === "chat" ? h("p", { class: "tl-prompt", title: texts.prompt }, texts.prompt) : null;
    this.element = h("div", { class: "tl-stream" }, h("div", { class: "tl-who" }, h("b", {}, role === "long" ? words("play.long") : row.id), this.count), prompt, this.frame);
    // Beside a text that is there from the beginning, waiting is told apart from it.
    if (!this.offsets) this.count.before(this.wait);
    this.#segments();
  }

  /** The height of the whole text. */
  natural() {
    this.#grow(this.row.at.length, "rest");
    this.shown = -1;
    return this.paragraph.offsetHeight + 4;
  }

  show(t) {
    const { row, lane } = this;
    const all = row.at.length;
    const k = t === null ? all : countUntil(row.at, t);
    const waited = t === null ? 0 : waitedFor(lane, row, t);
    const mood = t === null ? "rest" : t < row.arrival ? "before" : k === 0 ? "first" : k >= all && row.status !== "unfinished" ? "done" : "writing";
    if (k !== this.shown || mood !== this.mood) this.#grow(k, mood);
    let waiting = "";
    if (mood === "before" && Number.isFinite(row.arrival)) waiting = this.words("play.arrives", { s: numbers.moment(row.arrival) });
    else if (mood === "first") waiting = this.words("play.reading", { s: `${(t - row.arrival).toFixed(1)} s` });
    else if (waited > FELT_S) waiting = this.words("play.waiting", { s: `${waited.toFixed(1)} s` });
    if (waiting !== this.waiting) {
      this.waiting = waiting;
      this.wait.hidden = !waiting;
      this.wait.classList.toggle("tl-plain", mood === "before" || mood === "first");
      this.wait.lastChild.textContent = waiting;
    }
    if (waited > FELT_S) this.wait.firstChild.style.width = `${hatch(waited)}px`;
  }

  /** Text nodes, with a pill after every token that was followed by a stall. */
  #segments() {
    const { row, words } = this;
    const cuts = this.offsets ? [...row.stalls].filter((k) => k + 1 < row.at.length).sort((a, b) => a - b) : [];
    this.first = row.at.length ? pill(0, words("play.first", { s: numbers.seconds(row.at[0] - row.arrival) }), "tl-plain") : null;
    this.segments = [];
    let from = 0;
    for (const k of [...cuts, Infinity]) {
      const node = document.createTextNode("");
      const last = k === Infinity;
      const gap = last ? 0 : row.at[k + 1] - row.at[k];
      const mark = last ? null : pill(gap, gap < BRIEF_S ? `${gap.toFixed(1)} s` : numbers.seconds(gap), gap < BRIEF_S ? "tl-brief" : "", words("play.stall", { s: numbers.seconds(gap) }));
      this.segments.push({ node, mark, from, to: last ? Infinity : k + 1, length: -1 });
      from = k + 1;
    }
    this.end = h("span", { class: "tl-after" });
    const parts = this.segments.flatMap(({ node, mark }) => (mark ? [node, mark] : [node]));
    this.paragraph.replaceChildren(...(this.first ? [this.first] : []), ...parts, this.caret, ...(this.offsets ? [this.wait] : []), this.end);
    this.wait.hidden = true;
    this.waiting = "";
  }

  #grow(k, mood) {
    this.shown = k;
    this.mood = mood;
    const rest = mood === "rest";
    const over = rest || mood === "done";
    for (const segment of this.segments) {
      const until = this.offsets ? this.#offset(Math.min(k, segment.to)) : over || !this.offsets ? this.text.length : 0;
      const begin = this.offsets ? this.#offset(segment.from) : 0;
      const length = Math.max(0, until - begin);
      if (length !== segment.length) {
        segment.node.data = this.text.slice(begin, begin + length);
        segment.length = length;
      }
      if (segment.mark) segment.mark.hidden = k <= segment.to;
    }
    this.caret.hidden = over || mood === "before" || !this.offsets;
    if (this.first) this.first.hidden = !(rest || (k > 0 && this.offsets));
    const all = this.row.at.length;
    this.count.textContent = rest || over ? this.#tokens(all) : this.lane.complete ? this.words("play.tokens_of", { k, n: all }) : this.#tokens(k);
    const unsaid = this.offsets ? k - countUntil(this.offsets, this.text.length - 1) - 1 : 0;
    this.end.textContent = over && unsaid > UNSAID_TOKENS ? ` ${this.words("play.after_end", { n: unsaid })}` : "";
    if (rest || !this.offsets) this.frame.scrollTop = 0;
    else this.frame.scrollTop = this.frame.scrollHeight;
  }

  #tokens(n) {
    return n === 1 ? this.words("play.token_one") : this.words("play.tokens", { n });
  }

  /** Characters after k tokens. */
  #offset(k) {
    return k <= 0 ? 0 : this.offsets[Math.min(k, this.offsets.length) - 1] ?? 0;
  }
}

/** Characters after each token: lengths are digits of base 36, or numbers. */
function offsets(lengths) {
  let sum = 0;
  return Int32Array.from(lengths, (one) => (sum += typeof one === "string" ? parseInt(one, 36) : one));
}

function pill(gap, label, kind = "", title = null) {
  const mark = h("i", { "aria-hidden": "true" });
  mark.style.width = `${hatch(gap)}px`;
  return h("span", { class: `tl-pill ${kind}`, title }, mark, h("b", {}, label));
}

/** The hatching is as long as the silence, up to where a line would break. */
function hatch(gap) {
  return Math.round(Math.min(6 + gap * 12, 90));
}
