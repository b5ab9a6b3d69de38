"""A figure in words and as a table, computed from the same data: for who cannot see it, and for who wants the numbers."""

from __future__ import annotations

from pages._ui import fmt
from pages._ui.lanes import Row, View
from pages._ui.words import Words


def timeline_alt(view: View, result: dict, words: Words) -> str:
    """One sentence for the whole figure and one for each lane."""
    sentences = [
        words(
            "alt.timeline", n=len(view.lanes), end=fmt.seconds(max((lane.end_s for lane in view.lanes), default=None))
        )
    ]
    for lane in view.lanes:
        m = result["schedules"][lane.schedule]["metrics"]
        sentences.append(
            words(
                "alt.lane",
                schedule=words(f"schedule.{lane.schedule}.name"),
                gap=fmt.seconds(m.get("itl_max_s")),
                usual=fmt.seconds(m.get("itl_p50_s")),
                ttft=fmt.seconds(m.get("ttft_s")),
                end=fmt.seconds(m.get("makespan_s")),
            )
        )
    return " ".join(sentences)


def request_rows(view: View, words: Words) -> tuple[list[str], list[list[str]]]:
    """The timeline as a table: one row per request and schedule."""
    head = [
        words(f"table.{k}")
        for k in ("request", "schedule", "arrival", "prefill", "first", "gap", "last", "tokens", "status")
    ]
    return head, [_cells(lane.schedule, row, words) for lane in view.lanes for row in lane.rows]


def _cells(schedule: str, row: Row, words: Words) -> list[str]:
    gaps = [b - a for a, b in zip(row.token_s, row.token_s[1:])]
    prefill = sum(bar.end_s - bar.begin_s for bar in row.bars if bar.category in ("prefill", "chunk"))
    return [
        row.id,
        words(f"schedule.{schedule}.name"),
        f"{row.arrival_s:.3f} s",
        fmt.seconds(prefill or None),
        f"{row.token_s[0]:.3f} s" if row.token_s else fmt.DASH,
        fmt.seconds(max(gaps, default=None)),
        f"{row.token_s[-1]:.3f} s" if row.token_s else fmt.DASH,
        fmt.count(len(row.token_s)),
        words(f"table.status_{row.status}"),
    ]
