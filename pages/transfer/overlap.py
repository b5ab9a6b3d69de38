"""The second part of the lesson: the whole cache behind the prefill, against layer by layer during it."""

from __future__ import annotations

import streamlit as st

from engine.experiments.transfer_scenario import TRANSFER, TransferScenario
from pages._ui import outcome, parts, predict
from pages._ui.words import Words
from pages.transfer import formats
from pages.transfer import overlap_story as story


def section(words: Words) -> None:
    """The same run as in the first part, seen from its other end."""
    st.markdown(words.part("overlap"))
    ahead = st.container()
    shown = formats.shown(words)
    predict.section("transfer", "overlap", words, None if shown.active else shown.result, active=shown.active, place=ahead)
    if not shown.active:
        result, choices = shown.result, shown.choices
        found = result and result["overlap"]
        if result is None:
            st.html(parts.notice(words("source.none_title"), words("formats.none"), kind="info"))
        elif not found or not found["parts"]:
            outcome.source_row(result, TransferScenario, words, TRANSFER, choices)
            st.html(parts.notice(words("overlap.none_title"), words("overlap.none_what"), kind="info"))
        else:
            _show(result, found, choices, words)
    outcome.why(words, "overlap")


def _show(result: dict, found: dict, choices: list[str], words: Words) -> None:
    outcome.source_row(result, TransferScenario, words, TRANSFER, choices)
    outcome.disturbed(result, words)
    first, *rest = [words(key, **facts) for key, facts in story.headline(found)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}<p class='lab-note'>{parts.prose(story.about(found, words))}</p>")
    st.html(f"{story.timelines(found, words)}<p class='lab-note'>{parts.prose(words('overlap.reading'))}</p>")
    with st.expander(words("overlap.table")):
        st.html(parts.plain_table(*story.table(found, words), words("overlap.table")))
