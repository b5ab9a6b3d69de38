"""The tail of the gaps, and who keeps two promises: the numbers of a result that can be checked in the head."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages._ui.palette import LIGHT
from pages._ui.words import Words
from pages.schedules import gaps, slo
from tests.pages import small

EN = Words("en", "schedules")


@given(st.lists(st.floats(1e-4, 10), min_size=1, max_size=2000))
def test_the_tail_keeps_the_longest_gaps_and_the_right_shares(values):
    """Thinning must never drop the stall that the figure is about."""
    values.sort()
    points = gaps.tail(values)
    assert len(points) <= gaps.MOST_POINTS + 2
    assert points[-1] == (values[-1], 1 / len(values))
    assert points[0] == (values[0], 1.0)
    for x, share in points:
        index = round(len(values) * (1 - share))
        assert values[index] == x


def test_the_figure_shows_each_schedule_up_to_its_worst_gap():
    data = gaps.figure(small.result(), EN, LIGHT, touch=False)["data"]
    assert [round(max(t["x"]), 3) for t in data] == [1.1, 0.3, 0.1]


def test_the_table_has_the_worst_gap_in_its_last_row():
    head, rows = gaps.table(small.result(), EN)
    assert head[1:] == ["Unified", "Chunked", "Disaggregated"]
    assert rows[-1][1:] == ["1.10 s", "300 ms", "100 ms"]


def test_without_any_gap_there_is_no_figure():
    result = small.result()
    for entry in result["schedules"].values():
        for request in entry["trace"]["requests"]:
            request["token_s"] = request["token_s"][:1]
    assert gaps.figure(result, EN, LIGHT, touch=False) is None


def met(result, *promise):
    return {k.schedule: k.met for k in slo.kept(result, *promise)}


def test_one_freeze_breaks_a_promise_about_every_gap():
    assert met(small.result(), 10.0, 0.5, 1.0) == {"unified": 1, "chunked": 3, "disaggregated": 3}


def test_the_99th_percentile_lets_one_freeze_in_a_hundred_pass():
    """What the page teaches: of 199 gaps one may be endless."""
    result = small.result()
    for request in result["schedules"]["unified"]["trace"]["requests"]:
        request["token_s"] = [i * 0.1 for i in range(100)] + [20 + i * 0.1 for i in range(100)]
        request["arrival_s"] = 0.0
    assert met(result, 10.0, 0.5, 0.99)["unified"] == 3
    assert met(result, 10.0, 0.5, 1.0)["unified"] == 0


def test_the_first_token_has_a_promise_of_its_own():
    found = {k.schedule: k for k in slo.kept(small.result(), 1.0, 5.0, 1.0)}
    assert (found["unified"].late_first, found["disaggregated"].late_first) == (0, 1)
    assert found["disaggregated"].met == 2


def test_goodput_is_requests_over_the_runs_length():
    result = small.result()
    entry = result["schedules"]["unified"]
    kept = slo.kept(result, 10.0, 5.0, 1.0)[0]
    assert kept.goodput_rps == pytest.approx(3 / entry["metrics"]["makespan_s"])


@pytest.mark.parametrize(
    ("promise", "says"),
    [((10.0, 0.5, 1.0), "Chunked, Disaggregated"), ((10.0, 5.0, 1.0), "All three"), ((0.001, 0.5, 1.0), "No schedule")],
)
def test_the_verdict_follows_the_numbers(promise, says):
    assert slo.verdict(slo.kept(small.result(), *promise), EN).startswith(says)


def test_a_schedule_that_keeps_fewer_in_less_time_is_named():
    most, sooner = slo.Kept("chunked", 0.4, 11, 11, 0, 0), slo.Kept("disaggregated", 0.6, 10, 11, 1, 0)
    assert "Disaggregated (0.60 req/s)" in slo.sooner([most, sooner], EN)
    assert slo.sooner([most], EN) == "" and slo.sooner([], EN) == ""
