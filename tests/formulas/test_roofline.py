"""Operations and bytes of a step, counted from shapes, against what torch really computes and which tensors it touches."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from engine import profiles
from engine.experiments.roofline_scenario import roofline_for
from engine.formulas.kv import Attention, Latent, Recurrent
from engine.formulas.roofline import (
    Shape,
    attainable,
    compute_bound_batch,
    decode_attention_intensity,
    intensity,
    ridge,
    step_cost,
)
from engine.kv.blocks import BlockPool
from engine.kv.storage import KVStorage
from engine.model import attention as attention_module
from engine.model.catalog import CATALOG
from engine.model.config import ModelConfig
from engine.model.transformer import Transformer
from engine.serving.policies import Limits, Slice, StepPlan, Unified
from engine.serving.request import Request, Sequence
from engine.serving.runner import TorchRunner
from engine.serving.scheduler import Scheduler

CONFIGS = st.builds(
    lambda kv, group, head_dim, hidden, ffn, layers, vocab, tied: ModelConfig(
        vocab_size=vocab, hidden_size=hidden, n_layers=layers, n_heads=kv * group, n_kv_heads=kv, head_dim=head_dim, ffn_size=ffn, tie_embeddings=tied,
    ),
    st.integers(1, 3), st.integers(1, 4), st.sampled_from([2, 4, 8]), st.integers(3, 24), st.integers(2, 40), st.integers(1, 3), st.integers(5, 50), st.booleans(),
)  # fmt: skip
# Prompts and chunks of any place, and decodes at one length: of unequal ones a batch computes the padding, too.
STEPS = st.tuples(
    st.lists(st.tuples(st.integers(0, 20), st.integers(2, 12), st.booleans()), max_size=3), st.integers(0, 4), st.integers(1, 20)
).map(lambda drawn: [*drawn[0], *[(drawn[2], 1, True)] * drawn[1]]).filter(bool)
SHAPES = st.builds(
    Shape, st.integers(1, 80), st.integers(64, 8192), st.sampled_from([8, 16, 64]), st.sampled_from([1, 2, 8]), st.sampled_from([64, 128]),
    st.integers(64, 30_000), st.integers(1000, 200_000), st.sampled_from([1, 2, 4]),
)  # fmt: skip


def shape_of(config, bytes_per_value=4) -> Shape:
    c = config
    return Shape(c.n_layers, c.hidden_size, c.n_heads, c.n_kv_heads, c.head_dim, c.ffn_size, c.vocab_size, bytes_per_value)


def run_step(config, slices, watch):
    """One step of the serving path (runner, pool, paged storage) over such slices, under a context that watches."""
    size = 4
    storage = KVStorage(config, 64, size)
    storage.memory.normal_()
    scheduler = Scheduler(Unified(), BlockPool(64, size), Limits())
    pieces = []
    for index, (start, length, sample) in enumerate(slices):
        tokens = [(7 * i + index) % config.vocab_size for i in range(start + length)]
        scheduler.submit(Sequence(Request(index, tuple(tokens), 2), tokens, start, start + length))
        scheduler.blocks.allocate(index, start + length)
        pieces.append(Slice(index, start, length, sample=sample, decode=length == 1))
    runner = TorchRunner(Transformer.random(config, seed=1), storage)
    with sdpa_kernel(SDPBackend.MATH), watch:
        runner.execute(StepPlan(tuple(pieces)), scheduler)


@settings(max_examples=25)
@given(CONFIGS, STEPS)
def test_operations_are_those_that_torch_counts(config, slices):
    """A forgotten matrix, the head for rows nobody wants, the last layer in full: each is off by exactly that.

    The MATH backend computes the full square of scores, which is taken out and put back as the causal pairs."""
    counter = FlopCounterMode(display=False)
    run_step(config, slices, counter)
    square = sum(4 * config.n_layers * config.n_heads * config.head_dim * n * (start + n) for start, n, _ in slices)
    pairs = sum(4 * config.n_layers * config.n_heads * config.head_dim * (start + i + 1) for start, n, _ in slices for i in range(n))
    found = step_cost(shape_of(config), slices)
    assert found["attention"][0] == pairs
    assert found["linear"][0] == counter.get_total_flops() - square


class Touched(TorchDispatchMode):
    """Bytes of the tensors that matrix products with weights read and write, and of what the cache is given."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.linear = self.stored = self.read = self.at_attention = 0
        whole, attend = attention_module.F.scaled_dot_product_attention, TorchRunner._watched

        def watched_kernel(q, keys, values, **options):
            self.read += _bytes(keys) + _bytes(values)
            return whole(q, keys, values, **options)

        def watched_attend(runner, *arguments):
            inner = attend(runner, *arguments)

            def call(layer, q, k, v):
                out = inner(layer, q, k, v)
                self.at_attention += sum(map(_bytes, (q, k, v, out)))
                return out

            return call

        monkeypatch.setattr(attention_module.F, "scaled_dot_product_attention", watched_kernel)
        monkeypatch.setattr(TorchRunner, "_watched", watched_attend)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name in ("mm", "linear") and out.numel():
            self.linear += sum(_bytes(tensor) for tensor in (*args[:2], out))
        if name == "index_copy_":
            self.stored += _bytes(args[3])
        return out


