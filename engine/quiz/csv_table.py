"""Quizzes as a table for a spreadsheet, one question a row, and back. Pure.

    id, lesson, kind     kind: number, choice, order or open
    text, explain
    answer               the number; the place of the right option, from 1; the model answer; nothing for an order
    within, unit         of a number: how far off it may be, and its unit
    option_1, said_1, …  options and what is said to each; typical wrong numbers and what is said to them; steps in the right
                         order; the points of a rubric

A cell that a spreadsheet would take for a formula gets an apostrophe before it, which is taken off again when the file is read
(OWASP, "CSV injection").
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from itertools import zip_longest

from engine.quiz import foreign
from engine.quiz.flat import LeftOut, choices, flat, same, steps
from engine.quiz.foreign import Imported, Refused
from engine.quiz.item import Choice, Item, Number, Open, Order, Slip
from engine.quiz.units import UNITS

HOLDS = ("ordering", "unit", "rubric", "explain", "feedback")
COLUMNS = ("id", "lesson", "kind", "text", "explain", "answer", "within", "unit")
_NUMBER = re.compile(r"-?[0-9][0-9.]*(e[-+]?[0-9]+)?")
_RISKY = re.compile(r"'*[=+\-@\t\r\n＝＋－＠]")


def write(items: Iterable[Item], lang: str, seed: str | int) -> tuple[str, tuple[LeftOut, ...]]:
    """The file, and what it lacks of the items. It begins with a byte order mark, by which spreadsheets know UTF-8."""
    kept, lost = flat(items, lang, seed, HOLDS)
    rows = [_row(item) for item in kept]
    most = max((len(row) - len(COLUMNS) for row in rows), default=0) // 2
    head = [*COLUMNS, *(f"{name}_{at}" for at in range(1, most + 1) for name in ("option", "said"))]
    place = io.StringIO()
    table = csv.writer(place, lineterminator="\r\n")
    table.writerow(head)
    table.writerows([_safe(cell) for cell in [*row, *[""] * (len(head) - len(row))]] for row in rows)
    return "\ufeff" + place.getvalue(), lost


def _row(item: Item) -> list[str]:
    """Of a flat item."""
    answer = within = unit = ""
    if isinstance(item, Number):
        answer, within, unit = repr(item.value), repr(float(item.within)), item.unit
        entries = [(repr(slip.value), slip.feedback.en) for slip in item.slips]
    elif isinstance(item, Choice):
        answer = str([option.id for option in item.options].index(item.right) + 1)
        entries = [(option.text.en, option.feedback.en if option.feedback else "") for option in item.options]
    elif isinstance(item, Order):
        entries = [(step.text.en, "") for step in item.steps]
    else:
        answer = item.model_answer.en
        entries = [(text.en, "") for text in item.rubric]
    cells = [item.id, item.lesson, item.kind, item.text.en, item.explain.en, answer, within, unit]
    return [*cells, *(cell for entry in entries for cell in entry)]


def _safe(cell: str) -> str:
    return f"'{cell}" if _RISKY.match(cell) and not _NUMBER.fullmatch(cell) else cell


def _as_meant(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _RISKY.match(cell) else cell


def read(raw: bytes) -> Imported:
    """The questions of a file; rows that are none in the notes. Raises LabError("quiz-import")."""
    text = foreign.text_of(raw)
    mark = max(",;\t", key=text.partition("\n")[0].count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=mark, strict=True)
    found, taken = Imported(), set()
    try:
        head = [cell.strip().lower() for cell in next(table)]
        missing = [name for name in ("kind", "text", "answer") if name not in head]
        if missing or len(set(head)) < len(head):
            raise foreign.refuse(1, f"its first line must name the columns once each: {', '.join(COLUMNS)}, option_1, said_1, …")
        line = table.line_num + 1
        for row in table:
            at, line = line, table.line_num + 1
            if not any(cell.strip() for cell in row):
                continue
            if len(found.items) >= foreign.MOST_ITEMS:
                raise foreign.refuse(at, f"it has more than {foreign.MOST_ITEMS} questions")
            if len(row) > len(head):
                raise foreign.refuse(at, "it has more cells than the first line has names")
            cells = {name: _as_meant(cell) for name, cell in zip_longest(head, row, fillvalue="")}
            try:
                found.items.append(_item(at, cells, taken, found.notes))
            except Refused as error:
                found.notes.append((at, str(error)))
    except csv.Error as error:
        raise foreign.refuse(table.line_num or 1, f"it is no table: {error}") from error
    return found


def _item(line: int, cells: dict[str, str], taken: set[str], notes: list) -> Item:
    def plain(name: str) -> str:
        return foreign.harmless(cells.get(name, ""), line, notes)

    kind, entries = cells["kind"].strip().lower(), []
    numbers = sorted(int(name[7:]) for name in cells if re.fullmatch(r"option_[0-9]{1,3}", name))
    for at in numbers:
        entry = (plain(f"option_{at}"), plain(f"said_{at}"))
        if any(entry):
            entries.append(entry)
    if len(entries) > foreign.MOST_OPTIONS:
        raise Refused("many_options")
    if not plain("text") or not all(text for text, _ in entries):
        raise Refused("no_text")
    kept = set(taken)
    common = {
        "id": foreign.id_of(cells.get("id", "").strip(), line, kept),
        "lesson": foreign.lesson_of(cells.get("lesson", "").strip()),
        "part": "",
        "text": same(plain("text")),
        "explain": same(plain("explain")),
    }
    if kind == "number":
        item = _number(cells, entries, common)
    elif kind == "choice":
        options, answer = choices(entries), cells["answer"].strip()
        if not re.fullmatch(r"[0-9]{1,2}", answer, re.ASCII) or not 1 <= int(answer) <= len(options) or len(options) < 2:
            raise Refused("several_right")
        item = Choice(**common, options=options, right=options[int(answer) - 1].id)
    elif kind == "order":
        if len(entries) < 2:
            raise Refused("no_answers")
        item = Order(**common, steps=steps([text for text, _ in entries]))
    elif kind == "open":
        item = Open(**common, rubric=tuple(same(text) for text, _ in entries), model_answer=same(plain("answer")))
    else:
        raise Refused("kind_unknown")
    taken |= kept
    return item


def _number(cells: dict[str, str], entries: list[tuple[str, str]], common: dict) -> Number:
    unit = cells.get("unit", "").strip()
    if unit not in UNITS:
        raise Refused("unit_unknown")
    within = foreign.number(cells.get("within") or "0")
    if within < 0:
        raise Refused("no_number")
    slips = tuple(Slip("", same(said), value=foreign.number(text)) for text, said in entries)
    return Number(**common, unit=unit, within=within, value=foreign.number(cells["answer"]), slips=slips)
