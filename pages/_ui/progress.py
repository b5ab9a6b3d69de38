"""The reader's progress in the course: read and noted for this browser. A page never fails on it."""

from __future__ import annotations

import streamlit as st

from engine.errors import LabError
from engine.service import client
from pages._ui import course, session

# While the store cannot be asked, what was known last in this session.
_KNOWN = "progress-known"


def known() -> dict[str, dict]:
    """{topic: record} (see `engine.service.progress`); treat it as read-only."""
    try:
        st.session_state[_KNOWN] = client.progress(session.browser())
    except LabError:  # the store is busy for a moment
        pass
    return st.session_state.get(_KNOWN, {})


def note(topic: str, record: dict) -> LabError | None:
    """Note something; the reason if it could not be kept, which is worth a line on the page only where the reader's own work
    would be lost."""
    try:
        client.note_progress(session.browser(), topic, record)
    except LabError as error:
        return error
    return None


def opened(lesson: str) -> None:
    """The reader has this lesson open. Asks the store once in a session."""
    if not st.session_state.get(f"opened-{lesson}"):
        st.session_state[f"opened-{lesson}"] = note(f"lesson:{lesson}", {"opened": True}) is None


def measured(kind: str, run: str) -> None:
    """The reader has a measurement of his own in front of him. Asks the store once for each run in a session."""
    lesson = course.lesson_of(kind)
    if lesson and st.session_state.get(f"measured-{lesson}") != run:
        if note(f"lesson:{lesson}", {"measured": True}) is None:
            st.session_state[f"measured-{lesson}"] = run
