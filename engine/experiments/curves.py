"""What is made of the losses of a text: bins along it, perplexities, where to sample. Pure.

Item i of a list of losses is that of token i + 1, in nats, predicted after i + 1 tokens were read. A cache of `window`
tokens evicts for the first time when the token at position `window` comes, so the losses from item `window` on are those
behind the first eviction.
"""

import math
from collections.abc import Sequence

MOST_BINS = 80
SHORTEST_BIN = 16
# Of a perplexity: e to a higher power is no number any more, and tells nothing either.
_HIGHEST_LOSS = 700.0


def bin_edges(items: int, break_at: int, most: int = MOST_BINS) -> list[int]:
    """Edges of at most about `most` bins of one width over [0, items), with `break_at` among them: [0, ..., items].

    The bins at both ends may be shorter. Raises ValueError unless 0 < break_at < items.
    """
    if not 0 < break_at < items:
        raise ValueError(f"{break_at} is not within {items} items")
    width = max(SHORTEST_BIN, math.ceil(items / most))
    first = break_at % width
    return sorted({0, *range(first, items, width), items})


def binned(losses: Sequence[float], edges: Sequence[int]) -> list[list[float]]:
    """[[from, to, mean loss], ...] of the bins for which there are losses; the last of them may not be full yet."""
    found = []
    for begin, end in zip(edges, edges[1:], strict=False):
        part = losses[begin:end]
        if len(part):
            found.append([begin, begin + len(part), round(math.fsum(part) / len(part), 5)])
    return found


def perplexity(losses: Sequence[float]) -> float:
    """e to the mean of losses in nats, six digits. Raises ValueError for none."""
    if not len(losses):
        raise ValueError("no losses, no perplexity")
    return float(f"{math.exp(min(math.fsum(losses) / len(losses), _HIGHEST_LOSS)):.6g}")


def sampled_points(items: int, break_at: int, points: int) -> tuple[int, list[int]]:
    """(every, items): at most `points` items of [break_at, items), each in the middle of a stretch of `every` items.

    Raises ValueError unless there is something to sample.
    """
    if not (0 <= break_at < items and points >= 1):
        raise ValueError(f"{points} points of [{break_at}, {items})")
    every = max(1, math.ceil((items - break_at) / points))
    found = list(range(break_at + every // 2, items, every))
    return every, found
