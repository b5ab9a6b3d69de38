"""What a roofline result says: the roof, its sentences, its table, and everything about one point. Pure.

A point lies at its intensity (operations per byte it must move) and at the rate it reached. The roof above it is the
lower of two: what the arithmetic can do, and intensity x what memory can bring (Williams, Waterman, Patterson 2009,
CACM 52(4), section 3). Sentences are (key of a text, facts) and follow from the numbers, never from what was hoped for.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.formulas.roofline import attainable, ridge
from pages._ui import fmt
from pages._ui.words import Words

Sentence = tuple[str, dict[str, str]]

PHASES = ("prefill", "decode")
PARTS = ("all", "linear", "attention")

# A step that uses at most this share of a limit leaves it idle.
IDLE = 0.5
# What a step does beside matrices and attention is worth a sentence from this share of its time on.
REST = 0.05
# Above the measured bandwidth by this much: part of what was read came from a cache.
CACHED = 1.05
# Intensities of the attention at several batches that differ by less are called equal.
SAME = 0.15


@dataclass(frozen=True)
class Roof:
    """What a machine can do at best: operations per second in ``dtype``, and bytes read per second."""

    flops_per_s: float
    bytes_per_s: float
    dtype: str

    @property
    def ridge(self) -> float:
        """The intensity (FLOP per byte) at which the two limits meet."""
        return ridge(self.flops_per_s, self.bytes_per_s)

    def at(self, intensity: float) -> float:
        """The highest possible operations per second at an intensity."""
        return attainable(intensity, self.flops_per_s, self.bytes_per_s)


def roof(result: dict) -> Roof | None:
    """The roof that was measured with a result; None if the calibration lacks it."""
    dtype = result["manifest"]["dtype"]
    peaks = ceilings(result)
    memory = (result.get("calibration") or {}).get("read_bytes_per_s")
    return Roof(peaks[dtype], memory, dtype) if peaks.get(dtype) and memory else None


def ceilings(result: dict) -> dict[str, float]:
    """The best matmul rate of each number format that was calibrated."""
    found = (result.get("calibration") or {}).get("matmul") or {}
    best = {dtype: max((size["flops_per_s"] for size in sizes), default=0.0) for dtype, sizes in found.items()}
    return {dtype: rate for dtype, rate in best.items() if rate > 0}


def points(result: dict, phase: str | None = None, part: str | None = None) -> list[dict]:
    """The points with a time and bytes, of a phase and a part: prefills by length, decodes by context and batch."""
    found = [p for p in result.get("points") or () if _whole(p)]
    found = [p for p in found if (phase is None or p["phase"] == phase) and (part is None or p["part"] == part)]
    return sorted(found, key=lambda p: (PHASES.index(p["phase"]), p["context"], p["batch"], p["tokens"], PARTS.index(p["part"])))


def headline(result: dict) -> Sentence:
    """The one sentence above the picture."""
    top = roof(result)
    prefill, decode = best_prefill(result), first_decode(result)
    if top is None or prefill is None or decode is None:
        return "story.partial", {}
    busy, reading = decode["flops_per_s"] / top.flops_per_s, read_per_s(decode) / top.bytes_per_s
    facts = {
        "tokens": fmt.count(prefill["tokens"]),
        "prefill": fmt.share(prefill["flops_per_s"] / top.flops_per_s),
        "batch": fmt.count(decode["batch"]),
        "read": fmt.share(reading),
        "decode": small_share(busy),
    }
    if busy > IDLE:
        return "story.headline_busy", facts
    return "story.headline" if reading > IDLE else "story.headline_slack", facts


def figures(result: dict, words: Words) -> list[tuple[str, str]]:
    """(what, value) of the few numbers under the headline."""
    top = roof(result)
    if top is None:
        return []
    found = [
        (words("figure.arithmetic", dtype=top.dtype), fmt.flops_per_s(top.flops_per_s)),
        (words("figure.memory"), fmt.bytes_per_s(top.bytes_per_s)),
        (words("figure.ridge"), fmt.intensity(top.ridge)),
    ]
    if decode := first_decode(result):
        key = "figure.decode" if decode["batch"] == 1 else "figure.decode_many"
        found.append((words(key), fmt.intensity(decode["intensity"])))
    return found


def skipped(result: dict, words: Words) -> list[str]:
    """What was not measured, each with its reason."""
    return [_why_not(entry, words) for entry in result.get("skipped") or ()]


def _why_not(entry: dict, words: Words) -> str:
    facts = {key: fmt.count(entry.get(key)) for key in ("tokens", "batch", "context", "max_context_tokens")}
    facts |= {key: fmt.binary_bytes(entry.get(key)) for key in ("needed_bytes", "kv_bytes")}
    what = words(f"point.{entry.get('phase')}", **facts)
    return words(f"skipped.{'model' if entry.get('reason') == 'model' else 'pool'}", what=what, **facts)


def sentences(result: dict) -> list[Sentence]:
    """What the points say, in the order of the picture: prefills, batches, attention, contexts, what is above the roof."""
    top = roof(result)
    if top is None:
        return []
    return [*_prefills(result, top), *_batches(result), *_attention(result, top), *_contexts(result), *_rest(result), *_above(result)]


def best_prefill(result: dict) -> dict | None:
    """The prefill that came nearest to the matmul rate."""
    return max(points(result, "prefill", "all"), key=lambda p: p["flops_per_s"], default=None)


def first_decode(result: dict) -> dict | None:
    """The smallest decode: fewest requests, shortest context."""
    return min(points(result, "decode", "all"), key=lambda p: (p["batch"], p["context"]), default=None)


def read_per_s(point: dict) -> float:
    """Bytes per second that a point moved."""
    return point["bytes"] / point["seconds"]


def name(point: dict, words: Words) -> str:
    """What a point is: "Decode, batch 4, context 512, attention"."""
    facts = {"tokens": fmt.count(point["tokens"]), "batch": fmt.count(point["batch"]), "context": fmt.count(point["context"])}
    return words("point.name", what=words(f"point.{point['phase']}", **facts), part=words(f"piece.{point['part']}.name"))


def limit(point: dict, top: Roof) -> str:
    """Which of the two limits is the lower one here: "memory" or "arithmetic"."""
    return "memory" if point["intensity"] < top.ridge else "arithmetic"


def rows(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """All points as a table."""
    columns = ("point", "time", "flops", "bytes", "intensity", "rate", "read", "share", "limit")
    top = roof(result)
    return [words(f"column.{c}") for c in columns], [
        [
            name(p, words),
            _time(p, words),
            fmt.flops(p["flops"]),
            fmt.bytes_(p["bytes"]),
            fmt.intensity(p["intensity"]),
            fmt.flops_per_s(p["flops_per_s"]),
            fmt.bytes_per_s(read_per_s(p)),
            small_share(share(p, top)),
            words(f"limit.{limit(p, top)}") if top else fmt.DASH,
        ]
        for p in points(result)
    ]


def share(point: dict, top: Roof | None) -> float | None:
    """What a point reached of the roof above it."""
    return point["flops_per_s"] / top.at(point["intensity"]) if top else None


def _whole(point: dict) -> bool:
    """Whether a point can be drawn on logarithmic axes."""
    known = point.get("phase") in PHASES and point.get("part") in PARTS
    return known and all((point.get(key) or 0) > 0 for key in ("seconds", "flops", "bytes", "intensity", "flops_per_s"))


def _time(point: dict, words: Words) -> str:
    low, high = point.get("spread") or (None, None)
    shown = fmt.seconds(point["seconds"])
    if low is None or high is None or fmt.seconds(low) == fmt.seconds(high):
        return shown
    return words("column.spread", time=shown, low=fmt.seconds(low), high=fmt.seconds(high))


def small_share(value: float | None) -> str:
    """A share that may be far below one percent."""
    return f"{value * 100:.1f} %" if value is not None and value < 0.0995 else fmt.share(value)


def _prefills(result: dict, top: Roof) -> list[Sentence]:
    """Which prefills lie left of the crossing, which right of it."""
    left = [p["tokens"] for p in points(result, "prefill", "all") if limit(p, top) == "memory"]
    right = [p["tokens"] for p in points(result, "prefill", "all") if limit(p, top) == "arithmetic"]
    facts = {"ridge": fmt.intensity(top.ridge)}
    if left and right:
        return [("said.prefill_both", {"left": fmt.count(max(left)), "right": fmt.count(min(right)), **facts})]
    if right:
        return [("said.prefill_right", {"right": fmt.count(min(right)), **facts})]
    return [("said.prefill_left", {"left": fmt.count(max(left)), **facts})] if left else []


def _batches(result: dict) -> list[Sentence]:
    """What a larger batch does: the matrices' intensity, and the tokens per second."""
    pair = _ends(points(result, "decode", "linear"), "batch", "context")
    whole = _ends(points(result, "decode", "all"), "batch", "context")
    if not pair or not whole:
        return []
    (a, b), (few, many) = pair, whole
    facts = {
        "few": fmt.count(few["batch"]),
        "many": fmt.count(many["batch"]),
        "low": fmt.intensity(a["intensity"]),
        "high": fmt.intensity(b["intensity"]),
        "slow": fmt.rate(few["batch"] / few["seconds"]),
        "quick": fmt.rate(many["batch"] / many["seconds"]),
        "batch_ratio": fmt.ratio(many["batch"] / few["batch"]),
        "ratio": fmt.ratio((many["batch"] / many["seconds"]) / (few["batch"] / few["seconds"])),
    }
    return [("said.batch", facts)]


