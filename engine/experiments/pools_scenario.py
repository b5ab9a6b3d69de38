"""The pools experiment as frozen data: the same requests in one engine and in pools of several sizes. No torch, so that pages
see it.

The files of `profiles/pools/` are the cases, each with settings for a device class.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import ClassVar

from engine.experiments.scenarios import (
    RequestGroup,
    SchedulesScenario,
    Workload,
    chosen_preset,
    load_presets,
    with_changes,
)
from engine.experiments.settings import Settings, check_choice, check_names, check_number, check_table, listed, names_of, wrong
from engine.formulas.kv import KV_DTYPES
from engine.serving.deployment import LARGEST_POOL, ratio_of

POOLS_DIR = Path(__file__).resolve().parents[2] / "profiles" / "pools"
POOLS = "pools"
UNIFIED = "unified"
EXACT = "exact"
DEFAULT_CASE = "balanced"
MOST_ARRANGEMENTS = 6
# Less than this and one of the pools is next to nothing.
SMALLEST_SHARE, LARGEST_SHARE = 0.05, 0.95
FASTEST_LINK = 1e13


@dataclass(frozen=True)
class PoolsScenario(Settings):
    """The same requests under each arrangement: "unified", one engine, or "p:d", p prefill and d decode workers.

    kv_bytes: of all workers of an arrangement together; decode_kv_share of it is the decode pool's, and each worker of a pool
    has as much as the others. kv_format: of the KV between the pools, of `formulas.kv.KV_DTYPES`; "exact" is the cache's own.
    link_bytes_per_s: of an emulated link into each decode worker; 0 is this machine's memory. threads: CPU threads in all; 0
    takes the machine's useful cores.
    """

    kind: ClassVar[str] = POOLS
    chunk_tokens: ClassVar[int] = 256  # nothing is chunked
    temperature: ClassVar[float] = 0.0  # the tokens of all arrangements are compared

    workload: str
    groups: tuple[RequestGroup, ...]
    arrangements: tuple[str, ...] = (UNIFIED, "1:1", "2:1", "1:2")
    kv_bytes: int = 1 << 30
    decode_kv_share: float = 0.5
    kv_format: str = EXACT
    link_bytes_per_s: float = 0.0
    transfer: str = "after"
    max_batch_requests: int = 64
    max_prefill_tokens: int = 8192
    lease_s: float = 60.0
    model: str = "smollm2-135m-instruct"
    text: str = "kjv"
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        names = self.arrangements if isinstance(self.arrangements, tuple) else ()
        known = all(name == UNIFIED or ratio_of(name) for name in names)
        if not names or not known or len(set(names)) < len(names) or len(names) > MOST_ARRANGEMENTS:
            expected = f"1 to {MOST_ARRANGEMENTS} of {UNIFIED} and p:d with p and d from 1 to {LARGEST_POOL}, each once"
            raise wrong("arrangements", self.arrangements, expected)
        check_number("decode_kv_share", self.decode_kv_share, SMALLEST_SHARE, LARGEST_SHARE, whole=False)
        check_number("link_bytes_per_s", self.link_bytes_per_s, 0.0, FASTEST_LINK, whole=False)
        check_choice("kv_format", self.kv_format, (EXACT, *KV_DTYPES))
        _ = self.base  # which checks all the rest as its own

    @cached_property
    def base(self) -> SchedulesScenario:
        """The same requests as a scenario of the Schedules experiment."""
        same = set(names_of(SchedulesScenario)) & set(names_of(self))
        return SchedulesScenario(**{name: getattr(self, name) for name in same}, schedules=(UNIFIED,), decompose=False)

    @property
    def schedules(self) -> tuple[str, ...]:
        """What is measured, as other experiments call it."""
        return self.arrangements

    @property
    def total_tokens(self) -> int:
        """Of one arrangement."""
        return self.base.total_tokens

    def as_dict(self) -> dict:
        """JSON-ready, and the same for equal scenarios (2 == 2.0)."""
        floats = {name: float(getattr(self, name)) + 0.0 for name in ("decode_kv_share", "link_bytes_per_s", "lease_s")}
        return {**super().as_dict(), **floats, "groups": self.base.as_dict()["groups"]}

    @classmethod
    def from_dict(cls, record: Mapping) -> "PoolsScenario":
        """Raises LabError("scenario-field" or "scenario-value") for anything that is not such a scenario."""
        check_table(record)
        check_names(record, names_of(cls))
        try:
            groups = tuple(RequestGroup(**group) for group in record["groups"])
            arrangements = record.get("arrangements", cls.arrangements)
            arrangements = tuple(arrangements) if isinstance(arrangements, list) else arrangements
            return cls(**{**record, "groups": groups, "arrangements": arrangements})
        except (TypeError, KeyError) as error:
            raise wrong("scenario", record, str(error)) from error

    def changed(self, changes: Mapping[str, object]) -> "PoolsScenario":
        """A copy with settings changed by name; `kind.field` reaches into a group of requests ("long.prompt_tokens")."""
        several = {name: listed(value) for name, value in changes.items() if name == "arrangements"}
        return with_changes(self, {**changes, **several})


@cache
def pools() -> dict[str, Workload]:
    """The cases by name, in file order. Raises LabError("workload-broken") for an unusable file."""
    return load_presets(POOLS_DIR, _preset)


def pools_for(device_class: str = "cpu", case: str = DEFAULT_CASE, /, **changes: object) -> PoolsScenario:
    """A case for a device class ("cpu" or "gpu"), with changes by name as in `PoolsScenario.changed`.

    Raises LabError("workload-unknown" or "workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(pools(), case), device_class).changed(changes)


def _preset(preset: Workload, device_class: str) -> PoolsScenario:
    settings = preset.settings_for(device_class)
    groups = settings.pop("requests")
    return PoolsScenario.from_dict({**settings, "workload": preset.name, "groups": groups})
