"""What results have to say to the claims. Pure functions of a result, of a recording or a run of one's own.

Each gives the numbers and which finding they amount to, or None if the result lacks what it takes.
"""

from __future__ import annotations

from statistics import fmean

from engine.claims.claim import Measurement, Reading

RATE = "throughput_tokens_per_s"
WHOLE = 0  # a chunk sweep's value for the prompt that is not cut
# Rates this close are called level.
LEVEL = 0.03
# Prices per chunk that differ by more than this factor are no straight line.
STRAIGHT = 2.0
ENOUGH_CHUNKS = 4
# Rates of decode at the largest batch and at the smallest that differ by this factor are not both those of reading weights.
RISES = 3.0
# A mean that rises by less than this share of what the worst gap does hides it.
HIDES = 1 / 3


def worst_gaps(result: dict) -> Measurement | None:
    """A8: a chat's worst gap whole and chunked, the longest step that a chat shared with a chunk, and a usual gap."""
    whole, cut = _metric(result, "unified", "itl_max_s"), _metric(result, "chunked", "itl_max_s")
    usual, shared = _metric(result, "chunked", "itl_p50_s"), _shared_steps(result)
    if None in (whole, cut, usual, _metric(result, "chunked", "ttft_s")) or not shared:
        return None
    readings = (
        _spread_reading("whole", _schedule(result, "unified"), "itl_max_s", "s"),
        _spread_reading("cut", _schedule(result, "chunked"), "itl_max_s", "s"),
        Reading("step", max(shared), "s"),
        Reading("usual", usual, "s"),
    )
    return Measurement(readings, "shorter" if cut < whole else "not_shorter")


def mean_and_worst(result: dict) -> Measurement | None:
    """A15: the usual gap, TPOT and the worst gap of the same chats under unified serving."""
    usual, mean, worst = (_metric(result, "unified", name) for name in ("itl_p50_s", "tpot_p50_s", "itl_max_s"))
    if not (usual and mean and worst) or _metric(result, "unified", "ttft_s") is None:
        return None
    readings = (
        _spread_reading("usual", _schedule(result, "unified"), "itl_p50_s", "s"),
        _spread_reading("mean", _schedule(result, "unified"), "tpot_p50_s", "s"),
        _spread_reading("worst", _schedule(result, "unified"), "itl_max_s", "s"),
        Reading("mean_ratio", mean / usual, "x"),
        Reading("worst_ratio", worst / usual, "x"),
    )
    return Measurement(readings, "hides" if mean <= worst * HIDES else "shows")


def throughput_of_schedules(result: dict) -> Measurement | None:
    """A14: output tokens a second with whole prompts and with chunks."""
    whole = _spread_reading("whole", _schedule(result, "unified"), RATE, "tokens/s")
    cut = _spread_reading("cut", _schedule(result, "chunked"), RATE, "tokens/s")
    if not (whole and cut) or _metric(result, "chunked", "ttft_s") is None:
        return None
    return Measurement((whole, cut), _compared(cut, whole))


def throughput_of_chunks(result: dict) -> Measurement | None:
    """A14: the uncut prompt's rate, and the lowest and highest of all chunk sizes."""
    points, uncut = _sweep(result)
    whole = _spread_reading("whole", uncut or {}, RATE, "tokens/s")
    sizes = sorted((p for p in points if (p.get("metrics") or {}).get(RATE)), key=lambda p: p["metrics"][RATE])
    if whole is None or not sizes:
        return None
    low, high = (_spread_reading(label, p, RATE, "tokens/s") for label, p in (("low", sizes[0]), ("high", sizes[-1])))
    of_size = (Reading(f"{label}_size", p["chunk_tokens"], "tokens") for label, p in (("low", sizes[0]), ("high", sizes[-1])))
    found = {_compared(low, whole), _compared(high, whole)} - {"level"}
    return Measurement((whole, low, high, *of_size), "differs" if len(found) > 1 else next(iter(found), "level"))


def price_of_chunks(result: dict) -> Measurement | None:
    """A7: TTFT over the number of chunks: how well a straight line fits, and what one more chunk costs, few and many.

    The uncut prompt is one chunk, so n chunks are n - 1 more than it.
    """
    points, uncut = _sweep(result)
    base = _of(uncut, "ttft_s")
    cut = sorted((p for p in points if p.get("chunks", 0) > 1 and _of(p, "ttft_s")), key=lambda p: p["chunks"])
    if not base or len(cut) < 3:
        return None
    times = [(p["chunks"], _of(p, "ttft_s")) for p in cut]
    most, slowest = times[-1]
    prices = [(t - base) / (n - 1) for n, t in times if n >= ENOUGH_CHUNKS]
    if len(prices) < 2:
        return None
    readings = (
        _spread_reading("whole", uncut, "ttft_s", "s"),
        Reading("chunks", most, "chunks"),
        _spread_reading("cut", cut[-1], "ttft_s", "s"),
        Reading("times", slowest / base, "x"),
        Reading("few_price", prices[0], "s"),
        Reading("many_price", prices[-1], "s"),
        Reading("fit", _explained([(1, base), *times]), "share"),
    )
    if min(prices) <= 0:
        return Measurement(readings, "free")
    return Measurement(readings, "straight" if max(prices) <= STRAIGHT * min(prices) else "bent")


