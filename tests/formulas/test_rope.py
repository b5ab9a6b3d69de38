"""Stretched frequencies: properties of each method, and equal to Hugging Face's functions for those that it has."""

import math
import types

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, modeling_rope_utils

from engine.formulas.rope import (
    METHODS,
    RopeScaling,
    UnfitScaling,
    dynamic_factor,
    frequencies,
    kept,
    ntk_base,
    scaling_for,
    turning,
    turns,
    wavelengths,
    yarn_temperature,
)
from engine.model.config import ModelConfig

HEAD_DIMS = st.sampled_from([4, 6, 16, 26, 32, 64, 128, 256])
BASES = st.sampled_from([100.0, 1e4, 1e5, 5e5, 1e6])
FACTORS = st.sampled_from([1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 40.0]) | st.floats(1.0, 64.0)
TRAINED = st.sampled_from([64, 128, 512, 2048, 4096, 8192]) | st.integers(16, 20_000)
MAYBE = st.sampled_from([None, 0.0, 0.707, 1.0, 1.3])


@st.composite
def hf_ropes(draw) -> dict:
    """A rope_parameters table with everything that may stand in it, and the lengths around it."""
    kind = draw(st.sampled_from(["linear", "dynamic", "yarn", "llama3"]))
    trained, factor = draw(TRAINED), draw(FACTORS)
    rope = {"rope_type": kind, "factor": factor}
    if kind in ("yarn", "llama3"):
        rope["original_max_position_embeddings"] = trained
    if kind == "llama3":
        low = draw(st.floats(0.5, 4.0))
        rope |= {"low_freq_factor": low, "high_freq_factor": low + draw(st.floats(0.5, 8.0))}
    if kind == "yarn":
        slow = draw(st.sampled_from([None, 0, 1, 1.5]))
        optional = {
            "attention_factor": draw(st.sampled_from([None, 0.8, 1.0, 1.4])),
            "beta_fast": draw(st.sampled_from([None, 0, 4, 16, 32, 64.0])),
            "beta_slow": slow,
            "mscale": draw(MAYBE),
            "mscale_all_dim": draw(MAYBE),
            "truncate": draw(st.sampled_from([None, True, False])),
        }
        rope |= {name: value for name, value in optional.items() if value is not None or (name != "truncate" and draw(st.booleans()))}
        if draw(st.booleans()):
            rope["factor"] = None
    return rope, trained if kind == "dynamic" else int(trained * 3)


def theirs(rope: dict, longest: int, head_dim: int, base: float, length: int | None):
    config = LlamaConfig(
        hidden_size=head_dim * 2, num_attention_heads=2, head_dim=head_dim, max_position_embeddings=longest,
        rope_parameters={"rope_theta": base, **rope},
    )
    found, attention_factor = modeling_rope_utils.ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, "cpu", seq_len=length)
    return found.double().numpy(), attention_factor


def ours(rope: dict, longest: int, head_dim: int, base: float, length: int | None):
    config = ModelConfig.from_hf(
        {
            "model_type": "llama", "vocab_size": 10, "hidden_size": head_dim * 2, "num_attention_heads": 2, "head_dim": head_dim,
            "num_hidden_layers": 1, "intermediate_size": 8, "max_position_embeddings": longest,
            "rope_scaling": {"rope_theta": base, **rope},
        }
    )
    return turning(config.rope_scaling, head_dim, base, length)


class _InFloat64:
    """Their module's `torch`, whose float is a double: what remains is what the formulas differ in."""

    def __enter__(self):
        self.torch = modeling_rope_utils.torch
        modeling_rope_utils.torch = types.SimpleNamespace(**{**vars(torch), "float": torch.float64, "float32": torch.float64})

    def __exit__(self, *_):
        modeling_rope_utils.torch = self.torch


@settings(max_examples=200, deadline=None)
@given(hf_ropes(), HEAD_DIMS, BASES, st.floats(0.1, 20.0))
def test_frequencies_and_attention_factor_are_those_of_hugging_face(drawn, head_dim, base, times):
    """The bugs: a default that differs, a zero taken as a number, the trained length looked up in the wrong place, the ends
    of the ramp not truncated, clamped at the wrong pair, a ramp in the wrong variable, mscale the wrong way round."""
    rope, longest = drawn
    length = max(1, int(longest * times))
    with _InFloat64():
        expected, attention_factor = theirs(rope, longest, head_dim, base, length)
    found = ours(rope, longest, head_dim, base, length)
    np.testing.assert_allclose(found.frequencies, expected, rtol=1e-9)
    assert found.attention_factor == pytest.approx(attention_factor, rel=1e-12)


