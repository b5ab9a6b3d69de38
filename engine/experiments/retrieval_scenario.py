"""The retrieval experiment as frozen data: needles at several depths of texts of several lengths. No torch, so that pages
see it.

The file of `profiles/retrieval/` is the preset for each device class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.lengths_scenario import HELD_OUT, LAB_MODEL, check_stretching
from engine.experiments.scenarios import MAX_TOTAL_TOKENS, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_number, wrong
from engine.experiments.stretched import STRETCHES

RETRIEVAL_DIR = Path(__file__).resolve().parents[2] / "profiles" / "retrieval"
RETRIEVAL = "retrieval"
# Each needle of a text has a key of its own.
MOST_DEPTHS = 16
_RANGES = {"trials": (1, 1_000), "sinks": (0, 64), "threads": (0, 256), "seed": (0, 2**31 - 1)}


@dataclass(frozen=True)
class RetrievalScenario(Settings):
    """`trials` texts of each of `lengths` tokens, the question included; in each of them a needle at every one of `depths`,
    and each is asked for. A depth is a share of the text: 0 the beginning, 1 the end.

    methods, factor, sinks, ramp, threads: as in `LengthsScenario`.
    """

    kind: ClassVar[str] = RETRIEVAL
    workload: ClassVar[str] = RETRIEVAL

    lengths: tuple[int, ...] = (128, 256, 512)
    depths: tuple[float, ...] = (0.05, 0.25, 0.5, 0.75, 0.95)
    methods: tuple[str, ...] = STRETCHES
    trials: int = 100
    factor: float = 0.0
    sinks: int = 4
    ramp: str = "dimensions"
    text: str = HELD_OUT
    model: str = LAB_MODEL
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=True)
        check_stretching(self)
        depths = self.depths
        if not isinstance(depths, tuple) or not 1 <= len(depths) <= MOST_DEPTHS or not all(map(_is_share, depths)):
            raise wrong("depths", depths, f"1 to {MOST_DEPTHS} numbers from 0 to 1")
        object.__setattr__(self, "depths", tuple(map(float, depths)))  # 1 and 1.0 are one scenario
        if len(set(self.depths)) < len(self.depths):
            raise wrong("depths", depths, "different from each other")
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    @property
    def total_tokens(self) -> int:
        """Of all texts, read once for each method."""
        return sum(self.lengths) * len(self.methods) * self.trials


def _is_share(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


@cache
def retrievals() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(RETRIEVAL_DIR, _preset)


def retrieval_for(device_class: str = "cpu", /, **changes: object) -> RetrievalScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `RetrievalScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(retrievals(), RETRIEVAL), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> RetrievalScenario:
    return RetrievalScenario.from_dict(preset.settings_for(device_class))
