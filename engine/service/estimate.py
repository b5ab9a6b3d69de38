"""About how long: from the durations of earlier runs of the same kind on the same device. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

# Before this share is done, what has been done says little about the rest.
_TELLING_SHARE = 0.1


@dataclass(frozen=True)
class Past:
    """A stored run: its scenario's key, its work (`work_of`) and how long it took."""

    key: str
    work: int
    duration_s: float


def work_of(scenario: object) -> int:
    """Tokens that a scenario has computed in all: requests x schedules x repeats."""
    schedules = len(getattr(scenario, "schedules", ()) or (None,))
    return int(scenario.total_tokens * schedules * scenario.repeats)


def duration_s(key: str, work: int, past: Iterable[Past]) -> float | None:
    """The median of the same scenario's runs; else of all runs, by work; None if there is none to go by."""
    past = list(past)
    same = [run.duration_s for run in past if run.key == key]
    if same:
        return median(same)
    rates = [run.duration_s / run.work for run in past if run.work > 0]
    return median(rates) * work if rates else None


def remaining_s(facts: Mapping[str, float | None]) -> float | None:
    """Until a running job ends; None if nothing is known.

    facts: done, the share of its phase; phase_s and elapsed_s, since the phase and the job began; estimate_s or None.
    """
    known = [] if facts["estimate_s"] is None else [max(0.0, facts["estimate_s"] - facts["elapsed_s"])]
    if facts["done"] > _TELLING_SHARE:
        known.append(facts["phase_s"] * (1 - facts["done"]) / facts["done"])
    return max(known, default=None)  # another phase may follow, which the present one knows nothing of
