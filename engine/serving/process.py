"""Worker processes as the coordinator sees them: start, talk, notice the end. No torch."""

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from engine.errors import LabError
from engine.measure.clock import clock_offset_ns
from engine.measure.threads import OPENMP_SETTINGS
from engine.serving.deployment import WorkerSpec

_ROOT = Path(__file__).resolve().parents[2]


class WorkerProcess:
    """A `python -m MODULE` child. Its records go to `events` as (name, record); (name, None) is its end."""

    on_this_host = True

    def __init__(
        self,
        spec: WorkerSpec,
        events: "queue.SimpleQueue[tuple[str, dict | None]]",
        module: str = "engine.serving.worker",
    ) -> None:
        self.spec = spec
        self.events = events
        self._stderr = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=_environment(spec),
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def clock(self, ask: Callable[[], int]) -> dict:
        """Facts of the worker: its clock, which `ask` reads, against ours. Raises as `measured_clock_offset_ns` does."""
        return {"clock_offset_ns": measured_clock_offset_ns(self.spec.name, ask)}

    def send(self, record: dict) -> None:
        self.send_line(json.dumps(record, separators=(",", ":")))

    def send_line(self, line: str) -> None:
        """Raises LabError("worker-died") if the worker is gone."""
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except (BrokenPipeError, OSError, ValueError) as error:
            raise self.died() from error

    def died(self) -> LabError:
        """The error that tells how this worker ended."""
        try:
            code = self.process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            code = None
        return LabError("worker-died", worker=self.spec.name, exit=_exit_words(code), last_words=self._last_words())

    def kill(self) -> None:
        """End it and wait until it is gone. Harmless to repeat."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self._stderr):
            try:
                pipe.close()
            except OSError:
                pass

    def _read(self) -> None:
        try:
            for line in self.process.stdout:
                record = json.loads(line)
                record["type"]
                self.events.put((self.spec.name, record))
        except (ValueError, TypeError, KeyError):
            pass  # half a line: the worker was killed while it wrote
        self.process.stdout.close()
        self.events.put((self.spec.name, None))

    def _last_words(self) -> str:
        try:
            self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, self._stderr.tell() - 2000))
            lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        except (OSError, ValueError):
            return ""
        return lines[-1][:300] if lines else ""


def measured_clock_offset_ns(worker: str, ask: Callable[[], int]) -> int:
    """The worker's clock, which `ask` reads, against ours.

    Raises LabError("clocks-disagree") if they are not one clock: stamps of different processes could not be compared.
    """
    offset, trip = clock_offset_ns(ask)
    if abs(offset) > trip / 2 + 1_000_000:
        raise LabError("clocks-disagree", worker=worker, offset_ms=round(offset / 1e6, 3))
    return offset


def _environment(spec: WorkerSpec) -> dict[str, str]:
    return {
        **os.environ,
        **OPENMP_SETTINGS,
        "OMP_NUM_THREADS": str(spec.threads),
        "PYTHONUNBUFFERED": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _exit_words(code: int | None) -> str:
    if code is None:
        return "it does not answer"
    return f"signal {-code}" if code < 0 else f"exit code {code}"
