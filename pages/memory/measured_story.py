"""The measured wall as figures, tables and sentences, computed from a result. Pure, no streamlit."""

from __future__ import annotations

from engine.experiments.wall_scenario import AMPLE, PAGED, RESERVED, VARIANTS
from engine.formulas.admission import blocks_for, tokens_to_admit
from engine.measure.usage import usage
from pages._ui import board, charts, fmt
from pages._ui.board import Line, Metric
from pages._ui.palette import Palette
from pages._ui.words import Words

Sentence = tuple[str, dict[str, str]]

# More of its blocks without a token than the paged pool by at least this share of all: else nothing was wasted to speak of.
WASTES = 0.05
# How many moments of a run stand in the table beside the figures.
MOMENTS = 10


def _tenth(value: float | None) -> str:
    return fmt.DASH if value is None else f"{value:.1f}"


METRICS = (
    Metric("first_wave", +1, fmt.count),
    Metric("running_mean", +1, _tenth),
    Metric("running_most", +1, fmt.count),
    Metric("waste_mean", -1, fmt.share),
    Metric("waste_peak", -1, fmt.share),
    Metric("ttft_p50_s", -1, fmt.seconds),
    Metric("ttft_p90_s", -1, fmt.seconds),
    Metric("ttft_max_s", -1, fmt.seconds),
    Metric("tpot_p50_s", -1, fmt.seconds),
    Metric("throughput_tokens_per_s", +1, fmt.rate),
    Metric("makespan_s", -1, fmt.seconds),
    Metric("preemptions", -1, fmt.count),
    Metric("computed_again_tokens", -1, fmt.count),
)
BY_KEY = {metric.key: metric for metric in METRICS}


def lines(result: dict) -> list[Line]:
    """Every metric over the three servings."""
    return [board.compare(result, metric) for metric in METRICS]


def headline(result: dict) -> list[Sentence]:
    """What the pool did: whether there was a wall, what reserving wastes, what waiting costs and spares, who was preempted."""
    ample, paged, reserved = (result["schedules"][variant]["metrics"] for variant in VARIANTS)
    pool = result["prediction"][PAGED]
    if pool["blocks"] >= result["prediction"][AMPLE]["blocks"]:
        facts = {"blocks": fmt.count(pool["blocks"]), "most": fmt.count(ample["blocks_most"])}
        return [("measured.no_wall", facts), _waste(result, paged, reserved)]
    found = [_waste(result, paged, reserved), _waiting(result, ample, paged, reserved)]
    return [*found, *_each(result, paged, reserved), _preempted(paged)]


def _waste(result: dict, paged: dict, reserved: dict) -> Sentence:
    facts = {
        "reserve": fmt.count(result["prediction"][RESERVED]["reserve_tokens"]),
        "reserved": fmt.share(reserved["waste_mean"]),
        "paged": fmt.share(paged["waste_mean"]),
        "few": fmt.count(reserved["running_most"]),
        "many": fmt.count(paged["running_most"]),
    }
    if reserved["waste_mean"] < paged["waste_mean"] + WASTES:
        return "measured.no_waste", facts
    return "measured.waste" if reserved["running_most"] < paged["running_most"] else "measured.waste_only", facts


def _waiting(result: dict, ample: dict, paged: dict, reserved: dict) -> Sentence:
    """TTFT and throughput, with a clear word only where all that is claimed can be told from noise."""
    facts = {}
    for name, metrics in ((AMPLE, ample), (PAGED, paged), (RESERVED, reserved)):
        facts[name] = fmt.seconds(metrics["ttft_p50_s"])
        facts[f"{name}_rate"] = fmt.rate(metrics["throughput_tokens_per_s"])
    worse = [_worse(result, RESERVED, PAGED, key) for key in ("ttft_p50_s", "throughput_tokens_per_s")]
    return ("measured.waiting" if all(worse) else "measured.waiting_partly" if any(worse) else "measured.waiting_unclear"), facts


