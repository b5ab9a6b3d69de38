"""What transfer results have to say to the claims. Pure functions of a result, as in measured.py; see
`engine.experiments.transfer`."""

from __future__ import annotations

from engine.claims.claim import Measurement, Reading

# Times that differ by less than this share are called level: each transfer is timed once.
LEVEL = 0.1


def bytes_time_quality(result: dict) -> Measurement | None:
    """A10: fp8 and int4 against bf16 at the longest prompt: bytes, all three stages, and what was lost."""
    rows = result.get("rows") or []
    longest = max((row["tokens"] for row in rows), default=None)
    of = {row["format"]: row for row in rows if row["tokens"] == longest and row.get("kl") is not None}
    if not {"bf16", "fp8", "int4"} <= of.keys():
        return None
    base, eight, four = of["bf16"], of["fp8"], of["int4"]
    times = _seconds(eight) / _seconds(base)
    readings = (
        Reading("tokens", longest, "tokens"),
        Reading("bytes", eight["bytes"]["total"] / base["bytes"]["total"], "x"),
        Reading("bytes_int4", four["bytes"]["total"] / base["bytes"]["total"], "x"),
        Reading("base", _seconds(base), "s"),
        Reading("fp8", _seconds(eight), "s"),
        Reading("time", times, "x"),
        Reading("time_int4", _seconds(four) / _seconds(base), "x"),
        Reading("perplexity", eight["perplexity"], "perplexity"),
        Reading("perplexity_int4", four["perplexity"], "perplexity"),
        Reading("exact", eight["exact_perplexity"], "perplexity"),
    )
    finding = "slower" if times > 1 + LEVEL else "level" if times >= 1 - LEVEL else "sooner" if times > 0.5 * (1 + LEVEL) else "half"
    return Measurement(readings, finding)


def _seconds(row: dict) -> float:
    return row["quantise_s"] + row["move_s"] + row["dequantise_s"]
