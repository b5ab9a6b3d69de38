"""What a training needs to go on as if nothing had happened, in one file that is complete or not there."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from engine.errors import LabError

NAME = "checkpoint.pt"


def save(folder: Path, state: dict) -> None:
    """state: tensors, numbers, text, and lists and dicts of them. Raises LabError("output-unwritable")."""
    path = folder / NAME
    unfinished = path.with_suffix(".part")
    try:
        with open(unfinished, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except (OSError, RuntimeError) as error:
        unfinished.unlink(missing_ok=True)
        raise LabError("output-unwritable", path=str(path), why=getattr(error, "strerror", None) or str(error)[:200]) from error


def load(folder: Path) -> dict:
    """Nothing but data is read of it, whatever it holds. Raises LabError("training-checkpoint")."""
    path = folder / NAME
    try:
        state = torch.load(path, weights_only=True)
    except Exception as error:  # torch says that a file is damaged in many ways
        raise LabError("training-checkpoint", path=str(path), why=str(error).strip().split("\n")[0][:200]) from error
    if not isinstance(state, dict) or "recipe" not in state:
        raise LabError("training-checkpoint", path=str(path), why="it holds something else")
    return state
