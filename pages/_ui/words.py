"""Every text the pages show, looked up by key in a table per language. No streamlit here.

Shared texts lie in ``pages/_ui/ko.toml`` and ``en.toml``, those of a lesson in
its own folder under the same names; keys are dotted (``metric.itl_max_s.name``).
Longer prose is Markdown: ``ko.md`` and ``en.md``, cut into named parts at lines
``<!-- part: NAME -->``. Tests hold both languages to the same keys, facts and parts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PAGES = Path(__file__).resolve().parents[1]
PART = re.compile(r"^<!-- part: ([a-z-]+) -->\s*$", re.M)


class Words:
    """The texts of one language for one page: the page's own table first, then the shared one."""

    def __init__(self, lang: str, page: str | None = None):
        self.lang = lang
        self._tables = ([table(lang, page)] if page else []) + [table(lang, "_ui")]
        self._parts = parts(lang, page) if page else {}

    def __call__(self, key: str, /, **facts: object) -> str:
        """The text of a key with its facts put in. A missing key shows itself, so that a page never fails on a word."""
        for entries in self._tables:
            if key in entries:
                return entries[key].format(**facts) if facts else entries[key]
        return key

    def __contains__(self, key: str) -> bool:
        return any(key in entries for entries in self._tables)

    def keys(self, prefix: str) -> list[str]:
        """The keys that begin so, for texts that are shown by code in the browser."""
        return sorted({key for entries in self._tables for key in entries if key.startswith(prefix)})

    def part(self, name: str) -> str:
        """One part of the lesson's prose, as Markdown."""
        return self._parts[name]


def field_label(name: str, words: Words) -> str:
    """A setting of a scenario as a reader knows it: ``chat.count`` -> "Chats: how many". Unknown ones keep their name."""
    kind, _, part = name.rpartition(".")
    key = f"field.{part}"
    if key not in words:
        return name
    return words(key, kind=kind_name(kind, words)) if kind else words(key)


def kind_name(kind: str, words: Words) -> str:
    """A kind of request in the reader's language; a kind nobody translated keeps its name."""
    return words(f"kind.{kind}") if f"kind.{kind}" in words else kind


def schedule_name(name: str, words: Words) -> str:
    """A schedule as a reader knows it; "2:1" says how many workers each pool has."""
    prefill, _, decode = name.partition(":")
    return words("schedule.pools", prefill=prefill, decode=decode) if decode else words(f"schedule.{name}.name")


def model_title(model: Mapping, words: Words) -> str:
    """The title of a manifest's model: its name, or, of one that we made up, what it is in the reader's language."""
    key = f"model_title.{model.get('name')}"
    return words(key) if key in words else model["title"]


def quantization(model: Mapping, words: Words) -> str:
    """How a manifest's model was quantised, in the reader's language where we say it ourselves."""
    key = f"quantization.{'-'.join(re.findall('[a-z0-9]+', model['quantization'].lower()))}"
    return words(key) if key in words else model["quantization"]


def policy_name(name: str, words: Words) -> str:
    """An eviction policy as a reader knows it; ``sinks-4`` says how many sinks."""
    kind, _, count = name.partition("-")
    return words(f"policy.{kind}_n", n=count) if count else words(f"policy.{kind}")


@cache
def table(lang: str, page: str) -> dict[str, str]:
    """The flattened table of one language and one folder of pages/."""
    with open(PAGES / page / f"{lang}.toml", "rb") as file:
        return dict(_flat(tomllib.load(file)))


@cache
def parts(lang: str, page: str) -> dict[str, str]:
    """The named parts of a lesson's prose; empty if the page has none."""
    path = PAGES / page / f"{lang}.md"
    if not path.exists():
        return {}
    pieces = PART.split(path.read_text(encoding="utf-8"))
    return {name: text.strip() for name, text in zip(pieces[1::2], pieces[2::2])}


def _flat(node: dict, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in node.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
