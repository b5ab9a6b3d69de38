"""A rank's process, and that of the one that has it all: `python -m engine.experiments.ring_worker`.

    {"type": "load", ...} as a worker's                    ->  {"type": "loading"}, {"type": "loaded", "pid", ...}
    {"type": "ping"}                                       ->  {"type": "pong", "now_ns"}
    {"type": "join", "rank", "ranks", "store", "backend"}  ->  {"type": "joined"}, once all have
    {"type": "prefill", "ids", "parts", "rows", "logits"}  ->  {"type": "layer", "layer"} for every layer, then {"type":
                                                               "prefilled", "begin_ns", "end_ns", "rounds", bytes, differences}
    {"type": "alone", "ids", "rows", "logits"}             ->  the same of one process, which writes the logits to that file

ids: the tokens to be computed here; parts: of all ranks; rows: at which tokens of the text logits are compared. The head's
product is outside the time. Nothing at module level loads torch.
"""

import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from engine.experiments.child import Desk, serve
from engine.measure.clock import now_ns

# What a process touches for the first time is slow: its weights are read once before anything is measured.
_WARM_TOKENS = 64


class _Rank(Desk):
    def ping(self) -> dict:
        return {"type": "pong", "now_ns": now_ns()}

    def join(self, rank: int, ranks: int, store: str, backend: str) -> dict:
        from engine.serving.ring import join

        self.link = join(rank, ranks, Path(store), device=self.worker.device, backend=backend)
        return {"type": "joined"}

    def warm(self) -> dict:
        from engine.model.transformer import causal_attend

        ids = [0] * _WARM_TOKENS
        self._hidden(ids, range(len(ids)), causal_attend, [])
        return {"type": "warmed"}

    def prefill(self, ids: list[int], parts: list, rows: list[int], logits: str | None) -> dict:
        from engine.serving.ring import RingAttention, bytes_of, meet

        parts = [tuple(map(tuple, part)) for part in parts]
        attend = RingAttention(self.link, parts, on_layer=self._tell_layer)
        positions = [at for begin, end in parts[self.link.rank] for at in range(begin, end)]
        place = {at: row for row, at in enumerate(positions)}
        mine = [at for at in rows if at in place]
        _forget_peak()
        meet(self.link)
        begin = now_ns()
        hidden = self._hidden(ids, positions, attend, [place[at] for at in mine])
        end = now_ns()
        return {
            "type": "prefilled",
            "begin_ns": begin,
            "end_ns": end,
            "rss_peak_bytes": _peak(),
            "kv_bytes": bytes_of(*attend.kv),
            "activation_bytes": attend.activation_bytes,
            "buffer_bytes": bytes_of(*attend.buffers),
            "sent_bytes": self.link.passed.sent_bytes,
            "received_bytes": self.link.passed.received_bytes,
            "rounds": [
                [r.layer, r.round, r.pairs, r.compute_ns, r.communication_ns, r.waited_until_ns] for r in attend.rounds
            ],
            "differences": self._differences(hidden, mine, rows, logits),
        }

    def alone(self, ids: list[int], rows: list[int], logits: str) -> dict:
        whole = _Whole(self._tell_layer)
        _forget_peak()
        begin = now_ns()
        hidden = self._hidden(ids, range(len(ids)), whole, rows)
        end = now_ns()
        found = self._logits(hidden)
        np.save(logits, found)
        return {
            "type": "prefilled",
            "begin_ns": begin,
            "end_ns": end,
            "rss_peak_bytes": _peak(),
            "kv_bytes": whole.kv_bytes,
            "activation_bytes": whole.activation_bytes,
            "attention_s": round(whole.attention_ns / 1e9, 6),
            "std": float(found.std(axis=-1).mean()),
        }

    def _tell_layer(self, layer: int) -> None:
        self.tell({"type": "layer", "layer": layer})

    def _hidden(self, ids, positions, attend, rows):
        """The last hidden states of some rows [m, hidden_size], once they are really there."""
        import torch

        model, device = self.worker.loaded.transformer, self.worker.device
        as_tensor = [torch.tensor(list(values), dtype=torch.int64, device=device) for values in (ids, positions, rows)]
        hidden = model.hidden(*as_tensor[:2], attend, as_tensor[2])
        if device.startswith("cuda"):
            torch.cuda.synchronize(device)
        return hidden

    def _logits(self, hidden) -> np.ndarray:
        return self.worker.loaded.transformer.logits(hidden).float().cpu().numpy()

    def _differences(self, hidden, mine: list[int], rows: list[int], logits: str | None) -> list[list]:
        """[token of the text, largest difference of its logits], for those that are computed here."""
        if logits is None or not mine:
            return []
        wanted = np.load(logits, mmap_mode="r")
        found = self._logits(hidden)
        return [[at, float(np.abs(row - wanted[rows.index(at)]).max())] for at, row in zip(mine, found, strict=True)]


class _Whole:
    """`attend` of one process that has the whole text and keeps its K and V."""

    def __init__(self, on_layer) -> None:
        self.on_layer, self.kv = on_layer, []
        self.activation_bytes = self.attention_ns = 0

    @property
    def kv_bytes(self) -> int:
        from engine.serving.ring import bytes_of

        return bytes_of(*self.kv)

    def __call__(self, layer, q, k, v):
        import torch

        from engine.model.transformer import causal_attend
        from engine.serving.ring import bytes_of

        self.kv.append(torch.stack((k, v)))
        begin = now_ns()
        read = causal_attend(layer, q, k, v)
        if q.is_cuda:
            torch.cuda.synchronize(q.device)
        self.attention_ns += now_ns() - begin
        self.activation_bytes = max(self.activation_bytes, bytes_of(q, k, v, read))
        self.on_layer(layer)
        return read


def _forget_peak() -> None:
    """Let the process's highest resident size begin anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int | None:
    """The highest resident size since then, in bytes, weights included; None where the system does not tell."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        return int(found[1]) * 1024 if found else None
    return None


if __name__ == "__main__":
    serve(_Rank)
