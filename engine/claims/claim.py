"""What a claim of a source text is made of. Pure data.

A formula is written once, with a symbol in braces for every number that goes into it: ``2 × {n_layers} × {d_head}``.
What a page shows, with symbols and with numbers, is that one text, so the two cannot part; a test computes the second
and finds our value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

TEXTS = ("A", "B")
LESSONS = ("schedules", "roofline", "memory", "sinks", "rope", "transfer", "pools", "ring")
VERDICTS = ("wrong", "incomplete", "depends", "right")
SOURCES = ("published", "text", "chosen")
SYMBOL = re.compile(r"\{(\w+)\}")
_WRITTEN_OUT = 1e12  # larger numbers are written as powers of ten


@dataclass(frozen=True)
class Source:
    """Where a number is from.

    "published": from a profile or a paper's table; title is whose, text the sentence that says where.
    "text": the source text itself gives it; text is which ("A", "B").
    "chosen": ours; text is the key of the reason, for the pages' words.
    """

    kind: str
    text: str
    title: str = ""


@dataclass(frozen=True)
class Input:
    """A number a formula is given. symbol: as the formula has it; one symbol means one thing in all claims."""

    symbol: str
    value: float
    unit: str
    source: Source


@dataclass(frozen=True)
class Line:
    """One computation: a formula, what goes in, what comes out, and what the text says instead.

    said: the text's value in the same unit, as one number or as (lowest, highest); empty where it gives none.
    """

    id: str
    formula: str
    inputs: tuple[Input, ...]
    value: float
    unit: str
    said: tuple[float, ...] = ()

    @property
    def with_symbols(self) -> str:
        return SYMBOL.sub(r"\1", self.formula)

    @property
    def with_numbers(self) -> str:
        values = {given.symbol: written(given.value) for given in self.inputs}
        return SYMBOL.sub(lambda found: values[found[1]], self.formula)

    @property
    def ratio(self) -> float | None:
        """Our value over the text's, over the nearer end of a range; 1 within it; None where the text gives none."""
        if not self.said:
            return None
        low, high = min(self.said), max(self.said)
        nearest = min(max(self.value, low), high)
        return self.value / nearest if nearest else None


@dataclass(frozen=True)
class Reading:
    """A measured number; low, high: over the repeats, where there were several."""

    id: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Measurement:
    """What a result has to say to a claim: its numbers, and which of the claim's findings they amount to."""

    readings: tuple[Reading, ...]
    finding: str


@dataclass(frozen=True)
class Claim:
    """A claim of a source text, with what the arithmetic gives.

    id: its row in the table of claims, "A1" is of text A. lessons: where it matters. measured: for each kind of result
    that has something to say to it, what reads that; None of a result that lacks what it needs.
    """

    id: str
    lessons: tuple[str, ...]
    verdict: str
    lines: tuple[Line, ...] = ()
    measured: Mapping[str, Callable[[dict], Measurement | None]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return self.id[0]

    def measure(self, result: dict) -> Measurement | None:
        """What a result says to this claim; None if it is of another kind or lacks what is needed."""
        read = self.measured.get(result.get("kind"))
        return read(result) if read else None


def written(number: float) -> str:
    """A number inside a formula, so exact that the formula can be computed from it: ``8,030,261,248``,
    ``(9.895 × 10¹⁴)``."""
    if abs(number) < _WRITTEN_OUT:
        whole = number == round(number)
        return f"{round(number):,}" if whole else f"{number:,.10g}"
    mantissa, _, exponent = f"{number:.12e}".partition("e")
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"({float(mantissa):.10g} × 10{power})"
