"""The first part of the lesson: which heads look at the first token, one head in full, and what makes a sink."""

from __future__ import annotations

import streamlit as st

from engine.experiments.attention_scenario import ATTENTION, AttentionScenario
from pages._ui import experiment, outcome, parts, plot, predict, run_panel, script
from pages._ui.words import Words
from pages.sinks import heatmap_form, heatmap_payload
from pages.sinks import heatmap_story as story

SLOT = "attention"
KEY = "sinks-heat"
PHASES = ("queued", "starting-workers", "loading", "computing")


def section(words: Words) -> None:
    """A recording at once, a run's progress while it is made, and its result when there is one."""
    found = experiment.shown(ATTENTION, words, PHASES, form=lambda scenario: heatmap_form.panel(words, scenario, SLOT), slot=SLOT)
    if found.result is None:
        st.html(parts.notice(words("source.none_title"), words("heatmap.none"), kind="info"))
        outcome.why(words)
    else:
        _show(found.result, found.src, found.choices, words)


def _show(result: dict, src: str, choices: list[str], words: Words) -> None:
    # A busy machine makes such a run slower and changes none of its numbers: nothing is said of disturbance.
    key, facts = story.headline(result)
    outcome.source_row(result, AttentionScenario, words, SLOT, choices)
    st.html(
        f"<p class='lab-headline'>{parts.prose(words(key, **facts))}</p>{parts.figures(story.figures(result, words))}"
        f"<p class='lab-note'>{parts.prose(story.about(result, words))}</p>"
    )
    outcome.section(words("section.heads"))
    _heads(result, words)
    _starts(result, words)
    outcome.why(words)
    outcome.keep(result, src, words)


@st.fragment
def _heads(result: dict, words: Words) -> None:
    """Only this runs again when a head or another measure is chosen."""
    at = heatmap_payload.chosen((st.session_state.get(KEY) or {}).get("at"), result)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="lab-heat"):
        measure = st.segmented_control(
            words("heatmap.measure"),
            list(story.MEASURES),
            default="first",
            required=True,
            key="sinks-measure",
            format_func=lambda name: words(f"heatmap.{name}", k=story.first_k(result)),
            persist_state="session",
        )
        window = _window(result, at, words)
    script.component("heat")(key=KEY, data=heatmap_payload.payload(result, at, measure, words, window), on_at_change=lambda: None)
    if (box := st.expander(words("section.table"), key="sinks-table", on_change="rerun")).open:
        box.html(parts.plain_table(*story.overview_table(result, measure, words), words("section.table")))


def _window(result: dict, at: tuple[int, int], words: Words) -> int | None:
    """Which part of the text to show token by token; None for all of it. Offers to read again where another head is kept so."""
    if found := heatmap_payload.windows(result, at):
        group = result["maps"]["edges"][1]
        last = len(result["tokens"]) - 1
        return st.selectbox(
            words("heatmap.window", layer=at[0], head=at[1]),
            [None, *found],
            key=f"sinks-window-{last}",  # of texts this long: another has other parts
            width=330,
            persist_state="session",
            format_func=lambda first: words("heatmap.groups", n=group)
            if first is None
            else words("heatmap.one_by_one", first=first, last=min(first + heatmap_payload.WINDOW - 1, last)),
        )
    if (exact := result["exact"]) and result["maps"]["reduction"]:
        hint = words("heatmap.exact_help", layer=exact["layer"], head=exact["head"])
        if st.button(words("heatmap.exact", layer=at[0], head=at[1]), type="tertiary", key="sinks-exact", help=hint):
            scenario = AttentionScenario.from_dict(result["manifest"]["scenario"])
            run_panel.submit(scenario.changed({"exact_layer": at[0], "exact_head": at[1]}), words, slot=SLOT)
    return None


def _starts(result: dict, words: Words) -> None:
    """What a sink is made of: the same text behind other first tokens."""
    spec = story.starts_spec(result, words)
    if spec is None:
        return
    outcome.section(words("section.starts"))
    st.markdown(words.part("starts"))
    predict.section("sinks", "heatmap", words, result)
    said = "".join(f"<p class='lab-said'>{parts.prose(words(key, **facts))}</p>" for key, facts in story.starts_said(result))
    st.html(f"{said}<p class='lab-note'>{parts.prose(words('starts.note', **story.starts_facts(result)))}</p>")
    plot.show(spec, alt=story.starts_alt(result, words), key="sinks-starts")
    st.html(parts.plain_table(*story.starts_table(result, words), words("section.starts")))
