"""The joining side of pools on other hosts: `python -m engine pool`, between the coordinator and a worker process of this host.

It starts the ordinary worker (`engine.serving.worker`), hands on what the two say, and stands in for the memory that they would
share on one host: the prefill worker publishes into a file here; the decode worker's sources are mirrors of such files, and a
`Part` reaches it only once its bytes are in the mirror. So checksums, leases, stagings and failures are what they are on one host.

Whatever ends it, the worker ends with it: its stdin closes. The exchange of records is told in `engine.serving.remote`.
"""

import base64
import hashlib
import json
import queue
import shutil
import socket
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

from engine.errors import LabError
from engine.lock import device_lock
from engine.measure.device import choose
from engine.model.card import ModelCard, describe
from engine.serving.channel import Channel
from engine.serving.cluster import shared_folder, sized_file
from engine.serving.deployment import WorkerSpec
from engine.serving.messages import together
from engine.serving.process import WorkerProcess
from engine.serving.remote import GREETING_S, LAB, LONGEST_GREETING, address_of, engine_version, proof_of, write

Say = Callable[[str], None]
_COORDINATOR, _LINKS, _PULLED = "coordinator", "links", "pulled"
_CONNECT_S = 5.0
# If another host is gone, the coordinator says so; this host only sees that a connection broke.
_AFTER_BREAK_S = 3.0
_LAST_WORDS_S = 3.0


def join(address: str, code: str, role: str, cores: tuple[int, ...], *, device: str | None, model: str | None, say: Say) -> None:
    """Join a coordinator and serve until it is done. Raises LabError: why it could not, or how it ended.

    cores: of this host, for the worker; device: "cuda:1" for instance; None is the kind that the run asks for. model: where this
    host has the model, if not under the name that the run gives it.
    """
    sock, file = _connect(address)
    try:
        card, wanted = _introduce(sock, file, address, code, role, cores, device, model)
    except LabError:
        sock.close()
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        sock.close()
        raise LabError("join-failed", address=address, why=_why(error)) from error
    say(f"joined {address} as {role}; waiting for the others")
    relay = Relay(sock, file, card, role, cores, device or _worker_device(wanted["device"]), model or wanted["model"], say)
    with ExitStack() as ends:
        ends.callback(relay.stop)
        try:
            ends.enter_context(device_lock(wanted["device"], f"pool: {role}", wait=False))
        except LabError as error:  # the other pool of this machine, or the coordinator itself: they take no turns
            say(f"this machine is in use by {error.facts['holder']}; both will be slower" if error.code == "device-busy" else str(error))
        relay.run()


def _connect(address: str) -> tuple[socket.socket, BinaryIO]:
    try:
        sock = socket.create_connection(address_of(address), timeout=_CONNECT_S)
    except (OSError, UnicodeError) as error:
        raise LabError("join-failed", address=address, why=_why(error)) from error
    sock.settimeout(GREETING_S)
    return sock, sock.makefile("rb")


def _introduce(sock, file, address, code, role, cores, device, model) -> tuple[ModelCard, dict]:
    """Who we are, that we know the code, and that we have the model."""
    hello = json.loads(file.readline(LONGEST_GREETING))
    if hello["lab"] != LAB:
        raise LabError("join-failed", address=address, why="nobody there waits for pools")
    facts = {"name": socket.gethostname(), "machine": _machine(), "device": device or "", "cores": list(cores)}
    write(sock, {"type": "join", "proof": proof_of(code, hello["nonce"], role), "engine": engine_version(), "role": role, **facts})
    wanted = _answer(file)
    try:
        card = _checked(wanted, device, model)
    except LabError as error:
        write(sock, {"type": "failed", "error": error.as_dict()})
        raise
    import engine.serving.kv_links  # noqa: F401  torch: seconds, in which nobody waits for a sign of life yet

    write(sock, {"type": "ready"})
    return card, wanted


def _answer(file: BinaryIO) -> dict:
    record = json.loads(file.readline(LONGEST_GREETING))
    if record["type"] == "failed":
        raise LabError(record["error"]["code"], **record["error"]["facts"])
    return record


