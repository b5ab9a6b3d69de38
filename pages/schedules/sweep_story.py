"""The two sweeps as figures, tables and sentences, computed from their points. Pure, no streamlit."""

from __future__ import annotations

from dataclasses import dataclass

from engine.experiments.sweep_scenarios import CHUNK_SWEEP, WHOLE
from pages._ui import charts, fmt
from pages._ui.palette import Palette
from pages._ui.words import Words

Sentence = tuple[str, dict[str, str]]

# A wait that grows within this of what theory says is called the same.
CLOSE = 0.25
# Costs per chunk that differ by more than this factor are no straight line. A prompt in two or three chunks says
# nothing of it: what they cost is lost in the noise.
STRAIGHT = 2.0
# Throughputs within this of the highest are called the same.
SAME_RATE = 0.9
ENOUGH_CHUNKS = 4


@dataclass(frozen=True)
class Story:
    """What a page shows of a sweep."""

    figure: dict
    head: list[str]
    rows: list[list[str]]
    sentences: list[Sentence]


def tell(result: dict, words: Words, colors: Palette, touch: bool) -> Story:
    """The story of a sweep's result."""
    points = sorted(result["points"], key=lambda p: p["value"] or float("inf"))
    return (_chunks if result["kind"] == CHUNK_SWEEP else _backlog)(points, words, colors, touch)


# ------------------------------------------------------------------ chunk size


def _chunks(points: list[dict], words: Words, colors: Palette, touch: bool) -> Story:
    cut = [p for p in points if p["value"] != WHOLE]
    whole = next((p for p in points if p["value"] == WHOLE), None)
    x = tuple(float(p["chunk_tokens"]) for p in cut)

    def line(name: str, style: int, read, spread: str | None = None) -> charts.Series:
        low, high = _spread(cut, spread)
        return charts.Series(words(f"chunks.{name}"), x, tuple(read(p) for p in cut), style, low=low, high=high)

    series = [
        line("ttft", 0, lambda p: p["metrics"]["ttft_s"], "ttft_s"),
        line("alone", 3, lambda p: p["alone_s"]),
        line("gap", 1, lambda p: p["metrics"]["itl_max_s"], "itl_max_s"),
        line("usual", 2, lambda p: p["metrics"]["itl_p50_s"]),
    ]
    marks = (charts.Mark(words("chunks.whole_mark", ttft=fmt.seconds(whole["metrics"]["ttft_s"])), whole["metrics"]["ttft_s"], "y"),) if whole else ()
    figure = charts.lines(
        series, charts.Axis(words("chunks.x"), fmt.count, log=True, at=x), charts.Axis(words("chunks.y"), fmt.seconds, fmt.tick, log=True), colors,
        touch=touch, height=400, marks=marks,
    )  # fmt: skip
    head = [words(f"chunks.{k}") for k in ("x", "n", "ttft", "gap", "alone", "cutting", "sharing", "rate")]
    return Story(figure, head, [_chunk_row(p, words) for p in points], _chunk_sentences(cut, whole))


def _chunk_row(p: dict, words: Words) -> list[str]:
    m = p["metrics"]
    size = words("chunks.whole") if p["value"] == WHOLE else fmt.count(p["chunk_tokens"])
    return [
        _marked(size, p, words),
        fmt.count(p["chunks"]),
        fmt.seconds(m["ttft_s"]),
        fmt.seconds(m["itl_max_s"]),
        fmt.seconds(p["alone_s"]),
        fmt.seconds(p["kernel_cost_s"]),
        fmt.seconds(p["scheduling_cost_s"]),
        fmt.rate(m.get("throughput_tokens_per_s")),
    ]


def _marked(name: str, point: dict, words: Words) -> str:
    """A point's name; with a word if the machine was busy with other things while it was measured."""
    return f"{name} ({words('sweep.disturbed')})" if point.get("disturbed") else name


