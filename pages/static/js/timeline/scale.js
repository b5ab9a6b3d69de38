// The time axis: which part of the run is seen, where a moment lies, and where the ticks stand. Pure.

const SHORTEST_S = 0.02;
const STEPS = [1, 2, 5];

/** Pixels of a moment: span [begin, end] on left..right. */
export function scale(span, left, right) {
  const perSecond = (right - left) / (span[1] - span[0]);
  return {
    x: (t) => left + (t - span[0]) * perSecond,
    t: (x) => span[0] + (x - left) / perSecond,
    perSecond,
    left,
    right,
    span,
  };
}

/** A span inside the whole, of a length that can be drawn. */
export function clamp(span, whole) {
  const length = Math.min(Math.max(span[1] - span[0], SHORTEST_S), whole[1] - whole[0]);
  const middle = (span[0] + span[1]) / 2;
  const begin = Math.min(Math.max(middle - length / 2, whole[0]), whole[1] - length);
  return [begin, begin + length];
}

/** The span made `factor` times as long, with `at` staying where it is. */
export function zoomed(span, factor, at) {
  return [at - (at - span[0]) * factor, at + (span[1] - at) * factor];
}

/** The span moved by a share of its length. */
export function moved(span, share) {
  const by = (span[1] - span[0]) * share;
  return [span[0] + by, span[1] + by];
}

export function between(a, b, share) {
  return [a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share];
}

/** Ticks at round moments, at most `most` of them: [{ at, text }]. */
export function ticks(span, most) {
  const rough = (span[1] - span[0]) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = (STEPS.find((s) => s * power >= rough * 0.999) ?? 10) * power;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let i = Math.ceil(span[0] / step - 1e-9); i * step <= span[1] + 1e-9; i++) {
    found.push({ at: i * step, text: `${(i * step).toFixed(digits)} s` });
  }
  return found;
}
