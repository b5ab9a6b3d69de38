"""Winners and sentences follow the numbers: change the numbers, and another sentence comes."""

import pytest

from pages._ui import alt, board, fmt, lanes, parts
from pages._ui.words import Words, table
from pages.schedules import story
from tests.pages import small


def test_who_wins_and_who_is_level():
    result = small.result()
    gaps = board.line(result, "itl_max_s")
    assert [c.best for c in gaps.cells] == [False, False, True]
    assert board.line(result, "ttft_s").cells[0].best
    assert board.line(result, "itl_p50_s").level  # 0.1 s under all three


def test_a_single_run_has_no_spread_and_no_winner_by_a_hair():
    result = small.result()
    result["schedules"]["chunked"]["metrics"]["itl_max_s"] = 0.101
    line = board.line(result, "itl_max_s")
    assert [c.best for c in line.cells] == [False, True, True] and not line.level
    assert all(c.low is None for c in line.cells)


def test_with_repeats_the_winner_must_beat_the_spread():
    result = small.result(repeats=3)
    for name, spread in (("unified", [1.0, 1.2]), ("chunked", [0.05, 0.3]), ("disaggregated", [0.09, 0.11])):
        result["schedules"][name]["spread"]["itl_max_s"] = spread
    assert [c.best for c in board.line(result, "itl_max_s").cells] == [False, True, True]
    result["schedules"]["chunked"]["spread"]["itl_max_s"] = [0.25, 0.3]
    assert [c.best for c in board.line(result, "itl_max_s").cells] == [False, False, True]


def test_who_is_last_is_not_called_best_however_wide_its_runs():
    """Seen in a recording: the last of the medians, with runs that reach the leader's, was winner and loser at once."""
    result = small.result(repeats=3)
    for name, value, spread in (("unified", 0.20, [0.1, 0.3]), ("chunked", 0.15, [0.14, 0.16]), ("disaggregated", 0.1, [0.09, 0.11])):
        result["schedules"][name]["metrics"]["itl_max_s"] = value
        result["schedules"][name]["spread"]["itl_max_s"] = spread
    line = board.line(result, "itl_max_s")
    assert [c.best for c in line.cells] == [False, False, True]
    assert board.verdict(line) == ("verdict.wide", {"winners": ["disaggregated"], "loser": "unified"})


def sentences(result, schedule):
    return [key for key, _ in story.costs(result)[schedule]]


def test_the_stall_is_told_where_there_is_one():
    assert "cost.unified.stall" in sentences(small.result(), "unified")
    assert "cost.calm" in sentences(small.result(long=False), "unified")


def test_a_long_prompt_that_was_refused_is_no_part_of_the_headline():
    result = small.result()
    assert story.headline(result)[0] == "story.headline"
    result["schedules"]["disaggregated"]["metrics"]["ttft_s"] = None
    assert story.headline(result)[0] == "story.headline_plain"


def test_preemptions_are_told():
    result = small.result()
    result["schedules"]["chunked"]["metrics"]["preemptions"] = 2
    assert "cost.preempted" in sentences(result, "chunked") and "cost.preempted" not in sentences(result, "unified")


def test_chunking_that_gains_nothing_is_said_so():
    result = small.result()
    assert "cost.chunked.gap" in sentences(result, "chunked")
    result["schedules"]["chunked"]["metrics"]["itl_max_s"] = 2.0
    assert "cost.chunked.no_gain" in sentences(result, "chunked")


@pytest.mark.parametrize(("rate", "kind"), [(10.0, "same"), (8.0, "less"), (12.0, "more")])
def test_throughput_of_chunking_goes_either_way(rate, kind):
    result = small.result()
    result["schedules"]["unified"]["metrics"]["throughput_tokens_per_s"] = 10.0
    result["schedules"]["chunked"]["metrics"]["throughput_tokens_per_s"] = rate
    assert f"cost.chunked.throughput_{kind}" in sentences(result, "chunked")


def test_kernel_and_scheduling_cost_when_measured():
    result = small.result()
    assert "cost.chunked.parts" not in sentences(result, "chunked")
    result["chunking"] = {
        "whole_prefill_s": 1.0,
        "chunked_alone_s": 1.1,
        "chunked_served_s": 1.2,
        "kernel_cost_s": 0.1,
        "scheduling_cost_s": 0.1,
        "chunk_tokens": 25,
    }
    assert "cost.chunked.parts" in sentences(result, "chunked")
    result["chunking"]["kernel_cost_s"] = -0.2
    assert "cost.chunked.parts_noise" in sentences(result, "chunked")


