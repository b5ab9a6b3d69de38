"""Reading a file of quiz items, pages/<lesson>/quiz.toml, and checking all that can be checked without a result."""

from __future__ import annotations

import inspect
import itertools
import math
import re
import tomllib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from engine.errors import LabError
from engine.profiles.read import check_names
from engine.quiz import (
    answers,
    answers_open,
    answers_pools,
    answers_ring,
    answers_roofline,
    answers_rope,
    answers_schedules,
    answers_sinks,
    answers_transfer,
    measured,
)
from engine.quiz.item import (
    KINDS,
    LANGS,
    VIEWS,
    Choice,
    Item,
    Measure,
    Number,
    Open,
    Option,
    Order,
    Slip,
    Step,
    Text,
)
from engine.quiz.units import UNITS

# Where the functions are that items name: one file for all lessons, and one for each lesson that has many.
ANSWERS = (
    answers,
    answers_open,
    answers_pools,
    answers_ring,
    answers_roofline,
    answers_rope,
    answers_schedules,
    answers_sinks,
    answers_transfer,
)
MOST_BYTES = 1 << 20
MOST_ITEMS = 500
MOST_CHARACTERS = 4_000
MOST_CASES = 1_000
_COMMON = ("id", "kind", "part", "text", "explain")
_COMMON_OPTIONAL = ("lesson", "about", "hints", "draw", "given", "answer", "figure", "measure")
_OF_KIND = {  # kind: what must be given, what may be
    "number": (("unit",), ("tolerance", "within", "slips")),
    "choice": (("options",), ()),
    "order": (("steps",), ()),
    "open": (("rubric", "model_answer"), ()),
}
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_ABOUT = re.compile(r"[AB][1-9][0-9]?|quiz-[1-5]")
_BRACES = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_HTML = re.compile(r"<[a-zA-Z/!?]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def load(path: Path) -> tuple[Item, ...]:
    """The items of a file, in its order. Raises LabError("quiz-file")."""
    shown, at = f"{path.parent.name}/{path.name}", "-"
    try:
        raw = path.read_bytes()
        if len(raw) > MOST_BYTES:
            raise ValueError(f"it has {len(raw)} bytes, and the limit is {MOST_BYTES}")
        table = tomllib.loads(raw.decode("utf-8-sig"))
        check_names(table, ("item",), ())
        if not isinstance(table["item"], list) or not 0 < len(table["item"]) <= MOST_ITEMS:
            raise ValueError(f"there must be 1 to {MOST_ITEMS} [[item]]")
        found: dict[str, Item] = {}
        for number, entry in enumerate(table["item"], 1):
            at = str(entry.get("id", f"item {number}"))[:80] if isinstance(entry, dict) else f"item {number}"
            item = item_of(entry, path.parent.name)
            if item.id in found:
                raise ValueError("there are two of this id")
            found[item.id] = item
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise LabError("quiz-file", path=shown, item=at, why=str(error)[:300]) from error
    return tuple(found.values())


def item_of(table: object, lesson: str) -> Item:
    """From a TOML table; lesson: the one it is of where it does not say. Raises ValueError with what is wrong."""
    if not isinstance(table, dict):
        raise ValueError("an item must be a table")
    kind = table.get("kind")
    if kind not in KINDS:
        raise ValueError(f"kind must be one of: {', '.join(KINDS)}")
    needed, optional = _OF_KIND[kind]
    check_names(table, (*_COMMON, *needed), (*_COMMON_OPTIONAL, *optional))
    of_lesson = _word(table.get("lesson", lesson), _ID, "lesson")
    id_ = _word(table["id"], _ID, "id")
    if not id_.startswith(f"{of_lesson}-"):
        raise ValueError(f"the id must begin with {of_lesson}-")
    cases = _cases(table)
    names = set(cases[0])
    common = {
        "id": id_,
        "lesson": of_lesson,
        "part": _word(table["part"], _ID, "part"),
        "text": text_of(table["text"], "text", names),
        "explain": text_of(table["explain"], "explain", names | {"answer"}),
        "hints": _texts(table.get("hints"), "hints", names),
        "about": _about(table.get("about", [])),
        "cases": cases,
        "figure": _figure(table.get("figure")),
        "measure": _measure(table.get("measure")),
    }
    if common["figure"] and common["measure"]:
        raise ValueError("an item has a figure or a measure, not both")
    common["answer"] = _answer(table, common)
    return _MAKERS[kind](table, common, names)


def text_of(value: object, where: str, names: Collection[str] = ()) -> Text:
    """Both languages, with no names in braces but these. Raises ValueError."""
    if not isinstance(value, dict) or set(value) != set(LANGS):
        raise ValueError(f"{where} must be given as {where}.ko and {where}.en")
    for lang in LANGS:
        _check_text(value[lang], f"{where}.{lang}", names)
    return Text(**value)


def _check_text(value: object, where: str, names: Collection[str]) -> None:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{where} must be a text")
    if len(value) > MOST_CHARACTERS:
        raise ValueError(f"{where} has {len(value)} characters, and the limit is {MOST_CHARACTERS}")
    if _CONTROL.search(value):
        raise ValueError(f"{where} has a control character")
    if _HTML.search(value):
        raise ValueError(f"{where} has HTML in it")
    unknown = [name for name in _BRACES.findall(value) if name not in names]
    if unknown:
        raise ValueError(f"{where} has {{{unknown[0]}}}, which is neither drawn nor given")
    if re.search(r"[{}]", _BRACES.sub("", value)):
        raise ValueError(f"{where} has a brace that is not around a name")


def _number(table: dict, common: dict, names: set[str]) -> Number:
    if not common["answer"] and not common["measure"]:
        raise ValueError("answer must name a function of engine/quiz/answers*.py")
    unit = table["unit"]
    if unit not in UNITS:
        raise ValueError(f"unit must be one of: {', '.join(name or repr(name) for name in UNITS)}")
    limits = {name: table[name] for name in ("tolerance", "within") if name in table}
    if len(limits) != 1 or not all(_is_number(value) and 0 <= value for value in limits.values()):
        raise ValueError("there must be either tolerance (a share) or within (in the unit), at least 0")
    if not 0 <= table.get("tolerance", 0) < 1:
        raise ValueError("tolerance must be a share below 1")
    slips = tuple(_slip(entry, common, names, number) for number, entry in enumerate(_tables(table, "slips"), 1))
    return Number(**common, unit=unit, slips=slips, **limits)


def _slip(entry: dict, common: dict, names: set[str], number: int) -> Slip:
    where = f"slips {number}"
    check_names(entry, ("answer", "feedback"), ("given",), f" ({where})")
    given = entry.get("given", {})
    _check_values(given, f"given of {where}")
    _check_function(entry["answer"], common, given)
    return Slip(entry["answer"], text_of(entry["feedback"], f"{where} feedback", names), given)


def _choice(table: dict, common: dict, names: set[str]) -> Choice:
    options, right = [], []
    for number, entry in enumerate(_tables(table, "options"), 1):
        where = f"options {number}"
        check_names(entry, ("id", "text"), ("right", "feedback"), f" ({where})")
        if not isinstance(entry.get("right", False), bool):
            raise ValueError(f"right must be true or false ({where})")
        feedback = text_of(entry["feedback"], f"{where} feedback", names) if "feedback" in entry else None
        options.append(Option(_word(entry["id"], _ID, f"{where} id"), text_of(entry["text"], f"{where} text", names), feedback))
        right += [options[-1].id] if entry.get("right") else []
    computed = bool(common["answer"] or common["measure"])
    if len(options) < (2 if computed else 3):
        raise ValueError("there must be at least 3 options, or 2 where the right one is computed")
    _check_different([option.id for option in options], "options")
    if len(right) != (0 if computed else 1):
        raise ValueError("one option must be right, or none where the right one is computed")
    silent = [option.id for option in options if option.feedback is None and option.id not in right]
    if silent:
        raise ValueError(f"option {silent[0]} needs a feedback")
    return Choice(**common, options=tuple(options), right=right[0] if right else "")


def _order(table: dict, common: dict, names: set[str]) -> Order:
    steps = []
    for number, entry in enumerate(_tables(table, "steps"), 1):
        check_names(entry, ("id", "text"), (), f" (steps {number})")
        steps.append(Step(_word(entry["id"], _ID, f"steps {number} id"), text_of(entry["text"], f"steps {number} text", names)))
    if len(steps) < 3:
        raise ValueError("there must be at least 3 steps")
    _check_different([step.id for step in steps], "steps")
    return Order(**common, steps=tuple(steps))


def _open(table: dict, common: dict, names: set[str]) -> Open:
    if common["answer"] or common["measure"]:
        raise ValueError("an open item has no answer to compute")
    model_answer = text_of(table["model_answer"], "model_answer", names)
    return Open(**common, rubric=_texts(table["rubric"], "rubric", names), model_answer=model_answer)


_MAKERS: dict[str, Callable[[dict, dict, set], Item]] = {"number": _number, "choice": _choice, "order": _order, "open": _open}


def _cases(table: dict) -> tuple[Mapping, ...]:
    """All that may be drawn: draw as a table of lists is every combination, as a list of tables each of them."""
    draw, given = table.get("draw", {}), table.get("given", {})
    _check_values(given, "given")
    if isinstance(draw, dict):
        if not all(isinstance(values, list) and values for values in draw.values()):
            raise ValueError("draw must give each name a list of values")
        _check_count(math.prod(len(values) for values in draw.values()))  # before they are made: lists multiply fast
        drawn = [dict(zip(draw, combination, strict=True)) for combination in itertools.product(*draw.values())]
    else:
        drawn = draw
        if not isinstance(draw, list) or not draw or not all(isinstance(case, dict) and set(case) == set(draw[0]) for case in draw):
            raise ValueError("draw must be a table of lists, or a list of tables with the same names")
        _check_count(len(drawn))
    for case in drawn:
        _check_values(case, "draw")
    if set(drawn[0]) & set(given) or "answer" in drawn[0] or "answer" in given:
        raise ValueError("a name is drawn or given once, and answer is neither")
    cases = tuple({**case, **given} for case in drawn)
    if any(case in cases[:at] for at, case in enumerate(cases)):
        raise ValueError("draw has the same case twice")
    return cases


def _check_count(cases: int) -> None:
    if cases > MOST_CASES:
        raise ValueError(f"draw has {cases} cases, and the limit is {MOST_CASES}")


def _check_values(values: object, where: str) -> None:
    if not isinstance(values, dict):
        raise ValueError(f"{where} must be a table")
    for name, value in values.items():
        _word(name, _NAME, f"a name in {where}")
        if not isinstance(value, str) and not _is_number(value):
            raise ValueError(f"{name} in {where} must be a number or a word")


def _figure(value: object) -> Mapping[str, object] | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("figure must be a table")
    check_names(value, ("recording", "view"), value, " (figure)")
    if value["view"] not in VIEWS:
        raise ValueError(f"view must be one of: {', '.join(VIEWS)} (figure)")
    _word(value["recording"], _ID, "recording")
    return value


def _measure(value: object) -> Measure | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("measure must be a table")
    check_names(value, ("kind", "value"), (), " (measure)")
    return Measure(_word(value["kind"], _ID, "kind"), value["value"])


def _answer(table: dict, common: dict) -> str:
    if common["measure"]:
        if "answer" in table:
            raise ValueError("with measure there is no answer: measure.value gives it")
        _check_function(common["measure"].value, common)
        return ""
    if "answer" not in table:
        return ""
    _check_function(table["answer"], common)
    return table["answer"]


def function(name: str, has_result: bool) -> Callable:
    """What computes an answer: of answers*.py, and for what is read from a result of measured.py too. Raises ValueError."""
    rooms = (*ANSWERS, measured) if has_result else ANSWERS
    for room in rooms:
        found = getattr(room, name, None) if isinstance(name, str) and not name.startswith("_") else None
        if inspect.isfunction(found) and found.__module__ == room.__name__:
            return found
    raise ValueError(f"there is no function {str(name)[:80]} in engine/quiz/answers*.py{' or measured.py' if has_result else ''}")


def taken(found: Callable, values: Mapping, has_result: bool) -> dict:
    """Of what is drawn and given, what a function takes by name; its first parameter may be the result. Raises TypeError."""
    parameters = inspect.signature(found).parameters
    chosen = {name: value for name, value in values.items() if name in list(parameters)[1 if has_result else 0 :]}
    inspect.signature(found).bind(*([None] if has_result else []), **chosen)
    return chosen


def _check_function(name: object, common: dict, given: Mapping = MappingProxyType({})) -> None:
    """That there is such a function and that it can be called with whatever is drawn and given. Without a result it is called:
    a model that nobody knows or a length below 0 is found here, not in front of a learner."""
    has_result = common["figure"] is not None or common["measure"] is not None
    found = function(name, has_result)
    for case in common["cases"]:
        try:
            values = taken(found, {**case, **given}, has_result)
            if not has_result:
                found(**values)
        except (LabError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"{name} cannot be called with what is drawn and given: {error}") from error


def _texts(value: object, where: str, names: Collection[str]) -> tuple[Text, ...]:
    if value is None:
        return ()
    if not isinstance(value, dict) or set(value) != set(LANGS) or not all(isinstance(value[lang], list) for lang in LANGS):
        raise ValueError(f"{where} must be given as lists, {where}.ko and {where}.en")
    if not value["ko"] or len(value["ko"]) != len(value["en"]):
        raise ValueError(f"{where} must have as many texts in both languages, at least one")
    return tuple(text_of({"ko": ko, "en": en}, where, names) for ko, en in zip(value["ko"], value["en"], strict=True))


def _about(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ValueError("about must be a list")
    return tuple(_word(entry, _ABOUT, "about") for entry in value)


def _tables(table: dict, name: str) -> list[dict]:
    value = table.get(name, [])
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise ValueError(f"{name} must be a list of tables")
    return value


def _word(value: object, form: re.Pattern, where: str) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError(f"{where} = {str(value)[:80]!r} is not possible")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30


def _check_different(ids: list[str], where: str) -> None:
    if len(set(ids)) < len(ids):
        raise ValueError(f"two of the {where} have the same id")
