"""The first part of the lesson: keys and values go round, step by step, with tokens in order and with tokens in zigzag."""

from __future__ import annotations

import streamlit as st

from pages._ui import parts, script
from pages._ui.words import Words

# Two to six ranks: more would be too small to read, and fewer are no ring.
RANKS, CHOSEN = (2, 3, 4, 6), 4


def section(words: Words) -> None:
    st.markdown(words.part("ring"))
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{parts.prose(words('steps.counted'))}</span></div>")
    script.component("ring")(key="ring-steps", data=payload(words))
    with st.container(key="lab-why"):
        reasons, attempts = st.columns([3, 2], gap="large")
        reasons.markdown(words.part("ring-why"))
        attempts.markdown(words.part("ring-try"))


def payload(words: Words) -> dict:
    """What the component in pages/static/js/ring draws."""
    return {"words": {key: words(key) for key in words.keys("steps.")}, "ranks": list(RANKS), "chosen": CHOSEN}
