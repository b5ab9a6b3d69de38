"""The two processes of a transfer, the one that prefills and the one that decodes: `python -m engine.experiments.transfer_worker`.

    {"type": "load", ...} as a worker's                       ->  {"type": "loading"}, {"type": "loaded", "pid", ...}
    {"type": "ping"}                                          ->  {"type": "pong", "now_ns"}
    {"type": "open", "file", "size", "caches", ...}           ->  {"type": "opened"}: memory that both see, caches of its own
    {"type": "prefill", "ids", "dtype", "layers_each"}        ->  {"type": "part", ...} for every few layers as they are there,
                                                                  unless dtype is None; {"type": "prefilled", "token", ...}
    {"type": "publish", "tokens", "dtype"}                    ->  {"type": "part", ...} of all layers
    {"type": "over", "bytes_per_s"}                           ->  {"type": "linked"}
    {"type": "part", ..., "cache"}                            ->  {"type": "moved", ...}: verified, and in that cache
    {"type": "extend", "caches", "start", "token", "count"}   ->  {"type": "extended", "tokens": one list for each}
    {"type": "score", "cache", "start", "ids", "reference"}   ->  {"type": "scored", "loss", "kl"}, means in nats; kl is None of
                                                                  the reference, which the process that prefilled leaves
                                                                  in memory that both see

Bytes of layer l lie at l times a layer's bytes. Times are nanoseconds of the clock that all processes share, *_s seconds.
Nothing at module level loads torch.
"""

import time
import zlib

from engine.errors import LabError
from engine.experiments.child import Desk, serve
from engine.kv.blocks import blocks_for, slot_runs
from engine.kv.eviction import Full
from engine.measure.clock import now_ns
from engine.serving.link import Link

# Rows of logits at once, in float64: 64 x 49,152 numbers are 25 MB.
_ROWS_AT_ONCE = 64


