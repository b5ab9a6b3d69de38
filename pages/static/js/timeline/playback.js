// The play-head: a moment of the run, or none while the result is at rest. Knows time and speed, draws nothing.

import { countUntil } from "./model.js";

export const SPEEDS = [0.25, 0.5, 1, 2, 4];
// A tab that slept must not jump.
const LONGEST_FRAME_S = 0.25;

export class Playback {
  constructor() {
    this.at = null;
    this.playing = false;
    this.speed = 1;
    this.stats = { frames: 0, seconds: 0 };
  }

  /** Begin from the play-head, or from `from` if the result is at rest. */
  play(from, end) {
    if (this.at === null || this.at >= end) this.at = from;
    this.playing = true;
    this.stats.frames = this.stats.seconds = 0;
  }

  pause() {
    this.playing = false;
  }

  seek(t, end) {
    this.at = Math.min(Math.max(t, 0), end);
  }

  rest() {
    this.playing = false;
    this.at = null;
  }

  /** The next (+1) or previous (-1) of the sorted moments. */
  step(direction, moments, from, end) {
    this.playing = false;
    const at = this.at ?? (direction > 0 ? from : end);
    const i = countUntil(moments, at + (direction > 0 ? 1e-6 : -1e-6));
    const found = direction > 0 ? moments[i] : moments[i - 1];
    this.seek(found ?? (direction > 0 ? end : 0), end);
  }

  /** One frame of `elapsed` seconds later. At the end of the run the result comes to rest. */
  advance(elapsed, end) {
    if (!this.playing) return;
    this.stats.frames += 1;
    this.stats.seconds += elapsed;
    this.at += Math.min(elapsed, LONGEST_FRAME_S) * this.speed;
    if (this.at >= end) this.rest();
  }
}
