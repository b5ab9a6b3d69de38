"""The second part of the lesson: perplexity behind more and more text, on the lab model and on a pretrained one."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.lengths_scenario import LAB_MODEL, LENGTHS, LengthsScenario, lengths_for
from engine.service import client
from pages._ui import experiment, fmt, outcome, parts, plot, predict, run_panel
from pages._ui.words import Words
from pages.rope import lengths_story as story
from pages.rope import run_form

PHASES = ("queued", "starting-workers", "loading", "measuring")
FORM = run_form.Form(
    kind=LENGTHS,
    scenario=LengthsScenario,
    preset=lengths_for,
    lists=(("lengths", (128, 192, 256, 384, 512, 768, 1024, 1536, 2048)),),
    numbers=("samples", "seeds", "factor", "sinks", "seed"),
)
# The run of the pretrained model in the address, and its preset.
PRETRAINED, PRESET = "pretrained", "lengths-smollm2"


def section(words: Words) -> None:
    """From the question to the files: a recording at once, a run while it is made, and its result; then the pretrained model."""
    st.markdown(words.part("lengths"))
    ahead = st.container()
    found = experiment.shown(
        LENGTHS,
        words,
        PHASES,
        form=lambda scenario: run_form.panel(FORM, words, scenario),
        live=lambda known: _live(known, words, LENGTHS),
        model=LAB_MODEL,
    )
    predict.section("rope", "lengths", words, None if found.active else found.result, active=found.active, place=ahead)
    if not found.active:  # one picture that lives is enough
        if found.result is None:
            st.html(parts.notice(words("source.none_title"), words("lengths.none"), kind="info"))
        else:
            _show(found.result, found.choices, words, LENGTHS)
    outcome.why(words, "lengths")
    _pretrained(words)
    if not found.active and found.result is not None:
        outcome.keep(found.result, found.src, words)


def _live(known: dict, words: Words, slot: str) -> None:
    """The lines as they grow."""
    if spec := story.spec(known, words):
        plot.show(spec, alt=words("lengths.alt_live"), key=f"{slot}-live")


def _show(result: dict, choices: list[str], words: Words, slot: str) -> None:
    # A busy machine makes such a run slower and changes none of its perplexities: nothing is said of disturbance.
    outcome.source_row(result, LengthsScenario, words, slot, choices)
    st.html(f"{story.paragraphs(story.headline(result, words), words)}<p class='lab-note'>{parts.prose(story.about(result, words))}</p>")
    if spec := story.spec(result, words):
        plot.show(spec, alt=story.alt(result, words), key=f"{slot}-lines")
    outcome.section(words("lengths.section_table"))
    notes = [*([words("lengths.dynamic_note")] if story.shares_a_line(result) else []), words("lengths.table_note")]
    st.html(story.table(result, words) + "".join(f"<p class='lab-note'>{parts.prose(note)}</p>" for note in notes))


def _pretrained(words: Words) -> None:
    """The same on a model that others trained, at lengths that take minutes: a recording, and a run on request."""
    outcome.section(words("lengths.section_pretrained"))
    st.markdown(words.part("lengths-pretrained"))
    scenario = lengths_for(client.device()["class"], PRESET)
    recorded, *_ = outcome.shipped(LENGTHS, PRETRAINED, scenario.model)
    found = experiment.shown(
        LENGTHS,
        words,
        PHASES,
        form=lambda _: _on_request(scenario, recorded, words),
        live=lambda known: _live(known, words, PRETRAINED),
        slot=PRETRAINED,
        model=scenario.model,
    )
    if found.active:
        return
    if found.result is None:
        st.html(parts.notice(words("source.none_title"), words("lengths.none_pretrained"), kind="info"))
        return
    _show(found.result, found.choices, words, PRETRAINED)
    st.html(outcome.files(found.result, found.src, words))


def _on_request(scenario: LengthsScenario, recorded: dict | None, words: Words) -> None:
    """The button, and how long it takes."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"lab-run-{PRETRAINED}"):
        ready = run_panel.offer(run_panel.needs(scenario), words, f"-{PRETRAINED}")
        if ready and st.button(words("lengths.go_pretrained"), key=f"go-{PRETRAINED}"):
            run_panel.submit(scenario, words, slot=PRETRAINED)
        if recorded:
            facts = {"about": fmt.duration(story.seconds(recorded)), "name": recorded["manifest"]["device"]["name"]}
            told = words("lengths.takes", **facts)
        else:
            told = words("lengths.takes_minutes")
        st.html(f"<p class='lab-note lab-beside'>{escape(told)}</p>", width="stretch")
