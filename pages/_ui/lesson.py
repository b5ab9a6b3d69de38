"""What every lesson begins and ends with: its question and its idea; its words, its sources, its quiz and the way on."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from engine.errors import LabError
from engine.quiz.coursework import Source
from pages._ui import course, coursework, glossary, parts, progress, run_panel, session
from pages._ui.words import Words


def show(lesson: str, sections: dict[str, Callable[[Words], None]]) -> None:
    """A whole lesson: its opening, its parts by name, of which the open one is drawn, and its closing."""
    words = session.words(lesson)
    opening(words, lesson)
    for part, place in session.open_parts(tuple(sections), words):
        with place:
            sections[part](words)
    closing(words, lesson)


def opening(words: Words, lesson: str) -> None:
    """Its place on the path, its title, the question, and the idea in three sentences (parts `question` and `idea`)."""
    progress.opened(lesson)
    number = words("lesson.number", n=course.LESSONS.index(lesson) + 1)
    st.html(
        f"<p class='lab-eyebrow'>{escape(number)} · {escape(words('page.eyebrow'))}</p><h1 class='lab-title'>{escape(words('page.title'))}</h1>"
        f"<p class='lab-lead'><b>{parts.prose(words.part('question'))}</b> {parts.prose(words.part('idea'))}</p>"
    )


def closing(words: Words, lesson: str) -> None:
    """The lesson's words and sources behind a click each, and the ways to its quiz and to the next lesson."""
    with st.container(key="lab-closing"):
        try:
            work = coursework.of(lesson)
        except LabError as error:
            run_panel.failed(error, words)
        else:
            if work.terms:
                with st.expander(words("lesson.terms")):
                    st.html(terms(work.terms, words))
            if work.sources:
                with st.expander(words("lesson.sources")):
                    st.html(sources(work.sources, words))
        _ways_on(words, lesson)


def _ways_on(words: Words, lesson: str) -> None:
    pages = st.session_state.get("pages", {})  # the router's table
    following = course.after(lesson)
    with st.container(horizontal=True, gap="medium", key="lab-closing-ways"):
        if "quiz" in pages:
            st.page_link(pages["quiz"], label=words("lesson.quiz"), query_params={"lang": words.lang, "lesson": lesson}, width="content")
        if following in pages:
            label = words("lesson.next", title=words(f"nav.{following}"))
            st.page_link(pages[following], label=label, query_params={"lang": words.lang}, width="content")


def terms(names: tuple[str, ...], words: Words) -> str:
    """The lesson's words with what they mean, the same in every lesson."""
    known = glossary.terms(words.lang)
    items = "".join(f"<div><dt>{escape(known[name][0])}</dt><dd>{parts.prose(known[name][1])}</dd></div>" for name in names)
    return f"<dl class='lab-terms'>{items}</dl>"


def sources(found: tuple[Source, ...], words: Words) -> str:
    """What the lesson rests on, with links, and what each is here for."""
    items = "".join(
        f"<li><a href='{escape(one.url, quote=True)}' target='_blank' rel='noopener noreferrer'>{escape(one.title)}</a> {parts.prose(one.what[words.lang])}</li>"
        for one in found
    )
    return f"<ul class='lab-sources'>{items}</ul>"
