"""What the quizzes of schedules and roofline are answered with: worked by hand, and where a result does not have it."""

from __future__ import annotations

import pytest

from engine import profiles
from engine.quiz import answers_roofline, answers_schedules, measured
from tests.quiz.test_items import ITEMS


def test_numbers_that_stand_in_a_text_are_those_of_the_profile():
    """A rate or a number of heads typed into an item that the answer does not use would be noticed by learners alone."""
    said = {
        "tflops": lambda case: profiles.device(case["device"]).bf16_flops_per_s / 1e12,
        "tbps": lambda case: profiles.device(case["device"]).memory_bytes_per_s / 1e12,
        "heads": lambda case: profiles.model(case["model"]).heads,
        "kv_heads": lambda case: profiles.model(case["model"]).kv_heads,
    }
    found = [(item.id, name, case) for item in ITEMS.values() for case in item.cases for name in said if name in case]
    assert {name for _, name, _ in found} == set(said)
    for id_, name, case in found:
        assert case[name] == pytest.approx(said[name](case)), (id_, case)


def test_the_price_of_cutting():
    """Eight pieces have seven readings again and eight shared steps."""
    assert answers_schedules.chunked_ttft_s(2.0, 8, 20, 45) == pytest.approx(2.0 + 0.140 + 0.360)
    assert answers_schedules.chunked_ttft_s(2.0, 1, 20, 0) == 2.0


def test_a_mean_and_a_queue():
    assert answers_schedules.tpot_ms(3, 10, 30) == 20
    assert answers_schedules.nth_wait_s(11, 0.5, 0.8) == pytest.approx(3.0)
    assert answers_schedules.nth_wait_s(5, 1.0, 0.5) == 0


def test_the_largest_chunk_that_keeps_a_promise():
    """Not the first, not the uncut prompt, and none if none does."""
    points = [{"value": value, "metrics": {"itl_max_s": gap, "itl_p50_s": 0.04}} for value, gap in ((32, 0.1), (64, 0.2), (128, 0.4), (0, 0.1))]
    assert answers_schedules.largest_chunk_within({"points": points}, 200) == 64
    assert answers_schedules.largest_chunk_within({"points": points}, 50) is None
    assert (answers_schedules.largest_chunk_by_usual_gap({"points": points}, 50), answers_schedules.smallest_chunk({"points": points})) == (128, 32)


def test_where_matrices_cross():
    """989.5 TFLOP/s over 3.35 TB/s: 295.4 operations of a byte, and whole requests."""
    assert answers_roofline.crossing_batch("h100-sxm") == 296
    assert answers_roofline.attention_flop_per_byte("llama-3-70b") == 8


@pytest.mark.parametrize(
    ("to", "where"),
    [((1.4, 9.0), "up"), ((6.0, 9.0), "both"), ((6.0, 2.0), "right"), ((1.5, 2.1), "stays"), (None, None)],
)
def test_which_way_attention_goes(to, where):
    """Of the shortest context alone: the others go elsewhere."""
    points = [_point("attention", 128, 1, 1.4, 2.0), _point("attention", 512, 1, 1.4, 2.0), _point("attention", 512, 9, 90.0, 90.0)]
    points += [_point("attention", 128, 64, *to)] if to else []
    assert answers_roofline.attention_with_batch({"points": points}) == where


def test_what_a_larger_batch_gains():
    """At the context whose batches are farthest apart; prefills and parts of a step do not count."""
    points = [_point("all", 128, batch, seconds=seconds) for batch, seconds in ((1, 1.0), (16, 4.0))]
    points += [_point("all", 512, batch, seconds=seconds) for batch, seconds in ((1, 1.0), (4, 1.0))]
    points += [_point("linear", 128, 64), {**_point("all", 0, 64), "phase": "prefill"}]
    assert measured.batch_gain({"points": points}) == 4
    assert measured.batch_gain({"points": points[:1]}) is None
    assert measured.batch_gain({}) is None


def test_the_worst_gap_needs_a_long_prompt_and_both_schedules():
    """Without a long prompt nobody froze, and the ratio would be noise."""
    unified, chunked = {"itl_max_s": 6.0, "ttft_s": 5.0}, {"itl_max_s": 0.5, "ttft_s": 6.0}
    assert measured.worst_gap_ratio({"schedules": {"unified": {"metrics": unified}, "chunked": {"metrics": chunked}}}) == 12
    assert measured.worst_gap_ratio({"schedules": {"unified": {"metrics": {"itl_max_s": 6.0}}, "chunked": {"metrics": chunked}}}) is None
    assert measured.worst_gap_ratio({"schedules": {"unified": {"metrics": unified}}}) is None


def _point(part: str, context: int, batch: int, intensity: float = 1.0, rate: float = 1.0, seconds: float = 1.0) -> dict:
    return {"phase": "decode", "part": part, "context": context, "batch": batch, "intensity": intensity, "flops_per_s": rate, "seconds": seconds}
