"""Which text a run reads: one that everybody has, or the reader's own, typed or from a file."""

from __future__ import annotations

from html import escape

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from pages._ui.words import Words

TEXTS = ("kjv", "pydoc", "korean")
OWN = "own"
MOST_TYPED_CHARACTERS = 200_000


def choose(place: DeltaGenerator, begin: str, words: Words, key: str) -> str:
    """The name of a text, or OWN; begin: that of the run shown, which may be somebody's own."""
    names = (*(() if begin in TEXTS else (begin,)), *TEXTS, OWN)
    return place.selectbox(
        words("run.text"),
        names,
        index=names.index(begin),
        key=key,
        persist_state="session",
        help=words("run.help_text"),
        format_func=lambda t: words("run.text_shown") if t not in (*TEXTS, OWN) else words(f"run.text_{t}"),
    )


def own(words: Words) -> tuple[bytes, str]:
    """A text of the reader's own: its bytes and a name for messages. The file wins."""
    typed = st.text_area(words("run.own"), key="own-text", max_chars=MOST_TYPED_CHARACTERS, height=140, persist_state="session")
    file = st.file_uploader(words("run.own_file"), type=["txt", "md"], key="own-file")
    st.html(f"<p class='lab-note'>{escape(words('run.own_note'))}</p>")
    return (file.getvalue(), file.name) if file else (typed.encode("utf-8", "replace"), words("run.text_own"))