class _Side(Desk):
    def ping(self) -> dict:
        return {"type": "pong", "now_ns": now_ns()}

    def open(self, file: str, size: int, logs: str, scored: int, caches: int, tokens: int, block_tokens: int) -> dict:
        """What is mapped and allocated here is touched, too: the first transfer would otherwise pay for the pages of all."""
        import torch

        self.shared = torch.from_file(file, shared=True, size=size, dtype=torch.uint8)
        self.received = self.shared.clone()
        words = self.worker.loaded.config.vocab_size
        self.logs = torch.from_file(logs, shared=True, size=scored * words, dtype=torch.float32).view(scored, words)
        self.caches = _Caches(self.worker, caches, tokens, block_tokens)
        self.wire: Link | None = None
        return {"type": "opened"}

    def prefill(self, ids: list[int], dtype: str | None, layers_each: int) -> dict:
        layers = self.caches.storage.num_layers

        def on_layer(layer: int) -> None:
            if dtype and ((layer + 1) % layers_each == 0 or layer + 1 == layers):
                self.tell(self._send(len(ids), dtype, layer // layers_each * layers_each, layer + 1))

        begin = now_ns()
        hidden = self.caches.step([ids], 0, [0], on_layer, last_only=True)
        token = int(self._model.logits(hidden).argmax())  # which waits for the device
        return {"type": "prefilled", "begin_ns": begin, "end_ns": now_ns(), "token": token}

    def publish(self, tokens: int, dtype: str) -> dict:
        return self._send(tokens, dtype, 0, self.caches.storage.num_layers)

    def over(self, bytes_per_s: float) -> dict:
        """Over which link parts come from now on; 0 is memory alone."""
        self.wire = Link(bytes_per_s) if bytes_per_s else None
        return {"type": "linked"}

    def part(self, cache: int, tokens: int, dtype: str, layers: list[int], published_ns: list[int], size: int, crc32: int) -> dict:
        """Copy, wait for the link, verify, read back. Raises LabError("transfer-corrupted")."""
        begin_ns, each = now_ns(), size // (layers[1] - layers[0])
        place = slice(layers[0] * each, layers[1] * each)
        arrived = self.received[place].copy_(self.shared[place])
        copied_ns = now_ns()
        move_ns = [begin_ns, copied_ns]
        if self.wire:
            move_ns[0], due_ns = self.wire.send(published_ns[1], size)
            time.sleep(max(0, due_ns - copied_ns) / 1e9)
            move_ns[1] = now_ns()
        found = zlib.crc32(arrived.numpy())
        if found != crc32:
            raise LabError("transfer-corrupted", layers=f"{layers[0] + 1}-{layers[1]}", found=f"{found:08x}", expected=f"{crc32:08x}")
        checked_ns = now_ns()
        on_device = arrived.to(self.caches.storage.memory.device)
        taken_ns = now_ns()
        for layer, some in zip(range(*layers), on_device.split(each), strict=True):
            self.caches.read_back(cache, layer, tokens, some, dtype)
        self.caches.synchronise()
        return {
            "type": "moved",
            "layers": layers,
            "moved_ns": move_ns,
            "copy_s": (copied_ns - begin_ns + taken_ns - checked_ns) / 1e9,
            "move_s": (move_ns[1] - move_ns[0] + taken_ns - checked_ns) / 1e9,
            "checksum_s": (checked_ns - move_ns[1]) / 1e9,
            "dequantise_s": (now_ns() - taken_ns) / 1e9,
        }

    def extend(self, caches: int, start: int, token: int, count: int) -> dict:
        """Greedily, from every cache side by side: the tokens behind `token`."""
        made = [[token] for _ in range(caches)]
        for step in range(count):
            hidden = self.caches.step([tokens[-1:] for tokens in made], start + step, list(range(caches)))
            for tokens, chosen in zip(made, self._model.logits(hidden).argmax(-1).tolist(), strict=True):
                tokens.append(chosen)
        return {"type": "extended", "tokens": [tokens[1:] for tokens in made]}

    def score(self, cache: int, start: int, ids: list[int], reference: bool) -> dict:
        """The losses of ids[1:], each foreseen from the cache's first `start` tokens and the ids before it.

        reference: these predictions are the exact ones, with which the others are compared.
        """
        import torch

        hidden = self.caches.step([ids[:-1]], start, [cache])
        targets = torch.tensor(ids[1:], device=hidden.device)
        losses, apart = [], []
        for begin in range(0, len(targets), _ROWS_AT_ONCE):
            rows = slice(begin, begin + _ROWS_AT_ONCE)
            logs = self._model.logits(hidden[rows]).double().log_softmax(-1).float()
            losses.append(-logs.gather(1, targets[rows, None]).double())
            if reference:
                self.logs[rows].copy_(logs)
            else:
                exact = self.logs[rows].to(logs.device).double()
                apart.append((exact.exp() * (exact - logs)).sum(-1))
        kl = None if reference else float(torch.cat(apart).mean())
        return {"type": "scored", "loss": float(torch.cat(losses).mean()), "kl": kl}

    @property
    def _model(self):
        return self.worker.loaded.transformer

    def _send(self, tokens: int, dtype: str, first: int, end: int) -> dict:
        """Some layers of the first cache to where the other side sees them."""
        import torch

        begin_ns, each = now_ns(), self.caches.layer_bytes(tokens, dtype)
        place = self.shared[first * each : end * each]
        on_gpu = self.caches.storage.memory.is_cuda
        packed = torch.empty_like(place, device=self.caches.storage.memory.device) if on_gpu else place
        for layer, some in zip(range(first, end), packed.split(each), strict=True):
            self.caches.quantise(layer, tokens, dtype, some)
        self.caches.synchronise()
        quantised_ns = now_ns()
        if on_gpu:
            place.copy_(packed)
        staged_ns = now_ns()
        checksum = zlib.crc32(place.numpy())
        end_ns = now_ns()
        return {
            "type": "part",
            "tokens": tokens,
            "dtype": dtype,
            "layers": [first, end],
            "published_ns": [begin_ns, end_ns],
            "size": len(place),
            "crc32": checksum,
            "quantise_s": (quantised_ns - begin_ns) / 1e9,
            "stage_s": (staged_ns - quantised_ns) / 1e9,
            "checksum_s": (end_ns - staged_ns) / 1e9,
        }


class _Caches:
    """Sequences of equal length in a block pool, each in one run of blocks, as a pool's worker has them."""

    def __init__(self, worker, caches: int, tokens: int, block_tokens: int) -> None:
        from engine.kv.storage import KVStorage

        self.model, self.size = worker.loaded.transformer, block_tokens
        each = blocks_for(tokens, block_tokens)
        self.tables = [tuple(range(cache * each, (cache + 1) * each)) for cache in range(caches)]
        self.storage = KVStorage(worker.loaded.config, caches * each, block_tokens, device=worker.device, dtype=worker.dtype)
        self.storage.memory.zero_()

    def layer_bytes(self, tokens: int, dtype: str) -> int:
        from engine.kv.quantised import layer_bytes

        return layer_bytes(tokens, self.model.config.n_kv_heads, self.model.config.head_dim, dtype)

    def quantise(self, layer: int, tokens: int, dtype: str, out) -> None:
        """A layer of the first cache as bytes."""
        from engine.kv.quantised import pack

        pack(*self.storage.read(layer, slot_runs(self.tables[0], self.size, tokens)), dtype, out)

    def read_back(self, cache: int, layer: int, tokens: int, buffer, dtype: str) -> None:
        """A layer's bytes as the first tokens of a cache."""
        from engine.kv.quantised import unpack

        config, begin = self.model.config, self.tables[cache][0] * self.size
        found = unpack(buffer, tokens, config.n_kv_heads, config.head_dim, dtype, self.storage.memory.dtype)
        for own, numbers in zip((self.storage.keys, self.storage.values), found, strict=True):
            own[layer][begin : begin + tokens].copy_(numbers.transpose(0, 1))

    def step(self, ids: list[list[int]], start: int, caches: list[int], on_layer=lambda layer: None, *, last_only: bool = False):
        """Read equally many tokens into each of some caches, behind their first `start`: the last hidden states of all of
        them, or of the last one of each."""
        import torch

        device, length = self.model.device, len(ids[0])
        end, rows = start + length, [number * length for number in range(len(ids))]
        attend, positions = self._attend(start, end, caches, rows)
        wanted = torch.tensor([row + length - 1 for row in rows], device=device) if last_only else None

        def watched(layer, q, k, v):
            out = attend(layer, q, k, v)
            on_layer(layer)
            return out

        tokens = torch.tensor([token for some in ids for token in some], device=device)
        return self.model.hidden(tokens, positions.repeat(len(ids)), watched, wanted)

    def _attend(self, start: int, end: int, caches: list[int], rows: list[int]):
        import torch

        from engine.kv.attention import BatchAttention, Span
        from engine.kv.evicting import EvictingAttention, EvictingSpan

        device, tables = self.model.device, [self.tables[cache] for cache in caches]
        if self.model.rope.depends_on_length:  # keys are kept unturned then, and go so over the link
            spans = [EvictingSpan(row, end - start, start, table, Full()) for row, table in zip(rows, tables, strict=True)]
            return EvictingAttention(self.storage, spans, self.model.rope), torch.zeros(end - start, dtype=torch.int64, device=device)
        spans = [Span(row, end - start, start, slot_runs(t, self.size, end), t) for row, t in zip(rows, tables, strict=True)]
        slots = torch.cat([torch.arange(start, end, device=device) + table[0] * self.size for table in tables])
        return BatchAttention(self.storage, spans, slots), torch.arange(start, end, device=device)

    def synchronise(self) -> None:
        import torch

        if self.storage.memory.is_cuda:
            torch.cuda.synchronize(self.storage.memory.device)


if __name__ == "__main__":
    serve(_Side)
