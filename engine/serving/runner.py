"""Runs a plan on the real model and stamps what happened."""

from collections.abc import Callable

import torch

from engine.kv.attention import BatchAttention, Span
from engine.kv.blocks import slot_runs
from engine.kv.evicting import EvictingAttention, EvictingSpan
from engine.kv.eviction import Full
from engine.kv.storage import KVStorage
from engine.measure.clock import now_ns
from engine.model.transformer import Attend, Transformer
from engine.serving.nodes import Fetch
from engine.serving.policies import StepPlan
from engine.serving.sampling import sample
from engine.serving.scheduler import Scheduler

# A layer-by-layer transfer sends this many parts per prompt: enough to overlap, few enough to cost nothing.
LAYER_PARTS = 6

OnLayers = Callable[[int, int, tuple[int, int]], None]


class StepCancelled(Exception):
    """The session was closed in the middle of a step."""


class TorchRunner:
    """One model, one KV storage, one device.

    `published` is what other processes read: the storage itself where it lies in shared memory (CPU), a copy in shared
    host memory for a GPU. `sources` are the published storages of the prefill workers, by name.
    """

    def __init__(
        self,
        model: Transformer,
        storage: KVStorage,
        *,
        published: KVStorage | None = None,
        sources: dict[str, KVStorage] | None = None,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.model = model
        self.storage = storage
        self.published = published
        self.sources = sources or {}
        self.temperature = temperature
        self.cancelled = cancelled
        self.device = storage.memory.device

    def now_ns(self) -> int:
        return now_ns()

    def execute(self, plan: StepPlan, scheduler: Scheduler, on_layers: OnLayers | None = None) -> tuple[dict[int, int], dict]:
        """Compute a step: {sequence index: token} for the slices that sample, and the trace record.

        The record's begin and end enclose everything from building the batch to having the tokens on the host,
        device synchronised. Raises StepCancelled between layers.
        """
        begin = now_ns()
        ids, positions, attend, rows = self._batch(plan, scheduler)
        attend = self._watched(attend, plan, scheduler, on_layers)
        logits = self.model(ids, positions, attend, rows)
        sampling = [scheduler[piece.index] for piece in plan.slices if piece.sample]
        # Without a row to sample (a chunk in the middle of a prompt) nothing above waits for the device: do it here.
        tokens, gaps = sample(logits, sampling, self.temperature) if sampling else ([], [])
        self._synchronise()
        if self.published is not None and self.published is not self.storage and on_layers is None:
            self._publish(plan, scheduler, range(self.storage.num_layers))
        record = {
            "type": "step",
            "begin_ns": begin,
            "end_ns": now_ns(),
            "slices": [[p.index, p.start, p.length] for p in plan.slices],
            "prefill_tokens": plan.prefill_tokens,
            "decode_tokens": plan.decode_tokens,
            "tokens": [[s.index, token, round(gap, 4)] for s, token, gap in zip(sampling, tokens, gaps, strict=True)],
        }
        return {s.index: token for s, token in zip(sampling, tokens, strict=True)}, record

    def fetch(self, fetch: Fetch, scheduler: Scheduler) -> dict:
        """Copy published layers of one request into our own blocks; returns the trace record."""
        begin = now_ns()
        layers = range(fetch.part.first_layer, fetch.part.end_layer)
        blocks = list(scheduler.blocks.table(fetch.index))
        source = self.sources[fetch.source]
        moved = self.storage.copy_from(source, layers, list(fetch.source_blocks), blocks, fetch.tokens)
        self._synchronise()
        return {
            "type": "fetch",
            "index": fetch.index,
            "source": fetch.source,
            "published_ns": list(fetch.part.published_ns),
            "begin_ns": begin,
            "end_ns": now_ns(),
            "layers": len(layers),
            "bytes": moved,
            "last": fetch.part.token is not None,
        }

    def _batch(self, plan: StepPlan, scheduler: Scheduler):
        """Token ids, positions, the attend function and the rows to sample from.

        Rows of sequences that evict stand last, as do all where the rotation follows the length of the text: their keys are
        kept unturned, and go so from one pool to another.
        """
        ids: list[int] = []
        positions: list[int] = []
        slots: list[int] = []
        spans: list[Span] = []
        evicting: list[EvictingSpan] = []
        last_rows: dict[int, int] = {}
        size = self.storage.block_tokens
        anew = self.model.rope.depends_on_length
        for piece in sorted(plan.slices, key=lambda p: scheduler[p.index].request.eviction != Full()):
            sequence, table = scheduler[piece.index], scheduler.blocks.table(piece.index)
            end = piece.start + piece.length
            policy = sequence.request.eviction
            if policy == Full() and not anew:
                spans.append(Span(len(ids), piece.length, piece.start, slot_runs(table, size, end), table))
                positions += range(piece.start, end)
                slots += [table[p // size] * size + p % size for p in range(piece.start, end)]
            else:
                evicting.append(EvictingSpan(len(ids) - len(slots), piece.length, piece.start, table, policy))
                positions += [0] * piece.length  # unturned: the cache turns keys and queries at each use
            ids += sequence.tokens[piece.start : end]
            last_rows[piece.index] = len(ids) - 1
        rows = [last_rows[piece.index] for piece in plan.slices if piece.sample]
        ids_, positions_, slots_, rows_ = (torch.tensor(x, device=self.device) for x in (ids, positions, slots, rows))
        attend = BatchAttention(self.storage, spans, slots_) if spans else None
        if evicting:
            attend = _side_by_side(attend, len(slots), EvictingAttention(self.storage, evicting, self.model.rope))
        return ids_, positions_, attend, rows_.long()

    def _watched(self, attend, plan: StepPlan, scheduler: Scheduler, on_layers: OnLayers | None):
        """The attend function, looking up between layers: was the session closed, are layers ready to publish?"""
        layers = self.storage.num_layers
        size = -(-layers // LAYER_PARTS)

        def watched(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            if self.cancelled():
                raise StepCancelled
            out = attend(layer, q, k, v)
            if on_layers and ((layer + 1) % size == 0 or layer + 1 == layers):
                first = layer // size * size
                begin = now_ns()
                if self.published is not self.storage:
                    self._publish(plan, scheduler, range(first, layer + 1))
                on_layers(first, layer + 1, (begin, now_ns()))
            return out

        return watched

    def _publish(self, plan: StepPlan, scheduler: Scheduler, layers: range) -> None:
        """Bring this step's KV to where the decode side reads it (a copy to the host; only for a GPU)."""
        for piece in plan.slices:
            blocks = list(scheduler.blocks.table(piece.index))
            self.published.copy_from(self.storage, layers, blocks, blocks, piece.start + piece.length)
        self._synchronise()

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _side_by_side(plain: Attend | None, plain_rows: int, evicting: Attend) -> Attend:
    """One attend function for a batch whose first `plain_rows` rows are `plain`'s and whose others are `evicting`'s."""
    if plain is None:
        return evicting

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        ours, others = zip(*(x.split((plain_rows, len(x) - plain_rows)) for x in (q, k, v)), strict=True)
        return torch.cat((plain(layer, *ours), evicting(layer, *others)))

    return attend
