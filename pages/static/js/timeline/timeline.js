// The timeline of measured runs: fetches a payload, or follows a live one, and holds its parts together.
//
// Two canvases share one time axis and one play-head. Bars are drawn on a layer of each only when zoom, size or theme
// change; a frame of play-back copies the layer, dims the future and lights what works at that moment.

import { Controls } from "./controls.js";
import { drawOutline } from "./diagram.js";
import { h, wording } from "../shared/dom.js";
import { drawLanes, drawRows } from "./draw.js";
import { listen } from "./gestures.js";
import { MAX_ROWS, lanesLayout, rowsLayout } from "./layout.js";
import { Edge, Feed } from "./live.js";
import { boundaries, decode, openStall, slowestLong, tellingChat } from "./model.js";
import * as numbers from "../shared/numbers.js";
import { drawOverlay } from "./overlay.js";
import { fills, readColors, watchColors } from "./palette.js";
import { Playback } from "./playback.js";
import * as scales from "./scale.js";
import { Sheet } from "./sheet.js";
import { Texts } from "./texts.js";
import { atLanes, atRows } from "./tooltip.js";

const ZOOM_MS = 240;
// While it plays past the right edge, the view turns over like a page.
const PAGE_AT = 0.985;
const LIVE_SPAN_S = 6;
// What fits between the margins of a sheet of A4 or Letter.
const PAPER_PX = 700;
// How long a transfer stays lit in the diagram, in seconds of the reader's time.
const GLOW_S = 0.3;

let helps = 0;

/** One mounted timeline. `before`: one of the same run that it takes over from. */
export class Timeline {
  constructor(parent, data, before = null) {
    this.data = data;
    this.words = wording(data.words);
    this.playback = before?.data.src === data.src ? before.playback : new Playback();
    this.kept = before?.data.src === data.src ? { span: before.span, home: before.home, chosen: before.chosen } : null;
    this.edge = data.live ? new Edge() : null;
    this.clean = [];
    this.moving = null;
    this.selection = null;
    this.root = h("div", { class: `tl${data.live ? " tl-live" : ""}`, role: "group", "aria-label": this.words("timeline.label") });
    parent.replaceChildren(this.root);
    // For tests: how fast it plays, what is seen, and where the play-head stands.
    Object.defineProperty(this.root, "labStats", { get: () => ({ ...this.playback.stats, span: this.span, at: this.edge?.at ?? this.playback.at }) });
    this.#say(this.words("timeline.loading"));
    if (data.live) {
      this.feed = new Feed(data.src, (payload) => this.#news(payload), (wait) => this.#trouble(wait));
      this.clean.push(() => this.feed.stop());
    } else this.#load();
  }

  destroy() {
    this.gone = true;
    cancelAnimationFrame(this.frame);
    for (const undo of this.clean.splice(0)) undo();
    this.root.remove();
  }

  // -------------------------------------------------------------- getting data

  async #load() {
    try {
      const answer = await fetch(new URL(this.data.src, document.baseURI), { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const payload = await answer.json();
      if (!this.gone) this.#show(decode(payload));
    } catch (error) {
      if (this.gone) return;
      if (this.model) throw error;
      this.#say(this.words("timeline.failed"), h("button", { type: "button", class: "tl-choice", on: { click: () => (this.#say(this.words("timeline.loading")), this.#load()) } }, this.words("timeline.retry")));
    }
  }

  #news(payload) {
    if (!payload.lanes.length && !payload.planned?.length) return this.#say(this.words("timeline.live_soon"));
    const model = decode(payload, true);
    const running = model.lanes.find((lane) => !lane.complete);
    if (running) this.edge.hear(running, performance.now() / 1000);
    this.#show(model);
  }

  #trouble(wait) {
    if (this.notice) this.notice.textContent = wait === null ? "" : this.words("timeline.trouble", { s: numbers.seconds(wait) });
    else if (wait !== null) this.#say(this.words("timeline.trouble", { s: numbers.seconds(wait) }));
  }

