"""The timeline figure: a view in, a Plotly figure as a plain dict out. Pure, no streamlit.

One figure holds three blocks on one time axis, so that zooming one zooms all:
the engines' lanes, then every request token by token, then KV in use. One trace
per category with ``base`` bars: thousands of steps stay light. Arrays travel as
packed binary (float32 resolves a microsecond in a ten-second run).
"""

from __future__ import annotations

import base64
import sys
from array import array
from dataclasses import dataclass, field

from pages._ui import fmt
from pages._ui.lanes import Bar, Lane, View
from pages._ui.palette import Palette
from pages._ui.words import Words, kind_name

FONT = "Pretendard, sans-serif"

# Heights in pixels; the y axes count in pixels too, so that rows keep their size whatever the figure's height.
TITLE = 30
TRACK = 26
LINK = 12
SEAM = 3
ROW = 10
LONG_ROW = 14
# More rows than this would be neither readable nor light.
MAX_ROWS = 32
KV_TITLE = 22
KV_BAND = 38
HEADING = 30
GAP = 14
AXIS = 46
TOP = 6
BOTTOM = 38

# What is drawn without tokens to tell of.
WITHOUT_TOKENS = ("stall", "transfer")
# From back to front.
ORDER_FRONT = ("stall", "prefill", "chunk", "transfer", "mixed", "decode")


@dataclass
class _Block:
    """What one block of the figure collects while it is laid out, from y = 0 downwards."""

    height: float = 0.0
    bars: dict[str, list[tuple[Bar, int, int]]] = field(default_factory=dict)  # bar, y of its middle, height
    ticks: list[tuple[float, str]] = field(default_factory=list)
    titles: list[tuple[float, str, str]] = field(default_factory=list)
    grounds: list[tuple[float, float]] = field(default_factory=list)

    def put(self, bar: Bar, y: int, height: int) -> None:
        self.bars.setdefault(bar.category, []).append((bar, y, height))


def timeline(view: View, words: Words, colors: Palette, *, touch: bool = False, compact: bool = False) -> dict:
    """The figure.

    touch: a phone: less text, and dragging is left to the page, so that one can scroll past.
    compact: the engines' lanes only.
    """
    engines, tokens = _engine_block(view, words, touch), _request_block(view, words, touch)
    kv_height = HEADING + sum(KV_TITLE + KV_BAND + GAP for _ in view.lanes)
    blocks = [(engines.height, 0)] if compact else [(engines.height, AXIS), (tokens[0].height, AXIS), (kv_height, 0)]
    total = TOP + sum(h + gap for h, gap in blocks) + BOTTOM
    domains, at = [], TOP
    for height, gap in blocks:
        domains.append((1 - (at + height) / (total - BOTTOM), 1 - at / (total - BOTTOM)))
        at += height + gap
    layout = {
        "height": round(total),
        "margin": {"l": 58 if touch else 76, "r": 10, "t": 0, "b": BOTTOM, "pad": 0},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": colors.ink},
        "template": "none",
        "barmode": "overlay",
        "showlegend": False,
        "hovermode": "closest",
        "dragmode": False if touch else "zoom",
        "hoverlabel": {
            "font": {"family": FONT, "size": 13, "color": colors.ink},
            "bgcolor": colors.paper,
            "bordercolor": colors.muted,
        },
        "annotations": [],
        "shapes": [],
        "uirevision": f"{view.span}",
    }
    _axes(layout, "", domains[0], engines, view.span, colors, words("lanes.axis"))
    _marks(layout, view, engines, words, colors, touch)
    data = _bar_traces(engines, "", words, colors, view.span)
    if not compact:
        _axes(layout, "2", domains[1], tokens[0], view.span, colors, "")
        data += _bar_traces(tokens[0], "2", words, colors, view.span)
        data += _token_traces(tokens[1], "2", words, colors)
        data += _kv(layout, view, domains[2], kv_height, words, colors, touch)
    for axis in (layout[name] for name in layout if name.startswith("xaxis")):
        axis["nticks"] = 5 if touch else 12
    return {"data": data, "layout": layout}


# ------------------------------------------------------------------ layout of the two bar blocks


