"""A process of an experiment's own: it has torch and the model, and a runner without torch asks it for one thing after another.

The runner:

    with alone(MODULE, setup, scenario, progress=progress, cancelled=cancelled, wait=wait) as bench, bench.watched():
        answer = bench.ask({"type": "count", "upto": 3}, "counted", on_other=lambda record: ...)
    return {**bench.head(run_id), "sum": answer["sum"], "disturbance": bench.disturbance}

The process, `python -m MODULE`: a `Desk` with one method for each type of record; the record's other fields are its
arguments, what it returns is the answer, and on the way it may tell more by `self.tell`:

    class _Counter(Desk):
        def count(self, upto: int) -> dict:
            self.tell({"type": "counting", "done": 0.5})
            return {"type": "counted", "sum": sum(range(upto))}

    if __name__ == "__main__":
        serve(_Counter)

As every worker it ends when its stdin ends, ignores Ctrl-C, yields to others and computes with the threads and on the cores
that its spec names. What fails in it is told as {"type": "failed"} and raised here. Nothing at module level loads torch.
"""

import queue
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from engine.errors import LabError
from engine.experiments.manifest import FORMAT, Begun, begin, origin
from engine.experiments.measuring import Progress
from engine.experiments.plan import Ground
from engine.experiments.scenarios import new_run_id
from engine.experiments.settings import Settings
from engine.lock import device_lock
from engine.measure import disturbance
from engine.serving.cluster import Cancelled
from engine.serving.deployment import WorkerSpec
from engine.serving.process import WorkerProcess
from engine.serving.worker import Pipe, Worker, answer_all

_SHORTEST_WAIT_S = 0.2
_SILENCE_S = 300


@contextmanager
def alone(
    module: str,
    setup: Ground,
    scenario: Settings,
    *,
    progress: Progress,
    cancelled: Callable[[], bool],
    wait: bool,
    once: bool = False,
) -> Iterator["Bench"]:
    """The process, with the model loaded and the device to itself. once: as `load_record`.

    progress(phase, 0.0): waiting, starting-workers, loading. Raises as `device_lock` and `Child.ask` do.
    """
    worker = setup.deployment.entry("unified")[0]  # the whole engine; the first of several GPUs
    with device_lock(
        setup.lock_name,
        scenario.kind,
        wait=wait,
        cancelled=cancelled,
        on_wait=lambda holder: progress("waiting", 0.0, holder=holder),
    ):
        begun = begin()
        progress("starting-workers", 0.0)
        with started(module, worker, cancelled) as child:
            loaded = child.ask(load_record(setup, worker, once=once), "loaded", lambda _: progress("loading", 0.0))
            yield Bench(child, worker, loaded["pid"], setup, scenario, begun)


@dataclass
class Bench:
    """A process that is ready to be asked, and what its result says of how it was measured."""

    child: "Child"
    worker: WorkerSpec
    pid: int
    setup: Ground
    scenario: Settings
    begun: Begun
    judged: list[dict] = field(default_factory=list)

    def ask(self, record: dict, wanted: str, on_other: Callable[[dict], None] = lambda record: None) -> dict:
        """As `Child.ask`."""
        return self.child.ask(record, wanted, on_other)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """One measurement: how much it was disturbed is kept."""
        before = disturbance.take_sample([self.pid], self.worker.cores)
        yield
        self.judged.append(disturbance.judge(before, disturbance.take_sample([self.pid], self.worker.cores)))

    def head(self, run_id: str | None, **more: object) -> dict:
        """How a result begins; to be called when it has ended. more: of the manifest."""
        return {
            "format": FORMAT,
            "kind": self.scenario.kind,
            "run_id": run_id or new_run_id(),
            "provenance": "measured",
            "manifest": {**origin(self.setup, self.scenario, self.begun, seed=self.scenario.seed), **more},
        }

    @property
    def disturbance(self) -> dict:
        """Over all measurements."""
        return disturbance.overall({self.scenario.kind: self.judged})


@contextmanager
def started(module: str, spec: WorkerSpec, cancelled: Callable[[], bool]) -> Iterator["Child"]:
    """The process; whatever happens, it is gone afterwards."""
    child = Child(module, spec, cancelled)
    try:
        yield child
    finally:
        child.process.kill()


def load_record(setup: Ground, spec: WorkerSpec, *, once: bool = False) -> dict:
    """What a `Desk` loads. It tells "loading" once torch is there; its answer "loaded" has pid, load_s (seconds), threads,
    torch and device_name.

    once: for a few long steps and no decoding; nothing is laid out for that, and nothing warmed up.
    """
    return {**setup.deployment.load(spec), "once": once}


class Child:
    """The process as its runner sees it."""

    def __init__(self, module: str, spec: WorkerSpec, cancelled: Callable[[], bool]) -> None:
        self.cancelled = cancelled
        self.events: queue.SimpleQueue[tuple[str, dict | None]] = queue.SimpleQueue()
        self.process = WorkerProcess(spec, self.events, module)

    def ask(self, record: dict, wanted: str, on_other: Callable[[dict], None] = lambda record: None) -> dict:
        """Its answer of the wanted type; others on the way go to `on_other`.

        Raises Cancelled, the error that it tells, LabError("worker-died"), or LabError("worker-silent") if it says nothing
        for minutes: a long computation tells how far it is.
        """
        self.process.send(record)
        silent_s = 0.0
        while silent_s < _SILENCE_S:
            if self.cancelled():
                raise Cancelled
            try:
                _, answer = self.events.get(timeout=_SHORTEST_WAIT_S)
            except queue.Empty:
                silent_s += _SHORTEST_WAIT_S
                continue
            silent_s = 0.0
            if answer is None:
                raise self.process.died()
            if answer["type"] == "failed":
                raise LabError(answer["error"]["code"], **answer["error"]["facts"])
            if answer["type"] == wanted:
                return answer
            on_other(answer)
        raise LabError("worker-silent", workers=self.process.spec.name, seconds=_SILENCE_S)


class Desk:
    """The process as it sees itself: the loaded model (`self.worker`), and a method for each type of record."""

    def __init__(self, tell: Callable[[dict], None]) -> None:
        self.tell = tell

    def load(self, **settings) -> dict:
        self.worker = Worker(settings, lambda: self.tell({"type": "loading"}))
        return {"type": "loaded", **self.worker.describe()}


def serve(desk_class: type[Desk]) -> None:
    """The main function of such a process: answers until its stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Pipe()
    desk = desk_class(pipe.write)
    answer_all(pipe, lambda record: pipe.write(getattr(desk, record.pop("type"))(**record)))
