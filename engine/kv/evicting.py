"""Attention over the block pool for sequences whose keys are turned anew at every use.

Those are sequences whose cache evicts (see `eviction`), and all sequences of a model whose rotation follows the length of
the text ("dynamic", see `formulas.rope`). A sequence owns the slots of its policy and no more. Keys lie there as they were
before rotation, each in its slot for as long as it is kept, and are turned by their place inside the cache, under the
rotation for as many tokens as are in the cache after the step. The softmax does not mind in which order they are read, so
the ring is read as it lies.
"""

from dataclasses import dataclass

import torch

from engine.kv.blocks import slot_runs
from engine.kv.eviction import Eviction
from engine.kv.masked import unturned_attention
from engine.kv.storage import KVStorage
from engine.model.attention import decode_attention
from engine.model.rope import Rope, rotate


@dataclass(frozen=True)
class EvictingSpan:
    """One sequence's rows in the packed batch: `length` rows from `row`, following `start` tokens.

    `table` are the block ids of its slots. With length > 1 every token reads what it would have read alone,
    under the rotation of the last of them.
    """

    row: int
    length: int
    start: int
    table: tuple[int, ...]
    policy: Eviction


class EvictingAttention:
    """The `attend` callable for one step of such sequences; q and k come unturned (position 0 for every row)."""

    def __init__(self, storage: KVStorage, spans: list[EvictingSpan], rope: Rope) -> None:
        self.spans = [
            (span, (_Decode if span.length == 1 else _Prefill)(storage, span, rope)) for span in spans
        ]

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q [n, heads, head_dim], k and v [n, kv_heads, head_dim] -> [n, heads, head_dim]."""
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        for span, attend in self.spans:
            rows = slice(span.row, span.row + span.length)
            out[rows] = attend(layer, q[rows], k[rows], v[rows])
        return out


class _Decode:
    """One token: it takes its slot, then reads everything that is there."""

    def __init__(self, storage: KVStorage, span: EvictingSpan, rope: Rope) -> None:
        self.storage = storage
        device, dtype = storage.memory.device, storage.memory.dtype
        tokens, size = span.start + 1, storage.block_tokens
        self.runs = slot_runs(span.table, size, span.policy.slots(tokens))
        self.slot = _in_storage([span.policy.slot(span.start)], span.table, size, device)
        places = span.policy.cache_positions(tokens)
        tables = rope.further(torch.tensor(places, device=device), dtype, len(places))
        self.cosines, self.sines = (table.squeeze(1) for table in tables)
        self.turn = rope.further(torch.tensor([len(places) - 1], device=device), dtype, len(places))

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        self.storage.write(layer, self.slot, k, v)
        keys, values = self.storage.read(layer, self.runs)
        return decode_attention(rotate(q, *self.turn)[0], rotate(keys, self.cosines, self.sines), values)[None]


class _Prefill:
    """Several tokens: the mask tells what each of them would have seen; what is left of them at the end is stored."""

    def __init__(self, storage: KVStorage, span: EvictingSpan, rope: Rope) -> None:
        self.storage, self.span, self.rope = storage, span, rope
        policy, start, end = span.policy, span.start, span.start + span.length
        device, size = storage.memory.device, storage.block_tokens
        self.runs = slot_runs(span.table, size, policy.slots(start)) if start else []
        # From the order of the slots to that of the text.
        self.in_order = torch.tensor(policy.cache_positions(start), dtype=torch.int64, device=device).argsort()
        lasting = [position for position in policy.kept(end) if position >= start]
        self.rows = torch.tensor(lasting, device=device) - start
        self.slots = _in_storage([policy.slot(position) for position in lasting], span.table, size, device)

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        keys, values = k.transpose(0, 1), v.transpose(0, 1)
        if self.runs:
            kept = (rows[:, self.in_order] for rows in self.storage.read(layer, self.runs))
            keys, values = (torch.cat(pair, dim=1) for pair in zip(kept, (keys, values), strict=True))
        out = unturned_attention(q, keys, values, self.span.start, self.span.policy, self.rope)
        self.storage.write(layer, self.slots, k[self.rows], v[self.rows])
        return out


def _in_storage(slots: list[int], table: tuple[int, ...], block_tokens: int, device: torch.device) -> torch.Tensor:
    """The storage's slots of a sequence's slots."""
    return torch.tensor([table[s // block_tokens] * block_tokens + s % block_tokens for s in slots], device=device)
