"""What a text reads through an evicting cache, computed as naively as possible: no ring, no mask, no chunks.

Token by token, and for every layer from its stored unturned keys: take the kept ones as a list, number them from 0, turn
every key and the query by that number, one head at a time.
"""

from __future__ import annotations

import math

import torch

from engine.model.config import ModelConfig
from engine.model.transformer import Transformer

TINY = ModelConfig(vocab_size=97, hidden_size=32, n_layers=3, n_heads=6, n_kv_heads=2, head_dim=8, ffn_size=48, rope_theta=100.0)


def tiny_ids(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, TINY.vocab_size, (n,), generator=torch.Generator().manual_seed(seed))


def turn(x: torch.Tensor, position: int, frequencies: torch.Tensor) -> torch.Tensor:
    """x [..., d] turned by a position, pair (i, i + d/2) by its angle."""
    angles = position * frequencies.double()
    a, b = x.double().chunk(2, dim=-1)
    return torch.cat((a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()), dim=-1)


class NaiveCache:
    """`attend` for one token at a time. kept(i): the text positions that the token at position i sees, itself last."""

    def __init__(self, model: Transformer, kept) -> None:
        self.kept, self.rope = kept, model.rope
        self.memory = [{} for _ in model.layers]

    def __call__(self, layer, q, k, v):
        memory = self.memory[layer]
        memory[len(memory)] = (k[0].clone(), v[0].clone())
        seen = self.kept(len(memory) - 1)
        group = q.shape[1] // k.shape[1]
        out = torch.empty_like(q)
        frequencies = self.rope.frequencies(q.device, len(seen))
        for head in range(q.shape[1]):
            query = turn(q[0, head], len(seen) - 1, frequencies)
            keys = torch.stack([turn(memory[p][0][head // group], place, frequencies) for place, p in enumerate(seen)])
            values = torch.stack([memory[p][1][head // group] for p in seen]).double()
            weights = torch.softmax(keys @ query / math.sqrt(q.shape[2]), 0)
            out[0, head] = weights @ values
        return out


def naive_logits(model: Transformer, ids: torch.Tensor, sinks: int, window: int) -> torch.Tensor:
    """The logits after every token, from a cache of `window` tokens of which the first `sinks` stay."""

    def kept(i):
        return [p for p in range(i + 1) if p < sinks or p > i - (window - sinks)]

    attend = NaiveCache(model, kept)
    return torch.cat([model(ids[i : i + 1], torch.zeros(1, dtype=torch.int64), attend) for i in range(len(ids))])
