"""A chart drawn in the browser, whose points can be picked: log and linear axes, lines, bands, points, marks.

For what a reader pokes at; it keeps its state when its data changes, where a Plotly chart is made anew. A spec is plain data:

    {"height": 420, "x": {"title", "log", "range": [low, high], "ticks": [[value, "label"], ...]}, "y": the same,
     "areas":  [{"points": [[x, low, high], ...], "style"}],
     "lines":  [{"name", "points": [[x, y], ...], "style", "width", "label": "end" | "legend" | "none", "quiet", "solid", "texts"}],
     "points": [{"id", "x", "y", "style", "shape": "circle" | "square" | "diamond" | "triangle", "filled", "text"}],
     "marks":  [{"across": "x" | "y", "at", "text"}], "legend": [{"name", "style", "shape", "filled"}]}

style: 0 to 7, a colour with a dash of its own (without the dash if solid); text, texts: what is said of a point, lines parted by newlines.
"""

from __future__ import annotations

import streamlit as st

from pages._ui import script


def show(spec: dict, *, alt: str, key: str) -> str | None:
    """The chart; returns the id of the point the reader picked, if it is one of this spec's.

    alt: the chart in words, for who cannot see it.
    """
    ids = [point["id"] for point in spec.get("points", ())]  # a list: a browser may send anything, also what has no hash
    before = (st.session_state.get(key) or {}).get("picked")
    data = {"spec": spec, "alt": alt, "picked": before if before in ids else None}
    picked = script.component("plot")(key=key, data=data, on_picked_change=lambda: None).picked
    return picked if picked in ids else None
