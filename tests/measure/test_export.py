"""Exports, read as the tools that open them would: CSV rows, and the Trace Event Format by its rules."""

import csv
import io
import json
from collections import defaultdict

import pytest

from engine.measure.export import step_kind, to_chrome, to_csv
from tests.measure.traces import small_result


def rows_of(result):
    return list(csv.DictReader(io.StringIO(to_csv(result))))


def test_csv_has_a_row_per_token_and_one_for_a_refused_request():
    """A request without tokens that vanishes from the table looks as if it had never been there."""
    rows = rows_of(small_result())
    assert [(row["request"], row["token"], row["token_s"]) for row in rows] == [
        ("chat-0", "0", "0.01"), ("chat-0", "1", "0.025"), ("chat-0", "2", "0.04"), ("chat-0", "3", "0.07"),
        ("long-0", "0", "0.06"), ("long-0", "1", "0.07"), ("long-0", "2", "0.075"),
        ("chat-1", "", ""),
    ]  # fmt: skip
    assert {row["run_id"] for row in rows} == {"run-of-a-test-000"} and {row["schedule"] for row in rows} == {"disaggregated"}
    assert (rows[4]["status"], rows[4]["prompt_tokens"], rows[4]["transfer_begin_s"], rows[4]["decode_end_s"]) == ("finished", "40", "0.03", "0.075")
    assert (rows[7]["status"], rows[7]["prefill_begin_s"], rows[7]["arrival_s"]) == ("refused", "", "0.016")


def test_csv_quotes_what_needs_it():
    """A comma or a line break in an id would shift every column behind it."""
    result = small_result()
    result["schedules"]["disaggregated"]["trace"]["requests"][0]["id"] = 'a,"b"\nc'
    assert rows_of(result)[0]["request"] == 'a,"b"\nc'


@pytest.mark.parametrize(
    "tokens, schedule, kind",
    [((5, 2), "chunked", "mixed"), ((5, 0), "chunked", "chunk"), ((5, 0), "unified", "prefill"), ((5, 0), "disaggregated", "prefill"), ((0, 2), "chunked", "decode")],
)  # fmt: skip
def test_kinds_of_steps(tokens, schedule, kind):
    """A chunk drawn as a whole prefill, or a mixed step as a decode, tells the wrong story."""
    assert step_kind({"prefill_tokens": tokens[0], "decode_tokens": tokens[1]}, schedule) == kind


@pytest.fixture
def chrome():
    exported = to_chrome(small_result())
    return json.loads(json.dumps(exported, allow_nan=False))


def slices_by_thread(events):
    threads = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            threads[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    return threads


def check_trace_event_format(trace):
    """The rules of the format that a viewer punishes by dropping events in silence.

    Every event has its fields; slices of a thread nest; a flow has one start and one end with the same id, category and
    name, the end not before the start, and each within a slice of its thread; counters are numbers.
    """
    assert set(trace) >= {"traceEvents"} and trace.get("displayTimeUnit") in ("ms", "ns")
    named, flows = set(), defaultdict(list)
    events = trace["traceEvents"]
    threads = slices_by_thread(events)
    for event in events:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and isinstance(event["args"]["name"], str)
            if event["name"] == "process_name":
                assert event["pid"] not in named, "two processes with one id"
                named.add(event["pid"])
            continue
        assert isinstance(event["ts"], (int, float)) and event["ts"] >= 0
        match event["ph"]:
            case "X":
                assert isinstance(event["tid"], int) and event["dur"] >= 0
            case "C":
                assert event["args"] and all(isinstance(value, (int, float)) for value in event["args"].values())
            case "i":
                assert event["s"] in ("t", "p", "g") and isinstance(event["tid"], int)
            case "s" | "f":
                flows[event["cat"], event["name"], event["id"]].append(event)
                around = threads[event["pid"], event["tid"]]
                assert any(begin <= event["ts"] < end for begin, end, _ in around), "a flow that is tied to no slice"
                assert event["ph"] == "s" or event["bp"] == "e", "tied to the next slice instead of this one"
            case other:
                raise AssertionError(f"{other} is not used here")
    assert {event["pid"] for event in events} == named, "a process without a name"
    for start, end in flows.values():
        assert (start["ph"], end["ph"]) == ("s", "f") and start["ts"] <= end["ts"]
    for slices in threads.values():
        open_until = []
        for begin, end, name in sorted(slices, key=lambda s: (s[0], -s[1])):
            while open_until and open_until[-1] <= begin + 1e-6:
                open_until.pop()
            assert not open_until or end <= open_until[-1] + 1e-6, f"{name} begins in a slice and ends outside it"
            open_until.append(end)


def test_chrome_trace_keeps_the_rules_of_the_format(chrome):
    """Perfetto drops overlapping slices and flows that lie in no slice, without a word."""
    check_trace_event_format(chrome)


def test_chrome_trace_holds_what_happened(chrome):
    """Steps, copies, KV and requests, each at its time in microseconds."""
    events = chrome["traceEvents"]
    process = {e["args"]["name"]: e["pid"] for e in events if e["name"] == "process_name"}
    assert list(process) == ["disaggregated: prefill-0", "disaggregated: decode-0", "disaggregated: requests"]
    threads = slices_by_thread(events)
    prefill, decode, requests = process.values()
    assert threads[prefill, 1] == [(2000, 10000, "prefill"), (16000, 60000, "prefill")]
    assert [name for *_, name in threads[decode, 1]] == ["decode"] * 4
    assert [(begin, name) for begin, _, name in threads[decode, 2]] == [(11000, "copy chat-0"), (31000, "copy long-0"), (62000, "copy long-0")]
    phases = [(name, begin, end) for begin, end, name in threads[requests, 2]]
    assert phases == [("waiting", 15000, 16000), ("prefill", 16000, 60000), ("transfer", 60000, 64000), ("decode", 64000, 75000)]
    tokens = [e["ts"] for e in events if e["ph"] == "i" and (e["pid"], e["tid"]) == (requests, 1)]
    assert tokens == [10000, 25000, 40000, 70000]
    counters = [(e["pid"], e["ts"], *e["args"].values()) for e in events if e["ph"] == "C"]
    assert counters[0] == (prefill, 10000, 4) and counters[-1] == (decode, 75000, 0)
    assert len([e for e in events if e["ph"] == "s"]) == 2
    assert chrome["otherData"]["run_id"] == "run-of-a-test-000"
    assert not threads[requests, 3], "a refused request has no phase"


def test_chrome_traces_of_several_schedules_share_no_process():
    """With one id for two workers their slices would lie on top of each other."""
    result = small_result()
    result["schedules"]["again"] = result["schedules"]["disaggregated"] | {"trace": {**result["schedules"]["disaggregated"]["trace"], "schedule": "again"}}
    check_trace_event_format(to_chrome(result))
