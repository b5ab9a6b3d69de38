"""KV bytes per layout, by hand and by how they must scale."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formulas.kv import (
    KV_DTYPES,
    Attention,
    KvBytes,
    Latent,
    Recurrent,
    held_tokens,
    kv_bytes,
    kv_bytes_per_token,
    state_bytes,
)

SMOLLM2 = (Attention(30, 3, 64, 64),)
SIZES = st.integers(1, 300)
ATTENTIONS = st.builds(Attention, SIZES, SIZES, SIZES, SIZES, st.none() | st.integers(1, 5000))
LATENTS = st.builds(Latent, SIZES, SIZES, SIZES)
GROUPS = st.lists(ATTENTIONS | LATENTS | st.builds(Recurrent, SIZES, SIZES), min_size=1, max_size=4).map(tuple)
LENGTHS = st.integers(0, 200_000)
DTYPES = st.sampled_from(KV_DTYPES)


def test_smollm2_as_the_design_has_it():
    """11,520 B and 360 B of scales per token in int8; 5,760 and 1,080 in int4, at multiples of 32."""
    for tokens in (32, 64, 4096):
        assert kv_bytes(SMOLLM2, tokens, "int8") == KvBytes(11_520 * tokens, 360 * tokens)
        assert kv_bytes(SMOLLM2, tokens, "int4") == KvBytes(5_760 * tokens, 1_080 * tokens)
        assert kv_bytes(SMOLLM2, tokens, "bf16") == KvBytes(23_040 * tokens, 0)
        assert kv_bytes(SMOLLM2, tokens, "fp8") == KvBytes(11_520 * tokens, 0)
        assert kv_bytes(SMOLLM2, tokens, "fp32").total == 46_080 * tokens
    assert kv_bytes_per_token(30, 3, 64, bytes_per_value=2) == 23_040


def test_int4_keeps_the_last_keys_in_16_bits():
    """33 tokens are one group and one token over; a single token has nothing but itself. Without this a short cache would
    be computed at a quarter of its size."""
    one = (Attention(1, 1, 64, 64),)
    assert kv_bytes(one, 1, "int4") == KvBytes(64 * 2 + 32, 4)
    assert kv_bytes(one, 31, "int4") == KvBytes(31 * (64 * 2 + 32), 31 * 4)
    assert kv_bytes(one, 32, "int4") == KvBytes(32 * (32 + 32), 64 * 4 + 32 * 4)
    assert kv_bytes(one, 33, "int4") == KvBytes(32 * 64 + 64 * 2 + 32, 64 * 4 + 33 * 4)


def test_a_latent_vector_is_key_and_value_in_one():
    """DeepSeek-V3: 61 x (512 + 64) values a token, not twice as many; two scales in int8, for the vector and the rotary key."""
    v3 = (Latent(61, 512, 64),)
    assert kv_bytes(v3, 1, "bf16").total == 70_272
    assert kv_bytes(v3, 10, "int8") == KvBytes(61 * 576 * 10, 61 * 2 * 2 * 10)
    assert kv_bytes(v3, 64, "int4") == KvBytes(61 * 288 * 64, 61 * 576 * 4 * 2)


def test_a_window_and_a_state_do_not_grow():
    group, state = Attention(2, 4, 8, 8, window=100), Recurrent(3, 50)
    assert [held_tokens(group, tokens) for tokens in (1, 99, 100, 101, 10**6)] == [1, 99, 100, 100, 100]
    assert kv_bytes((group, state), 10**6, "bf16") == kv_bytes((group,), 100, "bf16")
    assert state_bytes((group, state), "fp32") == 600
    assert {state_bytes((group, state), dtype) for dtype in KV_DTYPES[1:]} == {300}
    assert state_bytes((group,), "bf16") == 0 and held_tokens(state, 5) == 0


@pytest.mark.parametrize("tokens, dtype", [(-1, "bf16"), (1, "int2"), (1, ""), (1, None)])
def test_what_cannot_be_computed_is_not(tokens, dtype):
    with pytest.raises(ValueError):
        kv_bytes(SMOLLM2, tokens, dtype)


@given(GROUPS, GROUPS, LENGTHS, DTYPES)
def test_groups_add_up(some, others, tokens, dtype):
    """A model with two kinds of layers costs what both cost: no group may see another's window."""
    together, left, right = kv_bytes(some + others, tokens, dtype), kv_bytes(some, tokens, dtype), kv_bytes(others, tokens, dtype)
    assert together == KvBytes(left.payload + right.payload, left.scales + right.scales)
    assert state_bytes(some + others, dtype) == state_bytes(some, dtype) + state_bytes(others, dtype)


@given(GROUPS, LENGTHS, st.integers(0, 500), DTYPES.filter(lambda dtype: dtype != "int4"))
def test_more_tokens_never_take_less(groups, tokens, more, dtype):
    now, later = kv_bytes(groups, tokens, dtype), kv_bytes(groups, tokens + more, dtype)
    assert 0 <= now.payload <= later.payload and 0 <= now.scales <= later.scales


@given(GROUPS, st.integers(0, 5000), st.integers(0, 20))
def test_int4_grows_from_group_to_group(groups, tokens, more):
    """Within a group it may shrink: the 32nd token packs 31 keys that were in 16 bits. At multiples of 32 it grows."""
    groups = tuple(group for group in groups if getattr(group, "window", None) is None)
    now, later = kv_bytes(groups, 32 * tokens, "int4"), kv_bytes(groups, 32 * (tokens + more), "int4")
    assert now.payload <= later.payload and now.scales <= later.scales
    assert kv_bytes(groups, 32 * tokens + 31, "int4").payload >= now.payload


@given(GROUPS, LENGTHS)
def test_payloads_are_in_the_ratio_of_their_values(groups, tokens):
    """Scales are counted apart: a payload of int8 is half of bf16's, exactly; int4's is never under a quarter."""
    payload = {dtype: kv_bytes(groups, tokens, dtype).payload for dtype in KV_DTYPES}
    assert payload["fp32"] == 2 * payload["bf16"] == 4 * payload["fp8"] == 4 * payload["int8"]
    assert payload["bf16"] <= 4 * payload["int4"]
    assert [dtype for dtype in KV_DTYPES[:3] if kv_bytes(groups, tokens, dtype).scales] == []


@given(st.integers(1, 100), st.integers(1, 64), st.integers(1, 128).map(lambda n: 2 * n), st.integers(0, 1000))
def test_int4_at_multiples_of_32_is_exactly_a_quarter_and_its_scales(layers, heads, dim, groups):
    """Per token, layer and head: dim bytes of payload, dim / 8 of keys' scales and zeros, 4 of the values'."""
    found = kv_bytes((Attention(layers, heads, dim, dim),), 32 * groups, "int4")
    assert found.payload == layers * heads * dim * 32 * groups
    assert found.scales == layers * heads * groups * (4 * dim + 128)
