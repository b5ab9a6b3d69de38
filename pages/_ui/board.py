"""The metrics of a result side by side: which are shown, how they read, and who wins each. Pure, no streamlit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pages._ui import fmt
from pages._ui.palette import SCHEDULES

# With a single run, differences below this are noise on a shared machine and nobody is called the winner.
LEVEL = 0.03


@dataclass(frozen=True)
class Metric:
    """A metric as the result names it. ``better``: -1 lower, +1 higher, 0 neither."""

    key: str
    better: int
    show: Callable[[float | None], str]


METRICS = (
    Metric("itl_max_s", -1, fmt.seconds),
    Metric("itl_p99_s", -1, fmt.seconds),
    Metric("itl_p50_s", -1, fmt.seconds),
    Metric("tpot_p50_s", -1, fmt.seconds),
    Metric("ttft_s", -1, fmt.seconds),
    Metric("chat_ttft_p50_s", -1, fmt.seconds),
    Metric("prefill_s", -1, fmt.seconds),
    Metric("decode_step_p50_s", -1, fmt.seconds),
    Metric("transfer_s", 0, fmt.seconds),
    Metric("throughput_tokens_per_s", +1, fmt.rate),
    Metric("makespan_s", -1, fmt.seconds),
    Metric("kv_peak_bytes", 0, fmt.bytes_),
    Metric("preemptions", -1, fmt.count),
)
# Not worth a line where they are zero throughout.
ONLY_IF_ANY = ("preemptions", "transfer_s")
BY_KEY = {metric.key: metric for metric in METRICS}


@dataclass(frozen=True)
class Cell:
    """One value: the number, its text, the range over repeats (or None), whether none is better, its share of the largest.
    ``wide``: it is the last, and still cannot be told from the leader, because its repeats spread widely."""

    schedule: str
    value: float | None
    text: str
    low: str | None
    high: str | None
    best: bool
    share: float
    wide: bool = False


@dataclass(frozen=True)
class Line:
    """One metric over the schedules. ``level``: no schedule is better than another beyond the noise."""

    metric: Metric
    cells: tuple[Cell, ...]
    level: bool


def line(result: dict, key: str) -> Line:
    """One of the metrics of the Schedules experiment, by name."""
    return compare(result, BY_KEY[key])


def compare(result: dict, metric: Metric) -> Line:
    """A metric of a result, with who is best: the leader, and whoever cannot be told from it.

    Two are told apart when the ranges of their repeats do not overlap; with a single run, by more than 3 %.
    If all are the same in that sense, the line is level and nobody is best.
    """
    key, served = metric.key, result["schedules"]
    values = {s: served[s]["metrics"].get(key) for s in [s for s in SCHEDULES if s in served] or served}
    repeated = result["manifest"]["scenario"]["repeats"] > 1
    spreads = {s: (result["schedules"][s].get("spread") or {}).get(key) if repeated else None for s in values}
    known = {s: v for s, v in values.items() if v is not None}
    best = _best(metric, known, spreads)
    level = len(best) > 1 and len(best) == len(known)
    wide = None
    if not level and len(best) > 1 and (last := _worst(metric, known)) in best:
        wide = last  # the last of the medians is not called the best
        best = best - {last}
    top = max((abs(v) for v in known.values()), default=0.0)
    cells = tuple(
        Cell(
            s,
            v,
            metric.show(v),
            metric.show(spreads[s][0]) if spreads[s] else None,
            metric.show(spreads[s][1]) if spreads[s] else None,
            s in best and not level,
            (abs(v) / top if top else 0.0) if v is not None else 0.0,
            s == wide,
        )
        for s, v in values.items()
    )
    return Line(metric, cells, level)


def lines(result: dict) -> list[Line]:
    """Every metric that at least one schedule has."""
    found = [compare(result, metric) for metric in METRICS]
    return [
        x for x in found if any(c.value is not None and (c.value or x.metric.key not in ONLY_IF_ANY) for c in x.cells)
    ]


def verdict(found: Line) -> tuple[str, dict[str, object]] | None:
    """Who wins a metric and who loses it, as (key of a text, facts: schedules by name, how far apart); None where
    neither more nor less is better, or with fewer than two values."""
    known = [c for c in found.cells if c.value is not None]
    if not found.metric.better or len(known) < 2:
        return None
    if found.level:
        return "verdict.level", {}
    worst = max(known, key=lambda c: c.value * -found.metric.better)
    best = min(known, key=lambda c: c.value * -found.metric.better)
    winners = [c.schedule for c in known if c.best]
    facts = {"winners": winners, "loser": worst.schedule}
    if worst.wide:
        return "verdict.wide", facts
    if not best.value or not worst.value:
        return "verdict.plain", facts
    ratio = max(worst.value, best.value) / min(worst.value, best.value)
    if ratio < 2:
        return "verdict.percent", facts | {"change": fmt.percent(worst.value / best.value - 1)}
    return "verdict.times" if found.metric.better < 0 else "verdict.fraction", facts | {"ratio": fmt.ratio(ratio)}


def _best(metric: Metric, known: dict[str, float], spreads: dict) -> set[str]:
    if not metric.better or len(known) < 2:
        return set()
    leader = min(known, key=lambda s: known[s] * -metric.better)
    return {s for s in known if s == leader or _same(known[leader], known[s], spreads[leader], spreads[s])}


def _worst(metric: Metric, known: dict[str, float]) -> str:
    return max(known, key=lambda s: known[s] * -metric.better)


def _same(a: float, b: float, spread_a: list | None, spread_b: list | None) -> bool:
    if spread_a and spread_b:
        return spread_a[0] <= spread_b[1] and spread_b[0] <= spread_a[1]
    larger = max(abs(a), abs(b))
    return larger == 0 or abs(a - b) / larger <= LEVEL
