"""The mask equals the cache: a whole text in a few forwards, token for token what an evicting cache gives."""

import dataclasses
from functools import cache

import numpy as np
import pytest
import torch

from engine.kv.eviction import Full, Sinks, Window
from engine.kv.losses import continuation_loss, read, recomputed_losses, token_losses
from engine.kv.masked import masked_attention, memory
from engine.model.load import load_model
from engine.model.load_tokenizer import load_tokenizer
from engine.model.rope import Rope
from engine.model.transformer import Transformer, causal_attend
from tests.kv.streaming import TINY, naive_logits, tiny_ids
from tests.kv.test_evicting import RealCache

pytestmark = pytest.mark.usefixtures("one_thread")

IDS = tiny_ids(60)
ROPE = Rope(dataclasses.replace(TINY, head_dim=16, rope_theta=10_000.0))


@pytest.fixture(scope="module")
def model():
    return Transformer.random(TINY, seed=1)


@cache
def naive(sinks, window):
    return naive_logits(Transformer.random(TINY, seed=1), IDS, sinks, window)


def masked_logits(model, policy, pieces):
    attend = memory(model, policy)
    return torch.cat([model(part, torch.zeros_like(part), attend) for part in IDS.split(pieces)])


@pytest.mark.parametrize("pieces", [[60], [1, 7, 3, 20, 29], [1] * 60], ids=["whole", "pieces", "one by one"])
@pytest.mark.parametrize("policy", [Sinks(2, 9), Window(9), Sinks(4, 30), Sinks(5, 6), Window(1), Sinks(2, 100)], ids=str)
def test_the_mask_equals_the_cache_token_by_token(policy, pieces, model):
    """Off by one in the window, a sink forgotten, a query that is not turned again for the sinks, keys lost between
    chunks: each moves the logits by far more than this."""
    logits = masked_logits(model, policy, pieces)
    expected = naive(policy.sinks, policy.window)
    real_cache = RealCache(model, policy, 4)
    real = torch.cat([real_cache.read(token) for token in IDS.split(1)])
    assert expected.std() >= 1
    assert (logits - expected).abs().max() < 1e-3
    assert (logits - real).abs().max() < 1e-3


@pytest.mark.parametrize("rows", [1, 4, 7])
def test_the_rows_at_once_do_not_matter(rows, model, monkeypatch):
    """Blocks of queries that begin before, at and after the first eviction, and within the sinks."""
    expected = masked_logits(model, Sinks(5, 12), [60])
    monkeypatch.setattr("engine.kv.masked._ROWS_AT_ONCE", rows)
    assert (masked_logits(model, Sinks(5, 12), [60]) - expected).abs().max() < 1e-3


def test_a_cache_for_everything_is_dense_attention(model):
    dense = model(IDS, torch.arange(60), causal_attend)
    assert (masked_logits(model, Sinks(4, 60), [60]) - dense).abs().max() < 1e-3
    assert (masked_logits(model, Full(), [20, 1, 39]) - dense).abs().max() < 1e-3
    assert (masked_logits(model, Sinks(4, 50), [60]) - dense).abs().max() > 0.1


def test_far_into_a_text_nothing_drifts():
    """Angles counted from the start of a long text lose digits in float32; places inside the cache must not."""
    policy, generator = Sinks(2, 20), torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(heads, n, 16, generator=generator) for heads, n in ((4, 10), (2, 30), (2, 30)))
    near, far = (masked_attention(q.transpose(0, 1), k, v, start, policy, ROPE) for start in (20, 10_000_000))
    assert torch.equal(near, far)


def test_bfloat16_follows_float32():
    """The number format of the measured runs; angles rounded to it would be far off within a few hundred tokens."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(heads, 700, 16, generator=generator) for heads in (4, 2, 2))
    full, short = (
        masked_attention(q.to(dtype).transpose(0, 1), k.to(dtype), v.to(dtype), 0, Sinks(2, 500), ROPE).float()
        for dtype in (torch.float32, torch.bfloat16)
    )
    assert (full - short).abs().max() < 0.05


@pytest.mark.parametrize("chunk_tokens", [1, 13, 100])
def test_losses_are_those_of_the_next_tokens(chunk_tokens, model):
    """A shift by one, a chunk that forgets the one before, a callback told of the wrong place."""
    logits = naive(2, 9)
    expected = -torch.log_softmax(logits[:-1], dim=-1)[torch.arange(59), IDS[1:]]
    told = np.full(59, np.nan, np.float32)

    def note(first, losses):
        told[first : first + len(losses)] = losses

    losses = token_losses(model, IDS.tolist(), memory(model, Sinks(2, 9)), chunk_tokens=chunk_tokens, on_losses=note)
    assert losses.dtype == np.float32 and losses.shape == (59,)
    np.testing.assert_allclose(losses, expected.numpy(), atol=1e-3)
    np.testing.assert_array_equal(told, losses)


@pytest.mark.parametrize("n", [0, 1])
def test_a_text_without_a_next_token_has_no_losses(n, model):
    assert token_losses(model, [5] * n, memory(model, Full())).shape == (0,)


def test_recomputed_losses_read_the_last_tokens_anew(model):
    """Not the window of a cache: deeper layers must not have seen what lies before it, and positions start at 0."""
    points = [0, 5, 8, 9, 40, 58]
    losses = recomputed_losses(model, IDS.tolist(), 9, points)
    for point, loss in zip(points, losses, strict=True):
        part = IDS[max(0, point - 8) : point + 1]
        logits = model(part, torch.arange(len(part)), causal_attend)[-1]
        assert abs(loss + torch.log_softmax(logits, dim=-1)[IDS[point + 1]]) < 1e-3
    cached = token_losses(model, IDS.tolist(), memory(model, Window(9)))
    assert abs(cached[:9] - recomputed_losses(model, IDS.tolist(), 9, range(9))).max() < 1e-3
    assert abs(cached[40] - losses[4]) > 0.05


@pytest.mark.parametrize("policy", [Full(), Sinks(2, 9)], ids=str)
def test_continuations_are_scored_from_the_same_place(policy, model):
    """Several answers behind one text: scoring one must not change what the next is scored from."""
    ids, attend = IDS[:40].tolist(), memory(model, policy)
    after = read(model, ids, attend, chunk_tokens=16)
    for answer in ([3], [3, 4, 5], [7, 1], [3]):
        whole = token_losses(model, ids + answer, memory(model, policy))
        assert abs(continuation_loss(model, after, answer, attend) - whole[39:].sum()) < 1e-3


def test_the_default_model_on_real_text(default_model_path, kjv):
    """At scale: 30 layers, 3 heads a group, real keys, a prompt longer than the cache and then token by token."""
    model = load_model("smollm2-135m-instruct", dtype=torch.float32).transformer
    ids = torch.tensor(load_tokenizer("smollm2-135m-instruct").encode(kjv.text[:2000])[:140])
    for policy in (Sinks(4, 64), Window(64)):
        masked = model(ids, torch.zeros_like(ids), memory(model, policy))
        real_cache = RealCache(model, policy, 16)
        real = torch.cat([real_cache.read(part) for part in ids.split([100] + [1] * 40)])
        assert (masked - real).abs().max() < 1e-3
