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

ACTIVE = ("queued", "running")
PHASES = ("queued", "starting-workers", "loading-model", "warming-up", "measuring", "decomposing", "saving")

# About 250 fragment reruns a second is what one server carries: one reader may ask often, a class less so.
POLL_S = 0.5

_results: dict[str, dict] = {}
KEPT_RESULTS = 32


def submit(scenario, words: Words) -> None:
    """Hand a scenario to the service and show its run; a refusal is shown in place."""
    try:
        run = client.submit(scenario)
    except LabError as error:
        st.html(parts.notice(words("run.failed_title"), errors.sentence(error, words.lang)))
        return
    session.show_run(run)
    st.rerun()


def result_of(run: str) -> dict | None:
    """The finished result of a run, read once and shared by all who look at it: do not change it."""
    if run not in _results:
        found = client.result(run)
        if found is None:
            return None
        while len(_results) >= KEPT_RESULTS:
            _results.pop(next(iter(_results)))
        _results[run] = found
    return _results[run]


def watch(run: str, words: Words) -> None:
    """The progress of a run: its place in the queue, its phase, how far it is, and a way to stop it."""
    since = st.session_state.setdefault(f"since-{run}", time.monotonic())

    @st.fragment(run_every=POLL_S)
    def progress() -> None:
        status = client.status(run)
        if status.state not in ACTIVE:
            st.rerun()
        with st.container(key="lab-progress"):
            st.html(_steps(status, words))
            elapsed = words("run.elapsed", elapsed=f"{time.monotonic() - since:.0f} s")
            st.progress(min(max(status.done, 0.0), 1.0), text=f"{_doing(status, words)} · {elapsed}")
            if st.button(words("run.cancel"), key=f"cancel-{run}"):
                client.cancel(run)

    progress()


def offer_model(name: str, title: str, words: Words) -> bool:
    """True if the model is here. If not, offers to fetch it and shows how far that is."""
    if client.model_ready(name):
        return True
    st.html(parts.notice(words("run.missing_title"), words("run.missing", model=title), "info"))
    job = st.session_state.get("fetch-job")
    status = client.status(job) if job else None
    if status is not None and status.state in ACTIVE:
        _watch_fetch(job, words)
        return False
    if status is not None and status.state == "failed":
        st.html(parts.notice(words("run.failed_title"), errors.sentence(status.error, words.lang)))
    if st.button(words("run.fetch"), type="primary", key="fetch"):
        try:
            st.session_state["fetch-job"] = client.fetch(name)
        except LabError as error:
            st.html(parts.notice(words("run.failed_title"), errors.sentence(error, words.lang)))
        else:
            st.rerun()
    return False


def _watch_fetch(job: str, words: Words) -> None:
    @st.fragment(run_every=POLL_S)
    def progress() -> None:
        status = client.status(job)
        if status.state not in ACTIVE:
            st.rerun()
        st.progress(min(max(status.done, 0.0), 1.0), text=words("run.fetching"))
        if st.button(words("run.cancel"), key=f"cancel-{job}"):
            client.cancel(job)

    progress()


def _doing(status, words: Words) -> str:
    """The present phase in words, with what it works on."""
    if status.state == "queued":
        return words("run.queued", place=status.place or 1)
    facts = status.facts or {}
    text = words(f"phase.{status.phase}") if status.phase else ""
    if status.phase == "measuring" and facts.get("schedule"):
        schedule = words(f"schedule.{facts['schedule']}.name")
        if facts.get("repeats", 1) > 1:
            text += ": " + words("phase.measuring_repeat", schedule=schedule, repeat=facts["repeat"], repeats=facts["repeats"])
        else:
            text += ": " + words("phase.measuring_which", schedule=schedule)
    return text


def _steps(status, words: Words) -> str:
    """All phases in a row, the present one marked."""
    now = "queued" if status.state == "queued" else status.phase
    at = PHASES.index(now) if now in PHASES else 0
    items = "".join(
        f"<li class='{'lab-past' if i < at else 'lab-now' if i == at else ''}'"
        f"{' aria-current=step' if i == at else ''}>{escape(words(f'phase.{phase}'))}</li>"
        for i, phase in enumerate(PHASES)
    )
    return f"<ol class='lab-steps'>{items}</ol>"
