"""Pools on other hosts, as the coordinator sees them: who listens, who may join, and a worker there that looks like one here.

A host joins with `python -m engine pool` (`engine.serving.relay`). Over one TCP connection, one record a line:

    coordinator                                          joining host
    {"type": "hello", "lab", "nonce"}               ->
                                                    <-   {"type": "join", "proof", "engine", "role", "host", ...}
    {"type": "welcome", "model", "sha256", ...}     ->                              or {"type": "failed", "error"}, and the end
                                                    <-   {"type": "ready"}          or the same
    {"type": "mesh", "name", "rank", "peers"}       ->                              once all are there
                    {"type": "store", "key", "value"} both ways: what one tells goes to all others (how gloo finds its peers)
                                                    <-   {"type": "meshed"}
    what a worker process is told                   ->
                                                    <-   what it answers, {"type": "died", ...}, {"type": "failed", "error"}
    {"type": "bye"}                                 ->

The code is never sent, only a proof of it. Nothing is encrypted, and the KV goes from host to host without a proof: for
networks whose users are trusted. No torch.
"""

import hashlib
import hmac
import json
import queue
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import engine
from engine.errors import LabError
from engine.model.card import describe
from engine.serving.channel import Channel
from engine.serving.clocks import shifted
from engine.serving.cluster import Cancelled, Cluster
from engine.serving.deployment import Deployment, WorkerSpec
from engine.serving.forms import fault
from engine.serving.process import WorkerProcess

LAB = "long-context-lab-pool"
ROLES = ("prefill", "decode")
# As long as this a stranger may say nothing, and a host look whether it has the model.
GREETING_S = 10.0
READY_S = 300.0
MESH_S = 60.0
JOIN_S = 300.0
LONGEST_GREETING = 4096
# Of those who have not shown the code. With one more the one that has been here longest is let go: a host of ours needs a moment.
_MOST_STRANGERS = 16
_GOODBYE_S = 5.0
_SHORTEST_WAIT_S = 0.2
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another


def new_code() -> str:
    """Ten letters, 49 random bits."""
    return "".join(secrets.choice(_LETTERS) for _ in range(10))


def proof_of(code: str, nonce: str, role: str) -> str:
    """That one knows the code, without telling it."""
    return hmac.new(code.encode(), f"{nonce} {role}".encode(), hashlib.sha256).hexdigest()


def engine_version() -> str:
    """Of the code that workers run: hosts that do not run the same would not do the same."""
    root, digest = Path(engine.__file__).parent, hashlib.sha256()
    for path in sorted(path for room in ("kv", "model", "serving") for path in (root / room).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + path.read_bytes().replace(b"\r\n", b"\n"))
    return f"{engine.__version__} ({digest.hexdigest()[:12]})"


