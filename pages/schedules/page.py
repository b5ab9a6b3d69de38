"""The Schedules lesson: the same requests under three schedules, measured.

Shows a shipped recording at once, a run while it is made, and its result when there is one.
"""

import streamlit as st

from engine.experiments.sweep_scenarios import KINDS
from pages._ui import lesson, outcome, parts, predict, run_panel, session, timeline
from pages.schedules import form, sections, sweeps

PARTS = ("run", "waiting", *KINDS, "details")
PHASES = ("queued", "starting-workers", "measuring", "decomposing")

words = session.words("schedules")
colors, touch = session.colors(), session.on_touch()

lesson.opening(words, "schedules")

ahead, panel = st.container(), st.container()
run = session.run_id()
status = run_panel.ended(run, words)
measured = run_panel.result_of(status, run, "schedules", words)
active = status is not None and status.active
with panel:
    if active:
        run_panel.watch(run, words, PHASES, own=status.own)
    else:
        form.panel(words, measured["manifest"]["scenario"] if measured else None)

result, src, choices = measured, measured and measured["run_id"], []
if result is None:
    result, src, choices = outcome.shipped("schedules")
predict.section("schedules", "run", words, None if active else result, active=active, place=ahead)

if active:
    # One picture that lives is enough: the recording comes back when there is nothing newer to see.
    timeline.show(f"./lab/live/{run}", words, alt=words("alt.live"), key="live", live=True)
    st.markdown(words.part("read"))
    outcome.why(words)
elif result is None:
    st.html(parts.notice(words("source.none_title"), words("source.none"), kind="info"))
    outcome.why(words)
else:
    sections.summary(result, words, choices)
    # A part is made when it is opened: the first one is there at once, and only charts that are looked at are sent.
    for part, place in session.open_parts(PARTS, words):
        with place:
            if part == "run":
                sections.run(result, src, words)
            elif part == "waiting":
                predict.section("schedules", "waiting", words, result)
                sections.waiting(result, words, colors, touch=touch)
            elif part in KINDS:
                sweeps.section(part, words, colors, touch=touch)
            else:
                sections.details(result, src, words)
lesson.closing(words, "schedules")
