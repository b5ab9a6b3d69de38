"""The measured figure a question asks to read: a recording that ships, drawn as its lesson draws it, with the same words
for who cannot see it.

What a question says of its figure is "recording", "view" (those an experiment has are in VIEWS below) and what the view needs:
"metric" (bars of schedules), "layer" and "head" (heatmap of attention), "tokens" (bars of transfer), "measure" (which of the
lesson's measures is drawn: roofline, streaming, wall, attention; "time", "bytes" or "recall" of recurrent).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import streamlit as st

from engine.experiments.wall_scenario import PAGED
from pages._ui import alt, board, charts, grids, lanes, outcome, parts, plot, recordings, routes, script, session, timeline
from pages._ui.palette import CATEGORIES
from pages._ui.words import Words
from pages.memory import measured_story as wall_story
from pages.open import recurrent_story
from pages.pools import measured_story as pools_story
from pages.ring import measured_story as ring_story
from pages.roofline import picture as roofline_picture
from pages.rope import lengths_story, retrieval_story
from pages.schedules import sweep_story
from pages.sinks import heatmap_payload, needle_story, streaming_story
from pages.transfer import formats_story, overlap_story


def show(figure: Mapping, words: Words, key: str) -> None:
    """Where it was measured, and the figure."""
    result = recordings.load(figure["recording"])
    st.html(outcome.source_line(result, words))
    folder, draw = VIEWS[result["kind"], figure["view"]]
    draw(result, figure, Words(words.lang, folder), key)


def can_show(figure: Mapping) -> bool:
    """Whether the lab has this recording and a picture of this kind for it, and all is said that the picture needs."""
    if figure.get("recording") not in recordings.names():
        return False
    wanted = (recordings.load(figure["recording"])["kind"], figure.get("view"))
    return wanted in VIEWS and set(NEEDED.get(wanted, ())) <= set(figure)


def _timeline(result: dict, figure: Mapping, words: Words, key: str) -> None:
    view = lanes.view(result)
    seen = {bar.category for lane in view.lanes for track in lane.tracks for bar in track.bars}
    st.html(parts.legend(words, tuple(c for c in CATEGORIES if c in seen)))
    src = f"./lab/timeline/{routes.RECORDED}{figure['recording']}"
    timeline.show(src, words, alt=alt.timeline_alt(view, result, words), key=key, compact=True)


def _races(result: dict, figure: Mapping, words: Words, key: str) -> None:
    st.html(parts.races([board.line(result, figure["metric"])], words))


def _sweep(result: dict, figure: Mapping, words: Words, key: str) -> None:
    slot = {"chunk-sweep": "chunks", "backlog": "backlog"}[result["kind"]]
    story = sweep_story.tell(result, words, session.colors(), session.on_touch())
    table = "; ".join(", ".join(f"{h} {c}" for h, c in zip(story.head, row)) for row in story.rows)
    st.plotly_chart(story.figure, theme=None, config=charts.CONFIG, key=key, alt=f"{words(f'{slot}.alt')} {table}")


def _roofline(result: dict, figure: Mapping, words: Words, key: str) -> None:
    view = figure.get("measure", "all")
    plot.show(roofline_picture.spec(result, view, [], words), alt=roofline_picture.alt(result, view, [], words), key=key)


def _wall(result: dict, figure: Mapping, words: Words, key: str) -> None:
    column = figure.get("measure", "blocks")
    used = {variant: entry["usage"] for variant, entry in result["schedules"].items()}
    pool = result["prediction"][PAGED]["blocks"] if column == "blocks" else None
    drawn = wall_story.over_time(used, column, pool, words, session.colors(), session.on_touch())
    st.plotly_chart(drawn, theme=None, config=charts.CONFIG, key=key, alt=wall_story.alt(result, column, words))


def _attention(result: dict, figure: Mapping, words: Words, key: str) -> None:
    at = heatmap_payload.chosen((st.session_state.get(key) or {}).get("at") or [figure["layer"], figure["head"]], result)
    data = heatmap_payload.payload(result, at, figure.get("measure", "first"), words)
    script.component("heat")(key=key, data=data, on_at_change=lambda: None)


def _streaming(result: dict, figure: Mapping, words: Words, key: str) -> None:
    spec = streaming_story.spec(result, figure.get("measure", streaming_story.LOSS), words)
    plot.show(spec, alt=streaming_story.alt(result, words), key=key)


def _needle(result: dict, figure: Mapping, words: Words, key: str) -> None:
    st.html(needle_story.rows(result, words))


def _lengths(result: dict, figure: Mapping, words: Words, key: str) -> None:
    plot.show(lengths_story.spec(result, words), alt=lengths_story.alt(result, words), key=key)


def _retrieval(result: dict, figure: Mapping, words: Words, key: str) -> None:
    grids.show(retrieval_story.grids(result, words), alt=retrieval_story.alt(result, words), key=key)
    st.html(retrieval_story.keys(result, words))


def _formats(result: dict, figure: Mapping, words: Words, key: str) -> None:
    tokens = figure.get("tokens", formats_story.lengths(result)[-1])
    st.html(formats_story.bars(formats_story.at(result, tokens), None, words))


def _overlap(result: dict, figure: Mapping, words: Words, key: str) -> None:
    st.html(overlap_story.timelines(result["overlap"], words))


def _ring(result: dict, figure: Mapping, words: Words, key: str) -> None:
    st.html(ring_story.time_bars(result, words))


def _pools(result: dict, figure: Mapping, lesson: Words, key: str) -> None:
    st.html(f"{pools_story.pictures(result['arrangements'], lesson)}<p class='lab-note'>{parts.prose(lesson('measured.reading'))}</p>")


def _busy(result: dict, figure: Mapping, words: Words, key: str) -> None:
    st.html(pools_story.busy_bars(result, words))


def _recurrent(result: dict, figure: Mapping, words: Words, key: str) -> None:
    measure = figure.get("measure", "time")
    if measure == "recall":
        dim = figure.get("dim", recurrent_story.usual_dim(result))
        plot.show(recurrent_story.recall_spec(result, dim, words), alt=recurrent_story.recall_alt(result, dim, words), key=key)
    elif measure == "bytes":
        plot.show(recurrent_story.bytes_spec(result, words), alt=recurrent_story.bytes_alt(result, words), key=key)
    else:
        plot.show(recurrent_story.time_spec(result, words), alt=recurrent_story.time_alt(result, words), key=key)


# Kind of experiment and view: whose words, and who draws it.
VIEWS: dict[tuple[str, str], tuple[str, Callable[[dict, Mapping, Words, str], None]]] = {
    ("schedules", "timeline"): ("schedules", _timeline),
    ("schedules", "bars"): ("schedules", _races),
    ("chunk-sweep", "lines"): ("schedules", _sweep),
    ("backlog", "lines"): ("schedules", _sweep),
    ("roofline", "lines"): ("roofline", _roofline),
    ("wall", "lines"): ("memory", _wall),
    ("attention", "heatmap"): ("sinks", _attention),
    ("streaming", "lines"): ("sinks", _streaming),
    ("needle", "bars"): ("sinks", _needle),
    ("lengths", "lines"): ("rope", _lengths),
    ("retrieval", "heatmap"): ("rope", _retrieval),
    ("transfer", "bars"): ("transfer", _formats),
    ("transfer", "timeline"): ("transfer", _overlap),
    ("ring", "bars"): ("ring", _ring),
    ("pools", "timeline"): ("pools", _pools),
    ("pools", "bars"): ("pools", _busy),
    ("recurrent", "lines"): ("open", _recurrent),
}
NEEDED = {("schedules", "bars"): ("metric",), ("attention", "heatmap"): ("layer", "head")}
