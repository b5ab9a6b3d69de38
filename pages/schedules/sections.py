"""What the lesson shows of a result, from the picture down to the downloads."""

from __future__ import annotations

from html import escape

import streamlit as st

from engine.experiments.scenarios import SchedulesScenario
from pages._ui import alt, board, charts, claims, errors, fmt, lanes, outcome, parts, timeline
from pages._ui.palette import CATEGORIES, Palette
from pages._ui.words import Words
from pages.schedules import gaps, slo, story

FIRST = ("itl_max_s", "ttft_s", "throughput_tokens_per_s")


def summary(result: dict, words: Words, choices: list[str]) -> None:
    """What stays in sight whatever part is open: where the numbers are from, the sentence, the three that matter most.

    choices: the names of the recordings it was chosen from.
    """
    _source(result, words, choices)
    outcome.disturbed(result, words)
    _refused(result, words)


def run(result: dict, src: str, words: Words) -> None:
    """The picture, how to read it, what each schedule costs, and why. src: see pages/_ui/routes."""
    _picture(result, src, words)
    _costs(result, words)
    outcome.why(words)


def waiting(result: dict, words: Words, colors: Palette, *, touch: bool) -> None:
    """How the waiting is distributed, what can be promised, and every metric with its meaning."""
    _gaps(result, words, colors, touch)
    outcome.section(words("section.slo"))
    slo.section(result, words)
    _metrics(result, words)


def details(result: dict, src: str, words: Words) -> None:
    """What each schedule was given, what the textbook says, what the model wrote, its limits, and the files."""
    _given(result, words)
    claims.section("schedules", words)
    _texts(result, words)
    model(words)
    outcome.keep(result, src, words)


def model(words: Words) -> None:
    """The limits of the model, in plain words."""
    outcome.section(words("section.model"))
    with st.container(key="lab-model"):
        st.markdown(words.part("model"))


def _source(result: dict, words: Words, choices: list[str]) -> None:
    """Where the numbers come from, what they say in a sentence, and the three that matter most."""
    key, facts = story.headline(result)
    found = [board.line(result, k) for k in FIRST]
    outcome.source_row(result, SchedulesScenario, words, choices=choices)
    st.html(
        f"<p class='lab-headline'>{parts.prose(words(key, **facts))}</p>"
        + parts.races([x for x in found if any(c.value for c in x.cells)], words)
    )


def _refused(result: dict, words: Words) -> None:
    """Requests that were not served, with the reason, before any number is compared."""
    lines: dict[str, int] = {}
    for name, entry in result["schedules"].items():
        for request in entry["trace"]["requests"]:
            if request.get("reason"):
                text = f"{words(f'schedule.{name}.short')}: {errors.sentence(request['reason'], words)}"
                lines[text] = lines.get(text, 0) + 1
    if lines:
        texts = [f"{line} ({words('refused.times', n=n)})" if n > 1 else line for line, n in lines.items()]
        st.html(parts.notice(words("refused.title"), *texts))


def _picture(result: dict, src: str, words: Words) -> None:
    view = lanes.view(result)
    if not view.lanes:
        return
    seen = {bar.category for lane in view.lanes for track in lane.tracks for bar in track.bars}
    shown = tuple(c for c in CATEGORIES if c in seen)
    repeats = result["manifest"]["scenario"]["repeats"]
    drawn = f"<p class='lab-note'>{escape(words('span.drawn', n=repeats))}</p>" if repeats > 1 else ""
    st.html(f"<div class='lab-above'>{parts.legend(words, shown)}{drawn}</div>")
    timeline.show(f"./lab/timeline/{src}", words, alt=alt.timeline_alt(view, result, words), key="timeline")
    _table(view, words)
    st.markdown(words.part("read"))
    st.html(parts.glossary(words, shown))


@st.fragment
def _table(view: lanes.View, words: Words) -> None:
    """The timeline as a table, made and sent only when somebody opens it."""
    if (box := st.expander(words("section.table"), key="table", on_change="rerun")).open:
        head, rows = alt.request_rows(view, words)
        box.html(parts.plain_table(head, rows, words("section.table")))


def _costs(result: dict, words: Words) -> None:
    outcome.section(words("section.costs"))
    st.html(
        parts.cards(
            [
                (
                    words(f"schedule.{s}.name"),
                    words(f"schedule.{s}.what"),
                    [words(key, **facts) for key, facts in sentences],
                )
                for s, sentences in story.costs(result).items()
            ]
        )
    )


def _metrics(result: dict, words: Words) -> None:
    outcome.section(words("section.metrics"))
    st.html(parts.metrics_table(board.lines(result), words))
    st.html("".join(f"<p class='lab-note'>{escape(words(key, **facts))}</p>" for key, facts in story.notes(result)))


