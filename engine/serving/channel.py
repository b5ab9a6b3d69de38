"""A connection between two hosts that carries records, one JSON object a line, and notices when the other side is gone.

Both sides send a beat each second and answer the other's at once: from the answers each knows the other's clock (Cristian
1989), and after SILENCE_S without any sign of life the connection ends, whatever the network did not tell. Nothing is
encrypted. No torch.
"""

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from engine.measure.clock import now_ns
from engine.serving.forms import moment

BEAT_S = 1.0
SILENCE_S = 10.0
# The first beats come quickly, since the other's clock is wanted soon.
_FIRST_BEATS, _FIRST_BEAT_S = 8, 0.02
_LONGEST_LINE = 256 << 20
_KEPT_BEATS = 64


class Channel:
    """One side. `on_record` gets what comes, in order, in the reading thread; `on_end`, once and last, why it ended."""

    def __init__(self, sock: socket.socket, file: BinaryIO, on_record: Callable[[dict], None], on_end: Callable[[str], None]) -> None:
        """file: of the socket, for reading; it may have read ahead."""
        self._socket, self._file = sock, file
        self._on_record, self._on_end = on_record, on_end
        self._sending = threading.Lock()
        self._why: str | None = None
        self._heard = time.monotonic()
        self._clocks: deque[tuple[int, int]] = deque(maxlen=_KEPT_BEATS)
        self.ended = threading.Event()
        self.own_address = sock.getsockname()[0].partition("%")[0]  # by which this host is reached from the other's network

    def start(self) -> None:
        self._socket.settimeout(None)
        with suppress(OSError):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for work in (self._read, self._watch):
            threading.Thread(target=work, daemon=True).start()

    def send(self, record: dict) -> None:
        self.send_line(json.dumps(record, separators=(",", ":")))

    def send_line(self, line: str) -> None:
        """Raises OSError if the connection is gone."""
        with self._sending:
            self._socket.sendall(line.encode() + b"\n")

    def close(self, why: str = "it was closed here", *, wait_s: float = 0.0) -> None:
        """End the connection. Harmless to repeat.

        wait_s: for so long the other side may still close it first, having read all that was sent before.
        """
        if wait_s and not self.ended.is_set():
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
            self.ended.wait(wait_s)
        self._why = self._why or why
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def clock(self) -> tuple[int, int] | None:
        """How far the other's clock is ahead of ours and how far that may be wrong, half the shortest round trip of the last
        beats (nanoseconds); None before the first answer."""
        seen = list(self._clocks)
        if not seen:
            return None
        offset, trip = min(seen, key=lambda clock: clock[1])
        return offset, trip // 2

    def _read(self) -> None:
        why = "the other side closed the connection"
        try:
            while (line := self._file.readline(_LONGEST_LINE)).endswith(b"\n"):  # half a line is the end, too
                self._heard = time.monotonic()
                self._take(json.loads(line))
        except OSError as error:
            why = error.strerror or str(error)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            why = "what came is no record"
        self.close(why)
        with suppress(OSError):
            self._file.close()
            self._socket.close()
        self.ended.set()
        self._on_end(self._why)

    def _take(self, record: dict) -> None:
        match record["type"]:
            case "beat" | "beaten" if not all(moment(value) for name, value in record.items() if name != "type"):
                raise ValueError("a moment that is none")
            case "beat":
                self._answer(record["sent_ns"])
            case "beaten":
                trip = now_ns() - record["sent_ns"]
                self._clocks.append((record["now_ns"] - record["sent_ns"] - trip // 2, trip))
            case _:
                self._on_record(record)

    def _answer(self, sent_ns: int) -> None:
        """Or not, if somebody is sending: who reads must never wait for who sends. What is sent is a sign of life, too."""
        if self._sending.acquire(blocking=False):
            try:
                self._socket.sendall(b'{"type":"beaten","sent_ns":%d,"now_ns":%d}\n' % (sent_ns, now_ns()))
            finally:
                self._sending.release()

    def _watch(self) -> None:
        beats = 0
        while not self.ended.is_set():
            if time.monotonic() - self._heard > SILENCE_S:
                return self.close(f"no sign of life for {SILENCE_S:.0f} s")
            if self._sending.acquire(timeout=BEAT_S):  # who sends may be waiting for a host that is gone
                with suppress(OSError):
                    self._socket.sendall(b'{"type":"beat","sent_ns":%d}\n' % now_ns())
                self._sending.release()
            beats += 1
            self.ended.wait(_FIRST_BEAT_S if beats < _FIRST_BEATS else BEAT_S)