  #say(...parts) {
    if (this.model) return;
    this.root.replaceChildren(h("p", { class: "tl-message", role: "status" }, ...parts));
  }

  // -------------------------------------------------------------- what is on the page

  #show(model) {
    const first = !this.model;
    const shape = JSON.stringify(model.lanes.map((lane) => [lane.schedule, lane.tracks.length, lane.rows.map((row) => row.id)]));
    this.model = model;
    this.moments = boundaries(model);
    this.whole = this.data.live ? [0, this.#liveEnd()] : model.span;
    if (first) this.#build();
    if (this.data.live) {
      if (!this.span) this.span = this.whole;
      this.chosen = { chat: this.chosen?.chat ?? tellingChat(model), long: this.chosen?.long ?? slowestLong(model) };
    } else if (first) {
      this.home = this.kept?.home ?? (model.focus ? "focus" : "whole");
      this.span = this.kept?.span ?? this.#homeSpan();
      this.chosen = this.kept?.chosen ?? { chat: tellingChat(model), long: slowestLong(model) };
    }
    if (first || shape !== this.shape) this.#headers();
    if (!this.data.compact) this.texts.build(model, this.chosen);
    this.shape = shape;
    this.#resize();
  }

  #build() {
    const { words, data } = this;
    this.notice = h("p", { class: "tl-notice", role: "status" });
    this.lanes = new Sheet(data.alt);
    this.controls = new Controls(words, {
      toggle: () => this.toggle(),
      rest: () => this.rest(),
      step: (direction) => this.step(direction),
      speed: (speed) => (this.playback.speed = speed),
      seek: (t) => this.seek(t),
      seekBy: (seconds) => this.seek((this.playback.at ?? this.model.end) + seconds),
      zoom: (factor) => this.zoom(factor),
      reset: () => this.goTo(this.#homeSpan()),
      show: (name) => {
        this.home = name;
        this.goTo(this.#homeSpan());
      },
    });
    this.heads = h("div", { class: "tl-heads" });
    this.lanes.element.prepend(this.heads);
    const blocks = [this.notice, this.lanes.element];
    if (!data.live) blocks.unshift(this.controls.element);
    if (!data.compact) {
      this.texts = new Texts(words, (role, id) => this.choose(role, id));
      this.rows = new Sheet(null);
      this.rowsTitle = h("h3", { class: "tl-rows-title" });
      blocks.push(this.texts.element, this.rowsTitle, this.rows.element);
    }
    const coarse = matchMedia("(pointer: coarse)").matches;
    if (!data.live && !data.compact) {
      const help = h("p", { class: "tl-help", id: `tl-help-${(helps += 1)}` }, words(coarse ? "timeline.help_touch" : "timeline.help"));
      this.lanes.canvas.setAttribute("aria-describedby", help.id);
      blocks.splice(3, 0, help);
    }
    this.root.replaceChildren(...blocks);
    this.sheets = [this.lanes, this.rows].filter(Boolean);
    this.colors = readColors(this.root);
    this.clean.push(watchColors(this.root, () => this.#theme()));
    this.#listen();
  }

  #listen() {
    const resized = new ResizeObserver(() => this.#resize());
    resized.observe(this.root);
    this.clean.push(() => resized.disconnect());
    const inSight = new IntersectionObserver((entries) => {
      for (const entry of entries) this.sheets.find((sheet) => sheet.element === entry.target).seen = entry.isIntersecting;
      this.draw();
    }, { rootMargin: "120px" });
    for (const sheet of this.sheets) {
      inSight.observe(sheet.element);
      this.clean.push(listen(sheet.canvas, this.#wishes(sheet)));
    }
    this.clean.push(() => inSight.disconnect());
    this.root.addEventListener("keydown", (event) => this.#key(event));
    // Paper is white and narrower than a screen, whatever the theme and the window are.
    const print = (scheme) => () => {
      this.printing = scheme !== null;
      this.root.style.width = this.printing ? `${PAPER_PX}px` : "";
      this.colors = readColors(this.root, scheme);
      this.#resize();
      this.#frame(performance.now());
    };
    const [before, after] = [print("light"), print(null)];
    addEventListener("beforeprint", before);
    addEventListener("afterprint", after);
    this.clean.push(() => (removeEventListener("beforeprint", before), removeEventListener("afterprint", after)));
    document.fonts?.ready.then(() => !this.gone && this.#theme());
  }

  /** The lanes' headings are text of the page, so that they can be read, found and selected. */
  #headers() {
    const { words, model } = this;
    const most = Math.max(0, ...model.lanes.map((lane) => lane.rows.length));
    if (this.rowsTitle) this.rowsTitle.hidden = this.rows.element.hidden = !most;
    if (this.rowsTitle) this.rowsTitle.textContent = most <= MAX_ROWS ? words("rows.heading") : words("rows.heading_first", { shown: MAX_ROWS, all: most });
    this.heads.replaceChildren(
      ...model.lanes.map((lane) => {
        const gap = h("b");
        return h(
          "div",
          { class: "tl-head" },
          h("b", { class: "tl-name" }, words(`schedule.${lane.schedule}.name`)),
          h("span", { class: "tl-what" }, words(`schedule.${lane.schedule}.lane`)),
          h("span", { class: "tl-gap" }, words("mark.gap"), " ", gap),
        );
      }),
    );
  }

  #theme() {
    if (!this.colors || this.gone) return;
    this.colors = readColors(this.root, this.printing ? "light" : null);
    this.relayer = true;
    this.draw();
  }

  #resize() {
    const width = Math.floor(this.root.clientWidth);
    if (!this.model || !width || this.gone) return;
    const dpr = Math.min(window.devicePixelRatio || 1, 3);
    this.layouts = [lanesLayout(this.model, width), rowsLayout(this.model, width)];
    const key = `${width} ${dpr} ${this.layouts.map((layout) => layout.height)}`;
    if (key !== this.sized) {
      this.sized = key;
      this.sheets.forEach((sheet, i) => sheet.size(width, this.layouts[i].height, dpr));
      this.root.classList.toggle("tl-narrow", this.layouts[0].narrow);
      this.fills = null;
      this.texts?.fit();
    }
    [...this.heads.children].forEach((head, n) => {
      const lane = this.model.lanes[n];
      head.style.top = `${this.layouts[0].lanes[n].top}px`;
    });
    this.#worstGaps();
    this.dpr = dpr;
    this.relayer = true;
    this.draw();
  }

  // -------------------------------------------------------------- what the reader can do

  toggle() {
    const { playback, model } = this;
    if (playback.playing) playback.pause();
    else {
      playback.play(this.span[0] < model.end * 0.98 ? Math.max(0, this.span[0]) : 0, model.end);
      this.#intoSight();
    }
    this.draw();
  }

  /** Back to the whole result. */
  rest() {
    this.playback.rest();
    this.draw();
  }

  /** Who presses play wants to see all lanes: a lecture must not begin with scrolling. */
  #intoSight() {
    if (this.lanes.element.getBoundingClientRect().bottom <= innerHeight) return;
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.controls.element.scrollIntoView({ block: "start", behavior: calm ? "auto" : "smooth" });
  }

  step(direction) {
    this.playback.step(direction, this.moments, this.span[0], this.model.end);
    this.#follow();
    this.draw();
  }

  seek(t) {
    this.playback.seek(t, this.model.end);
    if (this.playback.at >= this.model.end) this.playback.rest();
    else this.#follow();
    this.draw();
  }

  zoom(factor, at = null) {
    const inside = this.playback.at !== null && this.playback.at > this.span[0] && this.playback.at < this.span[1];
    this.goTo(scales.zoomed(this.target ?? this.span, factor, at ?? (inside ? this.playback.at : (this.span[0] + this.span[1]) / 2)));
  }

  /** See another part of the run, in a short movement unless the reader wants none. */
  goTo(span, { at_once = false } = {}) {
    this.target = scales.clamp(span, this.whole);
    if (at_once || matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.span = this.target;
      this.moving = null;
    } else this.moving = { from: this.span, to: this.target, since: performance.now() };
    this.relayer = true;
    this.draw();
  }

  choose(role, id) {
    this.chosen = { ...this.chosen, [role]: id };
    this.texts.build(this.model, this.chosen);
    this.relayer = true;
    this.draw();
  }

  #homeSpan() {
    return this.home === "focus" && this.model.focus ? this.model.focus : this.whole;
  }

  #follow() {
    const { at, playing } = this.playback;
    if (at === null || this.moving) return;
    const length = this.span[1] - this.span[0];
    if (at > this.span[0] + length * PAGE_AT && this.span[1] < this.whole[1] - 1e-6) this.goTo([at - length * 0.08, at + length * 0.92]);
    else if (at < this.span[0]) this.goTo(playing ? [at - length * 0.08, at + length * 0.92] : [at - length * 0.5, at + length * 0.5]);
  }

  #wishes(sheet) {
    const scale = () => this.#scene(sheet).scale;
    let before = null;
    return {
      head: () => (this.data.live || this.playback.at === null ? null : scale().x(this.playback.at)),
      select: (range) => {
        this.selection = range;
        this.draw();
      },
      zoomTo: (x0, x1) => this.goTo([scale().t(x0), scale().t(x1)]),
      pan: (dx) => {
        const before = this.span[0];
        this.goTo(scales.moved(this.span, -dx / (scale().right - scale().left)), { at_once: true });
        return this.span[0] !== before;
      },
      zoomAt: (factor, x, shift = 0) => {
        const at = scale().t(x);
        this.goTo(scales.moved(scales.zoomed(this.span, factor, at), shift / (scale().right - scale().left)), { at_once: true });
      },
      grab: (x) => this.seek(scale().t(x)),
      hover: (x, y) => {
        const found = x === null ? null : this.#at(sheet, x, y);
        sheet.hover = found;
        sheet.tip.show(found, x, y, sheet.width);
        this.draw();
      },
      click: (x, y, touch) => {
        const found = this.#at(sheet, x, y);
        if (touch) {
          sheet.hover = found;
          sheet.tip.show(found, x, y, sheet.width);
        }
        if (found?.id) return this.choose(this.model.lanes[found.lane].rows.find((row) => row.id === found.id).kind === "long" ? "long" : "chat", found.id);
        before = this.playback.at;
        // A click puts the play-head where one is; it does not take a result out of its rest.
        const { left, right } = scale();
        if (!this.data.live && before !== null && x >= left && x <= right) this.seek(scale().t(x));
        this.draw();
      },
      reset: () => {
        if (before === null && this.playback.at !== null && !this.playback.playing) this.playback.rest();
        this.goTo(this.#homeSpan());
      },
    };
  }

  #at(sheet, x, y) {
    return (sheet === this.lanes ? atLanes : atRows)(this.#scene(sheet), x, y);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.data.live || event.target !== this.lanes.canvas) return;
    const actions = {
      " ": () => this.toggle(),
      ArrowRight: () => (event.shiftKey ? this.goTo(scales.moved(this.target ?? this.span, 0.25)) : this.step(1)),
      ArrowLeft: () => (event.shiftKey ? this.goTo(scales.moved(this.target ?? this.span, -0.25)) : this.step(-1)),
      "+": () => this.zoom(1 / 1.6),
      "=": () => this.zoom(1 / 1.6),
      "-": () => this.zoom(1.6),
      Escape: () => this.rest(),
      0: () => this.goTo(this.#homeSpan()),
      Home: () => this.goTo(this.#homeSpan()),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  // -------------------------------------------------------------- frames

  /** Ask for a frame; there are none while nothing changes. */
  draw() {
    if (this.frame || this.gone || !this.model) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = null;
      this.#frame(now);
    });
  }

  #frame(now) {
    if (this.gone || !this.model || !this.sized) return;
    const elapsed = this.last ? (now - this.last) / 1000 : 0;
    const { playback } = this;
    if (playback.playing) {
      playback.advance(elapsed, this.model.end);
      this.#follow();
    }
    if (this.edge && this.#running()) {
      this.edge.advance(Math.min(elapsed, 0.25), now / 1000);
      this.#growAxis();
    }
    this.#move(now);
    if (this.relayer) {
      this.#layers();
      this.relayer = false;
    }
    for (const sheet of this.sheets) if (sheet.seen || this.printing) this.#overlay(sheet);
    if (this.edge) this.#worstGaps();
    this.texts?.show((lane) => this.headOf(lane));
    this.controls.update({ at: playback.at, playing: playback.playing, speed: playback.speed, end: this.model.end, focus: this.model.focus, seen: this.#spanSeen() });
    const goesOn = playback.playing || this.moving || (this.edge && this.#running());
    this.last = goesOn ? now : null;
    if (goesOn) this.draw();
  }

  /** Where the play-head is for a lane; null at rest. In a live run only the lane that is measured has one. */
  headOf(lane) {
    if (this.printing) return null;
    if (!this.edge) return this.playback.at;
    return lane.complete ? null : this.edge.at;
  }

  /** The worst gap so far beside each lane's name; in a live run it grows while nobody gets a token. */
  #worstGaps() {
    [...this.heads.children].forEach((head, n) => {
      const lane = this.model.lanes[n];
      const at = this.edge && this.headOf(lane);
      const since = at === null ? null : openStall(lane, at);
      const worst = Math.max(lane.gap ? lane.gap[1] - lane.gap[0] : 0, since === null ? 0 : at - since);
      const [place, said] = [head.querySelector(".tl-gap"), worst ? numbers.seconds(worst) : ""];
      place.hidden = !worst;
      if (place.lastChild.textContent !== said) place.lastChild.textContent = said;
    });
  }

  #running() {
    return this.model.lanes.find((lane) => !lane.complete);
  }

  #spanSeen() {
    const span = this.target ?? this.span;
    const same = (other) => other && Math.abs(other[0] - span[0]) + Math.abs(other[1] - span[1]) < 1e-6;
    return same(this.model.focus) ? "focus" : same(this.whole) ? "whole" : null;
  }

  #move(now) {
    if (!this.moving) return;
    // The frame's own time may lie a little before the wish.
    const share = Math.min(1, Math.max(0, (now - this.moving.since) / ZOOM_MS));
    this.span = scales.between(this.moving.from, this.moving.to, 1 - (1 - share) ** 3);
    if (share >= 1) this.moving = null;
    this.relayer = true;
  }

  #liveEnd() {
    const done = this.model.lanes.filter((lane) => lane.complete).map((lane) => lane.end * 1.012);
    return Math.max(LIVE_SPAN_S, this.whole?.[1] ?? 0, ...done);
  }

  #growAxis() {
    const end = Math.max(this.#liveEnd(), this.edge.at > this.whole[1] * 0.92 ? this.edge.at * 1.35 : 0);
    if (end <= this.whole[1] && this.span[1] >= this.whole[1] - 1e-6) return;
    this.whole = [0, end];
    if (!this.moving) this.goTo(this.whole);
  }

  #scene(sheet) {
    const layout = this.layouts[sheet === this.lanes ? 0 : 1];
    this.fills ??= fills(this.lanes.drawn, this.colors, this.dpr);
    return {
      model: this.model,
      layout,
      scale: scales.scale(this.span, layout.left, layout.right),
      colors: this.colors,
      fills: this.fills,
      words: this.words,
      chosen: Object.values(this.chosen),
    };
  }

  #layers() {
    this.fills = null;
    for (const sheet of this.sheets) {
      const scene = this.#scene(sheet);
      if (sheet === this.lanes) {
        drawLanes(sheet.drawn, scene);
        drawOutline(sheet.drawn, scene);
      } else drawRows(sheet.drawn, scene);
    }
  }

  #overlay(sheet) {
    drawOverlay(sheet.blit(), this.#scene(sheet), {
      headOf: (lane) => this.headOf(lane),
      live: this.edge !== null,
      engines: sheet === this.lanes,
      glow: GLOW_S * (this.playback.playing || this.edge ? this.playback.speed : 0.02),
      hover: sheet.hover,
      selection: this.selection,
    });
  }
}
