"""Ring Attention in numbers: which tokens a rank holds, what it computes in which round, what it sends and keeps. Pure.

N ranks share one sequence (Liu, Zaharia, Abbeel 2023, arXiv 2310.01889, section 3). Each keeps the queries, keys and values of
its own tokens. In round s = 0 .. N - 1 rank r computes with the K and V of rank (r - s) mod N; while it does, it hands them
on to rank r + 1 and receives the next from rank r - 1. So there are N - 1 transfers in every layer.

Under a causal mask half of all (query, key) pairs need not be computed, and the layout decides whose half that is:

    contiguous   rank r has the r-th N-th of the tokens: the first rank sees hardly anything, the last one everything
    zigzag       2N chunks, rank r has chunks r and 2N - 1 - r: each rank has as much to do as the others, in every round
                 (context parallelism in Llama 3, arXiv 2407.21783, section 3.3.2; striped attention balances it token by
                 token: Brandon et al. 2023, arXiv 2311.09431)

Any number of tokens will do; chunks differ by one token at most, and may be empty. Sizes are in bytes, and of one sequence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ZIGZAG, CONTIGUOUS = "zigzag", "contiguous"
LAYOUTS = (ZIGZAG, CONTIGUOUS)
Piece = tuple[int, int]
# Outputs of blocks are merged in fp32, whatever the model computes in.
_MERGED = 4


@dataclass(frozen=True)
class Block:
    """Queries [q_begin, q_end) of a rank over keys [0, k_end) of another, counted among the tokens each of them holds.

    diagonal: query i sees keys 0 .. i only; else every query sees all of these keys.
    """

    q_begin: int
    q_end: int
    k_end: int
    diagonal: bool

    @property
    def pairs(self) -> int:
        """(query, key) pairs that count."""
        n = self.q_end - self.q_begin
        return n * (n + 1) // 2 if self.diagonal else n * self.k_end


@dataclass(frozen=True)
class AttentionShape:
    """What the bytes of a layer's attention depend on; bytes_per_value: of activations and of K and V."""

    heads: int
    kv_heads: int
    head_dim: int
    bytes_per_value: int

    @property
    def kv_bytes_per_token(self) -> int:
        """Of one layer."""
        return 2 * self.kv_heads * self.head_dim * self.bytes_per_value


def pieces(tokens: int, ranks: int, layout: str) -> list[tuple[Piece, ...]]:
    """For each rank, the runs [begin, end) of tokens that it holds, rising; neighbouring ones are one, empty ones none.

    Raises ValueError for a layout that is not one of LAYOUTS, or numbers that cannot be.
    """
    if layout not in LAYOUTS or tokens < 0 or ranks < 1:
        raise ValueError(f"no {layout!r} layout of {tokens} tokens over {ranks} ranks")
    if layout == CONTIGUOUS:
        return [_joined([_chunk(tokens, ranks, rank)]) for rank in range(ranks)]
    last = 2 * ranks - 1
    return [_joined([_chunk(tokens, 2 * ranks, c) for c in (rank, last - rank)]) for rank in range(ranks)]


def held(some: tuple[Piece, ...]) -> int:
    """How many tokens these are."""
    return sum(end - begin for begin, end in some)


def source(rank: int, round_: int, ranks: int) -> int:
    """Whose keys and values a rank computes with in a round; round 0: its own."""
    return (rank - round_) % ranks


def blocks(queries: tuple[Piece, ...], keys: tuple[Piece, ...], *, causal: bool) -> list[Block]:
    """What is to be computed of one rank's queries over one rank's keys: nothing, or blocks without a masked corner.

    Two ranks' pieces do not overlap, so a piece of queries sees the keys before it whole, and those are a prefix of what the
    other rank holds. A rank's own tokens stand in the order of the text, so their mask is the plain triangle.
    """
    if not held(queries) or not held(keys):
        return []
    if not causal:
        return [Block(0, held(queries), held(keys), diagonal=False)]
    if queries == keys:
        return [Block(0, held(queries), held(queries), diagonal=True)]
    found: list[Block] = []
    row = 0
    for begin, end in queries:
        seen = held(tuple(piece for piece in keys if piece[1] <= begin))
        if seen and found and found[-1].q_end == row and found[-1].k_end == seen:
            found[-1] = Block(found[-1].q_begin, row + end - begin, seen, diagonal=False)
        elif seen:
            found.append(Block(row, row + end - begin, seen, diagonal=False))
        row += end - begin
    return found


def pairs(tokens: int, ranks: int, layout: str, *, causal: bool = True) -> list[list[int]]:
    """[rank][round]: (query, key) pairs of one head of one layer. All together: tokens x (tokens + 1) / 2 if causal."""
    parts = pieces(tokens, ranks, layout)
    return [
        [sum(b.pairs for b in blocks(parts[rank], parts[source(rank, s, ranks)], causal=causal)) for s in range(ranks)]
        for rank in range(ranks)
    ]


