"""Attention over the block pool, held against a naive computation of one sequence at a time in float32."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.attention import BatchAttention, Span, _PagedKernel, _paged_kernel_serves
from engine.kv.blocks import slot_runs
from engine.kv.storage import KVStorage
from engine.model.config import ModelConfig


def naive(q, keys, values, start):
    """q [n, heads, d]; keys and values [start + n, kv_heads, d]: row i sees keys 0 .. start + i. One head at a time."""
    n, heads, width = q.shape
    group = heads // keys.shape[1]
    out = torch.empty_like(q)
    for head in range(heads):
        for row in range(n):
            seen = start + row + 1
            scores = keys[:seen, head // group] @ q[row, head] / math.sqrt(width)
            out[row, head] = torch.softmax(scores, 0) @ values[:seen, head // group]
    return out


class Batch:
    """Sequences with some tokens cached already, and the packed rows of the step that comes next.

    sequences: (start, length) each. Tables are drawn so that blocks lie in any order. `extra` slots beyond what was
    written hold huge numbers: whoever reads past the written KV is seen at once.
    """

    def __init__(self, sequences, *, heads, kv_heads, width, block_tokens, shuffle, seed=0, layer=1, device="cpu", dtype=torch.float32, heads_first=None):
        generator = torch.Generator().manual_seed(seed)

        def randn(*shape):
            return torch.randn(shape, generator=generator).to(dtype)

        self.sequences, self.layer = sequences, layer
        config = ModelConfig(
            vocab_size=8, hidden_size=heads * width, n_layers=2, n_heads=heads, n_kv_heads=kv_heads, head_dim=width, ffn_size=8
        )
        needed = [-(-(start + length) // block_tokens) for start, length in sequences]
        total = sum(needed) + 1
        order = torch.randperm(total, generator=generator).tolist() if shuffle else list(range(total))
        self.storage = KVStorage(config, total, block_tokens, device=device, dtype=dtype, heads_first=heads_first)
        self.storage.memory.fill_(1e4)
        self.keys, self.values, self.tables, spans, slots, new_k, new_v = [], [], [], [], [], [], []
        row = 0
        for (start, length), count in zip(sequences, needed, strict=True):
            table = tuple(order.pop() for _ in range(count)) if shuffle else tuple(order.pop(0) for _ in range(count))
            k, v = randn(start + length, kv_heads, width), randn(start + length, kv_heads, width)
            all_slots = [table[p // block_tokens] * block_tokens + p % block_tokens for p in range(start + length)]
            if start:
                cached = torch.tensor(all_slots[:start], device=device)
                self.storage.write(layer, cached, k[:start].to(device), v[:start].to(device))
            spans.append(Span(row, length, start, slot_runs(table, block_tokens, start + length), table))
            slots += all_slots[start:]
            new_k.append(k[start:])
            new_v.append(v[start:])
            self.keys.append(k)
            self.values.append(v)
            row += length
        self.q = randn(row, heads, width)
        self.spans, self.k, self.v = spans, torch.cat(new_k), torch.cat(new_v)
        self.slots = torch.tensor(slots, device=device)

    def attended(self) -> torch.Tensor:
        attend = BatchAttention(self.storage, self.spans, self.slots)
        device = self.slots.device
        return attend(self.layer, self.q.to(device), self.k.to(device), self.v.to(device)).cpu()

    def expected(self) -> torch.Tensor:
        rows = self.q.float().split([length for _, length in self.sequences])
        return torch.cat(
            [
                naive(q, k.float(), v.float(), start)
                for q, k, v, (start, _) in zip(rows, self.keys, self.values, self.sequences, strict=True)
            ]
        )


MIXED = [(0, 9), (7, 1), (4, 6), (0, 1), (11, 1), (12, 1), (3, 2)]  # prompts, decodes, chunks, a last chunk of one token


@pytest.mark.parametrize("heads_first", [True, False], ids=["heads first", "slots first"])
@pytest.mark.parametrize("shuffle", [False, True], ids=["in one run", "fragmented"])
def test_a_mixed_batch_equals_each_sequence_alone(heads_first, shuffle):
    """The bugs of a packed batch: attending to the neighbour's rows, a chunk that does not see what came before it
    (torch's is_causal is aligned top-left), one that sees past itself, KV read through the wrong block."""
    batch = Batch(MIXED, heads=6, kv_heads=2, width=8, block_tokens=4, shuffle=shuffle, heads_first=heads_first)
    torch.testing.assert_close(batch.attended(), batch.expected(), rtol=1e-4, atol=1e-5)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 12)), min_size=1, max_size=5),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([2, 6, 8]),
    st.integers(1, 7),
    st.booleans(),
    st.integers(0, 3),
)
def test_any_grouping_of_heads(sequences, kv_heads, group, width, block_tokens, shuffle, seed):
    """Query heads given the wrong KV head, for any number of heads, group size, head width and block size."""
    batch = Batch(
        sequences, heads=kv_heads * group, kv_heads=kv_heads, width=width, block_tokens=block_tokens, shuffle=shuffle, seed=seed
    )
    torch.testing.assert_close(batch.attended(), batch.expected(), rtol=1e-4, atol=1e-5)


def test_long_bfloat16_prompts_chunks_and_decodes():
    """Where there is much to compute, a CPU with fast bfloat16 takes other kernels, through fragmented tables too."""
    sequences = [(0, 470), (2000, 60), (2100, 1)]
    batch = Batch(sequences, heads=4, kv_heads=2, width=16, block_tokens=16, shuffle=True, dtype=torch.bfloat16)
    torch.testing.assert_close(batch.attended().float(), batch.expected(), rtol=0.03, atol=0.03)


def test_a_layer_writes_into_its_own_cache_only():
    """Layer 0's keys must not land in layer 1."""
    batch = Batch([(0, 5)], heads=2, kv_heads=1, width=4, block_tokens=4, shuffle=False, layer=1)
    batch.attended()
    assert (batch.storage.memory[:, 0] == 1e4).all()


def test_the_cpu_never_takes_the_cuda_kernel():
    """It would fail, or be imported for nothing."""
    store = Batch([(0, 1)], heads=2, kv_heads=1, width=4, block_tokens=256, shuffle=False, dtype=torch.bfloat16).storage
    assert not _paged_kernel_serves(store)


@pytest.mark.gpu
@pytest.mark.parametrize("heads, kv_heads", [(4, 4), (6, 2), (8, 1)])
def test_the_paged_cuda_kernel_equals_one_sequence_at_a_time(heads, kv_heads):
    """The kernel aligns its causal window at the bottom right and reads pages by the block table; both can be wrong
    without any error, above all for chunks over earlier KV and for fragmented tables."""
    sequences = [(0, 300), (500, 1), (256, 130), (0, 1), (257, 1), (700, 40)]
    batch = Batch(
        sequences, heads=heads, kv_heads=kv_heads, width=64, block_tokens=256, shuffle=True, device="cuda", dtype=torch.bfloat16
    )
    assert _paged_kernel_serves(batch.storage)
    one_by_one = BatchAttention(batch.storage, batch.spans, batch.slots)
    assert isinstance(one_by_one.paged, _PagedKernel)
    paged = batch.attended()
    one_by_one.paged = None
    alone = one_by_one(batch.layer, batch.q.cuda(), batch.k.cuda(), batch.v.cuda()).cpu()
    torch.testing.assert_close(paged, alone, rtol=0.02, atol=0.02)
    torch.testing.assert_close(paged.float(), batch.expected(), rtol=0.03, atol=0.03)
