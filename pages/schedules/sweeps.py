"""The sweeps of the lesson: each a question, a recording at once, and a run of the reader's own."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.sweep_scenarios import BACKLOG, CHUNK_SWEEP, SweepScenario, sweep_for
from engine.service import client
from pages._ui import history, outcome, parts, predict, recordings, routes, run_panel, session
from pages._ui.palette import Palette
from pages._ui.words import Words, field_label
from pages.schedules import million, sections, sweep_story

SLOTS = {CHUNK_SWEEP: "chunks", BACKLOG: "backlog"}
PHASES = ("queued", "starting-workers", "measuring")
# What a reader may change of each sweep; the rest is the preset's.
FIELDS = {
    CHUNK_SWEEP: ("long.prompt_tokens", "chat.count", "chat.output_tokens"),
    BACKLOG: ("prompt.count", "prompt.spacing_s"),
}


def section(kind: str, words: Words, colors: Palette, *, touch: bool) -> None:
    """One sweep, from its question to its files."""
    slot = SLOTS[kind]
    outcome.section(words(f"{slot}.title"))
    st.markdown(words.part(slot))
    ahead, panel = st.container(), st.container()
    run = session.run_id(slot)
    status = run_panel.ended(run, words, slot)
    result = run_panel.result_of(status, run, kind, words)
    active = status is not None and status.active
    with panel:
        if active:
            run_panel.watch(run, words, PHASES, own=status.own, point=f"{slot}.point")
        else:
            _form(kind, words, result["manifest"]["scenario"] if result else None)
    src = result["run_id"] if result else None
    if result is None:
        name = recordings.first_for(kind, client.device()["class"])
        result, src = (recordings.load(name), routes.RECORDED + name) if name else (None, None)
    predict.section("schedules", kind, words, None if active else result, active=active, place=ahead)
    if result is None:
        st.html(parts.notice(words("source.none_title"), words("sweep.none"), kind="info"))
    else:
        _show(kind, result, src, words, colors, touch)
    if kind == BACKLOG:
        million.section(words, colors, touch=touch)


def _form(kind: str, words: Words, shown: dict | None) -> None:
    @st.fragment
    def draw() -> None:
        base = sweep_for(kind, client.device()["class"])
        start = SweepScenario.from_dict(shown) if shown else base
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key=f"lab-run-{SLOTS[kind]}"):
            repeats = outcome.repeats(words, f"repeats-{kind}", start.repeats)
            with st.popover(words("run.numbers")):
                changes = _numbers(kind, start, words)
            place = st.container(width="content")
            history.popover(kind, words, {kind: words(f"part.{kind}")}, SLOTS[kind])
        run_panel.go(lambda: base.changed({**changes, "repeats": repeats}), words, place, f"-{kind}", slot=SLOTS[kind])

    draw()


def _numbers(kind: str, start: SweepScenario, words: Words) -> dict:
    values = st.text_input(
        words(f"{SLOTS[kind]}.values"),
        ", ".join(str(v) for v in start.values),
        key=f"values-{kind}",
        max_chars=200,
        persist_state="session",
        help=words(f"{SLOTS[kind]}.values_help"),
    )
    changes: dict[str, object] = {"values": values}
    for field in FIELDS[kind]:
        group, part = field.split(".")
        present = getattr(start.base.group(group), part)
        whole = isinstance(present, int)
        found = st.number_input(
            field_label(field, words),
            value=present,
            step=1 if whole else 0.05,
            key=f"{kind}-{field}",
            persist_state="session",
        )
        changes[field] = present if found is None else found
    return changes


def _show(kind: str, result: dict, src: str, words: Words, colors: Palette, touch: bool) -> None:
    slot = SLOTS[kind]
    outcome.source_row(result, SweepScenario, words, slot)
    outcome.disturbed(result, words)
    story = sweep_story.tell(result, words, colors, touch)
    said = [words(key, **facts) for key, facts in story.sentences]
    if story.figure["data"]:  # the whole prompt alone is no line
        sections.chart(story.figure, " ".join([words(f"{slot}.alt"), *said]), f"figure-{kind}")
    if said:  # of too few points nothing can be said
        st.html("".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in said))
    with st.expander(words("sweep.table")):
        st.html(parts.plain_table(story.head, story.rows, words(f"{slot}.title")))
        st.html(f"<p class='lab-note'>{escape(words(f'{slot}.table_what'))}</p>")
    st.html(outcome.files(result, src, words))
