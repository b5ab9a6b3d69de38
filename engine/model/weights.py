"""Weights of a Hugging Face model directory: safetensors files, one or many.

Only safetensors are read. The older ``pytorch_model.bin`` is a pickle, and
opening a pickle runs whatever code it contains. The headers of the files are
checked before anything is allocated, and an index may name nothing but files of its own directory.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from engine.errors import LabError
from engine.model.files import inside, read_json

_MOST_HEADER_BYTES = 32 << 20
_READABLE = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8}
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


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
        index = _index(Path(directory))
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
        if kind not in _READABLE:
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


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files a model directory consists of, in a fixed order. Raises as the class above."""
    index = _index(directory)
    if index is not None:
        return [inside(directory, name) for name in sorted(set(index.values()))]
    if (directory / _SINGLE).exists():
        return [inside(directory, _SINGLE)]
    pickles = sorted(p.name for p in directory.glob("*") if p.suffix in (".bin", ".pt", ".pth", ".ckpt", ".pkl"))
    if pickles:
        raise LabError("checkpoint-pickle", path=str(directory), file=pickles[0])
    raise LabError("checkpoint-not-a-model", path=str(directory), why=f"it has neither {_SINGLE} nor {_INDEX}")


def read_header(file: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Tensor name -> (shape, stored type), with every claim held against the size of the file.

    Format: 8 bytes length, that many bytes of JSON, then the data. Raises LabError("checkpoint-unreadable").
    """

    def broken(why: str) -> LabError:
        return LabError("checkpoint-unreadable", path=str(file), why=why)

    try:
        size = file.stat().st_size
        with open(file, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > size - 8:
                raise broken(f"its header claims {length} bytes and the file has {size}, so it is cut off or no safetensors file")
            if length > _MOST_HEADER_BYTES:
                raise broken(f"its header claims {length} bytes, more than any real model's")
            header = json.loads(stream.read(length))
    except OSError as error:
        raise broken(error.strerror or str(error)) from error
    except (ValueError, RecursionError) as error:
        raise broken("its header is not valid JSON") from error
    if not isinstance(header, dict):
        raise broken("its header is not a table")
    header.pop("__metadata__", None)
    found = {}
    for name, entry in header.items():
        try:
            kind, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
            whole = all(type(n) is int and n >= 0 for n in (*shape, begin, end))
        except (TypeError, KeyError, ValueError) as error:
            raise broken(f"the entry of '{name[:80]}' is malformed") from error
        if not whole or not begin <= end <= size - 8 - length:
            raise broken(f"the tensor '{name[:80]}' would reach past the end of the file, so the file is cut off")
        if kind in _READABLE and end - begin != prod(shape) * _READABLE[kind]:
            raise broken(f"the tensor '{name[:80]}' has another number of bytes than its shape calls for")
        found[name] = (shape, str(kind))
    return found


def _index(directory: Path) -> dict[str, str] | None:
    if not (directory / _INDEX).exists():
        return None
    path = inside(directory, _INDEX)
    table = read_json(path)
    names = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(names, dict) or not names or not all(isinstance(file, str) for file in names.values()):
        raise LabError("checkpoint-unreadable", path=str(path), why="it has no table 'weight_map' of tensor names and files")
    for file in set(names.values()):
        inside(directory, file)
    return names
