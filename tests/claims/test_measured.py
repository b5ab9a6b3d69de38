"""What results say to the claims: the shipped recordings, a result made by hand, and results that lack what is needed."""

import copy
import json

import pytest

from engine.claims import Measurement, claims
from pages._ui import recordings
from tests.claims import streams
from tests.pages import pools_small, ring_small, rope_small, small

KINDS = ("schedules", "chunk-sweep", "roofline", "wall", "streaming", "needle", "lengths", "retrieval", "transfer", "pools", "ring")
RECORDED = {kind: recordings.load(f"{kind}-cpu") for kind in KINDS if f"{kind}-cpu" in recordings.names(kind)}
# Of the kinds without a recording a result made by hand.
EXAMPLES = {
    "streaming": streams.streaming(), "needle": streams.needle(),
    "lengths": rope_small.lengths(), "retrieval": rope_small.retrieval(), "ring": ring_small.ring(),
    "pools": pools_small.pools(),
} | RECORDED  # fmt: skip
PAIRS = [(claim.id, kind) for claim in claims().values() for kind in claim.measured]


def measured(claim: str, result: dict) -> Measurement | None:
    return claims()[claim].measure(result)


def readings(found: Measurement) -> dict[str, float]:
    return {reading.id: reading.value for reading in found.readings}


def sweep(ttfts: dict[int, float], rates: dict[int, float] | None = None) -> dict:
    """A chunk sweep over a prompt of 960 tokens: {chunks: TTFT}, 1 for the prompt that is not cut."""
    rates = rates or dict.fromkeys(ttfts, 100.0)
    points = [
        {
            "value": 0 if n == 1 else 960 // n,
            "chunk_tokens": None if n == 1 else 960 // n,
            "chunks": n,
            "metrics": {"ttft_s": ttft, "throughput_tokens_per_s": rates[n]},
        }
        for n, ttft in ttfts.items()
    ]
    return {"kind": "chunk-sweep", "points": points}


def roofline(decode_rates: dict[int, float]) -> dict:
    decodes = [{"phase": "decode", "part": "linear", "tokens": b, "batch": b, "flops_per_s": r} for b, r in decode_rates.items()]
    prefills = [{"phase": "prefill", "part": "linear", "tokens": n, "batch": 1, "flops_per_s": n * 1e9} for n in (16, 512)]
    others = [{"phase": "decode", "part": "attention", "tokens": 1, "batch": 99, "flops_per_s": 1e15}]
    return {"kind": "roofline", "points": others + decodes + prefills}


def test_the_claims_that_can_be_measured():
    assert set(PAIRS) == {
        ("A5", "roofline"), ("A6", "schedules"), ("A7", "chunk-sweep"), ("A8", "schedules"),
        ("A14", "schedules"), ("A14", "chunk-sweep"), ("A15", "schedules"), ("A17", "wall"),
        ("A9", "pools"), ("A10", "transfer"), ("A11", "streaming"), ("A11", "needle"), ("A12", "streaming"), ("B5", "streaming"), ("B12", "streaming"), ("B12", "needle"),
        ("A13", "lengths"), ("A16", "lengths"), ("A16", "retrieval"),
        ("B6", "lengths"), ("B7", "lengths"), ("B11", "lengths"), ("B8", "ring"), ("B9", "ring"), ("B10", "ring"),
    }  # fmt: skip


@pytest.mark.parametrize(("claim", "kind"), PAIRS)
def test_the_shipped_recordings_have_something_to_say(claim, kind):
    found = measured(claim, EXAMPLES[kind])
    assert all(reading.value > 0 for reading in found.readings if reading.unit != "share")  # a needle may be found in no trial
    json.dumps([reading.value for reading in found.readings])  # plain numbers


