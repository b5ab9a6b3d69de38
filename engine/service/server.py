"""The engine service: `python -m engine.service`, one child of the app. Jobs come in on stdin, states go out on stdout.

    in   {"do": "submit", "id", "kind", "scenario", "browser", "again", "wait"} | {"do": "fetch", "id", "name", "browser"}
         {"do": "cancel", "id"}
    out  {"id", "state", "place", "phase", "done", "facts", "error", "result_id", "answered", "estimate_s", "ahead_s"}
         state: queued running done failed cancelled; estimate_s, ahead_s: of this job, of all that wait before it
         {"id", "live": {"plan"} | {"records": [[schedule, repeat, record], ...]}}   of the job that runs

Jobs run one at a time; browsers take turns. Worker processes are kept for the next job of the same kind and let go
after a while without work. When stdin ends (the app is gone), everything ends. No torch here.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.errors import LabError
from engine.experiments.attention import run_attention
from engine.experiments.attention_scenario import ATTENTION
from engine.experiments.lengths import run_lengths
from engine.experiments.lengths_scenario import LENGTHS
from engine.experiments.needle import run_needle
from engine.experiments.needle_scenario import NEEDLE
from engine.experiments.pools import run_pools
from engine.experiments.pools_scenario import POOLS
from engine.experiments.recurrent import run_recurrent
from engine.experiments.recurrent_scenario import RECURRENT
from engine.experiments.retrieval import run_retrieval
from engine.experiments.retrieval_scenario import RETRIEVAL
from engine.experiments.ring import run_ring
from engine.experiments.ring_scenario import RING
from engine.experiments.roofline import run_roofline
from engine.experiments.roofline_scenario import ROOFLINE
from engine.experiments.schedules import run_schedules
from engine.experiments.streaming import run_streaming
from engine.experiments.streaming_scenario import STREAMING
from engine.experiments.sweep_scenarios import BACKLOG, CHUNK_SWEEP
from engine.experiments.sweeps import run_sweep
from engine.experiments.transfer import run_transfer
from engine.experiments.transfer_scenario import TRANSFER
from engine.experiments.wall import run_wall
from engine.experiments.wall_scenario import WALL
from engine.model.fetch import fetch
from engine.serving.cluster import Cancelled, Cluster
from engine.serving.deployment import Deployment
from engine.service import estimate, kinds
from engine.service.estimate import Past
from engine.service.fair_queue import FairQueue
from engine.service.outbox import Outbox
from engine.service.store import Store

RUNNERS = {
    "schedules": run_schedules,
    CHUNK_SWEEP: run_sweep,
    BACKLOG: run_sweep,
    ROOFLINE: run_roofline,
    WALL: run_wall,
    ATTENTION: run_attention,
    STREAMING: run_streaming,
    NEEDLE: run_needle,
    RING: run_ring,
    LENGTHS: run_lengths,
    RETRIEVAL: run_retrieval,
    TRANSFER: run_transfer,
    RECURRENT: run_recurrent,
    POOLS: run_pools,
}
# These have processes of their own for a while, which want the memory.
WITHOUT_WORKERS = (ROOFLINE, STREAMING, NEEDLE, LENGTHS, RETRIEVAL, RING, TRANSFER, RECURRENT)

_STORE_WAIT_S = 5.0
_IDLE_S = 900
_OWED_S = 10
_REPORT_EVERY_S = 0.1
_CLOSE_S = 30
_DEFAULT_LIMIT_S = 1200
# A result's size before it is known: its frame, and what a token adds to it in the worst case.
_RESULT_BYTES = 4_000_000
_TOKEN_BYTES = 100


@dataclass
class _Job:
    id: str
    request: dict
    estimate_s: float | None = None
    cancelled: threading.Event = field(default_factory=threading.Event)
    # Since when its time limit counts: not while it waits for another process that has the device.
    begun: float | None = None

    @property
    def browser(self) -> str:
        return self.request.get("browser", "")

    @property
    def too_long(self) -> bool:
        return self.begun is not None and time.monotonic() - self.begun > limit_s()

    def is_to_end(self) -> bool:
        return self.cancelled.is_set() or self.too_long


class Server:
    """The queue, the job that runs, and the workers that stand ready.

    write(record): a line to the app; on_record(job id, schedule, repeat, record): a trace record for it.
    """

    def __init__(
        self,
        write: Callable[[dict], None],
        store: Store,
        on_record: Callable[[str, str, int, dict], None] = lambda *_: None,
    ) -> None:
        self._write = write
        self._store = store
        self._on_record = on_record
        self._queue = FairQueue()
        self._jobs: dict[str, _Job] = {}  # those that wait
        self._running: _Job | None = None
        self._changed = threading.Condition()
        self._closing = False
        self._cluster: Cluster | None = None
        self._reported: tuple[float, object] = (0.0, None)
        self._past: dict[tuple[str, str], list[Past]] = {}

    def take(self, request: dict) -> None:
        """A line from the app (called from the reading thread)."""
        with self._changed:
            if request["do"] == "cancel":
                self._cancel(request["id"])
            else:
                self._enqueue(_Job(request["id"], request))
            self._report_queue()

    def close(self) -> None:
        """The app is gone: drop the queue, cancel what runs."""
        with self._changed:
            self._closing = True
            if self._running:
                self._running.cancelled.set()
            self._changed.notify()

    def work(self) -> None:
        """Run jobs until closed."""
        try:
            self._settle()
            while (job := self._next()) is not None:
                self._run(job)
        finally:
            self._let_go()

    def _settle(self) -> bool:
        """Bring the index up to date with the files; False if it is to be tried again."""
        try:
            if not self._store.settle():
                return False
            if count := self._store.adopt():
                print(f"engine: {count} stored results were not in the index and are now", file=sys.stderr)
        except (LabError, OSError) as error:  # they are found by their links even so
            print(f"engine: {error}", file=sys.stderr)
            return False
        return True

    def _enqueue(self, job: _Job) -> None:
        job.estimate_s = self._estimate_s(job)
        try:
            self._queue.push(job.id, job.browser)
        except LabError as error:
            self._end(job, "failed", error=error.as_dict())
            return
        self._jobs[job.id] = job
        self._changed.notify()

    def _next(self) -> _Job | None:
        with self._changed:
            self._running = None
            idle_since = time.monotonic()
            while not self._jobs and not self._closing:
                owing = not self._settle()
                self._changed.wait(timeout=_OWED_S if owing else _IDLE_S)
                if not self._jobs and time.monotonic() - idle_since >= _IDLE_S:
                    self._let_go()
            if self._closing:
                return None
            self._running = self._jobs.pop(self._queue.pop())
            self._report_queue()
            return self._running

    def _run(self, job: _Job) -> None:
        self._report(job, "running", phase="starting")
        try:
            if job.request["do"] == "fetch":
                self._fetch(job)
                self._end(job, "done")
            else:
                answer = self._answer(job)
                self._end(job, "done", result_id=answer or self._measure(job), answered=answer not in (None, job.id))
        except Cancelled:
            self._stopped(job)
        except LabError as error:
            if job.is_to_end():
                self._stopped(job)
            else:
                self._end(job, "failed", error=error.as_dict())
        except Exception as error:  # a bug fails this job and no other
            traceback.print_exc()
            why = f"{type(error).__name__}: {error}"
            self._end(job, "failed", error=LabError("worker-error", why=why).as_dict())

    def _answer(self, job: _Job) -> str | None:
        """The run that has the job's result already: its own, if a service was killed just after it was stored."""
        if self._store.exists(job.id):
            return job.id
        scenario = self._scenario(job)
        if job.request.get("again"):
            return None
        try:
            return self._store.find(scenario.key(), kinds.device_key_here(scenario))
        except LabError as error:
            if error.code not in ("store-busy", "store-unwritable"):
                raise
            return None  # then it is measured

    def _measure(self, job: _Job) -> str:
        scenario = self._scenario(job)
        work = estimate.work_of(scenario)
        self._store.check_room(_RESULT_BYTES + _TOKEN_BYTES * work // scenario.repeats, scenario.workload)

        def progress(phase: str, done: float, **facts: object) -> None:
            if phase != "waiting" and job.begun is None:
                job.begun = time.monotonic()
            self._report(job, "running", phase=phase, done=done, facts=facts)

        if scenario.kind in WITHOUT_WORKERS:
            self._let_go()
        result = RUNNERS[job.request["kind"]](
            scenario,
            progress=progress,
            on_plan=lambda plan: self._write({"id": job.id, "live": {"plan": plan}}),
            on_record=lambda schedule, repeat, record: self._on_record(job.id, schedule, repeat, record),
            cancelled=job.is_to_end,
            wait=job.request.get("wait", True),
            cluster_for=self._cluster_for,
            run_id=job.id,
        )
        self._store.save(result, job.browser)
        self._remember(scenario, result)
        return job.id

    def _fetch(self, job: _Job) -> None:
        def progress(done: int, total: int | None) -> None:
            if job.cancelled.is_set():
                raise Cancelled
            self._report(job, "running", phase="fetching", done=done / total if total else 0.0)

        fetch(job.request["name"], progress)

    @staticmethod
    def _scenario(job: _Job):
        return kinds.scenario_of(job.request["kind"], job.request["scenario"])

    def _cluster_for(self, deployment: Deployment) -> Cluster:
        if self._cluster and (self._cluster.deployment != deployment or not self._cluster.alive):
            self._let_go()
        if self._cluster is None:
            self._cluster = Cluster(deployment)
        return self._cluster

    def _let_go(self) -> None:
        if self._cluster:
            self._cluster.stop()
            self._cluster = None

    def _cancel(self, job_id: str) -> None:
        if self._queue.remove(job_id):
            self._end(self._jobs.pop(job_id), "cancelled")
        elif self._running and self._running.id == job_id:
            self._running.cancelled.set()

    def _stopped(self, job: _Job) -> None:
        """A job was ended on request: by its owner, by its time limit, or since the app is gone."""
        if self._closing:
            return  # whoever asks for it later is told that the app ended
        if job.cancelled.is_set():
            self._end(job, "cancelled")
        else:
            self._end(job, "failed", error=LabError("run-too-long", seconds=round(limit_s())).as_dict())

    def _estimate_s(self, job: _Job) -> float | None:
        """About how long a job takes; None for what cannot be told."""
        if job.request["do"] == "fetch":
            return None
        try:
            scenario = self._scenario(job)
            place = (job.request["kind"], kinds.device_key_here(scenario))
            if place not in self._past:
                self._past[place] = self._store.past(*place)
            return estimate.duration_s(scenario.key(), estimate.work_of(scenario), self._past[place])
        except LabError:
            return None

    def _remember(self, scenario: object, result: dict) -> None:
        manifest = result["manifest"]
        past = self._past.setdefault((result["kind"], kinds.device_key(manifest)), [])
        past.append(Past(scenario.key(), estimate.work_of(scenario), manifest["duration_s"]))
        with self._changed:
            for job in self._jobs.values():
                job.estimate_s = self._estimate_s(job)

    def _report_queue(self) -> None:
        """Every waiting job's place, and about how long those before it take; with the lock held."""
        ahead, ahead_s = (1 if self._running else 0), 0.0
        for place, job_id in enumerate(self._queue.order(), start=ahead):
            job = self._jobs[job_id]
            self._write({"id": job.id, "state": "queued", "place": place, "estimate_s": job.estimate_s, "ahead_s": ahead_s})
            ahead_s = None if ahead_s is None or job.estimate_s is None else ahead_s + job.estimate_s

    def _report(self, job: _Job, state: str, **rest: object) -> None:
        """What a running job does; if only the numbers change, a few times a second."""
        what, now = (job.id, rest.get("phase"), str(rest.get("facts"))), time.monotonic()
        if what != self._reported[1] or now - self._reported[0] >= _REPORT_EVERY_S:
            self._reported = now, what
            self._write({"id": job.id, "state": state, **rest})

    def _end(self, job: _Job, state: str, **how: object) -> None:
        """The last word on a job: in the store first."""
        try:
            self._store.end_jobs([job.id], state, **how)
        except LabError as error:
            print(f"engine: {error}", file=sys.stderr)
        self._write({"id": job.id, "state": state, **({"done": 1.0} if state == "done" else {}), **how})


def limit_s() -> float:
    """How long a measurement may take: LAB_JOB_LIMIT_S."""
    try:
        chosen = float(os.environ.get("LAB_JOB_LIMIT_S", ""))
    except ValueError:
        chosen = 0.0
    return chosen if chosen > 0 else _DEFAULT_LIMIT_S


def _hear(line: str, server: Server, outbox: Outbox) -> None:
    """One line from the app. Half a line comes of an app that was killed; a bug fails its job and no other."""
    request = None
    try:
        request = json.loads(line)
        server.take(request)
    except Exception as error:
        traceback.print_exc()
        if isinstance(request, dict) and isinstance(request.get("id"), str):
            why = f"{type(error).__name__}: {error}"
            outbox.write({"id": request["id"], "state": "failed", "error": LabError("worker-error", why=why).as_dict()})


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the app decides
    outbox = Outbox(sys.stdout)
    sys.stdout = sys.stderr
    server = Server(outbox.write, Store(_STORE_WAIT_S), outbox.record)

    def read() -> None:
        try:
            for line in sys.stdin:
                _hear(line, server, outbox)
        finally:
            server.close()
            time.sleep(_CLOSE_S)
            os._exit(1)  # whatever still hangs must not outlive the app; workers end when their stdin does

    threading.Thread(target=read, daemon=True).start()
    server.work()
    outbox.close()
