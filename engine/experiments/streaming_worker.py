"""The process that reads a text through caches: `python -m engine.experiments.streaming_worker`.

    {"type": "load", ...} as a worker's               ->  {"type": "loading"}, {"type": "loaded", "pid", ...}
    {"type": "open", "ids"}                           ->  {"type": "opened"}
    {"type": "read", "policy"}                        ->  {"type": "part", "losses"} for every chunk, in order, then
                                                          {"type": "all-read", "seconds"}
    {"type": "heavy", "budget"}                       ->  the same
    {"type": "recompute", "window", "points"}         ->  the same, a part for every point
    {"type": "decode", "policies", "spans", ...}      ->  {"type": "point", "name", "tokens", "ms", "kv_bytes", "rss_bytes",
                                                          "from", "losses"} and so on, then {"type": "decoded"}

Losses are in nats; ms is the median of a group of tokens. Nothing at module level loads torch.
"""

import time
from statistics import median

import numpy as np
import psutil

from engine.experiments.child import Desk, serve
from engine.kv.eviction import Eviction, Full, from_dict

# Chunks small enough that something is told every second.
_CHUNK_TOKENS = 512


class _Reader(Desk):
    def open(self, ids: list[int]) -> dict:
        self.ids = ids
        return {"type": "opened"}

    def read(self, policy: dict) -> dict:
        from engine.kv.masked import memory

        return self._losses(memory(self._model, from_dict(policy)))

    def heavy(self, budget: int) -> dict:
        from engine.kv.selection import heavy_hitters

        return self._losses(heavy_hitters(self._model, budget))

    def recompute(self, window: int, points: list[int]) -> dict:
        from engine.kv.losses import recomputed_losses

        begun = time.perf_counter()
        recomputed_losses(self._model, self.ids, window, points, on_losses=self._tell)
        return {"type": "all-read", "seconds": round(time.perf_counter() - begun, 4)}

    def decode(self, policies: dict[str, dict], spans: list[list[int]], block_tokens: int, group: int) -> dict:
        caches = {name: _Cache(self, from_dict(policy), block_tokens) for name, policy in policies.items()}
        for begin, end in spans:
            for number, at in enumerate(range(begin, end, group)):  # by turns: what slows the machine down meets all of them
                for name, cache in caches.items():
                    if number % 2 and cache.policy == Full() and len(caches) > 1:
                        continue  # for comparison only: half as often will do
                    cache.read_up_to(at)
                    self.tell({"type": "point", "name": name, **cache.decode(min(at + group, end))})
        return {"type": "decoded"}

    @property
    def _model(self):
        return self.worker.loaded.transformer

    def _losses(self, attend) -> dict:
        from engine.kv.losses import token_losses

        begun = time.perf_counter()
        token_losses(self._model, self.ids, attend, chunk_tokens=_CHUNK_TOKENS, on_losses=self._tell)
        return {"type": "all-read", "seconds": round(time.perf_counter() - begun, 4)}

    def _tell(self, _first: int, losses: np.ndarray) -> None:
        self.tell({"type": "part", "losses": _rounded(losses)})


class _Cache:
    """A cache in the block pool that owns what its policy keeps, and no more: what serving would use, for a given text."""

    def __init__(self, reader: _Reader, policy: Eviction, block_tokens: int) -> None:
        from engine.kv.blocks import BlockPool, blocks_for
        from engine.kv.storage import KVStorage

        worker = reader.worker
        self.model, self.ids, self.policy = reader._model, reader.ids, policy
        blocks = blocks_for(policy.slots(len(self.ids)), block_tokens)
        self.storage = KVStorage(worker.loaded.config, blocks, block_tokens, device=worker.device, dtype=worker.dtype)
        self.pool = BlockPool(blocks, block_tokens)
        self.tokens = 0

    def read_up_to(self, tokens: int) -> None:
        """Read on, in chunks, until so many were read."""
        while self.tokens < tokens:
            self._step(min(_CHUNK_TOKENS, tokens - self.tokens))

    def decode(self, upto: int) -> dict:
        """Read on, token by token: what that cost, and the losses."""
        begin, times, losses = self.tokens, [], []
        while self.tokens < upto:
            begun = time.perf_counter()
            logits = self._step(1)
            losses.append(-float(logits.float().log_softmax(-1)[0, self.ids[self.tokens]]))  # which waits for the device
            times.append(time.perf_counter() - begun)
        return {
            "tokens": self.tokens,
            "ms": round(median(times) * 1e3, 3),
            "kv_bytes": self.pool.num_used * self.pool.block_tokens * self.storage.bytes_per_token,
            "rss_bytes": psutil.Process().memory_info().rss,
            "from": begin,
            "losses": _rounded(losses),
        }

    def _step(self, length: int):
        """The logits [1, vocab_size] behind the next tokens."""
        import torch

        begin, end, device = self.tokens, self.tokens + length, self.model.device
        self.pool.allocate("text", self.policy.slots(end), may_grow_to=self.policy.slots(len(self.ids)))
        attend, positions = self._attend(begin, end)
        ids, last = torch.tensor(self.ids[begin:end], device=device), torch.tensor([length - 1], device=device)
        self.tokens = end
        return self.model(ids, positions, attend, last)

    def _attend(self, begin: int, end: int):
        import torch

        from engine.kv.attention import BatchAttention, Span
        from engine.kv.blocks import slot_runs
        from engine.kv.evicting import EvictingAttention, EvictingSpan

        table, size, device = self.pool.table("text"), self.pool.block_tokens, self.model.device
        if self.policy != Full() or self.model.rope.depends_on_length:
            span = EvictingSpan(0, end - begin, begin, table, self.policy)
            unturned = torch.zeros(end - begin, dtype=torch.int64, device=device)
            return EvictingAttention(self.storage, [span], self.model.rope), unturned
        slots = torch.tensor([table[p // size] * size + p % size for p in range(begin, end)], device=device)
        span = Span(0, end - begin, begin, slot_runs(table, size, end), table)
        return BatchAttention(self.storage, [span], slots), torch.arange(begin, end, device=device)


def _rounded(losses) -> list[float]:
    return [round(float(loss), 5) for loss in losses]


if __name__ == "__main__":
    serve(_Reader)
