"""The first part of the lesson: the hands of one head, what they have seen in training, and each method as a change of them."""

from __future__ import annotations

import streamlit as st

from engine.formulas.rope import METHODS, RAMPS
from pages._ui import outcome, predict, script
from pages._ui.words import Words
from pages.rope import heads

KEY = "rope-clock"
KEPT = f"{KEY}-at"  # outlives a visit to another part, which the component's own state does not


def section(words: Words) -> None:
    st.markdown(words.part("clock"))
    predict.section("rope", "clock", words)

    @st.fragment
    def draw() -> None:
        if at := (st.session_state.get(KEY) or {}).get("at"):
            st.session_state[KEPT] = at
        script.component("clock")(key=KEY, data=payload(st.session_state.get(KEPT), words), on_at_change=lambda: None)

    draw()
    outcome.why(words, "clock")


def payload(at: object, words: Words) -> dict:
    """What the component in pages/static/js/clock draws; at: what the reader has chosen before, if anything."""
    keys = [*words.keys("clock."), *(f"method.{name}" for name in METHODS)]
    return {
        "words": {key: words(key) for key in keys},
        "heads": [{**head, "title": words("clock.lab_model")} if head["name"] == heads.LAB.name else head for head in heads.as_data()],
        "methods": list(METHODS),
        "ramps": list(RAMPS),
        "at": heads.checked(at),
    }
