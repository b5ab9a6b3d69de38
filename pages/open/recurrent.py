"""The second part of the lesson: decode steps with a cache and with a state, measured, and what the state forgets."""

from __future__ import annotations

import streamlit as st

from engine.experiments.recurrent_scenario import RECURRENT, RecurrentScenario
from pages._ui import experiment, outcome, parts, plot, predict
from pages._ui.words import Words
from pages.open import recurrent_story as story
from pages.open import run_form

PHASES = ("queued", "starting-workers", "loading", "measuring")


def section(words: Words) -> None:
    """From the question to the files: a recording at once, a run while it is made, and its result."""
    st.markdown(words.part("recurrent"))
    ahead = st.container()
    found = experiment.shown(RECURRENT, words, PHASES, form=lambda scenario: run_form.panel(words, scenario))
    predict.section("open", "recurrent", words, None if found.active else found.result, active=found.active, place=ahead)
    if not found.active:
        if found.result is None:
            st.html(parts.notice(words("source.none_title"), words("recurrent.none"), kind="info"))
        else:
            _show(found.result, found.choices, words)
    outcome.why(words, "recurrent")
    if not found.active and found.result is not None:
        outcome.keep(found.result, found.src, words)


def _show(result: dict, choices: list[str], words: Words) -> None:
    outcome.source_row(result, RecurrentScenario, words, RECURRENT, choices)
    outcome.disturbed(result, words)
    first, *rest = [words(key, **facts) for key, facts in story.headline(result)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}<p class='lab-note'>{parts.prose(story.about(result, words))}</p>")
    outcome.section(words("recurrent.section_time"))
    plot.show(story.time_spec(result, words), alt=story.time_alt(result, words), key="open-time")
    outcome.section(words("recurrent.section_bytes"))
    st.html(f"<p class='lab-said'>{parts.prose(story.bytes_said(result, words))}</p>")
    plot.show(story.bytes_spec(result, words), alt=story.bytes_alt(result, words), key="open-bytes")
    with st.expander(words("recurrent.table")):
        st.html(parts.plain_table(*story.decode_table(result, words), words("recurrent.table")))
    _recall(result, words)
    st.html(f"<p class='lab-note'>{parts.prose(story.forms_said(result, words))}</p>")


@st.fragment
def _recall(result: dict, words: Words) -> None:
    """Only this runs again when another size of key is chosen."""
    outcome.section(words("recall.section"))
    dims = story.key_dims(result)
    dim = st.segmented_control(
        words("recall.choose"),
        dims,
        default=story.usual_dim(result),
        required=True,
        key=f"open-dim-{result['run_id']}",
        format_func=lambda n: words("recall.dim", n=n),
    )
    said = [words(key, **facts) for key, facts in story.recall_said(result, dim)]
    st.html("".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in said))
    plot.show(story.recall_spec(result, dim, words), alt=story.recall_alt(result, dim, words), key="open-recall")
    st.html(parts.plain_table(*story.recall_table(result, dim, words), words("recall.table")))
    ages, rewrites = st.columns(2, gap="large")
    with ages:
        st.html(f"<h3>{parts.prose(words('recall.ages', n=story.aged_pairs(result, dim)))}</h3>")
        st.html(parts.plain_table(*story.ages_table(result, dim, words), words("recall.ages_label")))
    with rewrites:
        st.html(f"<h3>{parts.prose(words('recall.rewrites', n=story.rewritten_pairs(result, dim)))}</h3>")
        st.html(parts.plain_table(*story.rewrites_table(result, dim, words), words("recall.rewrites_label")))
    st.html(f"<p class='lab-note'>{parts.prose(words('recall.guess', values=result['values']))}</p>")
