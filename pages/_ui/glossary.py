"""The words of the field, with one meaning for all lessons: pages/_ui/glossary.{ko,en}.toml. No streamlit here."""

from __future__ import annotations

import tomllib
from functools import cache

from pages._ui.words import PAGES


@cache
def terms(lang: str) -> dict[str, tuple[str, str]]:
    """{id: (name, what it means)}."""
    with open(PAGES / "_ui" / f"glossary.{lang}.toml", "rb") as file:
        return {id_: (entry["name"], entry["what"]) for id_, entry in tomllib.load(file).items()}