def test_the_recording_of_the_schedules():
    """Against the recording's own metrics, read here by hand."""
    of = {name: entry["metrics"] for name, entry in RECORDED["schedules"]["schedules"].items()}
    gaps = measured("A8", RECORDED["schedules"])
    assert gaps.finding == "shorter"
    assert readings(gaps)["whole"] == of["unified"]["itl_max_s"] and readings(gaps)["cut"] == of["chunked"]["itl_max_s"]
    steps = RECORDED["schedules"]["schedules"]["chunked"]["trace"]["steps"]
    assert readings(gaps)["step"] == max(s["end_s"] - s["begin_s"] for s in steps if s["prefill_tokens"] and s["decode_tokens"])
    mean = measured("A15", RECORDED["schedules"])
    assert mean.finding == "hides"
    assert readings(mean)["mean_ratio"] == of["unified"]["tpot_p50_s"] / of["unified"]["itl_p50_s"]
    chunks = measured("A6", RECORDED["schedules"])
    assert chunks.finding == "grows" and readings(chunks)["chunks"] == 4096 / 256
    assert readings(chunks)["last"] > readings(chunks)["first"]


def test_a_result_made_by_hand():
    """Chats get a token every 0.1 s; 100 prompt tokens take 1 s whole or 0.3 s in each of four pieces."""
    result = small.result()
    gaps = readings(measured("A8", result))
    assert gaps["step"] == pytest.approx(0.3) and gaps["cut"] < gaps["whole"]
    chunks = measured("A6", result)
    assert readings(chunks)["chunks"] == 4 and readings(chunks)["ratio"] == pytest.approx(1.0)
    assert chunks.finding == "level"


def test_chunks_that_did_not_help_are_not_said_to():
    result = small.result()
    result["schedules"]["chunked"]["metrics"]["itl_max_s"] = result["schedules"]["unified"]["metrics"]["itl_max_s"] + 1
    assert measured("A8", result).finding == "not_shorter"


def test_a_mean_that_shows_it():
    """A short answer with a long stall: the mean is most of the worst gap."""
    result = small.result()
    result["schedules"]["unified"]["metrics"] |= {"itl_p50_s": 0.1, "tpot_p50_s": 0.5, "itl_max_s": 1.0}
    assert measured("A15", result).finding == "shows"


def test_ttft_over_the_number_of_chunks():
    straight = measured("A7", sweep({n: 1.0 + 0.1 * (n - 1) for n in (1, 2, 4, 8, 16)}))
    assert straight.finding == "straight"
    assert readings(straight)["fit"] == pytest.approx(1.0) and readings(straight)["few_price"] == pytest.approx(0.1)
    assert readings(straight)["times"] == pytest.approx(2.5) and readings(straight)["chunks"] == 16
    bent = measured("A7", sweep({n: 1.0 + 0.01 * (n - 1) ** 2 for n in (1, 2, 4, 8, 16)}))
    assert bent.finding == "bent" and readings(bent)["fit"] < 0.99
    assert measured("A7", sweep({1: 1.0, 2: 1.0, 4: 0.9, 8: 1.2, 16: 1.4})).finding == "free"
    assert measured("A7", sweep({1: 1.0, 4: 1.1, 8: 1.2})) is None, "two points are always on a line"


@pytest.mark.parametrize(
    ("rates", "finding"),
    [
        ({1: 100.0, 4: 99.0, 8: 101.0}, "level"),
        ({1: 100.0, 4: 80.0, 8: 101.0}, "lower"),
        ({1: 100.0, 4: 99.0, 8: 120.0}, "higher"),
        ({1: 100.0, 4: 80.0, 8: 120.0}, "differs"),
    ],
)
def test_throughput_over_chunk_sizes(rates, finding):
    found = measured("A14", sweep(dict.fromkeys(rates, 1.0), rates))
    assert found.finding == finding
    assert readings(found)["low"] == min(rates[4], rates[8]) and readings(found)["high"] == max(rates[4], rates[8])


@pytest.mark.parametrize(
    ("spreads", "finding"), [(None, "higher"), (((90.0, 115.0), (110.0, 130.0)), "level"), (((99.0, 101.0), (118.0, 122.0)), "higher")]
)
def test_throughput_of_the_schedules_is_level_where_the_repeats_overlap(spreads, finding):
    result = small.result()
    for name, value in (("unified", 100.0), ("chunked", 120.0)):
        result["schedules"][name]["metrics"]["throughput_tokens_per_s"] = value
        spread = spreads[name == "chunked"] if spreads else (value, value)
        result["schedules"][name]["spread"] = {"throughput_tokens_per_s": list(spread)}
    assert measured("A14", result).finding == finding


