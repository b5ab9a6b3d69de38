"""Scenarios: everything a run depends on, as frozen data. No torch, so that pages can make and check them.

A workload file (`profiles/workloads/*.toml`) is a scenario for each device class; `scenario_for` reads it and applies
the user's changes. Every check a user can fail is here and raises a LabError, before anything is started.
"""

import json
import secrets
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import ClassVar

from engine.errors import LabError
from engine.experiments.settings import (
    check_choice,
    check_names,
    check_number,
    check_table,
    check_word,
    key_of,
    names_of,
    short,
    wrong,
)

WORKLOADS_DIR = Path(__file__).resolve().parents[2] / "profiles" / "workloads"
SCHEDULES = ("unified", "chunked", "disaggregated")
TRANSFERS = ("after", "layerwise")
DEFAULT_WORKLOAD = "one-long-among-chats"
MAX_TOTAL_TOKENS = 4_000_000
MAX_ARRIVAL_S = 600.0  # a run is given up some minutes later

_RANGES = {
    "chunk_tokens": (1, 1_000_000),
    "kv_bytes": (1 << 20, 1 << 40),
    "max_batch_requests": (1, 1024),
    "max_prefill_tokens": (1, 1_000_000),
    "threads": (0, 256),
    "repeats": (1, 20),
    "seed": (0, 2**31 - 1),
    "temperature": (0.0, 5.0),
    "lease_s": (0.05, 3600.0),
}
_GROUP_RANGES = {
    "count": (0, 256),
    "prompt_tokens": (1, 2_000_000),
    "output_tokens": (1, 100_000),
    "arrival_s": (0.0, MAX_ARRIVAL_S),
    "spacing_s": (0.0, MAX_ARRIVAL_S),
}
DEVICES, DTYPES = ("auto", "cpu", "cuda"), ("auto", "float32", "bfloat16")
_CHOICES = {"transfer": TRANSFERS, "device": DEVICES, "dtype": DTYPES}


@dataclass(frozen=True)
class RequestGroup:
    """Requests of one kind: `count` of them, the first at `arrival_s`, then one every `spacing_s` seconds.

    kind: a word of the workload's own, once in a scenario; "long" prompts have metrics of their own.
    """

    kind: str
    count: int
    prompt_tokens: int
    output_tokens: int
    arrival_s: float = 0.0
    spacing_s: float = 0.0


@dataclass(frozen=True)
class SchedulesScenario:
    """The Schedules experiment: the same requests under each schedule, with the same resources.

    kv_bytes: KV budget of all workers of a schedule together (half per pool when disaggregated).
    threads: CPU threads in all; 0 takes the machine's useful cores.
    decompose: also measure the long prompt alone, whole and chunked, to tell chunking's kernel cost from the
    interleaved decodes.
    """

    kind: ClassVar[str] = "schedules"

    workload: str
    groups: tuple[RequestGroup, ...]
    model: str = "smollm2-135m-instruct"
    text: str = "kjv"
    schedules: tuple[str, ...] = SCHEDULES
    chunk_tokens: int = 256
    kv_bytes: int = 1 << 30
    max_batch_requests: int = 64
    max_prefill_tokens: int = 8192
    transfer: str = "after"
    lease_s: float = 60.0
    device: str = "auto"
    dtype: str = "auto"
    threads: int = 0
    repeats: int = 1
    seed: int = 0
    temperature: float = 0.0
    decompose: bool = True

    def __post_init__(self) -> None:
        for name, (low, high) in _RANGES.items():
            check_number(name, getattr(self, name), low, high, whole=not isinstance(low, float))
        for name, known in _CHOICES.items():
            check_choice(name, getattr(self, name), known)
        for name in ("workload", "model", "text"):
            check_word(name, getattr(self, name))
        if not isinstance(self.decompose, bool):
            raise wrong("decompose", self.decompose, "true | false")
        names = self.schedules if isinstance(self.schedules, tuple) else ()
        if not names or any(name not in SCHEDULES for name in names) or len(set(names)) < len(names):
            raise wrong("schedules", self.schedules, " | ".join(SCHEDULES))
        for group in self.groups:
            self._check_group(group)
        if self.num_requests < 1:
            raise LabError("scenario-no-requests")
        if self.total_tokens > MAX_TOTAL_TOKENS:
            raise LabError("scenario-too-much", tokens=self.total_tokens, limit=MAX_TOTAL_TOKENS)

    def _check_group(self, group: RequestGroup) -> None:
        kinds = [other.kind for other in self.groups]
        if not _is_word(group.kind) or kinds.count(group.kind) > 1:
            raise wrong("kind", group.kind, "a short word without dots, once in a scenario")
        for name, (low, high) in _GROUP_RANGES.items():
            value = getattr(group, name)
            check_number(f"{group.kind}.{name}", value, low, high, whole=not isinstance(low, float))
        if group.arrival_s + group.spacing_s * max(0, group.count - 1) > MAX_ARRIVAL_S:
            expected = f"such that the last of them comes within {MAX_ARRIVAL_S:.0f} s"
            raise wrong(f"{group.kind}.spacing_s", group.spacing_s, expected)

    @property
    def num_requests(self) -> int:
        return sum(group.count for group in self.groups)

    @property
    def total_tokens(self) -> int:
        return sum(group.count * (group.prompt_tokens + group.output_tokens) for group in self.groups)

    def group(self, kind: str) -> RequestGroup | None:
        return next((group for group in self.groups if group.kind == kind), None)

    def as_dict(self) -> dict:
        """JSON-ready, and the same for equal scenarios (2 == 2.0, 0.0 == -0.0)."""
        record = _with_floats(asdict(self), _RANGES)
        record["groups"] = [_with_floats(group, _GROUP_RANGES) for group in record["groups"]]
        record["schedules"] = list(record["schedules"])
        return record

    @classmethod
    def from_dict(cls, record: Mapping) -> "SchedulesScenario":
        """Raises LabError("scenario-field" or "scenario-value") for anything that is not a scenario."""
        check_table(record)
        check_names(record, names_of(cls))
        try:
            groups = tuple(RequestGroup(**group) for group in record["groups"])
            schedules = tuple(record.get("schedules", SCHEDULES))
            return cls(**{**record, "groups": groups, "schedules": schedules})
        except (TypeError, KeyError) as error:
            raise wrong("scenario", record, str(error)) from error

    def key(self) -> str:
        """The same for equal scenarios: runs with one key may be compared and found again."""
        return key_of(self.as_dict())

    def changed(self, changes: Mapping[str, object]) -> "SchedulesScenario":
        """A copy with settings changed by name; `kind.field` reaches into a group of requests ("long.prompt_tokens")."""
        return with_changes(self, changes)