def _engine_block(view: View, words: Words, touch: bool) -> _Block:
    block = _Block()
    y = 0
    for lane in view.lanes:
        name = _name(lane, words, touch)
        what = "" if touch else f"  <span style='font-size:12px'>{words(f'schedule.{lane.schedule}.lane')}</span>"
        block.titles.append((y + TITLE * 0.55, name + what, "left"))
        if lane.worst_gap:
            gap = fmt.seconds(lane.worst_gap[1] - lane.worst_gap[0])
            block.titles.append(
                (y + TITLE * 0.55, f"<span style='font-size:12px'>{words('mark.gap')}</span>  <b>{gap}</b>", "right")
            )
        y += TITLE
        last_worker, top = None, y
        for track in lane.tracks:
            height = LINK if track.name == "transfer" else TRACK
            if last_worker is not None and track.worker != last_worker:
                block.grounds.append((top, y))
                y += SEAM * 2
                top = y
            block.ticks.append((y + height / 2, words(f"track.{track.name}")))
            for bar in track.bars:
                block.put(bar, y + height // 2, height)
            y += height + (SEAM if track.name == "prefill" and track.worker else 0)
            last_worker = track.worker
        block.grounds.append((top, y))
        y += GAP
    block.height = y
    return block


def _name(lane: Lane, words: Words, touch: bool) -> str:
    return f"<b>{words(f'schedule.{lane.schedule}.' + ('short' if touch else 'name'))}</b>"


def _request_block(view: View, words: Words, touch: bool) -> tuple[_Block, list[tuple[float, int]]]:
    """Rows of requests, and one (second, y) per token."""
    block, tokens = _Block(), []
    most = max((len(lane.rows) for lane in view.lanes), default=0)
    heading = words("rows.heading") if most <= MAX_ROWS else words("rows.heading_first", shown=MAX_ROWS, all=most)
    block.titles.append((HEADING / 2, f"<span style='font-size:15px'>{heading}</span>", "left"))
    y = HEADING
    for lane in view.lanes:
        block.titles.append((y + TITLE * 0.55, _name(lane, words, touch), "left"))
        y += TITLE
        groups: dict[str, list[float]] = {}
        for row in lane.rows[:MAX_ROWS]:
            height = LONG_ROW if row.kind == "long" else ROW
            middle = y + height // 2
            groups.setdefault(row.kind, []).append(middle)
            for bar in row.bars:
                block.put(bar, middle, height - 2)
            tokens += [(at, middle) for at in row.token_s]
            y += height
        block.ticks += [(sum(ys) / len(ys), kind_name(kind, words)) for kind, ys in groups.items()]
        y += GAP
    block.height = y
    return block, tokens


def _axes(
    layout: dict,
    n: str,
    domain: tuple[float, float],
    block: _Block,
    span: tuple[float, float],
    colors: Palette,
    title: str,
) -> None:
    layout[f"xaxis{n}"] = _time_axis(f"y{n}", span, colors, title) | ({} if not n else {"matches": "x"})
    layout[f"yaxis{n}"] = {
        "domain": list(domain),
        "anchor": f"x{n}",
        "range": [block.height, 0],
        "fixedrange": True,
        "zeroline": False,
        "showgrid": False,
        "tickvals": [y for y, _ in block.ticks],
        "ticktext": [text for _, text in block.ticks],
        "tickfont": {"size": 11, "color": colors.muted},
        "ticks": "",
        "ticklabelstandoff": 6,
    }
    for y, text, side in block.titles:
        at = 0 if side == "left" else 1
        layout["annotations"].append(
            _text(text, at, y, f"x{n} domain", f"y{n}", colors.ink, 14, side) | {"bgcolor": colors.paper}
        )
    for top, bottom in block.grounds:
        layout["shapes"].append(
            {
                "type": "rect",
                "layer": "below",
                "xref": f"x{n} domain",
                "yref": f"y{n}",
                "x0": 0,
                "x1": 1,
                "y0": top,
                "y1": bottom,
                "fillcolor": colors.panel,
                "line": {"width": 0},
            }
        )


def _time_axis(anchor: str, span: tuple[float, float], colors: Palette, title: str) -> dict:
    return {
        "anchor": anchor,
        "range": list(span),
        "minallowed": span[0],
        "maxallowed": span[1],
        "showgrid": True,
        "gridcolor": colors.grid,
        "gridwidth": 1,
        "zeroline": False,
        "ticks": "outside",
        "ticklen": 4,
        "tickcolor": colors.grid,
        "ticksuffix": " s",
        "tickfont": {"size": 11, "color": colors.muted},
        "title": {"text": title, "font": {"size": 11, "color": colors.muted}, "standoff": 4},
    }


# ------------------------------------------------------------------ traces


def _bar_traces(block: _Block, n: str, words: Words, colors: Palette, span: tuple[float, float]) -> list[dict]:
    traces = []
    for category in ORDER_FRONT:
        found = block.bars.get(category)
        if not found:
            continue
        swatch = colors.categories[category]
        label = words(f"category.{category}.name")
        bars = [bar for bar, _, _ in found]
        marker = {"color": swatch.color, "line": {"width": 0}}
        if category == "stall":
            marker["line"] = {"width": 0.8, "color": swatch.ink}
        elif n == "":
            # A seam of paper between neighbouring steps shows that they are many; where they are hair-thin it would swallow them.
            typical = sorted(b.end_s - b.begin_s for b in bars)[len(bars) // 2]
            marker["line"] = {"width": 0.8 if typical > (span[1] - span[0]) / 400 else 0.25, "color": colors.paper}
        if swatch.shape:
            marker["pattern"] = {
                "shape": swatch.shape,
                "fgcolor": swatch.ink,
                "bgcolor": swatch.color,
                "size": swatch.size,
                "solidity": swatch.solidity,
                "fillmode": "replace",
            }
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": label,
                "xaxis": f"x{n}",
                "yaxis": f"y{n}",
                "base": _floats(b.begin_s for b in bars),
                "x": _floats(b.end_s - b.begin_s for b in bars),
                "y": _shorts(y for _, y, _ in found),
                "width": _shorts(height for _, _, height in found),
                "marker": marker,
                "hovertemplate": _template(category, label, words),
            }
            | (
                {"customdata": _pairs((b.prefill_tokens, b.decode_tokens) for b in bars)}
                if category not in WITHOUT_TOKENS
                else {}
            )
        )
    return traces


