"""The Roofline lesson: why one model has two bottlenecks, measured on this machine and computed for others.

Shows a shipped recording at once, a run's progress while it is made, and its result when there is one.
"""

import streamlit as st

from engine.experiments.roofline_scenario import ROOFLINE
from pages._ui import lesson, outcome, parts, predict, run_panel, session
from pages.roofline import batch, form, sections

PARTS = ("measured", "batch", "details")
PHASES = ("queued", "starting-workers", "loading", "calibrating", "measuring")
SLOT = "roofline"

words = session.words("roofline")

lesson.opening(words, "roofline")

ahead, panel = st.container(), st.container()
run = session.run_id(SLOT)
status = run_panel.ended(run, words, SLOT)
measured = run_panel.result_of(status, run, ROOFLINE, words)
active = status is not None and status.active
with panel:
    if active:
        run_panel.watch(run, words, PHASES, own=status.own, point="run.point")
    else:
        form.panel(words, measured["manifest"]["scenario"] if measured else None, SLOT)

result, src, choices = measured, measured and measured["run_id"], []
if result is None:
    # Also while a run is under way: a table of numbers grows out of nothing only when all of them are there.
    result, src, choices = outcome.shipped(ROOFLINE, SLOT)
predict.section("roofline", "measured", words, None if active else result, active=active, place=ahead)

if result is None:
    st.html(parts.notice(words("source.none_title"), words("run.none"), kind="info"))
else:
    sections.summary(result, words, choices, SLOT)
for part, place in session.open_parts(PARTS, words):
    with place:
        if part == "batch":
            batch.section(result, words)
        elif result is None:
            outcome.why(words)
        elif part == "measured":
            sections.measured(result, words)
        else:
            sections.details(result, src, words)
lesson.closing(words, "roofline")
