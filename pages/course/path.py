"""The path: every lesson in its stage, with what it is about and how far the learner is with it."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.errors import LabError
from pages._ui import course, coursework, progress, quiz
from pages._ui.words import Words
from pages.course import marks
from pages.course.marks import Mark


def section(words: Words) -> None:
    """The path, and above it where to go on."""
    pages = st.session_state["pages"]
    found = _marks([lesson for lesson in course.LESSONS if lesson in pages])
    _where(found, words)
    number = 0
    with st.container(key="cr-path", gap="small"):
        for stage, lessons in course.STAGES.items():
            there = [lesson for lesson in lessons if lesson in found]
            if there:
                st.html(f"<h2 class='cr-stage'>{escape(words(f'stage.{stage}'))}</h2>")
            for lesson in there:
                number += 1
                _lesson(lesson, number, found[lesson], words)
        st.html(f"<h2 class='cr-stage'>{escape(words('stage.end'))}</h2>")
        st.html(f"<p class='cr-end'>{escape(words('path.end'))}</p>")
        with st.container(horizontal=True, gap="medium"):
            for name in ("quiz", "claims"):
                if name in pages:
                    st.page_link(pages[name], label=words(f"nav.{name}"), query_params={"lang": words.lang})


def _marks(lessons: list[str]) -> dict[str, list[Mark]]:
    known = progress.known()
    return {lesson: marks.of(lesson, known, _predictions(lesson), *_quiz(lesson, known)) for lesson in lessons}


def _predictions(lesson: str) -> tuple[str, ...]:
    """The ids of what a lesson asks before a run; none while its file cannot be read, which the lesson itself says."""
    try:
        return tuple(prediction.id for prediction in coursework.of(lesson).predictions)
    except LabError:
        return ()


def _quiz(lesson: str, known: dict) -> tuple[int, int]:
    """(done, all) of a lesson's questions; none of a file that cannot be read, which the quiz page says."""
    try:
        return quiz.done(lesson, known), len(quiz.items(lesson))
    except LabError:
        return 0, 0


def _where(found: dict[str, list[Mark]], words: Words) -> None:
    """What is done altogether, and a button to where it goes on."""
    opened, solved = marks.total(found, marks.OPENED), marks.total(found, marks.QUIZ)
    following = marks.following(found)
    with st.container(horizontal=True, vertical_alignment="center", gap="medium", key="cr-where"):
        if following is not None:
            begun = found[following][0].complete
            label = words("path.go_on" if begun or opened.done else "path.begin", lesson=words(f"nav.{following}"))
            if st.button(label, type="primary", key="go-on"):
                st.switch_page(st.session_state["pages"][following], query_params={"lang": words.lang})
        facts = {"opened": opened.done, "lessons": opened.all, "solved": solved.done, "items": solved.all}
        key = "path.all_done" if following is None else "path.so_far" if solved.all else "path.so_far_lessons"
        st.html(f"<p class='lab-note' role='status'>{escape(words(key, **facts))}</p>", width="stretch")


def _lesson(lesson: str, number: int, found: list[Mark], words: Words) -> None:
    with st.container(key=f"cr-lesson-{lesson}"):
        about, done = st.columns([5, 4], gap="medium", vertical_alignment="center")
        with about:
            label = f"{number}. {words(f'nav.{lesson}')}"
            st.page_link(st.session_state["pages"][lesson], label=label, query_params={"lang": words.lang})
            st.html(f"<p>{escape(_about(lesson, words))}</p>")
        done.html(marks_html(found, words))


def _about(lesson: str, words: Words) -> str:
    """What the home page says of a lesson, too."""
    home = Words(words.lang, "home")
    return home(f"lessons.{lesson}") if f"lessons.{lesson}" in home else ""


def marks_html(found: list[Mark], words: Words) -> str:
    """The marks of a lesson in a row: a filled or an open ring, and words that say the same."""
    items = ""
    for mark in found:
        state = "all" if mark.complete else "some" if mark.done else "none"
        key = f"mark.{mark.name}_{'of' if mark.all > 1 else 'done' if mark.done else 'open'}"
        items += f"<li class='cr-{state}'>{escape(words(key, done=mark.done, all=mark.all))}</li>"
    return f"<ul class='cr-marks'>{items}</ul>"
