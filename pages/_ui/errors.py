"""A known failure as a sentence in the reader's language. No streamlit here.

English sentences are the engine's own (``engine.errors.MESSAGES``); the Korean
ones stand in ``errors.ko.toml`` under the same codes with the same facts.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from engine.errors import LabError

KOREAN = Path(__file__).with_name("errors.ko.toml")


def sentence(error: LabError | dict | None, lang: str) -> str:
    """What happened, why, and what to do, in one sentence.

    error: a LabError or its ``as_dict()``. A code without a Korean sentence falls back to the English one:
    reporting an error must not fail itself.
    """
    found = error.as_dict() if isinstance(error, LabError) else error or {}
    message = str(found.get("message") or found.get("code") or "?")
    if lang == "ko" and (template := korean().get(str(found.get("code")))):
        try:
            return template.format_map(found.get("facts") or {})
        except (KeyError, IndexError, ValueError):
            return message
    return message


@cache
def korean() -> dict[str, str]:
    """The Korean sentences by code."""
    with open(KOREAN, "rb") as file:
        return tomllib.load(file)
