"""The definitions of the metrics, on numbers that can be checked by eye."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.measure.metrics import (
    goodput_rps, itl_s, median_of, meets_slos, peak_kv_tokens, percentile, stalls, summarize, tpot_s, ttft_s,
)  # fmt: skip
from tests.measure.traces import small_trace


def request(times, arrival=1.0, kind="chat", status="finished", **rest) -> dict:
    return {
        "arrival_s": arrival, "token_s": list(times), "kind": kind, "status": status, "preemptions": 0,
        "prefill_begin_s": None, "prefill_end_s": None, **rest,
    }  # fmt: skip


def trace(*requests, **rest) -> dict:
    return {"requests": list(requests), "steps": [], "transfers": [], "kv": [], **rest}


def test_ttft_is_from_arrival_to_the_first_token():
    """From the begin of the prefill it would leave out the queue."""
    assert ttft_s(request([3.5, 4.0])) == 2.5
    assert ttft_s(request([])) is None


def test_tpot_divides_by_the_gaps_and_not_by_the_tokens():
    """Divided by n it falls with short outputs; with TTFT in it, it tells of the queue."""
    assert tpot_s(request([10.0, 11.0, 14.0])) == 2.0
    assert tpot_s(request([10.0])) is None
    assert tpot_s(request([])) is None


def test_itl_never_contains_the_time_to_the_first_token():
    """The first gap would be the longest of all, under every schedule."""
    assert itl_s(request([100.0, 101.0, 103.5], arrival=0.0)) == [1.0, 2.5]
    assert itl_s(request([100.0], arrival=0.0)) == []


@pytest.mark.parametrize(
    "values, share, expected",
    [([], 0.5, None), ([4], 0.99, 4), ([1, 2], 0.5, 1), ([3, 1, 2], 0.5, 2), ([1, 2, 3, 4], 0.5, 2), (list(range(1, 101)), 0.99, 99),
     (list(range(1, 102)), 0.99, 100), ([1, 2], 0.0, 1), ([1, 2, 3], 1.0, 3)],
)  # fmt: skip
def test_percentile_is_the_nearest_rank(values, share, expected):
    """An interpolated percentile is a gap that nobody had."""
    assert percentile(values, share) == expected


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.integers(1, 100))
def test_percentile_by_its_definition(values, percent):
    """The smallest value that at least `percent` of 100 values do not exceed; order does not matter."""
    found = percentile(values, percent / 100)
    assert found in values
    assert 100 * sum(v <= found for v in values) >= percent * len(values)
    smaller = [v for v in values if v < found]
    assert not smaller or 100 * sum(v <= max(smaller) for v in values) < percent * len(values)


def test_goodput_counts_requests_that_met_both_slos():
    """A request with one good average and a stall must not count; nor a fast one that did not finish."""
    good = request([1.2, 1.3, 1.4])
    late = request([3.0, 3.1, 3.2])
    stalled = request([1.2, 1.3, 2.4])
    single = request([1.1])
    refused = request([], status="refused")
    cut = request([1.1, 1.2], status="unfinished")
    slos = dict(ttft_slo_s=0.5, itl_slo_s=0.2)
    assert [meets_slos(r, **slos) for r in (good, late, stalled, single, refused, cut)] == [True, False, False, True, False, False]
    everybody = trace(good, late, stalled, single, refused, cut)
    assert goodput_rps(everybody, **slos) == pytest.approx(2 / (3.2 - 1.0))
    assert goodput_rps(trace(refused), **slos) is None


def test_the_slo_on_gaps_is_on_99_of_100():
    """One bad gap in 101 is forgiven, two are not."""
    times = [float(i) for i in range(101)] + [105.0]
    assert meets_slos(request(times, arrival=0.0), 0.5, 1.0)
    assert not meets_slos(request([*times, 110.0], arrival=0.0), 0.5, 1.0)
    assert not meets_slos(request(times, arrival=0.0), 0.5, 1.0, share=1.0)  # a promise about every gap forgives none


def test_a_limit_met_exactly_is_met():
    """"Within 1 s" includes 1 s."""
    assert meets_slos(request([2.0, 3.0]), ttft_slo_s=1.0, itl_slo_s=1.0)


def test_stalls_are_gaps_far_above_the_median():
    """A stall marked where there is none, or at the wrong request."""
    steady = request([1.0, 2.0, 3.0, 4.0])
    stalled = request([1.0, 2.0, 7.0, 8.0])
    assert stalls(trace(steady, stalled)) == [{"request": 1, "begin_s": 2.0, "end_s": 7.0}]
    assert stalls(trace(steady, stalled), factor=5.0) == []
    assert stalls(trace(request([9.0]))) == [] == stalls(trace())


def test_summary_of_a_whole_trace():
    """Chats' gaps and the long prompt's TTFT, each of the right requests."""
    found = summarize(small_trace(), kv_bytes_per_token=10, kv_capacity_bytes=4096)
    expected = {
        "itl_max_s": 0.030, "itl_p50_s": 0.015, "itl_p99_s": 0.030, "itl_mean_s": 0.020,
        "ttft_s": 0.045, "prefill_s": 0.044, "chat_ttft_p50_s": 0.009, "chat_ttft_max_s": 0.009,
        "tpot_p50_s": 0.020, "tpot_max_s": 0.020, "decode_step_p50_s": 0.005,
        "throughput_tokens_per_s": 7 / 0.074, "makespan_s": 0.074, "transfer_s": 0.005, "transfer_bytes": 400,
        "kv_peak_bytes": (4 + 13 * 4) * 10, "kv_capacity_bytes": 4096,
        "preemptions": 0, "requests": 3, "finished": 2, "refused": 1, "output_tokens": 7,
    }  # fmt: skip
    assert found == {name: pytest.approx(value) for name, value in expected.items()}


def test_what_is_not_defined_is_none_and_not_zero():
    """A zero would be read as a measurement."""
    found = summarize(trace(request([], status="refused")), kv_bytes_per_token=10, kv_capacity_bytes=1)
    times = {name for name in found if name.endswith("_s")} - {"transfer_s"}
    assert times == {name for name in times if found[name] is None}
    assert found["refused"] == 1 and found["transfer_s"] == 0


def test_of_several_long_prompts_the_worst_is_told():
    """The mean would hide the one that waited for the other."""
    longs = [request([2.0], kind="long", prefill_begin_s=1.0, prefill_end_s=2.0), request([6.0], kind="long", prefill_begin_s=2.0, prefill_end_s=6.0)]
    found = summarize(trace(*longs), kv_bytes_per_token=1, kv_capacity_bytes=1)
    assert found["ttft_s"] == 5.0 and found["prefill_s"] == 4.0 and found["itl_max_s"] is None


def test_decode_steps_are_those_without_a_prompt_in_them():
    """With chunked steps among them, the yardstick of "how many decode steps a prefill lasts" would grow with the chunk."""
    steps = [(0, 1, 0, 3), (1, 9, 64, 3), (9, 19, 100, 0)]
    rows = [{"begin_s": b, "end_s": e, "prefill_tokens": p, "decode_tokens": d} for b, e, p, d in steps]
    assert summarize(trace(steps=rows), kv_bytes_per_token=1, kv_capacity_bytes=1)["decode_step_p50_s"] == 1


def test_every_name_of_a_time_or_size_has_its_unit():
    """Milliseconds read as seconds."""
    found = summarize(small_trace(), kv_bytes_per_token=10, kv_capacity_bytes=4096)
    counts = {"preemptions", "requests", "finished", "refused"}
    assert all(name.endswith(("_s", "_bytes", "_tokens", "_tokens_per_s")) for name in set(found) - counts)


def test_peak_kv_is_of_all_workers_at_one_time():
    """The sum of each worker's own peak would count KV twice while it moves."""
    points = [("p", 8), ("d", 2), ("p", 1), ("d", 6), ("d", 0)]
    assert peak_kv_tokens(trace(kv=[{"worker": w, "tokens": t} for w, t in points])) == 10
    assert peak_kv_tokens(trace()) == 0


def test_medians_and_spread_over_repeats():
    """None in one run makes a median of the others a lie."""
    middle, spread = median_of([{"a": 3, "b": None}, {"a": 1, "b": 2}, {"a": 2, "b": 4}])
    assert middle == {"a": 2, "b": None} and spread == {"a": [1, 3], "b": None}
    assert median_of([{"a": 5}]) == ({"a": 5}, {"a": [5, 5]})
