"""The payload of the timeline: what was put in comes out again, whole or cut off; and it is small."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pages._ui import lanes, payload, recordings
from pages._ui.palette import CATEGORIES
from tests.pages import partial, small


def unpacked(columns: dict) -> list[tuple]:
    """(category, begin, end, prompt tokens, decodes) of every bar, as the browser's code reads the columns."""
    bars, before = [], 0
    for i, category in enumerate(columns["c"]):
        begin = before + columns["gap"][i]
        before = begin + columns["long"][i]
        prefill, decode = (columns[k][i] if columns[k] else 0 for k in ("prefill", "decode"))
        bars.append((CATEGORIES[int(category)], begin, before, prefill, decode))
    return bars


def picked(runs: list[int], values: list) -> list:
    found, index = [], 0
    for skipped, length in zip(runs[::2], runs[1::2]):
        index += skipped
        found += values[index : index + length]
        index += length
    return found


def summed(deltas: list[int]) -> list[int]:
    total, found = 0, []
    for delta in deltas:
        total += delta
        found.append(total)
    return found


def expected(bars) -> list[tuple]:
    ordered = sorted(bars, key=lambda b: (b.begin_s, b.end_s))
    at = payload.units
    return [(b.category, at(b.begin_s), at(b.end_s), b.prefill_tokens, b.decode_tokens) for b in ordered]


def check_lane(sent: dict, lane: lanes.Lane) -> None:
    """Everything the lane shows is in what was sent."""
    for track, origin in zip(sent["tracks"], lane.tracks, strict=True):
        assert (track["name"], track["worker"]) == (origin.name, origin.worker)
        assert unpacked(track) == expected(origin.bars)
    ends = summed(sent["ends"])
    for row, origin in zip(sent["rows"], lane.rows, strict=True):
        tokens = picked(row["tokens"], ends)
        assert tokens == [payload.units(at) for at in origin.token_s]
        assert unpacked(row) == expected(b for b in origin.bars if b.category != "stall")
        waits = [(payload.units(b.begin_s), payload.units(b.end_s)) for b in origin.bars if b.category == "stall"]
        assert [(tokens[k], tokens[k + 1]) for k in row["stalls"]] == waits
    for series, origin in zip(sent["kv"], lane.kv, strict=True):
        assert summed(series["at"]) == [payload.units(at) for at in origin.at_s]
        assert series["used"] == [used / small.KV_BYTES_PER_TOKEN for used in origin.used_bytes]


def test_nothing_is_lost_on_the_way():
    result = small.result()
    sent = json.loads(json.dumps(payload.timeline(result)))
    assert [lane["schedule"] for lane in sent["lanes"]] == ["unified", "chunked", "disaggregated"]
    for lane, origin in zip(sent["lanes"], lanes.view(result).lanes):
        check_lane(lane, origin)
    unified = sent["lanes"][0]
    assert unified["gap"] == [50_000, 160_000] and unified["first"] == [50_000, 150_000] and unified["usual"] == 10_000
    assert sent["focus"] and sent["planned"] == ["unified", "chunked", "disaggregated"]


@given(st.lists(st.integers(0, 400), unique=True).map(sorted))
def test_runs_of_indices_come_back(indices):
    assert picked(payload.runs(indices), list(range(401))) == indices


@given(
    st.lists(
        st.builds(
            lambda c, begin, long, p, d: lanes.Bar(c, begin, begin + long, p, d),
            st.sampled_from(CATEGORIES),
            st.floats(0, 1000),
            st.floats(0, 50),
            st.integers(0, 9000),
            st.integers(0, 64),
        )
    )
)
def test_bars_come_back_even_where_they_overlap(bars):
    assert unpacked(payload.columns(bars)) == expected(bars)


@given(st.floats(0, 3), st.floats(0, 3), st.booleans())
def test_a_run_that_goes_on_can_be_shown_at_any_moment(first, second, begun):
    """The moments a live page asks at are nobody's choice: none may fail, whoever has not arrived or got a token yet."""
    known = {"unified": None, "chunked": first} | ({"disaggregated": second} if begun else {})
    result = partial.cut(small.result(), known)
    sent = payload.timeline(result)
    for lane, origin in zip(sent["lanes"], lanes.view(result).lanes, strict=True):
        check_lane(lane, origin)
    assert [lane["complete"] for lane in sent["lanes"]][:2] == [True, False]
    assert sent["lanes"][1]["now"] == payload.units(max(first, lanes.view(result).lanes[1].end_s))
    waiting = [row for row in sent["lanes"][1]["rows"] if row["arrival"] is None]
    assert bool(waiting) == (first < 0.5)


def test_pieces_travel_as_one_text_with_their_lengths():
    result = small.result()
    pieces = ["Noah", " built", "", " 👩‍🚀방주", "."]
    result["pieces"] = {"chat-0": {"unified": pieces, "chunked": None, "disaggregated": ["x" * 40, "y"]}}
    texts = payload.timeline(result)["texts"]["chat-0"]["lanes"]
    assert texts["unified"] == {
        "text": "Noah built 👩‍🚀방주.",
        "lengths": "46081",
    }  # UTF-16 units, as JavaScript counts
    assert texts["chunked"] == texts["unified"]
    assert texts["disaggregated"]["lengths"] == [40, 1]


def test_a_request_that_got_no_text_is_not_given_that_of_another_schedule():
    """Refused under the first two, it was served under the third only."""
    result = small.result()
    result["pieces"] = {"chat-0": {"unified": [], "chunked": None, "disaggregated": ["Noah", " built"]}}
    texts = payload.timeline(result)["texts"]["chat-0"]["lanes"]
    assert [texts[name]["text"] for name in ("unified", "chunked", "disaggregated")] == ["", "", "Noah built"]


def test_without_pieces_a_text_has_no_moments():
    """A recording that did not note when text came must not pretend to know."""
    result = small.result()
    result["texts"] = {
        "chat-0": {"prompt": "Tell " + "me " * 200, "unified": "Once", "chunked": "Once", "tokens_after_end": {}}
    }
    entry = payload.timeline(result)["texts"]["chat-0"]
    assert entry["lanes"] == {"unified": {"text": "Once"}, "chunked": {"text": "Once"}}
    assert len(entry["prompt"]) <= payload.PROMPT_CHARACTERS + 2


def test_the_shipped_recording_is_small():
    for name in recordings.names("schedules"):
        sent = payload.timeline(recordings.load(name))
        assert sent["lanes"] and len(json.dumps(sent, ensure_ascii=False, separators=(",", ":")).encode()) < 110_000


@pytest.mark.parametrize("missing", [None, 0])
def test_a_model_of_unknown_kv_size_is_still_drawn(missing):
    result = small.result()
    result["manifest"]["model"]["kv_bytes_per_token"] = missing
    assert all(not any(series["used"]) for lane in payload.timeline(result)["lanes"] for series in lane["kv"])
