// Tokens as labels, and shares as numbers. Equal to pages/sinks/shares.py (a browser test compares them).

const segments = Intl.Segmenter ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : null;

/** At most so many characters as a reader counts them; what is cut off shows as an ellipsis. */
export function short(text, most) {
  const found = segments ? Array.from(segments.segment(text), ({ segment }) => segment) : Array.from(text);
  return found.length > most ? `${found.slice(0, most - 1).join("")}…` : text;
}

/** Kept apart from its neighbours: a right-to-left token must not turn the line round it. */
export function isolated(text) {
  return `\u2068${text}\u2069`;
}

/** 0.434 -> "43 %"; 0.0262 -> "2.6 %"; 0.0026 -> "0.26 %"; what is smaller than can be shown says so. */
export function share(value) {
  const percent = value * 100 * (1 + 1e-12);
  if (percent >= 9.95) return `${percent.toFixed(0)} %`;
  if (percent >= 0.995) return `${percent.toFixed(1)} %`;
  if (percent >= 0.005) return `${percent.toFixed(2)} %`;
  return percent > 0 ? "< 0.01 %" : "0 %";
}

/** How many times as much: 2.34 -> "2.3"; 108.2 -> "108". */
export function times(value) {
  return value >= 10 ? Math.round(value).toLocaleString("en-US") : value.toFixed(1);
}