def test_a_roofline_result():
    found = measured("A5", roofline({1: 1e9, 64: 50e9}))
    assert found.finding == "rises" and readings(found)["many"] == 64 and readings(found)["long_rate"] == 512e9
    assert measured("A5", roofline({1: 1e9, 64: 1.5e9})).finding == "flat"
    assert measured("A5", roofline({1: 1e9})) is None


def wall(most: tuple[int, int, int]) -> dict:
    pools = zip(("ample", "paged", "reserved"), most, strict=True)
    return {"kind": "wall", "schedules": {name: {"metrics": {"running_most": n, "throughput_tokens_per_s": 2.0 * n}} for name, n in pools}}


def test_a_measured_wall():
    found = measured("A17", wall((12, 10, 3)))
    assert found.finding == "capped" and readings(found)["reserved_rate"] == 6.0
    assert measured("A17", wall((12, 12, 12))).finding == "room"
    broken = wall((12, 10, 3))
    del broken["schedules"]["paged"]
    assert measured("A17", broken) is None


def test_measured_pools():
    """The pool that holds more is the one that needs room; a run without one worker in each pool cannot say."""
    found = measured("A9", pools_small.pools())
    assert found.finding == "decode_holds" and readings(found)["decode_kv"] > readings(found)["prefill_kv"]
    assert 0 < readings(found)["prefill_busy"] < 1
    other = copy.deepcopy(pools_small.pools())
    for worker in other["arrangements"]["1:1"]["pools"]["decode"]["workers"]:
        worker["kv_peak_bytes"] = 1
    assert measured("A9", other).finding == "prefill_holds"
    for worker in other["arrangements"]["1:1"]["pools"]["decode"]["workers"]:
        worker["kv_peak_bytes"] = readings(found)["prefill_kv"] * 1.05
    assert measured("A9", other).finding == "alike"
    del other["arrangements"]["1:1"]
    assert measured("A9", other) is None


@pytest.mark.parametrize(("claim", "kind"), PAIRS)
def test_a_result_without_what_is_needed_says_nothing(claim, kind):
    """A page must not fail on a run of one schedule, of no long prompt, or of another kind."""
    read = claims()[claim].measured[kind]
    parts = ("schedules", "points", "curves", "cost", "cells", "first_eviction", "guess", "arrangements")
    for result in ({}, {"kind": kind}, {"kind": kind} | {part: {} for part in parts}, {"kind": kind} | dict.fromkeys(parts)):
        assert read(result) is None
    assert claims()[claim].measure({"kind": "another"}) is None and claims()[claim].measure({}) is None


@pytest.mark.parametrize("claim", [claim for claim, kind in PAIRS if kind == "schedules"])
@pytest.mark.parametrize("missing", ["unified", "chunked", "long", "metrics"])
def test_a_run_of_fewer_schedules_or_without_a_long_prompt(claim, missing):
    result = copy.deepcopy(small.result(long=missing != "long"))
    if missing in result["schedules"]:
        del result["schedules"][missing]
    if missing == "metrics":
        for entry in result["schedules"].values():
            entry["metrics"] = dict.fromkeys(entry["metrics"])
    needs = {"A6": {"chunked", "long"}, "A15": {"unified", "long", "metrics"}}.get(claim, {"unified", "chunked", "long", "metrics"})
    assert (measured(claim, result) is None) == (missing in needs)


@pytest.mark.parametrize("missing", ["whole", "cut", "metrics"])
@pytest.mark.parametrize("claim", ["A7", "A14"])
def test_a_sweep_without_what_is_needed(claim, missing):
    result = copy.deepcopy(RECORDED["chunk-sweep"])
    if missing == "metrics":
        for point in result["points"]:
            point["metrics"] = dict.fromkeys(point["metrics"])
    else:
        result["points"] = [p for p in result["points"] if (p["value"] == 0) != (missing == "whole")]
    assert measured(claim, result) is None
