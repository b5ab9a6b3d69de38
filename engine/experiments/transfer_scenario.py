"""The transfer experiment as frozen data: one text's KV from one process to another, in every format. No torch, so that
pages see it.

The file of `profiles/transfers/` is the preset for each device class.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.scenarios import (
    DEVICES,
    DTYPES,
    MAX_TOTAL_TOKENS,
    Workload,
    chosen_preset,
    load_presets,
)
from engine.experiments.settings import (
    Settings,
    check_choice,
    check_list,
    check_number,
    check_word,
    wrong,
)
from engine.formulas.kv import KV_DTYPES

TRANSFERS_DIR = Path(__file__).resolve().parents[2] / "profiles" / "transfers"
TRANSFER = "transfer"
SHORTEST, LONGEST = 32, 32_768
MOST_LENGTHS = 6
_RANGES = {
    "scored": (1, 2_048),
    "continue_tokens": (1, 512),
    "link_bytes_per_s": (0, 1e13),
    "threads": (0, 256),
    "seed": (0, 2**31 - 1),
}


@dataclass(frozen=True)
class TransferScenario(Settings):
    """The KV of prompts of some lengths goes from the process that prefilled them to one that goes on with it.

    formats: of the KV on the way, of `formulas.kv.KV_DTYPES`. scored: so many real tokens behind the prompt are foreseen from
    what arrived and from the exact cache. continue_tokens: so many are generated from both. layerwise: also send the longest
    prompt's KV while it is prefilled. link_bytes_per_s: of an emulated link, slower than memory; 0 is this machine's memory,
    and the layer by layer part takes a link on which the transfer is about as long as the prefill. seed: where in the text
    it begins; 0 is the beginning. threads: of both processes together; 0 takes the machine's useful cores.
    """

    kind: ClassVar[str] = TRANSFER
    workload: ClassVar[str] = TRANSFER

    text: str = "kjv"
    lengths: tuple[int, ...] = (512, 2048, 4096)
    formats: tuple[str, ...] = KV_DTYPES
    scored: int = 256
    continue_tokens: int = 48
    layerwise: bool = True
    link_bytes_per_s: float = 0
    model: str = "smollm2-135m-instruct"
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=isinstance(high, int))
        check_list("lengths", self.lengths, range(SHORTEST, LONGEST + 1))
        if not 1 <= len(self.lengths) <= MOST_LENGTHS:
            raise wrong("lengths", self.lengths, f"1 to {MOST_LENGTHS} lengths")
        check_list("formats", self.formats, KV_DTYPES)
        if not self.formats:
            raise wrong("formats", self.formats, f"some of {' | '.join(KV_DTYPES)}")
        if not isinstance(self.layerwise, bool):
            raise wrong("layerwise", self.layerwise, "true | false")
        check_choice("device", self.device, DEVICES)
        check_choice("dtype", self.dtype, DTYPES)
        check_word("model", self.model)
        check_word("text", self.text)
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    @property
    def total_tokens(self) -> int:
        """Computed in all."""
        again = (1 + len(self.formats)) * (self.scored + self.continue_tokens)
        return sum(self.lengths) + len(self.lengths) * again + self.layerwise * max(self.lengths)


@cache
def transfers() -> dict[str, Workload]:
    """The presets by name. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(TRANSFERS_DIR, _preset)


def transfer_for(device_class: str = "cpu", /, **changes: object) -> TransferScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `TransferScenario.changed`.

    Raises LabError("workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(transfers(), TRANSFER), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> TransferScenario:
    return TransferScenario.from_dict(preset.settings_for(device_class))
