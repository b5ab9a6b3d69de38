// Who computes what in which round, counted in pairs of chunks: equal to engine/formulas/ring.py (a browser test compares). Pure.
// The sequence is cut into two chunks for each rank, whatever the layout; under the causal mask a chunk sees itself and those before it.

export const LAYOUTS = ["contiguous", "zigzag"];

/** The chunks whose queries, keys and values a rank keeps. */
export function chunksOf(rank, ranks, layout) {
  return layout === "zigzag" ? [rank, 2 * ranks - 1 - rank] : [2 * rank, 2 * rank + 1];
}

/** Whose keys and values a rank computes with in a round. */
export function source(rank, round, ranks) {
  return (rank - round + ranks) % ranks;
}

/** What is to be computed of a chunk of queries over a chunk of keys: "full", "diagonal" (half of it) or "skipped". */
export function kind(query, key) {
  return key < query ? "full" : key === query ? "diagonal" : "skipped";
}

/** Pairs of chunks that a rank computes in a round, a diagonal one counted half. */
export function work(rank, round, ranks, layout) {
  const cost = { full: 1, diagonal: 0.5, skipped: 0 };
  const keys = chunksOf(source(rank, round, ranks), ranks, layout);
  return chunksOf(rank, ranks, layout).reduce((sum, query) => sum + keys.reduce((all, key) => all + cost[kind(query, key)], 0), 0);
}

/** For every round: when it begins, and how long its slowest rank takes; a round begins once all have ended the one before. */
export function rounds(ranks, layout) {
  const found = [];
  let begin = 0;
  for (let round = 0; round < ranks; round++) {
    const each = Array.from({ length: ranks }, (_, rank) => work(rank, round, ranks, layout));
    found.push({ begin, each, longest: Math.max(...each) });
    begin += found[round].longest;
  }
  return found;
}

/** How long all rounds take together, and the share of that time in which the ranks compute. */
export function whole(ranks, layout) {
  const all = rounds(ranks, layout);
  const length = all.reduce((sum, { longest }) => sum + longest, 0);
  const computed = all.reduce((sum, { each }) => sum + each.reduce((a, b) => a + b, 0), 0);
  return { length, busy: computed / (ranks * length) };
}

/** In which round a chunk of queries meets a chunk of keys. */
export function roundOf(query, key, ranks, layout) {
  const owner = (chunk) => (layout === "zigzag" ? Math.min(chunk, 2 * ranks - 1 - chunk) : Math.floor(chunk / 2));
  return (owner(query) - owner(key) + ranks) % ranks;
}
