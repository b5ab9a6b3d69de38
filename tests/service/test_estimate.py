"""How long it will take, as far as earlier runs tell."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.experiments.scenarios import RequestGroup, SchedulesScenario
from engine.service.estimate import Past, duration_s, remaining_s, work_of

POSITIVE = st.floats(0.1, 1e4)


def test_the_same_scenario_tells_before_all_others():
    """A mean over everything says an hour for a run of seconds."""
    past = [Past("a", 100, 3.0), Past("a", 100, 5.0), Past("a", 100, 100.0), Past("b", 100, 1000.0)]
    assert duration_s("a", 100, past) == 5.0
    assert duration_s("b", 100, iter(past)) == 1000.0


def test_others_tell_by_their_work():
    """Twice the tokens take twice as long, about."""
    assert duration_s("new", 200, [Past("a", 100, 3.0), Past("b", 50, 1.5)]) == pytest.approx(6.0)
    assert duration_s("new", 200, [Past("a", 0, 3.0)]) is None, "work that is not known tells nothing"
    assert duration_s("new", 200, []) is None


@given(st.lists(st.builds(Past, st.sampled_from("ab"), st.integers(1, 10**6), POSITIVE), min_size=1), st.integers(1, 10**6))
def test_an_estimate_lies_between_what_was_seen(past, work):
    """One odd run must not give times that no run had."""
    rates = [run.duration_s / run.work for run in past]
    assert min(rates) * work * 0.999 <= duration_s("c", work, past) <= max(rates) * work * 1.001


def test_work_counts_schedules_and_repeats():
    """Three repeats of two schedules are six times the work."""
    scenario = SchedulesScenario("x", (RequestGroup("chat", 2, 60, 40),), schedules=("unified", "chunked"), repeats=3)
    assert work_of(scenario) == 2 * 100 * 2 * 3


@pytest.mark.parametrize(
    "done, estimate, expected",
    [
        (0.5, None, 10.0), (0.25, 45.0, 30.0), (0.1, None, None), (0.05, 60.0, 40.0), (0.0, 5.0, 0.0), (1.0, None, 0.0),
        (0.99, 80.0, 60.0),  # measuring is nearly over, but another phase follows
    ],  # fmt: skip
)
def test_what_is_left_of_a_running_job(done, estimate, expected):
    """From what is done as soon as that tells something, and from earlier runs; the longer of the two, never below zero."""
    assert remaining_s({"done": done, "phase_s": 10.0, "elapsed_s": 20.0, "estimate_s": estimate}) == expected
