"""The first part of the page: choose a lesson and a question; the question itself is in question.py."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.errors import LabError
from engine.quiz import Item
from pages._ui import errors, parts, quiz
from pages._ui.words import Words
from pages.quiz import kept, question

OWN = "own"
IN_A_ROW = 20
MARKS = {quiz.RIGHT: " ✓", quiz.COMMITTED: " ✓", quiz.WRONG: " ✗", quiz.SHOWN: " ✗", None: ""}


def section(words: Words) -> None:
    lesson = _lesson(words)
    try:
        items = kept.imported() if lesson == OWN else quiz.items(lesson)
    except LabError as error:
        st.html(parts.notice(words("choose.unreadable_title"), errors.sentence(error, words)))
        return
    if not items:
        st.html(parts.notice(words("choose.none_title"), words("choose.none"), kind="info"))
        return
    ours = lesson != OWN
    progress = kept.records(ours)
    item = _item(lesson, items, progress, words)
    with st.container(key="quiz-question"):
        question.show(item, items.index(item) + 1, len(items), progress.get(quiz.TOPIC + item.id) or {}, words, ours=ours)
        _next(lesson, items, item, words)


def _lesson(words: Words) -> str:
    """The lesson in the address, else that of the question there, else the one chosen before, else the first."""
    names = (*quiz.lessons(), *((OWN,) if kept.imported() else ()))
    key = f"quiz-lesson-{words.lang}"
    of_item = next((name for name in names if st.query_params.get("item", "").startswith(f"{name}-")), None)
    asked = st.query_params.get("lesson") or of_item or st.session_state.get("quiz-lesson")
    if st.session_state.get(key) not in names:
        st.session_state[key] = asked if asked in names else names[0]
    chosen = st.segmented_control(
        words("choose.lesson"),
        names,
        required=True,
        key=key,
        label_visibility="collapsed",
        format_func=lambda name: words("choose.own") if name == OWN else words(f"nav.{name}"),
    )
    st.session_state["quiz-lesson"] = chosen
    st.query_params["lesson"] = chosen
    return chosen


def _item(lesson: str, items: tuple[Item, ...], progress: dict, words: Words) -> Item:
    """The question in the address, else the one seen last, else the first that is still to do."""
    by_id = {item.id: item for item in items}
    states = {name: quiz.state(item, progress) for name, item in by_id.items()}
    key, asked = _key(lesson, words), st.query_params.get("item")
    if asked is not None and asked not in by_id and st.session_state.get("quiz-item-lesson") in (None, lesson):
        st.html(parts.notice(words("choose.unknown"), kind="info"))
    if st.session_state.get(key) not in by_id:
        todo = next((name for name, state in states.items() if state not in quiz.DONE), items[0].id)
        st.session_state[key] = next(name for name in (asked, st.session_state.get(f"quiz-at-{lesson}"), todo) if name in by_id)
    done, tried = sum(state in quiz.DONE for state in states.values()), sum(state is not None for state in states.values())
    counts = words("choose.counts_tried" if tried > done else "choose.counts", right=done, all=len(items), tried=tried)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key="quiz-choose"):
        numbered = {name: f"{number}{MARKS[states[name]]}" for number, name in enumerate(by_id, 1)}
        common = {"label": words("choose.item"), "options": list(by_id), "key": key, "label_visibility": "collapsed", "format_func": numbered.get}
        chosen = st.segmented_control(**common, required=True) if len(items) <= IN_A_ROW else st.selectbox(**common, width=120)
        st.html(f"<p class='lab-note' role='status'>{escape(counts)}</p>", width="content")
    st.session_state[f"quiz-at-{lesson}"], st.session_state["quiz-item-lesson"] = chosen, lesson
    st.query_params["item"] = chosen
    return by_id[chosen]


def _next(lesson: str, items: tuple[Item, ...], item: Item, words: Words) -> None:
    if len(items) < 2:
        return
    at = items.index(item) + 1

    def go() -> None:
        st.session_state[_key(lesson, words)] = items[at % len(items)].id

    st.button(words("solution.next" if at < len(items) else "solution.first"), key="quiz-next", on_click=go)


def _key(lesson: str, words: Words) -> str:
    return f"quiz-item-{lesson}-{words.lang}"
