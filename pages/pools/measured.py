"""The first part of the lesson: the same requests in one engine and in pools, in cases in which pools win and in which they lose."""

from __future__ import annotations

import streamlit as st

from engine.experiments.pools_scenario import POOLS, PoolsScenario, pools
from engine.service import client
from pages._ui import experiment, outcome, parts, predict, recordings, session
from pages._ui.words import Words
from pages.pools import measured_story as story
from pages.pools import run_form

PHASES = ("queued", "starting-workers", "measuring")


def section(words: Words) -> None:
    """From the question to the files, for the case that is chosen: a recording at once, a run while it is made, and its result."""
    st.markdown(words.part("measured"))
    ahead = st.container()
    case = _case(words)
    found = experiment.shown(
        POOLS,
        words,
        PHASES,
        form=lambda scenario: run_form.panel(words, case, scenario),
        live=lambda known: _live(known, words),
        recorded=recordings_of(case),
    )
    predict.section("pools", "measured", words, None if found.active else found.result, active=found.active, place=ahead)
    if not found.active:
        if found.result is None:
            st.html(parts.notice(words("source.none_title"), words("measured.none"), kind="info"))
        else:
            _show(found.result, found.choices, case, words)
    outcome.why(words, "measured")
    if not found.active and found.result is not None:
        outcome.keep(found.result, found.src, words)


def recordings_of(case: str) -> str:
    """How the names of a case's recordings begin."""
    return f"{POOLS}-{case}"


def _case(words: Words) -> str:
    """Which case the reader looks at; it is in the address, and each keeps its own run."""
    known = list(pools())
    key = f"pools-case-{words.lang}"
    asked = st.query_params.get("case")
    st.session_state.setdefault(key, asked if asked in known else st.session_state.get("pools-case", known[0]))
    st.segmented_control(
        words("measured.case"), known, required=True, key=key, format_func=lambda name: pools()[name].title[words.lang], persist_state="session", on_change=_another, args=(key,)
    )
    case = st.session_state[key]
    st.session_state["pools-case"] = case
    st.session_state[f"pools-run-{case}"] = session.run_id(POOLS)
    if case != known[0] or "case" in st.query_params:
        st.query_params["case"] = case
    return case


def _another(key: str) -> None:
    """Another case is another run, or none."""
    session.show_run(st.session_state.get(f"pools-run-{st.session_state[key]}"), POOLS)


def _live(known: dict, words: Words) -> None:
    """The lanes of what has been served so far."""
    st.html(story.pictures(known.get("schedules") or {}, words))


def _show(result: dict, choices: list[str], case: str, words: Words) -> None:
    known = pools()
    workload = result["manifest"]["scenario"]["workload"]
    title = known[workload].title[words.lang] if workload in known else workload
    slot = POOLS if result["provenance"] == "measured" else recordings_of(case)
    outcome.source_row(result, PoolsScenario, words, slot, choices)
    outcome.disturbed(result, words)
    first, *rest = [words(key, **facts) for key, facts in story.headline(result, words)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}<p class='lab-note'>{parts.prose(story.about(result, title, words))}</p>")
    if warning := story.crowded(result, words):
        st.html(parts.notice(words("measured.crowded_title"), words(warning[0], **warning[1]), kind="info"))
    st.html(f"{story.pictures(result['arrangements'], words)}<p class='lab-note'>{parts.prose(words('measured.reading'))}</p>")
    outcome.section(words("measured.section_numbers"))
    st.html(story.busy_bars(result, words))
    st.html(parts.plain_table(*story.table(result, words), words("measured.section_numbers")))
    st.html(f"<p class='lab-note'>{parts.prose(words('measured.table_note'))}</p>")
    _cases(words)
    with st.expander(words("measured.workers")):
        st.html(parts.plain_table(*story.workers_table(result, words), words("measured.workers")))


def _cases(words: Words) -> None:
    """All recorded cases below each other, which is the answer to when pools are worth it."""
    device = client.device()["class"]
    names = {case: recordings.first_for(recordings_of(case), device) for case in pools()}
    found = {pools()[case].title[words.lang]: recordings.load(name) for case, name in names.items() if name}
    head, rows = story.cases_table(found, words)
    if len(rows) > 1:
        outcome.section(words("measured.section_cases"))
        st.html(f"<div class='lab-source'>{parts.badge('recorded', words)}<span>{parts.prose(words('measured.cases_what'))}</span></div>")
        st.html(parts.plain_table(head, rows, words("measured.section_cases")))