def _bytes(tensor) -> int:
    return tensor.numel() * tensor.element_size()


@settings(max_examples=25)
@given(CONFIGS, STEPS)
def test_bytes_are_those_of_the_tensors_that_are_touched(config, slices):
    """Walked in a real step: weights, inputs and outputs of every product; q, k, v, the cache written and read, the output."""
    with pytest.MonkeyPatch.context() as patch:
        touched = Touched(patch)
        run_step(config, slices, touched)
    found = step_cost(shape_of(config), slices)
    assert found["linear"][1] == touched.linear
    assert found["attention"][1] == touched.at_attention + touched.stored + touched.read
    half = step_cost(shape_of(config, 2), slices)
    assert [part[1] * 2 for part in half.values()] == [part[1] for part in found.values()]
    assert [part[0] for part in half.values()] == [part[0] for part in found.values()]


@pytest.mark.parametrize("name", ["smollm2-135m-instruct", "random-1b"])
def test_a_decode_costs_what_the_engine_says_elsewhere(name):
    """The benchmark and this lesson must not teach two counts. (Of a prompt the engine's other count takes the last layer in full.)"""
    config = CATALOG[name].config
    linear, attention = step_cost(shape_of(config), [(700, 1, True)]).values()
    assert linear[0] + attention[0] == config.forward_flops(1, 700)
    prompt = step_cost(shape_of(config), [(0, 512, True)])
    counted = sum(flops for flops, _ in prompt.values())
    assert counted < config.forward_flops(512) < counted * (1 + 1 / (config.n_layers - 1))


def test_nothing_costs_nothing():
    """A step without rows, or whose rows nobody wants to sample, reads no head."""
    shape = shape_of(CATALOG["random-tiny"].config)
    assert step_cost(shape, []) == {"linear": (0, 0), "attention": (0, 0)}
    unsampled, sampled = step_cost(shape, [(0, 8, False)]), step_cost(shape, [(0, 8, True)])
    assert sampled["linear"][1] - unsampled["linear"][1] > shape.hidden_size * shape.vocab_size * shape.bytes_per_value
    assert intensity((0, 0)) == 0.0


