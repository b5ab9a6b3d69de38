// What a position does to the hands of one head, and what of it the model has seen in training. Pure: a head and a choice
// in, numbers out.
//
// Within T tokens two of them are at most T - 1 apart, and that distance is what a score depends on: training shows pair i
// the angles from 0 to (T - 1) f_i, all of them once it makes a full turn.

import { dynamicFactor, kept, scalingFor, turning, turns } from "../rope/rope.js";

const TURN = 2 * Math.PI;
// An angle at the edge of what was seen is seen, whatever its last bit says.
const EDGE = 1e-9;

/** Methods whose ramp comes in two forms. */
export const RAMPED = ["by-parts", "yarn"];

/**
 * head: { head_dim, base, trained }; choice: { method, factor, position, ramp }.
 *
 * -> { factor: s as it is now, temperature, bands: null or { untouched, ramp, divided } (lists of pairs), outside: how many
 * hands stand where they never stood, turned: pairs with a full turn in training, hands: [{ plain, frequency (radians a
 * token), divisor, seen (radians, 0 to 2 pi), whole, angle (0 to 2 pi), inside, band }] }
 */
export function picture(head, choice) {
  const scaling = scalingFor(choice.method, choice.factor, head.trained, choice.ramp);
  const length = choice.position + 1;
  const plain = turning(null, head.head_dim, head.base).frequencies;
  const now = turning(scaling, head.head_dim, head.base, length);
  const share = scaling && kept(scaling, head.head_dim, head.base);
  const band = (i) => (share ? (share[i] >= 1 ? "untouched" : share[i] <= 0 ? "divided" : "ramp") : null);
  const hands = plain.map((f, i) => {
    const frequency = now.frequencies[i];
    const seen = Math.min(TURN, (head.trained - 1) * f);
    const whole = head.trained * f >= TURN; // the last step closes the circle
    const angle = (choice.position * frequency) % TURN;
    return { plain: f, frequency, divisor: f / frequency, seen: whole ? TURN : seen, whole, angle, inside: whole || angle <= seen + EDGE, band: band(i) };
  });
  return {
    factor: scaling === null ? 1 : scaling.kind === "dynamic" ? dynamicFactor(scaling, length) : scaling.factor,
    temperature: now.attention_factor,
    bands: share && Object.fromEntries(["untouched", "ramp", "divided"].map((name) => [name, hands.flatMap((hand, i) => (hand.band === name ? [i] : []))])),
    outside: hands.filter((hand) => !hand.inside).length,
    turned: turns(plain, head.trained).filter((n) => n >= 1).length,
    hands,
  };
}

/** [3, 4, 5, 9] -> "3–5, 9". */
export function ranges(pairs) {
  const found = [];
  for (const pair of pairs) {
    const last = found.at(-1);
    if (last && last[1] === pair - 1) last[1] = pair;
    else found.push([pair, pair]);
  }
  return found.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
}