def with_changes(scenario, changes: Mapping[str, object]):
    """A copy of a scenario that has a workload and groups of requests, with settings changed by name; `kind.field` reaches
    into a group ("long.prompt_tokens"). Raises LabError("scenario-field"), and what the scenario raises."""
    plain = set(names_of(scenario)) - {"groups", "workload"}
    groups = {group.kind: group for group in scenario.groups}
    updates: dict[str, object] = {}
    for name, value in changes.items():
        kind, _, part = name.partition(".")
        if name in plain:
            updates[name] = tuple(value) if isinstance(value, list) else value
        elif kind in groups and part in _GROUP_RANGES:
            groups[kind] = replace(groups[kind], **{part: value})
        else:
            known = sorted(plain) + [f"{k}.{f}" for k in groups for f in _GROUP_RANGES]
            raise LabError("scenario-field", field=short(name), known=", ".join(known))
    return replace(scenario, groups=tuple(groups.values()), **updates)


@dataclass(frozen=True)
class Workload:
    """A preset: its name, titles and summaries by language, and the raw settings per device class ("cpu", "gpu")."""

    name: str
    title: dict[str, str]
    summary: dict[str, str]
    settings: dict[str, dict]

    def settings_for(self, device_class: str) -> dict:
        """A copy of the settings for a device class, or of the first if there are none for it."""
        return dict(self.settings.get(device_class) or list(self.settings.values())[0])


@cache
def workloads() -> dict[str, Workload]:
    """All presets by name, in file order. Raises LabError("workload-broken") for a file that cannot be used."""
    return load_presets(WORKLOADS_DIR, _preset)


def load_presets(folder: Path, make: Callable[[Workload, str], object]) -> dict[str, Workload]:
    """The presets of a folder by name, in file order.

    make(preset, device class) builds the scenario. Raises LabError("workload-broken") for a file it cannot be built of.
    """
    found = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
            settings = {key: data[key] for key in ("cpu", "gpu") if key in data}
            texts = [{language: data[key][language] for language in ("ko", "en")} for key in ("title", "summary")]
            found[data["name"]] = Workload(data["name"], *texts, settings)
            for device_class in ("cpu", "gpu"):
                make(found[data["name"]], device_class)
        except (OSError, ValueError, LookupError, TypeError, AttributeError, LabError) as error:
            why = str(error) if isinstance(error, LabError) else repr(error)
            raise LabError("workload-broken", path=path.name, why=why) from error
    return found


def scenario_for(workload: str, device_class: str = "cpu", /, **changes: object) -> SchedulesScenario:
    """The preset for a device class ("cpu" or "gpu"), with changes by name as in `SchedulesScenario.changed`.

    Raises LabError("workload-unknown" or "workload-broken"), and as `changed` does.
    """
    return _preset(chosen_preset(workloads(), workload), device_class).changed(changes)


def chosen_preset(presets: Mapping[str, Workload], name: str) -> Workload:
    """Raises LabError("workload-unknown")."""
    if name not in presets:
        raise LabError("workload-unknown", name=short(name), known=", ".join(presets))
    return presets[name]


def _preset(preset: Workload, device_class: str) -> SchedulesScenario:
    return preset_base(preset, preset.settings_for(device_class))


def preset_base(preset: Workload, settings: dict) -> SchedulesScenario:
    """The scenario that a preset's settings describe; `requests` are its groups."""
    groups = tuple(RequestGroup(**group) for group in settings.pop("requests"))
    return SchedulesScenario(workload=preset.name, groups=groups, **settings)


def parse_changes(pairs: list[str]) -> dict[str, object]:
    """`key=value` strings from a command line; values are JSON where they can be, else words.

    Raises LabError("scenario-value") for a string without "=".
    """
    changes: dict[str, object] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise wrong("--set", pair, "key=value")
        try:
            changes[name.strip()] = json.loads(text)
        except (ValueError, RecursionError):  # not JSON, a number of thousands of digits, brackets without end
            changes[name.strip()] = text.split(",") if name.strip() == "schedules" else text
    return changes


def new_run_id() -> str:
    """A name for a run that cannot be guessed; never with a dash in front, which a command line takes for an option."""
    while (name := secrets.token_urlsafe(16)).startswith("-"):
        pass
    return name


def _with_floats(record: dict, ranges: Mapping[str, tuple]) -> dict:
    floats = {name for name, (low, _) in ranges.items() if isinstance(low, float)}
    return {name: float(value) + 0.0 if name in floats else value for name, value in record.items()}


def _is_word(kind: object) -> bool:
    return isinstance(kind, str) and 0 < len(kind) <= 32 and kind.isprintable() and not set(kind) & set(" .=")
