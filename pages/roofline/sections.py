"""What the lesson shows of a result: the roofline with its points, everything about one of them, and what was counted."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine import profiles
from engine.experiments.roofline_scenario import RooflineScenario
from pages._ui import claims, fmt, outcome, parts, plot
from pages._ui.words import Words
from pages.roofline import picture, point, story


def summary(result: dict, words: Words, choices: list[str], slot: str) -> None:
    """What stays in sight whatever part is open. choices: the names of the recordings it was chosen from."""
    key, facts = story.headline(result)
    outcome.source_row(result, RooflineScenario, words, slot, choices)
    st.html(f"<p class='lab-headline'>{parts.prose(words(key, **facts))}</p>{parts.figures(story.figures(result, words))}")
    outcome.disturbed(result, words)


def measured(result: dict, words: Words) -> None:
    """The picture, the point that was picked, what all points say, and why."""
    _picture(result, words)
    if said := [words(key, **facts) for key, facts in story.sentences(result)]:
        outcome.section(words("section.said"))
        st.html("".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in said))
    _table(result, words)
    st.markdown(words.part("read"))
    outcome.why(words)


def details(result: dict, src: str, words: Words) -> None:
    """The machine's limits as measured, what was left out, what is counted, what the textbook says, and the files."""
    _machine(result, words)
    if found := story.skipped(result, words):
        outcome.section(words("section.skipped"))
        st.html("".join(f"<p class='lab-note'>{parts.prose(text)}</p>" for text in found))
    outcome.section(words("section.limits"))
    with st.container(key="lab-model"):
        st.markdown(words.part("limits"))
    claims.section("roofline", words)
    outcome.keep(result, src, words)


@st.fragment
def _picture(result: dict, words: Words) -> None:
    """Only this runs again when another view, another device or a point is chosen."""
    devices = profiles.devices()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="medium", key="lab-view"):
        view = st.segmented_control(
            words("view.label"),
            list(picture.VIEWS),
            default="all",
            required=True,
            key="roofline-view",
            format_func=lambda name: words(f"view.{name}"),
            persist_state="session",
        )
        names = st.multiselect(
            words("view.published"),
            list(devices),
            key="roofline-published",
            format_func=lambda name: devices[name].title,
            placeholder=words("view.published_none"),
            max_selections=len(picture.OTHERS),
            width=420,
            persist_state="session",
        )
    beside = [devices[name] for name in names]
    spec = picture.spec(result, view, beside, words)
    if spec is None:
        st.html(f"<p class='lab-note'>{escape(words('alt.none'))}</p>")
        return
    picked = plot.show(spec, alt=picture.alt(result, view, beside, words), key="roofline-plot")
    if beside:
        st.html(_sources(beside, words))
    if found := point.find(picture.shown(result, view), picked):
        _point(result, found, words)


def _point(result: dict, found: dict, words: Words) -> None:
    """Everything about one point: numbers, which limit is above it, and the formulas with the numbers put in."""
    roof = story.roof(result)
    key, facts = point.says(found, roof)
    formulas = [words(k, **f) for k, f in point.formulas(result, found)]
    badge = parts.badge("computed", words)
    st.html(
        f"<section class='lab-picked' aria-live='polite'><h3>{escape(story.name(found, words))}</h3>"
        f"<p class='lab-note'>{escape(words('picked.how'))}</p>"
        f"{parts.figures(point.figures(found, roof, words))}<p class='lab-said'>{parts.prose(words(key, **facts))}</p>"
        + (f"<div class='lab-formulas'>{badge}" + "".join(f"<p>{parts.prose(text)}</p>" for text in formulas) + "</div>" if formulas else "")
        + "</section>"
    )


@st.fragment
def _table(result: dict, words: Words) -> None:
    """All points as a table, made and sent only when somebody opens it."""
    if (box := st.expander(words("section.points"), key="points", on_change="rerun")).open:
        head, rows = story.rows(result, words)
        box.html(parts.plain_table(head, rows, words("section.points")))


def _machine(result: dict, words: Words) -> None:
    outcome.section(words("section.machine"))
    calibration = result.get("calibration") or {}
    rows = [
        [dtype, f"{fmt.count(size['n'])} × {fmt.count(size['n'])}", fmt.flops_per_s(size["flops_per_s"])]
        for dtype, sizes in (calibration.get("matmul") or {}).items()
        for size in sizes
    ]
    st.html(
        parts.figures(
            [
                (words("figure.memory"), fmt.bytes_per_s(calibration.get("read_bytes_per_s"))),
                (words("details.copy"), fmt.bytes_per_s(calibration.get("copy_bytes_per_s"))),
                (words("details.overhead"), fmt.seconds(calibration.get("call_overhead_s"))),
            ]
        )
        + parts.plain_table([words(f"column.{c}") for c in ("format", "size", "matmul")], rows, words("section.machine"))
        + f"<p class='lab-note'>{escape(words('details.calibration'))}</p>"
    )


def _sources(devices: list[profiles.DeviceProfile], words: Words) -> str:
    found = dict.fromkeys(d.sources[name] for d in devices for name in ("bf16_flops_per_s", "memory_bytes_per_s"))
    return f"<p class='lab-note'>{parts.badge('published', words)} {parts.sentence_citing(words, 'batch.sources', '; '.join(found))}</p>"
