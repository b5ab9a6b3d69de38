"""The tensors behind the blocks: keys and values of every layer for every token slot.

Slot `s` of block `b` is row `b * block_tokens + s`. The logical shape is the same everywhere, [slots, kv_heads,
head_dim] per layer; the memory order differs: CPU attention is fastest over one head's rows in sequence, so there a
head is outermost, while CUDA's paged kernel wants whole pages of tokens, so there the slot is.
"""

import zlib
from pathlib import Path

import torch

from engine.errors import LabError
from engine.kv.blocks import slot_runs
from engine.model.config import ModelConfig

# Up to so many pieces are copied one by one: a call for each then costs less than a copy on the way.
_FEW_PIECES = 4


class KVStorage:
    """K and V for `num_blocks * block_tokens` slots.

    With `shared_file` (CPU only) the memory is that file, mapped, so that another process can read the cache in place:
    the host's form of registering memory for a remote read. Pages cost memory only once they are written.
    `heads_first` overrides the memory order (a host copy of a GPU's cache keeps the GPU's).
    Raises LabError("kv-memory") when the memory is not there.
    """

    def __init__(
        self,
        config: ModelConfig,
        num_blocks: int,
        block_tokens: int,
        *,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        shared_file: Path | None = None,
        heads_first: bool | None = None,
    ) -> None:
        self.num_blocks = num_blocks
        self.block_tokens = block_tokens
        self.heads_first = device == "cpu" if heads_first is None else heads_first
        slots = num_blocks * block_tokens
        inner = (config.n_kv_heads, slots) if self.heads_first else (slots, config.n_kv_heads)
        shape = (2, config.n_layers, *inner, config.head_dim)
        self.bytes_per_token = config.kv_bytes_per_token(dtype.itemsize)
        try:
            if shared_file is not None:
                memory = _map(shared_file, shape, dtype)
            else:
                memory = torch.zeros(shape, dtype=dtype, device=device)
        except (RuntimeError, OSError, MemoryError) as error:
            raise LabError("kv-memory", bytes=slots * self.bytes_per_token, why=str(error).splitlines()[0]) from error
        self.memory = memory
        # [slots, kv_heads, head_dim] per layer, whatever the order in memory.
        self.keys = [layer.transpose(0, 1) if self.heads_first else layer for layer in memory[0]]
        self.values = [layer.transpose(0, 1) if self.heads_first else layer for layer in memory[1]]

    @property
    def num_layers(self) -> int:
        return len(self.keys)

    def write(self, layer: int, slots: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> None:
        """Store k and v [n, kv_heads, head_dim] at `slots` [n]."""
        if self.heads_first:
            self.memory[0, layer].index_copy_(1, slots, k.transpose(0, 1))
            self.memory[1, layer].index_copy_(1, slots, v.transpose(0, 1))
        else:
            self.memory[0, layer].index_copy_(0, slots, k)
            self.memory[1, layer].index_copy_(0, slots, v)

    def read(self, layer: int, runs: list[tuple[int, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V [kv_heads, tokens, head_dim] of the slots in `runs`: in place for one run, gathered for several."""
        return _rows(self.keys[layer], runs), _rows(self.values[layer], runs)

    def pages(self, layer: int) -> tuple[torch.Tensor, torch.Tensor]:
        """K and V as [num_blocks, block_tokens, kv_heads, head_dim] pages (slot-first memory only)."""
        shape = (self.num_blocks, self.block_tokens, *self.keys[layer].shape[1:])
        return self.keys[layer].view(shape), self.values[layer].view(shape)

    def copy_from(
        self, source: "KVStorage", layers: range, source_blocks: list[int], blocks: list[int], tokens: int
    ) -> int:
        """Copy `tokens` tokens of some layers between block tables; returns the bytes moved.

        Scattered blocks that lie alike on both sides go together, a layer at a time; what is left of a block, and all others,
        in runs of neighbouring slots.
        """
        size = self.block_tokens
        pieces = list(_paired_runs(slot_runs(source_blocks, source.block_tokens, tokens), slot_runs(blocks, size, tokens)))
        if len(pieces) > _FEW_PIECES and (source.block_tokens, source.heads_first) == (size, self.heads_first):
            whole, left = divmod(tokens, size)
            self._copy_blocks(source, layers, source_blocks[:whole], blocks[:whole])
            pieces = [(source_blocks[whole] * size, blocks[whole] * size, left)] if left else []
        for layer in layers:
            for from_slot, to_slot, length in pieces:
                for mine, theirs in ((self.keys, source.keys), (self.values, source.values)):
                    mine[layer][to_slot : to_slot + length].copy_(theirs[layer][from_slot : from_slot + length])
        return tokens * self.bytes_per_token * len(layers) // self.num_layers

    def _copy_blocks(self, source: "KVStorage", layers: range, source_blocks: list[int], blocks: list[int]) -> None:
        there = torch.tensor(source_blocks, dtype=torch.long, device=source.memory.device)
        here = torch.tensor(blocks, dtype=torch.long, device=self.memory.device)
        for layer in layers:
            for mine, theirs in ((self.keys, source.keys), (self.values, source.values)):
                picked = source._blocks(theirs[layer]).index_select(-2, there).to(self.memory.device)
                self._blocks(mine[layer]).index_copy_(-2, here, picked)

    def checksum(self, layers: range, blocks: list[int], tokens: int) -> int:
        """CRC-32 of the first `tokens` tokens of some layers, the same in either memory order and through any block table:
        K, then V of each layer, head by head. On the CPU.

        Scattered blocks are gathered first, a layer at a time: a call for each of their pieces takes five times as long as
        the sum itself.
        """
        checksum, runs = 0, slot_runs(blocks, self.block_tokens, tokens)
        table = torch.tensor(blocks[: -(-tokens // self.block_tokens)])
        for layer in layers:
            for rows in (self.keys[layer], self.values[layer]):
                together = rows[slice(runs[0][0], runs[0][0] + tokens)] if len(runs) == 1 else self._gathered(rows, table)[:tokens]
                for head in range(rows.shape[1]):
                    checksum = zlib.crc32(together[:, head].contiguous().view(torch.uint8).numpy(), checksum)
        return checksum

    def _gathered(self, rows: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        """Whole blocks of rows [slots, kv_heads, head_dim], one after another."""
        heads, dim = rows.shape[1:]
        picked = self._blocks(rows).index_select(-2, table)
        return picked.view(heads, -1, dim).transpose(0, 1) if self.heads_first else picked.view(-1, heads, dim)

    def _blocks(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [slots, kv_heads, head_dim] with a block's numbers in one row each, in place: [kv_heads, num_blocks, numbers],
        or [num_blocks, numbers] of slot-first memory."""
        if self.heads_first:
            return rows.transpose(0, 1).view(rows.shape[1], self.num_blocks, -1)
        return rows.view(self.num_blocks, -1)


def _map(path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    count = 1
    for size in shape:
        count *= size
    return torch.from_file(str(path), shared=True, size=count, dtype=dtype).view(shape)


def _rows(rows: torch.Tensor, runs: list[tuple[int, int]]) -> torch.Tensor:
    if len(runs) == 1:
        start, length = runs[0]
        picked = rows[start : start + length]
    else:
        picked = torch.cat([rows[start : start + length] for start, length in runs])
    return picked.transpose(0, 1)


def _paired_runs(left: list[tuple[int, int]], right: list[tuple[int, int]]):
    """Cut two lists of runs of equal total length into common pieces: (left start, right start, length)."""
    left, right = list(left), list(right)
    while left and right:
        (a, a_length), (b, b_length) = left.pop(0), right.pop(0)
        length = min(a_length, b_length)
        yield a, b, length
        if a_length > length:
            left.insert(0, (a + length, a_length - length))
        if b_length > length:
            right.insert(0, (b + length, b_length - length))
