"""Wilson's interval: against values worked out by hand, and what any interval of a share must be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formulas.intervals import Z_95, against, wilson


@pytest.mark.parametrize(
    "right, trials, low, high",
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (5, 10, 0.2366, 0.7634), (15, 60, 0.1578, 0.3723), (1, 1, 0.2065, 1.0)],
)
def test_known_intervals(right, trials, low, high):
    """Worked out by hand: one that is right for a half and wrong at the ends (as the textbook's normal
    approximation is) would say that ten of ten is certain."""
    assert wilson(right, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_both_ends_solve_the_score_equation(counted):
    """|p - share| = z sqrt(p (1 - p) / n) at both ends, which is how the interval is defined."""
    right, trials = counted
    share = right / trials
    low, high = wilson(right, trials)
    assert 0.0 <= low <= share <= high <= 1.0 and low < high
    for p in (low, high):
        if 0 < p < 1:
            assert abs(p - share) == pytest.approx(Z_95 * math.sqrt(p * (1 - p) / trials), rel=1e-6, abs=1e-9)


@given(st.integers(0, 100), st.integers(1, 20))
def test_more_trials_say_more(right, factor):
    """And what is right of one is wrong of the other."""
    low, high = wilson(right, 100)
    narrow = wilson(right * factor, 100 * factor)
    assert narrow[1] - narrow[0] <= high - low + 1e-12
    assert wilson(100 - right, 100) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@pytest.mark.parametrize("right, trials", [(0, 0), (3, 2), (-1, 5)])
def test_what_cannot_be_counted_is_refused(right, trials):
    """Half a result must not become an interval."""
    with pytest.raises(ValueError, match=str(trials)):
        wilson(right, trials)


def test_against_guessing():
    """Only an interval that lies wholly on one side says anything."""
    assert (against(0.1, (0.11, 0.5)), against(0.1, (0.1, 0.5)), against(0.1, (0.0, 0.2)), against(0.1, (0.0, 0.09))) == ("above", "level", "level", "below")
