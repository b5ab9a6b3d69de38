"""Results on disk: one JSON file per run, complete before anybody hears of it. No torch."""

import json
import os
import re
from pathlib import Path

from engine.errors import LabError
from engine.paths import runs_dir

_RUN_ID = re.compile(r"[A-Za-z0-9_-]{16,64}")


def save(result: dict) -> Path:
    """Write a result. Raises LabError("store-unwritable"); a half-written file never takes the run's name."""
    try:
        path = runs_dir() / f"{result['run_id']}.json"
        write_atomically(path, json.dumps(result, ensure_ascii=False, separators=(",", ":")))
    except OSError as error:
        raise LabError("store-unwritable", path=str(path.parent), why=error.strerror or str(error)) from error
    return path


def exists(run_id: str) -> bool:
    """Whether a result is stored under this id."""
    return _RUN_ID.fullmatch(run_id) is not None and (runs_dir() / f"{run_id}.json").is_file()


def load(run_id: str) -> dict | None:
    """The stored result of a run; None if there is none. Raises LabError("run-unreadable") if the file is damaged."""
    return read_result(runs_dir() / f"{run_id}.json") if exists(run_id) else None


def read_result(path: Path) -> dict:
    """A result from any file. Raises LabError("run-unreadable") for what is not one."""
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise LabError("run-unreadable", path=str(path), why=getattr(error, "strerror", None) or "not JSON") from error
    wanted = {"run_id": str, "kind": str, "manifest": dict, "schedules": dict}
    if not isinstance(result, dict) or any(not isinstance(result.get(key), kind) for key, kind in wanted.items()):
        raise LabError("run-unreadable", path=str(path), why="it has no run_id, kind, manifest and schedules")
    return result


def write_atomically(path: Path, text: str) -> None:
    """Under a temporary name first, flushed to disk, then renamed. Raises OSError, leaving nothing behind.

    Bytes of a file name that are no text ("\\udcff" in Python) are written as the escape that JSON has for them.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
