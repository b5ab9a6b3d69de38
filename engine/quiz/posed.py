"""An item as one learner gets it: the values drawn, the texts with them put in, the answers computed. Pure.

The same seed and attempt always give the same; another attempt gives another case, until all have been seen, and another
order of the options.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import StatisticsError

from engine import profiles
from engine.errors import LabError
from engine.quiz.item import Choice, Item, Number, Open, Order, Slip, Text, Value
from engine.quiz.load import function, taken
from engine.quiz.numbers import digits, shown

_NAME = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_PROFILES = {"model": profiles.model, "device": profiles.device, "link": profiles.link}
# What a function of a result meets in one that lacks something.
_LACKS = (LookupError, TypeError, AttributeError, ArithmeticError, ValueError, StatisticsError)


@dataclass(frozen=True)
class Shown:
    """An option or a step, in the order shown. feedback: "" where there is none."""

    id: str
    text: str
    feedback: str = ""


@dataclass(frozen=True)
class Posed:
    """values: what was drawn and given. text, hints, explain, rubric, model_answer: in the language, Markdown.

    entries: options or steps in the order shown, else empty. answer: a number in `unit`, an option's id, steps' ids in
    order, or None of an open item. slips: (wrong number, its feedback). right: the answer as it is read, in words.
    """

    item: Item
    lang: str
    values: Mapping[str, Value]
    text: str
    hints: tuple[str, ...]
    explain: str
    right: str
    answer: float | str | tuple[str, ...] | None = None
    unit: str = ""
    entries: tuple[Shown, ...] = ()
    slips: tuple[tuple[float, str], ...] = ()
    rubric: tuple[str, ...] = ()
    model_answer: str = ""


def pose(item: Item, seed: str | int, lang: str, result: dict | None = None, attempt: int = 0) -> Posed:
    """seed: the learner's. result: of the figure's recording, or the learner's own, where item.needs_result.

    Raises LabError("quiz-no-result") without the result the item needs, ("quiz-no-value") with one that lacks something.
    """
    kind = item.measure.kind if item.measure else None
    if item.needs_result and (not isinstance(result, dict) or (kind and result.get("kind") != kind)):
        raise LabError("quiz-no-result", item=item.id)
    order = _shuffled(range(len(item.cases)), f"{seed}|{item.id}|cases")
    values = item.cases[order[attempt % len(order)]]
    names = {name: _shown_value(name, value) for name, value in values.items()}
    chance = f"{seed}|{item.id}|{attempt}"
    rest, right = _ASKED[item.kind](item, values, names, lang, result, chance)
    return Posed(
        item,
        lang,
        values,
        text=filled(item.text, lang, names),
        hints=tuple(filled(hint, lang, names) for hint in item.hints),
        explain=filled(item.explain, lang, {**names, "answer": right}),
        right=right,
        **rest,
    )


def filled(text: Text, lang: str, names: Mapping[str, str]) -> str:
    """A text with the names put in; load.py has seen to it that there are no others."""
    return _NAME.sub(lambda found: names.get(found[1], found[0]), text[lang])


def computed(item: Item, name: str, values: Mapping[str, Value], result: dict | None):
    """What a function gives for these values. Raises LabError("quiz-no-value") if the result lacks what it takes."""
    found = function(name, item.needs_result)
    if not item.needs_result:
        return found(**taken(found, values, False))
    try:
        value = found(result, **taken(found, values, True))
    except _LACKS as error:
        raise LabError("quiz-no-value", item=item.id) from error
    if value is None:
        raise LabError("quiz-no-value", item=item.id)
    return value


def _number(item: Number, values: Mapping, names: Mapping, lang: str, result: dict | None, _chance: str) -> tuple[dict, str]:
    answer = item.value if item.value is not None else computed(item, _what(item), values, result)
    if isinstance(answer, bool) or not isinstance(answer, (int, float)) or not math.isfinite(answer):
        raise LabError("quiz-no-value", item=item.id)
    slips = tuple((_slip(item, slip, values, result), filled(slip.feedback, lang, names)) for slip in item.slips)
    return {"answer": float(answer), "unit": item.unit, "slips": slips}, shown(answer, item.unit, lang)


def _slip(item: Number, slip: Slip, values: Mapping, result: dict | None) -> float:
    return float(slip.value if slip.value is not None else computed(item, slip.answer, {**values, **slip.given}, result))


def _choice(item: Choice, values: Mapping, names: Mapping, lang: str, result: dict | None, chance: str) -> tuple[dict, str]:
    right = item.right or computed(item, _what(item), values, result)
    entries = tuple(
        Shown(option.id, filled(option.text, lang, names), filled(option.feedback, lang, names) if option.feedback else "")
        for option in _shuffled(item.options, chance)
    )
    of_right = [entry.text for entry in entries if entry.id == right]
    if not of_right:
        raise LabError("quiz-no-value", item=item.id)
    return {"answer": right, "entries": entries}, of_right[0]


def _order(item: Order, values: Mapping, names: Mapping, lang: str, result: dict | None, chance: str) -> tuple[dict, str]:
    ids = tuple(step.id for step in item.steps)
    right = tuple(computed(item, _what(item), values, result)) if _what(item) else ids
    if sorted(right) != sorted(ids):
        raise LabError("quiz-no-value", item=item.id)
    entries = [Shown(step.id, filled(step.text, lang, names)) for step in _shuffled(item.steps, chance)]
    if tuple(entry.id for entry in entries) == right:  # nobody is shown the answer
        entries = [*entries[1:], entries[0]]
    texts = {entry.id: entry.text for entry in entries}
    return {"answer": right, "entries": tuple(entries)}, " → ".join(texts[id_] for id_ in right)


def _open(item: Open, values: Mapping, names: Mapping, lang: str, _result: dict | None, _chance: str) -> tuple[dict, str]:
    model_answer = filled(item.model_answer, lang, names)
    return {"rubric": tuple(filled(text, lang, names) for text in item.rubric), "model_answer": model_answer}, model_answer


_ASKED = {"number": _number, "choice": _choice, "order": _order, "open": _open}


def _what(item: Item) -> str:
    return item.measure.value if item.measure else item.answer


def _shuffled(entries: Sequence, chance: str) -> list:
    """In an order that depends on nothing but the words given; the same in every version of Python."""
    return [entry for _, entry in sorted(enumerate(entries), key=lambda pair: hashlib.sha256(f"{chance}|{pair[0]}".encode()).digest())]


def _shown_value(name: str, value: Value) -> str:
    """``131,072``; a profile by its title."""
    look_up = _PROFILES.get(name.split("_")[0])
    if isinstance(value, str):
        return look_up(value).title if look_up else value
    return digits(value)
