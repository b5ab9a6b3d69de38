// Values to pixels, on linear and logarithmic axes, and where the ticks stand. Pure.

/** { at: value -> pixel } for range [low, high] on from..to. */
export function scale({ range: [low, high], log }, from, to) {
  const turn = log ? Math.log : (value) => value;
  const begin = turn(low);
  const per = (to - from) / (turn(high) - begin);
  return {
    at: (value) => from + (turn(log ? Math.max(value, 1e-300) : value) - begin) * per,
  };
}

/** The ticks that have room: [[value, label, pixel], ...]; none nearer to the one before than `least` pixels. */
export function placed(ticks, at, least) {
  const found = [];
  let last = -Infinity;
  for (const [value, label] of ticks) {
    const pixel = at(value);
    if (Math.abs(pixel - last) < least) continue;
    found.push([value, label, pixel]);
    last = pixel;
  }
  return found;
}

/** Labels moved apart along one direction: wanted pixels in, pixels out, `gap` between neighbours, inside low..high. */
export function apart(wanted, gap, low, high) {
  const order = wanted.map((at, i) => [at, i]).sort((a, b) => a[0] - b[0]);
  const found = [...wanted];
  let last = low - gap;
  for (const [at, i] of order) last = found[i] = Math.max(at, last + gap);
  let next = high + gap;
  for (const [, i] of order.reverse()) next = found[i] = Math.min(found[i], next - gap);
  return found;
}
