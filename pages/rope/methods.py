"""The methods as lessons name and draw them, and how a result is read by length. Pure."""

from __future__ import annotations

from math import log

from engine.formulas.rope import METHODS
from pages._ui.words import Words

PLAIN, STREAMING = "none", "streaming"
ORDER = (*METHODS, STREAMING)
# Colour and dash of a line (see pages/_ui/plot.py).
_STYLES = {"none": 4, "linear": 3, "ntk": 1, "dynamic": 7, "by-parts": 6, "yarn": 0, "llama3": 5, "streaming": 2}
# Of the lengths beyond the trained one, the one nearest to so many times it is spoken of.
_SPOKEN_OF = 4


def title(method: str, words: Words) -> str:
    """As a reader knows it."""
    return words(f"method.{method}")


def style(method: str) -> int:
    """The same wherever a method is drawn."""
    return _STYLES.get(method, 5)


def present(cells: list[dict]) -> list[str]:
    """The methods of some cells, in the order in which they are told."""
    found = {cell["method"] for cell in cells}
    return [method for method in ORDER if method in found]


def beyond(result: dict) -> list[int]:
    """The lengths that the model was not trained for, rising."""
    return sorted(length for length in result["lengths"] if length > result["trained"])


def spoken_of(result: dict) -> int | None:
    """The length beyond the trained one that sentences are about; None where there is none."""
    found = beyond(result)
    return min(found, key=lambda length: abs(log(length / (_SPOKEN_OF * result["trained"]))), default=None)


def of_trained(length: int, trained: int) -> str:
    """``512`` of 128 -> ``4``; ``12,288`` of 8,192 -> ``1.5``: how many times the trained length."""
    return short(length / trained)


def short(value: float) -> str:
    """``2.0`` -> ``2``; ``1.5`` -> ``1.5``."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