def _worse(result: dict, one: str, other: str, key: str) -> bool:
    """Whether the one is worse than the other beyond noise."""
    pair = {**result, "schedules": {name: result["schedules"][name] for name in (one, other)}}
    found = board.compare(pair, BY_KEY[key])
    return [cell.best for cell in found.cells] == [False, True] and not any(cell.wide for cell in found.cells)


def _each(result: dict, paged: dict, reserved: dict) -> list[Sentence]:
    """What speaks for a small batch, where it can be told from noise: whoever is in it gets tokens quicker."""
    if not _worse(result, PAGED, RESERVED, "tpot_p50_s"):
        return []
    return [("measured.each", {"reserved": fmt.seconds(reserved["tpot_p50_s"]), "paged": fmt.seconds(paged["tpot_p50_s"])})]


def _preempted(paged: dict) -> Sentence:
    if not paged["preemptions"]:
        return "measured.nobody_preempted", {}
    facts = {"n": fmt.count(paged["preemptions"]), "tokens": fmt.count(paged["computed_again_tokens"])}
    return ("measured.preempted_one" if paged["preemptions"] == 1 else "measured.preempted"), facts


# ------------------------------------------------------------------ figures


def stairs(at_s: list[float], values: list[float]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Values that hold until the next one, as a line: two points at every change and none between."""
    x, y = [], []
    for place, (at, value) in enumerate(zip(at_s, values, strict=True)):
        if y and value == y[-1] and place < len(values) - 1:
            continue
        if y and value != y[-1]:
            x.append(at)
            y.append(y[-1])
        x.append(at)
        y.append(value)
    return tuple(x), tuple(y)


def over_time(used: dict[str, dict], column: str, pool: int | None, words: Words, colors: Palette, touch: bool) -> dict:
    """One column of the usage of each variant. used: by variant; pool: the blocks of the small pool, drawn as the wall."""
    series = []
    for style, variant in enumerate(VARIANTS):
        if variant in used:
            x, y = stairs(used[variant]["at_s"], used[variant][column])
            series.append(charts.Series(words(f"schedule.{variant}.short"), x, y, style, markers=False))
    marks = (charts.Mark(words("measured.pool_mark", blocks=fmt.count(pool)), pool, "y", roof=True),) if pool else ()
    return charts.lines(
        series,
        charts.Axis(words("measured.axis_time"), fmt.seconds, fmt.tick),
        charts.Axis(words(f"measured.axis_{column}")),
        colors,
        touch=touch,
        marks=marks,
    )


def slots(result: dict, variant: str, words: Words, colors: Palette, touch: bool) -> dict:
    """Token slots owned against tokens in them: between the lines lies the waste."""
    used, size = result["schedules"][variant]["usage"], result["prediction"][variant]["block_tokens"]
    owned = stairs(used["at_s"], [blocks * size for blocks in used["blocks"]])
    held = stairs(used["at_s"], used["tokens"])
    series = [
        charts.Series(words("measured.owned"), *owned, 4, markers=False),
        charts.Series(words("measured.held"), *held, 0, markers=False),
    ]
    return charts.lines(
        series,
        charts.Axis(words("measured.axis_time"), fmt.seconds, fmt.tick),
        charts.Axis(words("measured.axis_slots")),
        colors,
        touch=touch,
    )


def usage_so_far(live: dict | None) -> dict[str, dict]:
    """The usage of each variant in what is known of a run that goes on."""
    found = {}
    for variant, entry in ((live or {}).get("schedules") or {}).items():
        if entry["trace"]["steps"]:
            found[variant] = usage(entry["trace"], entry["resources"][0]["kv_block_tokens"])
    return found


def pool_so_far(live: dict) -> int | None:
    """The blocks of the small pool, once a variant that has it is being served."""
    entry = live["schedules"].get(PAGED) or live["schedules"].get(RESERVED)
    if entry is None:
        return None
    (worker,) = entry["resources"]
    return worker["kv_capacity_bytes"] // (live["manifest"]["model"]["kv_bytes_per_token"] * worker["kv_block_tokens"])


# ------------------------------------------------------------------ words for figures, tables


def alt(result: dict, column: str, words: Words) -> str:
    """A figure over time in words: for each variant its highest value and when it ended."""
    said = [
        words(
            "measured.alt_line",
            name=words(f"schedule.{variant}.name"),
            most=fmt.count(max(entry["usage"][column], default=0)),
            end=fmt.seconds(entry["trace"]["duration_s"]),
        )
        for variant, entry in result["schedules"].items()
    ]
    return " ".join([words(f"measured.alt_{column}", blocks=fmt.count(result["prediction"][PAGED]["blocks"])), *said])


def alt_slots(result: dict, variant: str, words: Words) -> str:
    metrics = result["schedules"][variant]["metrics"]
    facts = {"mean": fmt.share(metrics["waste_mean"]), "peak": fmt.share(metrics["waste_peak"])}
    return words("measured.alt_slots", name=words(f"schedule.{variant}.name"), **facts)


def moments(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """The figures as a table: some moments of each variant, evenly over its run."""
    head = [words(f"measured.head_{name}") for name in ("variant", "at", "blocks", "tokens", "running", "waiting")]
    rows = []
    for variant, entry in result["schedules"].items():
        used = entry["usage"]
        end = entry["trace"]["duration_s"]
        for n in range(MOMENTS):
            place = _row_at(used["at_s"], n * end / MOMENTS)
            if place is None:
                continue
            cells = [fmt.count(used[name][place]) for name in ("blocks", "tokens", "running", "waiting")]
            rows.append([words(f"schedule.{variant}.name"), fmt.seconds(used["at_s"][place]), *cells])
    return head, rows


def _row_at(at_s: list[float], moment: float) -> int | None:
    """The row that holds at a moment, or the first one; None without any."""
    before = [place for place, at in enumerate(at_s) if at <= moment]
    return before[-1] if before else 0 if at_s else None


def prediction(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """The first wave as the formula has it, and as it was in each repeat."""
    head = [words(f"measured.head_{name}") for name in ("variant", "pool", "needs", "predicted", "measured")]
    rows = []
    for variant, found in result["prediction"].items():
        reserve = found["reserve_tokens"]
        needs = words("measured.needs_reserved", tokens=fmt.count(reserve)) if reserve else words("measured.needs_paged")
        pool = words("measured.pool", blocks=fmt.count(found["blocks"]), size=fmt.count(found["block_tokens"]))
        seen = ", ".join(fmt.count(n) for n in dict.fromkeys(found["measured"]))
        rows.append([words(f"schedule.{variant}.name"), pool, needs, fmt.count(found["first_wave"]), seen])
    return head, rows


def sums(result: dict) -> list[Sentence]:
    """How the formula comes to its number, and whether the machine did the same."""
    requests = result["schedules"][PAGED]["trace"]["requests"]
    found: list[Sentence] = []
    for variant in (PAGED, RESERVED):
        pool = result["prediction"][variant]
        n, size, reserve = pool["first_wave"], pool["block_tokens"], pool["reserve_tokens"]
        needs = [_blocks_to_start(request, reserve, size) for request in requests]
        facts = {
            "n": fmt.count(n),
            "sum": " + ".join(str(blocks) for blocks in needs[:n]),
            "used": fmt.count(sum(needs[:n])),
            "blocks": fmt.count(pool["blocks"]),
            "free": fmt.count(pool["blocks"] - sum(needs[:n])),
            "next": fmt.count(needs[n]) if n < len(needs) else fmt.DASH,
        }
        ended = n < len(needs) and sum(needs[: n + 1]) > pool["blocks"]
        found.append((f"measured.sum_{variant}" if ended else f"measured.sum_{variant}_all", facts))
    exact = all(set(pool["measured"]) == {pool["first_wave"]} for pool in result["prediction"].values())
    return [*found, ("measured.exact" if exact else "measured.inexact", {})]


def _blocks_to_start(request: dict, reserve: int, size: int) -> int:
    prompt, most = request["prompt_tokens"], request["prompt_tokens"] + request["output_tokens"] - 1
    return blocks_for(tokens_to_admit(prompt, most, reserve), size)
