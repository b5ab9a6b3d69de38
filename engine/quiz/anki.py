"""Quizzes as cards for Anki: a text file that it imports as it is (docs.ankiweb.net, "Importing Text Files"). Pure.

A card has the question in front and the answer behind; both are HTML made here, everything in it escaped. The first field is the
item's id, by which Anki knows a card again when a newer file is imported.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from html import escape

from engine.quiz.flat import LeftOut
from engine.quiz.item import Item, Number
from engine.quiz.posed import Posed, pose
from engine.quiz.units import UNITS

_HEAD = ("#separator:Comma", "#html:true", "#notetype:Basic", "#columns:ID,Front,Back,Tags", "#guid column:1", "#tags column:4")


def write(items: Iterable[Item], lang: str, seed: str | int) -> tuple[str, tuple[LeftOut, ...]]:
    """The file, and what it lacks of the items."""
    place = io.StringIO()
    table, lost = csv.writer(place, lineterminator="\n"), []
    for item in items:
        missing = list(_missing(item))
        lost += missing
        if not any(entry.whole for entry in missing):
            posed = pose(item, seed, lang)
            tags = " ".join(("long-context-lab", item.lesson, *item.about))
            table.writerow((item.id, _front(posed), _back(posed), tags))
    return "\n".join(_HEAD) + "\n" + place.getvalue(), tuple(lost)


def _missing(item: Item) -> Iterable[LeftOut]:
    if item.needs_result:
        yield LeftOut(item.id, "figure" if item.figure else "measure", whole=True)
        return
    if len(item.cases) > 1:
        yield LeftOut(item.id, "draw")
    if item.hints:
        yield LeftOut(item.id, "hints")
    if isinstance(item, Number) and item.slips:
        yield LeftOut(item.id, "feedback")


def _front(posed: Posed) -> str:
    text = posed.text
    if isinstance(posed.item, Number) and (unit := getattr(UNITS[posed.unit], posed.lang)):
        text = f"{text} ({unit})"
    return _block(text) + _list(entry.text for entry in posed.entries)


def _back(posed: Posed) -> str:
    if posed.item.kind == "order":
        texts = {entry.id: entry.text for entry in posed.entries}
        right = _list((texts[id_] for id_ in posed.answer), "ol")
    else:
        right = _block(posed.right, "b")
    said = [entry for entry in posed.entries if entry.feedback and entry.id != posed.answer]
    return right + _block(posed.explain) + _list(f"{entry.text} – {entry.feedback}" for entry in said) + _list(posed.rubric)


def _block(text: str, inner: str = "span") -> str:
    """Begins with a tag, so that no spreadsheet takes it for a formula."""
    shown = escape(text.strip()).replace("\n", "<br>")
    return f"<div><{inner}>{shown}</{inner}></div>"


def _list(texts: Iterable[str], kind: str = "ul") -> str:
    entries = "".join(f"<li>{escape(text.strip())}</li>" for text in texts)
    return f"<{kind}>{entries}</{kind}>" if entries else ""
