"""KV from host to host over torch.distributed (gloo): each decode worker's host pulls from each prefill worker's.

A pull is a question and an answer: layers, tokens, blocks; then the bytes, gathered where they lie and scattered to the same
places of the mirror (`engine.serving.mirror`). As with a remote read of registered memory, the prefill worker itself has nothing
to do with it: the lease on its blocks is what keeps them until the answer has left.
"""

import os
import queue
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import psutil
import torch
import torch.distributed as dist

from engine.errors import LabError
from engine.kv.storage import KVStorage
from engine.measure.clock import now_ns
from engine.serving.mirror import gather, scatter
from engine.serving.staging import Staging

# Connecting; and any question or answer, with more for what is long: slower than this a network is of no use here.
_CONNECT_S = 30.0
_LIMIT_S = 15.0
_SLOWEST_BYTES_PER_S = 1e6
_FOREVER = timedelta(days=30)
_QUESTION, _BLOCKS, _ANSWER, _BYTES = range(4)  # tags of one pair of hosts

Place = KVStorage | Staging


class Board(dist.Store):
    """What gloo needs to find its peers, over a connection that is there already: `tell(key, value)` takes what this host
    says to all others, `hear` gets what they say."""

    def __init__(self, tell: Callable[[str, bytes], None]) -> None:
        super().__init__()
        self._tell, self._known, self._changed = tell, {}, threading.Condition()

    def hear(self, key: str, value: bytes) -> None:
        with self._changed:
            self._known[key] = value
            self._changed.notify_all()

    def set(self, key: str, value: bytes | str) -> None:
        value = value.encode() if isinstance(value, str) else bytes(value)
        self.hear(key, value)
        self._tell(key, value)

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._known[key]

    def wait(self, keys: list[str], timeout: timedelta = timedelta(seconds=_CONNECT_S)) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: all(key in self._known for key in keys), timeout.total_seconds()):
                raise RuntimeError("the other hosts said nothing")

    def check(self, keys: list[str]) -> bool:
        with self._changed:
            return all(key in self._known for key in keys)


@dataclass(frozen=True)
class Pull:
    """Layers of one request to bring here, to the mirror; `wanted` is given back with the news that they are."""

    mirror: Place
    layers: range
    blocks: tuple[int, ...]
    tokens: int
    size: int
    wanted: object


class KVLinks:
    """This host's connections to those of the other pool. Raises LabError("pool-mesh") if they cannot be made.

    peers: names of all workers in order of rank. on_pulled(wanted, begin_ns, end_ns) and on_broken(error) are called by the
    threads that pull.
    """

    def __init__(
        self,
        board: Board,
        rank: int,
        peers: Sequence[str],
        own_address: str,
        on_pulled: Callable[[object, int, int], None],
        on_broken: Callable[[LabError], None],
    ) -> None:
        self.name, self.on_pulled, self.on_broken = peers[rank], on_pulled, on_broken
        self.published: Place | None = None
        os.environ["GLOO_SOCKET_IFNAME"] = _interface(own_address)
        try:
            self._group = dist.ProcessGroupGloo(board, rank, len(peers), timedelta(seconds=_CONNECT_S))
        except RuntimeError as error:
            raise LabError("pool-mesh", workers=self.name, why=_first_line(error)) from error
        self._pulls: dict[str, queue.SimpleQueue[Pull]] = {}
        for other, name in enumerate(peers):
            if self.name.startswith("decode") and name.startswith("prefill"):
                self._pulls[name] = queue.SimpleQueue()
                threading.Thread(target=self._pull_each, args=(other, name), daemon=True).start()
            elif self.name.startswith("prefill") and name.startswith("decode"):
                threading.Thread(target=self._serve, args=(other,), daemon=True).start()

    def pull(self, source: str, pull: Pull) -> None:
        """Bring it here when all that was asked of this source before is here."""
        self._pulls[source].put(pull)

    @torch.inference_mode()
    def _pull_each(self, rank: int, name: str) -> None:
        try:
            while True:
                pull = self._pulls[name].get()
                begin = now_ns()
                data = self._ask(rank, pull) if pull.size else None
                if data is not None:
                    scatter(pull.mirror, data, pull.layers, list(pull.blocks), pull.tokens)
                self.on_pulled(pull.wanted, begin, now_ns())
        except (RuntimeError, ValueError) as error:
            self.on_broken(LabError("kv-link-broken", worker=self.name, source=name, why=_first_line(error)))

    def _ask(self, rank: int, pull: Pull) -> torch.Tensor | None:
        """None if it is not there any more: whoever wanted it finds by its checksum or its lease that it did not come."""
        question = (pull.layers.start, pull.layers.stop, pull.tokens, pull.size, len(pull.blocks))
        self._send(torch.tensor(question), rank, _QUESTION)
        self._send(torch.tensor(pull.blocks), rank, _BLOCKS)
        answer = self._receive(torch.zeros(1, dtype=torch.int64), rank, _ANSWER)
        if int(answer[0]) != pull.size:
            return None
        return self._receive(torch.empty(pull.size, dtype=torch.uint8), rank, _BYTES)

    @torch.inference_mode()
    def _serve(self, rank: int) -> None:
        try:
            while True:
                question = self._receive(torch.zeros(5, dtype=torch.int64), rank, _QUESTION, _FOREVER)
                begin, end, tokens, size, blocks = question.tolist()
                places = self._receive(torch.zeros(blocks, dtype=torch.int64), rank, _BLOCKS)
                try:
                    found = gather(self.published, range(begin, end), places.tolist(), tokens, size)
                except (ValueError, AttributeError):  # no session is open, or none that has it
                    found = torch.empty(0, dtype=torch.uint8)
                self._send(torch.tensor([len(found)]), rank, _ANSWER)
                if len(found):
                    self._send(found, rank, _BYTES)
        except RuntimeError:
            pass  # the other host is gone, which its coordinator tells better

    def _send(self, data: torch.Tensor, rank: int, tag: int) -> None:
        self._group.send([data], rank, tag).wait(_limit(data))

    def _receive(self, into: torch.Tensor, rank: int, tag: int, limit: timedelta | None = None) -> torch.Tensor:
        self._group.recv([into], rank, tag).wait(limit or _limit(into))
        return into


def _limit(data: torch.Tensor) -> timedelta:
    return timedelta(seconds=_LIMIT_S + data.nbytes / _SLOWEST_BYTES_PER_S)


def _interface(address: str) -> str:
    """The name of the network interface that has an address of this host. Raises LabError("pool-mesh")."""
    for name, found in psutil.net_if_addrs().items():
        if any(entry.address.partition("%")[0] == address for entry in found):
            return name
    raise LabError("pool-mesh", workers=address, why="no network interface here has this address")


def _first_line(error: Exception) -> str:
    """What happened, without gloo's place in its own source before it."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[\S*\] ", "", line)[:200]
