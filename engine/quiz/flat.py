"""Items as a file can hold them: one language, one case, the answers as values. Pure.

A flat item is an `Item` like any other, so what is read back from a file can be posed and judged, and compared with what was
written.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from engine.quiz.item import Choice, Item, Number, Open, Option, Order, Slip, Step, Text
from engine.quiz.judge import sentence
from engine.quiz.posed import Posed, pose
from engine.quiz.units import UNITS

# What a format may be able to hold of an item.
HOLDS = ("ordering", "unit", "hints", "rubric", "explain", "feedback")


@dataclass(frozen=True)
class LeftOut:
    """What a file lacks of an item. what: one of HOLDS, or "draw", "figure", "measure". whole: the item is not in it at all."""

    item: str
    what: str
    whole: bool = False

    def sentence(self, lang: str) -> str:
        return sentence(f"without_{self.what}", lang)


def flat(items: Iterable[Item], lang: str, seed: str | int, holds: Collection[str]) -> tuple[tuple[Item, ...], tuple[LeftOut, ...]]:
    """The items with one learner's numbers, and what of them is lost. holds: those of HOLDS that the format can."""
    kept, lost = [], []
    for item in items:
        missing = [LeftOut(item.id, what, whole) for what, whole in _missing(item, holds)]
        lost += missing
        if not any(entry.whole for entry in missing):
            kept.append(_flat(pose(item, seed, lang), holds))
    return tuple(kept), tuple(lost)


def same(text: str) -> Text:
    """A text of a file, which has one language."""
    return Text(text, text)


def _missing(item: Item, holds: Collection[str]) -> list[tuple[str, bool]]:
    if item.needs_result:
        return [("figure" if item.figure else "measure", True)]
    if isinstance(item, Order) and "ordering" not in holds:
        return [("ordering", True)]
    found = [("draw", False)] if len(item.cases) > 1 else []
    found += [("hints", False)] if item.hints and "hints" not in holds else []
    if isinstance(item, Number):
        found += [("unit", False)] if item.unit and "unit" not in holds else []
        found += [("feedback", False)] if item.slips and "feedback" not in holds else []
    if isinstance(item, Choice):
        found += [("feedback", False)] if "feedback" not in holds else []
    if isinstance(item, Open):
        found += [("rubric", False)] if item.rubric and "rubric" not in holds else []
        found += [("explain", False)] if "explain" not in holds else []
    return found


def _flat(posed: Posed, holds: Collection[str]) -> Item:
    item = posed.item
    common = {"id": item.id, "lesson": item.lesson, "part": "", "text": same(posed.text.strip()), "explain": same(posed.explain.strip())}
    if isinstance(item, Number):
        return _number(posed, item, common, holds)
    by_id = {entry.id: entry for entry in posed.entries}
    if isinstance(item, Choice):
        entries = [by_id[option.id] for option in item.options]
        options = choices([(entry.text, entry.feedback) for entry in entries])
        return Choice(**common, options=options, right=options[[entry.id for entry in entries].index(posed.answer)].id)
    if isinstance(item, Order):
        return Order(**common, steps=steps([by_id[id_].text for id_ in posed.answer]))
    model_answer = same(posed.model_answer.strip())
    if "explain" not in holds:
        common["explain"] = model_answer
    rubric = tuple(same(text.strip()) for text in posed.rubric) if "rubric" in holds else ()
    return Open(**common, rubric=rubric, model_answer=model_answer)


def _number(posed: Posed, item: Number, common: dict, holds: Collection[str]) -> Number:
    within = item.within if item.within is not None else item.tolerance * abs(posed.answer)
    unit = item.unit
    if item.unit and "unit" not in holds:
        unit = ""
        name = getattr(UNITS[item.unit], posed.lang)
        common["text"] = same(f"{posed.text.strip()} ({name})") if name else common["text"]
    slips = tuple(Slip("", same(text.strip()), value=value) for value, text in posed.slips)
    return Number(**common, unit=unit, within=within, value=posed.answer, slips=_different(slips))


def _different(slips: Sequence[Slip]) -> tuple[Slip, ...]:
    """Of two slips that come to the same number the first."""
    return tuple(slip for at, slip in enumerate(slips) if slip.value not in [other.value for other in slips[:at]])


def choices(entries: Sequence[tuple[str, str]]) -> tuple[Option, ...]:
    """Options from (text, feedback), by number."""
    return tuple(
        Option(f"o{at}", same(text.strip()), same(feedback.strip()) if feedback.strip() else None)
        for at, (text, feedback) in enumerate(entries, 1)
    )


def steps(texts: Sequence[str]) -> tuple[Step, ...]:
    return tuple(Step(f"s{at}", same(text.strip())) for at, text in enumerate(texts, 1))
