"""The process that reads texts at every length: `python -m engine.experiments.lengths_worker`.

    {"type": "load", ...} as a worker's               ->  {"type": "loading"}, {"type": "loaded", "pid", ...}
    {"type": "open", "texts", "bos", "scored"}        ->  {"type": "opened"}
    {"type": "read", "length", "scaling", "policy"}   ->  {"type": "part", "tokens"} for every piece, then
                                                          {"type": "all-read", "losses": [mean of each text, in nats],
                                                           "seconds"}

texts: equally long; of a length of n the last n + 1 tokens count, `bos` in the place of the first of them. Texts of a small
model are read side by side, those of a large one alone and in pieces. Nothing at module level loads torch.
"""

import time
from collections.abc import Mapping

from engine.experiments.child import Desk, serve
from engine.experiments.stretched import from_record
from engine.kv.eviction import from_dict

# Numbers in one activation of one forward: 8,192 tokens of 128 channels, 1,820 of 576. Beyond it nothing gets faster.
_NUMBERS_AT_ONCE = 1 << 20


class _Reader(Desk):
    def open(self, texts: list[list[int]], bos: list[int], scored: int) -> dict:
        import torch

        self.texts, self.bos, self.scored = torch.tensor(texts, device=self._model.device), bos, scored
        return {"type": "opened"}

    def read(self, length: int, scaling: Mapping | None, policy: Mapping) -> dict:
        from engine.kv.masked import memory
        from engine.kv.side_by_side import SideBySide, last_losses

        begun, losses = time.perf_counter(), []
        model = model_with(self._model, scaling)
        texts = self.texts[:, -(length + 1) :].clone()
        texts[:, : len(self.bos)] = texts.new_tensor(self.bos)
        at_once = tokens_at_once(model.config.hidden_size)
        for some in texts.split(max(1, at_once // length)):
            attend = SideBySide(memory(model, from_dict(policy)), len(some))
            found = last_losses(model, some, attend, self.scored, chunk_tokens=max(1, at_once // len(some)), on_chunk=self._tell)
            losses += found.double().mean(1).tolist()
        return {"type": "all-read", "losses": losses, "seconds": round(time.perf_counter() - begun, 4)}

    @property
    def _model(self):
        return self.worker.loaded.transformer

    def _tell(self, tokens: int) -> None:
        self.tell({"type": "part", "tokens": tokens})


def tokens_at_once(hidden_size: int) -> int:
    """How many tokens are read in one forward, of all texts together."""
    return max(1, _NUMBERS_AT_ONCE // hidden_size)


def model_with(model, scaling: Mapping | None):
    """The model as it is, or with its rotation stretched."""
    return model if scaling is None else model.scaled(from_record(scaling))


if __name__ == "__main__":
    serve(_Reader)
