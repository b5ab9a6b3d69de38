"""The first part of the lesson: bytes, seconds and quality of a cache on its way, format by format."""

from __future__ import annotations

import streamlit as st

from engine import profiles
from engine.errors import LabError
from engine.experiments.transfer_scenario import TRANSFER, TransferScenario
from engine.service import client
from pages._ui import fmt, outcome, parts, run_panel, session
from pages._ui.words import Words
from pages.transfer import formats_story as story
from pages.transfer import run_form

PHASES = ("queued", "starting-workers", "loading", "measuring")
LIVE_S = 1.5
# Offered beside what was measured: from the slowest up.
LINKS = ("ethernet-10", "ethernet-25", "ethernet-100", "infiniband-ndr")
MEASURED = "measured"


def section(words: Words) -> None:
    """From the question to the files: a recording at once, a run while it is made, and its result."""
    st.markdown(words.part("formats"))
    result, src, choices, active = shown(words)
    if not active:
        if result is None:
            st.html(parts.notice(words("source.none_title"), words("formats.none"), kind="info"))
        else:
            _show(result, choices, words)
    with st.container(key="lab-why"):
        reasons, attempts = st.columns([3, 2], gap="large")
        reasons.markdown(words.part("formats-why"))
        attempts.markdown(words.part("formats-try"))
    if not active and result is not None:
        outcome.keep(result, src, words)


def shown(words: Words) -> tuple[dict | None, str | None, list[str], bool]:
    """The controls, and what is to be shown below them: result, source of its files, recordings to choose from, whether a run
    is under way."""
    panel = st.container()
    run = session.run_id(TRANSFER)
    status = run_panel.ended(run, words, TRANSFER)
    result = run_panel.result_of(status, run, TRANSFER, words)
    active = status is not None and status.active
    with panel:
        if active:
            run_panel.watch(run, words, PHASES, own=status.own)
            _live(run, words)
        else:
            run_form.panel(words, result["manifest"]["scenario"] if result else None)
    if result is not None or active:
        return result, result and result["run_id"], [], active
    return *outcome.shipped(TRANSFER, TRANSFER), False


def _live(run: str, words: Words) -> None:
    """The bars of the length that is being sent, as they come."""

    @st.fragment(run_every=LIVE_S)
    def draw() -> None:
        try:
            known = client.live(run)
        except LabError:
            return  # the progress above says so
        if known and known.get("cells"):
            rows = story.at({"rows": known["cells"]}, max(cell["tokens"] for cell in known["cells"]))
            tokens = fmt.count(rows[0]["tokens"])
            st.html(f"<p class='lab-note'>{words('formats.live', tokens=tokens)}</p>{story.bars(rows, None, words)}")

    draw()


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
