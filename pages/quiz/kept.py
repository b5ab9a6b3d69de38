"""What is kept of a learner: progress in the store, under the name of the browser; questions of a file, and how far one is with
them, in this session only."""

from __future__ import annotations

import streamlit as st

from engine.errors import LabError
from engine.quiz import Item
from engine.service import client
from pages._ui import progress, quiz, session

IMPORTED = "quiz-imported"
# Progress of this session by topic: of our own questions where the store could not take it, and of imported ones.
HERE = {True: "quiz-progress", False: "quiz-progress-imported"}


def imported() -> tuple[Item, ...]:
    """The questions of a file that this session tries out."""
    return st.session_state.get(IMPORTED, ())


def bring(items: tuple[Item, ...]) -> None:
    """Try out other questions, or none: of those before nothing stays."""
    st.session_state[IMPORTED] = items
    for key in [key for key in st.session_state if key == HERE[False] or str(key).startswith("quiz-own-")]:
        del st.session_state[key]


def key(item: Item, ours: bool) -> str:
    """What the session keeps of a question begins so. A file may have questions with the ids of ours."""
    return f"quiz-{item.id}" if ours else f"quiz-own-{item.id}"


def records(ours: bool) -> dict[str, dict]:
    """Progress by topic, of our own questions or of the imported ones."""
    return {**(progress.known() if ours else {}), **st.session_state.get(HERE[ours], {})}


def note(item: Item, record: dict, ours: bool) -> LabError | None:
    """Keep a record; in this session if it is of an imported question, or if the store cannot take it (returns why)."""
    topic, here = quiz.TOPIC + item.id, st.session_state.setdefault(HERE[ours], {})
    error = progress.note(topic, record) if ours else None
    if ours and error is None:
        here.pop(topic, None)
    else:
        here[topic] = record
    return error


def newest(kind: str) -> dict | None:
    """The result of the newest run of this kind that this browser made; None if there is none."""
    try:
        runs = client.runs(session.browser(), 1, kind)
        return client.result(runs[0].id) if runs else None
    except LabError:  # the store is busy, or the file cannot be read
        return None
