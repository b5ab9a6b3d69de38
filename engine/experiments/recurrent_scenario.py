"""The experiment with a recurrent state as frozen data: decode steps to time, pairs to write and to ask for. No torch.

The file of `profiles/recurrent/` is the preset for each device class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.scenarios import DEVICES, DTYPES, MAX_TOTAL_TOKENS, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_choice, check_number, check_word, wrong

RECURRENT_DIR = Path(__file__).resolve().parents[2] / "profiles" / "recurrent"
RECURRENT = "recurrent"
# What is compared: attention as usual; a state into which values are added; one that decays; one that corrects what it holds.
SOFTMAX, SUM, DECAY, DELTA = "softmax", "sum", "decay", "delta"
MECHANISMS = (SOFTMAX, SUM, DECAY, DELTA)
# Of what is asked for in the recall test there are so many, each as likely: guessing is right this often.
VALUES = 64
_MOST_VALUES = 12
_LISTS = {"lengths": (16, 1_048_576), "pairs": (1, 4096), "key_dims": (4, 512)}
_RANGES = {"layers": (1, 256), "steps": (3, 1000), "trials": (1, 64), "threads": (0, 256), "seed": (0, 2**31 - 1)}


@dataclass(frozen=True)
class RecurrentScenario(Settings):
    """Decode steps of `layers` layers of a model's attention after each of `lengths` tokens, and of the same with a state.

    model: whose shape; none of its weights is used. steps: timed in a row, of which the median counts.
    pairs: so many are written, then each is asked for; key_dims: with keys of this many numbers; decay: of the mechanism that
    decays, per token; trials: how often all that is drawn anew. threads: 0 takes the machine's useful cores.
    """

    kind: ClassVar[str] = RECURRENT
    workload: ClassVar[str] = RECURRENT
    text: ClassVar[str] = ""  # keys, values and queries are drawn from the seed

    lengths: tuple[int, ...]
    pairs: tuple[int, ...]
    key_dims: tuple[int, ...]
    layers: int = 4
    steps: int = 20
    decay: float = 0.99
    trials: int = 16
    model: str = "random-1b"
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _LISTS.items():
            _check_list(name, getattr(self, name), low, high)
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=True)
        check_number("decay", self.decay, 0.01, 1, whole=False)
        check_choice("device", self.device, DEVICES)
        check_choice("dtype", self.dtype, DTYPES)
        check_word("model", self.model)
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    @property
    def total_tokens(self) -> int:
        """Written into a cache or a state, over all mechanisms."""
        return len(MECHANISMS) * (sum(self.lengths) + self.trials * len(self.key_dims) * sum(self.pairs))


def _check_list(name: str, values: object, low: int, high: int) -> None:
    known = isinstance(values, tuple) and 1 <= len(values) <= _MOST_VALUES
    whole = known and all(isinstance(value, int) and not isinstance(value, bool) and low <= value <= high for value in values)
    if not whole or list(values) != sorted(set(values)):
        raise wrong(name, values, f"1 to {_MOST_VALUES} rising whole numbers from {low} to {high}")


@cache
def recurrent_presets() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(RECURRENT_DIR, _preset)


def recurrent_for(device_class: str = "cpu", /, **changes: object) -> RecurrentScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `RecurrentScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(recurrent_presets(), RECURRENT), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> RecurrentScenario:
    return RecurrentScenario.from_dict(preset.settings_for(device_class))
