"""The fourth part of the lesson: ten million tokens over real links, beside what it takes to read, hold and continue them."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine import profiles
from engine.formulas.kv import KV_DTYPES
from pages._ui import fmt, outcome, parts, plot, predict
from pages._ui.words import Words
from pages.open import ten_story as story


def section(words: Words) -> None:
    st.markdown(words.part("ten-million"))
    predict.section("open", "ten-million", words)
    _draw(words)
    outcome.why(words, "ten-million")


@st.fragment
def _draw(words: Words) -> None:
    """Only this runs again when something is chosen."""
    choice, links = _chosen(words), profiles.links()
    first, *rest = [words(key, **facts) for key, facts in story.said(choice, links)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<div class='lab-source'>{parts.badge('computed', words)}<span>{escape(words('ten.what'))}</span></div>")
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{parts.figures(story.figures(choice, words))}{more}")
    plot.show(story.spec(choice, links, words), alt=story.alt(choice, links, words), key="open-ten")
    st.html(parts.plain_table(*story.table(choice, links, words), words("ten.table")))
    st.html(f"<p class='lab-note'>{parts.prose(words('ten.note'))}</p>")
    if pages := st.session_state.get("pages"):  # the router's table
        st.page_link(pages["transfer"], label=words("ten.to_transfer"), query_params={"lang": words.lang, "part": "calculator"})


def _chosen(words: Words) -> story.Choice:
    """The boxes, which the session keeps."""
    models, devices = profiles.models(), profiles.devices()
    found: dict[str, object] = {}
    shown = {
        "model": (list(story.growing(models)), lambda name: models[name].title, 230),
        "other": (list(story.with_state(models)), lambda name: models[name].title, 230),
        "dtype": (list(KV_DTYPES), str, 105),
        "device": (list(devices), lambda name: devices[name].title, 220),
        "devices": (list(story.DEVICES), str, 85),
        "utilisation": (list(story.UTILISATIONS), fmt.share, 115),
    }
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-open-ten"):
        for name, (options, show, width) in shown.items():
            found[name] = st.selectbox(
                words(f"ten.{name}"),
                options,
                index=options.index(story.FIRST[name]),
                format_func=show,
                key=f"open-ten-{name}",
                width=width,
                persist_state="session",
            )
    return story.choice_of(found, models, devices)