def _attention(result: dict, top: Roof) -> list[Sentence]:
    """That attention's intensity does not grow with the batch: every request brings its own KV."""
    pair = _ends(points(result, "decode", "attention"), "batch", "context")
    if not pair:
        return []
    a, b = pair
    facts = {
        "few": fmt.count(a["batch"]),
        "many": fmt.count(b["batch"]),
        "low": fmt.intensity(a["intensity"]),
        "high": fmt.intensity(b["intensity"]),
        "ridge": fmt.intensity(top.ridge),
    }
    return [("said.attention_flat" if abs(b["intensity"] / a["intensity"] - 1) < SAME else "said.attention_moves", facts)]


def _contexts(result: dict) -> list[Sentence]:
    """What a longer context does to attention's share of a decode step."""
    pair = _ends(points(result, "decode", "attention"), "context", "batch")
    if not pair:
        return []
    shares = []
    for p in pair:
        linear = next((q for q in points(result, "decode", "linear") if (q["batch"], q["context"]) == (p["batch"], p["context"])), None)
        if linear is None:
            return []
        shares.append(p["seconds"] / (p["seconds"] + linear["seconds"]))
    facts = {
        "batch": fmt.count(pair[0]["batch"]),
        "short": fmt.count(pair[0]["context"]),
        "long": fmt.count(pair[1]["context"]),
        "before": fmt.share(shares[0]),
        "after": fmt.share(shares[1]),
    }
    return [("said.context" if shares[1] > shares[0] else "said.context_not", facts)]


