"""FLOPs of a prefill against published figures, against the engine's own count, and by how they scale."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import profiles
from engine.formulas.flops import (
    attention_flops,
    compute_s,
    matrix_flops,
    matrix_parameters,
)
from engine.formulas.queueing import highest_rate_per_s
from engine.model.catalog import CATALOG

A100 = 312e12
SHAPES = st.fixed_dictionaries({"layers": st.integers(1, 200), "heads": st.integers(1, 128), "head_dim": st.sampled_from([32, 64, 128, 256])})
LENGTHS = st.integers(1, 2_000_000)


def test_the_textbook_claims_b1_and_b2_are_recomputed():
    """70B, 131,072 tokens: 4.5e16 in attention (half if causal work is skipped), 1.8e16 in matrices; an A100: 144 s (72 s)
    and 59 s. The textbook's 1.3e15 and 4 s lack the layers and a factor of 4."""
    full = attention_flops(80, 64, 128, 131_072, causal=False)
    causal = attention_flops(80, 64, 128, 131_072)
    matrices = matrix_flops(70_000_000_000, 131_072)
    assert full == pytest.approx(4.5e16, rel=0.005) and causal == full / 2 == pytest.approx(2.25e16, rel=0.005)
    assert matrices == pytest.approx(1.8e16, rel=0.02)
    assert compute_s(full, A100) == pytest.approx(144, abs=0.5) and compute_s(causal, A100) == pytest.approx(72, abs=0.5)
    assert compute_s(matrices, A100) == pytest.approx(59, abs=0.5)


def test_the_70b_profile_says_the_same_within_its_embeddings():
    """68.5e9 of its 70.6e9 parameters are multiplied: the usual 2 x 70e9 is 2 % too much, not a different story."""
    model = profiles.model("llama-3-70b")
    assert model.matrix_parameters == 68_451_041_280
    assert compute_s(model.matrix_flops(131_072), A100) == pytest.approx(57.5, abs=0.1)
    assert model.attention_flops(131_072) == attention_flops(80, 64, 128, 131_072)
    assert model.prefill_flops(1_000_000) == pytest.approx(1.37e17 + 1.31e18, rel=0.005), "at a million tokens attention is nearly all"


@pytest.mark.parametrize("name, tokens", [("smollm2-135m-instruct", 4096), ("random-1b", 32_768)])
def test_it_agrees_with_what_the_engine_counts_for_itself(name, tokens):
    """The benchmark and the pages must not teach two counts. The engine's has the diagonal and one row of logits more."""
    c = CATALOG[name].config
    matrices = matrix_flops(matrix_parameters(c.n_layers, c.hidden_size, c.n_heads, c.n_kv_heads, c.head_dim, c.ffn_size), tokens)
    attention = attention_flops(c.n_layers, c.n_heads, c.head_dim, tokens)
    assert matrices + attention == pytest.approx(c.forward_flops(tokens), rel=1e-3)
    full = attention_flops(c.n_layers, c.n_heads, c.head_dim, tokens, causal=False)
    assert full + matrices > 1.05 * c.forward_flops(tokens)


@given(SHAPES, LENGTHS)
def test_attention_is_quadratic_and_matrices_are_linear(shape, tokens):
    """Twice the prompt is four times the attention: the whole trouble with a million tokens."""
    assert attention_flops(**shape, tokens=2 * tokens) == 4 * attention_flops(**shape, tokens=tokens)
    assert attention_flops(**shape, tokens=tokens, causal=False) == 2 * attention_flops(**shape, tokens=tokens)
    assert matrix_flops(10**9, 2 * tokens) == 2 * matrix_flops(10**9, tokens)
    twice = {**shape, "layers": 2 * shape["layers"]}
    assert attention_flops(**twice, tokens=tokens) == 2 * attention_flops(**shape, tokens=tokens)


@given(st.integers(1, 100), st.integers(1, 64), st.sampled_from([1, 2, 4, 8]), st.integers(64, 8192))
def test_sharing_keys_saves_parameters_but_no_score(layers, kv_heads, group, hidden):
    """Grouped queries shrink two of seven matrices; the work on the scores is that of the query heads."""
    heads = kv_heads * group
    shared = matrix_parameters(layers, hidden, heads, kv_heads, 64, 3 * hidden)
    own = matrix_parameters(layers, hidden, heads, heads, 64, 3 * hidden)
    assert own - shared == layers * 2 * hidden * 64 * (heads - kv_heads)


@given(st.floats(1e9, 1e20), st.floats(1e9, 1e16), st.floats(0.01, 1.0), st.integers(1, 1000))
def test_seconds_fall_with_devices_and_utilisation(flops, rate, utilisation, devices):
    """Half the utilisation is twice the time; a bound at full utilisation is never above what is reached."""
    seconds = compute_s(flops, rate, utilisation=utilisation, devices=devices)
    assert seconds == pytest.approx(compute_s(flops, rate) / utilisation / devices)
    assert compute_s(flops, rate, devices=devices) <= seconds * (1 + 1e-12)


def test_a_million_tokens_on_a_device():
    """The chapter's wall in numbers: Llama-3-8B, a million tokens, one H100 at half its peak: about 9 minutes a prompt,
    so more than 7 an hour can never be served."""
    model, h100 = profiles.model("llama-3-8b"), profiles.device("h100-sxm")
    seconds = compute_s(model.prefill_flops(1_000_000), h100.bf16_flops_per_s, utilisation=0.5)
    assert seconds == pytest.approx((2 * 6.98e9 * 1e6 + 2 * 1e12 * 4096 * 32) / 494.75e12, rel=0.001)
    assert 3600 * highest_rate_per_s(seconds) == pytest.approx(6.46, abs=0.05)
