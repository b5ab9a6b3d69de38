"""Starting a run and watching it: what every lesson that measures shares.

A run belongs to the address (``?run=ID``): closing the tab or reloading loses
nothing, and who has the link sees the run. Only the watching part of the page
runs again while a run is under way.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from engine.errors import LabError
from engine.service import client
from pages._ui import errors, fmt, parts, progress, session
from pages._ui.words import Words, policy_name, schedule_name

# About 250 fragment reruns a second is what one server carries: who started a run may ask often, a class that
# watches it less so.
POLL_S = 0.5
WATCH_S = 2.0


def submit(scenario, words: Words, *, slot: str = session.RUN, again: bool = False) -> None:
    """Hand a scenario to the service and show its run; a refusal is shown in place.

    again: measure even if this machine has measured the same before.
    """
    try:
        run = client.submit(scenario, browser=session.browser(), again=again)
        st.session_state[f"answered-{run}"] = client.status(run).state == "done"
    except LabError as error:
        failed(error, words)
        return
    session.show_run(run, slot)
    st.rerun()


def failed(error: LabError | dict | None, words: Words) -> None:
    """A failure in the reader's language: what happened, why, and what to do."""
    st.html(parts.notice(words("run.failed_title"), errors.sentence(error, words)))


def ended(run: str | None, words: Words, slot: str = session.RUN) -> client.Status | None:
    """Where the run in the address is. Says so if it failed, was cancelled or is not here; if it was answered with a
    run that was there already, the address becomes that one's."""
    if run is None:
        return None
    try:
        status = client.status(run, browser=session.browser())
    except LabError as error:
        failed(error, words)
        return None
    if status.state == "failed":
        failed(status.error, words)
    elif status.state == "cancelled":
        st.html(parts.notice(words("run.cancelled_title"), words("run.cancelled"), kind="info"))
    elif status.state == "unknown":
        st.html(parts.notice(words("source.unknown_title"), words("source.unknown"), kind="info"))
    elif status.state == "done" and status.result_id and status.result_id != run:
        st.session_state[f"answered-{status.result_id}"] = True
        session.show_run(status.result_id, slot)
    return status


def result_of(status: client.Status | None, run: str | None, kind: str, words: Words) -> dict | None:
    """The result of a run that is done; None if there is none (yet). Says so if it cannot be read, or is not of this
    kind: an address can be put together by hand."""
    if status is None or status.state != "done":
        return None
    try:
        found = client.result(status.result_id or run)
    except LabError as error:
        failed(error, words)
        return None
    if found is None or found["kind"] == kind:
        if found and (status.own or st.session_state.get(f"answered-{found['run_id']}")):  # not a link somebody gave
            progress.measured(kind, found["run_id"])
        return found
    st.html(parts.notice(words("source.unknown_title"), words("source.unknown"), kind="info"))
    return None


def watch(run: str, words: Words, phases: tuple[str, ...], *, own: bool, point: str = "phase.point") -> None:
    """The progress of a run: its place in the queue, its phase, how far it is, and for who started it a way to stop it.

    phases: those this kind of run goes through, in order; own: whether this browser started it.
    point: the key of the words for a point of a sweep.
    """

    @st.fragment(run_every=POLL_S if own else WATCH_S)
    def draw() -> None:
        try:
            status = client.status(run, browser=session.browser())
        except LabError as error:
            failed(error, words)
            return
        if not status.active:
            st.rerun()
        st.html(_steps(status, words, phases))
        with st.container(horizontal=True, vertical_alignment="bottom", key=f"lab-progress-{run[:6]}"):
            text = " · ".join([_doing(status, words, point), *_times(status, words)])
            st.progress(min(max(status.done, 0.0), 1.0), text=text, width="stretch")
            if status.own and st.button(words("run.cancel"), key=f"cancel-{run}"):
                client.cancel(run, browser=session.browser())
        note = "run.meanwhile" if status.own else "run.watching"
        st.html(f"<p class='lab-note'>{escape(words(note))}</p>")

    draw()


def go(make: Callable[[], object], words: Words, place, suffix: str = "", *, slot: str = session.RUN) -> object | None:
    """The button, in `place`, that runs the scenario which a form holds; gives that scenario.

    make: gives the scenario; a LabError that it raises is told, and the button is off. suffix: of the keys, which tells
    several forms on one page apart.
    """
    try:
        scenario = make()
    except LabError as error:
        st.html(parts.notice(words("run.invalid_title"), f"{errors.sentence(error, words)} {words('run.invalid')}"))
        place.button(words("run.go"), key=f"blocked{suffix}", disabled=True)
        return None
    if offer(needs(scenario), words, suffix) and place.button(words("run.go"), type="primary", key=f"go{suffix}"):
        submit(scenario, words, slot=slot)
    return scenario


