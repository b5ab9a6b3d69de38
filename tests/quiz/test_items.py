"""Every item of every lesson's quiz, answered rightly and wrongly, in both languages and for every case that can be drawn."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from engine.claims import claims
from engine.quiz import Choice, Item, Number, Open, Order, Posed, judge, load, pose
from engine.quiz.numbers import shown
from engine.quiz.units import UNITS
from pages._ui import recordings
from pages._ui.words import table

PAGES = Path(__file__).parents[2] / "pages"
ITEMS = {item.id: item for path in sorted(PAGES.glob("*/quiz.toml")) for item in load(path)}
LANGS = ("ko", "en")


def result_for(item: Item) -> dict | None:
    """A result that the item can be posed with: the recording of its figure, or one of the kind it is to be measured by."""
    if item.figure:
        return recordings.load(item.figure["recording"])
    if item.measure:
        names = [name for name in recordings.names() if recordings.load(name)["kind"] == item.measure.kind]
        assert names, f"no recording of {item.measure.kind} to try {item.id} with"
        return recordings.load(names[0])
    return None


def posings(item: Item) -> list[Posed]:
    """Each case once, in both languages."""
    result = result_for(item)
    return [pose(item, "learner", lang, result, attempt) for lang in LANGS for attempt in range(len(item.cases))]


def of(kind: type) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("item", [pytest.param(i, id=i.id) for i in ITEMS.values() if isinstance(i, kind)])


def test_every_kind_is_there_and_no_id_twice():
    """A glob that finds nothing would make every test below pass; a second id would take over the first one's progress."""
    all_ids = [item.id for path in PAGES.glob("*/quiz.toml") for item in load(path)]
    assert len(all_ids) == len(set(all_ids))
    assert {item.kind for item in ITEMS.values()} == {"number", "choice", "order", "open"}
    assert any(item.figure for item in ITEMS.values()) and any(item.measure for item in ITEMS.values())


@of(Item)
def test_it_refers_to_what_is_there(item):
    """A part of the lesson's page to read again, rows of the table of claims."""
    assert (PAGES / item.lesson / "page.py").exists()
    assert f"part.{item.part}" in table("en", item.lesson), f"the lesson has no part {item.part}"
    assert {about for about in item.about if not about.startswith("quiz-")} <= set(claims())


@of(Item)
def test_every_case_is_drawn_and_nothing_is_left_unfilled(item):
    found = posings(item)
    values = [tuple(posed.values.items()) for posed in found if posed.lang == "ko"]
    assert len(set(values)) == len(item.cases)
    for posed in found:
        texts = [posed.text, posed.explain, posed.right, *posed.hints, *posed.rubric, posed.model_answer]
        texts += [part for entry in posed.entries for part in (entry.text, entry.feedback)] + [text for _, text in posed.slips]
        assert not any("{" in text for text in texts)


@of(Number)
def test_a_right_number_in_each_of_its_spellings(item):
    for posed in posings(item):
        for text in _spellings(posed):
            verdict = judge(posed, text)
            assert verdict.state == "right", (text, posed.values, verdict)
            assert verdict.feedback


def _spellings(posed: Posed) -> list[str]:
    """As the page shows it, in full, and in other units of the dimension."""
    own = UNITS[posed.unit]
    exact = f"{posed.answer!r} {own.name}"
    if own.name in ("", "share"):
        exact = repr(posed.answer)
    full_width = exact.translate({ord(c): ord(c) + 0xFEE0 for c in "0123456789.-"})
    others = [unit for unit in UNITS.values() if unit.dimension == own.dimension and unit.name and unit.name != "share"]
    return [posed.right, exact, full_width, *(f"{posed.answer * own.factor / unit.factor!r} {unit.name}" for unit in others)]


@of(Number)
def test_every_slip_is_wrong_and_gets_its_own_feedback(item):
    """A slip within the tolerance of the right answer would be called right; one that no case shows is dead."""
    for posed in posings(item):
        for value, feedback in posed.slips:
            verdict = judge(posed, shown(value, posed.unit, posed.lang))
            assert (verdict.state, verdict.reason) == ("wrong", "slip"), (value, posed.answer, posed.values)
            same = [text for other, text in posed.slips if other == value]
            assert feedback in same and verdict.feedback in same
            assert verdict.answer == posed.right
    for first, second in itertools.combinations(range(len(item.slips)), 2):
        apart = [posed for posed in posings(item) if posed.slips[first][0] != posed.slips[second][0]]
        assert apart, f"slips {first + 1} and {second + 1} are always the same number"


@of(Number)
def test_a_number_far_off_is_wrong_and_what_is_no_number_is_unclear(item):
    for posed in posings(item):
        for value in (posed.answer * 3.7 + 5, posed.answer / 3.7 - 5, -posed.answer - 1):
            unit = f" {posed.unit}" if posed.unit not in ("", "share") else ""
            if unit or posed.unit != "share":
                verdict = judge(posed, f"{value!r}{unit}")
                assert verdict.state == "wrong" and verdict.feedback and verdict.answer
        for text in ("", "about", f"{posed.answer!r} parsec", "<b>1</b>", "1" * 10_000, None):
            verdict = judge(posed, text)
            assert verdict.state == "unclear" and verdict.feedback and not verdict.answer


@of(Choice)
def test_every_option_gets_its_verdict(item):
    for posed in posings(item):
        assert {entry.id for entry in posed.entries} == {option.id for option in item.options}
        states = {entry.id: judge(posed, entry.id) for entry in posed.entries}
        assert [id_ for id_, verdict in states.items() if verdict.state == "right"] == [posed.answer]
        assert all(verdict.state in ("right", "wrong") and verdict.feedback for verdict in states.values())
        assert len({states[entry.id].feedback for entry in posed.entries}) == len(posed.entries), "two options, one feedback"
        assert judge(posed, "no-such-option").state == judge(posed, None).state == "unclear"


@of(Order)
def test_only_the_right_order_is_right_and_it_is_not_the_one_shown(item):
    for posed in posings(item):
        assert tuple(entry.id for entry in posed.entries) != posed.answer
        assert judge(posed, list(posed.answer)).state == "right"
        for at in range(len(posed.answer) - 1):
            swapped = list(posed.answer)
            swapped[at : at + 2] = reversed(swapped[at : at + 2])
            verdict = judge(posed, swapped)
            assert verdict.state == "wrong" and verdict.feedback and verdict.answer == posed.right
            assert str(at + 1) in verdict.feedback or at == 0
        assert judge(posed, posed.answer[:-1]).state == judge(posed, (*posed.answer, posed.answer[0])).state == "unclear"


@of(Open)
def test_an_open_answer_is_not_judged_but_opens_the_model_answer(item):
    for posed in posings(item):
        assert posed.rubric and posed.model_answer
        written = judge(posed, "An answer of my own.")
        assert (written.state, written.answer) == ("open", posed.model_answer) and written.feedback
        for text in ("", "  \n ", "x" * 10_001, None):
            assert judge(posed, text).state == "unclear" and not judge(posed, text).answer
