"""What a memory holds, by numbers everybody can check, and the longest context against trying every length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formulas import memory
from engine.formulas.kv import KV_DTYPES, Attention, Latent, Recurrent

LLAMA_8B = (Attention(32, 8, 128, 128),)
MHA_7B = (Attention(32, 32, 128, 128),)
GB = 10**9


def test_claim_a4_one_request_of_128_000_tokens():
    """Llama-3-8B needs 16.8 GB, the MHA model of that shape 67.1 GB: query heads taken for KV heads are off by four."""
    assert memory.request_bytes(LLAMA_8B, 128_000, "bf16") == 16_777_216_000
    assert memory.request_bytes(MHA_7B, 128_000, "bf16") == 67_108_864_000


def test_claim_b4_70b_on_four_a100():
    """Weights left out give 24 sequences; with them it is 4 with nothing in reserve and 3 at 90 %."""
    request = memory.request_bytes((Attention(80, 8, 128, 128),), 131_072, "bf16")
    weights = 70_553_706_496 * 2
    for reserve, most in ((0.0, 4), (0.1, 3)):
        assert memory.requests_that_fit(memory.room_bytes(320 * GB, weights, reserve), request) == most
    assert memory.room_bytes(80 * GB, weights, 0.0) < 0 and memory.requests_that_fit(-1, request) == 0


def test_a_state_counts_for_every_request():
    """A hybrid whose state is forgotten would fit too many short requests."""
    groups = (Attention(2, 1, 64, 64), Recurrent(6, 1_000_000))
    assert memory.request_bytes(groups, 10, "bf16") == 2 * 2 * 64 * 10 * 2 + 12_000_000
    assert memory.request_bytes(groups, 10, "int4") > 12_000_000, "states are not quantised"


def test_windows_alone_set_no_limit_once_they_fit():
    groups = (Attention(4, 2, 64, 64, window=512), Recurrent(4, 100))
    full = memory.request_bytes(groups, 512, "bf16")
    assert memory.longest_context(groups, "bf16", full) is None
    assert memory.longest_context(groups, "bf16", full - 1) == 511
    assert memory.longest_context(groups, "bf16", full, requests=2) == memory.longest_context(groups, "bf16", full // 2)
    assert memory.longest_context(groups, "bf16", 799) == 0, "not even the state fits"
    assert memory.longest_context((Recurrent(4, 100),), "bf16", 800) is None


windows = st.one_of(st.none(), st.integers(1, 150))
kinds = st.one_of(
    st.builds(Attention, st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), windows),
    st.builds(Latent, st.integers(1, 3), st.integers(1, 9), st.integers(1, 5)),
    st.builds(Recurrent, st.integers(1, 3), st.integers(0, 50)),
)


@given(st.lists(kinds, min_size=1, max_size=3), st.sampled_from(KV_DTYPES), st.integers(0, 9_000), st.integers(1, 3))
def test_the_longest_context_is_the_longest_that_fits(groups, dtype, room, requests):
    """With int4 the cache shrinks whenever a group of keys is full: plain bisection would stop too early."""
    found = memory.longest_context(groups, dtype, room, requests)

    def fits(tokens: int) -> bool:
        return memory.request_bytes(groups, tokens, dtype) * requests <= room

    if found is None:
        assert fits(10_000) and fits(100_000)
        return
    assert found == 0 or fits(found)
    assert not any(fits(found + more) for more in range(1, 400))


def test_a_lean_model_in_many_devices_is_not_cut_off():
    """64 cards of 288 GB hold thousands of millions of tokens of a model with one KV head; a limit of the search is no answer."""
    falcon = (Attention(32, 1, 64, 64),)  # 8,192 bytes a token in bf16
    assert memory.longest_context(falcon, "bf16", 64 * 288 * GB) == 64 * 288 * GB // 8192


def test_bandwidth_bends_the_line():
    """One request reads all weights for a token; with many the caches are what is read, and tokens/s stop growing."""
    one = memory.decode_tokens_per_s(1, 16 * GB, GB, 3.35e12)
    assert one == pytest.approx(3.35e12 / 17e9)
    many = memory.decode_tokens_per_s(1000, 16 * GB, GB, 3.35e12)
    assert many == pytest.approx(3350, rel=0.02) and many < 3350
