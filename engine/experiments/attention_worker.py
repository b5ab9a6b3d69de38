"""The process that reads texts and watches every head: `python -m engine.experiments.attention_worker`.

    {"type": "load", ...} as a worker's  ->  {"type": "loading"}, {"type": "loaded", "pid", ...}
    {"type": "compute", "ids", "queries_from", "first_k", "edges", "exact", "starts", "start_tokens", "start_from"}
                                         ->  {"type": "computing", "done"} after every layer, then {"type": "computed", ...}

All token sequences go through the model packed as one batch; what is to be kept of a layer's probabilities is taken while
they are there, so there is never more than one layer of them in memory.
"""

import base64
from collections.abc import Callable

import numpy as np

from engine.experiments.attention_scenario import STRONGEST
from engine.experiments.child import Desk, serve
from engine.formulas import attention as formulas

# Of the first keys of a start, so many at least are told one by one: a sink can split over them.
FIRST_KEYS = 8


class _Reader(Desk):
    def compute(
        self,
        ids: list[int],
        queries_from: int,
        first_k: int,
        edges: list[int],
        exact: list[int] | None,
        starts: dict[str, list[int]],
        start_tokens: int,
        start_from: int,
    ) -> dict:
        """ids: of the text; edges: of its maps' bins; exact: [layer, head] whose map is kept as it is, STRONGEST for the one
        that gives key 0 the most, None for none.

        starts: token ids by name, start_tokens of each, of which the queries from start_from on count; "as_is" is the
        beginning of the text itself.
        """
        c = self.worker.loaded.config
        text = _Text(queries_from, first_k, edges, exact)
        keys = max(FIRST_KEYS, first_k)
        as_is = _Start(start_tokens, start_from, keys)

        def see_text(layer: int, p: np.ndarray) -> None:
            text.see(layer, p)
            if starts:
                as_is.see(layer, p)
            self.tell({"type": "computing", "done": (layer + 1) / c.n_layers})

        others = {name: _Start(start_tokens, start_from, keys) for name in starts}
        watched = [(found.see, starts[name]) for name, found in others.items()]
        _read(self.worker, [*watched, (see_text, ids)])
        found = {"as_is": as_is, **others} if starts else {}
        return {"type": "computed", **text.result(), "starts": {name: start.result(first_k) for name, start in found.items()}}


class _Text:
    """What is kept of the text's own probabilities."""

    def __init__(self, queries_from: int, first_k: int, edges: list[int], exact: list[int] | None) -> None:
        self.queries_from, self.first_k, self.edges, self.wanted = queries_from, first_k, edges, exact
        self.first: list[list[float]] = []
        self.first_of_k: list[list[float]] = []
        self.by_layer: list[list[float]] = []
        self.by_head: list[bytes] = []
        self.maps: list[bytes] = []
        self.exact: dict | None = None
        self.strongest = -1.0

    def see(self, layer: int, p: np.ndarray) -> None:
        of_keys = formulas.received(p, self.queries_from)
        self.first.append(_rounded(of_keys[:, 0]))
        self.first_of_k.append(_rounded(of_keys[:, : self.first_k].sum(axis=1)))
        self.by_layer.append(_rounded(of_keys.mean(axis=0), 5))
        self.by_head.append(formulas.as_bytes(of_keys))
        self.maps.append(formulas.packed(formulas.reduced(p, self.edges)))
        self._keep_exact(layer, p, of_keys[:, 0])

    def _keep_exact(self, layer: int, p: np.ndarray, first: np.ndarray) -> None:
        if self.wanted is None or self.wanted[0] not in (STRONGEST, layer):
            return
        head = self.wanted[1] if self.wanted[0] == layer else int(first.argmax())
        if first[head] > self.strongest:
            self.strongest = float(first[head])
            data = base64.b64encode(formulas.packed(p[head : head + 1])).decode()
            self.exact = {"layer": layer, "head": head, "size": p.shape[-1], "data": data}

    def result(self) -> dict:
        by_head = base64.b64encode(b"".join(self.by_head)).decode()
        return {
            "first": self.first,
            "first_k": self.first_of_k,
            "profile": {"by_layer": self.by_layer, "by_head": by_head},
            "maps": base64.b64encode(b"".join(self.maps)).decode(),
            "exact": self.exact,
        }


class _Start:
    """What is kept of a text behind another start: attention to its first keys, the mean over heads and queries."""

    def __init__(self, tokens: int, queries_from: int, keys: int) -> None:
        self.queries, self.keys = slice(queries_from, tokens), keys
        self.layers: list[np.ndarray] = []

    def see(self, _layer: int, p: np.ndarray) -> None:
        self.layers.append(p[:, self.queries, : self.keys].mean(axis=(0, 1)))

    def result(self, first_k: int) -> dict:
        layers = np.array(self.layers)
        mean = layers.mean(axis=0)
        return {
            "first": _rounded(mean[:1])[0],
            "first_k": _rounded(mean[None, :first_k].sum(axis=1))[0],
            "by_layer": _rounded(layers[:, 0]),
            "by_layer_k": _rounded(layers[:, :first_k].sum(axis=1)),
            "by_position": _rounded(mean[:FIRST_KEYS]),
        }


def _read(worker, sequences: list[tuple[Callable[[int, np.ndarray], None], list[int]]]) -> None:
    """Compute all sequences as one batch; each one's `see` gets its probabilities, layer by layer (float32 [heads, n, n])."""
    import torch

    from engine.model.probabilities import watching_attend

    def watching(see: Callable[[int, np.ndarray], None]):
        return watching_attend(lambda layer, p: see(layer, p.cpu().numpy()))

    attends = [(watching(see), len(ids)) for see, ids in sequences]

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        read, begin = [], 0
        for one, n in attends:
            part = slice(begin, begin + n)
            read.append(one(layer, q[part], k[part], v[part]))
            begin += n
        return torch.cat(read)

    device = worker.loaded.transformer.device
    token_ids = torch.tensor([token for _, ids in sequences for token in ids], device=device)
    positions = torch.cat([torch.arange(n, device=device) for _, n in attends])
    last = torch.tensor([len(token_ids) - 1], device=device)  # behind the last attention nothing is wanted
    worker.loaded.transformer.hidden(token_ids, positions, attend, rows=last)


def _rounded(shares: np.ndarray, digits: int = 6) -> list[float]:
    return [round(float(share), digits) for share in shares]


if __name__ == "__main__":
    serve(_Reader)