def address_of(text: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[::1]:port". Raises LabError("address-bad")."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not (host and host.isprintable() and port.isascii() and port.isdigit() and len(port) < 6 and int(port) < 65536):
        raise LabError("address-bad", address=text[:80])
    return host, int(port)


def written(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class RemoteWorker:
    """A worker on another host: what a `WorkerProcess` is for the cluster. All moments in what it says are in our time."""

    on_this_host = False

    def __init__(self, role: str, host: dict, sock: socket.socket, file: BinaryIO, share: Callable[["RemoteWorker", dict], None]) -> None:
        """host: what it said of itself, and soon its clock; share(worker, record): hands what it tells all others to them."""
        self.role, self.host = role, host
        self.name = f"the {role} worker"
        self.events: queue.SimpleQueue[tuple[str, dict | None]] = queue.SimpleQueue()
        self._share = share
        self._clock = (0, 0)
        self._error: LabError | None = None
        self.channel = Channel(sock, file, self._take, self._ended)
        self.channel.start()

    @property
    def alive(self) -> bool:
        return not self.channel.ended.is_set()

    def attach(self, spec: WorkerSpec, events: "queue.SimpleQueue[tuple[str, dict | None]]") -> "RemoteWorker":
        """From now on it is this worker of a cluster."""
        self.name, self.events = spec.name, events
        self._set_clock()
        return self

    def clock(self, _: Callable[[], int]) -> dict:
        """Facts of the worker: where it is, and its clock against ours (`host` is kept up to date)."""
        return {"clock_offset_ns": self.host["clock_offset_ns"], "host": self.host}

    def send(self, record: dict) -> None:
        if record["type"] == "open":
            self._set_clock()  # clocks drift: once for each session, and in it all stamps are moved alike
        self.send_line(json.dumps(record, separators=(",", ":")))

    def send_line(self, line: str) -> None:
        """Raises LabError("pool-host-gone") or the reason that it gave."""
        if '"Part"' in line:
            line = json.dumps(shifted(json.loads(line), *self._clock), separators=(",", ":"))
        try:
            self.channel.send_line(line)
        except OSError as error:
            raise self.died() from error

    def died(self) -> LabError:
        """The error that tells how it ended."""
        self.channel.ended.wait(2.0)  # its last words may be on their way
        return self._error or self._gone("it did not take what it was sent")

    def nonsense(self, what: str) -> LabError:
        """The error that tells that it said what no worker says."""
        return LabError("pool-host-nonsense", worker=self.name, host=self.host["name"], what=what)

    def kill(self) -> None:
        """Let it go, and wait until it is gone. Harmless to repeat."""
        with suppress(OSError):
            self.channel.send({"type": "bye"})
        self.channel.close(wait_s=_GOODBYE_S)

    def _set_clock(self) -> None:
        deadline = time.monotonic() + 2.0
        while (clock := self.channel.clock()) is None and time.monotonic() < deadline and self.alive:
            time.sleep(0.01)
        self._clock = clock or self._clock
        self.host["clock_offset_ns"], self.host["clock_uncertainty_ns"] = self._clock

    def _take(self, record: dict) -> None:
        if what := fault(record):
            self._error = self.nonsense(what)
            raise ValueError(what)  # ends the channel
        match record["type"]:
            case "store":
                self._share(self, record)
            case "died":
                exit_, words = str(record["exit"])[:100], str(record["last_words"])[:300]
                self._error = LabError("worker-died", worker=f"{self.name} on {self.host['name']}", exit=exit_, last_words=words)
            case _:
                record.pop("pid", None)  # of another host: nothing of it is to be looked for here
                offset, uncertainty = self._clock
                self.events.put((self.name, shifted(record, -offset, uncertainty)))

    def _ended(self, why: str) -> None:
        self._error = self._error or self._gone(why)
        self.events.put((self.name, None))

    def _gone(self, why: str) -> LabError:
        return LabError("pool-host-gone", worker=self.name, host=self.host["name"], why=why)


class Gate:
    """Where other hosts join. It listens from the start (LabError("listen-failed") if that cannot be) until `close`."""

    def __init__(self, address: str, model: str, *, on_note: Callable[[str], None] = lambda words: None) -> None:
        """model: that all must have; on_note: hears who was refused, and why."""
        self.model, self.sha256 = model, describe(model).sha256
        self.code, self.engine, self.on_note = new_code(), engine_version(), on_note
        self.joined: list[RemoteWorker] = []
        self._wanted = dict.fromkeys(ROLES, 0)
        self._device = "cpu"
        self._lock, self._closed = threading.Lock(), False
        self._strangers: deque[socket.socket] = deque()
        host, port = address_of(address)
        try:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._listening = socket.create_server((host, port), family=family, backlog=64)
        except (OSError, UnicodeError) as error:
            raise LabError("listen-failed", address=address, why=getattr(error, "strerror", None) or str(error)) from error
        self.address = written(host, self._listening.getsockname()[1])

    def __enter__(self) -> "Gate":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let all go. Harmless to repeat."""
        with self._lock:
            self._closed = True
            leaving, self.joined = self.joined, []
        _hang_up(self._listening)  # close alone does not wake the thread that accepts
        self._listening.close()
        for worker in leaving:
            worker.kill()

    def cluster(
        self,
        deployment: Deployment,
        *,
        on_missing: Callable[[str], None] = lambda missing: None,
        cancelled: Callable[[], bool] = lambda: False,
        limit_s: float = JOIN_S,
    ) -> Cluster:
        """Wait until there is a host for every prefill and decode worker of a deployment; the cluster of them, with its
        engines here.

        on_missing(words): whom it waits for, when that changes. Raises Cancelled, LabError("nobody-joined"), or what keeps
        them from each other ("pool-addresses", "pool-mesh", "pool-host-gone").
        """
        specs = [spec for role in ROLES for spec in deployment.workers if spec.group == role]
        self._wanted = {role: sum(spec.group == role for spec in specs) for role in ROLES}
        self._device = specs[0].device.partition(":")[0] if specs else "cpu"
        threading.Thread(target=self._accept, daemon=True).start()
        self._wait(on_missing, cancelled, limit_s)
        with self._lock:
            workers = [worker for role in ROLES for worker in self.joined if worker.role == role]
        self._mesh(workers, [spec.name for spec in specs], cancelled)
        there = {spec.name: worker for spec, worker in zip(specs, workers, strict=True)}

        def start_worker(spec: WorkerSpec, events: queue.SimpleQueue) -> WorkerProcess | RemoteWorker:
            return there[spec.name].attach(spec, events) if spec.name in there else WorkerProcess(spec, events)

        return Cluster(deployment, start_worker)

    def _missing(self) -> dict[str, int]:
        with self._lock:
            self.joined = [worker for worker in self.joined if worker.alive]
            return {role: self._wanted[role] - sum(w.role == role for w in self.joined) for role in ROLES}

    def _wait(self, on_missing: Callable[[str], None], cancelled: Callable[[], bool], limit_s: float) -> None:
        deadline, told = time.monotonic() + limit_s, ""
        while any((missing := self._missing()).values()):
            words = ", ".join(f"{count} {role}" for role, count in missing.items() if count)
            if words != told:
                on_missing(told := words)
            if cancelled():
                raise Cancelled
            if time.monotonic() > deadline:
                raise LabError("nobody-joined", missing=words, seconds=round(limit_s))
            time.sleep(_SHORTEST_WAIT_S)

    def _accept(self) -> None:
        while True:
            try:
                sock, peer = self._listening.accept()
            except OSError:
                return  # closed
            self._strangers.append(sock)
            if len(self._strangers) > _MOST_STRANGERS:
                with suppress(IndexError):  # they go by themselves, too
                    _hang_up(self._strangers.popleft())
            threading.Thread(target=self._greet, args=(sock, peer[0]), daemon=True).start()

    def _greet(self, sock: socket.socket, peer: str) -> None:
        """Let one host in, or not. Strangers get a sentence and no more."""
        try:
            file = sock.makefile("rb")
            try:
                self._let_in(sock, file, peer)
                return
            except LabError as error:
                self.on_note(f"{peer}: {error}")
                write(sock, {"type": "failed", "error": error.as_dict()})
                sock.shutdown(socket.SHUT_WR)
                file.readline(LONGEST_GREETING)  # until it has read that
            except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
                pass  # nobody of ours
            file.close()
            sock.close()
        except OSError:
            sock.close()
        finally:
            self._no_stranger(sock)

    def _no_stranger(self, sock: socket.socket) -> None:
        with suppress(ValueError):
            self._strangers.remove(sock)

    def _let_in(self, sock: socket.socket, file: BinaryIO, peer: str) -> None:
        nonce = secrets.token_hex(16)
        sock.settimeout(GREETING_S)
        write(sock, {"type": "hello", "lab": LAB, "nonce": nonce})
        asked = json.loads(file.readline(LONGEST_GREETING))
        role = asked["role"] if asked["role"] in ROLES else ""
        if not (role and hmac.compare_digest(proof_of(self.code, nonce, role).encode(), str(asked["proof"]).encode())):
            raise LabError("pool-code")
        self._no_stranger(sock)
        if asked["engine"] != self.engine:
            raise LabError("pool-engine", here=str(asked["engine"])[:60], there=self.engine)
        self._check_room(role)
        host = _host(asked, peer)
        write(sock, {"type": "welcome", "model": self.model, "sha256": self.sha256, "device": self._device})
        sock.settimeout(READY_S)
        answer = json.loads(file.readline(LONGEST_GREETING))
        if answer["type"] == "failed":
            return self.on_note(f"{host['name']}: {str(answer['error']['message'])[:500]}")
        with self._lock:
            if self._closed:
                raise OSError("closed meanwhile")
            self._check_room(role)
            self.joined.append(RemoteWorker(role, host, sock, file, self._share))

    def _check_room(self, role: str) -> None:
        if sum(worker.role == role and worker.alive for worker in self.joined) >= self._wanted[role]:
            raise LabError("pool-full", role=role, wanted=self._wanted[role])

    def _share(self, sender: RemoteWorker, record: dict) -> None:
        for worker in self.joined:
            if worker is not sender:
                with suppress(OSError):
                    worker.channel.send(record)

    def _mesh(self, workers: list[RemoteWorker], names: list[str], cancelled: Callable[[], bool]) -> None:
        """Let them find each other."""
        if len({worker.host["address"].startswith("127.") or worker.host["address"] == "::1" for worker in workers}) > 1:
            raise LabError("pool-addresses")
        events: queue.SimpleQueue = queue.SimpleQueue()
        for rank, (worker, name) in enumerate(zip(workers, names, strict=True)):
            worker.name, worker.events = name, events
            if not worker.alive:
                raise worker.died()
            worker.send({"type": "mesh", "name": name, "rank": rank, "peers": names})
        waiting, deadline = dict(zip(names, workers, strict=True)), time.monotonic() + MESH_S
        while waiting:
            if cancelled():
                raise Cancelled
            if time.monotonic() > deadline:
                raise LabError("pool-mesh", workers=", ".join(waiting), why=f"not within {MESH_S:.0f} s")
            with suppress(queue.Empty):
                name, record = events.get(timeout=_SHORTEST_WAIT_S)
                if record is None:
                    raise waiting.get(name, workers[names.index(name)]).died()
                if record["type"] == "failed":
                    raise LabError(record["error"]["code"], **record["error"]["facts"])
                if record["type"] == "meshed":
                    waiting.pop(name, None)


def _host(asked: dict, peer: str) -> dict:
    """What a host said of itself, if it is of the right kind. Raises ValueError or TypeError."""
    cores = [int(core) for core in asked["cores"]]
    facts = {name: str(asked[name])[:80] for name in ("name", "machine", "device")}
    return {**facts, "address": peer, "cores": cores[:1024], "threads": len(cores), "clock_offset_ns": 0, "clock_uncertainty_ns": 0}


def _hang_up(sock: socket.socket) -> None:
    """Whoever waits for it hears of the end."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def write(sock: socket.socket, record: dict) -> None:
    """A record, before there is a channel. Raises OSError."""
    sock.sendall(json.dumps(record, separators=(",", ":")).encode() + b"\n")