def needs(scenario) -> list[tuple[str, bool]]:
    """The model and the text of a run, if it reads one, and whether they are on this machine."""
    found = [(scenario.model, client.model_ready(scenario.model))]
    return [*found, (scenario.text, client.text_ready(scenario.text))] if scenario.text else found


def offer(needs: list[tuple[str, bool]], words: Words, key: str = "") -> bool:
    """True if everything a run needs is on this machine. If not, offers to fetch what is missing, with progress.

    needs: (name of a model or text, whether it is here); key: tells several offers on one page apart.
    """
    missing = next((name for name, here in needs if not here), None)
    if missing is None:
        return True
    job = st.session_state.get(f"fetch-{missing}")
    status = client.status(job) if job else None
    if status is not None and status.active:
        _watch_fetch(job, words, key)
        return False
    with st.container(horizontal=True, vertical_alignment="center", key=f"lab-offer{key}"):
        st.html(parts.notice(words("run.missing_title"), words(f"run.missing_{missing}"), kind="info"), width="stretch")
        wanted = st.button(words("run.fetch"), type="primary", key=f"fetch-button-{missing}{key}")
    if status is not None and status.state == "failed":
        failed(status.error, words)
    if wanted:
        try:
            st.session_state[f"fetch-{missing}"] = client.fetch(missing, browser=session.browser())
        except LabError as error:
            failed(error, words)
        else:
            st.rerun()
    return False


def _watch_fetch(job: str, words: Words, key: str) -> None:
    @st.fragment(run_every=POLL_S)
    def draw() -> None:
        status = client.status(job)
        if not status.active:
            st.rerun()
        st.progress(min(max(status.done, 0.0), 1.0), text=words("run.fetching"))
        if st.button(words("run.cancel"), key=f"cancel-{job}{key}"):
            client.cancel(job, browser=session.browser())

    draw()


def _doing(status: client.Status, words: Words, point: str) -> str:
    """The present phase in words, with what it works on."""
    if status.state == "queued":
        return words("run.queued", ahead=status.place) if status.place else words("phase.queued")
    facts = status.facts or {}
    text = words(f"phase.{status.phase}", **facts) if status.phase else ""
    if status.phase == "measuring" and (what := _measured(facts, words, point)):
        if facts.get("repeats", 1) > 1:
            what = words("phase.repeat", what=what, repeat=facts["repeat"], repeats=facts["repeats"])
        text += f": {what}"
    return text


def _measured(facts: dict, words: Words, point: str) -> str | None:
    """The schedule, the policy, the method at a length, or the point of a sweep, that is being measured."""
    if facts.get("schedule"):
        return schedule_name(facts["schedule"], words)
    if facts.get("policy"):
        return policy_name(facts["policy"], words)
    if facts.get("method"):
        return words("phase.method", method=words(f"method.{facts['method']}"), length=fmt.count(facts["length"]))
    if "point" in facts:
        shown = {name: fmt.count(value) if isinstance(value, int) else value for name, value in facts.items()}
        return words(point, **shown) if facts["point"] else words("phase.whole")
    return None


def _times(status: client.Status, words: Words) -> list[str]:
    """How long it has been running, and about how long it will be, where that is known."""
    found = [] if status.elapsed_s is None else [words("run.elapsed", elapsed=fmt.duration(status.elapsed_s))]
    if status.expected_s is not None:
        key = "run.starts_in" if status.state == "queued" else "run.ends_in"
        found.append(words(key, about=fmt.duration(status.expected_s)))
    return found


def _steps(status: client.Status, words: Words, phases: tuple[str, ...]) -> str:
    """All phases in a row, the present one marked."""
    at = phases.index(status.phase) if status.phase in phases else 0
    items = "".join(
        f"<li class='{'lab-past' if i < at else 'lab-now' if i == at else ''}'"
        f"{' aria-current=step' if i == at else ''}>{escape(words(f'phase.{phase}'))}</li>"
        for i, phase in enumerate(phases)
    )
    return f"<ol class='lab-steps'>{items}</ol>"
