// The formulas of engine/formulas/kv.py and memory.py once more, so that a picture can follow a slider without asking the
// server. A browser test holds them equal over a grid. Groups are as pages/memory/calculator.py gives them.

const INT4_GROUP_TOKENS = 32;
const MOST_TOKENS = 2 ** 45;
const BYTES = { fp32: 4, bf16: 2, fp8: 1, int8: 1 };

/** Bytes of one sequence: { payload, scales, total }. */
export function kvBytes(groups, tokens, dtype) {
  let payload = 0;
  let scales = 0;
  for (const group of groups) {
    const one = ofOneLayer(group, tokens, dtype);
    payload += group.layers * one.payload;
    scales += group.layers * one.scales;
  }
  return { payload, scales, total: payload + scales };
}

/** Bytes of one sequence's recurrent states. */
export function stateBytes(groups, dtype) {
  const values = groups.reduce((sum, group) => sum + (group.kind === "recurrent" ? group.layers * group.state_values : 0), 0);
  return values * (dtype === "fp32" ? 4 : 2);
}

export function requestBytes(groups, tokens, dtype) {
  return kvBytes(groups, tokens, dtype).total + stateBytes(groups, dtype);
}

export function requestsThatFit(room, bytesPerRequest) {
  return Math.floor(Math.max(0, room) / bytesPerRequest);
}

/** The most tokens of so many equal requests; null if memory sets no limit. */
export function longestContext(groups, dtype, room, requests) {
  const fits = (tokens) => requestBytes(groups, tokens, dtype) * requests <= room;
  const grows = groups.some((group) => group.kind === "latent" || (group.kind === "attention" && group.window === null));
  if (!grows && fits(Math.max(1, ...groups.filter((group) => group.kind === "attention").map((group) => group.window)))) return null;
  let low = 0;
  let high = MOST_TOKENS / INT4_GROUP_TOKENS;
  while (low < high) {
    const middle = Math.floor((low + high + 1) / 2);
    if (fits(middle * INT4_GROUP_TOKENS)) low = middle;
    else high = middle - 1;
  }
  const whole = low * INT4_GROUP_TOKENS;
  for (let more = INT4_GROUP_TOKENS - 1; more > 0; more--) if (fits(whole + more)) return whole + more;
  return whole;
}

/** What a decode step reads of the weights: { parameters, active, experts, per_token } x bytes a value. */
export function weightBytesRead(weights, requests) {
  if (!weights.experts) return weights.parameters * weights.bytes_per_value;
  const leftOut = 1 - weights.experts_per_token / weights.experts;
  const inExperts = (weights.parameters - weights.active_parameters) / leftOut;
  return Math.round((weights.parameters - inExperts * leftOut ** requests) * weights.bytes_per_value);
}

export function decodeTokensPerS(requests, weightBytes, bytesPerRequest, bytesPerS) {
  return (requests * bytesPerS) / (weightBytes + requests * bytesPerRequest);
}

function ofOneLayer(group, tokens, dtype) {
  if (group.kind === "recurrent") return { payload: 0, scales: 0 };
  const held = group.window === null || group.window === undefined ? tokens : Math.min(tokens, group.window);
  if (group.kind === "latent") {
    const channels = group.rank + group.rope_dim;
    if (dtype === "int4") return int4Keys(channels, held);
    return { payload: channels * held * BYTES[dtype], scales: dtype === "int8" ? 4 * held : 0 };
  }
  if (dtype === "int4") {
    const keys = int4Keys(group.key_dim, held);
    const values = { payload: held * Math.ceil(group.value_dim / 2), scales: 4 * held };
    return { payload: group.kv_heads * (keys.payload + values.payload), scales: group.kv_heads * (keys.scales + values.scales) };
  }
  return { payload: group.kv_heads * (group.key_dim + group.value_dim) * held * BYTES[dtype], scales: dtype === "int8" ? 4 * group.kv_heads * held : 0 };
}

function int4Keys(channels, held) {
  const fullGroups = Math.floor(held / INT4_GROUP_TOKENS);
  const rest = held % INT4_GROUP_TOKENS;
  return { payload: channels * ((fullGroups * INT4_GROUP_TOKENS) / 2 + 2 * rest), scales: channels * fullGroups * 4 };
}
