"""The results that ship with the lab: measured earlier, on machines their manifests name. No streamlit here."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "profiles" / "recordings"
FORMAT = 1


def names(kind: str = "*", model: str | None = None) -> list[str]:
    """The shipped recordings of an experiment, for example ``schedules``, by file name without ending; all by default.

    model: only those made with the model of this name, where an experiment has been recorded with several.
    """
    found = sorted(path.stem for path in FOLDER.glob(f"{kind}-*.json"))
    return found if model is None else [name for name in found if load(name)["manifest"]["scenario"]["model"] == model]


def version(name: str) -> int:
    """Changes when the recording does; 0 if there is none."""
    return (FOLDER / f"{name}.json").stat().st_mtime_ns if name in names() else 0


def first_for(kind: str, device_class: str, model: str | None = None) -> str | None:
    """The recording that fits a reader's machine best: one from the same class of device, else any. model: as in `names`."""
    found = names(kind, model)
    fitting = [name for name in found if load(name)["manifest"]["device"]["class"] == device_class]
    return next(iter(fitting or found), None)


def load(name: str) -> dict:
    """A recording. Read once and shared by all readers: do not change it."""
    path = FOLDER / f"{name}.json"
    return _load(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _load(path: Path, _version: int) -> dict:
    result = json.loads(path.read_text(encoding="utf-8"))
    if result.get("format") != FORMAT:
        raise ValueError(f"{path.name}: format {result.get('format')}, expected {FORMAT}")
    result["provenance"] = "recorded"
    return result
