"""Line charts: series in, a Plotly figure as a plain dict out. Pure, no streamlit, no plotly.

For what people explore with their own eyes: the tail of the gaps, a sweep over chunk sizes, waits that grow. Every
series has a dash and a marker of its own beside its colour, and its name written at its end, so that no picture needs
a legend or a colour-seeing reader. What moves in time is drawn by the timeline component.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pages._ui import fmt
from pages._ui.palette import Palette

FONT = "Pretendard, sans-serif"
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x", "star-triangle-up")
LABEL_PX = 17
# Zooming is a drag, and a double click goes back; a bar of buttons would cover the figure.
CONFIG = {"displayModeBar": False, "responsive": True}


@dataclass(frozen=True)
class Series:
    """One line. ``style``: which colour, dash and marker; equal lengths of x and y; ``low`` and ``high``: the range of each y."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    style: int = 0
    markers: bool = True
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Axis:
    """``show`` turns a value into text with its unit, ``tick`` (else ``show``) does so for the axis; ``at``: the values
    that get a tick (on a log axis 1-2-5 by default)."""

    title: str
    show: Callable[[float], str] = fmt.count
    tick: Callable[[float], str] | None = None
    log: bool = False
    at: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Mark:
    """A line across the figure with a word: a target, a threshold. ``across``: "x" stands upright at x, "y" lies at y.
    ``roof``: the lines stay below one that lies, so its word stands above it, at the right."""

    text: str
    at: float
    across: str = "x"
    roof: bool = False


def lines(
    series: list[Series], x: Axis, y: Axis, colors: Palette, *, touch: bool = False, height: int = 340, marks: tuple[Mark, ...] = ()
) -> dict:
    """The figure. touch: a phone, where dragging must scroll the page."""
    series = [s for s in series if s.x]
    layout = {
        "height": height,
        "margin": {"l": 64, "r": 20 if touch else 130, "t": 12, "b": 52, "pad": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": colors.ink},
        "template": "none",
        "showlegend": touch,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}},
        "hovermode": "closest",
        "dragmode": False if touch else "zoom",
        "hoverlabel": {
            "font": {"family": FONT, "size": 13, "color": colors.ink},
            "bgcolor": colors.paper,
            "bordercolor": colors.muted,
        },
        "xaxis": _axis(x, [v for s in series for v in s.x], colors),
        "yaxis": _axis(y, [v for s in series for v in (*s.y, *(s.low or ()), *(s.high or ()))], colors),
        "annotations": [],
        "shapes": [],
    }
    for mark in marks:
        _draw_mark(layout, mark, x if mark.across == "x" else y, colors)
    if touch:
        layout["margin"]["t"] = 40
    else:
        layout["annotations"] += _end_labels(series, x, y, layout, colors)
    return {"data": [_trace(s, x, y, colors) for s in series], "layout": layout}


def line_colors(colors: Palette) -> tuple[str, ...]:
    """The colours of lines, by style; schedules take the first three."""
    c = colors.categories
    return (c["prefill"].color, c["mixed"].color, c["decode"].color, c["transfer"].color, c["stall"].ink, colors.muted)


def _trace(s: Series, x: Axis, y: Axis, colors: Palette) -> dict:
    color = line_colors(colors)[s.style % 6]
    found = {
        "type": "scatter",
        "mode": "lines+markers" if s.markers else "lines",
        "name": s.name,
        "x": list(s.x),
        "y": list(s.y),
        "text": [f"{x.show(a)}: <b>{y.show(b)}</b>" for a, b in zip(s.x, s.y, strict=True)],
        "hovertemplate": "%{text}<extra>" + s.name + "</extra>",
        "line": {"color": color, "width": 2.2, "dash": DASHES[s.style % 6]},
        "marker": {"symbol": SYMBOLS[s.style % 6], "size": 8, "color": color},
    }
    if s.low and s.high:
        found["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [h - v for h, v in zip(s.high, s.y, strict=True)],
            "arrayminus": [v - low for low, v in zip(s.low, s.y, strict=True)],
            "color": color,
            "thickness": 1.2,
            "width": 3,
        }
    return found