def _template(category: str, label: str, words: Words) -> str:
    lines = [f"<b>{label}</b>", f"{words('hover.from')} %{{base:.3f}} s, {words('hover.lasts')} %{{x:.3f}} s"]
    if category not in WITHOUT_TOKENS:
        lines.append(f"{words('hover.prefill')} %{{customdata[0]:,}} · {words('hover.decode')} %{{customdata[1]:,}}")
    return "<br>".join(lines) + "<extra></extra>"


def _token_traces(tokens: list[tuple[float, int]], n: str, words: Words, colors: Palette) -> list[dict]:
    color = colors.categories["decode"].color
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "xaxis": f"x{n}",
            "yaxis": f"y{n}",
            "x": _floats(t[0] for t in tokens),
            "y": _shorts(t[1] for t in tokens),
            "marker": {"symbol": "line-ns", "size": ROW - 3, "line": {"width": 1.1, "color": color}, "color": color},
            "hovertemplate": f"{words('hover.token')} %{{x:.3f}} s<extra></extra>",
        }
    ]


def _kv(
    layout: dict, view: View, domain: tuple[float, float], height: float, words: Words, colors: Palette, touch: bool
) -> list[dict]:
    traces: list[dict] = []
    low, high = domain
    unit = (high - low) / height if height else 0
    heading = f"<span style='font-size:15px'>{words('kv.heading')}</span>"
    layout["annotations"].append(
        _text(heading, 0, high - HEADING / 2 * unit, "x domain", "paper", colors.ink, 14, "left")
    )
    at = high - HEADING * unit
    top = max((sum(s.peak_bytes for s in lane.kv) for lane in view.lanes), default=1.0) * 1.08 or 1.0
    for i, lane in enumerate(view.lanes):
        n = str(3 + i)
        band = (at - (KV_TITLE + KV_BAND) * unit, at - KV_TITLE * unit)
        last = i == len(view.lanes) - 1
        layout[f"xaxis{n}"] = _time_axis(f"y{n}", view.span, colors, "") | {
            "matches": "x",
            "showticklabels": last,
            "ticks": "outside" if last else "",
        }
        layout[f"yaxis{n}"] = {
            "domain": list(band),
            "anchor": f"x{n}",
            "range": [0, top],
            "fixedrange": True,
            "zeroline": False,
            "showgrid": False,
            "tickvals": [0, top / 1.08],
            "ticktext": ["0", fmt.bytes_(top / 1.08)],
            "tickfont": {"size": 11, "color": colors.muted},
            "ticks": "",
            "ticklabelstandoff": 6,
        }
        peaks = [fmt.bytes_(x.peak_bytes) + ("" if touch else f" / {fmt.bytes_(x.capacity_bytes)}") for x in lane.kv]
        if len(peaks) > 1 and not touch:
            peaks = [f"{x.worker} {text}" for x, text in zip(lane.kv, peaks)]
        peak = (" + " if touch else ", ").join(peaks)
        layout["annotations"].append(
            _text(
                f"{_name(lane, words, touch)}  <span style='font-size:12px'>{words('kv.peak', peak=peak)}</span>",
                0,
                at - KV_TITLE * 0.5 * unit,
                "x domain",
                "paper",
                colors.ink,
                14,
                "left",
            )
        )
        for j, series in enumerate(lane.kv):
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "xaxis": f"x{n}",
                    "yaxis": f"y{n}",
                    "name": series.worker,
                    "x": _floats(series.at_s),
                    "y": _floats(series.used_bytes),
                    "line": {
                        "shape": "hv",
                        "width": 1.4,
                        "color": colors.accent,
                        "dash": "solid" if j == len(lane.kv) - 1 else "dot",
                    },
                    "fill": "tozeroy" if j == len(lane.kv) - 1 else "none",
                    "fillcolor": _faint(colors.accent),
                    "hovertemplate": f"{series.worker}<br>%{{x:.3f}} s: %{{y:.3s}}B<extra></extra>",
                }
            )
        at -= (KV_TITLE + KV_BAND + GAP) * unit
    return traces


