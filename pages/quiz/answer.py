"""How each kind of question is answered: a field, a choice, steps pressed in their order, a text. Widgets in, what was given out."""

from __future__ import annotations

from collections.abc import Callable
from html import escape

import streamlit as st

from engine.quiz.judge import MOST_CHARACTERS
from engine.quiz.posed import Posed
from engine.quiz.units import UNITS
from pages._ui.words import Words

MOST_TYPED = 200
Label = Callable[[str], str]


def ask(posed: Posed, words: Words, key: str, label: Label) -> tuple[object, bool]:
    """What is in the widgets, and whether the reader just handed it in. key: of this draw of this question; label: makes a
    text of the question fit for a widget, whose labels are Markdown."""
    return ASKED[posed.item.kind](posed, words, key, label)


def _number(posed: Posed, words: Words, key: str, label: Label) -> tuple[object, bool]:
    unit, bare = getattr(UNITS[posed.unit], words.lang), UNITS[posed.unit].bare
    key_of = "number" if not bare else "number_of" if unit else "number_plain"
    with st.form(f"{key}-form", border=False):
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
            given = st.text_input(
                words(f"answer.{key_of}", unit=unit),
                key=f"{key}-number",
                max_chars=MOST_TYPED,
                placeholder=None if bare else words("answer.example", unit=unit),
                width=360,
            )
            sent = st.form_submit_button(words("answer.check"), type="primary", key=f"{key}-check")
    return given, sent


def _choice(posed: Posed, words: Words, key: str, label: Label) -> tuple[object, bool]:
    texts = {entry.id: label(entry.text) for entry in posed.entries}
    with st.form(f"{key}-form", border=False):
        given = st.radio(words("answer.choice"), list(texts), index=None, key=f"{key}-choice", format_func=texts.get, width="stretch")
        sent = st.form_submit_button(words("answer.check"), type="primary", key=f"{key}-check")
    return given, sent


def _order(posed: Posed, words: Words, key: str, label: Label) -> tuple[object, bool]:
    """Every step is a button that stays where it is: pressed, it gets the next number; pressed again, it gives it back."""
    kept = f"{key}-order"
    placed: tuple[str, ...] = st.session_state.get(kept, ())

    def press(step: str) -> None:
        st.session_state[kept] = tuple(s for s in placed if s != step) if step in placed else (*placed, step)

    st.html(f"<p class='lab-note'>{escape(words('answer.order'))}</p>")
    with st.container(key="quiz-steps", gap="xsmall"):
        for entry in posed.entries:
            number = f"**{placed.index(entry.id) + 1}**" if entry.id in placed else "–"
            st.button(f"{number} {label(entry.text)}", key=f"{key}-step-{entry.id}", on_click=press, args=(entry.id,), width="stretch")
    with st.container(horizontal=True, gap="small"):
        sent = st.button(words("answer.check"), type="primary", key=f"{key}-check")
        if placed and st.button(words("answer.order_clear"), key=f"{key}-clear", type="tertiary"):
            st.session_state[kept] = ()
            st.rerun()
    return placed, sent


def _open(posed: Posed, words: Words, key: str, label: Label) -> tuple[object, bool]:
    with st.form(f"{key}-form", border=False):
        given = st.text_area(words("answer.open"), key=f"{key}-open", max_chars=MOST_CHARACTERS, height=180, help=words("answer.open_help"))
        sent = st.form_submit_button(words("answer.commit"), type="primary", key=f"{key}-check")
    return given, sent


ASKED = {"number": _number, "choice": _choice, "order": _order, "open": _open}
