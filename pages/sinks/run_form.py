"""The controls of the experiments that read a text through caches: a text and numbers in, a scenario out, which checks itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape

import streamlit as st

from engine.service import client
from pages._ui import history, outcome, run_panel, texts
from pages._ui.words import Words, field_label


@dataclass(frozen=True)
class Form:
    """kind: of the experiment, its run's name in the address, and of the keys of its widgets. preset: a device class in,
    the scenario to begin with out. rows: the numbers, in rows. counts: lists of numbers, with what there is to choose from."""

    kind: str
    scenario: type
    preset: Callable
    rows: tuple[tuple[str, ...], ...]
    counts: tuple[tuple[str, tuple[int, ...]], ...] = ()


def panel(form: Form, words: Words, shown: dict | None) -> None:
    """Choose, change, run. Only this part of the page runs again meanwhile. shown: the scenario of the run in the address."""

    @st.fragment
    def draw() -> None:
        device, kind = client.device(), form.kind
        base = form.preset(device["class"])
        start = form.scenario.from_dict(shown) if shown else base
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=f"lab-run-{kind}"):
            with st.container(width=300):
                text = texts.choose(st, start.text, words, f"{kind}-text")
            with st.popover(words("run.numbers")):
                changes = _numbers(form, start, words)
            place = st.container(width="content")
            history.popover(kind, words, {kind: words(f"part.{kind}")}, kind)
            st.html(f"<p class='lab-note lab-beside'>{escape(outcome.device_line(device, words))}</p>", width="stretch")
        own = texts.own(words) if text == texts.OWN else None
        run_panel.go(lambda: base.changed({**changes, "text": client.keep_text(*own) if own else text}), words, place, f"-{kind}", slot=kind)

    draw()


def _numbers(form: Form, start, words: Words) -> dict:
    """The reader's changes by name; an emptied field keeps its number."""
    changes = {}
    for row in form.rows:
        for place, name in zip(st.columns(max(map(len, form.rows))), row, strict=False):
            changes[name] = _number(place, form, name, getattr(start, name), words)
    for name, offered in form.counts:
        known = sorted({*offered, *getattr(start, name)})
        changes[name] = st.multiselect(
            field_label(name, words),
            known,
            default=list(getattr(start, name)),
            key=f"{form.kind}-{name}",
            help=_help(form, name, words),
            persist_state="session",
        )
    return changes


def _number(place, form: Form, name: str, present: float, words: Words) -> float:
    step = 1 if isinstance(present, int) else 0.05
    found = place.number_input(
        field_label(name, words),
        value=present,
        step=step,
        key=f"{form.kind}-{name}",
        help=_help(form, name, words),
        persist_state="session",
    )
    return present if found is None else found


def _help(form: Form, name: str, words: Words) -> str | None:
    """What a number means: for this experiment, or for all of them."""
    keys = (f"run.help_{form.kind}_{name}", f"run.help_{name}")
    return next((words(key) for key in keys if key in words), None)
