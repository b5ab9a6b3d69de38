"""The second part of the lesson: a prefill on a ring of processes, where its time, its bytes and its memory went."""

from __future__ import annotations

import streamlit as st

from engine.experiments.ring_scenario import RING, RingScenario
from pages._ui import experiment, outcome, parts, plot, predict
from pages._ui.words import Words
from pages.ring import measured_story as story
from pages.ring import run_form

PHASES = ("queued", "starting-workers", "loading", "measuring")


def section(words: Words) -> None:
    """From the question to the files: a recording at once, a run while it is made, and its result."""
    st.markdown(words.part("measured"))
    ahead = st.container()
    found = experiment.shown(RING, words, PHASES, form=lambda scenario: run_form.panel(words, scenario))
    predict.section("ring", "measured", words, None if found.active else found.result, active=found.active, place=ahead)
    if found.result is None:
        st.html(parts.notice(words("source.none_title"), words("measured.none"), kind="info"))
    else:
        _show(found.result, found.choices, words)
    outcome.why(words, "measured")
    if found.result is not None:
        outcome.keep(found.result, found.src, words)


def _show(result: dict, choices: list[str], words: Words) -> None:
    outcome.source_row(result, RingScenario, words, RING, choices)
    outcome.disturbed(result, words)
    st.html(story.paragraphs(story.headline(result), words) + parts.figures(story.figures(result, words)))
    st.html(f"<p class='lab-note'>{parts.prose(story.about(result, words))}</p>")
    outcome.section(words("measured.section_time"))
    if warning := story.times_note(result):
        st.html(parts.notice(words("measured.times_title"), words(warning[0], **warning[1]), kind="info"))
    st.html(story.sentences(story.time_said(result), words) + story.time_bars(result, words))
    _tracks(result, words)
    st.html(parts.plain_table(*story.time_table(result, words), words("measured.section_time")))
    outcome.section(words("measured.section_bytes"))
    st.html(story.sentences(story.bytes_said(result), words) + parts.plain_table(*story.bytes_table(result, words), words("measured.section_bytes")))
    st.html(f"<p class='lab-note'>{parts.prose(words('measured.bytes_note'))}</p>")


@st.fragment
def _tracks(result: dict, words: Words) -> None:
    """One layer under the magnifying glass; only this runs again when another is chosen."""
    layouts, layers = list(result["layouts"]), result["shape"]["layers"]
    st.html(f"<h3>{parts.prose(words('measured.tracks'))}</h3>")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        layout = st.segmented_control(
            words("measured.layout"),
            layouts,
            default=layouts[0],
            required=True,
            key="ring-layout",
            format_func=lambda name: words(f"policy.{name}"),
        )
        layer = st.selectbox(words("measured.layer"), list(range(layers)), index=layers // 2, key=f"ring-layer-{layers}", width=110)
    spec = story.tracks_spec(result, layout, layer, words)
    plot.show(spec, alt=story.tracks_alt(result, layout, layer, words), key="ring-tracks")
