"""Where the engine keeps what it downloads and produces.

One folder per user, ``LAB_HOME`` if that environment variable is set and the
platform's usual place for application data otherwise (on Linux
``~/.local/share/long-context-lab``). Nothing is created on import; a folder
appears when somebody asks for it to write into it.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from engine.errors import LabError

APP_NAME = "long-context-lab"


def data_dir() -> Path:
    """The data folder, created if needed.

    Raises LabError("data-folder") if it cannot be created or is not a folder.
    """
    return _made(_root())


def models_dir() -> Path:
    """Fetched models and the dequantised caches of GGUF files."""
    return _made(_root() / "models")


def texts_dir() -> Path:
    """Fetched texts."""
    return _made(_root() / "texts")


def runs_dir() -> Path:
    """Results, one file per run."""
    return _made(_root() / "runs")


def calibrations_dir() -> Path:
    """What this machine's devices were measured to do, one file per device."""
    return _made(_root() / "calibrations")


def locks_dir() -> Path:
    """Lock files: one per device, one per thing being fetched or cached."""
    return _made(_root() / "locks")


def inbox_dir() -> Path:
    """Where a user without a network puts wheels by hand; looked into before any download."""
    return _made(_root() / "inbox")


def _root() -> Path:
    home = os.environ.get("LAB_HOME", "").strip()
    return Path(home).expanduser().absolute() if home else Path(platformdirs.user_data_dir(APP_NAME, appauthor=False))


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise LabError("data-folder", path=str(folder), why=getattr(error, "strerror", None) or str(error)) from error
    return folder
