"""The second part of the lesson: a text read through caches that evict, what it does to the model and what it costs."""

from __future__ import annotations

import streamlit as st

from engine.experiments.streaming_scenario import STREAMING, StreamingScenario, streaming_for
from pages._ui import experiment, outcome, parts, plot, predict, script
from pages._ui.words import Words
from pages.sinks import run_form
from pages.sinks import streaming_story as story

PHASES = ("queued", "starting-workers", "loading", "measuring")
FORM = run_form.Form(
    kind=STREAMING,
    scenario=StreamingScenario,
    preset=streaming_for,
    rows=(("tokens", "window"), ("points", "decode_tokens"), ("seed",)),
    counts=(("sinks", (0, 1, 2, 4, 8)),),
)
# The cache as cells: of so many slots, with so many sinks to choose from.
CELLS = {"window": 8, "sinks": [1, 2, 4], "chosen": 2}


def section(words: Words) -> None:
    """From the question to the files: a recording at once, a run while it is made, and its result."""
    st.markdown(words.part("streaming"))
    ahead = st.container()
    found = experiment.shown(
        STREAMING,
        words,
        PHASES,
        form=lambda scenario: run_form.panel(FORM, words, scenario),
        live=lambda known: _live(known, words),
    )
    predict.section("sinks", "streaming", words, None if found.active else found.result, active=found.active, place=ahead)
    if not found.active:  # one picture that lives is enough
        if found.result is None:
            st.html(parts.notice(words("source.none_title"), words("streaming.none"), kind="info"))
        else:
            _show(found.result, found.choices, words)
    _cells(words)
    outcome.why(words, "streaming")
    if not found.active and found.result is not None:
        outcome.keep(found.result, found.src, words)


def _live(known: dict, words: Words) -> None:
    """The curves as they grow."""
    if spec := story.spec(known, story.LOSS, words):
        plot.show(spec, alt=words("streaming.alt_live"), key="streaming-live")


def _show(result: dict, choices: list[str], words: Words) -> None:
    outcome.source_row(result, StreamingScenario, words, STREAMING, choices)
    first, *rest = [words(key, **facts) for key, facts in story.headline(result)]
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{_paragraphs(rest)}")
    st.html(f"{parts.figures(story.figures(result, words))}<p class='lab-note'>{parts.prose(story.about(result, words))}</p>")
    outcome.section(words("streaming.section_curves"))
    _curves(result, words)
    st.html(parts.plain_table(*story.policy_table(result, words), words("streaming.section_curves")))
    notes = [words(key, **facts) for key, facts in filter(None, (story.sampled_note(result), story.agreement(result)))]
    _html("".join(f"<p class='lab-note'>{parts.prose(note)}</p>" for note in notes))
    if result["table"]:
        outcome.section(words("streaming.section_sinks"))
        st.html(_sentences(story.sinks_said(result), words) + parts.plain_table(*story.sinks_table(result, words), words("streaming.section_sinks")))
    _cost(result, words)


@st.fragment
def _curves(result: dict, words: Words) -> None:
    """Only this runs again when the other view is chosen."""
    view = st.segmented_control(
        words("streaming.view"),
        list(story.VIEWS),
        default=story.ABOVE,
        required=True,
        key="streaming-view",
        label_visibility="collapsed",
        format_func=lambda name: words(f"streaming.view_{name}"),
        persist_state="session",
    )
    # With the dense curve alone there is nothing to set beside it.
    if spec := story.spec(result, view, words) or story.spec(result, story.LOSS, words):
        plot.show(spec, alt=story.alt(result, words), key="streaming-curves")


def _cost(result: dict, words: Words) -> None:
    found = [(what, story.cost_spec(result, what, words)) for what in ("ms_per_token", "kv_bytes")]
    if not all(spec for _, spec in found):
        return
    outcome.section(words("streaming.section_cost"))
    if sentence := outcome.disturbance(result, words):  # a busy machine changes times, but no perplexity
        st.html(parts.notice(words("disturbed.title"), sentence, words("streaming.disturbed_only"), kind="info"))
    _html(_sentences(story.cost_said(result), words))
    for place, (what, spec) in zip(st.columns(2), found, strict=True):
        with place:
            plot.show(spec, alt=story.cost_alt(result, what, words), key=f"streaming-{what}")
    st.html(parts.plain_table(*story.cost_table(result, words), words("streaming.section_cost")))
    st.html(f"<p class='lab-note'>{parts.prose(words('streaming.cost_note'))}</p>")


def _cells(words: Words) -> None:
    """Two caches step by step: computed from the policies' rules, one word standing for a token."""
    outcome.section(words("streaming.section_cells"))
    st.markdown(words.part("cells"))
    texts = {key: words(key) for key in words.keys("cells.")}
    script.component("cells")(key="sinks-cells", data={"words": texts, "tokens": words("cells.sentence").split(), **CELLS})


def _sentences(found: list, words: Words) -> str:
    return _paragraphs([words(key, **facts) for key, facts in found])


def _paragraphs(texts: list[str]) -> str:
    return "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in texts)


def _html(text: str) -> None:
    """Streamlit refuses to show nothing."""
    if text:
        st.html(text)
