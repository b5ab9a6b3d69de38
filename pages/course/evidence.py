"""What was measured of each remedy: a number before and after for what it relieves, and for what it costs. Pure, no streamlit.

The numbers are read from results as the claims read them (engine/claims), so that both pages say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.claims import claims
from pages._ui import fmt

# In the order of the course, each with the lesson that shows it.
REMEDIES = {
    "chunked": "schedules",
    "disaggregated": "schedules",
    "streaming": "sinks",
    "yarn": "rope",
    "ring": "ring",
}
AXES = ("compute", "memory", "position", "turn")
GAIN, PRICE, SAME = "gain", "price", "same"
# What each does on the axes; the words are on.<remedy>.<axis>.
ON_AXES = {
    "chunked": (PRICE, SAME, SAME, GAIN),
    "disaggregated": (SAME, PRICE, SAME, GAIN),
    "streaming": (GAIN, GAIN, SAME, SAME),
    "yarn": (SAME, SAME, GAIN, SAME),
    "ring": (GAIN, GAIN, SAME, SAME),
}
KINDS = ("schedules", "streaming", "needle", "lengths", "retrieval", "ring")


@dataclass(frozen=True)
class Change:
    """id: of the words that say what was measured (change.<id>), facts: what they need; before, after: with units; kind: of the
    experiment it was read from."""

    id: str
    kind: str
    before: str
    after: str
    facts: Mapping[str, str]


def of(remedy: str, side: str, results: Mapping[str, dict]) -> list[Change]:
    """The changes of a remedy that the results tell, on its good side (GAIN) or its other one (PRICE)."""
    return [found for read in _READERS[remedy, side] if (found := read(results))]


def _served(metric: str, schedule: str, name: str) -> Callable[[Mapping[str, dict]], Change | None]:
    """A metric of the schedules experiment, unified against another schedule."""

    def read(results: Mapping[str, dict]) -> Change | None:
        schedules = (results.get("schedules") or {}).get("schedules") or {}
        before, after = ((schedules.get(s) or {}).get("metrics", {}).get(metric) for s in ("unified", schedule))
        return Change(name, "schedules", fmt.seconds(before), fmt.seconds(after), {}) if before and after else None

    return read


def _claimed(
    claim: str, kind: str, name: str, before: str, after: str, show: Callable, *facts: str, only: str | None = None
) -> Callable[[Mapping[str, dict]], Change | None]:
    """Two readings of a claim's measurement. facts: others of its readings that the words name; only: the one finding that
    is told here."""

    def read(results: Mapping[str, dict]) -> Change | None:
        found = claims()[claim].measure(results[kind]) if kind in results else None
        if found is None or found.finding == "blind" or only not in (None, found.finding):
            return None
        values = {reading.id: reading.value for reading in found.readings}
        return Change(name, kind, show(values[before]), show(values[after]), {fact: _SHOWN[fact](values[fact]) for fact in facts})

    return read


def _sent(results: Mapping[str, dict]) -> Change | None:
    """What a rank of the ring sent; one process alone sends nothing."""
    found = claims()["B9"].measure(results["ring"]) if "ring" in results else None
    if found is None:
        return None
    values = {reading.id: reading.value for reading in found.readings}
    return Change("sent", "ring", fmt.bytes_(0), fmt.bytes_(values["sent"]), {"hidden": fmt.share(values["hidden"])})


def _times(value: float) -> str:
    return f"{fmt.times(value)}×"


_SHOWN = {
    "tokens": fmt.count,
    "ranks": fmt.count,
    "length": fmt.count,
    "times": "{:.3g}".format,
    "guess": fmt.share,
    "trials": fmt.count,
}
_READERS = {
    ("chunked", GAIN): (_served("itl_max_s", "chunked", "gap"),),
    ("chunked", PRICE): (_served("ttft_s", "chunked", "first"),),
    ("disaggregated", GAIN): (_served("itl_max_s", "disaggregated", "gap"),),
    ("disaggregated", PRICE): (_served("ttft_s", "disaggregated", "first"),),
    ("streaming", GAIN): (
        _claimed("B12", "streaming", "kept", "dense", "sinks", fmt.bytes_, "tokens"),
        _claimed("B5", "streaming", "perplexity", "window", "sinks", fmt.perplexity),
    ),
    ("streaming", PRICE): (_claimed("B12", "needle", "found", "dense", "sinks", fmt.share, "trials", "guess"),),
    ("yarn", GAIN): (
        _claimed("B7", "lengths", "beyond", "plain", "ratio", _times, "length", "times"),
        _claimed("A16", "retrieval", "needles", "plain", "yarn", fmt.share, "length", "trials"),
    ),
    ("yarn", PRICE): (),
    ("ring", GAIN): (
        _claimed("B8", "ring", "held", "alone", "kv", fmt.bytes_, "ranks", "tokens"),
        _claimed("B10", "ring", "time", "alone", "ring", fmt.seconds, "ranks", only="faster"),
    ),
    ("ring", PRICE): (_sent, _claimed("B10", "ring", "time", "alone", "ring", fmt.seconds, "ranks", only="slower")),
}
