"""The controls of the Schedules lesson: widgets in, a scenario out.

The widgets know no limits of their own: the scenario checks itself, and what it
says is shown in the reader's language.
"""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.errors import LabError
from engine.experiments.scenarios import TRANSFERS, SchedulesScenario, scenario_for, workloads
from engine.service import client
from pages._ui import errors, fmt, parts, run_panel
from pages._ui.words import Words

MIB = 2**20
REPEATS = (1, 3)
TEXTS = ("kjv", "pydoc", "korean")
DEFAULT_MODEL_TITLE = "SmolLM2-135M-Instruct"


def panel(words: Words, *, preset: str | None = None) -> None:
    """Choose, change, run. Only this part of the page runs again while numbers are changed."""

    @st.fragment
    def draw() -> None:
        device = client.device()
        choices = workloads().values()
        titles = {w.name: w.title[words.lang] for w in choices if device["class"] in w.settings}
        summaries = {w.name: w.summary[words.lang] for w in choices}
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run"):
            index = list(titles).index(preset) if preset in titles else 0
            workload = st.selectbox(words("run.workload"), list(titles), index=index, format_func=titles.get, key="workload", width=340)
            repeats = st.selectbox(
                words("run.repeats"), REPEATS, key="repeats", width=170,
                format_func=lambda n: words("run.repeats_one") if n == 1 else words("run.repeats_many", n=n),
            )
            base = scenario_for(workload, device["class"])
            with st.popover(words("run.numbers")):
                values = _numbers(base, words, f"{workload}-{device['class']}")
            place = st.container(width="content")
        st.html(f"<p class='lab-note'>{escape(summaries[workload])} {escape(_device_line(device, words))}</p>")
        try:
            scenario = base.changed({**values, "repeats": repeats})
        except LabError as error:
            st.html(parts.notice(words("run.invalid_title"), f"{errors.sentence(error, words.lang)} {words('run.invalid')}"))
            place.button(words("run.go"), type="primary", key="blocked", disabled=True)
            return
        if not run_panel.offer_model(scenario.model, DEFAULT_MODEL_TITLE, words):
            return
        if place.button(words("run.go"), type="primary", key="go"):
            run_panel.submit(scenario, words)

    draw()


def _device_line(device: dict, words: Words) -> str:
    cores = words("unit.core_one") if device.get("cores") == 1 else words("unit.core_many", n=device.get("cores"))
    return words("run.device", name=device.get("name"), cores=cores)


def _numbers(base: SchedulesScenario, words: Words, key: str) -> dict:
    """The reader's changes by name; keyed by workload, so that another workload brings its own numbers."""
    columns = st.columns(3)
    values: dict[str, object] = {}

    def number(name: str, label: str, start: int, help_key: str | None = None) -> int:
        column = columns[len(values) % 3]
        found = column.number_input(words(label), value=start, step=1, key=f"{name}-{key}", help=words(help_key) if help_key else None)
        return start if found is None else found  # an emptied field keeps the preset's number

    for group in base.groups:
        long = group.kind == "long"
        for field, label in (
            ("count", "run.long_count" if long else "run.chats"),
            ("prompt_tokens", "run.long_tokens" if long else "run.chat_prompt"),
            ("output_tokens", "run.long_output" if long else "run.chat_output"),
        ):
            name = f"{group.kind}.{field}"
            values[name] = number(name, label, getattr(group, field))
    values["chunk_tokens"] = number("chunk_tokens", "run.chunk", base.chunk_tokens, "run.help_chunk")
    values["kv_bytes"] = number("kv_bytes", "run.kv", base.kv_bytes // MIB, "run.help_kv") * MIB
    values["transfer"] = columns[len(values) % 3].selectbox(
        words("run.transfer"), TRANSFERS, index=TRANSFERS.index(base.transfer),
        format_func=lambda t: words(f"run.transfer_{t}"), key=f"transfer-{key}",
    )
    names = TEXTS if base.text in TEXTS else (base.text, *TEXTS)
    values["text"] = columns[len(values) % 3].selectbox(
        words("run.text"), names, index=names.index(base.text), key=f"text-{key}", help=words("run.help_text"),
        format_func=lambda t: words(f"run.text_{t}") if f"run.text_{t}" in words else t,
    )
    return values