def chunks_grow(result: dict) -> Measurement | None:
    """A6: the long prompt's first whole chunk against its last, and all of them against the first one n times."""
    full = _chunk_steps(result, ((result.get("manifest") or {}).get("scenario") or {}).get("chunk_tokens"))
    if len(full) < 2 or not full[0] > 0:
        return None
    n, total = len(full), sum(full)
    readings = (
        Reading("chunks", n, "chunks"),
        Reading("first", full[0], "s"),
        Reading("last", full[-1], "s"),
        Reading("expected", n * full[0], "s"),
        Reading("total", total, "s"),
        Reading("ratio", total / (n * full[0]), "x"),
    )
    return Measurement(readings, "grows" if total > (1 + LEVEL) * n * full[0] else "level")


def rates_of_rows(result: dict) -> Measurement | None:
    """A5: what the matrices reached for few rows and for many, in decode and in prefill."""
    points = [p for p in result.get("points") or [] if p.get("part") == "linear" and p.get("flops_per_s")]
    decodes = sorted((p for p in points if p["phase"] == "decode"), key=lambda p: p["batch"])
    prefills = sorted((p for p in points if p["phase"] == "prefill"), key=lambda p: p["tokens"])
    if len(decodes) < 2 or len(prefills) < 2:
        return None
    few, many, short, long = decodes[0], decodes[-1], prefills[0], prefills[-1]
    readings = (
        Reading("few", few["batch"], "sequences"),
        Reading("few_rate", few["flops_per_s"], "FLOP/s"),
        Reading("many", many["batch"], "sequences"),
        Reading("many_rate", many["flops_per_s"], "FLOP/s"),
        Reading("short", short["tokens"], "tokens"),
        Reading("short_rate", short["flops_per_s"], "FLOP/s"),
        Reading("long", long["tokens"], "tokens"),
        Reading("long_rate", long["flops_per_s"], "FLOP/s"),
    )
    return Measurement(readings, "rises" if many["flops_per_s"] >= RISES * few["flops_per_s"] else "flat")


def batch_of_pools(result: dict) -> Measurement | None:
    """A17: how many requests ran at once, and at what rate, in a pool that holds all, and in a small one with the maximum
    reserved for each."""
    readings = tuple(
        _spread_reading(f"{pool}_{label}", _schedule(result, pool), name, unit)
        for pool in ("ample", "paged", "reserved")
        for label, name, unit in (("most", "running_most", "sequences"), ("rate", RATE, "tokens/s"))
    )
    if None in readings:
        return None
    most = {reading.id: reading.value for reading in readings}
    return Measurement(readings, "capped" if most["reserved_most"] < most["ample_most"] else "room")


def _schedule(result: dict, schedule: str) -> dict:
    return (result.get("schedules") or {}).get(schedule) or {}


def _metric(result: dict, schedule: str, name: str) -> float | None:
    return (_schedule(result, schedule).get("metrics") or {}).get(name)


def _spread_reading(label: str, entry: dict, name: str, unit: str) -> Reading | None:
    """A metric of a schedule or a point, with its spread over the repeats; None where there is none (or 0)."""
    value = (entry.get("metrics") or {}).get(name)
    if not value:
        return None
    low, high = (entry.get("spread") or {}).get(name) or (None, None)
    return Reading(label, value, unit, low, high)


def _trace(result: dict) -> dict:
    return _schedule(result, "chunked").get("trace") or {}


def _chunk_steps(result: dict, chunk_tokens: int | None) -> list[float]:
    """Seconds of every step that read a whole chunk of the first long prompt, in order. (Its decodes are of one token.)"""
    trace = _trace(result)
    long = next((at for at, request in enumerate(trace.get("requests") or []) if request["kind"] == "long"), None)
    steps = trace.get("steps") or []
    return [s["end_s"] - s["begin_s"] for s in steps if any(r == long and n == chunk_tokens for r, _, n in s["slices"])]


def _shared_steps(result: dict) -> list[float]:
    """Seconds of the steps in which a chat was written beside a piece of a prompt."""
    steps = _trace(result).get("steps") or []
    return [s["end_s"] - s["begin_s"] for s in steps if s["prefill_tokens"] and s["decode_tokens"]]


def _sweep(result: dict) -> tuple[list[dict], dict | None]:
    """The points whose prompt was cut, and the one whose prompt was not."""
    points = result.get("points") or []
    return [p for p in points if p.get("value") != WHOLE], next((p for p in points if p.get("value") == WHOLE), None)


def _of(point: dict | None, name: str) -> float | None:
    return ((point or {}).get("metrics") or {}).get(name)


def _compared(value: Reading, base: Reading) -> str:
    """Level if the repeats overlap, or are close."""
    overlap = None not in (value.low, base.low) and value.low <= base.high and base.low <= value.high
    if overlap or abs(value.value / base.value - 1) <= LEVEL:
        return "level"
    return "higher" if value.value > base.value else "lower"


def _explained(points: list[tuple[float, float]]) -> float:
    """The share of the variation that the best straight line explains (R squared)."""
    mean_x, mean_y = fmean(x for x, _ in points), fmean(y for _, y in points)
    both = sum((x - mean_x) * (y - mean_y) for x, y in points)
    of_x, of_y = (sum((p[i] - mean) ** 2 for p in points) for i, mean in ((0, mean_x), (1, mean_y)))
    return both**2 / (of_x * of_y) if of_x and of_y else 1.0