GRID = {
    "linear": {"factor": 4.0},
    "dynamic": {"factor": 2.0},
    "dynamic, s = length / trained": {"rope_type": "dynamic", "factor": 1.0},
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 128},
    "yarn, untruncated": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False},
    "yarn, mscale": {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096, "mscale": 0.707, "mscale_all_dim": 1.0},
    "yarn, betas": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 2048, "beta_fast": 16, "beta_slow": 2},
    "yarn, attention factor": {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 2048, "attention_factor": 1.2},
    "llama3": {"factor": 8.0, "original_max_position_embeddings": 8192, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
}


@pytest.mark.parametrize("name", GRID)
@pytest.mark.parametrize("head_dim", [16, 32, 64, 128])
@pytest.mark.parametrize("base", [1e4, 1e5, 5e5])
def test_as_hugging_face_computes_them(name, head_dim, base):
    """The same, their functions untouched: in float32, where the end of YaRN's ramp (1 minus nearly 1) costs a digit."""
    rope = {"rope_type": name, **GRID[name]}
    for length in (None, 100, 8192, 8193, 100_000):
        expected, attention_factor = theirs(rope, 8192, head_dim, base, length)
        found = ours(rope, 8192, head_dim, base, length)
        np.testing.assert_allclose(found.frequencies, expected, rtol=2e-6 if "untruncated" in name else 1e-6)
        assert found.attention_factor == pytest.approx(attention_factor, rel=1e-12)


@pytest.mark.parametrize(
    "changed", [{"factor": 4.1}, {"beta_fast": 16.0}, {"ramp": "rotations"}, {"original_context": 4200}, {"truncate": False}]
)
def test_the_comparison_notices(changed):
    """Each parameter of YaRN moves the frequencies by far more than the tolerance above."""
    scaling = RopeScaling("yarn", factor=4.0, original_context=4096)
    other = RopeScaling("yarn", **{"factor": 4.0, "original_context": 4096, **changed})
    apart = turning(other, 128, 1e4).frequencies / turning(scaling, 128, 1e4).frequencies - 1
    assert np.abs(apart).max() > 1e-3


@given(st.integers(2, 128).map(lambda half: 2 * half), st.floats(2.0, 1e7), st.floats(1.0, 1000.0))
def test_ntk_aware_leaves_the_highest_frequency_and_divides_the_lowest_by_s(head_dim, base, factor):
    found = turning(RopeScaling("ntk", factor=factor), head_dim, base).frequencies
    plain = frequencies(head_dim, base)
    assert found[0] == plain[0] == 1.0
    assert found[-1] == pytest.approx(plain[-1] / factor, rel=1e-9)
    assert np.all(np.diff(plain / found) >= -1e-9 * factor)


def test_ntk_aware_by_hand():
    """d = 128, s = 4: the base of the original post, 10,000 x 4^(128/126)."""
    assert ntk_base(10_000.0, 4.0, 128) == pytest.approx(40_889.94, abs=0.5)


def test_dynamic_follows_the_length():
    """1 up to the trained length, never below; s = length / T with factor 1; back again for the next, shorter text."""
    scaling = scaling_for("dynamic", 8.0, 128)
    assert [dynamic_factor(scaling, length) for length in (None, 1, 128, 256, 1024, 64)] == [1, 1, 1, 2, 8, 1]
    assert dynamic_factor(RopeScaling("dynamic", factor=2.0, original_context=128), 256) == 3
    at_4 = turning(scaling, 32, 1e4, 512).frequencies
    assert np.array_equal(at_4, turning(RopeScaling("ntk", factor=4.0), 32, 1e4).frequencies)
    assert np.array_equal(turning(scaling, 32, 1e4, 128).frequencies, frequencies(32, 1e4))


@given(
    st.sampled_from(["by-parts", "yarn", "llama3"]), HEAD_DIMS, BASES, st.integers(128, 20_000), st.floats(1.1, 64.0), st.booleans()
)
def test_bands(kind, head_dim, base, trained, factor, rotations):
    """From untouched at the high frequencies to divided by s at the low ones, and never outside."""
    scaling = RopeScaling(kind, factor=factor, original_context=trained, ramp="rotations" if rotations else "dimensions")
    share, plain = kept(scaling, head_dim, base), frequencies(head_dim, base)
    assert np.all((0 <= share) & (share <= 1)) and np.all(np.diff(share) <= 1e-12)
    found = turning(scaling, head_dim, base).frequencies
    assert np.all((plain / factor <= found * (1 + 1e-12)) & (found <= plain * (1 + 1e-12)))
    np.testing.assert_allclose(found[share == 1], plain[share == 1], rtol=1e-12)
    np.testing.assert_allclose(found[share == 0], plain[share == 0] / factor, rtol=1e-12)


