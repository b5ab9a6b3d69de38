"""The measured wall: requests of this machine's own run into a pool that cannot hold them all."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.wall_scenario import PAGED, RESERVED, VARIANTS, WALL, WallScenario, wall_for
from engine.service import client
from pages._ui import charts, experiment, history, outcome, parts, predict, run_panel
from pages._ui.palette import Palette
from pages._ui.words import Words, field_label
from pages.memory import measured_story as story

SLOT = "wall"
PHASES = ("queued", "starting-workers", "measuring")
FIELDS = (
    ("count", "pool_tokens", "reserve_tokens"),
    ("prompt_tokens_min", "prompt_tokens_max"),
    ("output_tokens_min", "output_tokens_max", "seed"),
)


def section(words: Words, colors: Palette, *, touch: bool) -> None:
    """From the question to the files: a recording at once, a run while it is made, and its result."""
    st.markdown(words.part("measured"))
    ahead = st.container()
    found = experiment.shown(
        WALL,
        words,
        PHASES,
        form=lambda scenario: _form(words, scenario),
        live=lambda known: _live(known, words, colors, touch),
        slot=SLOT,
    )
    predict.section("memory", "measured", words, None if found.active else found.result, active=found.active, place=ahead)
    if found.active:  # one picture that lives is enough
        return
    if found.result is None:
        st.html(parts.notice(words("source.none_title"), words("measured.none"), kind="info"))
    else:
        _show(found.result, found.src, found.choices, words, colors, touch)


def _form(words: Words, shown: dict | None) -> None:
    """Change the numbers, run. Only this part of the page runs again meanwhile."""

    @st.fragment
    def draw() -> None:
        base = wall_for(client.device()["class"])
        start = WallScenario.from_dict(shown) if shown else base
        with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab-run-wall"):
            repeats = outcome.repeats(words, "repeats-wall", start.repeats)
            with st.popover(words("run.numbers")):
                changes = _numbers(start, words)
            place = st.container(width="content")
            history.popover(WALL, words, {WALL: words("measured.title")}, SLOT)
            st.html(f"<p class='lab-note lab-beside'>{escape(outcome.device_line(client.device(), words))}</p>", width="stretch")
        run_panel.go(lambda: base.changed({**changes, "repeats": repeats}), words, place, "-wall", slot=SLOT)

    draw()


def _numbers(start: WallScenario, words: Words) -> dict:
    """The reader's changes by name; an emptied field keeps its number."""
    changes = {}
    for row in FIELDS:
        for place, name in zip(st.columns(3), row, strict=False):
            present, key = getattr(start, name), f"measured.help_{name}"
            found = place.number_input(
                field_label(name, words),
                value=present,
                step=1,
                key=f"wall-{name}",
                persist_state="session",
                help=words(key) if key in words else None,
            )
            changes[name] = present if found is None else found
    return changes


def _live(known: dict, words: Words, colors: Palette, touch: bool) -> None:
    """The blocks in use as they are taken."""
    if used := story.usage_so_far(known):
        figure = story.over_time(used, "blocks", story.pool_so_far(known), words, colors, touch)
        _chart(figure, words("measured.alt_live"), "wall-live")


def _show(result: dict, src: str, choices: list[str], words: Words, colors: Palette, touch: bool) -> None:
    outcome.source_row(result, WallScenario, words, SLOT, choices)
    outcome.disturbed(result, words)
    first, *rest = [words(key, **facts) for key, facts in story.headline(result)]
    more = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    st.html(f"<p class='lab-headline'>{parts.prose(first)}</p>{more}")
    _figures(result, words, colors, touch)
    outcome.section(words("measured.section_prediction"))
    said = "".join(f"<p class='lab-said'>{parts.prose(words(key, **facts))}</p>" for key, facts in story.sums(result))
    how = f"{parts.badge('computed', words)}<span>{escape(words('measured.formula'))}</span>"
    st.html(f"<div class='lab-source'>{how}</div>{said}")
    st.html(parts.plain_table(*story.prediction(result, words), words("measured.section_prediction")))
    outcome.section(words("measured.section_metrics"))
    st.html(parts.metrics_table(story.lines(result), words))
    repeats = result["manifest"]["scenario"]["repeats"]
    note = words("measured.single") if repeats == 1 else words("measured.repeats", n=repeats)
    st.html(f"<p class='lab-note'>{escape(note)}</p>")
    outcome.keep(result, src, words)


def _figures(result: dict, words: Words, colors: Palette, touch: bool) -> None:
    used = {variant: entry["usage"] for variant, entry in result["schedules"].items()}
    pool = result["prediction"][PAGED]["blocks"]
    outcome.section(words("measured.section_blocks"))
    _chart(story.over_time(used, "blocks", pool, words, colors, touch), story.alt(result, "blocks", words), "wall-blocks")
    outcome.section(words("measured.section_slots"))
    chosen = st.segmented_control(
        words("measured.choose"),
        list(VARIANTS),
        default=RESERVED,
        required=True,
        key="wall-variant",
        label_visibility="collapsed",
        format_func=lambda variant: words(f"schedule.{variant}.name"),
        persist_state="session",
    )
    st.html(f"<p class='lab-note'>{escape(words(f'schedule.{chosen}.what'))}</p>")
    _chart(story.slots(result, chosen, words, colors, touch), story.alt_slots(result, chosen, words), "wall-slots")
    outcome.section(words("measured.section_running"))
    _chart(story.over_time(used, "running", None, words, colors, touch), story.alt(result, "running", words), "wall-running")
    _table(result, words)


@st.fragment
def _table(result: dict, words: Words) -> None:
    """The figures as a table, made and sent only when somebody opens it."""
    if (box := st.expander(words("measured.table"), key="wall-table", on_change="rerun")).open:
        box.html(parts.plain_table(*story.moments(result, words), words("measured.table")))


def _chart(figure: dict, text: str, key: str) -> None:
    """A figure with the words for who cannot see it."""
    st.plotly_chart(figure, theme=None, config=charts.CONFIG, key=key, alt=text)
