"""Caches under stretched frequencies: a rotation that follows the length turns every key anew, a temperature counts once."""

import dataclasses
import math

import pytest
import torch

from engine.formulas.rope import RopeScaling, dynamic_factor, scaling_for
from engine.kv.evicting import EvictingAttention, EvictingSpan
from engine.kv.eviction import Full, Sinks
from engine.kv.masked import memory
from engine.kv.selection import Compressed, compressed, heavy_hitters
from engine.kv.storage import KVStorage
from engine.model.attention import causal_attention
from engine.model.rope import Rope
from engine.model.transformer import Transformer, causal_attend
from tests.kv.streaming import TINY, naive_logits, tiny_ids, turn
from tests.kv.test_evicting import RealCache

pytestmark = pytest.mark.usefixtures("one_thread")

TOLERANCE = 1e-4  # of the standard deviation of the logits
TRAINED = 24
GROWING = RopeScaling("dynamic", factor=1.5, original_context=TRAINED)
IDS = tiny_ids(60)
PIECES = {"whole": [60], "one by one": [1] * 60, "a prompt, then tokens": [30] + [1] * 30, "chunks": [7, 20, 1, 32]}


def model_of(scaling, layers=3):
    return Transformer.random(dataclasses.replace(TINY, n_layers=layers, rope_scaling=scaling), seed=1)


def off(found, expected):
    assert expected.std() >= 1
    return float((found - expected).abs().max() / expected.std())


class NaiveGrowing:
    """`attend` over unturned rows: every key of every piece is turned for as many tokens as there are behind it."""

    def __init__(self, model):
        self.rope, self.memory = model.rope, [([], []) for _ in model.layers]

    def __call__(self, layer, q, k, v):
        keys, values = self.memory[layer]
        start = len(keys)
        keys += k.clone()
        values += v.clone()
        frequencies = self.rope.frequencies(q.device, len(keys))
        out = torch.empty_like(q)
        for i in range(len(q)):
            for head in range(q.shape[1]):
                seen = range(start + i + 1)
                kv = head // (q.shape[1] // k.shape[1])
                turned = torch.stack([turn(keys[p][kv], p, frequencies) for p in seen])
                weights = torch.softmax(turned @ turn(q[i, head], start + i, frequencies) / math.sqrt(q.shape[2]), 0)
                out[i, head] = weights @ torch.stack([values[p][kv] for p in seen]).double()
        return out


