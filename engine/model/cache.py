"""The dequantised copy of a quantised model, made once and then only mapped.

Undoing the blocks of a GGUF file costs most of a load. The result is kept as a
safetensors file of the *fused* matrices, in the number format asked for, and
every later load maps that file into memory: that takes no time, and several
processes on one machine share the same pages.

A cache appears complete or not at all: it is written beside its place and
renamed. Two processes that need it at once take turns on a lock file.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from math import prod
from pathlib import Path

import torch
from filelock import FileLock
from safetensors import SafetensorError, safe_open

from engine.errors import LabError
from engine.model.config import ModelConfig
from engine.model.layout import fused_shapes
from engine.paths import locks_dir, models_dir

# Raise when the names, the shapes or the meaning of fused tensors change: older caches are then made anew.
LAYOUT_VERSION = "1"

_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
_ALIGNMENT = 64  # of the data in the file, and so in memory: the width of a cache line


def cached_weights(
    name: str, sha256: str, config: ModelConfig, dtype: torch.dtype, make: Callable[[], Iterator[tuple[str, torch.Tensor]]]
) -> dict[str, torch.Tensor]:
    """The fused tensors of a model, mapped from its cache; ``make()`` yields them if there is none yet.

    name: the model's folder under the data folder; sha256: of the source file.
    Raises LabError("disk-full") if the cache does not fit, LabError("data-folder")
    if it cannot be written, and whatever ``make`` raises.
    """
    label = str(dtype).removeprefix("torch.")
    folder = models_dir() / name
    path = folder / f"{sha256}.{label}.safetensors"
    found = _open(path, sha256, config, dtype)
    if found is not None:
        return found
    with FileLock(locks_dir() / f"cache-{sha256[:16]}-{label}.lock"):
        found = _open(path, sha256, config, dtype)  # another process may have made it while we waited
        if found is None:
            _write(path, sha256, config, dtype, make())
            found = _open(path, sha256, config, dtype)
    if found is None:
        raise LabError("data-folder", path=str(folder), why="what was just written there cannot be read back")
    return found


def _open(path: Path, sha256: str, config: ModelConfig, dtype: torch.dtype) -> dict[str, torch.Tensor] | None:
    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            about = file.metadata() or {}
            if about.get("layout") != LAYOUT_VERSION or about.get("source_sha256") != sha256:
                return None
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (SafetensorError, OSError):
        return None  # cut off by a full disk or a crash of the machine: make it anew
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    fits = shapes == fused_shapes(config) and all(tensor.dtype == dtype for tensor in tensors.values())
    return tensors if fits else None


def _write(path: Path, sha256: str, config: ModelConfig, dtype: torch.dtype, tensors: Iterator[tuple[str, torch.Tensor]]) -> None:
    shapes = fused_shapes(config)
    header: dict[str, object] = {"__metadata__": {"layout": LAYOUT_VERSION, "source_sha256": sha256}}
    at = 0
    for name, shape in shapes.items():
        end = at + prod(shape) * dtype.itemsize
        header[name] = {"dtype": _NAMES[dtype], "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)

    unfinished = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(path)
        if shutil.disk_usage(path.parent).free < at + len(text):
            raise _disk_full(path, at + len(text))
        with open(unfinished, "wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            for name, tensor in tensors:
                if name not in shapes or tuple(tensor.shape) != shapes[name]:
                    raise AssertionError(f"{name} does not belong to the layout")
                file.write(memoryview(tensor.contiguous().view(torch.uint8).flatten().numpy()))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _disk_full(path, at + len(text)) from error
        raise LabError("data-folder", path=str(path.parent), why=error.strerror or str(error)) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _disk_full(path: Path, needed_bytes: int) -> LabError:
    free = shutil.disk_usage(path.parent).free
    return LabError("disk-full", name=path.parent.name, path=str(path.parent), needed_bytes=needed_bytes, free_bytes=free)


def _remove_leftovers(path: Path) -> None:
    # A killed process leaves its unfinished file; nobody else can be writing this one, since we hold its lock.
    for part in path.parent.glob(f"{path.stem}.*.part"):
        part.unlink(missing_ok=True)
