"""What is read off attention probabilities: shares of the first tokens, profiles, maps made smaller. NumPy, no torch.

Everywhere p is float [heads, n, n] of one layer: row i is how query i spreads its attention over keys 0 .. i, after the
softmax, so it sums to 1 and is 0 right of the diagonal (Vaswani et al. 2017, section 3.2.1). The first rows have few keys to
choose from and say little: shares are means over the queries from a stated first one on.
"""

import base64
from collections.abc import Mapping

import numpy as np

FIRST_QUERY = 100
# How a share of 0 to 1 becomes a byte: small shares, of which a map is full, keep more levels than large ones.
SCALE = "share = (byte / 255) ** 2"
REDUCTION = "mean over the queries of a bin, sum over the keys of a bin"


def first_query(tokens: int) -> int:
    """The query from which on means are taken: the 100th, or the middle of a shorter text."""
    return min(FIRST_QUERY, tokens // 2)


def received(p: np.ndarray, queries_from: int) -> np.ndarray:
    """[heads, n]: how much of the queries' attention each key gets, so each row sums to 1. Later keys are seen by fewer."""
    return p[:, queries_from:].mean(axis=1)


def even(tokens: int, queries_from: int) -> np.ndarray:
    """[n]: what `received` would be of a head that treats all keys it can see alike."""
    seen = np.arange(queries_from + 1, tokens + 1)
    of_each = np.zeros(tokens)
    of_each[queries_from:] = 1 / seen
    return np.cumsum(of_each[::-1])[::-1] / len(seen)


def even_share(tokens: int, queries_from: int, keys: int) -> float:
    """The share that the first `keys` keys would get: the mean over queries i of min(keys, i + 1) / (i + 1)."""
    return float(even(tokens, queries_from)[:keys].sum())


def bin_tokens(tokens: int, heads: int, most_values: int) -> int:
    """How many neighbouring tokens share a bin so that the triangles of all heads have at most so many values; 1: a map as
    it is."""
    width = 1
    while heads * _triangle(-(-tokens // width)) > most_values and width < tokens:
        width += 1
    return width


def bin_edges(tokens: int, width: int) -> list[int]:
    """The first token of each bin, and the end; the last bin may be smaller."""
    return [*range(0, tokens, width), tokens]


def reduced(p: np.ndarray, edges: list[int]) -> np.ndarray:
    """[heads, bins, bins]: the mean over the queries of a bin of the sum over the keys of a bin. Rows still sum to 1."""
    starts, sizes = edges[:-1], np.diff(edges)
    by_queries = np.add.reduceat(p, starts, axis=1) / sizes[:, None]
    return np.add.reduceat(by_queries, starts, axis=2)


def packed(maps: np.ndarray) -> bytes:
    """[heads, n, n] as a byte each, by SCALE: the n (n + 1) / 2 values up to the diagonal, head by head, row by row."""
    rows, columns = np.tril_indices(maps.shape[-1])
    return as_bytes(maps[:, rows, columns])


def as_bytes(shares: np.ndarray) -> bytes:
    """Shares of 0 to 1, one byte each, by SCALE."""
    return np.rint(np.sqrt(np.clip(shares, 0.0, 1.0)) * 255).astype(np.uint8).tobytes()


def as_shares(data: bytes | np.ndarray) -> np.ndarray:
    """Bytes back to shares: right to 0.004 near 1 and to 0.000004 near 0."""
    levels = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    return (levels / 255.0) ** 2


def head_map(maps: Mapping, number: int = 0) -> np.ndarray:
    """uint8 [n, n]: one head's map out of {"size", "data"} of a result (`packed`, in base64), 0 right of the diagonal.

    number: layer x heads + head.
    """
    n = maps["size"]
    values = _triangle(n)
    begin = number * values
    # Only the part that is wanted is decoded: 3 bytes are 4 letters.
    letters = maps["data"][begin // 3 * 4 : -(-(begin + values) // 3) * 4]
    found = np.frombuffer(base64.b64decode(letters), np.uint8)[begin % 3 :][:values]
    square = np.zeros((n, n), np.uint8)
    square[np.tril_indices(n)] = found
    return square


def head_profile(profile: Mapping, number: int) -> np.ndarray:
    """[n] shares: what one head gives to each key, out of {"by_head"} of a result. number: layer x heads + head."""
    data = base64.b64decode(profile["by_head"])
    n = len(profile["by_layer"][0])
    return as_shares(data[number * n : (number + 1) * n])


def _triangle(n: int) -> int:
    return n * (n + 1) // 2
