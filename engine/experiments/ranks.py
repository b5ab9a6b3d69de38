"""Several processes of one experiment that work on one thing together, and that its runner asks together. No torch.

    with started_ranks(MODULE, specs, cancelled) as ranks:
        answers = ranks.ask([{"type": "count", "from": r} for r in range(4)], "counted")     # in order of rank

Each is a process as in `child.py` (a `Desk`). They wait for each other, so if one dies or fails the others would wait for ever:
whatever ends the question ends all of them.
"""

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from engine.errors import LabError
from engine.serving.cluster import PING_LIMIT_S, Cancelled
from engine.serving.deployment import WorkerSpec
from engine.serving.process import WorkerProcess, measured_clock_offset_ns

_SHORTEST_WAIT_S = 0.2
SILENCE_S = 180
# Its neighbours may notice a rank's death before this process does.
_AFTER_BREAK_S = 2.0


@contextmanager
def started_ranks(module: str, specs: Sequence[WorkerSpec], cancelled: Callable[[], bool]) -> Iterator["Ranks"]:
    """The processes; whatever happens, all are gone afterwards."""
    ranks = Ranks(cancelled)
    try:
        for spec in specs:
            ranks.processes.append(WorkerProcess(spec, ranks.events, module))
        yield ranks
    finally:
        for process in ranks.processes:
            process.process.kill()  # all at once: none of them may tell of another's end
        for process in ranks.processes:
            process.kill()


class Ranks:
    """The processes as their runner sees them. Names of the specs differ."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self.cancelled = cancelled
        self.events: queue.SimpleQueue[tuple[str, dict | None]] = queue.SimpleQueue()
        self.processes: list[WorkerProcess] = []

    def ask(
        self,
        records: Sequence[dict],
        wanted: str,
        on_other: Callable[[int, dict], None] = lambda rank, record: None,
        *,
        silence_s: float = SILENCE_S,
    ) -> list[dict]:
        """One record for each rank, from the first on; their answers of the wanted type, in that order.

        on_other(rank, record): what they tell on the way. Raises Cancelled, the error that one of them tells,
        LabError("worker-died") of the rank that died, or LabError("worker-silent") of those that have not answered if none
        of them says anything for so long.
        """
        answers: dict[str, dict] = {}
        asked = [process.spec.name for process in self.processes[: len(records)]]
        for process, record in zip(self.processes, records, strict=False):
            process.send(record)
        heard = time.monotonic()
        while len(answers) < len(asked):
            if self.cancelled():
                raise Cancelled
            if time.monotonic() - heard > silence_s:
                silent = ", ".join(name for name in asked if name not in answers)
                raise LabError("worker-silent", workers=silent, seconds=round(silence_s))
            try:
                name, record = self.events.get(timeout=_SHORTEST_WAIT_S)
            except queue.Empty:
                continue
            heard = time.monotonic()
            rank = next(rank for rank, process in enumerate(self.processes) if process.spec.name == name)
            if record is None:
                raise self.processes[rank].died()
            if record["type"] == "failed":
                raise self._failure(record["error"])
            if record["type"] == wanted:
                answers[name] = record
            else:
                on_other(rank, record)
        return [answers[name] for name in asked]

    def check_clocks(self) -> None:
        """Raises LabError("clocks-disagree") unless all have this process's clock: their stamps are compared."""
        for rank, process in enumerate(self.processes):
            measured_clock_offset_ns(process.spec.name, lambda rank=rank: self._ping(rank))

    def _ping(self, rank: int) -> int:
        self.processes[rank].send({"type": "ping"})
        deadline = time.monotonic() + PING_LIMIT_S
        while True:
            try:
                name, record = self.events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise LabError("worker-silent", workers=self.processes[rank].spec.name, seconds=PING_LIMIT_S) from None
            if record is None:
                raise next(process for process in self.processes if process.spec.name == name).died()
            if record["type"] == "pong":
                return record["now_ns"]

    def _failure(self, error: dict) -> LabError:
        """What one told; but of a broken connection the reason is the rank at its other end, if that died."""
        deadline = time.monotonic() + _AFTER_BREAK_S
        while error["code"] == "ring-broken" and time.monotonic() < deadline:
            for process in self.processes:
                if process.process.poll() is not None:
                    return process.died()
            time.sleep(0.02)
        return LabError(error["code"], **error["facts"])
