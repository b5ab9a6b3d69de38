"""The view-model of the timeline: which bar stands in which track, and that a hole is a stall only where chats wait."""

import pytest

from pages._ui import lanes
from tests.pages import partial, small


@pytest.fixture(scope="module")
def view():
    return lanes.view(small.result())


def lane(view, schedule):
    return next(x for x in view.lanes if x.schedule == schedule)


def bars(lane, track, category):
    return [b for t in lane.tracks if t.name == track for b in t.bars if b.category == category]


def test_unified_has_one_stall_as_long_as_the_prefill(view):
    unified = lane(view, "unified")
    (stall,) = bars(unified, "decode", "stall")
    assert (stall.begin_s, stall.end_s) == pytest.approx((0.5, 1.5))
    assert [(b.begin_s, b.end_s) for b in bars(unified, "prefill", "prefill")] == [(0.0, 0.1), (0.5, 1.5)]


def test_a_chunk_and_its_decodes_are_one_step_in_two_tracks(view):
    chunked = lane(view, "chunked")
    long_chunks = [b for b in bars(chunked, "prefill", "chunk") if b.prefill_tokens == 25]
    mixed = bars(chunked, "decode", "mixed")
    assert [(b.begin_s, b.end_s) for b in long_chunks] == [(b.begin_s, b.end_s) for b in mixed]
    assert len(mixed) == 4
    assert not bars(chunked, "decode", "stall")  # the decode track is never empty while chats run


def test_disaggregated_tracks_belong_to_their_pools_with_the_link_between(view):
    split = lane(view, "disaggregated")
    assert [(t.name, t.worker) for t in split.tracks] == [
        ("prefill", "prefill-0"),
        ("transfer", ""),
        ("decode", "decode-0"),
    ]
    assert not bars(split, "decode", "mixed") and not bars(split, "decode", "stall")
    (moved,) = bars(split, "transfer", "transfer")
    assert (moved.begin_s, moved.end_s) == (2.5, 2.6)


def test_rows_show_each_requests_own_prefill_and_waiting(view):
    unified = lane(view, "unified")
    assert [r.id for r in unified.rows] == ["long-0", "chat-0", "chat-1"]  # the long prompt on top
    long, chat, _ = unified.rows
    assert [(b.category, b.prefill_tokens) for b in long.bars] == [("prefill", 100)]
    assert {b.category for b in chat.bars} == {"stall", "prefill"}
    assert len(chat.token_s) == 30


def test_the_two_numbers_of_a_lane(view):
    unified, chunked = lane(view, "unified"), lane(view, "chunked")
    assert unified.worst_gap == pytest.approx((0.5, 1.6))
    assert unified.first_token == pytest.approx((0.5, 1.5))
    assert chunked.worst_gap[1] - chunked.worst_gap[0] == pytest.approx(0.3)


def test_focus_is_around_the_long_prompt_and_inside_the_run(view):
    begin, end = view.focus
    assert 0 <= begin < 0.5 and 2.5 < end <= view.span[1]
    assert lanes.view(small.result(long=False)).focus is None


def test_kv_in_bytes(view):
    (series,) = lane(view, "unified").kv
    assert series.used_bytes[0] == 10 * small.KV_BYTES_PER_TOKEN and series.capacity_bytes == small.CAPACITY


def test_two_replicas_have_two_tracks_each_and_stalls_where_they_happened():
    result = small.result()
    entry = result["schedules"]["unified"]
    entry["resources"].append({**entry["resources"][0], "worker": "engine-1"})
    tracks = lane(lanes.view(result), "unified").tracks
    assert [(t.name, t.worker) for t in tracks] == [
        ("prefill", "engine-0"),
        ("decode", "engine-0"),
        ("prefill", "engine-1"),
        ("decode", "engine-1"),
    ]
    assert not tracks[3].bars  # nobody decoded there, so nobody stalled there


@pytest.mark.parametrize(
    ("spans", "holes", "left"),
    [
        ([(0, 10)], [(2, 3), (5, 6)], [(0, 2), (3, 5), (6, 10)]),
        ([(0, 4), (6, 8)], [(3, 7)], [(0, 3), (7, 8)]),
        ([(1, 2)], [(0, 3)], []),
        ([(1, 2)], [], [(1, 2)]),
    ],
)
def test_what_is_left_of_spans_without_holes(spans, holes, left):
    assert lanes._minus(spans, holes) == left


def test_a_long_prefill_is_seen_while_it_lasts():
    """The very moment the lesson is about: for seconds no step ends, and the picture must not stand empty."""
    known = partial.cut(small.result(), {"unified": 1.1, "chunked": 0.6})
    unified, chunked = lanes.view(known).lanes
    assert [(b.begin_s, b.end_s) for b in bars(unified, "prefill", "prefill")][-1] == (0.5, 1.1)
    assert [(b.category, b.begin_s, b.end_s) for b in unified.rows[0].bars] == [("prefill", 0.5, 1.1)]
    assert bars(chunked, "decode", "mixed")[-1].end_s == 0.6 and bars(chunked, "prefill", "chunk")[-1].prefill_tokens == 25
    assert len(known["schedules"]["unified"]["trace"]["steps"]) == 5, "the result itself stays as it was"
