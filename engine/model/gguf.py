"""Read a GGUF file: its settings, the list of its tensors, and their values.

GGUF is llama.cpp's format: a header, a table of typed settings, a table of
tensors, then their data, usually quantised in small blocks. The tables are
read here, with every length held against the size of the file before it is
believed, because a file from the internet may say anything (the ``gguf``
package's own reader trusts it, and takes 3.5 s for a vocabulary of 49,152).
The ``gguf`` package knows the block formats and turns them into numbers. No torch here.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from engine.errors import LabError

_SCALARS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"}
_STRING, _ARRAY = 8, 9
_MOST_ENTRIES = 100_000  # settings or tensors in one file
_MOST_ITEMS = 8_000_000  # items of one setting; vocabularies have up to a few hundred thousand
_CHUNK_VALUES = 1 << 21  # dequantised at once: 8 MiB of fp32


@dataclass(frozen=True)
class TensorInfo:
    """One tensor of a file: its shape (rows first), its ggml type number, and where its bytes are."""

    shape: tuple[int, ...]
    ggml_type: int
    offset: int
    n_bytes: int


class GgufFile:
    """An opened GGUF file.

    fields: setting -> number, text, bool, or list of these; tensors: name -> TensorInfo.
    Raises LabError("checkpoint-unreadable") for a file that is cut off, of
    another format, or that lies about its lengths.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            with open(self.path, "rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise self._broken("it is empty" if isinstance(error, ValueError) else error.strerror or str(error)) from error
        cursor = _Cursor(self._bytes, self._broken)
        if cursor.take(4) != b"GGUF":
            raise self._broken("it does not begin with the letters GGUF")
        version = cursor.number("<u4")
        if version not in (2, 3):
            raise self._broken(f"it is of GGUF version {version}, and 2 and 3 are known (or it was written big-endian)")
        n_tensors, n_fields = cursor.number("<u8"), cursor.number("<u8")
        if n_tensors > _MOST_ENTRIES or n_fields > _MOST_ENTRIES:
            raise self._broken(f"it claims {n_fields} settings and {n_tensors} tensors")
        self.fields: dict[str, object] = {}
        for _ in range(n_fields):
            name = cursor.text()
            self.fields[name] = cursor.value(cursor.number("<u4"))
        self.tensors = self._read_tensor_table(cursor, n_tensors)

    def _read_tensor_table(self, cursor: _Cursor, count: int) -> dict[str, TensorInfo]:
        sizes = _block_sizes()
        found = []
        for _ in range(count):
            name, n_dims = cursor.text(), cursor.number("<u4")
            if not 1 <= n_dims <= 4:
                raise self._broken(f"the tensor '{name[:80]}' claims {n_dims} dimensions")
            shape = tuple(cursor.number("<u8") for _ in range(n_dims))[::-1]
            found.append((name, shape, cursor.number("<u4"), cursor.number("<u8")))
        alignment = self.fields.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._broken(f"its alignment is {alignment}")
        begin = -(-cursor.at // alignment) * alignment
        tensors: dict[str, TensorInfo] = {}
        for name, shape, ggml_type, offset in found:
            if name in tensors:
                raise self._broken(f"it holds the tensor '{name[:80]}' twice")
            if ggml_type not in sizes:
                raise LabError("checkpoint-tensor-type", path=str(self.path), tensor=name[:80], found=f"ggml type {ggml_type}", why="the type is unknown")
            block_values, block_bytes = sizes[ggml_type]
            if shape[-1] % block_values:
                raise self._broken(f"rows of '{name[:80]}' are no whole number of blocks")
            n_bytes = prod(shape) // block_values * block_bytes
            if begin + offset + n_bytes > len(self._bytes):
                raise self._broken(f"the tensor '{name[:80]}' would reach past the end of the file, so the file is cut off")
            tensors[name] = TensorInfo(shape, ggml_type, begin + offset, n_bytes)
        return tensors

    def chunks(self, name: str) -> Iterator[np.ndarray]:
        """The values of a tensor as fp32, in runs of whole rows [rows, columns] that stay small in memory.

        Raises LabError("checkpoint-tensor-type") for block formats the ``gguf`` package cannot undo.
        """
        import gguf

        info = self.tensors[name]
        kind = gguf.GGMLQuantizationType(info.ggml_type)
        rows, columns = prod(info.shape[:-1]), info.shape[-1]
        stored = np.frombuffer(self._bytes, np.uint8, info.n_bytes, info.offset).reshape(rows, -1)
        step = max(1, _CHUNK_VALUES // columns)
        for begin in range(0, rows, step):
            # Blocks do not cross rows, so several rows may pass as one long one: the package's work per call is large.
            blocks = stored[begin : begin + step].reshape(1, -1)
            try:
                with np.errstate(all="ignore"):
                    yield gguf.dequantize(blocks, kind).reshape(-1, columns)
            except NotImplementedError as error:
                raise LabError(
                    "checkpoint-tensor-type", path=str(self.path), tensor=name, found=kind.name, why="the gguf package cannot undo this format"
                ) from error

    def quantization_label(self) -> str:
        """How the matrices are stored, as people call it: "Q4_1", "F16"."""
        import gguf

        names = [gguf.GGMLQuantizationType(t.ggml_type).name for t in self.tensors.values() if len(t.shape) > 1]
        by_use = max(set(names), key=names.count) if names else "unknown"
        try:
            return gguf.LlamaFileType(self.fields["general.file_type"]).name.removeprefix("MOSTLY_").removeprefix("ALL_")
        except (KeyError, ValueError):
            return by_use

    def _broken(self, why: str) -> LabError:
        return LabError("checkpoint-unreadable", path=str(self.path), why=why)


class _Cursor:
    """Walks through the file's tables and never past its end."""

    def __init__(self, data: mmap.mmap, broken) -> None:
        self._data, self._size, self._broken, self.at = data, len(data), broken, 0

    def take(self, count: int) -> bytes:
        begin, end = self.at, self.at + count
        if end > self._size:
            raise self._broken("it ends in the middle of its tables, so the file is cut off or lies about a length")
        self.at = end
        return self._data[begin:end]

    def number(self, kind: str):
        return np.frombuffer(self.take(np.dtype(kind).itemsize), kind)[0].item()

    def text(self) -> str:
        (length,) = struct.unpack("<Q", self.take(8))
        return self.take(length).decode("utf-8", "replace")

    def value(self, kind: int):
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind != _ARRAY:
            raise self._broken(f"a setting has the unknown type {kind}")
        item, count = self.number("<u4"), self.number("<u8")
        if count > _MOST_ITEMS:
            raise self._broken(f"a setting claims {count} items")
        if item in _SCALARS:
            dtype = np.dtype(_SCALARS[item])
            return np.frombuffer(self.take(dtype.itemsize * count), dtype).tolist()
        if item == _STRING:
            return [self.text() for _ in range(count)]
        raise self._broken(f"a setting is a list of the unsupported type {item}")


def _block_sizes() -> dict[int, tuple[int, int]]:
    import gguf

    return {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
