"""The roofline experiment as frozen data: which steps of the engine to time, on what. No torch, so that pages see it.

A step is a whole prompt's prefill, or one decode step of a batch of sequences that are `context` tokens long already.
The file of `profiles/rooflines/` is the preset for each device class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.scenarios import DEVICES, DTYPES, MAX_TOTAL_TOKENS, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_choice, check_number, check_word, wrong

ROOFLINES_DIR = Path(__file__).resolve().parents[2] / "profiles" / "rooflines"
ROOFLINE = "roofline"
PREFILL, DECODE = "prefill", "decode"
MOST_VALUES = 16
MOST_POINTS = 80
_RANGES = {"kv_bytes": (1 << 20, 1 << 40), "threads": (0, 256), "repeats": (1, 20), "seed": (0, 2**31 - 1)}
_LISTS = {"prefill_tokens": 1_000_000, "decode_batches": 1024, "decode_contexts": 1_000_000}


@dataclass(frozen=True)
class Step:
    """One step: `batch` sequences, each with `new` tokens computed after `context` cached ones."""

    phase: str
    batch: int
    new: int
    context: int

    @property
    def name(self) -> str:
        """The same in every run: "prefill-512", "decode-8x1024" (8 sequences that are 1,024 tokens long)."""
        return f"{PREFILL}-{self.new}" if self.phase == PREFILL else f"{DECODE}-{self.batch}x{self.context}"

    @property
    def tokens(self) -> int:
        """New tokens in all."""
        return self.batch * self.new

    @property
    def slices(self) -> list[tuple[int, int, bool]]:
        """As the formulas take them (`engine.formulas.roofline.step_cost`)."""
        return [(self.context, self.new, True)] * self.batch

    def as_dict(self) -> dict:
        """How points and progress name it: tokens counts new ones in the step, context those before of each sequence."""
        return {"phase": self.phase, "tokens": self.tokens, "batch": self.batch, "context": self.context}


@dataclass(frozen=True)
class RooflineScenario(Settings):
    """A prefill of each of `prefill_tokens`; a decode step of each of `decode_batches` at each of `decode_contexts`.

    kv_bytes: the pool that a step's KV must fit into. threads: 0 takes the machine's useful cores. repeats: of each step at
    most; slow ones are measured once, and on a busy machine the others less often (a point says how often: `runs`).
    """

    kind: ClassVar[str] = ROOFLINE
    workload: ClassVar[str] = ROOFLINE
    text: ClassVar[str] = ""  # token ids are drawn from the seed: speed does not depend on them

    prefill_tokens: tuple[int, ...]
    decode_batches: tuple[int, ...]
    decode_contexts: tuple[int, ...]
    model: str = "smollm2-135m-instruct"
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    kv_bytes: int = 1 << 30
    repeats: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=True)
        check_choice("device", self.device, DEVICES)
        check_choice("dtype", self.dtype, DTYPES)
        check_word("model", self.model)
        for name, highest in _LISTS.items():
            self._check_list(name, getattr(self, name), highest)
        if not 1 <= len(self.steps) <= MOST_POINTS:
            expected = f"such that there are 1 to {MOST_POINTS} steps, prefills included"
            raise wrong("decode_batches", self.decode_batches, expected)
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    @staticmethod
    def _check_list(name: str, values: object, highest: int) -> None:
        known = isinstance(values, tuple) and len(values) <= MOST_VALUES
        whole = known and all(isinstance(value, int) and not isinstance(value, bool) for value in values)
        if not whole or len(set(values)) < len(values) or not all(1 <= value <= highest for value in values):
            raise wrong(name, values, f"up to {MOST_VALUES} different whole numbers from 1 to {highest}")

    @property
    def steps(self) -> tuple[Step, ...]:
        """In the order of the result's points."""
        prefills = [Step(PREFILL, 1, tokens, 0) for tokens in self.prefill_tokens]
        decodes = [Step(DECODE, batch, 1, context) for context in self.decode_contexts for batch in self.decode_batches]
        return (*prefills, *decodes)

    @property
    def total_tokens(self) -> int:
        """New tokens of all steps, one repeat."""
        return sum(step.tokens for step in self.steps)


@cache
def rooflines() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(ROOFLINES_DIR, _preset)


def roofline_for(device_class: str = "cpu", /, **changes: object) -> RooflineScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `RooflineScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(rooflines(), ROOFLINE), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> RooflineScenario:
    return RooflineScenario.from_dict(preset.settings_for(device_class))
