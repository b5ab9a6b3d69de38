"""A lesson's coursework on its pages, and a prediction beside what came out. Pure, no streamlit; the schema is in
`engine.quiz.coursework`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from engine.quiz import coursework, measured
from engine.quiz.coursework import Coursework, Option, Prediction
from engine.quiz.units import UNITS
from pages._ui import fmt, glossary
from pages._ui.words import PAGES, Words

NBSP = "\u00a0"


@dataclass(frozen=True)
class Comparison:
    """A prediction beside what came out. state: "right" (the option), "near", "low", "high" (the number), "other";
    shown: what came out, in words; number: it as a number, None where it is an option only; expected: as the lesson says."""

    state: str
    shown: str
    number: float | None
    expected: bool


@cache
def of(lesson: str) -> Coursework:
    """What a lesson asks and names. Raises LabError("course-file")."""
    return coursework.load(PAGES / lesson / "course.toml", glossary.terms("en"))


def compare(prediction: Prediction, given: str | float, result: dict | None, words: Words) -> Comparison | None:
    """None where the result does not have what it takes. result: None for what is computed."""
    found = _ask(prediction.value, prediction, result)
    if found is None:
        return None
    expect, number = prediction.expect, None if isinstance(found, str) else found
    option = _option_for(prediction, found)
    if isinstance(expect, str):
        expected = bool(_ask(expect, prediction, result))
    else:
        expected = option is not None and option.id in expect if isinstance(expect, tuple) else found in expect
    if prediction.kind == "number":
        state = _near(prediction, float(given), found)
    else:
        state = "right" if option and option.id == given else "other"
    shown = quantity(number, prediction.unit, words) if number is not None else option.text[words.lang] if option else str(found)
    return Comparison(state, shown, number, expected)


def _ask(function: str, prediction: Prediction, result: dict | None) -> object:
    return getattr(measured, function)(*([result] if prediction.experiment else []))


def _option_for(prediction: Prediction, found: str | float) -> Option | None:
    """The option that came out: by its id, or the one in whose range the number lies."""
    if isinstance(found, str):
        return prediction.option(found)
    return next((option for option in prediction.options if option.range and found in option.range), None)


def _near(prediction: Prediction, given: float, found: float) -> str:
    how, much = prediction.near
    if how == "within":
        near = abs(given - found) <= much
    else:
        near = given > 0 and found > 0 and 1 / much <= given / found <= much
    return "near" if near else "low" if given < found else "high"


def said(prediction: Prediction, given: str | float, words: Words) -> str:
    """What was predicted, in words."""
    if prediction.kind == "number":
        return quantity(float(given), prediction.unit, words)
    option = prediction.option(given)
    return option.text[words.lang] if option else str(given)


def quantity(value: float, unit: str, words: Words) -> str:
    """A number with its unit: ``2.9×``, ``3배``, ``80 %``, ``512토큰``."""
    whole = value == round(value) or unit == "%"
    number = fmt.count(value) if whole else fmt.times(value) if unit == "x" else fmt.number(value)
    name = unit_name(unit, words)
    close = not name or unit == "x" or (words.lang == "ko" and "가" <= name[0] <= "힣")
    return f"{number}{'' if close else NBSP}{name}"


def unit_name(unit: str, words: Words) -> str:
    """What a unit is called behind a number; nothing for a plain number."""
    return getattr(UNITS[unit], words.lang) if unit else ""


def valid(prediction: Prediction, given: object) -> bool:
    """Whether what was kept is still an answer: files change, and a store may hold anything."""
    if prediction.kind == "choice":
        return prediction.option(given) is not None
    return isinstance(given, int | float) and not isinstance(given, bool) and abs(given) < 1e12
