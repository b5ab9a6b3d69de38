"""How the waits between tokens are distributed: the tail that a mean and a percentile hide. Pure, no streamlit."""

from __future__ import annotations

from engine.measure import metrics
from pages._ui import charts, fmt
from pages._ui.palette import SCHEDULES, Palette
from pages._ui.words import Words

# Points per schedule in the figure: enough for the eye, light to send. The largest gaps are always among them.
MOST_POINTS = 140
TOP_POINTS = 40
SHARES = (0.5, 0.9, 0.99, 0.999, 1.0)


def chat_gaps(trace: dict) -> list[float]:
    """All gaps between tokens of the chats, in seconds, sorted."""
    return sorted(g for r in trace["requests"] if r["kind"] != metrics.LONG for g in metrics.itl_s(r))


def tail(gaps: list[float]) -> list[tuple[float, float]]:
    """(gap, share of all gaps that are at least as long), thinned where they are many."""
    n = len(gaps)
    kept = {round(i * (n - 1) / (MOST_POINTS - TOP_POINTS)) for i in range(MOST_POINTS - TOP_POINTS + 1)} if n else set()
    kept |= set(range(max(0, n - TOP_POINTS), n))
    return [(gaps[i], (n - i) / n) for i in sorted(kept)]


def figure(result: dict, words: Words, colors: Palette, touch: bool) -> dict | None:
    """The share of gaps at least as long as x, for each schedule; None without gaps."""
    series = []
    for style, schedule in enumerate(SCHEDULES):
        entry = result["schedules"].get(schedule)
        points = tail(chat_gaps(entry["trace"])) if entry else []
        if points:
            x, y = zip(*points, strict=True)
            series.append(charts.Series(words(f"schedule.{schedule}.short"), x, y, style, markers=False))
    if not series:
        return None
    return charts.lines(
        series,
        charts.Axis(words("gaps.x"), fmt.seconds, fmt.tick, log=True),
        charts.Axis(words("gaps.y"), _share, log=True, at=(1.0, 0.1, 0.01, 0.001, 0.0001)),
        colors,
        touch=touch,
        marks=(charts.Mark(words("gaps.p99"), 0.01, "y"),),
    )


def table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """The same as numbers: the gap that a share of all gaps does not exceed."""
    head = [words("gaps.share"), *(words(f"schedule.{s}.short") for s in SCHEDULES if s in result["schedules"])]
    found = {s: chat_gaps(e["trace"]) for s, e in result["schedules"].items()}
    rows = [
        [words(f"gaps.share_{round(share * 1000)}"), *(fmt.seconds(metrics.percentile(found[s], share)) for s in SCHEDULES if s in found)]
        for share in SHARES
    ]
    return head, rows


def _share(value: float) -> str:
    return f"{value * 100:g} %"
