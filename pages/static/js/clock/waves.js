// Every pair's wavelength, as trained and as it is now, against the trained length: a spec for plot/chart.js. Pure.

import * as numbers from "../shared/numbers.js";

/** names: method -> its name. */
export function waveSpec(head, state, found, words, names) {
  const wave = (frequency) => (2 * Math.PI) / frequency;
  const last = found.hands.length - 1;
  const changed = state.method !== "none";
  const high = Math.max(...found.hands.map((hand) => wave(hand.frequency)), head.trained * 16) * 2.2;
  const ticks = [];
  for (let power = 1; power <= high; power *= 10) ticks.push([power, numbers.count(power)]);
  const step = last > 20 ? 4 : last > 10 ? 2 : 1;
  const said = (hand, i) =>
    [words("clock.pair", { pairs: i }), words("clock.told_wave", { now: numbers.count(wave(hand.frequency)), before: numbers.count(wave(hand.plain)) }), words(hand.whole ? "clock.told_whole" : "clock.told_part", { share: Math.round((hand.seen / (2 * Math.PI)) * 100) }), words(hand.inside ? "clock.seen" : "clock.new")].join("\n");
  return {
    height: 340,
    x: { title: words("clock.axis_pair"), range: [-0.6, last + 0.6], ticks: found.hands.flatMap((_, i) => (i % step === 0 ? [[i, String(i)]] : [])) },
    y: { title: words("clock.axis_wave"), log: true, range: [3.5, high], ticks: ticks.filter(([value]) => value >= 3.5) },
    lines: [
      ...(changed ? [{ name: names.none, points: found.hands.map((hand, i) => [i, wave(hand.plain)]), style: 5, width: 1.6, label: "end" }] : []),
      { name: names[state.method], points: found.hands.map((hand, i) => [i, wave(hand.frequency)]), style: 0, width: 2, label: changed ? "end" : "none" },
    ],
    points: found.hands.map((hand, i) => ({ id: `pair-${i}`, x: i, y: wave(hand.frequency), style: hand.inside ? 0 : 4, shape: hand.inside ? "circle" : "diamond", filled: hand.inside, text: said(hand, i) })),
    marks: [
      { across: "y", at: head.trained, text: words("clock.mark_trained", { n: numbers.count(head.trained) }) },
      ...(found.factor > 1 ? [{ across: "y", at: head.trained * found.factor, text: words("clock.mark_stretched", { n: numbers.count(Math.round(head.trained * found.factor)) }) }] : []),
    ],
  };
}
