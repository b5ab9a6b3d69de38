// Numbers as people read them, always with their unit; equal to pages/_ui/fmt.py (a browser test compares them).

// As there: a half is rounded up by both.
const HALVES_UP = 1 + 1e-12;

/** 0.0423 -> "42 ms"; 2.2134 -> "2.21 s". */
export function seconds(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value < 0) return `−${seconds(-value)}`;
  if (value === 0) return "0 s";
  if (value < 0.0005) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 0.00995) return `${(value * 1e3).toFixed(1)} ms`;
  if (value < 0.9995) return `${(value * 1e3).toFixed(0)} ms`;
  if (value < 9.995) return `${value.toFixed(2)} s`;
  return value < 99.95 ? `${value.toFixed(1)} s` : `${count(value)} s`;
}

/** A moment of the run: "7.38 s", always with the same number of digits. */
export function moment(value) {
  return `${value.toFixed(2)} s`;
}

/** 4096 -> "4,096". */
export function count(value) {
  return Math.round(value).toLocaleString("en-US");
}

/** 121e6 -> "121 MB". */
export function bytes(value) {
  for (const [limit, unit] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (value >= limit) return `${value / limit < 999.5 ? trimmed(value / limit) : count(value / limit)} ${unit}`;
  }
  return `${value.toFixed(0)} B`;
}

/** Three significant digits, no zeros at the end. */
function trimmed(value) {
  return String(Number((value * HALVES_UP).toPrecision(3)));
}

/** 2 ** 28 -> "256 MiB"; for sizes in powers of two. */
export function binaryBytes(value) {
  for (const [limit, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (value >= limit) return `${Number(((value / limit) * HALVES_UP).toPrecision(4)).toLocaleString("en-US", { maximumFractionDigits: 4 })} ${unit}`;
  }
  return `${value.toFixed(0)} B`;
}

/** 151.9 -> "152 tok/s". */
export function rate(value) {
  const number = value * HALVES_UP;
  return value >= 10 ? `${count(number)} tok/s` : `${number.toFixed(1)} tok/s`;
}
