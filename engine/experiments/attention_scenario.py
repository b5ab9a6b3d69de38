"""The attention experiment as frozen data: whose attention to look at, on which text. No torch, so that pages see it.

The file of `profiles/attention/` is the preset for each device class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.experiments.scenarios import DEVICES, DTYPES, Workload, chosen_preset, load_presets
from engine.experiments.settings import Settings, check_choice, check_number, check_word, wrong

ATTENTION_DIR = Path(__file__).resolve().parents[2] / "profiles" / "attention"
ATTENTION = "attention"
MOST_TOKENS = 1024
# What stands first in the text, in the order of the result: the text as it is; the tokenizer's own special token in front;
# the first token replaced by a line break, or by a word drawn from the seed; four line breaks in front.
STARTS = ("as_is", "special", "newline", "word", "newlines4")
START_TOKENS = 200
STRONGEST = -1
_RANGES = {
    "tokens": (2, MOST_TOKENS),
    "offset": (0, 100_000_000),
    "first_k": (1, 16),
    "exact_layer": (STRONGEST, 10_000),
    "exact_head": (STRONGEST, 10_000),
    "threads": (0, 256),
    "seed": (0, 2**31 - 1),
}


@dataclass(frozen=True)
class AttentionScenario(Settings):
    """The first `tokens` tokens of a text, from its character `offset` on, read once; fewer if the text is shorter.

    first_k: so many first tokens are taken together beside the first alone. exact_layer, exact_head: the head whose map is
    kept token by token; -1 each: the one that gives the first token the most. threads: 0 takes the machine's useful cores.
    """

    kind: ClassVar[str] = ATTENTION
    workload: ClassVar[str] = ATTENTION

    tokens: int = 512
    text: str = "kjv"
    offset: int = 0
    first_k: int = 4
    exact_layer: int = STRONGEST
    exact_head: int = STRONGEST
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
        if (self.exact_layer == STRONGEST) != (self.exact_head == STRONGEST):
            raise wrong("exact_head", self.exact_head, f"{STRONGEST} exactly if exact_layer is")

    @property
    def total_tokens(self) -> int:
        """Computed at most, with the other starts."""
        return self.tokens + (len(STARTS) - 1) * min(self.tokens, START_TOKENS)


@cache
def attention_presets() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(ATTENTION_DIR, _preset)


def attention_for(device_class: str = "cpu", /, **changes: object) -> AttentionScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `AttentionScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(attention_presets(), ATTENTION), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> AttentionScenario:
    return AttentionScenario.from_dict(preset.settings_for(device_class))
