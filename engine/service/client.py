"""What pages know of the engine: submit, look, cancel, read. No torch, nothing here blocks for long.

One service process per app, started at the first need and again after its end. Its states are mirrored here by a
thread; results are read from the store, so they are found after a restart too.
"""

import atexit
import json
import os
import secrets
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from engine import texts
from engine.errors import LabError
from engine.experiments.scenarios import SchedulesScenario, new_run_id
from engine.measure.device import choose
from engine.model.catalog import CATALOG
from engine.service import store

_ROOT = Path(__file__).resolve().parents[2]
_STOP_S = 10


@dataclass(frozen=True)
class Status:
    """Where a job is. state: queued, running, done, failed, cancelled or unknown; place: jobs ahead of it;
    done: 0 to 1; error: code, facts and English message."""

    state: str
    place: int | None = None
    phase: str | None = None
    done: float = 0.0
    facts: dict = field(default_factory=dict)
    error: dict | None = None

    @property
    def active(self) -> bool:
        return self.state in ("queued", "running")


class _Service:
    """The process and the mirror of its states."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process: subprocess.Popen | None = None
        self._states: dict[str, Status] = {}

    def submit(self, record: dict) -> None:
        """Queue a job. Raises LabError("service-gone") if the service cannot be reached."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            self._states[record["id"]] = Status("queued")
            if not self.send(record):
                del self._states[record["id"]]
                raise LabError("service-gone", why="it ended before it could take the job")

    def send(self, record: dict) -> bool:
        """One line to the service; False if it is gone."""
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(record) + "\n")
                self._process.stdin.flush()
            except (OSError, ValueError, AttributeError):
                return False
            return True

    def status(self, job_id: str) -> Status | None:
        return self._states.get(job_id)

    def stop(self) -> None:
        """End the service and its workers; waits for them. What had not ended yet has failed."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        try:
            process.stdin.close()
            process.wait(timeout=_STOP_S)
        except (OSError, subprocess.TimeoutExpired):
            process.kill()  # its workers end when their stdin does
            process.wait()
        with self._lock:
            if self._process is None:
                self._fail_active("it was stopped")

    def _start(self) -> None:
        self._fail_active(_ending(self._process))  # whatever an earlier process had is lost
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine.service"],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            text=True,
            encoding="utf-8",
        )
        threading.Thread(target=self._mirror, args=(self._process,), daemon=True).start()

    def _mirror(self, process: subprocess.Popen) -> None:
        for line in process.stdout:
            try:
                record = json.loads(line)
            except ValueError:  # half a line: it was killed while it wrote
                break
            job_id = record.pop("id")
            with self._lock:
                self._states[job_id] = Status(**record)
        process.wait()
        with self._lock:
            if self._process is process:
                self._fail_active(_ending(process))

    def _fail_active(self, why: str) -> None:
        error = LabError("service-gone", why=why).as_dict()
        for job_id, status in self._states.items():
            if status.active:
                self._states[job_id] = replace(status, state="failed", error=error)


def _ending(process: subprocess.Popen | None) -> str:
    code = process.poll() if process else None
    return f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"


_service = _Service()
atexit.register(_service.stop)


def start() -> None:
    """Nothing is started before it is needed; here for symmetry with `stop` in the app's lifespan."""


def stop() -> None:
    """End the service process and all its workers."""
    _service.stop()


def submit(scenario: SchedulesScenario) -> str:
    """Queue a measurement; returns its run id, which cannot be guessed.

    Raises LabError: "model-missing", "text-missing", "job-not-allowed" (no files of the server by path), "service-gone".
    """
    if scenario.model not in CATALOG:
        raise LabError("job-not-allowed", name=scenario.model[:80])
    if scenario.text not in texts.NAMED and not texts.is_own(scenario.text):
        raise LabError("job-not-allowed", name=scenario.text[:80])
    if not model_ready(scenario.model):
        raise LabError("model-missing", name=scenario.model)
    if not text_ready(scenario.text):
        raise LabError("text-missing", name=scenario.text)
    run_id = new_run_id()
    _service.submit({"do": "submit", "id": run_id, "scenario": scenario.as_dict()})
    return run_id


def fetch(name: str) -> str:
    """Queue the download of a model or text; returns a job id for `status` and `cancel`."""
    job_id = secrets.token_urlsafe(16)
    _service.submit({"do": "fetch", "id": job_id, "name": name})
    return job_id


def cancel(job_id: str) -> None:
    """Ask for the end of a queued or running job. Harmless for one that has ended."""
    status = _service.status(job_id)
    if status and status.active:
        _service.send({"do": "cancel", "id": job_id})


def status(job_id: str) -> Status:
    """Where a job is; a stored result of an earlier life of the app is "done"."""
    known = _service.status(job_id)
    if known:
        return known
    return Status("done", done=1.0) if store.exists(job_id) else Status("unknown")


def result(run_id: str) -> dict | None:
    """The stored result of a run, or None. Treat it as read-only. Raises LabError("run-unreadable")."""
    return _load(run_id) if store.exists(run_id) else None


_load = lru_cache(maxsize=32)(store.load)


def keep_text(data: bytes, name: str) -> str:
    """Keep somebody's own text (bytes, and what messages call it); returns the name to put into a scenario.

    Raises LabError("text-...") for what is no text, or "store-unwritable".
    """
    return texts.keep_own_text(data, name)


def device() -> dict:
    """What machine this is."""
    return choose("auto").as_dict()


def model_ready(name: str) -> bool:
    """Whether a model can be used without fetching anything."""
    return name in CATALOG and CATALOG[name].ready


def text_ready(name: str) -> bool:
    """Whether a text can be used without fetching anything."""
    return texts.is_here(name)
