"""The third part of the lesson: a sentence that the window has left behind, and who can still answer for it."""

from __future__ import annotations

import streamlit as st

from engine.experiments.needle_scenario import NEEDLE, NeedleScenario, needle_for
from pages._ui import experiment, outcome, parts, predict
from pages._ui.words import Words
from pages.sinks import needle_story as story
from pages.sinks import run_form

PHASES = ("queued", "starting-workers", "loading", "measuring")
FORM = run_form.Form(
    kind=NEEDLE,
    scenario=NeedleScenario,
    preset=needle_for,
    rows=(("trials", "length"), ("window", "sinks"), ("distractors", "depth"), ("seed",)),
)


def section(words: Words) -> None:
    """A recording at once, a run's progress while it is made, and its result when there is one."""
    st.markdown(words.part("needle"))
    ahead = st.container()
    found = experiment.shown(NEEDLE, words, PHASES, form=lambda scenario: run_form.panel(FORM, words, scenario))
    predict.section("sinks", "needle", words, None if found.active else found.result, active=found.active, place=ahead)
    if found.result is None:
        st.html(parts.notice(words("source.none_title"), words("needle.none"), kind="info"))
    else:
        _show(found.result, found.choices, words)
    outcome.why(words, "needle")
    if found.result is not None:
        outcome.keep(found.result, found.src, words)


def _show(result: dict, choices: list[str], words: Words) -> None:
    # A busy machine makes such a run slower and changes none of its answers: nothing is said of disturbance.
    outcome.source_row(result, NeedleScenario, words, NEEDLE, choices)
    first, *rest = [words(key, **facts) for key, facts in story.headline(result)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}<p class='lab-note'>{parts.prose(story.about(result, words))}</p>")
    outcome.section(words("needle.section_rates"))
    st.html(f"{story.rows(result, words)}<p class='lab-note'>{parts.prose(story.rates_note(result, words))}</p>")
    st.html(parts.plain_table(*story.table(result, words), words("needle.section_rates")))
    if shown := story.example(result, words):
        outcome.section(words("needle.section_example"))
        st.html(shown)
