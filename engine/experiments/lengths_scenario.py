"""The lengths experiment as frozen data: perplexity behind texts longer than the model was trained on. No torch, so that
pages see it.

The files of `profiles/lengths/` are presets, one for each model; the first is the default.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.scenarios import DEVICES, DTYPES, MAX_TOTAL_TOKENS, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_choice, check_list, check_number, check_word, wrong
from engine.experiments.stretched import STRETCHES
from engine.formulas.rope import RAMPS

LENGTHS_DIR = Path(__file__).resolve().parents[2] / "profiles" / "lengths"
LENGTHS = "lengths"
LAB_MODEL, HELD_OUT = "lab-1m", "kjv-held-out"
SHORTEST, LONGEST = 16, 65_536
LARGEST_FACTOR = 1024.0
_RANGES = {
    "scored": (SHORTEST, 4_096),
    "samples": (1, 256),
    "seeds": (1, 20),
    "sinks": (0, 64),
    "threads": (0, 256),
    "seed": (0, 2**31 - 1),
}


@dataclass(frozen=True)
class LengthsScenario(Settings):
    """How well the last `scored` tokens of texts are foreseen when `lengths` tokens are read: the same tokens at every length.

    samples: texts of each of `seeds` seeds, which are seed, seed + 1 and so on. methods: what is done to the model's
    rotation ("linear" is position interpolation), or "streaming", the model as it is with `sinks` first tokens and a window
    that is as long as it was trained on, together. factor: 0 gives each length its own, length / trained; else it is fixed.
    ramp: in what the ramp of YaRN and NTK-by-parts is linear. threads: 0 takes the machine's useful cores.
    """

    kind: ClassVar[str] = LENGTHS
    workload: ClassVar[str] = LENGTHS

    lengths: tuple[int, ...] = (128, 256, 512, 1024, 2048)
    methods: tuple[str, ...] = STRETCHES
    scored: int = 128
    samples: int = 4
    seeds: int = 3
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
        if min(self.lengths) < self.scored:
            raise wrong("lengths", self.lengths, f"whole numbers from {self.scored}, the tokens that are scored")
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    @property
    def total_tokens(self) -> int:
        """Read in all."""
        return sum(self.lengths) * len(self.methods) * self.samples * self.seeds


def check_stretching(scenario) -> None:
    """The settings that lengths and retrieval share. Raises LabError("scenario-value")."""
    for name, known in (("lengths", range(SHORTEST, LONGEST + 1)), ("methods", STRETCHES)):
        check_list(name, getattr(scenario, name), known)
        if not getattr(scenario, name):
            raise wrong(name, (), "at least one")
    check_number("factor", scenario.factor, 0, LARGEST_FACTOR, whole=False)
    if 0 < scenario.factor < 1:
        raise wrong("factor", scenario.factor, f"0, or a number from 1 to {LARGEST_FACTOR:.0f}")
    object.__setattr__(scenario, "factor", float(scenario.factor))  # 2 and 2.0 are one scenario
    check_choice("ramp", scenario.ramp, RAMPS)
    check_choice("device", scenario.device, DEVICES)
    check_choice("dtype", scenario.dtype, DTYPES)
    check_word("model", scenario.model)
    check_word("text", scenario.text)


@cache
def lengths() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(LENGTHS_DIR, _preset)


def lengths_for(device_class: str = "cpu", preset: str | None = None, /, **changes: object) -> LengthsScenario:
    """A preset for a device class ("cpu" or "gpu"), with changes by name as in `LengthsScenario.changed`.

    preset: None takes the one that is for the model among the changes, else the first.
    Raises LabError("workload-unknown" or "workload-broken"), and as `changed` does.
    """
    presets = lengths()
    made = {name: _preset(found, device_class) for name, found in presets.items()}
    if preset is None:
        model = changes.get("model", LAB_MODEL)
        preset = next((name for name, scenario in made.items() if scenario.model == model), next(iter(made)))
    chosen_preset(presets, preset)
    return made[preset].changed(changes)


def _preset(preset: Workload, device_class: str) -> LengthsScenario:
    return LengthsScenario.from_dict(preset.settings_for(device_class))
