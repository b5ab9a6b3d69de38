"""The claims of the source texts in lessons, and the results that can be set beside them."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.claims import Claim, Measurement, claims
from engine.errors import LabError
from engine.service import client
from pages._ui import claim_card, outcome, recordings, session
from pages._ui.words import Words

# Under these names the lessons keep the run they show in the address and the session.
SLOTS = (session.RUN, "chunks", "roofline", "wall", "streaming", "needle", "lengths", "pretrained", "retrieval", "transfer", "pools", "ring", "recurrent")
# What is measured on several models, because it is not the same on all of them: a result of each is shown.
OF_EACH_MODEL = ("lengths",)


def section(lesson: str, words: Words) -> None:
    """A lesson's claims in short, with the way to all that is behind them; nothing if it has none."""
    table = Words(words.lang, "claims")
    found = [claim for claim in claims().values() if lesson in claim.lessons]
    if not found:
        return
    outcome.section(table("section.claims"))
    st.html(f"<p class='lab-note'>{escape(table('section.claims_what'))}</p>{claim_card.rows(found, table)}")
    if pages := st.session_state.get("pages"):  # the router's table
        st.page_link(pages["claims"], label=table("section.claims_all"), query_params={"lang": words.lang, "lesson": lesson})


def measurements(claim: Claim, results: dict[str, dict]) -> list[tuple[dict, Measurement]]:
    """The results that have something to say to a claim, with what they say."""
    pairs = ((result, claim.measure(result)) for result in results.values())
    return [(result, found) for result, found in pairs if found]


def results(kinds: set[str]) -> dict[str, dict]:
    """For each kind of experiment the reader's own result: the one last looked at, else the newest; else the recording.

    Of OF_EACH_MODEL there are more: behind it, by kind and model, what was looked at or recorded with each other model.
    """
    shown = [result for slot in SLOTS if (run := session.run_id(slot)) and (result := _read(run))]
    found = {}
    for kind in sorted(kinds):
        own = next((result for result in shown if result["kind"] == kind), None) or _newest(kind)
        if result := own or _recorded(kind):
            found[kind] = result
            if kind in OF_EACH_MODEL:
                others = {_model(other): other for other in [*_all_recorded(kind), *shown] if other["kind"] == kind}
                found |= {f"{kind} {model}": other for model, other in others.items() if model != _model(result)}
    return found


def _model(result: dict) -> str:
    return result["manifest"]["scenario"]["model"]


def _all_recorded(kind: str) -> list[dict]:
    return [recordings.load(name) for name in recordings.names(kind)]


def _newest(kind: str) -> dict | None:
    try:
        runs = client.runs(session.browser(), 1, kind)
    except LabError:  # the store is busy for a moment: the recording will do
        return None
    return _read(runs[0].id) if runs else None


def _read(run: str) -> dict | None:
    """A stored result; None for an address nobody gave out, and for a file that cannot be read."""
    try:
        return client.result(run)
    except LabError:
        return None


def _recorded(kind: str) -> dict | None:
    name = recordings.first_for(kind, client.device()["class"])
    return recordings.load(name) if name else None
