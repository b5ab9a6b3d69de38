"""The controls of the recurrent experiment: lengths, pairs and numbers in, a scenario out, which checks itself."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.recurrent_scenario import RECURRENT, RecurrentScenario, recurrent_for
from engine.service import client
from pages._ui import history, outcome, run_panel
from pages._ui.words import Words, field_label

OFFERED = {
    "lengths": (128, 512, 2048, 8192, 16_384, 32_768, 65_536, 131_072),
    "pairs": (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    "key_dims": (8, 16, 32, 64, 128, 256),
}
NUMBERS = ("layers", "trials", "seed")


def panel(words: Words, shown: dict | None) -> None:
    """Change, run. Only this part of the page runs again meanwhile. shown: the scenario of the run in the address."""

    @st.fragment
    def draw() -> None:
        device = client.device()
        start = RecurrentScenario.from_dict(shown) if shown else recurrent_for(device["class"])
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=f"lab-run-{RECURRENT}"):
            place = st.container(width="content")
            with st.popover(words("run.numbers")):
                changes = _changes(start, words)
            history.popover(RECURRENT, words, {RECURRENT: words("part.recurrent")}, RECURRENT)
            st.html(f"<p class='lab-note lab-beside'>{escape(outcome.device_line(device, words))}</p>", width="stretch")
        run_panel.go(lambda: start.changed(changes), words, place, f"-{RECURRENT}", slot=RECURRENT)

    draw()


def _changes(start: RecurrentScenario, words: Words) -> dict:
    """The reader's changes by name; an emptied number keeps what it was."""
    changes: dict[str, object] = {}
    for name, offered in OFFERED.items():
        present = getattr(start, name)
        found = st.multiselect(
            field_label(name, words),
            sorted({*offered, *present}),
            default=list(present),
            key=f"{RECURRENT}-{name}",
            help=words(f"run.help_{name}"),
            format_func=lambda n: f"{n:,}",
            persist_state="session",
        )
        changes[name] = tuple(sorted(found))
    columns = st.columns(len(NUMBERS) + 1)
    for place, name in zip(columns, NUMBERS, strict=False):
        changes[name] = _number(place, name, getattr(start, name), 1, words)
    changes["decay"] = _number(columns[-1], "decay", start.decay, 0.01, words)
    return changes


def _number(place, name: str, present: float, step: float, words: Words) -> float:
    found = place.number_input(
        field_label(name, words), value=present, step=step, key=f"{RECURRENT}-{name}", help=words(f"run.help_{name}"), persist_state="session"
    )
    return present if found is None else found
