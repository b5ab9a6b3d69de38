"""What a directory of safetensors files claims to hold, checked before it is believed.

A header may come from anybody. Every length and offset is held against the
size of the file before anything is allocated, and an index may name nothing
but files of its own directory. No torch here.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

from engine.errors import LabError
from engine.model.files import inside, read_json

# Stored types whose values can be used as they are -> bytes per value.
READABLE = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8}

_MOST_HEADER_BYTES = 32 << 20
_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files a model directory consists of, in a fixed order.

    Raises LabError: "checkpoint-pickle" if there are only pickles, "checkpoint-not-a-model"
    if there are no weights at all, "checkpoint-outside" for an index that leads out.
    """
    index = shard_index(directory)
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
        if kind in READABLE and end - begin != prod(shape) * READABLE[kind]:
            raise broken(f"the tensor '{name[:80]}' has another number of bytes than its shape calls for")
        found[name] = (shape, str(kind))
    return found


def shard_index(directory: Path) -> dict[str, str] | None:
    """Tensor name -> shard, from ``model.safetensors.index.json``; None if there is no such file. Raises as above."""
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
