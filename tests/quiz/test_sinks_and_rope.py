"""What the answers of the sinks and the rope quiz are computed with, against numbers of the table of claims and by hand, and what
they make of results that came out otherwise than the recordings."""

from __future__ import annotations

import pytest

from engine.quiz import answers_rope as rope
from engine.quiz import answers_sinks as sinks


def stream(window: list[float]) -> dict:
    """Dense attention loses 1 nat throughout, the window so much more in each bin behind the first eviction."""
    starts = range(0, 100 * (len(window) + 2), 100)
    dense = [[at, at + 100, 1.0] for at in starts]
    return {
        "first_eviction": 200,
        "curves": {
            "dense": {"bins": dense},
            "window": {"bins": [[at, at + 100, 1.0 + more] for at, more in zip(starts, [0.0, 0.0, *window], strict=True)]},
        },
    }


def test_what_is_left_of_a_softmax_adds_up_to_one_again():
    """A slip and the answer exchanged: of 0.75, 0.15 and 0.10 the last two become 0.6 and 0.4."""
    assert sinks.rest_grows(75) == pytest.approx(0.6 / 0.15) == pytest.approx(0.4 / 0.10)


@pytest.mark.parametrize(
    ("window", "said"),
    [([1.0, 1.1, 0.9, 1.2, 1.0, 0.9, 1.1, 1.0], "at-once"), ([0.0, 0.1, 0.2, 0.4, 0.8, 1.2, 1.6, 2.0], "slowly"),
     ([1.2, 1.0, 0.8, 0.4, 0.2, 0.1, 0.1, 0.0], "recovers"), ([0.01, 0.0, 0.02, -0.01, 0.0, 0.01, 0.0, 0.0], "never")],
)
def test_a_loss_that_comes_at_once_is_told_from_others(window, said):
    """An item whose right option would not change with its recording."""
    assert sinks.window_loses(stream(window)) == said


def test_the_jump_is_between_neighbouring_layers():
    """The highest layer taken for the largest step, or a layer counted from 1."""
    found = {"overview": {"first": [[0.1, 0.1], [0.0, 0.0], [0.4, 0.4], [0.5, 0.5]]}}
    assert (sinks.layer_of_the_jump(found), sinks.layer_of_the_jump_from_one(found), sinks.layer_of_the_most(found)) == (2, 3, 3)


def test_the_new_base_slows_the_last_pair_by_all_of_s_and_the_first_by_nothing():
    """Claim A13: multiplied is the base, and pair i is divided by s^(2i/(d-2))."""
    assert 10_000 * rope.base_factor(128, 8) == pytest.approx(82_684, rel=1e-4)
    assert [rope.pair_slower(128, 8, pair) for pair in (0, 21, 42, 63)] == pytest.approx([1, 2, 4, 8])


def test_hands_that_never_turned_are_those_of_the_claims():
    """Claim B11: 18 of the 64 pairs of Llama 2, 10 of the 16 of the lab model, 12 of the 32 of SmolLM2."""
    assert [rope.never_turned(*hands) for hands in ((128, 1e4, 4096), (32, 1e4, 128), (64, 1e5, 8192))] == [18, 10, 12]


def test_lines_that_cross_twice_have_no_length_from_which_on_one_is_lower():
    """A reading that the picture would not bear out."""

    def measured(linear: list[float]) -> dict:
        lengths = [128, 256, 512, 1024]
        cells = [{"method": name, "length": n, "perplexity": p} for name, ps in (("linear", linear), ("ntk", [2.0] * 4)) for n, p in zip(lengths, ps)]
        return {"trained": 128, "lengths": lengths, "cells": cells}

    assert (rope.linear_passes_ntk(measured([2, 3, 3, 1])), rope.linear_last_behind(measured([2, 3, 3, 1]))) == (1024, 512)
    assert rope.linear_passes_ntk(measured([2, 3, 1, 3])) is None and rope.linear_passes_ntk(measured([2, 3, 3, 3])) is None
