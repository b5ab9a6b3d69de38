"""What all scenarios do with their settings: each is checked, and what is wrong with one is a sentence. Pure."""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, fields, replace
from typing import ClassVar, Self

from engine.errors import LabError


class Settings:
    """What a scenario is as data, for frozen dataclasses of settings: numbers, words, and tuples of them."""

    kind: ClassVar[str]
    repeats: ClassVar[int] = 1  # how many times it is measured, unless that is a setting

    def as_dict(self) -> dict:
        """JSON-ready, and the same for equal scenarios."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, record: Mapping) -> Self:
        """Raises LabError("scenario-field", "scenario-value", or what else the scenario raises) for what is not one."""
        return from_record(cls, record)

    def key(self) -> str:
        """The same for equal scenarios, and never that of another experiment."""
        return key_of({"kind": self.kind, **self.as_dict()})

    def changed(self, changes: Mapping[str, object]) -> Self:
        """A copy with settings changed by name; a list may also be one entry, or "0,4" from a command line.

        Raises as `from_dict`.
        """
        check_names(changes, names_of(self))
        several = {name for name in changes if isinstance(getattr(self, name), tuple)}
        return replace(self, **{name: listed(value) if name in several else value for name, value in changes.items()})


def check_number(name: str, value: object, low: float, high: float, *, whole: bool) -> None:
    """Raises LabError("scenario-value")."""
    number = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        raise wrong(name, value, f"{'a whole number' if whole else 'a number'} from {low} to {high}")


def check_choice(name: str, value: object, known: Collection[str]) -> None:
    """Raises LabError("scenario-value")."""
    if value not in known:
        raise wrong(name, value, " | ".join(known))


def check_list(name: str, values: object, known: range | tuple[str, ...]) -> None:
    """Raises LabError("scenario-value") unless it is a tuple of some that are known, each once."""
    some = values if isinstance(values, tuple) else (None,)
    # 1.0 and True are in range(2).
    if not all(isinstance(v, int | str) and not isinstance(v, bool) and v in known for v in some) or len(set(some)) < len(some):
        names = f"whole numbers from {known[0]} to {known[-1]}" if isinstance(known, range) else " | ".join(known)
        raise wrong(name, values, f"some of {names}, each once")


def check_word(name: str, value: object) -> None:
    """Raises LabError("scenario-value") for what cannot be the name of anything."""
    if not isinstance(value, str) or not value.strip():
        raise wrong(name, value, "a name")


def check_names(names: Mapping, known: Collection[str]) -> None:
    """Raises LabError("scenario-field") for a setting that there is not."""
    for name in names:
        if name not in known:
            raise LabError("scenario-field", field=short(name), known=", ".join(known))


def check_table(record: object) -> None:
    """Raises LabError("scenario-value") for what has no settings in it."""
    if not isinstance(record, Mapping):
        raise wrong("scenario", record, "a table of settings")


def names_of(scenario: object) -> list[str]:
    """The settings of a scenario or of its class, sorted."""
    return sorted(field.name for field in fields(scenario))


def from_record(cls: type, record: object):
    """The scenario of a JSON record whose names are its settings; lists become tuples.

    Raises LabError("scenario-field" or "scenario-value") for anything that is not such a scenario.
    """
    check_table(record)
    check_names(record, names_of(cls))
    try:
        return cls(**{name: tuple(value) if isinstance(value, list) else value for name, value in record.items()})
    except TypeError as error:
        raise wrong("scenario", record, str(error)) from error


def listed(value: object) -> object:
    """A list's entries, as a tuple, from what a form or a command line gives: [16, 64], 16, 0.5, "16,64" or "0.1,0.5"."""
    if isinstance(value, str):
        return tuple(_entry(part.strip()) for part in value.split(",") if part.strip())
    if isinstance(value, int | float):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else value


def _entry(part: str) -> int | float | str:
    if part.isdecimal() and len(part) < 20:
        return int(part)
    return float(part) if re.fullmatch(r"[0-9]{1,19}\.[0-9]{1,19}", part) else part


def key_of(record: dict) -> str:
    """16 hexadecimal digits, the same for equal JSON-ready records, whatever the order of their names."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:16]


def wrong(field: str, value: object, expected: str) -> LabError:
    """That a setting has a value it cannot have."""
    return LabError("scenario-value", field=field, value=short(value), expected=expected)


def short(value: object) -> str:
    """Somebody's value as words for a sentence: never a screenful."""
    try:
        text = str(value)
    except ValueError:  # a number of thousands of digits
        text = "a huge number"
    return text if len(text) <= 80 else text[:77] + "..."
