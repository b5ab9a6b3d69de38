"""The papers' tables in the form of ours, so that both stand beside each other. Pure, no streamlit.

Numbers of papers come from `profiles/published`; nothing of them is written here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from engine import profiles
from engine.profiles import PublishedTable
from pages._ui import fmt
from pages._ui.words import Words, model_title
from pages.sinks import policies
from pages.sinks.streaming_story import after

COUNTS = (0, 1, 2, 4, 8)
SPEEDS = ("streamingllm-speed", "h2o-speed", "snapkv-speed")

Rows = tuple[list[str], list[list[str]]]


def printed(value: float | None) -> str:
    """A paper's perplexity with the digits that it prints."""
    return fmt.DASH if value is None else f"{value:,.2f}"


def source(table: PublishedTable, words: Words) -> str:
    """Where in which paper, and on what data."""
    conditions = "; ".join(value for name, value in table.conditions.items() if name in ("model", "data", "device", "software"))
    return words("published.source", source=table.source, conditions=conditions)


def first_tokens(words: Words) -> Rows:
    """Table 1: what stands at the beginning of the cache, over the original first tokens."""
    table = profiles.table("streamingllm-table-1")
    best = table.value("perplexity", first_tokens="original")
    head = [words(f"published.col_{name}") for name in ("first", "cache", "perplexity", "over_best")]
    return head, [
        [
            words(f"published.first_{row['first_tokens']}"),
            words("published.cache", sinks=fmt.count(row["sinks"]), recent=fmt.count(row["recent"])),
            printed(row["perplexity"]),
            f"{fmt.times(row['perplexity'] / best)}×",
        ]
        for row in table.rows
    ]


def by_sinks(words: Words) -> Rows:
    """Table 2: a row for each model, a column for each number of sinks, and how many times as much none are as four."""
    table = profiles.table("streamingllm-table-2")
    found = []
    for model in dict.fromkeys(row["model"] for row in table.rows):
        values = {row["sinks"]: row["perplexity"] for row in table.find(model=model)}
        slots = {int(row["sinks"] + row["recent"]) for row in table.find(model=model)}
        found.append(_sinks_row(model, " / ".join(map(fmt.count, sorted(slots))), values, printed))
    return _sinks_head(words), found


def ours_by_sinks(result: dict, words: Words) -> Rows:
    """The same row of ours."""
    values = {row["sinks"]: row["perplexity_after"] for row in result["table"]}
    model = model_title(result["manifest"]["model"], words)
    return _sinks_head(words), [_sinks_row(model, fmt.count(result["window"]), values, fmt.perplexity)]


def _sinks_head(words: Words) -> list[str]:
    counts = [words("published.col_none")] + [words("published.col_sinks" if n > 1 else "published.col_sink", n=n) for n in COUNTS[1:]]
    return [words("published.col_model"), words("published.col_slots"), *counts, words("published.col_ratio")]


def _sinks_row(model: str, slots: str, values: dict, show: Callable) -> list[str]:
    none, four = values.get(0), values.get(4)
    ratio = f"{fmt.times(none / four)}×" if none and four else fmt.DASH
    return [model, slots, *(show(values.get(n)) for n in COUNTS), ratio]


def by_distance(words: Words) -> Rows:
    """Table 7: how often a line that many tokens back is answered for, for each cache; none of them beyond its own size."""
    table = profiles.table("streamingllm-table-7")
    caches = sorted({(row["sinks"], row["recent"]) for row in table.rows})
    head = [words("published.col_distance")] + [words("published.cache", sinks=fmt.count(s), recent=fmt.count(r)) for s, r in caches]
    distances = sorted({row["distance"] for row in table.rows})
    return head, [
        [fmt.count(distance), *(_accuracy(table, distance, sinks, recent) for sinks, recent in caches)] for distance in distances
    ]


def _accuracy(table: PublishedTable, distance: float, sinks: float, recent: float) -> str:
    found = table.find(distance=distance, sinks=sinks, recent=recent)
    return f"{found[0]['accuracy'] * 100:.2f} %" if found else fmt.DASH


def speeds(words: Words) -> Rows:
    """What the papers say that is gained, each against what and on what."""
    head = [words(f"published.col_{name}") for name in ("paper", "gain", "factor", "against", "on")]
    return head, [_speed_row(table, row, words) for table in map(profiles.table, SPEEDS) for row in table.rows]


def _speed_row(table: PublishedTable, row: dict, words: Words) -> list[str]:
    known = {**table.conditions, **row}  # the models stand in the source line
    gain = words(f"published.gain_{row['measure']}")
    if "input" in row:
        gain = words("published.gain_at", gain=gain, tokens=fmt.count(row["input"]))
    factor = words("published.up_to", ratio=f"{row['most']:g}") if "most" in row else f"{row['factor']:g}×"
    return [table.title, gain, factor, _against(known["against"], words), known["device"]]


def _against(name: str, words: Words) -> str:
    """What a paper compares with: another system by its name, its own baseline in the reader's language."""
    key = f"published.against_{'-'.join(re.findall('[a-z]+', name.lower()))}"
    return words(key) if key in words else name


def ratios(words: Words) -> str:
    """The sentence that the table ends in: the jump of each model, largest first."""
    table = profiles.table("streamingllm-table-2")
    models = dict.fromkeys(row["model"] for row in table.rows)
    jump = {m: table.value("perplexity", model=m, sinks=0) / table.value("perplexity", model=m, sinks=4) for m in models}
    told = [words("published.jump", model=m, ratio=fmt.times(value)) for m, value in sorted(jump.items(), key=lambda item: -item[1])]
    return words("published.jumps", list=", ".join(told))


def ours_said(result: dict, words: Words) -> str | None:
    """Our own jump, against dense and against four sinks; None without the curves it takes."""
    kept = policies.with_sinks(result.get("curves") or {})
    dense, window, sinks = (after(result, name) for name in ("dense", "window", kept))
    if not (dense and window and sinks):
        return None
    facts = {"window": fmt.times(window / dense), "sinks": fmt.times(window / sinks), "count": fmt.count(policies.sinks_of(kept))}
    return words("published.ours", tokens=fmt.count(result["tokens"]), **facts)
