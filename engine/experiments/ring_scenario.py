"""The ring experiment as frozen data: one text's prefill split over ranks. No torch, so that pages see it.

The file of `profiles/rings/` is the preset for each device class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.scenarios import DEVICES, DTYPES, MAX_TOTAL_TOKENS, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_choice, check_number, check_word, wrong
from engine.formulas.ring import LAYOUTS, ZIGZAG

RINGS_DIR = Path(__file__).resolve().parents[2] / "profiles" / "rings"
RING = "ring"
MOST_RANKS = 4
_RANGES = {
    "tokens": (16, 65_536),
    "ranks": (1, MOST_RANKS),
    "threads": (0, 256),
    "seed": (0, 2**31 - 1),
}


@dataclass(frozen=True)
class RingScenario(Settings):
    """The prefill of the first `tokens` tokens of a text, on so many ranks.

    compare: the other layout too, and one process with all the threads of the ranks, with whose logits those of the ring are
    compared. threads: of all ranks together; 0 takes the machine's useful cores. seed: where in the text it begins; 0 is the
    beginning.
    """

    kind: ClassVar[str] = RING
    workload: ClassVar[str] = RING

    tokens: int
    ranks: int
    layout: str = ZIGZAG
    compare: bool = True
    text: str = "kjv"
    model: str = "smollm2-135m-instruct"
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=True)
        check_choice("layout", self.layout, LAYOUTS)
        if not isinstance(self.compare, bool):
            raise wrong("compare", self.compare, "true | false")
        check_choice("device", self.device, DEVICES)
        check_choice("dtype", self.dtype, DTYPES)
        check_word("model", self.model)
        check_word("text", self.text)
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    @property
    def layouts(self) -> tuple[str, ...]:
        """What is measured, the chosen one first."""
        return (self.layout, *(other for other in LAYOUTS if other != self.layout and self.compare))

    @property
    def total_tokens(self) -> int:
        """Computed in all."""
        return self.tokens * (len(self.layouts) + self.compare)


@cache
def rings() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(RINGS_DIR, _preset)


def ring_for(device_class: str = "cpu", /, **changes: object) -> RingScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `RingScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(rings(), RING), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> RingScenario:
    return RingScenario.from_dict(preset.settings_for(device_class))
