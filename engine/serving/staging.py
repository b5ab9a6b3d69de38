"""Bytes on their way between pools, in memory that both see: where KV lies that is sent in another format than it is kept in.

A request's bytes lie in the places of the blocks that it owns in the prefill pool, so that whoever owns them owns these, too.
"""

from pathlib import Path

import torch

from engine.kv.blocks import slot_runs


class Staging:
    """`num_blocks` times `block_bytes` bytes of a file, mapped."""

    def __init__(self, path: Path, num_blocks: int, block_bytes: int) -> None:
        self.block_bytes = block_bytes
        self.memory = torch.from_file(str(path), shared=True, size=num_blocks * block_bytes, dtype=torch.uint8)

    def write(self, blocks: list[int], offset: int, data: torch.Tensor) -> None:
        """data: uint8 [bytes] on any device. Raises ValueError if it does not fit into these blocks."""
        for begin, end, done in self._places(blocks, offset, len(data)):
            self.memory[begin:end].copy_(data[done : done + end - begin])

    def read(self, blocks: list[int], offset: int, size: int) -> torch.Tensor:
        """A copy, uint8 [size]. Raises ValueError if there are not so many."""
        out = torch.empty(size, dtype=torch.uint8)
        for begin, end, done in self._places(blocks, offset, size):
            out[done : done + end - begin].copy_(self.memory[begin:end])
        return out

    def _places(self, blocks: list[int], offset: int, size: int):
        """(begin, end, how many of the bytes lie before them) of the runs of neighbouring bytes."""
        seen = 0
        for start, length in slot_runs(blocks, self.block_bytes, offset + size):
            begin, end = start + max(0, offset - seen), start + length
            if begin < end:
                yield begin, end, max(0, seen - offset)
            seen += length
