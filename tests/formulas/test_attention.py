"""What is read off attention probabilities, held against plain loops."""

import base64

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formulas import attention as formulas


def probabilities(heads: int, n: int, seed: int = 0) -> np.ndarray:
    """Causal rows that sum to 1, of very unequal sizes as real ones are."""
    scores = np.random.default_rng(seed).normal(0, 4, (heads, n, n))
    p = np.exp(scores) * np.tri(n)
    return p / p.sum(axis=2, keepdims=True)


sizes = st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(0, 1000))


@given(sizes, st.data())
def test_shares_are_what_loops_say(size, data):
    """The mean over the stated queries; a profile sums to 1, and the even one is that of a head without preferences."""
    heads, n, seed = size
    p = probabilities(heads, n, seed)
    begin, k = data.draw(st.integers(0, n - 1)), data.draw(st.integers(1, n + 3))
    found = formulas.received(p, begin)
    for head in range(heads):
        for key in range(n):
            assert found[head, key] == pytest.approx(sum(p[head, i, key] for i in range(begin, n)) / (n - begin), abs=1e-12)
    assert found.sum(axis=1) == pytest.approx(1.0)
    flat = np.tri(n) / np.arange(1, n + 1)[:, None]
    assert formulas.even(n, begin) == pytest.approx(formulas.received(flat[None], begin)[0])
    assert formulas.even_share(n, begin, k) == pytest.approx(sum(min(k, i + 1) / (i + 1) for i in range(begin, n)) / (n - begin))


def test_from_which_query_on():
    """At 100 as it is stated on the page; a short text from its middle, a single token from itself."""
    assert [formulas.first_query(n) for n in (1, 2, 3, 16, 199, 200, 201, 1024)] == [0, 1, 1, 8, 99, 100, 100, 100]


@given(sizes, st.integers(1, 45))
def test_a_reduced_map_is_the_mean_over_queries_of_the_sum_over_keys(size, width):
    """By loops; rows still sum to 1 and nothing stands right of the diagonal."""
    heads, n, seed = size
    p, edges = probabilities(heads, n, seed), formulas.bin_edges(n, width)
    found = formulas.reduced(p, edges)
    bins = list(zip(edges, edges[1:], strict=False))
    assert bins[0][0] == 0 and bins[-1][1] == n and all(end - begin == width for begin, end in bins[:-1]) and found.shape == (heads, len(bins), len(bins))
    for row, (q0, q1) in enumerate(bins):
        for column, (k0, k1) in enumerate(bins):
            assert found[:, row, column] == pytest.approx(p[:, q0:q1, k0:k1].sum(axis=2).mean(axis=1), abs=1e-12)
    assert found.sum(axis=2) == pytest.approx(1.0) and not np.triu(found, 1).any()
    if width == 1:
        assert np.allclose(found, p)


@given(st.integers(1, 2000), st.integers(1, 2000), st.integers(1, 2_000_000))
def test_bins_are_as_narrow_as_the_limit_allows(tokens, heads, most):
    """Wider ones would blur for nothing, narrower ones make the result too large."""
    width = formulas.bin_tokens(tokens, heads, most)

    def values(width):
        bins = len(formulas.bin_edges(tokens, width)) - 1
        return heads * bins * (bins + 1) // 2

    assert 1 <= width <= max(1, tokens) and (values(width) <= most or width == tokens)
    assert width == 1 or values(width - 1) > most


@given(sizes)
def test_bytes_come_back_as_shares(size):
    """A head's map out of the middle of a result, wherever base64 cuts; no error that a colour would show."""
    heads, n, seed = size
    p = probabilities(heads, n, seed)
    maps = {"size": n, "data": base64.b64encode(formulas.packed(p)).decode()}
    for head in range(heads):
        found = formulas.head_map(maps, head)
        assert found.dtype == np.uint8 and found.shape == (n, n) and not np.triu(found, 1).any()
        assert np.abs(formulas.as_shares(found) - p[head]).max() < 0.004
    small = p < 1e-3
    assert np.abs(formulas.as_shares(np.frombuffer(formulas.as_bytes(p), np.uint8).reshape(p.shape)) - p)[small].max(initial=0) < 0.00013


def test_a_share_a_rounding_above_1_is_1():
    """As a byte it would begin again at 0: the strongest head black."""
    assert formulas.as_bytes(np.array([1.0000001, 1.0, 0.0, -1e-9])) == bytes([255, 255, 0, 0])


def test_one_heads_profile():
    """Of the head that was asked for."""
    p = probabilities(3, 7)
    shares = formulas.received(p, 2)
    profile = {"by_layer": [[0.0] * 7], "by_head": base64.b64encode(formulas.as_bytes(shares)).decode()}
    for head in range(3):
        assert np.abs(formulas.head_profile(profile, head) - shares[head]).max() < 0.004
