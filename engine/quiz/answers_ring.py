"""Answers to the quiz of the ring lesson. How these functions are found and called: answers.py. All in 16 bits."""

from __future__ import annotations

from engine import profiles
from engine.formulas import ring

BYTES = 2  # of a number
# A waiting that many times another's cannot be chance.
BY_FAR = 3

# ---------------------------------------------------------------- who has to do what


def in_order_times(ranks: int) -> float:
    """If all wait for the slowest rank in every round, the time of chunks in order as a multiple of that of zigzag."""
    lasts = {}
    for layout in ring.LAYOUTS:
        work = ring.pairs(ranks * 2_000, ranks, layout)
        lasts[layout] = sum(max(of_round) for of_round in zip(*work, strict=True))
    return lasts[ring.CONTIGUOUS] / lasts[ring.ZIGZAG]


def in_order_times_twice() -> float:
    """As if the slowest rank had twice the pairs in its own round, too."""
    return 2


def in_order_times_by_pairs(ranks: int) -> float:
    """The pairs of the last rank as a multiple of those of the first, nearly."""
    return 2 * ranks - 1


# ---------------------------------------------------------------- what a rank sends in a whole prefill


def sent_gb(model: str, tokens: int, ranks: int) -> float:
    """GB: keys and values of a rank's share, N - 1 times in every layer."""
    found = profiles.model(model)
    return ring.sent_bytes([tokens // ranks] * ranks, 0, found.layers, _shape(found)) / 1e9


def sent_gb_one_layer(model: str, tokens: int, ranks: int) -> float:
    return sent_gb(model, tokens, ranks) / profiles.model(model).layers


def sent_gb_n_times(model: str, tokens: int, ranks: int) -> float:
    """As if keys and values went all the way round to where they came from."""
    return sent_gb(model, tokens, ranks) * ranks / (ranks - 1)


def sent_gb_query_heads(model: str, tokens: int, ranks: int) -> float:
    """As if every query head had keys and values of its own."""
    found = profiles.model(model)
    return sent_gb(model, tokens, ranks) * found.heads / found.kv_heads


# ---------------------------------------------------------------- from when on a transfer hides


def least_share(model: str, device: str, link: str) -> float:
    """Tokens of a rank from which on a round of zigzag computes for at least as long as it transfers."""
    return _least(model, device, link, causal=True)


def least_share_no_mask(model: str, device: str, link: str) -> float:
    """As if a rank computed all pairs of its round."""
    return _least(model, device, link, causal=False)


def least_share_query_heads(model: str, device: str, link: str) -> float:
    """As if every query head had keys and values of its own."""
    found = profiles.model(model)
    return least_share(model, device, link) * found.heads / found.kv_heads


def least_share_bits_as_bytes(model: str, device: str, link: str) -> float:
    """As if a link's Gbit/s were GB/s."""
    return least_share(model, device, link) / 8


def _least(model: str, device: str, link: str, *, causal: bool) -> float:
    rates = profiles.device(device).bf16_flops_per_s, profiles.link(link).bytes_per_s
    return ring.least_tokens_to_hide(_shape(profiles.model(model)), *rates, causal=causal)


# ---------------------------------------------------------------- what lies in a rank's memory

TOKENS, RANKS = 1_000_000, 16


def least_bytes_first() -> tuple[str, ...]:
    """Of a rank of 16 that reads a million tokens with Llama 3.1 8B; the matrix of scores is one head's, of all tokens."""
    model, share = profiles.model("llama-3.1-8b"), TOKENS // RANKS
    found = {
        "buffers": ring.buffer_bytes([share] * RANKS, _shape(model)),
        "attention": ring.activation_bytes(share, _shape(model)),
        "kv": ring.kv_bytes(share, model.layers, _shape(model)),
        "weights": model.weight_bytes(BYTES),
        "scores": TOKENS**2 * BYTES,
    }
    return tuple(sorted(found, key=found.__getitem__))


# ---------------------------------------------------------------- read from a measured ring


def why_it_waited(result: dict) -> str | None:
    """"early" if in order the first rank waited longest by far, with as many tokens and as many bytes sent as the others, and
    zigzag's ranks, on the same link, hardly at all; None if the result does not say so."""
    in_order, zigzag = (result["layouts"][name]["ranks"] for name in (ring.CONTIGUOUS, ring.ZIGZAG))
    first, *others = in_order
    elsewhere = [rank["waited_s"] for rank in (*others, *zigzag)]
    alike = all(rank[name] == first[name] for rank in others for name in ("tokens", "sent_bytes"))
    return "early" if alike and others and first["waited_s"] > BY_FAR * max(elsewhere) else None


def _shape(model: profiles.ModelProfile) -> ring.AttentionShape:
    return ring.AttentionShape(model.heads, model.kv_heads, model.head_dim, BYTES)
