"""The needle experiment as frozen data: a sentence early in a text, asked for behind it. No torch, so that pages see it.

The file of `profiles/needle/` is the preset for each device class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.scenarios import DEVICES, DTYPES, MAX_TOTAL_TOKENS, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_choice, check_list, check_number, check_word, wrong

NEEDLE_DIR = Path(__file__).resolve().parents[2] / "profiles" / "needle"
NEEDLE = "needle"
DENSE, SINKS, WINDOW, SNAPKV, H2O = "dense", "sinks", "window", "snapkv", "h2o"
POLICIES = (DENSE, SINKS, WINDOW, SNAPKV, H2O)
MOST_TRIALS = 2_000
_RANGES = {
    "trials": (1, MOST_TRIALS),
    "length": (96, 32_768),
    "window": (64, 16_384),
    "sinks": (1, 64),
    "distractors": (0, 7),
    "threads": (0, 256),
    "seed": (0, 2**31 - 1),
}


@dataclass(frozen=True)
class NeedleScenario(Settings):
    """`trials` questions about sentences like "The secret word of the harbour is lion.", behind texts of `length` tokens.

    window: KV entries that every policy but "dense" may keep, `sinks` of them included. distractors: how many other such
    sentences stand beside the one that is asked for; each of them is asked for too, so that a text serves 1 + distractors
    trials. depth: where they begin, as a share of the text: 0 the beginning, but never among the sinks; 1 the end.
    threads: 0 takes the machine's useful cores.
    """

    kind: ClassVar[str] = NEEDLE
    workload: ClassVar[str] = NEEDLE

    trials: int
    length: int
    window: int
    sinks: int = 4
    policies: tuple[str, ...] = POLICIES
    distractors: int = 3
    depth: float = 0.1
    text: str = "kjv"
    model: str = "smollm2-135m-instruct"
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=True)
        check_number("depth", self.depth, 0, 1, whole=False)
        object.__setattr__(self, "depth", float(self.depth))  # 1 and 1.0 are one scenario
        check_choice("device", self.device, DEVICES)
        check_choice("dtype", self.dtype, DTYPES)
        check_word("model", self.model)
        check_word("text", self.text)
        check_list("policies", self.policies, POLICIES)
        if not self.policies:
            raise wrong("policies", self.policies, " | ".join(POLICIES))
        if self.sinks > self.window // 2:
            raise wrong("sinks", self.sinks, f"a whole number from 1 to {self.window // 2}")
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    @property
    def texts(self) -> int:
        """How many texts it takes: so many trials at least."""
        return -(-self.trials // (1 + self.distractors))

    @property
    def total_tokens(self) -> int:
        """Of all texts, read once for each policy."""
        return self.texts * self.length * len(self.policies)


@cache
def needles() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(NEEDLE_DIR, _preset)


def needle_for(device_class: str = "cpu", /, **changes: object) -> NeedleScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `NeedleScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(needles(), NEEDLE), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> NeedleScenario:
    return NeedleScenario.from_dict(preset.settings_for(device_class))