def test_the_two_ramps_of_yarn():
    """By hand, d = 32, base 10,000, T = 128: 20.4 turns of the first pair, under the paper's 32, so that its formula leaves
    no band untouched; the fifth-fastest pair made 2.04 turns. Linear in the index, the ramp goes from pair 0 to pair 6."""
    paper, code = (RopeScaling("yarn", factor=4.0, original_context=128, ramp=ramp) for ramp in ("rotations", "dimensions"))
    assert kept(paper, 32, 1e4)[0] == pytest.approx((128 / (2 * math.pi) - 1) / 31)
    assert kept(paper, 32, 1e4)[4] == pytest.approx((12.8 / (2 * math.pi) - 1) / 31)
    np.testing.assert_allclose(kept(code, 32, 1e4), np.clip(1 - np.arange(16) / 6, 0, 1), atol=1e-12)
    apart = turning(code, 32, 1e4).frequencies / turning(paper, 32, 1e4).frequencies
    assert 1.5 < apart.max() < 2.5
    # At the ends they agree: a pair with so many turns stays, one with less than a turn is divided by s.
    long = [kept(RopeScaling("yarn", factor=4.0, original_context=4096, ramp=ramp), 128, 1e4) for ramp in ("rotations", "dimensions")]
    within = turns(frequencies(128, 1e4), 4096)
    for share in long:
        assert np.all(share[within > 35] == 1) and np.all(share[within < 0.85] == 0)
    assert np.abs(long[0] - long[1]).max() > 0.3


def test_by_parts_is_yarn_without_the_temperature():
    by_parts, yarn = (turning(scaling_for(kind, 8.0, 128), 32, 1e4) for kind in ("by-parts", "yarn"))
    assert np.array_equal(by_parts.frequencies, yarn.frequencies)
    assert by_parts.attention_factor == 1.0
    assert yarn.attention_factor == yarn_temperature(8.0) == pytest.approx(0.1 * math.log(8) + 1)
    assert yarn_temperature(1.0) == yarn_temperature(0.5) == 1.0


def test_wavelengths_and_turns():
    """The first pair turns once in 2 pi tokens; the last of d = 4, base 10,000 in 100 times as many."""
    f = frequencies(4, 1e4)
    np.testing.assert_allclose(wavelengths(f), [2 * math.pi, 200 * math.pi])
    np.testing.assert_allclose(turns(f, 400 * math.pi), [200, 2])


@pytest.mark.parametrize("method", METHODS)
def test_what_a_reader_chooses(method):
    """A method that stretches nothing is none; every other gives a scaling that fits, and lowers frequencies."""
    assert scaling_for(method, 1.0, 128) is None
    scaling = scaling_for(method, 4.0, 128)
    if method == "none":
        assert scaling is None
        return
    scaling.check(32)
    found = turning(scaling, 32, 1e4, 512).frequencies
    assert np.all(found <= frequencies(32, 1e4)) and found[-1] == pytest.approx(frequencies(32, 1e4)[-1] / 4)


def test_an_unknown_method_has_no_parameters():
    with pytest.raises(ValueError):
        scaling_for("longrope", 4.0, 128)
    with pytest.raises(ValueError):
        kept(RopeScaling("linear", factor=2.0), 32, 1e4)


@pytest.mark.parametrize(
    "changed, field",
    [
        ({"kind": "su"}, "rope_type"), ({"ramp": "dims"}, "ramp"), ({"factor": 0.0}, "factor"), ({"factor": math.nan}, "factor"),
        ({"original_context": 0}, "original_max_position_embeddings"), ({"original_context": True}, "original_max_position_embeddings"),
        ({"beta_fast": 1.0}, "beta_fast"), ({"mscale": -1.0}, "mscale"), ({"attention_factor": math.inf}, "attention_factor"),
        ({"low_freq_factor": 5.0}, "high_freq_factor"), ({"kind": "factors", "divisors": (1.0,)}, "rope_freqs"),
    ],
)  # fmt: skip
def test_numbers_that_cannot_be(changed, field):
    with pytest.raises(UnfitScaling) as caught:
        RopeScaling(**{"kind": "yarn", "factor": 2.0, **changed}).check(32)
    assert caught.value.field == field


@pytest.mark.parametrize("kind", ["ntk", "dynamic"])
def test_a_single_pair_has_no_base_to_change(kind):
    """d / (d - 2) with d = 2 is a division by zero."""
    with pytest.raises(UnfitScaling):
        RopeScaling(kind, factor=2.0).check(2)
