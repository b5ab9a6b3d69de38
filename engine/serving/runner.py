"""Runs a plan on the real model and stamps what happened."""

import zlib
from collections.abc import Callable

import torch

from engine.errors import LabError
from engine.kv.attention import BatchAttention, Span
from engine.kv.blocks import slot_runs
from engine.kv.evicting import EvictingAttention, EvictingSpan
from engine.kv.eviction import Full
from engine.kv.quantised import layer_bytes, pack, unpack
from engine.kv.storage import KVStorage
from engine.measure.clock import now_ns
from engine.model.transformer import Attend, Transformer
from engine.serving.nodes import Fetch, Sent
from engine.serving.policies import StepPlan
from engine.serving.sampling import sample
from engine.serving.scheduler import Scheduler
from engine.serving.staging import Staging

# A layer-by-layer transfer sends this many parts per prompt: enough to overlap, few enough to cost nothing.
LAYER_PARTS = 6

OnLayers = Callable[[int, int], None]


class StepCancelled(Exception):
    """The session was closed in the middle of a step."""


class TorchRunner:
    """One model, one KV storage, one device.

    `published` is what other processes read: the storage itself where it lies in shared memory (CPU), a copy in shared
    host memory for a GPU. `sources` are the published storages of the prefill workers, by name. With a `kv_format` other
    than the storage's own, what is published are bytes in that format, and both are stagings.
    """

    def __init__(
        self,
        model: Transformer,
        storage: KVStorage,
        *,
        published: KVStorage | Staging | None = None,
        sources: dict[str, KVStorage] | dict[str, Staging] | None = None,
        kv_format: str | None = None,
        temperature: float = 0.0,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.model = model
        self.storage = storage
        self.published = published
        self.sources = sources or {}
        self.kv_format = kv_format
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
        attend = self._watched(attend, on_layers)
        logits = self.model(ids, positions, attend, rows)
        sampling = [scheduler[piece.index] for piece in plan.slices if piece.sample]
        # Without a row to sample (a chunk in the middle of a prompt) nothing above waits for the device: do it here.
        tokens, gaps = sample(logits, sampling, self.temperature) if sampling else ([], [])
        self._synchronise()
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
        """Copy published layers of one request into our own blocks; returns the trace record.

        What is not what was sent is not used: the record has an "error" then, beside what was copied of it.
        """
        begin, part = now_ns(), fetch.part
        layers = range(part.first_layer, part.end_layer)
        blocks = list(scheduler.blocks.table(fetch.index))
        expected = len(layers) * self._layer_bytes(fetch.tokens)
        marks, error = [begin] * 3, None
        if part.crc32 is not None and part.size != expected:
            error = LabError("transfer-cut", found=part.size, expected=expected, unit="bytes")
        elif layers:
            take = self._take_exact if self.kv_format is None else self._take_packed
            marks, found = take(fetch, layers, blocks)
            if part.crc32 is not None and found != part.crc32:
                names = f"{layers[0] + 1}-{layers[-1] + 1}"
                error = LabError("transfer-corrupted", layers=names, found=f"{found:08x}", expected=f"{part.crc32:08x}")
        end = now_ns()
        copied, checked, read = marks
        return {
            "type": "fetch",
            "index": fetch.index,
            "attempt": fetch.attempt,
            "source": fetch.source,
            "published_ns": list(part.published_ns),
            "begin_ns": begin,
            "end_ns": end,
            "first_layer": part.first_layer,
            "layers": len(layers),
            "bytes": min(part.size, expected) if part.crc32 is not None else expected,
            "last": part.token is not None,
            "quantise_s": part.quantise_s,
            "move_s": _seconds(copied - begin),
            "checksum_s": round(part.checksum_s + _seconds(checked - copied), 6),
            "dequantise_s": _seconds(read - checked),
            **({"error": error.as_dict()} if error else {}),
        }

    def publish(self, indexes: list[int], scheduler: Scheduler, layers: range) -> tuple[tuple[int, int], dict[int, Sent]]:
        """Layers of some sequences to where the decode side reads them (a copy to the host only for a GPU, or in another
        format), with what is needed to verify them. -> (from when to when, by sequence)."""
        begin, sent = now_ns(), {}
        for index in indexes:
            blocks, tokens = list(scheduler.blocks.table(index)), scheduler[index].prefill_end
            sent[index] = (self._send_exact if self.kv_format is None else self._send_packed)(blocks, tokens, layers)
        return (begin, now_ns()), sent

    def _send_exact(self, blocks: list[int], tokens: int, layers: range) -> Sent:
        if self.published is not self.storage:
            self.published.copy_from(self.storage, layers, blocks, blocks, tokens)
            self._synchronise()
        begin = now_ns()
        crc32 = self.published.checksum(layers, blocks, tokens)
        return Sent(len(layers) * self._layer_bytes(tokens), crc32, 0.0, _seconds(now_ns() - begin))

    def _send_packed(self, blocks: list[int], tokens: int, layers: range) -> Sent:
        begin, each = now_ns(), self._layer_bytes(tokens)
        runs = slot_runs(blocks, self.storage.block_tokens, tokens)
        packed = torch.cat([pack(*self.storage.read(layer, runs), self.kv_format) for layer in layers]).cpu()
        self.published.write(blocks, layers.start * each, packed)
        quantised = now_ns()
        crc32 = zlib.crc32(packed.numpy())
        return Sent(len(packed), crc32, _seconds(quantised - begin), _seconds(now_ns() - quantised))

    def _take_exact(self, fetch: Fetch, layers: range, blocks: list[int]) -> tuple[list[int], int]:
        """-> (when it was copied, verified, read back), the checksum."""
        source, source_blocks = self.sources[fetch.source], list(fetch.source_blocks)
        self.storage.copy_from(source, layers, source_blocks, blocks, fetch.tokens)
        self._synchronise()
        copied = now_ns()
        # A GPU's own copy would have to come back for it: there it is what lay in the host's memory that is verified.
        where, table = (self.storage, blocks) if self.device.type == "cpu" else (source, source_blocks)
        found = where.checksum(layers, table, fetch.tokens) if fetch.part.crc32 is not None else 0
        checked = now_ns()
        return [copied, checked, checked], found

    def _take_packed(self, fetch: Fetch, layers: range, blocks: list[int]) -> tuple[list[int], int]:
        """The same; what does not verify is not read back."""
        config, each = self.model.config, self._layer_bytes(fetch.tokens)
        arrived = self.sources[fetch.source].read(list(fetch.source_blocks), layers.start * each, len(layers) * each)
        copied = now_ns()
        found = zlib.crc32(arrived.numpy())
        checked = now_ns()
        if found == fetch.part.crc32:
            size = self.storage.block_tokens
            slots = torch.tensor([blocks[p // size] * size + p % size for p in range(fetch.tokens)], device=self.device)
            for layer, some in zip(layers, arrived.to(self.device).split(each), strict=True):
                shape = (fetch.tokens, config.n_kv_heads, config.head_dim)
                keys, values = unpack(some, *shape, self.kv_format, self.storage.memory.dtype)
                self.storage.write(layer, slots, keys.transpose(0, 1), values.transpose(0, 1))
            self._synchronise()
        return [copied, checked, now_ns()], found

    def _layer_bytes(self, tokens: int) -> int:
        """On the link."""
        config = self.model.config
        if self.kv_format is None:
            return tokens * self.storage.bytes_per_token // self.storage.num_layers
        return layer_bytes(tokens, config.n_kv_heads, config.head_dim, self.kv_format)

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

    def _watched(self, attend, on_layers: OnLayers | None):
        """The attend function, looking up between layers: was the session closed, are layers ready to publish?"""
        layers = self.storage.num_layers
        size = -(-layers // LAYER_PARTS)

        def watched(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            if self.cancelled():
                raise StepCancelled
            out = attend(layer, q, k, v)
            if on_layers and ((layer + 1) % size == 0 or layer + 1 == layers):
                on_layers(layer // size * size, layer + 1)
            return out

        return watched

    def _synchronise(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def _seconds(ns: int) -> float:
    return round(ns / 1e9, 6)


def _side_by_side(plain: Attend | None, plain_rows: int, evicting: Attend) -> Attend:
    """One attend function for a batch whose first `plain_rows` rows are `plain`'s and whose others are `evicting`'s."""
    if plain is None:
        return evicting

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        ours, others = zip(*(x.split((plain_rows, len(x) - plain_rows)) for x in (q, k, v)), strict=True)
        return torch.cat((plain(layer, *ours), evicting(layer, *others)))

    return attend