def _checked(wanted: dict, device: str | None, model: str | None) -> ModelCard:
    """The model of this host, which must be the coordinator's."""
    kind = wanted["device"]
    if device and device.partition(":")[0] != kind:
        raise LabError("pool-device", here=device, there=kind)
    choose(kind)
    card = describe(model or wanted["model"])
    if not card.ready:
        raise LabError("model-missing", name=card.name)
    if card.sha256 != wanted["sha256"]:
        raise LabError("pool-model", name=card.name, here=card.sha256[:12], there=wanted["sha256"][:12])
    return card


class Relay:
    """What goes on once a host has joined. Everything is done by the thread that runs; the others only put what they have
    into its queue."""

    def __init__(self, sock, file, card: ModelCard, role: str, cores: tuple[int, ...], device: str, model: str, say: Say) -> None:
        from engine.serving.kv_links import Board

        self.card, self.role, self.device, self.say = card, role, device, say
        # Workers have a working directory of their own.
        self.model = str(Path(model).absolute()) if card.path and Path(model).exists() else model
        self.spec = WorkerSpec(role, role, device, len(cores), cores)
        self.events: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()
        self.worker: WorkerProcess | None = None
        self.folder: Path | None = None
        self.links = None
        self.dtype = ""
        self.session = 0
        self.mirrors: dict[str, object] = {}
        self.offers: dict[tuple[int, int], dict] = {}
        self.pulled_ns: dict[tuple[int, int, int], tuple[int, int]] = {}
        self.channel = Channel(sock, file, self._hear, lambda why: self.events.put((_COORDINATOR, why)))
        self.board = Board(self._tell_others)
        self.channel.start()

    def run(self) -> None:
        """Until the coordinator is done. Raises LabError for any other end."""
        take = {_COORDINATOR: self._from_coordinator, _PULLED: self._hand_over, _LINKS: self._broken, self.role: self._from_worker}
        while True:
            whose, what = self.events.get()
            if what == {"type": "bye"}:
                return
            try:
                take[whose](what)
            except LabError as error:
                self._tell_end(error)
                raise

    def stop(self) -> None:
        """End the worker and the connection; nothing of it stays."""
        if self.worker:
            self.worker.kill()
        self._forget_folder()
        self.channel.close(wait_s=_LAST_WORDS_S)

    def _hear(self, record: dict) -> None:
        """In the reading thread: what others tell gloo must arrive while the other one waits for it."""
        if record["type"] == "store":
            self.board.hear(record["key"], base64.b64decode(record["value"]))
        else:
            self.events.put((_COORDINATOR, record))

    def _tell_others(self, key: str, value: bytes) -> None:
        self._tell({"type": "store", "key": key, "value": base64.b64encode(value).decode()})

    def _from_coordinator(self, record: dict | str) -> None:
        if isinstance(record, str):
            raise LabError("pool-coordinator-gone", why=record)
        match record["type"]:
            case "mesh":
                self._mesh(record)
            case "load":
                self._load(record)
            case "open":
                self.worker.send(self._opened_here(record))
            case "together":
                self._messages(record["messages"])
            case "Offer" | "Part":
                self._messages([record])
            case "close":
                self.session += 1  # what is still being pulled is nobody's any more
                self.worker.send(record)
            case _:
                self.worker.send(record)

    def _mesh(self, record: dict) -> None:
        from engine.serving.kv_links import KVLinks

        self.links = KVLinks(
            self.board,
            record["rank"],
            record["peers"],
            self.channel.own_address,
            lambda *news: self.events.put((_PULLED, news)),
            lambda error: self.events.put((_LINKS, error)),
        )
        self._tell({"type": "meshed"})
        self.say(f"this is {record['name']}, one of {len(record['peers'])}")

    def _load(self, record: dict) -> None:
        self.dtype = record["dtype"]
        self.worker = WorkerProcess(self.spec, self.events)
        here = {"model": self.model, "device": self.device, "threads": self.spec.threads, "cores": list(self.spec.cores)}
        self.worker.send({**record, **here})

    def _opened_here(self, record: dict) -> dict:
        """A session's settings with this host's memory and cores."""
        self.session += 1
        self.offers.clear()
        self.pulled_ns.clear()
        sources = {name: {**source} for name, source in record["sources"].items()}
        sizes = {name: source["num_blocks"] for name, source in sources.items()} or {record["name"]: record["num_blocks"]}
        self._forget_folder()
        self.folder = shared_folder(sum(sizes.values()) * record["shared_bytes_per_block"])
        places = {}
        for name, num_blocks in sizes.items():
            path = sized_file(self.folder, name, num_blocks * record["shared_bytes_per_block"])
            places[name] = self._place(record, num_blocks, path)
            if name in sources:
                sources[name]["shared_file"] = path
            else:
                record["shared_file"] = path
                self.links.published = places[name]
        self.mirrors = places if sources else {}
        return {**record, "sources": sources, "threads": self.spec.threads, "cores": list(self.spec.cores)}

    def _place(self, record: dict, num_blocks: int, path: str):
        """As the worker maps it (`Worker._session`)."""
        import torch

        from engine.kv.storage import KVStorage
        from engine.serving.staging import Staging

        if record["kv_format"]:
            return Staging(Path(path), num_blocks, record["shared_bytes_per_block"])
        return KVStorage(
            self.card.config,
            num_blocks,
            record["block_tokens"],
            dtype=getattr(torch, self.dtype),
            shared_file=Path(path),
            heads_first=self.device == "cpu",
        )

    def _messages(self, messages: list[dict]) -> None:
        """To the worker, at once what came at once; parts only once they are here."""
        now = []
        for message in messages:
            if message["type"] == "Offer":
                self.offers[message["index"], message["attempt"]] = message
            if message["type"] == "Part":
                self._pull(message)
            else:
                now.append(json.dumps(message, separators=(",", ":")))
        if now:
            self.worker.send_line(together(now))

    def _pull(self, part: dict) -> None:
        from engine.serving.kv_links import Pull

        offer = self.offers[part["index"], part["attempt"]]
        layers = range(part["first_layer"], part["end_layer"])
        mirror, size = self.mirrors[offer["source"]], part["size"] if len(layers) else 0
        self.links.pull(
            offer["source"], Pull(mirror, layers, tuple(offer["blocks"]), len(offer["tokens"]), size, (self.session, part))
        )
        if part["token"] is not None:
            del self.offers[part["index"], part["attempt"]]

    def _hand_over(self, news: tuple) -> None:
        (session, part), begin_ns, end_ns = news
        if session == self.session:
            self.pulled_ns[part["index"], part["attempt"], part["first_layer"]] = begin_ns, end_ns
            self.worker.send(part)

    def _from_worker(self, record: dict | None) -> None:
        if record is None:
            raise self.worker.died()
        match record["type"]:
            case "opened":
                self._forget_folder()  # both have it mapped by now
            case "fetch":
                begin_ns, end_ns = self.pulled_ns.pop((record["index"], record["attempt"], record["first_layer"]))
                record["pulled_ns"] = [begin_ns, end_ns]
                record["move_s"] = round(record["move_s"] + (end_ns - begin_ns) / 1e9, 6)
        self._tell(record)

    def _broken(self, error: LabError) -> None:
        time.sleep(_AFTER_BREAK_S)
        raise error

    def _tell_end(self, error: LabError) -> None:
        if error.code == "worker-died":
            self._tell({"type": "died", "exit": error.facts["exit"], "last_words": error.facts["last_words"]})
        else:
            self._tell({"type": "failed", "error": error.as_dict()})

    def _tell(self, record: dict) -> None:
        """To the coordinator, if it is there; that it is not is heard by the thread that reads."""
        with suppress(OSError):
            self.channel.send(record)

    def _forget_folder(self) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None


def _worker_device(kind: str) -> str:
    return "cuda:0" if kind == "cuda" else kind


def _machine() -> str:
    """Something that two processes have in common if they share one machine's cores, whatever their network calls it."""
    try:
        mark = Path("/proc/sys/kernel/random/boot_id").read_text()
    except OSError:
        mark = str(uuid.getnode())
    return hashlib.sha256(mark.encode()).hexdigest()[:12]


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
