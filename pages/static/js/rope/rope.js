// The formulas of engine/formulas/rope.py once more, so that the hands can follow a slider without asking the server. A
// browser test holds them equal over a grid. A scaling's fields have Python's names; angles are radians. Pure.

/** Radians a token, from 1 down to base^(-(d-2)/d). */
export function frequencies(headDim, base) {
  return Array.from({ length: headDim / 2 }, (_, i) => base ** (-(2 * i) / headDim));
}

/** Tokens of a full turn. */
export function wavelengths(found) {
  return found.map((frequency) => (2 * Math.PI) / frequency);
}

/** Full turns within so many tokens. */
export function turns(found, length) {
  return found.map((frequency) => (length * frequency) / (2 * Math.PI));
}

/** The base with which the lowest frequency is divided by exactly `factor`. */
export function ntkBase(base, factor, headDim) {
  return base * factor ** (headDim / (headDim - 2));
}

/** 0.1 ln s + 1; 1 unless s is above 1. */
export function yarnTemperature(factor) {
  return factor > 1 ? 0.1 * Math.log(factor) + 1 : 1;
}

/** The s of a "dynamic" scaling for a text of `length` tokens (null: not more than the model was trained on). */
export function dynamicFactor(scaling, length) {
  const beyond = Math.max(length ?? 0, scaling.original_context) / scaling.original_context;
  return scaling.factor * beyond - (scaling.factor - 1);
}

/** A method with its usual parameters; null for "none" and where nothing is to be stretched. */
export function scalingFor(method, factor, originalContext, ramp = "dimensions") {
  if (method === "none" || factor <= 1) return null;
  return {
    kind: method,
    factor: method === "dynamic" ? 1 : factor,
    original_context: originalContext,
    low_freq_factor: 1,
    high_freq_factor: 4,
    beta_fast: 32,
    beta_slow: 1,
    ramp,
    truncate: true,
  };
}

/** { frequencies, attention_factor } of a model with this base and scaling (null: as trained). */
export function turning(scaling, headDim, base, length = null) {
  const plain = frequencies(headDim, base);
  if (scaling === null) return { frequencies: plain, attention_factor: 1 };
  if (scaling.kind === "linear") return { frequencies: plain.map((f) => f / scaling.factor), attention_factor: 1 };
  if (scaling.kind === "ntk" || scaling.kind === "dynamic") {
    const factor = scaling.kind === "ntk" ? scaling.factor : dynamicFactor(scaling, length);
    return { frequencies: frequencies(headDim, ntkBase(base, factor, headDim)), attention_factor: 1 };
  }
  const share = kept(scaling, headDim, base);
  return {
    frequencies: plain.map((f, i) => share[i] * f + ((1 - share[i]) * f) / scaling.factor),
    attention_factor: scaling.kind === "yarn" ? yarnTemperature(scaling.factor) : 1,
  };
}

/** The share of each pair's frequency that stays: 1 untouched .. 0 divided by s; null for methods without bands. */
export function kept(scaling, headDim, base) {
  const within = turns(frequencies(headDim, base), scaling.original_context);
  if (scaling.kind === "llama3") return within.map((r) => ramp(r, scaling.low_freq_factor, scaling.high_freq_factor));
  if (scaling.kind !== "by-parts" && scaling.kind !== "yarn") return null;
  if (scaling.ramp === "rotations") return within.map((r) => ramp(r, scaling.beta_slow, scaling.beta_fast));
  const [first, last] = correctionRange(scaling, headDim, base);
  return within.map((_, i) => 1 - ramp(i, first, first === last ? last + 0.001 : last));
}

/** The ramp "dimensions": the last pair that stays and the first that is divided by s. */
export function correctionRange(scaling, headDim, base) {
  const pair = (wanted) => (headDim * Math.log(scaling.original_context / (wanted * 2 * Math.PI))) / (2 * Math.log(base));
  let [first, last] = [pair(scaling.beta_fast), pair(scaling.beta_slow)];
  if (scaling.truncate) [first, last] = [Math.floor(first), Math.ceil(last)];
  return [Math.max(first, 0), Math.min(last, headDim - 1)];
}

function ramp(value, low, high) {
  return Math.min(1, Math.max(0, (value - low) / (high - low)));
}
