"""The measured memory wall as frozen data: the same requests into a pool that cannot hold them all. No torch.

Three servings, all unified, all requests at once:

    ample      a pool that holds all of them
    paged      a pool of `pool_tokens`; a request takes blocks as it grows, and loses them all if others need them more
    reserved   the same pool; every request keeps blocks for the longest one there may be, from its start to its end

The file of `profiles/walls/` is the preset for each device class.
"""

import math
import random
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar

from engine.experiments.scenarios import RequestGroup, SchedulesScenario, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_number, wrong

WALLS_DIR = Path(__file__).resolve().parents[2] / "profiles" / "walls"
WALL = "wall"
AMPLE, PAGED, RESERVED = "ample", "paged", "reserved"
VARIANTS = (AMPLE, PAGED, RESERVED)
REQUEST = "request"
_RANGES = {
    "count": (1, 256),
    "prompt_tokens_min": (1, 1_000_000),
    "prompt_tokens_max": (1, 1_000_000),
    "output_tokens_min": (1, 100_000),
    "output_tokens_max": (1, 100_000),
    "pool_tokens": (16, 100_000_000),  # a block on a CPU
    "reserve_tokens": (1, 1_000_000),
}


@dataclass(frozen=True)
class WallScenario(Settings):
    """`count` requests, their lengths drawn from the seed between a shortest and a longest (evenly on a log scale).

    pool_tokens: KV tokens that the pool of "paged" and "reserved" holds, in whole blocks: the wall, whatever the number
    format. reserve_tokens: KV tokens that each request keeps in "reserved"; one that needs more keeps what it needs.
    threads: 0 takes the machine's useful cores.
    """

    kind: ClassVar[str] = WALL
    workload: ClassVar[str] = WALL
    schedules: ClassVar[tuple[str, ...]] = VARIANTS

    count: int
    prompt_tokens_min: int
    prompt_tokens_max: int
    output_tokens_min: int
    output_tokens_max: int
    pool_tokens: int
    reserve_tokens: int
    model: str = "smollm2-135m-instruct"
    text: str = "kjv"
    max_batch_requests: int = 64
    max_prefill_tokens: int = 8192
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=True)
        for part in ("prompt", "output"):
            low, high = (getattr(self, f"{part}_tokens_{end}") for end in ("min", "max"))
            if low > high:
                raise wrong(f"{part}_tokens_min", low, f"a whole number from 1 to {high}")
        if self.reserve_tokens > self.pool_tokens:
            raise wrong("reserve_tokens", self.reserve_tokens, f"a whole number from 1 to {self.pool_tokens}")
        check_number("seed", self.seed, 0, 2**31 - 1, whole=True)
        _ = self.base  # which checks all the rest as its own

    @cached_property
    def lengths(self) -> tuple[tuple[int, int], ...]:
        """(prompt tokens, output tokens) of each request, in order of arrival."""
        draw = random.Random(f"wall {self.seed}")
        prompts = [_between(draw, self.prompt_tokens_min, self.prompt_tokens_max) for _ in range(self.count)]
        outputs = [_between(draw, self.output_tokens_min, self.output_tokens_max) for _ in range(self.count)]
        return tuple(zip(prompts, outputs, strict=True))

    @cached_property
    def base(self) -> SchedulesScenario:
        """The same requests as a scenario of the Schedules experiment, each a group of its own: "request-0" and so on."""
        groups = tuple(RequestGroup(f"{REQUEST}-{n}", 1, prompt, output) for n, (prompt, output) in enumerate(self.lengths))
        same = ("model", "text", "max_batch_requests", "max_prefill_tokens", "device", "dtype", "threads", "repeats", "seed")
        return SchedulesScenario(
            self.workload, groups, schedules=("unified",), decompose=False, **{name: getattr(self, name) for name in same}
        )

    @property
    def total_tokens(self) -> int:
        """Of one serving."""
        return sum(prompt + output for prompt, output in self.lengths)


@cache
def walls() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(WALLS_DIR, _preset)


def wall_for(device_class: str = "cpu", /, **changes: object) -> WallScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `WallScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(walls(), WALL), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> WallScenario:
    return WallScenario.from_dict(preset.settings_for(device_class))


def _between(draw: random.Random, low: int, high: int) -> int:
    """A whole number from low to high, each factor of two as likely as another: many short ones, few long ones."""
    return min(high, max(low, round(math.exp(draw.uniform(math.log(low), math.log(high))))))
