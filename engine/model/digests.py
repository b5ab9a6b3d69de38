"""SHA-256 of large files, remembered while the file stays as it is.

Hashing a checkpoint of many gigabytes takes longer than loading it, so the
digest is kept with the file's size and time of change, and used again while
both are the same. No torch here.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from engine.errors import LabError
from engine.model.files import sha256_of
from engine.paths import models_dir


def file_digest(path: Path) -> str:
    """SHA-256 of a file, 64 hexadecimal digits. Raises LabError("checkpoint-unreadable")."""
    try:
        target = path.resolve()
        status = target.stat()
    except (OSError, RuntimeError) as error:
        raise LabError("checkpoint-unreadable", path=str(path), why=getattr(error, "strerror", None) or str(error)) from error
    mark = {"path": str(target), "size_bytes": status.st_size, "changed_ns": status.st_mtime_ns}
    note = models_dir() / "digests" / f"{hashlib.sha256(str(target).encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"
    try:
        known = json.loads(note.read_text("utf-8"))
        if all(known[key] == value for key, value in mark.items()):
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not hashed yet, or the note is damaged: hash it
    digest = sha256_of(target)
    _remember(note, {**mark, "sha256": digest})
    return digest


def directory_digest(files: list[Path]) -> str:
    """One SHA-256 over the names and digests of several files, whatever directory they are in."""
    lines = sorted(f"{file_digest(path)}  {path.name}\n" for path in files)
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def _remember(note: Path, entry: dict[str, object]) -> None:
    unfinished = note.with_suffix(f".{os.getpid()}.part")
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(json.dumps(entry), "utf-8")
        os.replace(unfinished, note)
    except (OSError, UnicodeError):
        unfinished.unlink(missing_ok=True)  # only a convenience: next time it is hashed again
