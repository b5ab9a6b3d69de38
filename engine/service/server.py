"""The engine service: `python -m engine.service`, one child of the app. Jobs come in on stdin, states go out on stdout.

    in   {"do": "submit", "id", "scenario"} | {"do": "fetch", "id", "name"} | {"do": "cancel", "id"}
    out  {"id", "state", "place", "phase", "done", "facts", "error"}   state: queued running done failed cancelled

Jobs run one at a time, first come first served. Worker processes are kept for the next job of the same kind and let
go after a while without work. When stdin ends (the app is gone), everything ends. No torch here.
"""

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from dataclasses import dataclass, field

from engine.errors import LabError
from engine.experiments.scenarios import SchedulesScenario
from engine.experiments.schedules import run_schedules
from engine.model.fetch import fetch
from engine.serving.cluster import Cancelled, Cluster
from engine.serving.deployment import Deployment
from engine.service import store

_IDLE_S = 900
_REPORT_EVERY_S = 0.1
_CLOSE_S = 30


@dataclass
class _Job:
    id: str
    request: dict
    cancelled: threading.Event = field(default_factory=threading.Event)


class Server:
    """The queue, the job that runs, and the workers that stand ready."""

    def __init__(self, write) -> None:
        self._write = write
        self._waiting: deque[_Job] = deque()
        self._running: _Job | None = None
        self._changed = threading.Condition()
        self._closing = False
        self._cluster: Cluster | None = None
        self._reported = 0.0

    def take(self, request: dict) -> None:
        """A line from the app (called from the reading thread)."""
        with self._changed:
            if request["do"] == "cancel":
                self._cancel(request["id"])
            else:
                self._waiting.append(_Job(request["id"], request))
                self._changed.notify()
            self._report_queue()

    def close(self) -> None:
        """The app is gone: drop the queue, cancel what runs."""
        with self._changed:
            self._closing = True
            self._waiting.clear()
            if self._running:
                self._running.cancelled.set()
            self._changed.notify()

    def work(self) -> None:
        """Run jobs until closed."""
        try:
            while (job := self._next()) is not None:
                self._run(job)
        finally:
            self._let_go()

    def _next(self) -> _Job | None:
        with self._changed:
            self._running = None
            while not self._waiting and not self._closing:
                if not self._changed.wait(timeout=_IDLE_S) and not self._waiting:
                    self._let_go()
            if self._closing:
                return None
            self._running = self._waiting.popleft()
            self._report_queue()
            return self._running

    def _run(self, job: _Job) -> None:
        self._report(job, "running", phase="starting", force=True)
        try:
            if job.request["do"] == "fetch":
                self._fetch(job)
            else:
                self._measure(job)
            self._report(job, "done", done=1.0, force=True)
        except Cancelled:
            self._report(job, "cancelled", force=True)
        except LabError as error:
            state = "cancelled" if job.cancelled.is_set() else "failed"
            self._report(job, state, error=error.as_dict(), force=True)
        except Exception as error:  # a bug fails this job and no other
            traceback.print_exc()
            why = f"{type(error).__name__}: {error}"
            self._report(job, "failed", error=LabError("worker-error", why=why).as_dict(), force=True)

    def _measure(self, job: _Job) -> None:
        result = run_schedules(
            SchedulesScenario.from_dict(job.request["scenario"]),
            progress=lambda phase, done, **facts: self._report(job, "running", phase=phase, done=done, facts=facts),
            cancelled=job.cancelled.is_set,
            cluster_for=self._cluster_for,
            run_id=job.id,
        )
        store.save(result)

    def _fetch(self, job: _Job) -> None:
        def progress(done: int, total: int | None) -> None:
            if job.cancelled.is_set():
                raise Cancelled
            self._report(job, "running", phase="fetching", done=done / total if total else 0.0)

        fetch(job.request["name"], progress)

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
        for job in list(self._waiting):
            if job.id == job_id:
                self._waiting.remove(job)
                self._report(job, "cancelled", force=True)
        if self._running and self._running.id == job_id:
            self._running.cancelled.set()

    def _report_queue(self) -> None:
        ahead = 1 if self._running else 0
        for place, job in enumerate(self._waiting, start=ahead):
            self._report(job, "queued", place=place, force=True)

    def _report(self, job: _Job, state: str, *, force: bool = False, **rest: object) -> None:
        now = time.monotonic()
        if force or now - self._reported >= _REPORT_EVERY_S:
            self._reported = now
            self._write({"id": job.id, "state": state, **rest})


def main() -> None:
    """Serve until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the app decides
    out, lock = sys.stdout, threading.Lock()
    sys.stdout = sys.stderr

    def write(record: dict) -> None:
        with lock:
            try:
                out.write(json.dumps(record) + "\n")
                out.flush()
            except (BrokenPipeError, ValueError):
                pass  # the app is gone; stdin ends as well

    server = Server(write)

    def read() -> None:
        try:
            for line in sys.stdin:
                server.take(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:  # half a line: the app was killed while it wrote
            print(f"not a request: {error!r}", file=sys.stderr)
        server.close()
        time.sleep(_CLOSE_S)
        os._exit(1)  # whatever still hangs must not outlive the app; workers end when their stdin does

    threading.Thread(target=read, daemon=True).start()
    server.work()
