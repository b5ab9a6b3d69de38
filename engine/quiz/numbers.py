"""What a learner types as a number, in the unit of the item, or why it cannot be read as one. Pure.

    "1,5 GiB"  "16.8GB"  "１２.5"  "3e9 B/s"  "4.5 × 10¹⁶"  "131,072"  "13만"  "50 %"  "2200ms"

A comma is a decimal one unless what follows are groups of three digits, as Korean and English write thousands: "1,500" is
read as 1500, and said so.
"""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass

from engine.quiz.units import UNITS, Unit, find

MOST_CHARACTERS = 60
_SPACES = re.compile(r"[\s\u00a0\u2000-\u200a\u202f\u3000]+")
_MINUS = str.maketrans("−–", "--")
_SUPERSCRIPTS = "⁻⁺⁰¹²³⁴⁵⁶⁷⁸⁹"
_AS_DIGITS = str.maketrans(_SUPERSCRIPTS, "-+0123456789")
# Korean powers of ten, which are written after one another: 5천만.
_POWERS = {"십": 1, "백": 2, "천": 3, "만": 4, "억": 8, "조": 12}
_NUMBER = re.compile(
    r"(?P<sign>[-+]?) ?"
    r"(?P<digits>[0-9][0-9.,'’_]*(?: [0-9]{3}(?![0-9]))*(?:[.,][0-9]+)?|[.,][0-9]+)"
    r"(?:[eE](?P<e>[-+]?[0-9]{1,4})"
    r"| ?[×x*·] ?10(?:\^ ?(?P<caret>[-+]?[0-9]{1,4})|(?P<raised>[⁻⁺]?[⁰¹²³⁴⁵⁶⁷⁸⁹]{1,4})))?"
    r" ?(?P<powers>[십백천]?[만억조]?)"
    r" ?(?P<unit>.*)",
    re.ASCII,
)
_WHOLE_GROUPS = re.compile(r"[1-9][0-9]{0,2}(?:(?P<mark>[.,])[0-9]{3})(?:(?P=mark)[0-9]{3})*")


@dataclass(frozen=True)
class Read:
    """value: in the item's unit. unit: the one that was written, or the item's. written: the number in that unit.
    doubtful: it could have been meant otherwise, so one must say how it was read."""

    value: float
    written: float
    unit: str
    doubtful: bool = False


class Unreadable(ValueError):
    """reason: a key of engine/quiz/sentences.toml; facts: what the sentence needs; "unit" is the name of one of UNITS."""

    def __init__(self, reason: str, **facts: str) -> None:
        super().__init__(reason)
        self.reason, self.facts = reason, facts


def read(text: str, unit: str) -> Read:
    """unit: one of UNITS, that of the item. Raises Unreadable."""
    wanted = UNITS[unit]
    if len(text) > 10 * MOST_CHARACTERS:
        raise Unreadable("too_long", limit=str(MOST_CHARACTERS))
    plain = _plain(text)
    if not plain:
        raise Unreadable("empty")
    if len(plain) > MOST_CHARACTERS:
        raise Unreadable("too_long", limit=str(MOST_CHARACTERS))
    found = _NUMBER.fullmatch(plain)
    if not found:
        raise Unreadable("no_number")
    number, doubtful = _number(found)
    if not math.isfinite(number):
        raise Unreadable("not_finite")
    written = _unit(found["unit"], wanted)
    if wanted.name == "share" and not found["unit"] and not 0 <= number <= 1:
        raise Unreadable("share_or_percent", number=f"{number:g}")
    value = number if written is wanted else number * written.factor / wanted.factor
    if not math.isfinite(value):
        raise Unreadable("not_finite")
    return Read(value, number, written.name, doubtful and not wanted.counted)


def shown(value: float, unit: str, lang: str) -> str:
    """``15.625 GiB``, ``131,072토큰``, ``3.3배``, ``4.5 × 10¹⁶ FLOP``: four digits, all of a whole number below 10¹²."""
    name = getattr(UNITS[unit], lang)
    if not name:
        return digits(value)
    if value == 1 and lang == "en" and UNITS[unit].counted:
        name = name.removesuffix("s")
    glued = not name[0].isascii() and name[0] != "µ"  # Korean words, and ×
    return f"{digits(value)}{name}" if glued else f"{digits(value)} {name}"


def digits(value: float) -> str:
    """A number alone, as `shown` writes it."""
    if value == round(value) and abs(value) < 1e12:
        return f"{round(value):,}"
    if 1e-4 <= abs(value) < 1e12:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    mantissa, _, exponent = f"{value:.3e}".partition("e")
    power = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{float(mantissa):g} × 10{power}"


def _plain(text: str) -> str:
    """Digits, marks and letters of full width as usual ones, units in one square (㎇) in letters, one kind of space and minus,
    nothing around the number."""
    half = "".join(unicodedata.normalize("NFKC", c) if "！" <= c <= "～" or "㍱" <= c <= "㏟" else c for c in text)
    half = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in half)
    return _SPACES.sub(" ", half).translate(_MINUS).strip(" ").lstrip("~≈약=").rstrip(".").strip(" ")


def _number(found: re.Match) -> tuple[float, bool]:
    """The number, and whether its comma could have been meant otherwise."""
    body = re.sub(r"[ '’_]", "", found["digits"])
    doubtful = False
    if "." in body and "," in body:
        mark = max(".,", key=body.rfind)
        whole, _, rest = body.rpartition(mark)
        if not _WHOLE_GROUPS.fullmatch(whole) or mark in whole:
            raise Unreadable("no_number")
        body = f"{re.sub('[.,]', '', whole)}.{rest}"
    elif body.count(",") == 1:
        doubtful = bool(_WHOLE_GROUPS.fullmatch(body))
        body = body.replace(",", "" if doubtful else ".")
    elif body.count(",") + body.count(".") > 1:
        if not _WHOLE_GROUPS.fullmatch(body):
            raise Unreadable("no_number")
        body = re.sub("[.,]", "", body)
    power = int(found["e"] or found["caret"] or (found["raised"] or "0").translate(_AS_DIGITS) or 0)
    power += sum(_POWERS[letter] for letter in found["powers"])
    return float(f"{found['sign']}{body}e{power}"), doubtful


def _unit(written: str, wanted: Unit) -> Unit:
    """Raises Unreadable."""
    plain = re.sub(r"(seconds?|sec|초)$", "s", re.sub(r" ?per ", "/", written)) if re.search(r"/| per ", written) else written
    plain = plain.replace(" ", "")
    if not plain:
        if not wanted.bare:
            raise Unreadable("no_unit", unit=wanted.name)
        return wanted
    if re.search(rf"[0-9{_SUPERSCRIPTS}]", plain):
        raise Unreadable("no_number")
    found = find(plain, wanted)
    if not found:
        raise Unreadable(_or_unwanted("unknown_unit", wanted), written=_short(written), unit=wanted.name)
    if found[0].dimension != wanted.dimension:
        raise Unreadable(_or_unwanted("other_dimension", wanted), written=_short(written), unit=wanted.name)
    if len({unit.factor for unit in found}) > 1:
        raise Unreadable("which_unit", written=_short(written), units=", ".join(unit.name for unit in found))
    return found[0]


def _or_unwanted(reason: str, wanted: Unit) -> str:
    """Where a number alone is asked for, no unit is the right one."""
    return reason if wanted.en else "unit_unwanted"


def _short(text: str) -> str:
    """What was typed, to be shown again: no marks that Markdown or HTML would take for their own."""
    return re.sub(r"[^\w/%. -]", "?", text)[:20]
