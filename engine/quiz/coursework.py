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

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import LabError
from engine.quiz import measured
from engine.quiz.item import LANGS
from engine.quiz.units import UNITS


@dataclass(frozen=True)
class Range:
    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value < self.high


@dataclass(frozen=True)
class Option:
    id: str
    text: Mapping[str, str]
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
    question: Mapping[str, str]
    explain: Mapping[str, str]
    against: Mapping[str, str]
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
    what: Mapping[str, str]


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
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        sources = tuple(Source(one["title"], one["url"], _text(one, "what")) for one in table.pop("source", []))
        found = []
        for entry in table.pop("predict", []):
            at = str(entry.get("id", "-"))
            found.append(_prediction(entry, lesson))
        terms, at = tuple(table.pop("terms", ())), "-"
        if unknown := [*table, *(name for name in terms if name not in known_terms)]:
            raise ValueError(f"{unknown[0]} is not known")
        return Coursework(terms, sources, tuple(found))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError) as error:
        why = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
        raise LabError("course-file", path=f"{lesson}/course.toml", item=at, why=why) from error


def _prediction(entry: dict, lesson: str) -> Prediction:
    options = tuple(Option(one["id"], _text(one, "text"), _range(one)) for one in entry.get("options", ()))
    near = next(((name, entry[name]) for name in ("factor", "within") if name in entry), None)
    made = Prediction(
        id=entry["id"],
        part=entry["part"],
        kind=entry["kind"],
        experiment=entry.get("experiment", ""),
        value=entry["value"],
        timed=entry.get("timed", False),
        question=_text(entry, "question"),
        explain=_text(entry, "explain"),
        against=_text(entry, "against" if entry.get("experiment") else "explain"),
        expect=_expected(entry["expect"]),
        unit=entry.get("unit", ""),
        near=near,
        options=options,
    )
    named = [made.value, *([made.expect] if isinstance(made.expect, str) else [])]
    checks = {
        "id must begin with the lesson": made.id.startswith(f"{lesson}-"),
        "kind must be number or choice": made.kind in ("number", "choice"),
        "a number needs a unit, and factor or within": made.kind != "number" or (near is not None and made.unit in UNITS),
        "a choice needs two options or more": made.kind != "choice" or len(options) > 1,
        f"{named} must be functions of engine/quiz/measured.py": all(callable(getattr(measured, name, None)) for name in named),
        "expect names an option that is not there": not isinstance(made.expect, tuple) or all(map(made.option, made.expect)),
    }
    if wrong := [why for why, right in checks.items() if not right]:
        raise ValueError(wrong[0])
    return made


def _text(entry: dict, name: str) -> dict[str, str]:
    return {lang: entry[name][lang] for lang in LANGS}


def _range(entry: dict) -> Range | None:
    if "from" not in entry and "to" not in entry:
        return None
    return Range(float(entry.get("from", "-inf")), float(entry.get("to", "inf")))


def _expected(given: object) -> Range | tuple[str, ...] | str:
    if isinstance(given, dict):
        return _range(given)
    return tuple(given) if isinstance(given, list) else str(given)
