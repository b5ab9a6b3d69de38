"""The process that an experiment asks, played by the test: it answers at once, and keeps what it was asked."""

import os
from contextlib import contextmanager

from engine.experiments import child
from engine.serving.cluster import Cancelled


class StandIn:
    """Comes in place of `child.started`; what it answers to all but "load", `answer(record, on_other)` says.

    asked: the records, "load" too. ended: whether the process would be gone.
    """

    def __init__(self, monkeypatch):
        self.asked, self.ended = [], False
        monkeypatch.setattr(child, "started", self.started)

    @contextmanager
    def started(self, module, spec, cancelled):
        self.cancelled = cancelled
        try:
            yield self
        finally:
            self.ended = True

    def ask(self, record, wanted, on_other=lambda record: None):
        if self.cancelled():
            raise Cancelled
        self.asked.append(record)
        if record["type"] == "load":
            on_other({"type": "loading"})
            return {"pid": os.getpid()}
        return self.answer(record, on_other)
