"""Puts the timeline on a page. Its data is fetched by the browser: through the page's websocket goes only where to find it,
and the words."""

from __future__ import annotations

from pages._ui import script
from pages._ui.words import Words, table

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
    script.component("timeline")(key=key, data={"src": src, "alt": alt, "words": spoken(words), "compact": compact, "live": live})


def spoken(words: Words) -> dict[str, str]:
    """The texts the timeline shows, in the reader's language."""
    keys = [key for key in table(words.lang, "_ui") if key.startswith(SPOKEN) and not key.endswith(UNSPOKEN)]
    return {key: words(key) for key in keys}
