"""Puts the timeline on a page: a small Streamlit component that hands over to the static modules in pages/static/timeline.

The code is a cached, compressed static file, the data is fetched by the browser:
through the page's websocket goes only where to find it, and the words.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import streamlit as st

from pages._ui.words import Words, table

FOLDER = Path(__file__).resolve().parents[1] / "static" / "timeline"

# The tables and keys of ko.toml and en.toml that the timeline speaks with.
SPOKEN = (
    "timeline.",
    "play.",
    "diagram.",
    "schedule.",
    "track.",
    "kind.",
    "category.",
    "hover.",
    "mark.",
    "rows.",
    "lanes.",
    "kv.",
)
UNSPOKEN = (".what",)


def show(src: str, words: Words, *, alt: str, key: str, compact: bool = False, live: bool = False) -> None:
    """The timeline of a run.

    src: where its payload is, relative to the app: ``./lab/timeline/<id>``, or ``./lab/live/<id>`` of a run that goes on.
    alt: the picture in words, for who cannot see it.
    compact: the lanes and the controls only.
    """
    _component()(key=key, data={"src": src, "alt": alt, "words": spoken(words), "compact": compact, "live": live})


def spoken(words: Words) -> dict[str, str]:
    """The texts the timeline shows, in the reader's language."""
    keys = [key for key in table(words.lang, "_ui") if key.startswith(SPOKEN) and not key.endswith(UNSPOKEN)]
    return {key: words(key) for key in keys}


@cache
def _component():
    return st.components.v2.component(f"lab-timeline-{version()}", js=_script(version()), isolate_styles=False)


@cache
def version() -> str:
    """Changes with every change of the code, so that a browser never mixes two versions."""
    digest = hashlib.sha256()
    for path in sorted(FOLDER.glob("*.js")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def _script(version: str) -> str:
    # A component's code runs as a blob, which has no address of its own: the page's address leads to the file.
    return f"""
const code = import(new URL("./app/static/timeline@{version}/main.js", document.baseURI));
export default async function (component) {{
  const {{ mount }} = await code;
  return mount(component);
}}
"""