def _marks(layout: dict, view: View, block: _Block, words: Words, colors: Palette, touch: bool) -> None:
    """What a teacher points at, written where it happened: the longest silence, and the long prompt's first token."""
    rows = iter(block.ticks)
    begin, width = view.span[0], view.span[1] - view.span[0]
    for lane in view.lanes:
        middles: dict[str, float] = {}
        for track in lane.tracks:
            y, _ = next(rows)
            middles.setdefault(track.name, y)
        stalls = [b for t in lane.tracks for b in t.bars if b.category == "stall"]
        longest = max(stalls, key=lambda b: b.end_s - b.begin_s, default=None)
        if longest and longest.end_s - longest.begin_s > width * (0.45 if touch else 0.14):
            text = words("mark.stall")
            middle = (longest.begin_s + longest.end_s) / 2
            layout["annotations"].append(
                _text(text, middle, middles["decode"], "x", "y", colors.ink, 12, "center")
                | {"bgcolor": colors.paper, "borderpad": 2}
            )
        if lane.first_token is not None:
            arrival, first = lane.first_token
            text = "◂ " + words("mark.first_short" if touch else "mark.first", ttft=fmt.seconds(first - arrival))
            # Where there is no room to the right of it, the label stands on its bar.
            late = first > begin + width * (0.7 if touch else 0.86)
            layout["annotations"].append(
                _text(
                    text if not late else text[2:] + " ▸",
                    first,
                    middles["prefill"],
                    "x",
                    "y",
                    colors.ink,
                    12,
                    "right" if late else "left",
                )
                | {"xshift": -4 if late else 4, "bgcolor": colors.panel if not late else colors.paper, "borderpad": 1}
            )


# ------------------------------------------------------------------ small parts


def _text(text: str, x: float, y: float, xref: str, yref: str, color: str, size: int, anchor: str) -> dict:
    return {
        "text": text,
        "x": x,
        "y": y,
        "xref": xref,
        "yref": yref,
        "showarrow": False,
        "xanchor": anchor,
        "yanchor": "middle",
        "font": {"size": size, "color": color},
    }


def _faint(color: str) -> str:
    r, g, b = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({r},{g},{b},0.18)"


def _packed(values: array, dtype: str) -> dict:
    if sys.byteorder == "big":
        values.byteswap()
    return {"dtype": dtype, "bdata": base64.b64encode(values.tobytes()).decode()}


def _floats(values) -> dict:
    return _packed(array("f", values), "f4")


def _shorts(values) -> dict:
    return _packed(array("h", values), "i2")


def _pairs(values) -> dict:
    flat = [number for pair in values for number in pair]
    small = max(flat, default=0) < 2**15
    return _packed(array("h" if small else "i", flat), "i2" if small else "i4") | {"shape": f"{len(flat) // 2}, 2"}
