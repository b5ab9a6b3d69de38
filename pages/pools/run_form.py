"""The controls of a pools run: a case, its requests and its pools in, a scenario out, which checks itself."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.pools_scenario import EXACT, POOLS, UNIFIED, PoolsScenario, pools, pools_for
from engine.formulas.kv import KV_DTYPES
from engine.service import client
from pages._ui import history, outcome, run_panel
from pages._ui.words import Words, field_label, schedule_name

ARRANGEMENTS = (UNIFIED, "1:1", "2:1", "1:2", "2:2", "3:1", "1:3")
MIB, MB = 2**20, 10**6
SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)


def panel(words: Words, case: str, shown: dict | None) -> None:
    """Change, run. Only this part of the page runs again meanwhile. shown: the scenario of the run in the address."""

    @st.fragment
    def draw() -> None:
        device = client.device()
        base = pools_for(device["class"], case)
        start = PoolsScenario.from_dict(shown) if shown and shown["workload"] == case else base
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=f"lab-run-{POOLS}"):
            place = st.container(width="content")
            with st.popover(words("run.numbers")):
                changes = _changes(start, words, case)
            history.popover(POOLS, words, {name: found.title[words.lang] for name, found in pools().items()}, POOLS)
            about = f"{escape(pools()[case].summary[words.lang])} {escape(outcome.device_line(device, words))}"
            st.html(f"<p class='lab-note lab-beside'>{about}</p>", width="stretch")
        run_panel.go(lambda: base.changed(changes), words, place, f"-{POOLS}", slot=POOLS)

    draw()


def _changes(start: PoolsScenario, words: Words, case: str) -> dict:
    """The reader's changes by name; keyed by case, so that another brings its own numbers. An emptied number keeps what it was."""
    changes: dict[str, object] = {}
    offered = [*ARRANGEMENTS, *(name for name in start.arrangements if name not in ARRANGEMENTS)]
    chosen = st.multiselect(
        field_label("arrangements", words),
        offered,
        default=list(start.arrangements),
        key=f"pools-arrangements-{case}",
        help=words("run.help_arrangements"),
        format_func=lambda name: schedule_name(name, words),
        persist_state="session",
    )
    changes["arrangements"] = tuple(chosen)
    cells = _cells()

    def number(name: str, label: str, present: float, step: float = 1, help_key: str = "") -> float:
        tip = words(help_key) if help_key else None
        found = next(cells).number_input(label, value=present, step=step, key=f"{name}-{POOLS}-{case}", persist_state="session", help=tip)
        return present if found is None else found

    for group in start.groups:
        for field in ("count", "prompt_tokens", "output_tokens"):
            name = f"{group.kind}.{field}"
            changes[name] = number(name, field_label(name, words), getattr(group, field))
        name = f"{group.kind}.spacing_s"
        changes[name] = number(name, field_label(name, words), group.spacing_s, 0.1)
    changes["kv_bytes"] = number("kv_bytes", words("run.kv"), start.kv_bytes // MIB, 1, "run.help_kv") * MIB
    shares = sorted({*SHARES, start.decode_kv_share})
    changes["decode_kv_share"] = next(cells).selectbox(
        field_label("decode_kv_share", words),
        shares,
        index=shares.index(start.decode_kv_share),
        format_func=lambda share: f"{share * 100:g} %",
        key=f"share-{POOLS}-{case}",
        help=words("run.help_share"),
        persist_state="session",
    )
    changes["link_bytes_per_s"] = number("link", words("run.link"), start.link_bytes_per_s / MB, 10.0, "run.help_link") * MB
    formats = [EXACT, *KV_DTYPES]
    changes["kv_format"] = next(cells).selectbox(
        field_label("kv_format", words),
        formats,
        index=formats.index(start.kv_format),
        format_func=lambda name: words("run.format_exact") if name == EXACT else name,
        key=f"format-{POOLS}-{case}",
        help=words("run.help_format"),
        persist_state="session",
    )
    return changes


def _cells():
    """Places for widgets, three in a row; row by row, so that the order also holds on a phone."""
    while True:
        yield from st.columns(3)
