"""The fourth part of the lesson: what the papers printed, and ours beside it."""

from __future__ import annotations

import streamlit as st

from engine import profiles
from engine.experiments.needle_scenario import NEEDLE
from engine.experiments.streaming_scenario import STREAMING
from pages._ui import claims, outcome, parts
from pages._ui.words import Words
from pages.sinks import needle_story, streaming_story
from pages.sinks import published_story as story


def section(words: Words) -> None:
    ours = claims.results({STREAMING, NEEDLE})
    outcome.section(words("published.section_sinks"))
    _published("streamingllm-table-2", story.by_sinks(words), words, story.ratios(words))
    if found := ours.get(STREAMING):
        st.html(outcome.source_line(found, words) + _said(story.ours_said(found, words)))
        st.html(parts.plain_table(*story.ours_by_sinks(found, words), words("published.ours_label")))
    st.markdown(words.part("published-why"))
    outcome.section(words("published.section_first"))
    _published("streamingllm-table-1", story.first_tokens(words), words)
    outcome.section(words("published.section_forgets"))
    st.markdown(words.part("published-forgets"))
    _published("streamingllm-table-7", story.by_distance(words), words)
    if found := ours.get(NEEDLE):
        first, *_ = needle_story.headline(found)
        st.html(outcome.source_line(found, words) + _said(words(first[0], **first[1])))
    _speed(ours.get(STREAMING), words)


def _speed(ours: dict | None, words: Words) -> None:
    """What the papers gain, and our window computed anew against our cache with sinks."""
    outcome.section(words("published.section_speed"))
    sources = "".join(f"<p class='lab-note'>{parts.cited(story.source(profiles.table(name), words))}</p>" for name in story.SPEEDS)
    st.html(f"<div class='lab-source'>{parts.badge('published', words)}</div>{sources}")
    st.html(parts.plain_table(*story.speeds(words), words("published.section_speed")))
    if ours and (said := dict(streaming_story.cost_said(ours)).get("streaming.cost_again")):
        st.html(outcome.source_line(ours, words) + _said(words("streaming.cost_again", **said)))


def _published(name: str, rows: story.Rows, words: Words, said: str | None = None) -> None:
    """A table of a paper, with its badge and its place above it."""
    table = profiles.table(name)
    badge = f"<div class='lab-source'>{parts.badge('published', words)}<span>{parts.cited(story.source(table, words))}</span></div>"
    st.html(badge + parts.plain_table(*rows, table.title) + _said(said))


def _said(text: str | None) -> str:
    return f"<p class='lab-said'>{parts.prose(text)}</p>" if text else ""
