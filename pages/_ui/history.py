"""The runs of this browser: found again without having kept their links."""

from __future__ import annotations

import streamlit as st

from engine.errors import LabError
from engine.service import client
from pages._ui import fmt, run_panel, session
from pages._ui.palette import SCHEDULES
from pages._ui.words import Words

SHOWN = 10


def popover(kind: str, words: Words, titles: dict[str, str], slot: str = session.RUN) -> None:
    """A button that opens the list; nothing at all for who has not run anything yet.

    titles: what the workloads are called in the reader's language.
    """
    try:
        found = client.runs(session.browser(), SHOWN, kind)
    except LabError as error:
        run_panel.failed(error, words)
        return
    if not found:
        return
    with st.popover(words("history.title")):
        st.caption(words("history.what"))
        for run in found:
            if st.button(_label(run, words, titles), key=f"history-{run.id}", type="tertiary"):
                session.show_run(run.id, slot)
                st.rerun()


def _label(run, words: Words, titles: dict[str, str]) -> str:
    gaps = [s["itl_max_s"] for s in (run.summary or {}).values() if isinstance(s, dict) and s.get("itl_max_s")]
    # The many points of a sweep would say nothing in a line.
    shown = words("history.gaps", gaps=" / ".join(fmt.seconds(g) for g in gaps)) if 0 < len(gaps) <= len(SCHEDULES) else ""
    parts = [run.started_at[5:16].replace("T", " ") + " UTC", titles.get(run.title, run.title), shown, words("history.pinned") if run.pinned else ""]
    return " · ".join(p for p in parts if p)