def _rest(result: dict) -> list[Sentence]:
    """What the smallest decode step does beside matrices and attention."""
    decode = first_decode(result)
    if decode is None:
        return []
    same = [p for p in points(result, "decode") if (p["batch"], p["context"]) == (decode["batch"], decode["context"])]
    parts = {p["part"]: p["seconds"] for p in same}
    if set(parts) != set(PARTS):
        return []
    rest = 1 - (parts["linear"] + parts["attention"]) / parts["all"]
    facts = {"batch": fmt.count(decode["batch"]), "context": fmt.count(decode["context"]), "rest": fmt.share(rest)}
    return [("said.rest", facts)] if rest > REST else []


def _above(result: dict) -> list[Sentence]:
    """Points above the memory roof: their bytes did not all come from memory."""
    top = roof(result)
    above = [p for p in points(result) if top and share(p, top) > CACHED]
    return [("said.above", {"n": fmt.count(len(above))})] if above else []


def _ends(found: list[dict], along: str, fixed: str) -> tuple[dict, dict] | None:
    """The first and the last point along one setting, at the value of the other at which they are farthest apart (the
    smaller value of equals); None if there is no pair."""
    best = None
    for value in sorted({p[fixed] for p in found}):
        line = sorted((p for p in found if p[fixed] == value), key=lambda p: p[along])
        low, high = line[0], line[-1]
        if high[along] > low[along] and (best is None or high[along] / max(low[along], 1) > best[1][along] / max(best[0][along], 1)):
            best = low, high
    return best
