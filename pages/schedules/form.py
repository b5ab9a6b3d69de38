"""The controls of the Schedules lesson: widgets in, a scenario out.

The widgets know no limits of their own: the scenario checks itself, and what it
says is shown in the reader's language.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.scenarios import (
    TRANSFERS,
    SchedulesScenario,
    scenario_for,
    workloads,
)
from engine.service import client
from pages._ui import history, outcome, run_panel, texts
from pages._ui.words import Words, field_label

MIB = 2**20


def panel(words: Words, shown: dict | None = None) -> None:
    """Choose, change, run. Only this part of the page runs again while numbers are changed.

    shown: the scenario of the run in the address, whose numbers are the ones to begin with.
    """

    @st.fragment
    def draw() -> None:
        device = client.device()
        choices = workloads().values()
        titles = {w.name: w.title[words.lang] for w in choices if device["class"] in w.settings}
        summaries = {w.name: w.summary[words.lang] for w in choices}
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run"):
            index = list(titles).index(shown["workload"]) if shown and shown["workload"] in titles else 0
            workload = st.selectbox(
                words("run.workload"),
                list(titles),
                index=index,
                format_func=titles.get,
                key="workload",
                width=340,
                persist_state="session",
            )
            times = outcome.repeats(words, "repeats", shown["repeats"] if shown else 1)
            base = scenario_for(workload, device["class"])
            with st.popover(words("run.numbers")):
                start = SchedulesScenario.from_dict(shown) if shown and shown["workload"] == workload else base
                values = _numbers(start, words, f"{workload}-{device['class']}")
                if values["text"] == texts.OWN:
                    own = texts.own(words)
            place = st.container(width="content")
            history.popover("schedules", words, titles)
            about = f"{escape(summaries[workload])} {escape(outcome.device_line(device, words))}"
            st.html(f"<p class='lab-note lab-beside'>{about}</p>", width="stretch")

        def chosen() -> SchedulesScenario:
            text = client.keep_text(*own) if values["text"] == texts.OWN else values["text"]
            return base.changed({**values, "text": text, "repeats": times})

        run_panel.go(chosen, words, place)

    draw()


def _numbers(begin: SchedulesScenario, words: Words, key: str) -> dict:
    """The reader's changes by name; keyed by workload, so that another workload brings its own numbers."""
    values: dict[str, object] = {}
    cells = _cells()

    def number(name: str, label: str, start: int, help_key: str | None = None) -> int:
        found = next(cells).number_input(
            label,
            value=start,
            step=1,
            key=f"{name}-{key}",
            persist_state="session",
            help=words(help_key) if help_key else None,
        )
        return start if found is None else found  # an emptied field keeps the preset's number

    for group in begin.groups:
        for field in ("count", "prompt_tokens", "output_tokens"):
            name = f"{group.kind}.{field}"
            values[name] = number(name, field_label(name, words), getattr(group, field))
    values["chunk_tokens"] = number(
        "chunk_tokens", field_label("chunk_tokens", words), begin.chunk_tokens, "run.help_chunk"
    )
    values["kv_bytes"] = number("kv_bytes", words("run.kv"), begin.kv_bytes // MIB, "run.help_kv") * MIB
    values["transfer"] = next(cells).selectbox(
        words("run.transfer"),
        TRANSFERS,
        index=TRANSFERS.index(begin.transfer),
        format_func=lambda t: words(f"run.transfer_{t}"),
        key=f"transfer-{key}",
        persist_state="session",
    )
    values["text"] = texts.choose(next(cells), begin.text, words, f"text-{key}")
    return values


def _cells():
    """Places for widgets, three in a row; row by row, so that the order also holds on a phone, where they stand below each other."""
    while True:
        yield from st.columns(3)
