"""What streaming and needle results have to say to the claims. Pure functions of a result, as in measured.py.

The token at the position `first_eviction` is the first to evict one: costs are read behind it.
"""

from __future__ import annotations

from statistics import median

from engine.claims.claim import Measurement, Reading
from engine.claims.measured import LEVEL

# What text B says window attention costs at least.
TENFOLD = 10.0
# Milliseconds per token that differ by less than this factor are level.
SLOWER = 1.25
ENOUGH_POINTS = 4
# Of the intervals that a needle result gives.
CONFIDENCE = 0.95


def perplexity_after_eviction(result: dict) -> Measurement | None:
    """A12, B5: perplexity after the first eviction, dense, window alone, sinks and window, and over dense."""
    cache, sinks = result.get("first_eviction"), _sinks(result.get("curves"))
    names = ("dense", "window", f"sinks-{sinks}")
    dense, window, kept = (_perplexity(result, name) for name in names)
    if not (cache and sinks and dense and window and kept):
        return None
    readings = (
        Reading("cache", cache, "tokens"),
        Reading("count", sinks, ""),
        Reading("dense", dense, "perplexity"),
        Reading("window", window, "perplexity"),
        Reading("sinks", kept, "perplexity"),
        Reading("window_ratio", window / dense, "x"),
        Reading("sinks_ratio", kept / dense, "x"),
    )
    if window >= TENFOLD * dense:
        return Measurement(readings, "explodes")
    return Measurement(readings, "rises" if window > (1 + LEVEL) * dense else "level")


def memory_and_speed(result: dict) -> Measurement | None:
    """A11: bytes of KV and seconds per token of sinks and window, early and late: medians of the halves."""
    name = f"sinks-{_sinks(result.get('cost'))}"
    held, times = (_after_eviction(result, name, what) for what in ("kv_bytes", "ms_per_token"))
    if len(held) < 2 or len(times) < ENOUGH_POINTS:
        return None
    half = len(times) // 2
    early, late = (median(ms for _, ms in part) / 1e3 for part in (times[:half], times[half:]))
    readings = (
        Reading("from", times[0][0], "tokens"),
        Reading("to", times[-1][0], "tokens"),
        Reading("bytes_first", held[0][1], "B"),
        Reading("bytes_last", held[-1][1], "B"),
        Reading("early", early, "s"),
        Reading("late", late, "s"),
    )
    if held[-1][1] > (1 + LEVEL) * held[0][1]:
        return Measurement(readings, "grows")
    return Measurement(readings, "slower" if late > SLOWER * early else "flat")


def memory_against_dense(result: dict) -> Measurement | None:
    """B12: bytes of KV of dense attention and of sinks and window for the same text, and how much of it is lost."""
    cache = result.get("first_eviction")
    dense, kept = (dict(_after_eviction(result, name, "kv_bytes")) for name in ("dense", f"sinks-{_sinks(result.get('cost'))}"))
    both = dense.keys() & kept.keys()
    if not both:
        return None
    tokens = max(both)
    readings = (
        Reading("tokens", tokens, "tokens"),
        Reading("dense", dense[tokens], "B"),
        Reading("sinks", kept[tokens], "B"),
        Reading("ratio", dense[tokens] / kept[tokens], "x"),
        Reading("lost", tokens - cache, "tokens"),
    )
    return Measurement(readings, "smaller" if dense[tokens] > (1 + LEVEL) * kept[tokens] else "level")


def needle_found(result: dict) -> Measurement | None:
    """A11, B12: how often a value that neither sinks nor window hold is known, with all keys kept and with sinks and window.

    Better than guessing is what has the whole interval above the guess.
    """
    guess = result.get("guess")
    cells = [cell for cell in result.get("cells") or [] if cell.get("trials") and cell.get("interval")]
    outside = {cell["policy"]: cell for cell in cells if not (cell["in_sinks"] or cell["in_window"])}
    dense, sinks = outside.get("dense"), outside.get("sinks")
    if not (guess and sinks and dense):
        return None
    readings = (
        Reading("guess", guess, "share"),
        Reading("trials", sinks["trials"], ""),
        Reading("confidence", CONFIDENCE, "share"),
        *_rate("dense", dense),
        *_rate("sinks", sinks),
    )
    if dense["interval"][0] <= guess:
        return Measurement(readings, "blind")
    return Measurement(readings, "lost" if sinks["interval"][0] <= guess else "kept")


def _sinks(entries: dict | None) -> int | None:
    """The number of sinks of the policy to speak of: four if it is there, as in the paper, else the most."""
    counts = [int(tail) for name in entries or {} if (tail := name.removeprefix("sinks-")) != name and tail.isdecimal()]
    return 4 if 4 in counts else max(counts, default=0) or None


def _perplexity(result: dict, name: str) -> float | None:
    return ((result.get("curves") or {}).get(name) or {}).get("perplexity_after")


def _after_eviction(result: dict, name: str, what: str) -> list[tuple[int, float]]:
    """(tokens so far, value) of a policy's cost, behind the first eviction; empty where there are none."""
    cost, first = (result.get("cost") or {}).get(name) or {}, result.get("first_eviction")
    return sorted((tokens, value) for tokens, value in cost.get(what) or [] if first and tokens > first and value)


def _rate(name: str, cell: dict) -> tuple[Reading, ...]:
    low, high = cell["interval"]
    parts = ((name, cell["rate"]), (f"{name}_low", low), (f"{name}_high", high))
    return tuple(Reading(label, value, "share") for label, value in parts)
