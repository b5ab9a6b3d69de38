"""Attention over the block pool, for a packed batch of whole prompts, chunks and decodes.

`BatchAttention` is what the transformer calls in every layer: it stores the new keys and values in their slots and
lets each sequence attend to all of its own. A chunk attends to everything before it and causally to itself.
"""

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from engine.kv.decode_batch import BatchedDecodes, DecodeBatch, group_decodes
from engine.kv.storage import KVStorage
from engine.model.attention import causal_attention, decode_attention


@dataclass(frozen=True)
class Span:
    """One sequence's rows in the packed batch: `length` rows from `row`, following `start` cached tokens.

    `runs` are the slots of all `start + length` tokens, `table` the block ids.
    """

    row: int
    length: int
    start: int
    runs: list[tuple[int, int]]
    table: tuple[int, ...]

    @property
    def total(self) -> int:
        return self.start + self.length


class BatchAttention:
    """The `attend` callable for one step. `slots` [n] tells where each packed row's K and V go."""

    def __init__(self, storage: KVStorage, spans: list[Span], slots: torch.Tensor) -> None:
        self.storage = storage
        self.slots = slots
        self.paged = _PagedKernel(storage, spans, slots.device) if _paged_kernel_serves(storage) else None
        batches, covered = _batches(storage, spans) if storage.heads_first else ([], set())
        self.together = [BatchedDecodes(batch, storage) for batch in batches]
        self.alone = [span for span in spans if span.row not in covered]

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q [n, heads, head_dim], k and v [n, kv_heads, head_dim] -> [n, heads, head_dim]."""
        self.storage.write(layer, self.slots, k, v)
        if self.paged:
            return self.paged(layer, q)
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        for decodes in self.together:
            rows = slice(decodes.batch.row, decodes.batch.row + len(decodes.batch.lengths))
            out[rows] = decodes(layer, q[rows])
        for span in self.alone:
            keys, values = self.storage.read(layer, span.runs)
            rows = slice(span.row, span.row + span.length)
            if span.length == 1:
                out[span.row] = decode_attention(q[span.row], keys, values)
            else:
                out[rows] = causal_attention(q[rows], keys, values, span.start)
        return out


def _batches(storage: KVStorage, spans: list[Span]) -> tuple[list[DecodeBatch], set[int]]:
    decodes = [(span.row, span.runs) for span in spans if span.length == 1]
    return group_decodes(decodes, storage.num_blocks * storage.block_tokens)


def _paged_kernel_serves(storage: KVStorage) -> bool:
    """CUDA's variable-length kernel reads pages through the block table: 16-bit, pages of multiples of 256 tokens."""
    memory = storage.memory
    return memory.is_cuda and memory.dtype in (torch.bfloat16, torch.float16) and storage.block_tokens % 256 == 0


class _PagedKernel:
    """All sequences of a step in one call, K and V read through the block tables (no gather, no padding)."""

    def __init__(self, storage: KVStorage, spans: list[Span], device: torch.device) -> None:
        self.storage = storage
        lengths = torch.tensor([span.length for span in spans])
        self.cu_rows = F.pad(lengths.cumsum(0), (1, 0)).to(device, torch.int32)
        self.used = torch.tensor([span.total for span in spans], dtype=torch.int32, device=device)
        pages = max(len(span.table) for span in spans)
        padded = [list(span.table) + [0] * (pages - len(span.table)) for span in spans]
        self.tables = torch.tensor(padded, dtype=torch.int32, device=device)
        self.max_rows = int(lengths.max())
        self.max_keys = max(span.total for span in spans)

    def __call__(self, layer: int, q: torch.Tensor) -> torch.Tensor:
        from torch.nn.attention.varlen import varlen_attn

        keys, values = self.storage.pages(layer)
        return varlen_attn(
            q.contiguous(),
            keys,
            values,
            self.cu_rows,
            None,
            self.max_rows,
            self.max_keys,
            window_size=(-1, 0),
            enable_gqa=q.shape[1] != keys.shape[2],
            seqused_k=self.used,
            block_table=self.tables,
        )