@pytest.mark.parametrize("lang", ["ko", "en"])
@pytest.mark.parametrize("long", [True, False])
def test_every_sentence_exists_and_can_be_filled_in(lang, long):
    words, result = Words(lang, "schedules"), small.result(long=long)
    found = [story.headline(result), *story.notes(result)] + [
        s for group in story.costs(result).values() for s in group
    ]
    for key, facts in found:
        text = words(key, **facts)
        assert text != key and "{" not in text and "None" not in text


def test_a_missing_schedule_breaks_nothing():
    result = small.result()
    del result["schedules"]["disaggregated"]
    assert story.headline(result)[0] == "story.partial"
    assert set(story.costs(result)) == {"unified", "chunked"}
    assert [x.schedule for x in lanes.view(result).lanes] == ["unified", "chunked"]
    assert board.lines(result)


def test_the_alternative_text_has_the_numbers_and_the_table_every_request():
    result, words = small.result(), Words("en", "schedules")
    view = lanes.view(result)
    text = alt.timeline_alt(view, result, words)
    assert fmt.seconds(1.1) in text and "Unified" in text
    head, rows = alt.request_rows(view, words)
    assert len(rows) == 9 and all(len(row) == len(head) for row in rows)


def test_every_metric_has_its_definition():
    for metric in board.METRICS:
        for part in ("name", "term", "what"):
            assert f"metric.{metric.key}.{part}" in table("en", "_ui")


def test_what_the_model_wrote_cannot_become_markup():
    words = Words("en", "schedules")
    hostile = "<img src=x onerror=alert(1)>"
    assert hostile not in parts.plain_table([hostile], [[hostile]], hostile)
    assert hostile not in parts.notice(hostile, hostile)
    assert hostile not in parts.badge("measured", words, hostile)
    assert hostile not in parts.cards([(hostile, hostile, [hostile])])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 s"),
        (0.0000004, "0 µs"),
        (0.0042, "4.2 ms"),
        (0.0423, "42 ms"),
        (0.9996, "1.00 s"),
        (2.2134, "2.21 s"),
        (18.04, "18.0 s"),
        (-0.5, "−500 ms"),
    ],
)
def test_seconds(value, text):
    assert fmt.seconds(value) == text


def test_other_numbers():
    assert fmt.bytes_(999_600) == "1,000 kB"
    assert fmt.count(4096) == "4,096" and fmt.bytes_(121_000_000) == "121 MB" and fmt.binary_bytes(2**28) == "256 MiB"
    assert fmt.ratio(46.2) == "46" and fmt.ratio(8.93) == "8.9" and fmt.percent(-0.123) == "−12 %"


@pytest.mark.parametrize(
    ("values", "key", "facts"),
    [
        ((1.1, 0.3, 0.1), "verdict.times", {"winners": ["disaggregated"], "loser": "unified", "ratio": "11.0"}),
        ((0.13, 0.11, 0.1), "verdict.percent", {"winners": ["disaggregated"], "loser": "unified", "change": "+30 %"}),
        ((0.1, 0.1, 0.1), "verdict.level", {}),
    ],
)
def test_winner_and_loser_in_words(values, key, facts):
    result = small.result()
    for name, value in zip(result["schedules"], values):
        result["schedules"][name]["metrics"]["itl_max_s"] = value
    assert board.verdict(board.line(result, "itl_max_s")) == (key, facts)


def test_where_more_is_better_the_loser_has_less():
    result = small.result()
    for name, value in zip(result["schedules"], (200.0, 50.0, 100.0)):
        result["schedules"][name]["metrics"]["throughput_tokens_per_s"] = value
    key, facts = board.verdict(board.line(result, "throughput_tokens_per_s"))
    assert key == "verdict.fraction" and facts["winners"] == ["unified"] and facts["loser"] == "chunked"


def test_no_winner_where_neither_more_nor_less_is_better():
    assert board.verdict(board.line(small.result(), "kv_peak_bytes")) is None
