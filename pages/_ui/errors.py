"""A known failure as a sentence in the reader's language. No streamlit here.

English sentences are the engine's own (``engine.errors.MESSAGES``); the Korean
ones stand in ``errors.ko.toml`` under the same codes with the same facts.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

from engine.errors import MESSAGES, LabError
from pages._ui.words import Words, field_label, kind_name

KOREAN = Path(__file__).with_name("errors.ko.toml")


def sentence(error: LabError | dict | None, words: Words) -> str:
    """What happened, why, and what to do, in one sentence.

    error: a LabError or its ``as_dict()``. A code without a Korean sentence falls back to the English one:
    reporting an error must not fail itself.
    """
    found = error.as_dict() if isinstance(error, LabError) else error or {}
    code, facts = str(found.get("code")), dict(found.get("facts") or {})
    message = str(found.get("message") or code)
    template = korean().get(code) if words.lang == "ko" else MESSAGES.get(code)
    if template is None:
        return message
    if isinstance(facts.get("field"), str):
        facts["field"] = field_label(facts["field"], words)
    if isinstance(facts.get("kind"), str):
        facts["kind"] = kind_name(facts["kind"], words)
    if words.lang == "ko" and isinstance(facts.get("expected"), str):
        facts["expected"] = _expected(facts["expected"])
    try:
        return " ".join(template.format_map(facts).split())
    except (KeyError, IndexError, ValueError):
        return message


def _expected(text: str) -> str:
    """What the engine expects of a setting, in Korean; anything else stays as it is."""
    if found := re.fullmatch(r"a (whole )?number from (\S+) to (\S+)", text):
        return f"{_grouped(found.group(2))} 이상 {_grouped(found.group(3))} 이하의 {'정수' if found.group(1) else '수'}"
    if found := re.fullmatch(r"at least (\d+)", text):
        return f"{_grouped(found.group(1))} 이상"
    if found := re.fullmatch(r"up to (\d+) different whole numbers from (\d+) to (\d+)", text):
        return f"{_grouped(found.group(2))} 이상 {_grouped(found.group(3))} 이하의 서로 다른 정수(최대 {found.group(1)}개)"
    if found := re.fullmatch(r"(\d+) to (\d+) different whole numbers", text):
        return f"서로 다른 정수({found.group(1)}~{found.group(2)}개)"
    if found := re.fullmatch(r"such that there are (\d+) to (\d+) steps, prefills included", text):
        return f"프리필까지 합해 스텝이 {found.group(1)}개에서 {found.group(2)}개가 되는 값"
    return text


def _grouped(number: str) -> str:
    return f"{int(number):,}" if number.isdigit() else number


@cache
def korean() -> dict[str, str]:
    """The Korean sentences by code."""
    with open(KOREAN, "rb") as file:
        return tomllib.load(file)
