"""The process that an experiment asks: what becomes of its failures (a stand-in that answers from a script), and a real one."""

import signal

import psutil
import pytest

from engine.errors import LabError
from engine.experiments import child
from engine.experiments.child import Desk, serve, started
from engine.serving.cluster import Cancelled
from engine.serving.deployment import WorkerSpec

SPEC = WorkerSpec("engine-0", "engine", "cpu", 1)


class Process:
    """Stands in for `WorkerProcess`: answers with the records of a script, one list per question."""

    script: list = []

    def __init__(self, spec, events, module):
        self.spec, self.events, self.module, self.killed = spec, events, module, False

    def send(self, record):
        for answer in self.script.pop(0):
            self.events.put((self.spec.name, answer))

    def died(self):
        return LabError("worker-died", worker=self.spec.name, exit="signal 9", last_words="")

    def kill(self):
        self.killed = True


@pytest.fixture
def process(monkeypatch):
    monkeypatch.setattr(child, "WorkerProcess", Process)
    monkeypatch.setattr(child, "_SILENCE_S", 0.5)
    return Process


FAILED = {"type": "failed", "error": LabError("kv-memory", bytes=5, why="no").as_dict()}


@pytest.mark.parametrize("answers, code", [([FAILED], "kv-memory"), ([None], "worker-died"), ([], "worker-silent"), ([{"type": "other"}, None], "worker-died")])
def test_a_process_that_fails_dies_or_says_nothing_is_told(monkeypatch, process, answers, code):
    """Otherwise its job waits for ever; and it must be gone even then."""
    monkeypatch.setattr(process, "script", [answers])
    with pytest.raises(LabError) as caught, started("a.module", SPEC, lambda: False) as asked:
        asked.ask({"type": "count"}, "counted")
    assert caught.value.code == code and asked.process.killed and asked.process.module == "a.module"


def test_what_is_told_on_the_way_is_handed_on_in_order(monkeypatch, process):
    """Progress that came as the answer would end the question too early."""
    monkeypatch.setattr(process, "script", [[{"type": "on", "done": 0.1}, {"type": "on", "done": 0.7}, {"type": "counted", "sum": 3}]])
    seen = []
    with started("m", SPEC, lambda: False) as asked:
        assert asked.ask({"type": "count"}, "counted", seen.append) == {"type": "counted", "sum": 3}
    assert [record["done"] for record in seen] == [0.1, 0.7]


def test_cancelling_ends_a_question_and_the_process(monkeypatch, process):
    """A process left computing would disturb the next measurement."""
    monkeypatch.setattr(process, "script", [[]])
    with pytest.raises(Cancelled), started("m", SPEC, lambda: True) as asked:
        asked.ask({"type": "count"}, "counted")
    assert asked.process.killed


class Counter(Desk):
    """What the real process below runs."""

    def count(self, upto):
        self.tell({"type": "counting", "done": 0.5})
        print("libraries print what they like")
        return {"type": "counted", "sum": sum(range(upto))}

    def refuse(self):
        raise LabError("text-empty", path="x")

    def stumble(self):
        return {"type": "never", "value": 1 / 0}


@pytest.fixture
def counter():
    with started("tests.experiments.test_child", SPEC, lambda: False) as asked:
        yield asked


def test_a_real_process_answers_and_goes_on_after_a_failure(counter):
    """One question that fails must not cost the loaded model."""
    told = []
    assert counter.ask({"type": "count", "upto": 4}, "counted", told.append)["sum"] == 6
    assert told == [{"type": "counting", "done": 0.5}]
    for question, code in (("refuse", "text-empty"), ("stumble", "worker-error"), ("unknown", "worker-error")):
        with pytest.raises(LabError) as caught:
            counter.ask({"type": question}, "never")
        assert caught.value.code == code
    assert counter.ask({"type": "count", "upto": 3}, "counted")["sum"] == 3


def test_a_real_process_ends_with_its_stdin_and_not_by_ctrl_c(counter):
    """Ctrl-C reaches the whole group, and the parent decides; without the parent nobody would ever end it."""
    assert counter.ask({"type": "count", "upto": 2}, "counted")["sum"] == 1
    process = psutil.Process(counter.process.process.pid)
    process.send_signal(signal.SIGINT)
    assert counter.ask({"type": "count", "upto": 3}, "counted")["sum"] == 3
    counter.process.process.stdin.close()
    assert counter.process.process.wait(timeout=60) == 0


if __name__ == "__main__":
    serve(Counter)
