"""Tables of papers as they print them, to stand beside what is computed and measured here: one table, one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.profiles.read import HIGHEST, check_names, check_words

WORD = "word"
# What a column can hold: words, or numbers of this unit. "x": how many times as much; "share": of a whole, 0 to 1.
UNITS = (WORD, "tokens", "perplexity", "x", "share", "s", "tokens/s", "requests/s", "B", "B/s", "count")


@dataclass(frozen=True)
class PublishedTable:
    """A table of a paper, or a few figures from one place of its text.

    title: short, as readers would look it up; source: the paper, the place in it, and a link, one for all figures.
    columns: the unit of each, by name, in order. rows: name -> value; a row lacks what the paper does not give.
    conditions: what holds for all rows (model, data, device, ...), in the paper's names.
    """

    name: str
    title: str
    source: str
    columns: Mapping[str, str]
    rows: tuple[Mapping[str, str | float], ...]
    conditions: Mapping[str, str] = field(default_factory=dict)

    def find(self, **where: str | float) -> list[Mapping[str, str | float]]:
        """The rows that have these values."""
        return [row for row in self.rows if all(row.get(name) == value for name, value in where.items())]

    def value(self, column: str, **where: str | float) -> float:
        """The number in the one row that has these values. Raises LookupError if it is not one, or lacks the number."""
        found = self.find(**where)
        if len(found) != 1:
            raise LookupError(f"{self.name}: {len(found)} rows with {where}")
        return found[0][column]


def table_of(table: Mapping) -> PublishedTable:
    """From a TOML table. Raises ValueError with what is wrong."""
    check_names(table, ("name", "title", "source", "columns", "rows"), ("conditions",))
    check_words(table, ("name", "title", "source"))
    columns, conditions = table["columns"], table.get("conditions", {})
    if not isinstance(columns, dict) or not columns or not all(unit in UNITS for unit in columns.values()):
        raise ValueError(f"columns must give each column one of: {', '.join(UNITS)}")
    if not isinstance(conditions, dict):
        raise ValueError("conditions must be given as [conditions]")
    check_words(conditions, conditions)
    _check_rows(table["rows"], columns)
    return PublishedTable(**{**table, "rows": tuple(table["rows"])})


def _check_rows(rows: object, columns: Mapping[str, str]) -> None:
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("rows must be a list of tables")
    for at, row in enumerate(rows, 1):
        check_names(row, (), columns, f" (row {at})")
        for name, value in row.items():
            _check_cell(name, value, columns[name], f" (row {at})")
        if all(columns[name] == WORD for name in row):
            raise ValueError(f"there must be a number (row {at})")
        if row in rows[: at - 1]:
            raise ValueError(f"row {at} is there twice")
    unused = [name for name in columns if not any(name in row for row in rows)]
    if unused:
        raise ValueError(f"no row has {unused[0]}")


def _check_cell(name: str, value: object, unit: str, where: str) -> None:
    if unit == WORD:
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{name} must be a word{where}")
        return
    highest = 1 if unit == "share" else HIGHEST
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= highest:
        raise ValueError(f"{name} must be a number from 0 to {highest:g}{where}")