def _gaps(result: dict, words: Words, colors: Palette, touch: bool) -> None:
    figure = gaps.figure(result, words, colors, touch)
    if figure is None:
        return
    outcome.section(words("section.gaps"))
    head, rows = gaps.table(result, words)
    chart(figure, words("gaps.alt", table="; ".join(", ".join(f"{h} {c}" for h, c in zip(head, row)) for row in rows)), "gaps")
    st.html(f"<p class='lab-note'>{escape(words('gaps.what'))}</p>")
    if (repeats := result["manifest"]["scenario"]["repeats"]) > 1:
        st.html(f"<p class='lab-note'>{escape(words('gaps.run', n=repeats))}</p>")
    with st.expander(words("gaps.table")):
        st.html(parts.plain_table(head, rows, words("section.gaps")))


def chart(figure: dict, text: str, key: str) -> None:
    """A line chart with the words for who cannot see it."""
    st.plotly_chart(figure, theme=None, config=charts.CONFIG, key=key, alt=text)


def _given(result: dict, words: Words) -> None:
    outcome.section(words("section.given"))
    head = [words(f"given.{k}") for k in ("schedule", "worker", "role", "device", "threads", "cores", "kv")]
    rows = [_resource(name, r, words) for name, entry in result["schedules"].items() for r in entry["resources"]]
    st.html(f"<p class='lab-note'>{escape(words('given.same'))}</p>")
    st.html(parts.plain_table(head, rows, words("section.given")))
    if result["manifest"].get("shared_device"):
        st.html(f"<p class='lab-note'>{escape(words('given.shared'))}</p>")


def _resource(schedule: str, r: dict, words: Words) -> list[str]:
    capacity = fmt.binary_bytes(r.get("kv_capacity_bytes"))
    return [
        words(f"schedule.{schedule}.name"),
        r["worker"],
        words(f"given.role_{r['role']}"),
        str(r["device"]),
        fmt.count(r.get("threads")),
        ", ".join(str(c) for c in r.get("cores") or []) or fmt.DASH,
        words("given.blocks", capacity=capacity, tokens=fmt.count(r.get("kv_block_tokens"))),
    ]


def _texts(result: dict, words: Words) -> None:
    outcome.section(words("section.texts"))
    if not result.get("texts"):
        st.html(f"<p class='lab-note'>{escape(words('texts.none'))}</p>")
        return
    if result["manifest"]["model"].get("random"):
        st.html(f"<p class='lab-note'>{escape(words('texts.random'))}</p>")
    text = result["manifest"]["text"]
    if text.get("repeated"):
        st.html(f"<p class='lab-note'>{escape(words('texts.repeated', name=text['title']))}</p>")
    # The long prompts' texts first, and in sight; the chats' behind a click.
    found = sorted(result["texts"].items(), key=lambda pair: not pair[0].startswith("long"))
    first = [pair for pair in found if pair[0].startswith("long")] or found[:1]
    st.html("".join(_side_by_side(request, texts, result, words) for request, texts in first))
    if rest := found[len(first) :]:
        with st.expander(words("texts.more", n=len(rest))):
            st.html("".join(_side_by_side(request, texts, result, words) for request, texts in rest))


def _side_by_side(request: str, texts: dict, result: dict, words: Words) -> str:
    """What each schedule made of one request, differences marked."""
    blocks = ""
    for schedule in result["schedules"]:
        if schedule in texts:
            note = _agreement((result.get("agreement") or {}).get(request, {}), schedule, words)
            shown = _marked(texts[schedule], texts.get("unified", texts[schedule]))
            name = escape(words(f"schedule.{schedule}.short"))
            blocks += f"<section><h3>{name}</h3><blockquote>{shown}</blockquote><p class='lab-note'>{escape(note)}</p></section>"
    prompt = f"<p class='lab-note'><b>{escape(request)}</b> · {escape(words('texts.prompt'))}: <span class='lab-read'>{escape(texts.get('prompt', ''))}</span></p>"
    return f"{prompt}<div class='lab-texts'>{blocks}</div>"


def _agreement(found: dict, schedule: str, words: Words) -> str:
    if schedule == "unified":
        return ""
    differs = found.get(schedule)
    if differs is None:
        return words("texts.same")
    why = words("texts.near_tie") if differs.get("near_tie") else words("texts.not_tie")
    return f"{words('texts.differs', at=differs['first_difference'])}; {why}."


def _marked(text: str, reference: str) -> str:
    """The text with the part marked that is no longer equal to the reference."""
    same = next((i for i, (a, b) in enumerate(zip(text, reference)) if a != b), min(len(text), len(reference)))
    if same == len(text) == len(reference):
        return escape(text)
    return f"{escape(text[:same])}<mark>{escape(text[same:])}</mark>"


