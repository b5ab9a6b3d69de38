"""What a lesson asks and names: predictions, terms and sources, read from pages/<lesson>/course.toml and checked. Pure, no torch.

    terms = ["prefill", …]            # of pages/_ui/glossary.{ko,en}.toml, in the order in which the lesson needs them

    [[source]]
    title = "Xiao et al. 2024, …"     # as it is cited, the same in both languages
    url = "https://…"
    what.ko, what.en                  # what it is here for

    [[predict]]
    id = "schedules-tpot"             # for ever: progress refers to it; begins with the lesson
    part = "waiting"                  # of the lesson's page
    kind = "number" | "choice"
    experiment = "schedules"          # the kind of result that answers it; without one it is computed
    value = "tpot_rise"               # a function of engine/quiz/measured.py: result in; a number or an option's id, or None
    timed = true                      # seconds are in it, so a busy machine changes it; false if left out
    question.ko, question.en
    expect = …                        # what the lesson says comes out: ids of options, or {from = 1.5, to = 4.0} (from <= x < to;
                                      # either may be left out), or a function of measured.py: result in, truth out
    explain.ko, explain.en            # if it comes out so; {measured} stands for the measured value
    against.ko, against.en            # if it does not; what is computed always does

number: unit (one of engine.quiz.units); factor = 1.5 or within = 10: how far from the measured a prediction is called near
choice: [[predict.options]]: id, text.ko, text.en; for a value that is a number also `from` and `to`, as in expect
"""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from engine.errors import LabError
from engine.profiles.read import check_names
from engine.quiz import measured
from engine.quiz.item import Text
from engine.quiz.load import text_of
from engine.quiz.units import UNITS

_NEEDED = ("id", "part", "kind", "value", "question", "expect", "explain")
_OPTIONAL = ("experiment", "timed", "unit", "factor", "within", "options")


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value < self.high


@dataclass(frozen=True)
class Option:
    id: str
    text: Text
    range: Range | None


@dataclass(frozen=True)
class Prediction:
    """experiment: "" where the value is computed. near: ("factor", 1.5) or ("within", 10), None for a choice."""

    id: str
    part: str
    kind: str
    experiment: str
    value: str
    timed: bool
    question: Text
    explain: Text
    against: Text
    expect: Range | tuple[str, ...] | str
    unit: str
    near: tuple[str, float] | None
    options: tuple[Option, ...]

    def option(self, id_: object) -> Option | None:
        return next((option for option in self.options if option.id == id_), None)


@dataclass(frozen=True)
class Source:
    title: str
    url: str
    what: Text


@dataclass(frozen=True)
class Coursework:
    terms: tuple[str, ...]
    sources: tuple[Source, ...]
    predictions: tuple[Prediction, ...]


def load(path: Path, known_terms: Collection[str]) -> Coursework:
    """What a lesson's course.toml holds; all empty if there is none. known_terms: those that have a meaning.
    Raises LabError("course-file")."""
    if not path.exists():
        return Coursework((), (), ())
    lesson = path.parent.name
    at = "-"
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        check_names(table, (), ("terms", "source", "predict"))
        sources = tuple(_source(one) for one in table.get("source", []))
        found: dict[str, Prediction] = {}
        for number, entry in enumerate(table.get("predict", []), 1):
            at = str(entry.get("id", f"predict {number}"))[:80]
            made = _prediction(entry, lesson)
            if made.id in found:
                raise ValueError("there are two of this id")
            found[made.id] = made
        terms, at = tuple(table.get("terms", ())), "-"
        if unknown := [name for name in terms if name not in known_terms]:
            raise ValueError(f"the term {unknown[0]} is not known")
        return Coursework(terms, sources, tuple(found.values()))
    except (OSError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise LabError("course-file", path=f"{lesson}/course.toml", item=at, why=str(error)[:300]) from error


def _source(entry: dict) -> Source:
    check_names(entry, ("title", "url", "what"), (), " (source)")
    if not entry["url"].startswith("https://"):
        raise ValueError("the url of a source must begin with https://")
    return Source(entry["title"], entry["url"], text_of(entry["what"], "what"))


def _prediction(entry: dict, lesson: str) -> Prediction:
    measures = "experiment" in entry
    check_names(entry, (*_NEEDED, *(("against",) if measures else ())), _OPTIONAL)
    options = tuple(_option(one) for one in entry.get("options", ()))
    near = next(((name, entry[name]) for name in ("factor", "within") if name in entry), None)
    made = Prediction(
        id=entry["id"],
        part=entry["part"],
        kind=entry["kind"],
        experiment=entry.get("experiment", ""),
        value=entry["value"],
        timed=entry.get("timed", False),
        question=text_of(entry["question"], "question"),
        explain=text_of(entry["explain"], "explain", ("measured",)),
        against=text_of(entry["against" if measures else "explain"], "against", ("measured",)),
        expect=_expected(entry["expect"]),
        unit=entry.get("unit", ""),
        near=near,
        options=options,
    )
    named = [made.value, *([made.expect] if isinstance(made.expect, str) else [])]
    ids = [option.id for option in options]
    checks = {
        "id must begin with the lesson": made.id.startswith(f"{lesson}-"),
        "kind must be number or choice": made.kind in ("number", "choice"),
        "a number needs a unit, and factor (1 or more) or within (0 or more)": made.kind != "number"
        or (made.unit in UNITS and near is not None and near[1] >= (1 if near[0] == "factor" else 0)),
        "a choice needs two options or more, each with an id of its own": made.kind != "choice" or len(set(ids)) == len(ids) > 1,
        f"{named} must be functions of engine/quiz/measured.py": all(_is_function(name, measures) for name in named),
        "expect names an option that is not there": not isinstance(made.expect, tuple) or all(map(made.option, made.expect)),
    }
    if wrong := [why for why, right in checks.items() if not right]:
        raise ValueError(wrong[0])
    return made


def _option(entry: dict) -> Option:
    check_names(entry, ("id", "text"), ("from", "to"), " (options)")
    return Option(entry["id"], text_of(entry["text"], "text of an option"), _range(entry) if {"from", "to"} & set(entry) else None)


def _is_function(name: str, takes_result: bool) -> bool:
    """Whether it can be asked: with a result, or where all is computed with nothing."""
    found = getattr(measured, name, None)
    if not inspect.isfunction(found) or found.__module__ != measured.__name__ or name.startswith("_"):
        return False
    needed = [one for one in inspect.signature(found).parameters.values() if one.default is one.empty]
    return len(needed) == takes_result


def _range(entry: dict) -> Range:
    return Range(float(entry.get("from", "-inf")), float(entry.get("to", "inf")))


def _expected(given: object) -> Range | tuple[str, ...] | str:
    if isinstance(given, dict):
        check_names(given, (), ("from", "to"), " (expect)")
        if not given:
            raise ValueError("expect needs from, or to, or both")
        return _range(given)
    return tuple(given) if isinstance(given, list) else str(given)
