"""What lengths and retrieval results have to say to the claims. Pure functions of a result, as in measured.py.

"In range" is the model as it is at the greatest length it was trained for. Of the lengths beyond, the one nearest to four
times the trained one is spoken of, as the lesson does. See `engine.experiments.lengths` and `.retrieval` for their form.
"""

from __future__ import annotations

from math import log

from engine.claims.claim import Measurement, Reading
from engine.claims.measured import LEVEL
from engine.formulas.intervals import wilson

PLAIN, YARN, BY_PARTS, LINEAR = "none", "yarn", "by-parts", "linear"
# Dynamic NTK, or NTK-aware, which a length's own factor makes the same.
BASE_CHANGED = ("dynamic", "ntk")
# Times in range: what text B says, what is called broken, and what a stretching that holds stays within.
THIRTY_TWO, BREAKS, HOLDS = 32.0, 1.5, 1.2
# What text B says YaRN loses at most.
LOSS = 0.02
SPOKEN_OF = 4
# A share of needles from which on nearly all are found.
NEARLY_ALL = 0.95


def plain_beyond(result: dict) -> Measurement | None:
    """B6: the model as it is at its first and at its last length beyond the trained one, over in range."""
    base, found = (
        _in_range(result),
        sorted((c["length"], c["perplexity"]) for c in _of(result, PLAIN) if c["length"] > result["trained"]),
    )
    if not (base and found):
        return None
    (first, near), (last, far) = found[0], found[-1]
    worst = max(value for _, value in found) / base
    readings = (
        Reading("trained", result["trained"], "tokens"),
        Reading("base", base, "perplexity"),
        Reading("first", first, "tokens"),
        Reading("near", near / base, "x"),
        Reading("last", last, "tokens"),
        Reading("far", far / base, "x"),
        Reading("worst", worst, "x"),
    )
    if worst >= THIRTY_TWO:
        return Measurement(readings, "explodes")
    return Measurement(readings, "breaks" if worst >= BREAKS else "rises" if worst > 1 + LEVEL else "level")


def base_changed(result: dict) -> Measurement | None:
    """A13: the model as it is, and with a base that follows the length."""
    length = _spoken_of(result)
    changed = next((value for name in BASE_CHANGED if (value := _perplexity(result, name, length))), None)
    readings = _beside_plain(result, length, changed)
    return Measurement(readings, _mends(readings)) if readings else None


def yarn_untuned(result: dict) -> Measurement | None:
    """A16, B7: YaRN without any fine-tuning, where it is spoken of and at the last length, over in range."""
    length = _spoken_of(result)
    readings, base = _beside_plain(result, length, _perplexity(result, YARN, length)), _in_range(result)
    last = max((c["length"] for c in _of(result, YARN)), default=None)
    if not readings:
        return None
    far = _perplexity(result, YARN, last) / base
    readings += (Reading("last", last, "tokens"), Reading("far", far, "x"))
    values = {reading.id: reading.value for reading in readings}
    if max(values["ratio"], far) < 1 + LOSS:
        return Measurement(readings, "within")
    return Measurement(readings, _mends(readings))


def slow_ones_divided(result: dict) -> Measurement | None:
    """B11: dividing the slow pairs and leaving the fastest, against dividing all, against dividing none."""
    length = _spoken_of(result)
    readings, base = _beside_plain(result, length, _perplexity(result, BY_PARTS, length)), _in_range(result)
    divided = _perplexity(result, LINEAR, length)
    if not (readings and divided):
        return None
    readings += (Reading("all", divided / base, "x"),)
    return Measurement(readings, _mends(readings))


def needles(result: dict) -> Measurement | None:
    """A16: how many needles are found with YaRN beyond the trained length, of all depths together, and as it is."""
    length, guess = _spoken_of(result), result.get("guess")
    inside = max((c["length"] for c in _of(result, PLAIN) if c["length"] <= result["trained"]), default=None)
    yarn, plain, within = (_rates(result, *where) for where in ((YARN, length), (PLAIN, length), (PLAIN, inside)))
    if not (guess and yarn and plain and within):
        return None
    right, trials, worst = yarn
    readings = (
        Reading("guess", guess, "share"),
        Reading("length", length, "tokens"),
        Reading("times", length / result["trained"], "x"),
        Reading("trials", trials, ""),
        Reading("within", within[0] / within[1], "share"),
        Reading("plain", plain[0] / plain[1], "share"),
        Reading("yarn", right / trials, "share"),
        Reading("worst", worst, "share"),
    )
    if wilson(*within[:2])[0] <= guess:
        return Measurement(readings, "blind")
    if wilson(right, trials)[0] <= guess:
        return Measurement(readings, "lost")
    return Measurement(readings, "found" if worst >= NEARLY_ALL else "some")


def _of(result: dict, method: str) -> list[dict]:
    return [c for c in result.get("cells") or [] if c["method"] == method and (c.get("perplexity") or c.get("trials"))]


def _perplexity(result: dict, method: str, length: int | None) -> float | None:
    return next((c["perplexity"] for c in _of(result, method) if c["length"] == length), None)


def _in_range(result: dict) -> float | None:
    inside = [c for c in _of(result, PLAIN) if c["length"] <= result["trained"]]
    return max(inside, key=lambda c: c["length"])["perplexity"] if inside else None


def _spoken_of(result: dict) -> int | None:
    beyond = [length for length in result.get("lengths") or [] if length > result["trained"]]
    return min(beyond, key=lambda length: abs(log(length / (SPOKEN_OF * result["trained"]))), default=None)


def _beside_plain(result: dict, length: int | None, stretched: float | None) -> tuple[Reading, ...]:
    """In range, the model as it is, and stretched; nothing where one of them was not measured."""
    base, plain = _in_range(result), _perplexity(result, PLAIN, length)
    if not (base and plain and stretched):
        return ()
    return (
        Reading("trained", result["trained"], "tokens"),
        Reading("length", length, "tokens"),
        Reading("times", length / result["trained"], "x"),
        Reading("plain", plain / base, "x"),
        Reading("ratio", stretched / base, "x"),
    )


def _mends(readings: tuple[Reading, ...]) -> str:
    """Whether a stretching holds, helps beside the model as it is, or does neither."""
    values = {reading.id: reading.value for reading in readings}
    if values["ratio"] >= (1 - LEVEL) * values["plain"]:
        return "useless"
    return "holds" if values["ratio"] <= HOLDS else "helps"


def _rates(result: dict, method: str, length: int | None) -> tuple[int, int, float] | None:
    """(right, trials) of all depths at a length, and the rate of the worst depth."""
    cells = [c for c in _of(result, method) if c["length"] == length]
    return (sum(c["right"] for c in cells), sum(c["trials"] for c in cells), min(c["rate"] for c in cells)) if cells else None
