"""What a learner is asked depends on nothing but the seed and the attempt, and what an answer is told on what was asked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import LabError
from engine.quiz import judge, load, pose
from engine.quiz.item import Number, Text
from engine.quiz.judge import SENTENCES
from pages._ui import recordings

ROOT = Path(__file__).parents[2]
ITEMS = {item.id: item for item in load(ROOT / "pages" / "memory" / "quiz.toml")}
KV, FIT, CHOICE, ORDER = (ITEMS[f"memory-{name}"] for name in ("kv-total", "fit", "two-limits", "token-order"))
FIGURE, MEASURE = ITEMS["memory-read-wall"], ITEMS["memory-own-wave"]


def test_a_seed_gives_the_same_for_ever():
    """A reload, another process or another version of Python must not change what somebody is in the middle of; hash() and
    random would. So it is written down here."""
    assert dict(pose(KV, "anna", "en").values) == {"model": "llama-3.1-8b", "tokens": 128_000}
    assert [entry.id for entry in pose(CHOICE, "anna", "en").entries] == ["paging", "weights", "shared-cache", "compute"]


def test_learners_get_different_numbers_and_every_attempt_another():
    cases = [tuple(pose(KV, f"learner {n}", "en").values.values()) for n in range(200)]
    assert set(cases) == {tuple(case.values()) for case in KV.cases}
    assert max(cases.count(case) for case in cases) < 40
    tried = [tuple(pose(KV, "ben", "en", attempt=n).values.values()) for n in range(16)]
    assert len(set(tried)) == 16
    assert tuple(pose(KV, "ben", "ko", attempt=16).values.values()) == tried[0]


def test_options_are_shuffled_so_that_each_place_can_be_the_right_one():
    places = [[entry.id for entry in pose(CHOICE, n, "en").entries].index("weights") for n in range(120)]
    assert set(places) == {0, 1, 2, 3} and max(places.count(place) for place in set(places)) < 60


def test_names_are_put_in_as_people_know_them():
    posed = pose(FIT, "x", "en")
    assert "Llama 3.1 8B" in posed.text and "llama-3.1-8b" not in posed.text
    assert f"{posed.values['tokens']:,} tokens" in posed.text
    assert posed.right in posed.explain


def test_an_item_about_a_measurement_needs_one_of_its_kind():
    wall = recordings.load("wall-cpu")
    for item in (FIGURE, MEASURE):
        with pytest.raises(LabError) as refused:
            pose(item, 1, "en")
        assert refused.value.code == "quiz-no-result"
    with pytest.raises(LabError) as refused:
        pose(MEASURE, 1, "en", recordings.load("ring-cpu"))
    assert refused.value.code == "quiz-no-result"
    for broken in ({"kind": "wall"}, {**wall, "schedules": {}}, {**wall, "schedules": {"paged": None, "reserved": []}}):
        with pytest.raises(LabError) as refused:
            pose(MEASURE, 1, "en", broken)
        assert refused.value.code == "quiz-no-value"
    paged, reserved = (wall["schedules"][pool]["metrics"]["first_wave"] for pool in ("paged", "reserved"))
    assert pose(MEASURE, 1, "en", wall).answer == pytest.approx(paged / reserved)


def test_the_tolerance_is_a_share_or_a_distance_and_no_more():
    posed = pose(KV, 1, "en")
    inside, outside = posed.answer * 1.0199, posed.answer * 1.0201
    assert judge(posed, f"{inside!r} GiB").state == "right"
    assert judge(posed, f"{outside!r} GiB").state == "wrong"
    posed = pose(replace(FIT, within=1), 1, "en")
    assert judge(posed, str(posed.answer + 1)).state == "right"
    assert judge(posed, str(posed.answer - 1.01)).state == "wrong"
    exact = pose(FIT, 1, "en")
    assert judge(exact, str(exact.answer)).state == "right" and judge(exact, str(exact.answer + 0.1)).state == "wrong"


@pytest.mark.parametrize(
    ("factor", "unit", "reason"),
    [
        (2**30 / 10**9, "GiB", "binary"),
        (8, "GiB", "bits"),
        (1000, "GiB", "thousand"),
        (1 / 1024, "GiB", "thousand"),
        (-1, "GiB", "negative"),
        (1.2, "GiB", "too_large"),
        (0.8, "GiB", "too_small"),
    ],
)
def test_a_wrong_number_is_told_what_it_looks_like(factor, unit, reason):
    """The GB of a right answer called GiB is the most usual mistake of all."""
    posed = pose(replace(KV, slips=()), 1, "ko")
    verdict = judge(posed, f"{posed.answer * factor:.6g} {unit}")
    assert (verdict.state, verdict.reason) == ("wrong", reason) and verdict.feedback


def test_an_answer_below_zero_may_be_missed_on_either_side():
    posed = pose(Number(id="a", lesson="b", part="", text=Text("a", "a"), explain=Text("a", "a"), unit="%", within=1, value=-5.0), 1, "en")
    assert [judge(posed, text).reason for text in ("-5.5 %", "-9 %", "-1 %", "5 %")] == ["right", "too_small", "too_large", "too_large"]


def test_a_doubtful_comma_is_told_how_it_was_read():
    posed = pose(replace(KV, slips=()), 1, "en")
    assert "1,500 GiB" in judge(posed, "1,500 GiB").feedback
    assert "1,500" not in judge(posed, "1500 GiB").feedback


def test_what_was_typed_is_not_put_into_a_page_as_it_is():
    posed = pose(KV, 1, "en")
    for text in ("5 <img src=x onerror=alert(1)>", "5 [a](javascript:x)", "5 `x` **y**"):
        verdict = judge(posed, text)
        assert verdict.state == "unclear" and not set("<>[]()`*") & set(verdict.feedback.replace("'", ""))


def test_the_unit_that_is_asked_for_is_told_as_it_is_written_in_the_language():
    """A Korean sentence named "tokens", and a plain number's unit was "-"."""
    item = Number(id="a", lesson="b", part="", text=Text("a", "a"), explain=Text("a", "a"), unit="tokens", within=1, value=5.0)
    assert "토큰" in judge(pose(item, 1, "ko"), "5 GB").feedback and "tokens" in judge(pose(item, 1, "en"), "5 GB").feedback
    assert "'GB'" in judge(pose(replace(item, unit=""), 1, "ko"), "5 GB").feedback


def test_no_sentence_leaves_the_choice_of_a_particle_to_the_reader():
    """What is put in may end in anything: '5 GB을(를)'."""
    assert not re.search(r"[은을이와(]\([가-힣]+\)|\(으\)", SENTENCES.read_text(encoding="utf-8"))


def test_a_wrong_order_is_told_where_it_begins_to_be_wrong():
    posed = pose(ORDER, 1, "en")
    first, second, third, fourth = posed.answer
    assert judge(posed, [second, first, third, fourth]).reason == "order_begin"
    late = judge(posed, [first, second, fourth, third])
    assert (late.reason, late.facts) == ("order_from", {"n": "2", "next": "3"})
    for nothing in (None, "", [], [first], [first, first, third, fourth], [1, 2, 3, 4], [[], [], [], []]):
        assert judge(posed, nothing).state == "unclear"


def test_an_order_that_comes_out_right_by_chance_is_turned():
    for seed in range(200):
        posed = pose(ORDER, seed, "en")
        assert tuple(entry.id for entry in posed.entries) != posed.answer


def test_names_in_texts_of_others_stay_as_they_are():
    odd = replace(CHOICE, text=Text("{tokens} {0} {", "{tokens} {0} {"))
    assert pose(odd, 1, "en").text == "{tokens} {0} {"
