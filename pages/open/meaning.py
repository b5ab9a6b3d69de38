"""The third part of the lesson: how much of a cache's meaning survives when most of it is thrown away, from the sinks lesson's results."""

from __future__ import annotations

import streamlit as st

from engine.experiments.needle_scenario import NEEDLE
from engine.experiments.streaming_scenario import STREAMING
from pages._ui import claims, outcome, parts, predict
from pages._ui.words import Words
from pages.open import meaning_story as story


def section(words: Words) -> None:
    st.markdown(words.part("meaning"))
    found = claims.results({STREAMING, NEEDLE})
    streaming, needle = found.get(STREAMING), found.get(NEEDLE)
    predict.section("open", "meaning", words, needle)
    if streaming is None and needle is None:
        st.html(parts.notice(words("source.none_title"), words("meaning.none"), kind="info"))
    else:
        _show(streaming, needle, words)
    outcome.section(words("meaning.section_published"))
    st.html(f"<div class='lab-source'>{parts.badge('published', words)}<span>{parts.prose(words('meaning.published_what'))}</span></div>")
    st.html(parts.plain_table(*story.published(words), words("meaning.section_published")))
    outcome.why(words, "meaning")


def _show(streaming: dict | None, needle: dict | None, words: Words) -> None:
    # Often both are of one machine and day, and then one line says it.
    st.html("".join(dict.fromkeys(outcome.source_line(result, words) for result in (streaming, needle) if result)))
    first, *rest = [words(key, **facts) for key, facts in story.said(streaming, needle)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}")
    st.html(parts.plain_table(*story.table(streaming, needle, words), words("meaning.table")))
    st.html(f"<p class='lab-note'>{parts.prose(story.about(streaming, needle, words))}</p>")
    if pages := st.session_state.get("pages"):  # the router's table
        st.page_link(pages["sinks"], label=words("meaning.to_sinks"), query_params={"lang": words.lang, "part": "needle"})
