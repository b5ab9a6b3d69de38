"""The process that is asked for needles: `python -m engine.experiments.needle_worker`.

    {"type": "load", ...} as a worker's                ->  {"type": "loading"}, {"type": "loaded", "pid", ...}
    {"type": "open", "budget", "sinks", "choices"}     ->  {"type": "opened"}
    {"type": "ask", "ids", "questions", "policies"}    ->  {"type": "scores", "policy", "scores": [of each question: the
                                                           log-probability of every choice]} and so on, then {"type": "asked"}
    {"type": "near", "ids", "texts", "policy"}         ->  {"type": "scores", ...} for each text, then {"type": "asked"}

A question is [tokens of the question, tokens of the answer up to its word]; all questions of a text are equally long. A text
is read once for all of its questions: each goes on from a copy of what was kept of it. Nothing at module level loads torch.
"""

from engine.experiments.child import Desk, serve
from engine.experiments.needle_scenario import DENSE, H2O, SINKS, SNAPKV, WINDOW
from engine.kv.eviction import Full, Sinks, Window

Question = tuple[list[int], list[int]]


class _Asked(Desk):
    def open(self, budget: int, sinks: int, choices: list[int]) -> dict:
        self.budget, self.sinks, self.choices = budget, sinks, choices
        return {"type": "opened"}

    def ask(self, ids: list[int], questions: list[Question], policies: list[str]) -> dict:
        whole = compressing = None
        if SNAPKV in policies:
            compressing = self._read(self._compressing(len(ids), len(questions[0][0])), ids)
        if DENSE in policies:
            whole = seen_whole(self._model, compressing) if compressing else self._read(self._memory(DENSE), ids)
        for policy in policies:
            memory = {DENSE: whole, SNAPKV: compressing}.get(policy) or self._read(self._memory(policy), ids)
            self._tell(policy, memory, questions)
        return {"type": "asked"}

    def near(self, ids: list[int], texts: list[dict], policy: str) -> dict:
        """ids: the beginning that all texts share; each has its own "ids" behind it, and "questions"."""
        shared = self._read(self._memory(policy), ids)
        for text in texts:
            self._tell(policy, self._read(shared.fork(), text["ids"]), text["questions"])
        return {"type": "asked"}

    @property
    def _model(self):
        return self.worker.loaded.transformer

    def _memory(self, policy: str):
        from engine.kv.masked import memory
        from engine.kv.selection import heavy_hitters

        if policy == H2O:
            return heavy_hitters(self._model, self.budget)
        kept = {DENSE: Full(), SINKS: Sinks(self.sinks, self.budget), WINDOW: Window(self.budget)}[policy]
        return memory(self._model, kept)

    def _compressing(self, length: int, asked: int):
        """The question is what looks back and votes; what is kept then has to do for the answer."""
        from engine.kv.selection import compressed

        return compressed(self._model, length + asked, self.budget, observed=min(asked, self.budget // 2))

    def _read(self, memory, ids: list[int]):
        from engine.kv.losses import read

        read(self._model, ids, memory)
        return memory

    def _tell(self, policy: str, memory, questions: list[Question]) -> None:
        self.tell({"type": "scores", "policy": policy, "scores": [self._scores(memory.fork(), *asked) for asked in questions]})

    def _scores(self, memory, question: list[int], lead: list[int]) -> list[float]:
        from engine.kv.losses import read

        # Whatever the policy, one pass: a prompt that is compressed at its end is so between question and answer.
        logits = read(self._model, [*question, *lead], memory)
        return [round(float(value), 5) for value in logits.log_softmax(-1)[self.choices]]


def seen_whole(model, compressing):
    """A memory of the same text that will never be cut: as long as it is not, a `Compressed` layer keeps what a `DenseLayer`
    does, so that the text need not be read twice."""
    from engine.kv.masked import DenseLayer, Memory

    layers = [DenseLayer(model.rope) for _ in compressing.layers]
    for layer, other in zip(layers, compressing.layers, strict=True):
        layer.keys, layer.values = other.keys, other.values
    return Memory(layers)


if __name__ == "__main__":
    serve(_Asked)
