"""What a part of a lesson does with its experiment: the controls above, or the progress of a run; a result to show below."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from engine.errors import LabError
from engine.service import client
from pages._ui import outcome, run_panel, session
from pages._ui.words import Words

LIVE_S = 1.5


@dataclass(frozen=True)
class Shown:
    """result: the reader's own, else a recording, else None; src: of its files (see pages/_ui/routes); choices: the recordings
    to choose from; active: whether a run is under way."""

    result: dict | None
    src: str | None
    choices: list[str]
    active: bool


def shown(
    kind: str,
    words: Words,
    phases: tuple[str, ...],
    *,
    form: Callable[[dict | None], None],
    live: Callable[[dict], None] | None = None,
    slot: str | None = None,
    model: str | None = None,
    recorded: str | None = None,
) -> Shown:
    """The controls or the progress, here and now; returns what is to be shown below them.

    form(scenario of the run in the address, or None): draws the controls. live(what is known so far): draws a run while it
    is made, again and again. slot: the run's name in the address, if it is not the kind. model: as in `outcome.shipped`.
    recorded: how the names of its recordings begin, if not with the kind.
    """
    slot = slot or kind
    panel = st.container()
    run = session.run_id(slot)
    status = run_panel.ended(run, words, slot)
    result = run_panel.result_of(status, run, kind, words)
    active = status is not None and status.active
    with panel:
        if active:
            run_panel.watch(run, words, phases, own=status.own)
            if live:
                _live(run, live)
        else:
            form(result["manifest"]["scenario"] if result else None)
    if result is not None:
        return Shown(result, result["run_id"], [], active)
    return Shown(*outcome.shipped(recorded or kind, recorded or slot, model), active)


def _live(run: str, live: Callable[[dict], None]) -> None:
    @st.fragment(run_every=LIVE_S)
    def draw() -> None:
        try:
            known = client.live(run)
        except LabError:
            return  # the progress above says so
        if known:
            live(known)

    draw()
