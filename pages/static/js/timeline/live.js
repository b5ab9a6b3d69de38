// A run as it goes on: asks for what is new about once a second, and says how far the picture may be drawn.

import { merge } from "./model.js";

const EVERY_MS = 1000;
const LONGEST_WAIT_MS = 15000;
// Drawn this long after it happened, so that it grows evenly although news come once a second.
const BEHIND_S = 1.2;
const LEAP_S = 6;
const OVER = ["done", "failed", "cancelled", "unknown"];

/** Asks until the run is over or stop() is called. got(payload): all that is known; trouble(seconds until the next try | null). */
export class Feed {
  constructor(address, got, trouble) {
    Object.assign(this, { address, got, trouble, known: null, failures: 0, timer: null, stopped: false, state: null });
    this.seen = () => !document.hidden && this.#ask();
    document.addEventListener("visibilitychange", this.seen);
    this.#ask();
  }

  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.seen);
  }

  async #ask() {
    clearTimeout(this.timer);
    if (this.stopped || this.asking || document.hidden) return;
    this.asking = true;
    let news = null;
    try {
      const url = new URL(this.address, document.baseURI);
      const have = this.known?.lanes.filter((lane) => lane.complete).map((lane) => lane.schedule) ?? [];
      url.searchParams.set("have", have.join(","));
      const answer = await fetch(url, { headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      news = await answer.json();
    } catch {
      this.failures += 1;
    } finally {
      this.asking = false;
    }
    if (this.stopped) return;
    if (news) this.#take(news);
    else this.trouble(this.#wait() / 1000);
    if (OVER.includes(this.state)) this.stop();
    else this.timer = setTimeout(() => this.#ask(), this.#wait());
  }

  /** What an answer says; a fault in drawing it is none of the connection's. */
  #take(news) {
    this.failures = 0;
    this.trouble(null);
    this.state = news.state ?? "running";
    // Without lanes there is nothing new: the run has not begun, or all that is complete is here.
    if (news.lanes?.length) this.known = merge(this.known, news);
    this.got(this.known ?? { lanes: [], span: [0, 0], focus: null, ...news });
  }

  #wait() {
    return Math.min(EVERY_MS * 2 ** this.failures, LONGEST_WAIT_MS);
  }
}

/** The play-head at the growing edge: runs with the clock, a little behind it, and never past what is known. */
export class Edge {
  constructor() {
    this.at = 0;
    this.key = null;
  }

  /** The lane that is being measured, as the last answer had it. */
  hear(lane, clock) {
    const key = `${lane.schedule}/${lane.repeat}`;
    if (this.key !== key) {
      this.key = key;
      this.at = Math.max(0, lane.now - 2 * BEHIND_S);
    }
    if (lane.now !== this.known) Object.assign(this, { known: lane.now, heard: clock });
  }

  advance(elapsed, clock) {
    if (this.key === null) return;
    const wanted = this.known + (clock - this.heard) - BEHIND_S;
    if (wanted - this.at > LEAP_S) this.at = wanted;
    const pace = 1 + Math.max(-0.6, Math.min(1, (wanted - this.at) * 0.6));
    this.at = Math.max(0, Math.min(this.at + elapsed * pace, this.known));
  }
}