@given(SHAPES, st.integers(1, 4000), st.integers(1, 128))
def test_prefill_becomes_dense_and_decode_attention_never_does(shape, tokens, batch):
    """Claim A5: a prompt's intensity grows with its length; decode attention's does not change with the batch."""
    short, long = (step_cost(shape, [(0, n, True)]) for n in (tokens, 2 * tokens))
    assert intensity(long["linear"]) > intensity(short["linear"])
    assert intensity(long["attention"]) > intensity(short["attention"])
    alone, together = (step_cost(shape, [(tokens, 1, True)] * n)["attention"] for n in (1, batch))
    assert together == (alone[0] * batch, alone[1] * batch)
    limit = decode_attention_intensity(Attention(shape.layers, shape.kv_heads, shape.head_dim, shape.head_dim), shape.heads, shape.bytes_per_value)
    assert intensity(alone) < limit
    far = step_cost(shape, [(1_000_000, 1, True)])["attention"]
    assert intensity(far) == pytest.approx(limit, rel=1e-3)


@pytest.mark.parametrize(
    "group, heads, bytes_per_value, expected",
    [(Attention(32, 32, 128, 128), 32, 2, 1.0), (Attention(32, 8, 128, 128), 32, 2, 4.0), (Attention(32, 1, 128, 128), 32, 2, 32.0),
     (Attention(30, 3, 64, 64), 9, 4, 1.5), (Attention(32, 8, 128, 128), 32, 1, 8.0), (Latent(61, 512, 64), 128, 2, 241.8)],
)  # fmt: skip
def test_decode_attention_by_kind(group, heads, bytes_per_value, expected):
    """In 16 bits the size of the group of queries that share a head (claim A5), and hundreds for absorbed MLA."""
    assert decode_attention_intensity(group, heads, bytes_per_value) == pytest.approx(expected, abs=0.03)


def test_a_state_is_no_cache():
    """Told as a number it would be drawn as if contexts mattered to it."""
    with pytest.raises(TypeError):
        decode_attention_intensity(Recurrent(10, 1000), 8, 2)


@given(st.floats(0.5, 2000), st.sampled_from([1, 2, 4]))
def test_the_batch_is_the_smallest_that_reaches_the_ridge(at, bytes_per_value):
    """One batch off, and the claim names a batch that is not the crossing."""
    batch = compute_bound_batch(at, bytes_per_value)
    assert 2 * batch / bytes_per_value >= at * (1 - 1e-9)
    assert batch == 1 or 2 * (batch - 1) / bytes_per_value < at * (1 + 1e-9)


def test_decode_becomes_compute_bound_at_large_batch():
    """Claim A5 on an H100 in bf16: at about 300 sequences if weights alone are read; inputs and outputs only add bytes."""
    h100 = profiles.device("h100-sxm")
    at = ridge(h100.bf16_flops_per_s, h100.memory_bytes_per_s)
    batch = compute_bound_batch(at, 2)
    assert batch == pytest.approx(at, abs=1) and 250 < at < 350
    shape = shape_of(CATALOG["random-1b"].config, 2)
    one, crossing, more = (intensity(step_cost(shape, [(0, 1, True)] * n)["linear"]) for n in (1, batch, 2 * batch))
    assert one == pytest.approx(1.0, rel=0.01) and 0.7 * at < crossing < at < more


@given(st.floats(1e9, 1e16), st.floats(1e8, 1e14), st.floats(1e-3, 1e5))
def test_the_roof(flops_per_s, bytes_per_s, at):
    """Sloped, then flat, meeting at the ridge."""
    top = ridge(flops_per_s, bytes_per_s)
    assert attainable(at, flops_per_s, bytes_per_s) <= flops_per_s
    assert attainable(top, flops_per_s, bytes_per_s) == pytest.approx(flops_per_s)
    assert attainable(top / 2, flops_per_s, bytes_per_s) == pytest.approx(flops_per_s / 2)


def test_the_preset_reaches_both_sides_of_a_ridge():
    """A lesson on the crossing whose points all lie on one side shows none. Ridges of CPUs in fp32 are about 5 to 20."""
    shape = shape_of(CATALOG["smollm2-135m-instruct"].config)
    found = [intensity(step_cost(shape, step.slices)["linear"]) for step in roofline_for("cpu").steps]
    assert min(found) < 1 and max(found) > 100 and any(5 < value < 20 for value in found)
