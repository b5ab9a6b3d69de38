"""The controls of the experiments beyond the trained length: methods, lengths and numbers in, a scenario out, which checks itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import streamlit as st

from engine.formulas.rope import RAMPS
from engine.service import client
from pages._ui import history, outcome, run_panel
from pages._ui.words import Words, field_label
from pages.rope import methods


@dataclass(frozen=True)
class Form:
    """kind: of the experiment, its run's name in the address, and of the keys of its widgets. preset: a device class in, the
    scenario to begin with out. lists: lists of numbers, with what there is to choose from. numbers: those of one row."""

    kind: str
    scenario: type
    preset: Callable
    lists: tuple[tuple[str, tuple[float, ...]], ...]
    numbers: tuple[str, ...]


def panel(form: Form, words: Words, shown: dict | None) -> None:
    """Change, run. Only this part of the page runs again meanwhile. shown: the scenario of the run in the address."""

    @st.fragment
    def draw() -> None:
        device, kind = client.device(), form.kind
        base = form.preset(device["class"])
        start = form.scenario.from_dict(shown) if shown else base
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=f"lab-run-{kind}"):
            place = st.container(width="content")
            with st.popover(words("run.numbers")):
                changes = _changes(form, start, words)
            history.popover(kind, words, {kind: words(f"part.{kind}")}, kind)
            st.html(f"<p class='lab-note lab-beside'>{escape(outcome.device_line(device, words))}</p>", width="stretch")
        run_panel.go(lambda: start.changed(changes), words, place, f"-{kind}", slot=kind)

    draw()


def _changes(form: Form, start, words: Words) -> dict:
    """The reader's changes by name; an emptied number keeps what it was."""
    changes = {"methods": tuple(_several(form, "methods", methods.ORDER, start.methods, words, lambda m: methods.title(m, words)))}
    for name, offered in form.lists:
        present = getattr(start, name)
        changes[name] = tuple(_several(form, name, sorted({*offered, *present}), present, words, lambda n: f"{n:,}"))
    for place, name in zip(st.columns(len(form.numbers)), form.numbers, strict=True):
        changes[name] = _number(place, form, name, getattr(start, name), words)
    changes["ramp"] = st.segmented_control(
        field_label("ramp", words),
        list(RAMPS),
        default=start.ramp,
        required=True,
        key=f"{form.kind}-ramp",
        help=words("run.help_ramp"),
        format_func=lambda ramp: words(f"ramp.{ramp}"),
        persist_state="session",
    )
    return changes


def _several(form: Form, name: str, offered, present, words: Words, show: Callable) -> list:
    return st.multiselect(
        field_label(name, words),
        list(offered),
        default=list(present),
        key=f"{form.kind}-{name}",
        help=_help(name, words),
        format_func=show,
        persist_state="session",
    )


def _number(place, form: Form, name: str, present: float, words: Words) -> float:
    step = 1 if isinstance(present, int) else 0.5
    found = place.number_input(
        field_label(name, words),
        value=present,
        step=step,
        key=f"{form.kind}-{name}",
        help=_help(name, words),
        persist_state="session",
    )
    return present if found is None else found


def _help(name: str, words: Words) -> str | None:
    key = f"run.help_{name}"
    return words(key) if key in words else None
