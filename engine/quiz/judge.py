"""An answer to a posed item: right, wrong or unclear, and why, in a sentence of the learner's language. Pure.

Unclear is what cannot be read as an answer; it is no attempt.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from engine.quiz import numbers
from engine.quiz.posed import Posed

SENTENCES = Path(__file__).with_name("sentences.toml")
MOST_CHARACTERS = 10_000
_BINARY = tuple(1.024**power for power in (1, 2, 3, 4))
# How much a number that a typical factor explains may be off: less than half of the smallest such factor.
_CLOSE = 0.01
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Verdict:
    """state: right, wrong, unclear, or of an open item open (written, so the model answer may be shown).

    feedback: a sentence or two, Markdown. reason: why, a key of sentences.toml, or "slip" or "option" where the item itself
    has the sentence. answer: the right one, for the page to show when it is time; "" where unclear.
    """

    state: str
    feedback: str
    reason: str
    answer: str = ""
    facts: dict[str, str] = field(default_factory=dict)


def judge(posed: Posed, given: str | Sequence[str] | None) -> Verdict:
    """given: what was typed (number, open), the option's id, or the steps' ids in the learner's order."""
    return _JUDGES[posed.item.kind](posed, given)


def sentence(reason: str, lang: str, **facts: str) -> str:
    return _sentences()[reason][lang].format(**facts)


def _number(posed: Posed, given: object) -> Verdict:
    try:
        read = numbers.read(given if isinstance(given, str) else "", posed.unit)
    except numbers.Unreadable as error:
        facts = dict(error.facts)
        if "unit" in facts:
            facts["unit"] = getattr(numbers.UNITS[facts["unit"]], posed.lang)
        return _unclear(posed, error.reason, **facts)
    note = sentence("read_as", posed.lang, read=numbers.shown(read.written, read.unit, posed.lang)) if read.doubtful else ""
    if _within(posed, read.value, posed.answer):
        return Verdict("right", _joined(sentence("right", posed.lang), note), "right", posed.right)
    slips = [slip for slip in posed.slips if _within(posed, read.value, slip[0])]
    if slips:
        text = min(slips, key=lambda slip: abs(slip[0] - read.value))[1]
        return Verdict("wrong", _joined(text, note), "slip", posed.right)
    reason = _usual_mistake(posed, read.value)
    return Verdict("wrong", _joined(sentence(reason, posed.lang), note), reason, posed.right)


def _within(posed: Posed, value: float, target: float) -> bool:
    item = posed.item
    allowed = item.within if item.within is not None else item.tolerance * abs(target)
    return abs(value - target) <= allowed + _ROUNDING * abs(target)


def _usual_mistake(posed: Posed, value: float) -> str:
    """What a wrong number looks like that no slip explains."""
    answer, unit = posed.answer, numbers.UNITS[posed.unit]
    if value < 0 < answer:
        return "negative"
    ratio = value / answer if answer else 0
    if unit.dimension.startswith("bytes") and ratio > 0:
        if any(_is(ratio, factor) or _is(ratio, 1 / factor) for factor in _BINARY):
            return "binary"
        if _is(ratio, 8) or _is(ratio, 1 / 8):
            return "bits"
    if unit.dimension == "share" and (_is(ratio, 100) or _is(ratio, 0.01)):
        return "hundred"
    if not unit.bare and ratio > 0 and any(_is(ratio, 1000.0**p) or _is(ratio, 1024.0**p) for p in (-3, -2, -1, 1, 2, 3)):
        return "thousand"
    return "too_large" if value > answer else "too_small"


def _is(ratio: float, factor: float) -> bool:
    return abs(ratio / factor - 1) <= _CLOSE


def _choice(posed: Posed, given: object) -> Verdict:
    chosen = next((entry for entry in posed.entries if entry.id == given), None)
    if chosen is None:
        return _unclear(posed, "nothing_chosen")
    if chosen.id == posed.answer:
        return Verdict("right", chosen.feedback or sentence("right", posed.lang), "right", posed.right)
    return Verdict("wrong", chosen.feedback or sentence("wrong", posed.lang), "option", posed.right)


def _order(posed: Posed, given: object) -> Verdict:
    ids = tuple(given) if isinstance(given, (list, tuple)) else ()
    if not all(isinstance(id_, str) for id_ in ids) or sorted(ids) != sorted(posed.answer):
        return _unclear(posed, "not_each_once")
    if ids == posed.answer:
        return Verdict("right", sentence("right", posed.lang), "right", posed.right)
    first = next(at for at, (one, other) in enumerate(zip(ids, posed.answer, strict=True)) if one != other)
    facts = {"n": str(first), "next": str(first + 1)}
    reason = "order_from" if first else "order_begin"
    return Verdict("wrong", sentence(reason, posed.lang, **facts), reason, posed.right, facts)


def _open(posed: Posed, given: object) -> Verdict:
    text = given if isinstance(given, str) else ""
    if not text.strip():
        return _unclear(posed, "empty")
    if len(text) > MOST_CHARACTERS:
        return _unclear(posed, "too_long", limit=f"{MOST_CHARACTERS:,}")
    return Verdict("open", sentence("compare", posed.lang), "compare", posed.model_answer)


_JUDGES = {"number": _number, "choice": _choice, "order": _order, "open": _open}


def _unclear(posed: Posed, reason: str, **facts: str) -> Verdict:
    return Verdict("unclear", sentence(reason, posed.lang, **facts), reason, facts=facts)


def _joined(*texts: str) -> str:
    return " ".join(text for text in texts if text)


@cache
def _sentences() -> dict[str, dict[str, str]]:
    with open(SENTENCES, "rb") as file:
        return tomllib.load(file)
