"""Decodes in one call: whatever is grouped, it must be what the cache holds, and nothing behind a sequence's end."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.attention import BatchAttention, Span
from engine.kv.blocks import slot_runs
from engine.kv.decode_batch import group_decodes
from engine.kv.storage import KVStorage
from engine.model.attention import decode_attention
from engine.model.config import ModelConfig

CONFIG = ModelConfig(vocab_size=16, hidden_size=32, n_layers=2, n_heads=6, n_kv_heads=2, head_dim=8, ffn_size=16)


def test_equal_distances_are_one_batch():
    batches, covered = group_decodes([(0, [(0, 5)]), (1, [(8, 6)]), (2, [(16, 5)])], 64)
    assert [(b.row, b.slot, b.distance, b.lengths) for b in batches] == [(0, 0, 8, (5, 6, 5))]
    assert covered == {0, 1, 2}


def test_what_cannot_go_together_stays_apart():
    """A fragmented table, another distance, a gap in the rows, a far longer sequence, a read past the cache's end."""
    assert group_decodes([(0, [(0, 4), (40, 1)]), (1, [(8, 5)])], 64) == ([], set())
    batches, covered = group_decodes([(0, [(0, 5)]), (1, [(8, 5)]), (2, [(24, 5)])], 64)
    assert covered == {0, 1} and len(batches) == 1
    assert group_decodes([(0, [(0, 5)]), (2, [(8, 5)])], 64) == ([], set())
    assert group_decodes([(0, [(0, 4)]), (1, [(16, 9)])], 64) == ([], set())
    assert group_decodes([(0, [(0, 8)]), (1, [(8, 5)])], 14) == ([], set())
    assert group_decodes([(0, [(8, 5)]), (1, [(0, 5)])], 64) == ([], set())


@settings(max_examples=60)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 99))
def test_equals_one_by_one(lengths, jitter, seed):
    """Random lengths at equal or nearly equal places; slots nobody owns hold large values that must not leak in."""
    generator = torch.Generator().manual_seed(seed)
    storage = KVStorage(CONFIG, 64, 4)
    storage.memory.fill_(1000.0)
    spans, slots = [], []
    for row, length in enumerate(lengths):
        first = row * 9 + (jitter if row % 2 else 0)
        table = tuple(range(first, first + 8))
        spans.append(Span(row, 1, length - 1, slot_runs(table, 4, length), table))
        slots.append(first * 4 + length - 1)
        begin = torch.arange(first * 4, first * 4 + length)
        for layer in range(2):
            storage.write(layer, begin, *(torch.randn(length, 2, 8, generator=generator) for _ in range(2)))
    attend = BatchAttention(storage, spans, torch.tensor(slots))
    n = len(lengths)
    q, k, v = (torch.randn(n, heads, 8, generator=generator) for heads in (6, 2, 2))
    found = attend(1, q, k, v)
    for span in spans:
        keys, values = storage.read(1, span.runs)
        assert torch.allclose(found[span.row], decode_attention(q[span.row], keys, values), atol=1e-5)