def _axis(axis: Axis, values: list[float], colors: Palette) -> dict:
    low, high = min(values, default=1.0), max(values, default=1.0)
    if axis.log:
        low, high = max(low, 1e-9), max(high, 1e-9)
        pad = (math.log10(high / low) or 1) * 0.05
        shown = [math.log10(low) - pad, math.log10(high) + pad]
    else:
        low = min(low, 0.0)
        pad = (high - low or 1.0) * 0.06
        shown = [low, high + pad]
    ticks = axis.at or (log_ticks(low, high) if axis.log else even_ticks(low, high))
    return {
        "type": "log" if axis.log else "linear",
        "range": shown,
        "tickvals": list(ticks),
        "ticktext": [(axis.tick or axis.show)(v) for v in ticks],
        "title": {"text": axis.title, "font": {"size": 12, "color": colors.muted}, "standoff": 8},
        "tickfont": {"size": 11, "color": colors.muted},
        "gridcolor": colors.grid,
        "zeroline": False,
        "showgrid": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": colors.grid,
        "fixedrange": False,
    }


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """1, 2 and 5 times the powers of ten between two values; only the powers where they are many."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if len(decades) <= 4 else (1,)
    found = [m * 10.0**d for d in decades for m in steps]
    return tuple(v for v in found if low * 0.8 <= v <= high * 1.25) or (low, high)


def even_ticks(low: float, high: float, most: int = 6) -> tuple[float, ...]:
    """Round steps from low to high."""
    raw = (high - low) / most or 1.0
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw)
    first = math.ceil(low / step)
    return tuple(step * n for n in range(first, math.floor(high / step + 1e-9) + 1))


def _draw_mark(layout: dict, mark: Mark, axis: Axis, colors: Palette) -> None:
    at = math.log10(mark.at) if axis.log else mark.at
    upright = mark.across == "x"
    low, high = layout["xaxis"]["range"]
    late = upright and at > low + (high - low) * 0.7  # no room for the word to the right
    line = {"type": "line", "line": {"color": colors.muted, "width": 1.4, "dash": "dash"}}
    ends = (
        {"xref": "x", "x0": mark.at, "x1": mark.at, "yref": "paper", "y0": 0, "y1": 1}
        if upright
        else {"yref": "y", "y0": mark.at, "y1": mark.at, "xref": "paper", "x0": 0, "x1": 1}
    )
    layout["shapes"].append(line | ends)
    if upright:
        place = {"x": at, "xref": "x", "y": 0.02, "yref": "paper", "xanchor": "right" if late else "left", "yanchor": "bottom"}
    elif mark.roof:
        place = {"x": 0.99, "xref": "paper", "y": at, "yref": "y", "xanchor": "right", "yanchor": "bottom"}
    else:  # at the left the lines of a chart are above its threshold
        place = {"x": 0.01, "xref": "paper", "y": at, "yref": "y", "xanchor": "left", "yanchor": "top"}
    layout["annotations"].append(
        {
            "text": mark.text,
            "showarrow": False,
            "font": {"size": 12, "color": colors.muted},
            "bgcolor": colors.paper,
            "xshift": (-5 if late else 5) if upright else 0,
            **place,
        }
    )


def _end_labels(series: list[Series], x: Axis, y: Axis, layout: dict, colors: Palette) -> list[dict]:
    """Each line's name at its right end, moved apart where two would cover each other."""

    def scaled(value: float) -> float:
        return math.log10(max(value, 1e-9)) if y.log else value

    low, high = layout["yaxis"]["range"]
    pixels = (layout["height"] - layout["margin"]["t"] - layout["margin"]["b"]) / (high - low)
    found, last = [], -math.inf
    for s in sorted(series, key=lambda s: scaled(s.y[-1])):
        own = scaled(s.y[-1])
        at = max(own, last + LABEL_PX / pixels)
        last = at
        found.append(
            {
                "text": s.name,
                "x": math.log10(s.x[-1]) if x.log else s.x[-1],
                "y": own,
                "yshift": round((at - own) * pixels),  # a place beyond the axis would not be drawn at all
                "xref": "x",
                "yref": "y",
                "xanchor": "left",
                "yanchor": "middle",
                "xshift": 10,
                "showarrow": False,
                "font": {"size": 12, "color": line_colors(colors)[s.style % 6]},
                "bgcolor": colors.paper,  # a mark that runs across the figure does not strike a name through
            }
        )
    return found
