"""What files of others may hold: limits, what is refused, what is made harmless. Pure.

A file is refused as a whole, with the line, if it is too large, no text, or broken. A question of a kind that there is none of
here is left out, with its line. Marks that a page would act on, HTML and pictures from elsewhere, are made plain text.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field

from engine.errors import LabError
from engine.quiz.item import Item

MOST_BYTES = 1 << 20
MOST_ITEMS = 500
MOST_CHARACTERS = 4_000
MOST_OPTIONS = 20
HIGHEST = 1e30
# Also line and paragraph separators, marks that turn the direction of writing, and the private characters that gift.py uses.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ue000-\ue010\ufffe\uffff]")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>|<!--.*?-->", re.S)
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


@dataclass
class Imported:
    """notes: (line, reason) of what was left out or changed; reason: a key of engine/quiz/sentences.toml."""

    items: list[Item] = field(default_factory=list)
    notes: list[tuple[int, str]] = field(default_factory=list)


class Refused(ValueError):
    """One question cannot be had here. reason: a key of sentences.toml."""


def refuse(line: int, why: str) -> LabError:
    """The whole file cannot be used. why: a clause in English."""
    return LabError("quiz-import", line=line, why=why)


def text_of(raw: bytes) -> str:
    """A file as text, lines ending in a newline each. Raises LabError("quiz-import")."""
    if len(raw) > MOST_BYTES:
        raise refuse(1, f"it has {len(raw)} bytes, and the limit is {MOST_BYTES}")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse(raw.count(b"\n", 0, error.start) + 1, "it is not UTF-8 text") from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if found := _CONTROL.search(text):
        raise refuse(text.count("\n", 0, found.start()) + 1, "it has a control character")
    if not text.strip():
        raise refuse(1, "it is empty")
    return text


def harmless(text: str, line: int, notes: list[tuple[int, str]], *, is_html: bool = False) -> str:
    """A text that a page can show as Markdown. is_html: it says itself that it is HTML, so its tags are taken away."""
    if len(text) > MOST_CHARACTERS:
        raise refuse(line, f"a text has {len(text)} characters, and the limit is {MOST_CHARACTERS}")
    plain = html.unescape(_TAG.sub("", text)) if is_html else text
    plain = _CONTROL.sub("", plain)
    plain = re.sub(r"<(?=[a-zA-Z/!?])", "‹", plain)  # of what is no tag, or only becomes one
    plain = plain.replace("![", "! [")
    plain = re.sub(r"\]\((?!https?://|#|/)", "] (", plain)
    if plain != text:
        notes.append((line, "made_plain"))
    return plain.strip()


def number(text: str) -> float:
    """A number as files write it: no units, a point. Raises Refused."""
    if not re.fullmatch(r"[-+]?([0-9]{1,40}(\.[0-9]{0,400})?|\.[0-9]{1,400})([eE][-+]?[0-9]{1,3})?", text.strip(), re.ASCII):
        raise Refused("no_number")
    value = float(text)
    if abs(value) > HIGHEST:
        raise Refused("not_finite")
    return value


def id_of(title: str, place: int, taken: set[str]) -> str:
    """The id a question has, else one from its title or place; a second of the same name gets a number."""
    words = re.findall(r"[a-z0-9]+", title.lower()) if title.isascii() else []
    plain = title if _ID.fullmatch(title) else "-".join(words) or f"question-{place}"
    plain = found = plain[:80].strip("-")
    count = 1
    while found in taken:
        count += 1
        found = f"{plain}-{count}"
    taken.add(found)
    return found


def lesson_of(text: str) -> str:
    return text if _ID.fullmatch(text) and len(text) <= 80 else "imported"
