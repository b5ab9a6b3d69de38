// What stands on the wall for a model, a device, a length and a number of requests. Pure: data and state in, numbers and
// chart specs out. The data are those of pages/memory/calculator.py.

import * as numbers from "../shared/numbers.js";
import { decodeTokensPerS, kvBytes, longestContext, requestBytes, requestsThatFit, stateBytes, weightBytesRead } from "./kv.js";

// Steps of the sliders: four to an octave, and the two lengths that people call "128K".
export const LENGTHS = steps(256, 4_194_304, 128_000);
export const BATCHES = steps(1, 1024);
const CURVE = LENGTHS.filter((_, i) => i % 2 === 0);

function steps(low, high, also) {
  const found = new Set([high]);
  for (let octave = low; octave < high; octave *= 2) for (const part of [1, 1.25, 1.5, 1.75]) found.add(Math.floor(octave * part));
  if (also) found.add(also);
  return [...found].sort((a, b) => a - b);
}

/** The step next to a value. */
export function nearestStep(all, value) {
  let best = 0;
  for (let i = 1; i < all.length; i++) if (Math.abs(Math.log(all[i] / value)) < Math.abs(Math.log(all[best] / value))) best = i;
  return best;
}

/** Everything the page says, in bytes, requests and tokens per second. */
export function measures({ model, weights, weight_bytes, device, reserve_share, dtype }, { length, batch }) {
  const kv = kvBytes(model.groups, length, dtype);
  const request = kv.total + stateBytes(model.groups, dtype);
  const reserve = Math.round(device.capacity_bytes * reserve_share);
  const room = weight_bytes === null ? null : device.capacity_bytes - weight_bytes - reserve;
  const most = room === null ? null : requestsThatFit(room, request);
  const together = Math.min(batch, most ?? 0);
  return {
    kv,
    request,
    all: request * batch,
    reserve,
    room,
    most,
    together,
    longest: room === null ? 0 : longestContext(model.groups, dtype, room, batch),
    // Of those that can be decoded together, the lower of both limits; 0 if none fits, null if not known.
    rate: weights === null || most === null ? null : together && Math.min(arithmetic(device, weights), decodeTokensPerS(together, weightBytesRead(weights, together), request, device.memory_bytes_per_s)),
  };
}

/** Tokens per second that the matrices' arithmetic allows, whatever the batch. */
function arithmetic(device, weights) {
  return device.flops_per_s / (2 * (weights.active_parameters ?? weights.parameters));
}

/** KV over length: the model, those it is compared with, the room there is. */
export function lengthSpec(data, state, found) {
  const { words, device } = data;
  const all = [data.model, ...data.compare];
  const lines = all.map((model, i) => {
    const points = CURVE.map((length) => [length, requestBytes(model.groups, length, data.dtype) * state.batch]);
    return { name: model.short, points, style: [2, 0, 1, 3, 4][i % 5], width: i ? 1.8 : 3, solid: !i, label: "end", texts: points.map(([length, bytes]) => `${model.title}\n${numbers.count(length)}: ${numbers.bytes(bytes)}`) };
  });
  const high = device.capacity_bytes * 30;
  const marks = [{ across: "x", at: state.length, text: words("wall.at_length", { n: numbers.count(state.length) }) }];
  if (found.room > 0) marks.push({ across: "y", at: found.room, text: words("wall.room", { bytes: numbers.bytes(found.room) }) });
  return {
    height: 340,
    x: { title: words("wall.axis_length"), log: true, range: [LENGTHS[0], LENGTHS.at(-1)], ticks: [256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304].map((n) => [n, numbers.count(n)]) },
    y: { title: words("wall.axis_bytes", { n: numbers.count(state.batch) }), log: true, range: [1e7, high], ticks: powers(1e7, high, numbers.bytes) },
    lines,
    marks,
  };
}

/** Decode over the number of requests: bandwidth bends the line, capacity ends it, arithmetic cuts it off. */
export function decodeSpec(data, state, found) {
  const { words, device, weights } = data;
  const speed = (batch) => decodeTokensPerS(batch, weightBytesRead(weights, batch), found.request, device.memory_bytes_per_s);
  const points = BATCHES.map((batch) => [batch, speed(batch)]);
  const most = Math.min(found.most, BATCHES.at(-1));
  const ceiling = arithmetic(device, weights);
  const inside = most >= 1 ? [...points.filter(([batch]) => batch < most), [most, speed(most)]].map(([batch, rate]) => [batch, Math.min(rate, ceiling)]) : [];
  const high = Math.max(points.at(-1)[1], ceiling) * 2;
  const low = Math.min(points[0][1], ceiling) / 2;
  const told = ([batch, rate]) => `${numbers.count(batch)}: ${numbers.rate(rate)}\n${words("wall.each", { rate: numbers.rate(rate / batch) })}`;
  const lines = [
    { name: words("wall.line_compute"), points: [[1, ceiling], [BATCHES.at(-1), ceiling]], style: 0, label: "end", width: 1.8 },
    { name: words("wall.line_bandwidth"), points, style: 5, label: "end", quiet: true, width: 1.8 },
    { name: words("wall.inside"), points: inside, style: 2, width: 3.4, solid: true, label: "end", texts: inside.map(told) },
  ];
  const marks = [{ across: "x", at: state.batch, text: words("wall.at_batch", { n: numbers.count(state.batch) }) }];
  const areas = found.most < BATCHES.at(-1) ? [{ points: [[Math.max(found.most, 1), low, high], [BATCHES.at(-1), low, high]], style: 4 }] : [];
  return {
    height: 340,
    x: { title: words("wall.axis_batch"), log: true, range: [1, BATCHES.at(-1)], ticks: [1, 4, 16, 64, 256, 1024].map((n) => [n, numbers.count(n)]) },
    y: { title: words("wall.axis_rate"), log: true, range: [low, high], ticks: powers(low, high, (v) => numbers.count(v)) },
    areas,
    lines,
    marks,
    legend: areas.length ? [{ name: words("wall.beyond_area"), style: 4, shape: "square" }] : [],
  };
}

function powers(low, high, show) {
  const found = [];
  for (let power = Math.ceil(Math.log10(low)); 10 ** power <= high; power++) found.push([10 ** power, show(10 ** power)]);
  return found;
}
