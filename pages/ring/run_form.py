"""The controls of a ring run: a text, how much of it and over how many ranks in, a scenario out, which checks itself."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.ring_scenario import MOST_RANKS, RING, RingScenario, ring_for
from engine.service import client
from pages._ui import history, outcome, run_panel, texts
from pages._ui.words import Words, field_label


def panel(words: Words, shown: dict | None) -> None:
    """Choose, change, run. Only this part of the page runs again meanwhile. shown: the scenario of the run in the address."""

    @st.fragment
    def draw() -> None:
        device = client.device()
        base = ring_for(device["class"])
        start = RingScenario.from_dict(shown) if shown else base
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=f"lab-run-{RING}"):
            with st.container(width=300):
                text = texts.choose(st, start.text, words, f"{RING}-text")
            changes = {"ranks": _ranks(start.ranks, words), "tokens": _number("tokens", start.tokens, words, 150)}
            with st.popover(words("run.numbers")):
                changes["seed"] = _number("seed", start.seed, words)
            place = st.container(width="content")
            history.popover(RING, words, {RING: words("part.measured")}, RING)
            st.html(f"<p class='lab-note lab-beside'>{escape(outcome.device_line(device, words))}</p>", width="stretch")
        own = texts.own(words) if text == texts.OWN else None
        run_panel.go(lambda: base.changed({**changes, "text": client.keep_text(*own) if own else text}), words, place, f"-{RING}", slot=RING)

    draw()


def _ranks(present: int, words: Words) -> int:
    """One rank is no ring, but shows what the ring costs by itself."""
    counts = list(range(1, MOST_RANKS + 1))
    return st.selectbox(
        field_label("ranks", words),
        counts,
        index=counts.index(present),
        key=f"{RING}-ranks",
        width=110,
        persist_state="session",
        help=words("run.help_ranks"),
    )


def _number(name: str, present: int, words: Words, width: int | str = "stretch") -> int:
    """A whole number; an emptied field keeps what it had."""
    found = st.number_input(
        field_label(name, words),
        value=present,
        step=1,
        key=f"{RING}-{name}",
        width=width,
        persist_state="session",
        help=words(f"run.help_{name}"),
    )
    return present if found is None else found
