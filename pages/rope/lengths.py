"""The second part of the lesson: perplexity behind more and more text, on the lab model and on a pretrained one."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.errors import LabError
from engine.experiments.lengths_scenario import LAB_MODEL, LENGTHS, LengthsScenario, lengths_for
from engine.service import client
from pages._ui import fmt, outcome, parts, plot, run_panel, session
from pages._ui.words import Words
from pages.rope import lengths_story as story
from pages.rope import run_form

PHASES = ("queued", "starting-workers", "loading", "measuring")
LIVE_S = 1.5
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
    panel = st.container()
    run = session.run_id(LENGTHS)
    status = run_panel.ended(run, words, LENGTHS)
    result = run_panel.result_of(status, run, LENGTHS, words)
    active = status is not None and status.active
    with panel:
        if active:
            run_panel.watch(run, words, PHASES, own=status.own)
            _live(run, words, LENGTHS)
        else:
            run_form.panel(FORM, words, result["manifest"]["scenario"] if result else None)
    if not active:  # one picture that lives is enough
        src, choices = result and result["run_id"], []
        if result is None:
            result, src, choices = outcome.shipped(LENGTHS, LENGTHS, LAB_MODEL)
        if result is None:
            st.html(parts.notice(words("source.none_title"), words("lengths.none"), kind="info"))
        else:
            _show(result, choices, words, LENGTHS)
    with st.container(key="lab-why"):
        reasons, attempts = st.columns([3, 2], gap="large")
        reasons.markdown(words.part("lengths-why"))
        attempts.markdown(words.part("lengths-try"))
    _pretrained(words)
    if not active and result is not None:
        outcome.keep(result, src, words)


def _live(run: str, words: Words, slot: str) -> None:
    """The lines as they grow."""

    @st.fragment(run_every=LIVE_S)
    def draw() -> None:
        try:
            known = client.live(run)
        except LabError:
            return  # the progress above says so
        if known and (spec := story.spec(known, words)):
            plot.show(spec, alt=words("lengths.alt_live"), key=f"{slot}-live")

    draw()


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
    panel = st.container()
    scenario = lengths_for(client.device()["class"], PRESET)
    run = session.run_id(PRETRAINED)
    status = run_panel.ended(run, words, PRETRAINED)
    result = run_panel.result_of(status, run, LENGTHS, words)
    active = status is not None and status.active
    recorded, src, choices = outcome.shipped(LENGTHS, PRETRAINED, scenario.model)
    with panel:
        if active:
            run_panel.watch(run, words, PHASES, own=status.own)
            _live(run, words, PRETRAINED)
        else:
            _on_request(scenario, recorded, words)
    if active:
        return
    shown = result or recorded
    if shown is None:
        st.html(parts.notice(words("source.none_title"), words("lengths.none_pretrained"), kind="info"))
        return
    _show(shown, [] if result else choices, words, PRETRAINED)
    st.html(outcome.files(shown, result["run_id"] if result else src, words))


def _on_request(scenario: LengthsScenario, recorded: dict | None, words: Words) -> None:
    """The button, and how long it takes."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"lab-run-{PRETRAINED}"):
        ready = run_panel.offer(run_form.needs(scenario), words, f"-{PRETRAINED}")
        if ready and st.button(words("lengths.go_pretrained"), key=f"go-{PRETRAINED}"):
            run_panel.submit(scenario, words, slot=PRETRAINED)
        if recorded:
            facts = {"about": fmt.duration(story.seconds(recorded)), "name": recorded["manifest"]["device"]["name"]}
            told = words("lengths.takes", **facts)
        else:
            told = words("lengths.takes_minutes")
        st.html(f"<p class='lab-note lab-beside'>{escape(told)}</p>", width="stretch")
