"""Opening the files of somebody else's model directory with care.

Reads no more than is sensible, follows no path out of the directory, and turns
every failure into a sentence. No torch here.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from engine.errors import LabError

_MOST_JSON_BYTES = 256 << 20  # tokenizers of large vocabularies have tens of megabytes


def inside(directory: Path, name: str) -> Path:
    """``directory / name``, if that is a file of this directory.

    The name must be a bare file name. A link is followed only to a file of the
    directory itself or of the ``blobs`` folder two levels up, which is how the
    Hugging Face cache stores its files.
    Raises LabError("checkpoint-outside"), or LabError("checkpoint-unreadable") if there is no such file.
    """
    outside = LabError("checkpoint-outside", path=str(directory), file=name[:120])
    if name in ("", ".", "..") or "\0" in name or "/" in name or "\\" in name or ":" in name:
        raise outside
    path = directory / name
    try:
        target, home = path.resolve(strict=True), directory.resolve()
    except (OSError, RuntimeError) as error:
        raise LabError("checkpoint-unreadable", path=str(path), why="the file is missing") from error
    if target.parent not in (home, home.parent.parent / "blobs"):
        raise outside
    if not target.is_file():
        raise LabError("checkpoint-unreadable", path=str(path), why="it is not a file")
    return path


def read_text(path: Path, most_bytes: int = _MOST_JSON_BYTES) -> str:
    """A UTF-8 file of limited size. Raises LabError("checkpoint-unreadable")."""
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise LabError("checkpoint-unreadable", path=str(path), why=f"it has {size} bytes, more than the {most_bytes} expected at most")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError("checkpoint-unreadable", path=str(path), why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise LabError("checkpoint-unreadable", path=str(path), why="it is not UTF-8 text") from error


def read_json(path: Path, most_bytes: int = _MOST_JSON_BYTES) -> object:
    """A parsed JSON file. Raises LabError("checkpoint-unreadable")."""
    try:
        return json.loads(read_text(path, most_bytes))
    except (ValueError, RecursionError) as error:
        raise LabError("checkpoint-unreadable", path=str(path), why="it is not valid JSON") from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file as 64 hexadecimal digits. Raises LabError("checkpoint-unreadable")."""
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise LabError("checkpoint-unreadable", path=str(path), why=error.strerror or str(error)) from error
