"""The process that is asked for needles at every depth: `python -m engine.experiments.retrieval_worker`.

    {"type": "load", ...} as a worker's                ->  {"type": "loading"}, {"type": "loaded", "pid", ...}
    {"type": "open", "texts", "questions", "values"}   ->  {"type": "opened"}
    {"type": "ask", "scaling", "policy"}               ->  {"type": "found", "chosen": [of each text, of each question: the
                                                           number of the likeliest value], "free": [of each: whether no other
                                                           token of the vocabulary is likelier]} and so on, then
                                                           {"type": "asked", "seconds"}

texts: equally long; questions: of each text equally many, equally long. What was read of a text is copied for every question.
Nothing at module level loads torch.
"""

import time
from collections.abc import Mapping

from engine.experiments.child import Desk, serve
from engine.experiments.lengths_worker import model_with, tokens_at_once
from engine.kv.eviction import from_dict


class _Asked(Desk):
    def open(self, texts: list[list[int]], questions: list[list[list[int]]], values: list[int]) -> dict:
        import torch

        tensors = (torch.tensor(numbers, device=self._model.device) for numbers in (texts, questions, values))
        self.texts, self.questions, self.values = tensors
        return {"type": "opened"}

    def ask(self, scaling: Mapping | None, policy: Mapping) -> dict:
        begun = time.perf_counter()
        model = model_with(self._model, scaling)
        size = max(1, tokens_at_once(model.config.hidden_size) // self.texts.shape[1])
        for texts, asked in zip(self.texts.split(size), self.questions.split(size), strict=True):
            self.tell({"type": "found", **self._found(model, from_dict(policy), texts, asked)})
        return {"type": "asked", "seconds": round(time.perf_counter() - begun, 4)}

    def _found(self, model, policy, texts, questions) -> dict:
        """texts [texts, n], questions [texts, questions, tokens]."""
        import torch

        from engine.kv.masked import memory
        from engine.kv.side_by_side import SideBySide, read_together

        read = SideBySide(memory(model, policy), len(texts))
        for part in texts.split(max(1, tokens_at_once(model.config.hidden_size) // len(texts)), dim=1):
            read_together(model, part, read)
        chosen, free = [], []
        for question in questions.unbind(1):
            logits = model.logits(read_together(model, question, read.fork())[:, 0])
            best = logits[:, self.values].argmax(-1)
            chosen.append(best)
            free.append(logits.argmax(-1) == self.values[best])
        return {"chosen": torch.stack(chosen, 1).tolist(), "free": torch.stack(free, 1).tolist()}

    @property
    def _model(self):
        return self.worker.loaded.transformer


if __name__ == "__main__":
    serve(_Asked)
