"""The controls of the Roofline lesson: widgets in, a scenario out. The scenario checks itself."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.roofline_scenario import ROOFLINE, RooflineScenario, roofline_for
from engine.service import client
from pages._ui import history, outcome, run_panel
from pages._ui.words import Words

MIB = 2**20
SHORTEST = 16


def panel(words: Words, shown: dict | None, slot: str) -> None:
    """Choose, change, run. Only this part of the page runs again while numbers are changed.

    shown: the scenario of the run in the address, whose numbers are the ones to begin with; slot: the run's name there.
    """

    @st.fragment
    def draw() -> None:
        device = client.device()
        base = roofline_for(device["class"])
        start = RooflineScenario.from_dict(shown) if shown else base
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run"):
            repeats = outcome.repeats(words, "roofline-repeats", start.repeats)
            with st.popover(words("run.numbers")):
                changes = _numbers(start, words)
            place = st.container(width="content")
            history.popover(ROOFLINE, words, {ROOFLINE: words("nav.roofline")}, slot)
            about = st.container(width="stretch")
        scenario = run_panel.go(lambda: start.changed({**changes, "repeats": repeats}), words, place, slot=slot)
        if scenario:
            about.html(f"<p class='lab-note lab-beside'>{escape(_about(scenario, words))} {escape(outcome.device_line(device, words))}</p>")

    draw()


def lengths(longest: int) -> tuple[int, ...]:
    """Prefill lengths to measure up to the longest: 16, 32, 64 ... and the longest itself."""
    found = []
    tokens = SHORTEST
    while tokens < longest:
        found.append(tokens)
        tokens *= 2
    return (*found, longest)


def _numbers(start: RooflineScenario, words: Words) -> dict:
    """The reader's changes by name."""
    longest = max(start.prefill_tokens, default=SHORTEST)
    left, right = st.columns(2)
    found = left.number_input(words("run.prefill"), value=longest, step=1, key="roofline-prefill", persist_state="session")
    pool = right.number_input(words("run.kv"), value=start.kv_bytes // MIB, step=1, key="roofline-kv", persist_state="session", help=words("run.kv_help"))
    return {
        "prefill_tokens": start.prefill_tokens if found in (None, longest) else lengths(found),
        "decode_batches": _list("batches", start.decode_batches, words),
        "decode_contexts": _list("contexts", start.decode_contexts, words),
        "kv_bytes": start.kv_bytes if pool is None else pool * MIB,
    }


def _list(name: str, begin: tuple[int, ...], words: Words) -> str:
    return st.text_input(
        words(f"run.{name}"),
        ", ".join(str(n) for n in begin),
        key=f"roofline-{name}",
        max_chars=200,
        persist_state="session",
        help=words("run.list_help"),
    )


def _about(scenario: RooflineScenario, words: Words) -> str:
    return words("run.about", steps=len(scenario.steps), repeats=scenario.repeats)
