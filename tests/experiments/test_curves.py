"""Bins, perplexities and sampled places: nothing is counted twice or lost, and the first eviction is an edge."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experiments.curves import MOST_BINS, SHORTEST_BIN, bin_edges, binned, perplexity, sampled_points

PLACES = st.integers(2, 40_000).flatmap(lambda items: st.tuples(st.just(items), st.integers(1, items - 1)))


@given(PLACES)
def test_edges_cover_everything_once_and_meet_the_first_eviction(place):
    """A bin across it would mix tokens before the damage with tokens behind it."""
    items, break_at = place
    edges = bin_edges(items, break_at)
    assert edges[0] == 0 and edges[-1] == items and break_at in edges and edges == sorted(set(edges))
    assert len(edges) <= MOST_BINS + 3
    widths = {b - a for a, b in zip(edges[1:-1], edges[2:-1], strict=False)}
    assert len(widths) <= 1 and all(width >= SHORTEST_BIN for width in widths), "all but the two at the ends are alike"


@given(PLACES, st.floats(0, 20), st.floats(0, 1))
def test_bins_hold_the_mean_of_what_there_is(place, level, share):
    """Live, a curve grows: the last bin is what has come of it so far, and no bin is empty."""
    items, break_at = place
    known = round(share * min(items, 500))
    losses = [level + (i % 7) for i in range(known)]
    bins = binned(losses, bin_edges(items, break_at))
    assert sum(end - begin for begin, end, _ in bins) == known and all(begin < end for begin, end, _ in bins)
    for begin, end, mean in bins:
        assert mean == pytest.approx(sum(losses[begin:end]) / (end - begin), abs=1e-4)


def test_perplexity():
    """Of a model that gives every token a tenth, ten; of one that is absurdly wrong, still a number."""
    assert perplexity([math.log(10)] * 5) == pytest.approx(10) and perplexity([0.0, math.log(16)]) == pytest.approx(4)
    assert math.isfinite(perplexity([1e9]))
    with pytest.raises(ValueError, match="no losses"):
        perplexity([])


@given(st.integers(1, 40_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))), st.integers(1, 512))
def test_samples_lie_behind_the_eviction_evenly(place, wanted):
    """Each stands for a stretch of its own: sampled at the edge, the first would be one before the eviction."""
    items, break_at = place
    every, points = sampled_points(items, break_at, wanted)
    assert 1 <= len(points) <= wanted and break_at <= points[0] and points[-1] < items
    assert {b - a for a, b in zip(points, points[1:], strict=False)} <= {every}
    assert points[0] - break_at == every // 2 and items - points[-1] <= every + every // 2 + 1


@pytest.mark.parametrize("items, break_at", [(10, 0), (10, 10), (0, 0)])
def test_a_text_without_an_eviction_has_no_such_bins(items, break_at):
    """It is refused before anything is read."""
    with pytest.raises(ValueError, match=str(items)):
        bin_edges(items, break_at)
    with pytest.raises(ValueError, match=str(items)):
        sampled_points(items, items, 5)
