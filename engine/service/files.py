"""Result files: one gzipped JSON file per run, complete before it has its name. No torch.

A run's file is `<id>.json.gz`, or `<id>.json` if an earlier version of the lab wrote it. `<id>.pin` beside it says
that it is to be kept: a pin must survive the loss of the index.
"""

import gzip
import json
import os
import re
import zlib
from contextlib import suppress
from pathlib import Path

from engine.errors import LabError

RUN_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")
_ENDINGS = (".json.gz", ".json")
# What a result is about, by experiment: sweeps and rooflines, attention, streaming, needles and lengths, schedules and walls, rings,
# transfers, pools, states.
_BODIES = {
    "points": list,
    "overview": dict,
    "curves": dict,
    "cells": list,
    "schedules": dict,
    "layouts": dict,
    "rows": list,
    "arrangements": dict,
    "decode": list,
}


def path_of(folder: Path, run_id: str) -> Path | None:
    """The file of a stored run; None if there is none, or if this is no run id."""
    if RUN_ID.fullmatch(run_id) is None:
        return None
    return next((path for ending in _ENDINGS if (path := folder / f"{run_id}{ending}").is_file()), None)


def stored(folder: Path) -> dict[str, Path]:
    """All result files by run id, the oldest first."""
    found = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            ending = next((ending for ending in _ENDINGS if entry.name.endswith(ending)), None)
            run_id = entry.name.removesuffix(ending) if ending else ""
            if RUN_ID.fullmatch(run_id) and entry.is_file():
                found[run_id] = (entry.stat().st_mtime_ns, entry.name)
    return {run_id: folder / found[run_id][1] for run_id in sorted(found, key=found.get)}


def write_result(folder: Path, result: dict) -> Path:
    """Raises OSError, leaving nothing behind."""
    path = folder / f"{result['run_id']}.json.gz"
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    write_atomically(path, gzip.compress(_encoded(text), compresslevel=6, mtime=0))
    return path


def read_result(path: Path) -> dict:
    """A result from any file, gzipped or not. Raises LabError("run-unreadable") for what is not one."""
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        result = json.loads(data.decode("utf-8"))
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise LabError("run-unreadable", path=str(path), why=_why(error)) from error
    wanted = {"run_id": str, "kind": str, "manifest": dict}
    if isinstance(result, dict):
        body = next((key for key in _BODIES if key in result), "schedules")
        wanted[body] = _BODIES[body]
    if not isinstance(result, dict) or any(not isinstance(result.get(key), kind) for key, kind in wanted.items()):
        raise LabError("run-unreadable", path=str(path), why=f"it has no run_id, kind, manifest and {' or '.join(_BODIES)}")
    return result


def write_atomically(path: Path, content: str | bytes) -> None:
    """Under a temporary name first, flushed to disk, then renamed. Raises OSError, leaving nothing behind.

    Bytes of a file name that are no text ("\\udcff" in Python) are written as the escape that JSON has for them.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content if isinstance(content, bytes) else _encoded(content))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(path.parent)


def remove_unfinished(folder: Path) -> None:
    """What writers that were killed left under a temporary name."""
    for path in folder.glob("*.tmp"):
        pid = path.name.removesuffix(".tmp").rpartition(".")[2]
        if not pid.isdigit() or not _runs(int(pid)):
            path.unlink(missing_ok=True)


def pin_path(folder: Path, run_id: str) -> Path:
    """The file that says that a run is pinned."""
    return folder / f"{run_id}.pin"


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", errors="backslashreplace")


def _why(error: Exception) -> str:
    if isinstance(error, gzip.BadGzipFile | EOFError | zlib.error):
        return "it is damaged"
    return getattr(error, "strerror", None) or "not JSON"


def _sync_folder(folder: Path) -> None:
    """The new name itself survives a power cut only then; not every file system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True
