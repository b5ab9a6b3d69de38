"""Starting a run and watching it: what every lesson that measures shares.

A run belongs to the address (``?run=ID``): closing the tab or reloading loses
nothing, and who has the link sees the run. Only the watching part of the page
runs again while a run is under way.
"""

from __future__ import annotations

import time
from html import escape

import streamlit as st

from engine.errors import LabError
from engine.service import client
from pages._ui import errors, parts, session
from pages._ui.words import Words

PHASES = ("queued", "starting-workers", "measuring", "decomposing")

# About 250 fragment reruns a second is what one server carries: one reader may ask often, a class less so.
POLL_S = 0.5


def submit(scenario, words: Words) -> None:
    """Hand a scenario to the service and show its run; a refusal is shown in place."""
    try:
        run = client.submit(scenario)
    except LabError as error:
        st.html(parts.notice(words("run.failed_title"), errors.sentence(error, words)))
        return
    session.show_run(run)
    st.rerun()


def watch(run: str, words: Words) -> None:
    """The progress of a run: its place in the queue, its phase, how far it is, and a way to stop it."""
    since = st.session_state.setdefault(f"since-{run}", time.monotonic())

    @st.fragment(run_every=POLL_S)
    def progress() -> None:
        status = client.status(run)
        if not status.active:
            st.rerun()
        st.html(_steps(status, words))
        with st.container(horizontal=True, vertical_alignment="bottom", key="lab-progress"):
            elapsed = words("run.elapsed", elapsed=f"{time.monotonic() - since:.0f} s")
            st.progress(min(max(status.done, 0.0), 1.0), text=f"{_doing(status, words)} · {elapsed}", width="stretch")
            if st.button(words("run.cancel"), key=f"cancel-{run}"):
                client.cancel(run)
        st.html(f"<p class='lab-note'>{escape(words('run.meanwhile'))}</p>")

    progress()


def offer(needs: list[tuple[str, bool]], words: Words) -> bool:
    """True if everything a run needs is on this machine. If not, offers to fetch what is missing, with progress.

    needs: (name of a model or text, whether it is here).
    """
    missing = next((name for name, here in needs if not here), None)
    if missing is None:
        return True
    job = st.session_state.get(f"fetch-{missing}")
    status = client.status(job) if job else None
    if status is not None and status.active:
        _watch_fetch(job, words)
        return False
    with st.container(horizontal=True, vertical_alignment="center", key="lab-offer"):
        st.html(parts.notice(words("run.missing_title"), words(f"run.missing_{missing}"), kind="info"), width="stretch")
        wanted = st.button(words("run.fetch"), type="primary", key=f"fetch-button-{missing}")
    if status is not None and status.state == "failed":
        st.html(parts.notice(words("run.failed_title"), errors.sentence(status.error, words)))
    if wanted:
        try:
            st.session_state[f"fetch-{missing}"] = client.fetch(missing)
        except LabError as error:
            st.html(parts.notice(words("run.failed_title"), errors.sentence(error, words)))
        else:
            st.rerun()
    return False


def _watch_fetch(job: str, words: Words) -> None:
    @st.fragment(run_every=POLL_S)
    def progress() -> None:
        status = client.status(job)
        if not status.active:
            st.rerun()
        st.progress(min(max(status.done, 0.0), 1.0), text=words("run.fetching"))
        if st.button(words("run.cancel"), key=f"cancel-{job}"):
            client.cancel(job)

    progress()


def _doing(status, words: Words) -> str:
    """The present phase in words, with what it works on."""
    if status.state == "queued":
        return words("run.queued", ahead=status.place) if status.place else words("phase.queued")
    facts = status.facts or {}
    text = words(f"phase.{status.phase}", **facts) if status.phase else ""
    if status.phase == "measuring" and facts.get("schedule"):
        schedule = words(f"schedule.{facts['schedule']}.name")
        if facts.get("repeats", 1) > 1:
            text += ": " + words(
                "phase.measuring_repeat", schedule=schedule, repeat=facts["repeat"], repeats=facts["repeats"]
            )
        else:
            text += ": " + words("phase.measuring_which", schedule=schedule)
    return text


def _steps(status, words: Words) -> str:
    """All phases in a row, the present one marked."""
    at = PHASES.index(status.phase) if status.phase in PHASES else 0
    items = "".join(
        f"<li class='{'lab-past' if i < at else 'lab-now' if i == at else ''}'"
        f"{' aria-current=step' if i == at else ''}>{escape(words(f'phase.{phase}'))}</li>"
        for i, phase in enumerate(PHASES)
    )
    return f"<ol class='lab-steps'>{items}</ol>"
