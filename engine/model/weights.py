"""Weights of a Hugging Face model directory: safetensors files, one or many.

Only safetensors are read. The older ``pytorch_model.bin`` is a pickle, and
opening a pickle runs whatever code it contains.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import LabError
from engine.model.headers import READABLE, read_header, shard_index, weight_files


class SafetensorsCheckpoint:
    """A ``layout.Checkpoint`` over a directory with ``model.safetensors`` or a sharded index.

    Raises LabError("checkpoint-pickle") if there are only pickles,
    LabError("checkpoint-not-a-model") if there are no weights at all,
    LabError("checkpoint-outside") for an index that leads out of the directory,
    LabError("checkpoint-unreadable") for files that are cut off or lie.
    """

    def __init__(self, directory: str | Path) -> None:
        self.path = str(directory)
        self._tensors: dict[str, tuple[Path, tuple[int, ...], str]] = {}
        self.files = weight_files(Path(directory))
        index = shard_index(Path(directory))
        for file in self.files:
            for name, (shape, kind) in read_header(file).items():
                if index is None or index.get(name) == file.name:
                    self._tensors[name] = (file, shape, kind)
        self._open: dict[Path, object] = {}

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The stored shape, or None. Reads no data."""
        entry = self._tensors.get(self._resolve(name))
        return entry[1] if entry else None

    def tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The values; without a copy where the stored type is already the wanted one.

        Raises LabError("checkpoint-tensor-type") for integer or 8-bit storage.
        """
        file, _, kind = self._tensors[self._resolve(name)]
        if kind not in READABLE:
            raise LabError(
                "checkpoint-tensor-type", path=str(file), tensor=name, found=kind, why="only 16-, 32- and 64-bit floating-point weights are read"
            )
        try:
            if file not in self._open:
                self._open[file] = safe_open(file, framework="pt", device="cpu")
            return self._open[file].get_tensor(self._resolve(name)).to(dtype)
        except (SafetensorError, OSError, RuntimeError) as error:
            raise LabError("checkpoint-unreadable", path=str(file), why=str(error)[:200]) from error

    def _resolve(self, name: str) -> str:
        # A bare LlamaModel is saved without the "model." prefix.
        bare = name.removeprefix("model.")
        return bare if name not in self._tensors and bare in self._tensors else name
