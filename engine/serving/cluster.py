"""The cluster: all worker processes of a deployment, and the coordinator that serves requests on them. No torch.

Workers stay between runs, so that a second measurement starts at once. One run is one *session* on the workers that
its schedule uses; all the others sleep.
"""

import queue
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import LabError
from engine.measure.clock import now_ns
from engine.serving.deployment import Deployment, WorkerSpec
from engine.serving.forms import requests_in
from engine.serving.messages import decode, encode, together
from engine.serving.process import WorkerProcess
from engine.serving.request import Request
from engine.serving.router import Capacity, Router

_SHORTEST_WAIT_S = 0.2
LOAD_LIMIT_S = 300
PING_LIMIT_S = 10
EXACT = "exact"
_CLOSE_LIMIT_S = 20
StartWorker = Callable[[WorkerSpec, "queue.SimpleQueue[tuple[str, dict | None]]"], WorkerProcess]


class Cancelled(Exception):
    """The caller asked for an end."""


@dataclass(frozen=True)
class SessionSettings:
    """How one schedule is to be served. KV sizes are blocks per worker of each group; reserve_tokens as in `Limits`.

    kv_format: of the KV that goes from pool to pool, one of `formulas.kv.KV_DTYPES`; "exact" is the cache's own, in place.
    link_bytes_per_s: of an emulated link between the pools; 0 is this machine's memory.
    """

    schedule: str
    chunk_tokens: int
    block_tokens: int
    entry_blocks: int
    decode_blocks: int
    kv_bytes_per_block: int
    max_batch_requests: int
    max_prefill_tokens: int
    reserve_tokens: int = 0
    layerwise: bool = False
    lease_s: float = 60.0
    temperature: float = 0.0
    time_limit_s: float = 900.0
    kv_format: str = EXACT
    link_bytes_per_s: float = 0.0

    def blocks_of(self, group: str) -> int:
        """Of a worker's KV pool."""
        return self.decode_blocks if group == "decode" else self.entry_blocks

    @property
    def shared_bytes_per_block(self) -> int:
        """Of the memory through which KV goes: the cache itself, or room for it in another format. A head of few channels
        takes more with its scales than without, but never twice as much."""
        return self.kv_bytes_per_block * (1 if self.kv_format == EXACT else 2)


@dataclass(frozen=True)
class Arrival:
    """A request and when it comes, in seconds from the start."""

    at_s: float
    request: Request


