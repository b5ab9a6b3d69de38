"""Sweeps: one scenario measured again and again with one thing changed, as frozen data. No torch.

    chunk-sweep   the prefill chunk size; 0 stands for the whole prompt at once, which is the unified schedule
    backlog       the length of equal prompts that arrive at a fixed spacing (unified, one prompt a step)

A point of a sweep is a `SchedulesScenario` of its own, so every check and every plan is the one of that experiment.
A file of `profiles/sweeps/` is the preset of a kind for each device class.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from engine.errors import LabError
from engine.experiments.scenarios import (
    MAX_TOTAL_TOKENS,
    SchedulesScenario,
    Workload,
    chosen_preset,
    load_presets,
    preset_base,
)
from engine.experiments.settings import check_choice, check_names, check_table, key_of, wrong
from engine.measure.metrics import LONG

SWEEPS_DIR = Path(__file__).resolve().parents[2] / "profiles" / "sweeps"
CHUNK_SWEEP, BACKLOG = "chunk-sweep", "backlog"
KINDS = (CHUNK_SWEEP, BACKLOG)
WHOLE = 0
MOST_POINTS = 16
PROMPT = "prompt"  # the kind of a backlog's requests


@dataclass(frozen=True)
class SweepScenario:
    """`base` measured once for each of `values`; what a value means depends on `kind` (see above).

    chunk-sweep: base has one "long" request among others ("chat"). backlog: base has one group of "prompt"s; their
    prompt_tokens is what the values replace. base's schedules, chunk size and decompose have no meaning here.
    """

    kind: str
    base: SchedulesScenario
    values: tuple[int, ...]

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        if not isinstance(self.base, SchedulesScenario):
            raise wrong("base", self.base, "a scenario")
        values = self.values if isinstance(self.values, tuple) else ()
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
        if not 1 <= len(values) <= MOST_POINTS or not whole or len(set(values)) < len(values):
            raise wrong("values", self.values, f"1 to {MOST_POINTS} different whole numbers")
        self._check_requests()
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    def _check_requests(self) -> None:
        if self.kind == CHUNK_SWEEP:
            long = self.base.group(LONG)
            if long is None or long.count != 1:
                raise wrong(f"{LONG}.count", long.count if long else 0, "1")
        else:
            prompts = self.base.group(PROMPT)
            if prompts is None or len(self.base.groups) != 1:
                raise wrong("kind", ", ".join(group.kind for group in self.base.groups), f"requests of the kind {PROMPT} alone")
            if prompts.count < 3:  # a slope wants three arrivals
                raise wrong(f"{PROMPT}.count", prompts.count, "a whole number from 3 to 256")
            if prompts.spacing_s <= 0:
                raise wrong(f"{PROMPT}.spacing_s", prompts.spacing_s, "a number above 0")

    def point(self, value: int) -> SchedulesScenario:
        """The scenario of one point. Raises LabError as `SchedulesScenario` does."""
        try:
            if self.kind == BACKLOG:
                # One prompt a step: with several together, waiting would be told apart from computing only by theory.
                alone = replace(self.base, schedules=("unified",), decompose=False, max_prefill_tokens=1)
                return alone.changed({f"{PROMPT}.prompt_tokens": value})
            if value == WHOLE:
                return replace(self.base, schedules=("unified",), decompose=False)
            return replace(self.base, schedules=("chunked",), decompose=False, chunk_tokens=value)
        except LabError as error:
            if error.facts.get("field") not in ("chunk_tokens", f"{PROMPT}.prompt_tokens"):
                raise
            raise wrong("values", value, error.facts["expected"]) from error

    def points(self) -> dict[int, SchedulesScenario]:
        return {value: self.point(value) for value in self.values}

    @property
    def model(self) -> str:
        return self.base.model

    @property
    def text(self) -> str:
        return self.base.text

    @property
    def workload(self) -> str:
        return self.base.workload

    @property
    def repeats(self) -> int:
        return self.base.repeats

    @property
    def total_tokens(self) -> int:
        """Of all points, one repeat; without the prompts that are measured alone."""
        return sum(point.total_tokens for point in self.points().values())

    def as_dict(self) -> dict:
        """JSON-ready, and the same for equal sweeps."""
        return {"kind": self.kind, "values": list(self.values), "base": self.base.as_dict()}

    @classmethod
    def from_dict(cls, record: Mapping) -> "SweepScenario":
        """Raises LabError("scenario-field" or "scenario-value") for anything that is not a sweep."""
        check_table(record)
        check_names(record, ("base", "kind", "values"))
        values = record.get("values")
        base = SchedulesScenario.from_dict(record.get("base"))
        return cls(record.get("kind"), base, tuple(values) if isinstance(values, list | tuple) else values)

    def key(self) -> str:
        """The same for equal sweeps, and never that of another experiment."""
        return key_of(self.as_dict())

    def changed(self, changes: Mapping[str, object]) -> "SweepScenario":
        """A copy with settings changed by name: `values`, and everything that `SchedulesScenario.changed` knows."""
        rest = {name: value for name, value in changes.items() if name != "values"}
        values = changes.get("values", self.values)
        if isinstance(values, str):  # "64,128" from a command line
            values = [int(part) if part.strip().isdecimal() else part for part in values.split(",")]
        elif isinstance(values, int):
            values = [values]
        return SweepScenario(self.kind, self.base.changed(rest), tuple(values) if isinstance(values, Iterable) else values)


@cache
def sweeps() -> dict[str, Workload]:
    """The preset of each kind, by kind, in file order. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(SWEEPS_DIR, _preset)


def sweep_for(kind: str, device_class: str = "cpu", /, **changes: object) -> SweepScenario:
    """The preset of a kind for a device class ("cpu" or "gpu"), with changes by name as in `SweepScenario.changed`.

    Raises LabError("workload-unknown" or "workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(sweeps(), kind), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> SweepScenario:
    settings = preset.settings_for(device_class)
    values = settings.pop("values")
    return SweepScenario(preset.name, preset_base(preset, settings), tuple(values))
