"""The streaming experiment as frozen data: a text read through caches of a fixed size. No torch, so that pages see it.

The file of `profiles/streaming/` is the preset for each device class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.scenarios import DEVICES, DTYPES, MAX_TOTAL_TOKENS, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_choice, check_list, check_number, check_word, wrong

STREAMING_DIR = Path(__file__).resolve().parents[2] / "profiles" / "streaming"
STREAMING = "streaming"
DENSE, WINDOW, SINKS, RECOMPUTE, H2O = "dense", "window", "sinks", "recompute", "h2o"
POLICIES = (DENSE, WINDOW, SINKS, RECOMPUTE, H2O)
MOST_SINKS = 64
# Fewer tokens behind the first eviction would not make a perplexity.
LEAST_AFTER = 16
_RANGES = {
    "tokens": (2 * LEAST_AFTER, 32_768),
    "window": (LEAST_AFTER, 16_384),
    "points": (1, 512),
    "decode_tokens": (0, 2_000),
    "threads": (0, 256),
    "seed": (0, 2**31 - 1),
}


@dataclass(frozen=True)
class StreamingScenario(Settings):
    """The first `tokens` tokens of a text; a cache of `window` tokens, the sinks included: 4 + 252 is sinks 4, window 256.

    sinks: how many first tokens stay, one curve for each; 0 is the policy "window". policies: what the dense curve, which is
    always there, is compared with. points: at how many places "recompute" is sampled. decode_tokens: how many tokens the
    caches that really evict read one by one, for milliseconds per token. seed: where in the text it begins; 0 is the
    beginning. threads: 0 takes the machine's useful cores.
    """

    kind: ClassVar[str] = STREAMING
    workload: ClassVar[str] = STREAMING

    tokens: int
    window: int
    sinks: tuple[int, ...] = (0, 1, 2, 4, 8)
    policies: tuple[str, ...] = POLICIES
    text: str = "kjv"
    points: int = 24
    decode_tokens: int = 200
    model: str = "smollm2-135m-instruct"
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=True)
        check_choice("device", self.device, DEVICES)
        check_choice("dtype", self.dtype, DTYPES)
        check_word("model", self.model)
        check_word("text", self.text)
        check_list("policies", self.policies, POLICIES)
        most = min(MOST_SINKS, self.window // 2)
        check_list("sinks", self.sinks, range(most + 1))
        if self.window + LEAST_AFTER > self.tokens:
            raise wrong("window", self.window, f"a whole number from {LEAST_AFTER} to {self.tokens - LEAST_AFTER}")
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of sinks for which there is a curve, 0 for the window alone, rising."""
        some = {count for count in self.sinks if count and SINKS in self.policies}
        return tuple(sorted(some | ({0} if WINDOW in self.policies else set())))

    @property
    def cached_sinks(self) -> int | None:
        """Of the cache that really evicts: four if they are there, as in the paper, else the most. None without any."""
        return 4 if 4 in self.counts else max(self.counts, default=None)

    @property
    def total_tokens(self) -> int:
        """Computed in all, those that are read again included."""
        passes = 1 + len(self.counts) + (H2O in self.policies)
        caches = 2 * self.tokens if self.decode_tokens else 0
        again = self.points * self.window if RECOMPUTE in self.policies else 0
        return passes * self.tokens + caches + again


@cache
def streams() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(STREAMING_DIR, _preset)


def streaming_for(device_class: str = "cpu", /, **changes: object) -> StreamingScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `StreamingScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(streams(), STREAMING), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> StreamingScenario:
    return StreamingScenario.from_dict(preset.settings_for(device_class))