def balance(work: list[list[int]]) -> float:
    """How well the ranks are used if a round lasts as long as its slowest rank: 1 is perfect. work: as `pairs` gives it."""
    slowest = sum(max(rounds) for rounds in zip(*work, strict=True))
    return sum(map(sum, work)) / (len(work) * slowest) if slowest else 1.0


def sent_bytes(counts: list[int], rank: int, layers: int, shape: AttentionShape) -> int:
    """What a rank sends in a prefill: the K and V that it has in rounds 0 .. N - 2, in every layer. counts: tokens by rank."""
    ranks = len(counts)
    passed_on = sum(counts[source(rank, s, ranks)] for s in range(ranks - 1))
    return layers * passed_on * shape.kv_bytes_per_token


def received_bytes(counts: list[int], rank: int, layers: int, shape: AttentionShape) -> int:
    """What a rank receives: the K and V of all others, in every layer."""
    return layers * (sum(counts) - counts[rank]) * shape.kv_bytes_per_token


def kv_bytes(tokens: int, layers: int, shape: AttentionShape) -> int:
    """The share of the KV cache that stays with a rank of so many tokens."""
    return layers * tokens * shape.kv_bytes_per_token


def buffer_bytes(counts: list[int], shape: AttentionShape) -> int:
    """Receive buffers of any rank: one with two ranks, else two, since what came last is computed with while the next comes.

    They have room for the rank that holds most, and all layers use the same.
    """
    return min(len(counts) - 1, 2) * max(counts) * shape.kv_bytes_per_token


def activation_bytes(tokens: int, shape: AttentionShape) -> int:
    """What the attention of one layer works on at a rank of so many tokens: q, k, v as projected, q and k turned, a block's
    output, the merged output in fp32, and the log of the softmax's sum of both, one fp32 number per head.

    Everything else that a layer computes (norms, MLP) is made of single tokens, too, and so is shared in the same way.
    """
    values = (2 * shape.heads + 3 * shape.kv_heads + shape.heads) * shape.head_dim
    return tokens * (values * shape.bytes_per_value + shape.heads * (shape.head_dim + 2) * _MERGED)


def alone_activation_bytes(tokens: int, shape: AttentionShape) -> int:
    """The same of one process that has all tokens: nothing to merge, so q, k, v, q and k turned, and the output."""
    return tokens * (3 * shape.heads + 3 * shape.kv_heads) * shape.head_dim * shape.bytes_per_value


def round_compute_s(tokens: int, heads: int, head_dim: int, flops_per_s: float, *, causal: bool = True) -> float:
    """Seconds of one round: 4 x head_dim operations per head and pair; tokens: of a rank. Under the causal mask, zigzag, a
    rank has half of the tokens^2 pairs of a round to compute."""
    return (0.5 if causal else 1.0) * tokens**2 * 4 * heads * head_dim / flops_per_s


def round_transfer_s(tokens: int, shape: AttentionShape, bytes_per_s: float) -> float:
    """Seconds in which the K and V of a rank's tokens go over the link. It sends and receives at once."""
    return tokens * shape.kv_bytes_per_token / bytes_per_s


def least_tokens_to_hide(shape: AttentionShape, flops_per_s: float, bytes_per_s: float, *, causal: bool = True) -> float:
    """From how many tokens of a rank on a round computes for at least as long as it transfers.

    Work grows with the square of a rank's tokens and bytes only with their number, so
    tokens >= flops_per_s x bytes_per_value x kv_heads / (2 x heads x bytes_per_s), twice that under the causal mask (Liu et
    al. 2023, section 3, have it for as many KV heads as heads). head_dim cancels out.
    """
    whole = flops_per_s * shape.bytes_per_value * shape.kv_heads / (2 * shape.heads * bytes_per_s)
    return 2 * whole if causal else whole


def hidden_share(rounds: Iterable[Mapping]) -> float | None:
    """The share of the time of all transfers during which the rank computed blocks; None without a transfer.

    rounds: of one rank, each with "compute" and "communication" [begin, end] in seconds of one clock, the latter None in the
    last round. A transfer lasts from when a rank is ready for it until the keys and values are there, so a neighbour that is
    late makes it long.
    """
    moved = [(r["compute"], r["communication"]) for r in rounds if r["communication"]]
    whole = sum(end - begin for _, (begin, end) in moved)
    hidden = sum(max(0.0, min(c_end, m_end) - max(c_begin, m_begin)) for (c_begin, c_end), (m_begin, m_end) in moved)
    return hidden / whole if whole else None


def _chunk(tokens: int, chunks: int, index: int) -> Piece:
    return index * tokens // chunks, (index + 1) * tokens // chunks


def _joined(some: list[Piece]) -> tuple[Piece, ...]:
    out: list[Piece] = []
    for begin, end in some:
        if begin == end:
            continue
        if out and out[-1][1] == begin:
            out[-1] = (out[-1][0], end)
        else:
            out.append((begin, end))
    return tuple(out)
