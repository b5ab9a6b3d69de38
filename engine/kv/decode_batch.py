"""Decodes of several sequences in one attention call, where their places in the cache allow it.

A decode asks for little work per sequence, so one call each costs more than the work. The block pool places requests
of equal size at equal distances; such sequences are one strided tensor [sequence, kv_head, token, head_dim] over the
cache as it lies, with nothing copied. What a shorter one has behind its end is masked.
"""

from dataclasses import dataclass

import torch

from engine.kv.storage import KVStorage
from engine.model.attention import decode_attention_together

# A shorter sequence is read to the length of the longest: beyond this ratio separate calls are cheaper.
_MOST_UNEQUAL = 2


@dataclass(frozen=True)
class DecodeBatch:
    """Decodes in packed rows `row`, `row + 1`, ...; sequence i has `lengths[i]` slots from `slot + i * distance`."""

    row: int
    slot: int
    distance: int
    lengths: tuple[int, ...]


def group_decodes(decodes: list[tuple[int, list[tuple[int, int]]]], num_slots: int) -> tuple[list[DecodeBatch], set[int]]:
    """Find what can be computed together.

    decodes: (packed row, runs of slots) in row order. Returns the batches of two or more, and the rows they cover.
    """
    batches: list[DecodeBatch] = []
    group: list[tuple[int, int, int]] = []  # row, slot, length
    for row, runs in decodes:
        entry = (row, *runs[0]) if len(runs) == 1 else None
        if entry is None or not _extends(group, entry, num_slots):
            batches += _closed(group)
            group = []
        if entry is not None:
            group.append(entry)
    batches += _closed(group)
    return batches, {batch.row + i for batch in batches for i in range(len(batch.lengths))}


class BatchedDecodes:
    """One batch over one storage, for all layers of a step."""

    def __init__(self, batch: DecodeBatch, storage: KVStorage) -> None:
        self.batch = batch
        self.memory = storage.memory
        self.longest = max(batch.lengths)
        self.mask = None
        if min(batch.lengths) < self.longest:
            lengths = torch.tensor(batch.lengths)[:, None, None, None]
            behind_end = torch.arange(self.longest) >= lengths
            self.mask = torch.zeros(behind_end.shape, dtype=self.memory.dtype).masked_fill_(behind_end, float("-inf"))

    def __call__(self, layer: int, q: torch.Tensor) -> torch.Tensor:
        """q [sequences, heads, head_dim] -> the same shape."""
        keys, values = self._strided(self.memory[0, layer]), self._strided(self.memory[1, layer])
        return decode_attention_together(q, keys, values, self.mask)

    def _strided(self, layer: torch.Tensor) -> torch.Tensor:
        """[kv_heads, slots, head_dim] seen as [sequences, kv_heads, longest, head_dim]."""
        kv_heads, slots, width = layer.shape
        return layer.as_strided(
            (len(self.batch.lengths), kv_heads, self.longest, width),
            (self.batch.distance * width, slots * width, width, 1),
            layer.storage_offset() + self.batch.slot * width,
        )


def _extends(group: list[tuple[int, int, int]], entry: tuple[int, int, int], num_slots: int) -> bool:
    if not group:
        return True
    row, slot, length = entry
    distance = slot - group[-1][1]
    if row != group[-1][0] + 1 or distance <= 0 or (len(group) > 1 and distance != group[1][1] - group[0][1]):
        return False
    lengths = [other for _, _, other in group] + [length]
    fits = slot + max(lengths) <= num_slots
    return fits and max(lengths) <= _MOST_UNEQUAL * min(lengths)


def _closed(group: list[tuple[int, int, int]]) -> list[DecodeBatch]:
    if len(group) < 2:
        return []
    return [DecodeBatch(group[0][0], group[0][1], group[1][1] - group[0][1], tuple(length for _, _, length in group))]
