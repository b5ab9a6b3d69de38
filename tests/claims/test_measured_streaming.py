"""What streaming and needle results say to the claims, on results made by hand: right numbers, and silence where a part is missing."""

import copy

import pytest

from engine.claims import Measurement, claims
from tests.claims import streams


def measured(claim: str, result: dict) -> Measurement | None:
    return claims()[claim].measure(result)


def readings(found: Measurement) -> dict[str, float]:
    return {reading.id: reading.value for reading in found.readings}


@pytest.mark.parametrize("claim", ["A12", "B5"])
def test_perplexity_is_set_over_dense(claim):
    """Over sinks and window, a window would look worse than it is."""
    found = measured(claim, streams.streaming())
    assert found.finding == "rises" and found == measured("A12", streams.streaming())
    assert readings(found) == {
        "cache": 100, "count": 4, "dense": 10.0, "window": 20.0, "sinks": 11.0, "window_ratio": 2.0, "sinks_ratio": pytest.approx(1.1),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("window", "finding"), [(99.9, "rises"), (100.0, "explodes"), (5158.0, "explodes"), (10.2, "level"), (9.0, "level")]
)
def test_an_explosion_is_ten_times_as_much(window, finding):
    """A twofold rise that is called an explosion, or a level one that is called a rise, is what the claim is about."""
    assert measured("B5", streams.streaming({"dense": 10.0, "window": window, "sinks-4": 11.0})).finding == finding


def test_four_sinks_speak_for_sinks_else_the_most():
    """The paper keeps four; a run over 1, 4 and 8 must not be told by another."""
    perplexities = {"dense": 10.0, "window": 20.0, "sinks-1": 12.0, "sinks-4": 11.0, "sinks-8": 10.5}
    found = readings(measured("A12", streams.streaming(perplexities)))
    assert (found["count"], found["sinks"]) == (4, 11.0)
    del perplexities["sinks-4"]
    found = readings(measured("A12", streams.streaming(perplexities)))
    assert (found["count"], found["sinks"]) == (8, 10.5)
    assert (
        measured("A12", streams.streaming({"dense": 10.0, "window": 20.0, "sinks-x": 1.0, "sinks-0": 1.0, "sinks": 1.0})) is None
    )


@pytest.mark.parametrize("missing", ["dense", "window", "sinks-4"])
def test_a_run_without_a_policy_says_nothing_of_perplexity(missing):
    result = streams.streaming()
    result["curves"][missing]["perplexity_after"] = None
    assert measured("A12", result) is None
    del result["curves"][missing]
    assert measured("A12", result) is None


def test_a_text_that_fits_the_cache_says_nothing():
    """Before the first eviction all policies are the same."""
    for value in (None, 0):
        result = streams.streaming() | {"first_eviction": value}
        assert all(measured(claim, result) is None for claim in ("A11", "A12", "B5", "B12"))
    late = streams.streaming() | {"first_eviction": 10_000}
    assert measured("A11", late) is None and measured("B12", late) is None


def test_memory_and_time_are_read_behind_the_first_eviction():
    """While the cache fills, bytes and milliseconds rise under every policy."""
    held, ms = (500_000, *[1_000_000] * 7), (10.0, 10.0, 41.0, 39.0, 40.0, 40.0, 44.0, 40.0)
    found = measured("A11", streams.streaming(ms=ms, held=held))
    assert found.finding == "flat"
    assert readings(found) == {
        "from": 150, "to": 400, "bytes_first": 1_000_000, "bytes_last": 1_000_000, "early": 0.040, "late": 0.040,
    }  # fmt: skip


def test_what_is_not_flat_is_not_called_flat():
    rising = tuple(30.0 + 10 * n for n in range(8))
    assert measured("A11", streams.streaming(ms=rising)).finding == "slower"
    growing = tuple(500_000 * (n + 1) for n in range(8))
    assert measured("A11", streams.streaming(ms=rising, held=growing)).finding == "grows", "memory comes before time"
    one_slow_token = (*[40.0] * 7, 400.0)
    assert measured("A11", streams.streaming(ms=one_slow_token)).finding == "flat", "a single hiccup is no trend"


@pytest.mark.parametrize("missing", ["ms_per_token", "kv_bytes"])
def test_costs_that_were_not_measured_say_nothing(missing):
    result = streams.streaming()
    del result["cost"]["sinks-4"][missing]
    assert measured("A11", result) is None
    few = streams.streaming()
    few["cost"]["sinks-4"]["ms_per_token"] = few["cost"]["sinks-4"]["ms_per_token"][:5]  # three behind the eviction
    assert measured("A11", few) is None


def test_memory_against_dense_at_the_same_length():
    """Compared at two lengths, the ratio would be of the runs and not of the policies."""
    result = streams.streaming()
    found = measured("B12", result)
    assert found.finding == "smaller"
    assert readings(found) == {"tokens": 400, "dense": 4_000_000, "sinks": 1_000_000, "ratio": 4.0, "lost": 300}
    result["cost"]["dense"]["kv_bytes"] = result["cost"]["dense"]["kv_bytes"][:6]
    assert readings(measured("B12", result)) == {"tokens": 300, "dense": 3_000_000, "sinks": 1_000_000, "ratio": 3.0, "lost": 200}
    result["cost"]["dense"]["kv_bytes"] = [[333, 1]]
    assert measured("B12", result) is None
    del result["cost"]["dense"]
    assert measured("B12", result) is None


def test_memory_that_is_as_large_is_not_called_smaller():
    result = streams.streaming(held=tuple(500_000 * (n + 1) for n in range(8)))
    assert measured("B12", result).finding == "level"


@pytest.mark.parametrize("claim", ["A11", "B12"])
def test_the_needle_that_the_window_has_passed(claim):
    """A needle in the sinks or in the window is found by every policy and shows nothing."""
    found = measured(claim, streams.needle())
    assert found.finding == "lost"
    assert readings(found) == {
        "guess": 0.25, "trials": 40, "confidence": 0.95, "dense": 0.75, "dense_low": 0.60, "dense_high": 0.86, "sinks": 0.25,
        "sinks_low": 0.14, "sinks_high": 0.40,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("dense", "sinks", "finding"),
    [
        ((30, (0.60, 0.86)), (16, (0.26, 0.55)), "kept"),
        ((30, (0.60, 0.86)), (15, (0.25, 0.53)), "lost"),
        ((14, (0.22, 0.50)), (10, (0.14, 0.40)), "blind"),
        ((14, (0.25, 0.50)), (30, (0.60, 0.86)), "blind"),
    ],
)
def test_better_than_guessing_needs_the_whole_interval(dense, sinks, finding):
    """A rate just above the guess is chance; and where the model cannot do it at all, nothing is lost by evicting."""
    assert measured("A11", streams.needle(dense, sinks)).finding == finding


@pytest.mark.parametrize("missing", ["dense", "sinks", "guess", "interval", "trials"])
def test_trials_without_what_is_needed_say_nothing(missing):
    result = copy.deepcopy(streams.needle())
    if missing == "guess":
        result["guess"] = None
    elif missing in ("interval", "trials"):
        for cell in result["cells"]:
            cell[missing] = None
    else:
        result["cells"] = [cell for cell in result["cells"] if cell["policy"] != missing]
    assert measured("A11", result) is None and measured("B12", result) is None


def test_a_needle_in_the_sinks_or_in_the_window_alone_says_nothing():
    result = streams.needle()
    result["cells"] = [cell for cell in result["cells"] if cell["in_sinks"] or cell["in_window"]]
    assert measured("A11", result) is None
