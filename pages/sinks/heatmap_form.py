"""The controls of the heatmaps: a text and how much of it in, a scenario out. The scenario checks itself."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.attention_scenario import ATTENTION, AttentionScenario, attention_for
from engine.service import client
from pages._ui import history, outcome, run_panel, texts
from pages._ui.words import Words, field_label

FIELDS = ("offset", "first_k")


def panel(words: Words, shown: dict | None, slot: str) -> None:
    """Choose, change, run. Only this part of the page runs again meanwhile.

    shown: the scenario of the run in the address, whose settings are the ones to begin with; slot: the run's name there.
    """

    @st.fragment
    def draw() -> None:
        device = client.device()
        base = attention_for(device["class"])
        start = AttentionScenario.from_dict(shown) if shown else base
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run"):
            with st.container(width=300):
                text = texts.choose(st, start.text, words, "attention-text")
            changes = {"tokens": _number("tokens", start.tokens, words, 150)}
            with st.popover(words("run.numbers")):
                changes |= {name: _number(name, getattr(start, name), words) for name in FIELDS}
            place = st.container(width="content")
            history.popover(ATTENTION, words, {ATTENTION: words("part.heatmap")}, slot)
            st.html(f"<p class='lab-note lab-beside'>{escape(outcome.device_line(device, words))}</p>", width="stretch")
        own = texts.own(words) if text == texts.OWN else None
        run_panel.go(lambda: base.changed({**changes, "text": client.keep_text(*own) if own else text}), words, place, "-attention", slot=slot)

    draw()


def _number(name: str, present: int, words: Words, width: int | str = "stretch") -> int:
    """A whole number; an emptied field keeps what it had."""
    help_key = f"run.help_{name}"
    found = st.number_input(
        field_label(name, words),
        value=present,
        step=1,
        key=f"attention-{name}",
        width=width,
        persist_state="session",
        help=words(help_key) if help_key in words else None,
    )
    return present if found is None else found