def _chunk_sentences(cut: list[dict], whole: dict | None) -> list[Sentence]:
    """What the sizes do to each side, and whether the price per chunk is one number (claim A7)."""
    if len(cut) < 2 or whole is None:
        return []
    small, base = cut[0], whole["metrics"]["ttft_s"]
    found: list[Sentence] = [
        (
            "chunks.small",
            {
                "size": fmt.count(small["chunk_tokens"]),
                "n": fmt.count(small["chunks"]),
                "ttft": fmt.seconds(small["metrics"]["ttft_s"]),
                "ratio": fmt.ratio(small["metrics"]["ttft_s"] / base),
                "gap": fmt.seconds(small["metrics"]["itl_max_s"]),
                "whole_gap": fmt.seconds(whole["metrics"]["itl_max_s"]),
            },
        )
    ]
    # The uncut prompt is one chunk, so n chunks are n - 1 more.
    counted = [p for p in cut if p["chunks"] >= ENOUGH_CHUNKS]
    prices = {p["chunks"]: (p["metrics"]["ttft_s"] - base) / (p["chunks"] - 1) for p in counted}
    paid = {n: price for n, price in prices.items() if price > 0}
    if len(paid) > 1:
        low, high = min(paid.values()), max(paid.values())
        facts = {"low": fmt.seconds(low), "high": fmt.seconds(high), "least": fmt.count(min(paid))}
        found.append(("chunks.straight" if high / low <= STRAIGHT else "chunks.bent", facts))
    if len(paid) < len(prices):
        found.append(("chunks.free", {}))
    rates = [p["metrics"]["throughput_tokens_per_s"] for p in [*cut, whole]]
    kind = "chunks.rates" if min(rates) >= max(rates) * SAME_RATE else "chunks.rates_differ"
    found.append((kind, {"low": fmt.rate(min(rates)), "high": fmt.rate(max(rates)), "uncut": fmt.rate(rates[-1])}))
    return found


# ------------------------------------------------------------------ backlog


def _backlog(points: list[dict], words: Words, colors: Palette, touch: bool) -> Story:
    series = [
        charts.Series(
            words("backlog.line", tokens=fmt.count(p["prompt_tokens"]), load=f"{p['load']:.2f}"),
            tuple(float(n) for n in range(1, len(p["ttft_s"]) + 1)),
            tuple(p["ttft_s"]),
            style,
        )
        for style, p in enumerate(points)
    ]
    arrivals = max((len(p["ttft_s"]) for p in points), default=1)
    figure = charts.lines(
        series,
        charts.Axis(words("backlog.x"), fmt.count, at=tuple(float(n) for n in range(1, arrivals + 1))),
        charts.Axis(words("backlog.y"), fmt.seconds, fmt.tick),
        colors,
        touch=touch,
        height=400,
    )
    head = [words(f"backlog.{k}") for k in ("tokens", "alone", "capacity", "load", "slope", "theory", "grows")]
    return Story(figure, head, [_backlog_row(p, words) for p in points], _backlog_sentences(points))


def _backlog_row(p: dict, words: Words) -> list[str]:
    return [
        _marked(fmt.count(p["prompt_tokens"]), p, words),
        fmt.seconds(p["alone_s"]),
        f"{p['capacity_prompts_per_s']:.2f}/s",
        f"{p['load']:.2f}",
        fmt.seconds(p["wait_slope_s"]),
        fmt.seconds(p["theory_slope_s"]),
        words("backlog.yes" if p["grows"] else "backlog.no"),
    ]


def _backlog_sentences(points: list[dict]) -> list[Sentence]:
    """Where the wall stands between the points, and how well a queue's theory tells the growth."""
    calm = [p for p in points if not p["grows"]]
    growing = [p for p in points if p["grows"]]
    if not growing:
        return [("backlog.none", {"load": f"{max((p['load'] for p in points), default=0.0):.2f}"})]
    last = growing[-1]
    facts = {
        "tokens": fmt.count(last["prompt_tokens"]),
        "alone": fmt.seconds(last["alone_s"]),
        "spacing": fmt.seconds(last["spacing_s"]),
        "slope": fmt.seconds(last["wait_slope_s"]),
        "theory": fmt.seconds(last["theory_slope_s"]),
        "wait": fmt.seconds(last["ttft_s"][-1]),
    }
    close = abs(last["wait_slope_s"] - last["theory_slope_s"]) <= CLOSE * max(last["theory_slope_s"], 1e-9)
    found: list[Sentence] = [("backlog.wall_close" if close else "backlog.wall", facts)]
    if calm and calm[-1]["load"] < growing[0]["load"]:  # else noise has shuffled the points
        pair = {"calm": f"{calm[-1]['load']:.2f}", "growing": f"{growing[0]['load']:.2f}"}
        found.insert(0, ("backlog.between", pair))
        if calm[-1]["load"] > 1:
            facts = {"load": pair["calm"], "theory": fmt.seconds(calm[-1]["theory_slope_s"]), "n": fmt.count(len(calm[-1]["ttft_s"]))}
            found.insert(1, ("backlog.near_one", facts))
    return found


def _spread(points: list[dict], name: str | None) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    pairs = [(p.get("spread") or {}).get(name) for p in points]
    if name is None or not all(pairs) or all(low == high for low, high in pairs):
        return None, None
    return tuple(low for low, _ in pairs), tuple(high for _, high in pairs)
