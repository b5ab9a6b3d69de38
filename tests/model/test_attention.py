"""Chunks see everything before them and nothing after, with every kernel."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.model.attention import blockwise_attention, causal_attention, decode_attention, decode_attention_together


def _plainly(q, keys, values, start):
    """Written out: every row on its own, in fp64."""
    n, heads, width = q.shape
    group = heads // keys.shape[0]
    out = torch.empty(n, heads, width, dtype=torch.float64)
    for i in range(n):
        for head in range(heads):
            seen = keys[head // group, : start + i + 1].double()
            weights = torch.softmax(seen @ q[i, head].double() / width**0.5, dim=0)
            out[i, head] = weights @ values[head // group, : start + i + 1].double()
    return out


@given(
    st.integers(1, 70), st.sampled_from([0, 1, 5, 64]), st.sampled_from([(1, 1), (3, 3), (2, 4), (1, 8)]), st.sampled_from([2, 8, 16]),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_both_ways_equal_the_definition(n, start, heads, width, dtype):
    kv_heads, group = heads
    generator = torch.Generator().manual_seed(n)
    q = torch.randn(n, 3 * kv_heads * group, width, generator=generator).to(dtype)[:, : kv_heads * group]
    keys, values = torch.randn(2, kv_heads, start + n + 7, width, generator=generator).to(dtype)[:, :, : start + n]
    wanted = _plainly(q, keys, values, start)
    tolerance = 1e-5 if dtype == torch.float32 else 4e-2
    for found in (causal_attention(q, keys, values, start), blockwise_attention(q, keys, values, start)):
        assert (found.double() - wanted).abs().max() < tolerance


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("total", [1, 40, 2047, 2048, 3000])
def test_a_single_token_over_few_and_many_keys(total, dtype):
    """From 2,048 keys on another kernel may be taken; nothing else may change there."""
    generator = torch.Generator().manual_seed(total)
    q = torch.randn(1, 15, 16, generator=generator).to(dtype)[:, :9]
    keys, values = torch.randn(2, 3, total, 16, generator=generator).to(dtype)
    wanted = _plainly(q, keys, values, total - 1)
    for found in (causal_attention(q, keys, values, total - 1), decode_attention(q[0], keys, values)[None]):
        assert (found.double() - wanted).abs().max() < (1e-5 if dtype == torch.float32 else 4e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("lengths", [(1, 1), (9, 7), (300, 299, 200), (600, 600, 600, 600), (900, 880, 1000)])
def test_several_single_tokens_together(lengths, dtype):
    """Sequences of unequal length that lie somewhere in one memory; a mask hides what the shorter ones have behind them."""
    generator = torch.Generator().manual_seed(sum(lengths))
    longest, distance = max(lengths), max(lengths) + 13
    memory = torch.randn(3, len(lengths) * distance, 16, generator=generator).to(dtype)
    keys = memory.as_strided((len(lengths), 3, longest, 16), (distance * 16, memory.stride(0), 16, 1))
    q = torch.randn(len(lengths), 9, 16, generator=generator).to(dtype)
    mask = torch.zeros(len(lengths), 1, 1, longest, dtype=dtype)
    for i, length in enumerate(lengths):
        mask[i, ..., length:] = float("-inf")
    found = decode_attention_together(q, keys, keys.flip(-1), None if len(set(lengths)) == 1 else mask)
    for i, length in enumerate(lengths):
        wanted = _plainly(q[i : i + 1], keys[i], keys[i].flip(-1), length - 1)[0]
        assert (found[i].double() - wanted).abs().max() < (1e-5 if dtype == torch.float32 else 4e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("n, start", [(500, 0), (64, 2000)])
def test_runs_long_enough_for_another_kernel(n, start, dtype):
    """The same, written out for the first and last rows only."""
    generator = torch.Generator().manual_seed(n)
    q, keys = torch.randn(n, 6, 16, generator=generator).to(dtype), torch.randn(2, start + n, 16, generator=generator).to(dtype)
    found = causal_attention(q, keys, keys.flip(-1), start)
    for row in (0, 1, 127, n // 2, n - 1):
        if row < n:
            wanted = _plainly(q[row : row + 1], keys, keys.flip(-1), start + row)[0]
            assert (found[row].double() - wanted).abs().max() < (1e-5 if dtype == torch.float32 else 4e-2)


@pytest.mark.gpu
@pytest.mark.parametrize("start", [0, 100])
def test_on_a_gpu(start):
    q, keys = torch.randn(50, 6, 64), torch.randn(2, start + 50, 64)
    found = causal_attention(q.cuda(), keys.cuda(), keys.cuda(), start).cpu()
    assert (found.double() - _plainly(q, keys, keys, start)).abs().max() < 1e-3
