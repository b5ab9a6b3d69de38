"""The Schedules lesson: the same requests under three schedules, measured.

Shows a shipped recording at once, a run of the reader's own when there is one.
"""

import streamlit as st

from engine.errors import LabError
from engine.service import client
from pages._ui import errors, parts, recordings, run_panel, session
from pages.schedules import form, sections

words = session.words("schedules")

st.html(
    f"<p class='lab-eyebrow'>{words('page.eyebrow')}</p><h1 class='lab-title'>{words('page.title')}</h1>"
    f"<p class='lab-lead'>{words('page.lead')}</p>"
)

run = session.run_id()
status = client.status(run) if run else None
active = status is not None and status.active
measured = None
if status is not None and status.state == "done":
    try:
        measured = client.result(run)
    except LabError as error:
        st.html(parts.notice(words("run.failed_title"), errors.sentence(error, words)))

if active:
    run_panel.watch(run, words)
else:
    form.panel(words, measured["manifest"]["scenario"] if measured else None)

if status is not None and status.state == "failed":
    st.html(parts.notice(words("run.failed_title"), errors.sentence(status.error, words)))
elif status is not None and status.state == "cancelled":
    st.html(parts.notice(words("run.cancelled_title"), words("run.cancelled"), kind="info"))
elif status is not None and status.state == "unknown":
    st.html(parts.notice(words("source.unknown_title"), words("source.unknown"), kind="info"))

result, choices = measured, []
if result is None:
    choices = recordings.names("schedules")
    st.session_state.setdefault(sections.CHOSEN_RECORDING, recordings.first_for("schedules", client.device()["class"]))
    if st.session_state[sections.CHOSEN_RECORDING] in choices:
        result = recordings.load(st.session_state[sections.CHOSEN_RECORDING])

if result is None:
    st.html(parts.notice(words("source.none_title"), words("source.none"), kind="info"))
    sections.why(words)
else:
    sections.show(result, words, session.colors(), touch=session.on_touch(), choices=choices)

sections.model(words)
