"""The first part of the lesson: bytes, seconds and quality of a cache on its way, format by format."""

from __future__ import annotations

import streamlit as st

from engine import profiles
from engine.experiments.transfer_scenario import TRANSFER, TransferScenario
from pages._ui import experiment, fmt, outcome, parts, predict
from pages._ui.words import Words
from pages.transfer import formats_story as story
from pages.transfer import run_form

PHASES = ("queued", "starting-workers", "loading", "measuring")
# Offered beside what was measured: from the slowest up.
LINKS = ("ethernet-10", "ethernet-25", "ethernet-100", "infiniband-ndr")
MEASURED = "measured"


def section(words: Words) -> None:
    """From the question to the files: a recording at once, a run while it is made, and its result."""
    st.markdown(words.part("formats"))
    ahead = st.container()
    found = shown(words)
    predict.section("transfer", "formats", words, None if found.active else found.result, active=found.active, place=ahead)
    if not found.active:
        if found.result is None:
            st.html(parts.notice(words("source.none_title"), words("formats.none"), kind="info"))
        else:
            _show(found.result, found.choices, words)
    outcome.why(words, "formats")
    if not found.active and found.result is not None:
        outcome.keep(found.result, found.src, words)


def shown(words: Words) -> experiment.Shown:
    """The controls, and what is to be shown below them: the same for both parts that show a run."""
    return experiment.shown(
        TRANSFER, words, PHASES, form=lambda scenario: run_form.panel(words, scenario), live=lambda known: _live(known, words)
    )


def _live(known: dict, words: Words) -> None:
    """The bars of the length that is being sent, as they come."""
    if cells := known.get("cells"):
        rows = story.at({"rows": cells}, max(cell["tokens"] for cell in cells))
        tokens = fmt.count(rows[0]["tokens"])
        st.html(f"<p class='lab-note'>{words('formats.live', tokens=tokens)}</p>{story.bars(rows, None, words)}")


def _show(result: dict, choices: list[str], words: Words) -> None:
    outcome.source_row(result, TransferScenario, words, TRANSFER, choices)
    outcome.disturbed(result, words)
    first, *rest = [words(key, **facts) for key, facts in story.headline(result)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}<p class='lab-note'>{parts.prose(story.about(result, words))}</p>")
    if result["rows"]:
        _picture(result, words)


@st.fragment
def _picture(result: dict, words: Words) -> None:
    """Only this runs again when another length or link is chosen."""
    known, lengths = profiles.links(), story.lengths(result)
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="lab-run-transfer-view"):
        tokens = st.segmented_control(
            words("formats.choose_length"),
            lengths,
            default=lengths[-1],
            required=True,
            key=f"transfer-length-{result['run_id']}",
            format_func=fmt.count,
        )
        link = st.selectbox(
            words("formats.choose_link"),
            [MEASURED, *LINKS],
            key="transfer-link",
            width=330,
            format_func=lambda name: words(f"link.{result['link']['name']}") if name == MEASURED else known[name].title,
            persist_state="session",
        )
    rate = None if link == MEASURED else known[link].bytes_per_s
    rows = story.at(result, tokens)
    computed = link != MEASURED
    badge = parts.badge("computed" if computed else result["provenance"], words)
    facts = {"link": known[link].title, "rate": fmt.bytes_per_s(rate)} if computed else {}
    note = words("formats.bars_computed" if computed else f"formats.bars_{result['link']['name']}", **facts)
    said = [story.over_link(rows, known[link].title, rate) if computed else None, story.limit(rows)]
    told = "".join(f"<p class='lab-said'>{parts.prose(words(key, **facts))}</p>" for key, facts in filter(None, said))
    st.html(f"<div class='lab-source'>{badge}<span>{parts.prose(note)}</span></div>{story.bars(rows, rate, words)}{told}")
    st.html(parts.plain_table(*story.table(rows, rate, words), words("formats.table")))
    st.html(f"<p class='lab-note'>{parts.prose(words('formats.table_note'))}</p>")
    if made := story.texts(result, tokens, words):
        outcome.section(words("texts.title"))
        what = words("texts.what", n=fmt.count(result["manifest"]["scenario"]["continue_tokens"]))
        st.html(f"<p class='lab-note'>{parts.prose(what)}</p>{made}")
