"""The first part of the lesson: keys and values go round, step by step, with tokens in order and with tokens in zigzag."""

from __future__ import annotations

import streamlit as st

from pages._ui import outcome, parts, predict, script
from pages._ui.words import Words

# Two to six ranks: more would be too small to read, and fewer are no ring.
RANKS, CHOSEN = (2, 3, 4, 6), 4


def section(words: Words) -> None:
    st.markdown(words.part("ring"))
    predict.section("ring", "ring", words)
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{parts.prose(words('steps.counted'))}</span></div>")
    script.component("ring")(key="ring-steps", data=payload(words))
    outcome.why(words, "ring")


def payload(words: Words) -> dict:
    """What the component in pages/static/js/ring draws."""
    return {"words": {key: words(key) for key in words.keys("steps.")}, "ranks": list(RANKS), "chosen": CHOSEN}