class PooledCache:
    """One text in a block pool that keeps everything, read as serving reads it."""

    def __init__(self, model, block_tokens=4):
        self.model, self.tokens = model, 0
        self.storage = KVStorage(model.config, 32, block_tokens, dtype=model.dtype)
        self.storage.memory.fill_(1e4)
        self.table = tuple(torch.randperm(32, generator=torch.Generator().manual_seed(0)).tolist())

    def __call__(self, ids):
        blocks = -(-(self.tokens + len(ids)) // self.storage.block_tokens)
        span = EvictingSpan(0, len(ids), self.tokens, self.table[:blocks], Full())
        self.tokens += len(ids)
        return self.model(ids, torch.zeros_like(ids), EvictingAttention(self.storage, [span], self.model.rope))


def unturned(model, attend):
    return lambda ids: model(ids, torch.zeros_like(ids), attend)


def read_in(pieces, reader):
    return torch.cat([reader(part) for part in IDS.split(pieces)])


@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_keys_are_turned_anew_as_the_text_grows(pieces):
    """Beyond the trained length and below it, token by token and in chunks, in evaluation and in the block pool."""
    model = model_of(GROWING)
    expected = read_in(pieces, unturned(model, NaiveGrowing(model)))
    assert off(read_in(pieces, unturned(model, memory(model, Full()))), expected) < TOLERANCE
    assert off(read_in(pieces, PooledCache(model)), expected) < TOLERANCE


@pytest.mark.parametrize("reader", ["evaluation", "block pool"])
def test_decoding_equals_a_fresh_forward_at_every_length(reader):
    """With one layer nothing but the cache can differ: every step is the whole text read anew at that length."""
    model = model_of(GROWING, layers=1)
    read = PooledCache(model) if reader == "block pool" else unturned(model, memory(model, Full()))
    for step in range(60):
        fresh = model(IDS[: step + 1], torch.arange(step + 1), causal_attend)[-1:]
        assert off(read(IDS[step : step + 1]), fresh) < TOLERANCE, step


def turned_when_they_came(model):
    """Keys kept as the model gave them, turned for the length of that time: what Hugging Face's cache does."""
    kept = [[] for _ in model.layers]

    def attend(layer, q, k, v):
        kept[layer].append((k.clone(), v.clone()))
        keys, values = (torch.cat(part).transpose(0, 1) for part in zip(*kept[layer], strict=True))
        return causal_attention(q, keys, values, keys.shape[1] - len(q))

    return attend


def test_keys_turned_when_they_came_are_wrong():
    """The comparison above has power: bases mixed in one cache move the logits a thousand times as far."""
    model = model_of(GROWING, layers=1)
    attend, worst = turned_when_they_came(model), 0.0
    for step in range(60):
        now = model.scaled(scaling_for("ntk", dynamic_factor(GROWING, step + 1), TRAINED))
        mixed = now(IDS[step : step + 1], torch.tensor([step]), attend)
        worst = max(worst, off(mixed, model(IDS[: step + 1], torch.arange(step + 1), causal_attend)[-1:]))
    assert worst > 1000 * TOLERANCE


def test_deeper_layers_remember_the_lengths_at_which_they_were_computed():
    """What a cache of keys cannot undo, and no engine does: below the trained length all is equal, beyond it layer 2 was fed
    by a layer 1 that was turned for a shorter text."""
    model = model_of(GROWING)
    fresh = model(IDS, torch.arange(60), causal_attend)
    stepped = read_in([1] * 60, unturned(model, memory(model, Full())))
    plain = model.scaled(None)(IDS, torch.arange(60), causal_attend)
    assert off(stepped[:TRAINED], plain[:TRAINED]) < TOLERANCE
    assert off(stepped, fresh) > 0.05


@pytest.mark.parametrize("policy", [Sinks(2, 40), Sinks(0, 30), Sinks(2, 12)], ids=str)
def test_a_cache_that_evicts_counts_the_tokens_that_are_in_it(policy):
    """Longer than the trained length, its rotation stops to change when it is full; shorter, it is never stretched."""
    model = model_of(GROWING)
    expected = naive_logits(model, IDS, policy.sinks, policy.window)
    real = RealCache(model, policy, 4)
    assert off(read_in([1] * 60, unturned(model, memory(model, policy))), expected) < TOLERANCE
    assert off(read_in([1] * 60, real.read), expected) < TOLERANCE
    apart = off(naive_logits(model.scaled(None), IDS, policy.sinks, policy.window), expected)
    assert (apart > 0.05) == (policy.window > TRAINED)


@pytest.mark.parametrize("method", ["yarn", "llama3", "ntk"])
@pytest.mark.parametrize("pieces", PIECES.values(), ids=PIECES)
def test_a_fixed_stretch_counts_once_in_every_cache(method, pieces):
    """YaRN's temperature comes in where the transformer turns nothing, at position 0, and must not come in again where the
    cache turns."""
    model = model_of(scaling_for(method, 4.0, TRAINED))
    dense = model(IDS, torch.arange(60), causal_attend)
    for attend in (memory(model, Full()), memory(model, Sinks(4, 60)), heavy_hitters(model, 80), compressed(model, 30, 30, observed=4)):
        assert off(read_in(pieces, unturned(model, attend)), dense) < TOLERANCE
    assert off(read_in(pieces, PooledCache(model)), dense) < TOLERANCE
    policy = Sinks(2, 12)
    streamed = naive_logits(model, IDS, policy.sinks, policy.window)
    assert off(read_in(pieces, unturned(model, memory(model, policy))), streamed) < TOLERANCE
    assert off(read_in(pieces, RealCache(model, policy, 4).read), streamed) < TOLERANCE


def test_a_selecting_cache_follows_the_length():
    """H2O and SnapKV turn by what they keep and by the text; both equal a fixed stretch of that length, also behind a cut."""
    model = model_of(GROWING)
    for attend in (heavy_hitters(model, 80, together=1), compressed(model, 60, 60, observed=4)):
        one_by_one = read_in([1] * 60, unturned(model, attend))
        assert off(one_by_one, read_in([1] * 60, unturned(model, memory(model, Full())))) < TOLERANCE

    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(49, heads, 8, generator=generator) for heads in (6, 2, 2))
    growing = Compressed(Rope(dataclasses.replace(TINY, rope_scaling=RopeScaling("dynamic", original_context=TRAINED))), 48, 20, 4, 3)
    at_48, at_49 = (
        Compressed(Rope(dataclasses.replace(TINY, rope_scaling=scaling_for("ntk", n / TRAINED, TRAINED))), 48, 20, 4, 3) for n in (48, 49)
    )
    torch.testing.assert_close(growing.attend(q[:48], k[:48], v[:48]), at_48.attend(q[:48], k[:48], v[:48]))
    assert torch.equal(growing.positions, at_48.positions) and growing.positions.shape == (2, 20)
    at_49.tokens, at_49.values, at_49.positions = 48, at_48.values, at_48.positions
    at_49.keys = at_49.rope.turned(growing.keys, growing.positions)
    torch.testing.assert_close(growing.attend(q[48:], k[48:], v[48:]), at_49.attend(q[48:], k[48:], v[48:]))
