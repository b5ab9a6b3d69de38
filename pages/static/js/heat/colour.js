// Shares of attention as colours. A colour is given for both themes at once, so that a change of theme redraws nothing.

const STEPS = 96;

/** { of: level -> CSS colour, bar: CSS background } for a ramp { light: [hex, ...], dark: [hex, ...] }; level is 0 to 1. */
export function ramp(stops) {
  const colours = Array.from({ length: STEPS + 1 }, (_, i) => `light-dark(${between(stops.light, i / STEPS)}, ${between(stops.dark, i / STEPS)})`);
  const of = (level) => colours[Math.round(Math.min(Math.max(level, 0), 1) * STEPS)];
  const shown = Array.from({ length: 17 }, (_, i) => of(i / 16));
  return { of, bar: `linear-gradient(to right, ${shown.join(", ")})` };
}

/** What the map is coloured by: a square root, so that small shares show beside large ones. The legend says so. */
export function rooted(share) {
  return Math.sqrt(Math.max(share, 0));
}

function between(stops, level) {
  const at = level * (stops.length - 1);
  const i = Math.min(Math.floor(at), stops.length - 2);
  const [a, b] = [channels(stops[i]), channels(stops[i + 1])];
  return `rgb(${a.map((value, c) => Math.round(value + (b[c] - value) * (at - i))).join(" ")})`;
}

function channels(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}
