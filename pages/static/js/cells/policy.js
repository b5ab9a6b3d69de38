// Which tokens a cache of fixed size keeps, and where each lies: equal to engine/kv/eviction.py (a browser test compares). Pure.

/** Text positions still in the cache after `tokens` tokens, in order: a token's place in this list is its position in the cache. */
export function kept(tokens, sinks, window) {
  const from = tokens <= window ? sinks : tokens - (window - sinks);
  const found = [];
  for (let at = 0; at < tokens; at++) if (at < sinks || at >= from) found.push(at);
  return found;
}

/** The text position that the newest of `tokens` tokens pushed out; null if there was still room. */
export function evicted(tokens, sinks, window) {
  return tokens > window ? tokens - 1 - (window - sinks) : null;
}

/** What a text position is after `tokens` tokens: "newest", "sink", "held", "evicted", or "later". */
export function state(at, tokens, sinks, window) {
  if (at >= tokens) return "later";
  if (at === tokens - 1) return "newest";
  if (at < sinks) return "sink";
  return tokens > window && at < tokens - (window - sinks) ? "evicted" : "held";
}
