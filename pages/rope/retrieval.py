"""The third part of the lesson: needles by depth and length, and what perplexity beside them hides."""

from __future__ import annotations

import streamlit as st

from engine.errors import LabError
from engine.experiments.lengths_scenario import LAB_MODEL, LENGTHS
from engine.experiments.retrieval_scenario import RETRIEVAL, RetrievalScenario, retrieval_for
from engine.service import client
from pages._ui import experiment, grids, outcome, parts, predict, session
from pages._ui.words import Words
from pages.rope import lengths_story, run_form
from pages.rope import retrieval_story as story

PHASES = ("queued", "starting-workers", "loading", "measuring")
FORM = run_form.Form(
    kind=RETRIEVAL,
    scenario=RetrievalScenario,
    preset=retrieval_for,
    lists=(("lengths", (128, 192, 256, 384, 512, 768, 1024, 2048)), ("depths", (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95))),
    numbers=("trials", "factor", "sinks", "seed"),
)


def section(words: Words) -> None:
    """A recording at once, a run while it is made, and its result; perplexity beside it; an example."""
    st.markdown(words.part("retrieval"))
    ahead = st.container()
    found = experiment.shown(
        RETRIEVAL,
        words,
        PHASES,
        form=lambda scenario: run_form.panel(FORM, words, scenario),
        live=lambda known: _live(known, words),
        model=LAB_MODEL,
    )
    predict.section("rope", "retrieval", words, None if found.active else found.result, active=found.active, place=ahead)
    if not found.active:  # one picture that lives is enough
        if found.result is None:
            st.html(parts.notice(words("source.none_title"), words("retrieval.none"), kind="info"))
        else:
            _show(found.result, found.choices, words)
    outcome.why(words, "retrieval")
    if not found.active and found.result is not None:
        outcome.keep(found.result, found.src, words)


def _live(known: dict, words: Words) -> None:
    """The cells as they come."""
    if spec := story.grids(known, words):
        grids.show(spec, alt=words("retrieval.alt_live"), key="retrieval-live")


def _show(result: dict, choices: list[str], words: Words) -> None:
    # A busy machine makes such a run slower and changes none of its answers: nothing is said of disturbance.
    outcome.source_row(result, RetrievalScenario, words, RETRIEVAL, choices)
    st.html(f"{lengths_story.paragraphs(story.headline(result, words), words)}<p class='lab-note'>{parts.prose(story.about(result, words))}</p>")
    if spec := story.grids(result, words):
        grids.show(spec, alt=story.alt(result, words), key="retrieval-grids")
    st.html(f"{story.keys(result, words)}<p class='lab-note'>{parts.prose(words('retrieval.grids_note'))}</p>")
    with st.expander(words("retrieval.section_table")):
        st.html(parts.plain_table(*story.table(result, words), words("retrieval.section_table")))
    _beside(result, words)
    if shown := story.example(result, words):
        outcome.section(words("retrieval.section_example"))
        st.markdown(words.part("retrieval-example"))
        st.html(shown)


def _beside(result: dict, words: Words) -> None:
    """Perplexity beside retrieval, from the lengths result that the reader sees in the part before."""
    lengths = _lengths()
    found = story.beside(lengths, result) if lengths else None
    outcome.section(words("retrieval.section_beside"))
    if found is None:
        st.html(parts.notice(words("retrieval.beside_none_title"), words("retrieval.beside_none"), kind="info"))
        return
    length, rows = found
    st.html(lengths_story.paragraphs(story.beside_said(length, rows, result["trained"], words), words))
    st.html(f"{story.beside_rows(length, rows, result['guess'], words)}<p class='lab-note'>{parts.prose(words('retrieval.beside_note'))}</p>")
    st.html(f"{_from('retrieval.from_lengths', lengths, words)}{_from('retrieval.from_retrieval', result, words)}")


def _from(key: str, result: dict, words: Words) -> str:
    return f"<div class='rb-from'><span class='lab-note'>{parts.prose(words(key))}</span>{outcome.source_line(result, words)}</div>"


def _lengths() -> dict | None:
    """The lengths result of the part before: the run in the address, else the recording."""
    run = session.run_id(LENGTHS)
    try:
        found = client.result(run) if run else None
    except LabError:  # a file that cannot be read; the part before says so
        found = None
    if found and found["kind"] == LENGTHS:
        return found
    return outcome.shipped(LENGTHS, LENGTHS, LAB_MODEL)[0]