class Cluster:
    """Use as a context manager, or call `stop`. Any LabError from a run means that the cluster is gone: make another."""

    def __init__(self, deployment: Deployment, start_worker: StartWorker = WorkerProcess) -> None:
        """start_worker(spec, events): a process here, or what is like one (`engine.serving.remote.RemoteWorker`)."""
        self.deployment = deployment
        self.start_worker = start_worker
        self.events: queue.SimpleQueue[tuple[str, dict | None]] = queue.SimpleQueue()
        self.workers: dict[str, WorkerProcess] = {}
        self.facts: dict[str, dict] = {}

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def alive(self) -> bool:
        return bool(self.workers) and all(worker.alive for worker in self.workers.values())

    def start(self, groups: set[str], *, cancelled: Callable[[], bool] = lambda: False) -> None:
        """Start those workers of the named groups that do not run yet, and load their model.

        Raises LabError (the worker's own reason, or "worker-died"), or Cancelled.
        """
        specs = [s for s in self.deployment.workers if s.group in groups and s.name not in self.workers]
        try:
            for spec in specs:
                self.workers[spec.name] = self.start_worker(spec, self.events)
                self.workers[spec.name].send(self.deployment.load(spec))
            waiting = {spec.name for spec in specs}
            for name, record in self._records(waiting, "loaded", LOAD_LIMIT_S, cancelled):
                self.facts[name] = {key: value for key, value in record.items() if key != "type"}
            for spec in specs:
                self.facts[spec.name] |= self.workers[spec.name].clock(lambda name=spec.name: self._ping(name, cancelled))
        except (LabError, Cancelled):
            self.stop()
            raise

    def stop(self) -> None:
        """End all workers and wait until they are gone."""
        for worker in self.workers.values():
            worker.kill()
        self.workers.clear()

    def serve(
        self,
        arrivals: list[Arrival],
        settings: SessionSettings,
        *,
        on_record: Callable[[dict], None] = lambda record: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> list[dict]:
        """Serve requests as they arrive; returns all trace records, each with its worker (times in clock ns).

        The first record is {"type": "start", "at_ns"}. `on_record` sees each record as it comes.
        Raises LabError("worker-died" and others) or Cancelled; the cluster is stopped then.
        """
        session = _Session(self, arrivals, settings, on_record, cancelled)
        try:
            return session.run()
        except Cancelled:
            try:
                session.close()  # the workers are fine and stay for the next run
            except LabError:
                self.stop()
            raise
        except BaseException:  # an interrupt or a bug too: the session is still open on the workers
            self.stop()
            raise

    def _ping(self, name: str, cancelled: Callable[[], bool]) -> int:
        self.workers[name].send({"type": "ping"})
        ((_, record),) = self._records({name}, "pong", PING_LIMIT_S, cancelled)
        return record["now_ns"]

    def _records(self, waiting: set[str], wanted: str, limit_s: float, cancelled: Callable[[], bool]):
        """Yield the `wanted` record of each worker in `waiting`, which must all come within `limit_s`."""
        waiting = set(waiting)
        deadline = now_ns() + int(limit_s * 1e9)
        while waiting:
            if cancelled():
                raise Cancelled
            if now_ns() > deadline:
                raise LabError("worker-silent", workers=", ".join(sorted(waiting)), seconds=round(limit_s))
            try:
                name, record = self.events.get(timeout=_SHORTEST_WAIT_S)
            except queue.Empty:
                continue
            self.check(name, record)
            if record["type"] == wanted:
                waiting.discard(name)
                yield name, record

    def check(self, name: str, record: dict | None) -> None:
        """Raises if a worker's record tells of its end or of a failure."""
        if record is None:
            raise self.workers[name].died()
        if record["type"] == "failed":
            error = record["error"]
            raise LabError(error["code"], **error["facts"])


class _Session:
    """One run of one schedule."""

    def __init__(self, cluster: Cluster, arrivals: list[Arrival], settings: SessionSettings, on_record, cancelled):
        self.cluster = cluster
        self.settings = settings
        self.on_record = on_record
        self.cancelled = cancelled
        self.arrivals = sorted(arrivals, key=lambda arrival: (arrival.at_s, arrival.request.index))
        self.entry = cluster.deployment.entry(settings.schedule)
        self.decode = cluster.deployment.decode(settings.schedule)
        capacities = {w.name: Capacity(settings.entry_blocks, settings.block_tokens) for w in self.entry}
        capacities |= {w.name: Capacity(settings.decode_blocks, settings.block_tokens) for w in self.decode}
        self.router = Router([w.name for w in self.entry], [w.name for w in self.decode], capacities)
        self.names = {worker.name for worker in self.entry + self.decode}
        self.records: list[dict] = []

    def run(self) -> list[dict]:
        elsewhere = {name for name, worker in self.cluster.workers.items() if not worker.on_this_host}
        here = [worker.name for worker in self.entry if self.decode and worker.name not in elsewhere]
        size = self.settings.entry_blocks * self.settings.shared_bytes_per_block
        folder = shared_folder(len(here) * size) if here else None
        try:
            files = {name: sized_file(folder, name, size) for name in here}
            for worker in self.entry + self.decode:
                self.cluster.workers[worker.name].send(self._open(worker, files))
            for _ in self.cluster._records(self.names, "opened", LOAD_LIMIT_S, self.cancelled):
                pass
        finally:
            if folder:  # both sides have it mapped by now; without a name it cannot outlive them
                shutil.rmtree(folder, ignore_errors=True)
        self._serve()
        self.close()
        return self.records

    def close(self) -> None:
        """End the session on its workers, in the middle of a step if need be."""
        for name in self.names:
            self.cluster.workers[name].send({"type": "close"})
        for _ in self.cluster._records(self.names, "closed", _CLOSE_LIMIT_S, lambda: False):
            pass

    def _open(self, worker: WorkerSpec, files: dict[str, str]) -> dict:
        s = self.settings
        role = s.schedule if worker.group == "engine" else worker.group
        return {
            "type": "open",
            "name": worker.name,
            "role": role,
            "threads": worker.threads,
            "cores": list(worker.cores),
            "num_blocks": s.blocks_of(worker.group),
            "block_tokens": s.block_tokens,
            "chunk_tokens": s.chunk_tokens,
            "max_batch_requests": s.max_batch_requests,
            "max_prefill_tokens": s.max_prefill_tokens,
            "reserve_tokens": s.reserve_tokens,
            "layerwise": s.layerwise,
            "lease_ns": int(s.lease_s * 1e9),
            "temperature": s.temperature,
            "kv_format": None if s.kv_format == EXACT else s.kv_format,
            "shared_bytes_per_block": s.shared_bytes_per_block,
            "link_bytes_per_s": s.link_bytes_per_s,
            "shared_file": files.get(worker.name),
            "sources": {
                source.name: {"shared_file": files.get(source.name), "num_blocks": s.entry_blocks} for source in self.entry
            }
            if role == "decode"
            else {},
        }

    def _serve(self) -> None:
        start = now_ns()
        deadline = start + int(self.settings.time_limit_s * 1e9)
        self._note({"type": "start", "at_ns": start})
        coming = list(self.arrivals)
        while coming or len(self.router.ended) < len(self.arrivals):
            if self.cancelled():
                raise Cancelled
            if now_ns() > deadline:
                raise LabError("run-too-long", seconds=round(self.settings.time_limit_s))
            due = []
            while coming and start + coming[0].at_s * 1e9 <= now_ns():
                due.append(coming.pop(0).request)
            self._arrive(due)
            due_s = (start + coming[0].at_s * 1e9 - now_ns()) / 1e9 if coming else _SHORTEST_WAIT_S
            try:
                name, record = self.cluster.events.get(timeout=min(max(due_s, 0.0), _SHORTEST_WAIT_S))
            except queue.Empty:
                continue
            self.cluster.check(name, record)
            if not (worker := self.cluster.workers[name]).on_this_host and (what := self._unexpected(name, record)):
                raise worker.nonsense(what)
            self._take(name, record)

    def _arrive(self, requests: list[Request]) -> None:
        """Take in all that are due. A worker sees those that come at once at once, or its first step would be a matter of
        luck."""
        addressed = []
        for request in requests:
            self._note({"type": "arrive", "index": request.index, "at_ns": now_ns()})
            try:
                addressed += self.router.arrive(request)
            except LabError as error:
                self._note({"type": "Refused", "index": request.index, "error": error.as_dict(), "at_ns": now_ns()})
        self._send(addressed)

    def _unexpected(self, name: str, record: dict) -> str:
        """What of a record, whose form is right, is about nothing that this session has; "" if nothing is."""
        kind = record["type"]
        if strange := requests_in(record) - self.router.requests.keys():
            return f"{kind}: {min(strange)}"
        if kind == "Offer" and record["source"] != name:
            return f"{kind}: source"
        return kind if kind == "Part" and not self.router.offered(record["index"]) else ""

    def _take(self, name: str, record: dict) -> None:
        record["worker"] = name
        message = decode({key: value for key, value in record.items() if key != "worker"})
        if message is not None:
            self._send(self.router.handle(name, message))
            if record["type"] in ("Offer", "Part", "Ack"):
                return  # the fetch records tell the same, with times
            record["at_ns"] = record.get("at_ns") or now_ns()
        elif record["type"] == "step":
            for index, _, length in record["slices"]:
                self.router.computed(name, index, length)
        self._note(record)

    def _send(self, addressed: list) -> None:
        lines: dict[str, list[str]] = {}
        for name, message in addressed:
            lines.setdefault(name, []).append(encode(message))
        for name, messages in lines.items():
            self.cluster.workers[name].send_line(together(messages))

    def _note(self, record: dict) -> None:
        self.records.append(record)
        self.on_record(record)


def shared_folder(needed_bytes: int) -> Path:
    """A fresh folder in memory-backed storage if it has room, else on disk (slower, still mapped)."""
    for parent in (Path("/dev/shm"), Path(tempfile.gettempdir())):
        if parent.is_dir() and shutil.disk_usage(parent).free > needed_bytes:
            try:
                return Path(tempfile.mkdtemp(prefix="long-context-lab-", dir=parent))
            except OSError:
                continue
    raise LabError("kv-memory", bytes=needed_bytes, why="no room for the shared KV file in /dev/shm or the temp folder")


def sized_file(folder: Path, name: str, size: int) -> str:
    """A new file of so many bytes, which take memory only where they are written."""
    path = folder / name
    with path.open("wb") as file:
        file.truncate(size)
    return str(path)
