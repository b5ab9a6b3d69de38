"""The first part of the lesson: what a state takes and what a cache takes, for real models, computed."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine import profiles
from engine.formulas.kv import KV_DTYPES
from pages._ui import outcome, parts, plot, predict
from pages._ui.words import Words
from pages.open import state_story as story


def section(words: Words) -> None:
    st.markdown(words.part("state"))
    predict.section("open", "state", words)
    _draw(words)
    outcome.why(words, "state")


@st.fragment
def _draw(words: Words) -> None:
    """Only this runs again when something is chosen."""
    choice = _chosen(words)
    first, *rest = [words(key, **facts) for key, facts in story.said(choice)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{escape(words('state.what'))}</span></div>")
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}")
    plot.show(story.spec(choice, words), alt=story.alt(choice, words), key="open-state")
    st.html(parts.plain_table(*story.table(choice, words), words("state.table")))
    with st.expander(words("state.sources")):
        found = [f"{model.title}: {model.sources['layers']}" for model in (choice.reference, *choice.models)]
        st.html("".join(f"<p class='lab-note'>{parts.cited(text)}</p>" for text in found))


def _chosen(words: Words) -> story.Choice:
    """The boxes, which the session keeps."""
    known = profiles.models()
    with_state, without = story.with_state(known), story.without(known)
    found: dict[str, object] = {}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-open-state"):
        found["models"] = st.multiselect(
            words("state.models"),
            with_state,
            default=list(story.FIRST["models"]),
            max_selections=story.MOST_MODELS,
            format_func=lambda name: known[name].title,
            key="open-state-models",
            persist_state="session",
            width=560,
        )
        for name, options, show, width in (
            ("reference", without, lambda name: known[name].title, 230),
            ("dtype", KV_DTYPES, str, 105),
            ("tokens", story.TOKENS, lambda n: f"{n:,}", 150),
        ):
            found[name] = st.selectbox(
                words(f"state.{name}"),
                list(options),
                index=list(options).index(story.FIRST[name]),
                format_func=show,
                key=f"open-state-{name}",
                persist_state="session",
                width=width,
            )
    return story.choice_of(found, known)
