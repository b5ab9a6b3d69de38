"""The controls of the transfer experiment: prompts, formats and numbers in, a scenario out, which checks itself."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.transfer_scenario import TRANSFER, TransferScenario, transfer_for
from engine.formulas.kv import KV_DTYPES
from engine.service import client
from pages._ui import history, outcome, run_panel
from pages._ui.words import Words, field_label

LENGTHS = (256, 512, 1024, 2048, 4096)
NUMBERS = ("scored", "continue_tokens", "seed")


def panel(words: Words, shown: dict | None) -> None:
    """Change, run. Only this part of the page runs again meanwhile. shown: the scenario of the run in the address."""

    @st.fragment
    def draw() -> None:
        device = client.device()
        start = TransferScenario.from_dict(shown) if shown else transfer_for(device["class"])
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-transfer"):
            place = st.container(width="content")
            with st.popover(words("run.numbers")):
                changes = _changes(start, words)
            history.popover(TRANSFER, words, {TRANSFER: words("nav.transfer")}, TRANSFER)
            st.html(f"<p class='lab-note lab-beside'>{escape(outcome.device_line(device, words))}</p>", width="stretch")
        run_panel.go(lambda: start.changed(changes), words, place, "-transfer", slot=TRANSFER)

    draw()


def _changes(start: TransferScenario, words: Words) -> dict:
    """The reader's changes by name; an emptied number keeps what it was."""
    offered = sorted({*LENGTHS, *start.lengths})
    changes = {
        "lengths": tuple(sorted(_several("lengths", offered, start.lengths, words, lambda n: f"{n:,}"))),
        "formats": tuple(_several("formats", KV_DTYPES, start.formats, words, str)),
    }
    for place, name in zip(st.columns(len(NUMBERS)), NUMBERS, strict=True):
        present = getattr(start, name)
        found = place.number_input(
            field_label(name, words), value=present, step=1, key=f"transfer-{name}", help=words(f"run.help_{name}"), persist_state="session"
        )
        changes[name] = present if found is None else found
    return changes


def _several(name: str, offered, present, words: Words, show) -> list:
    return st.multiselect(
        field_label(name, words),
        list(offered),
        default=list(present),
        key=f"transfer-{name}",
        help=words(f"run.help_{name}"),
        format_func=show,
        persist_state="session",
    )
