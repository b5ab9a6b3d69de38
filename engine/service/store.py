"""What the lab keeps: results (files and an index of them), what became of every job, and learners' progress. No torch.

A result is complete on disk before it gets its row in the index, and the row is what announces it. Files without a
row are taken in by `adopt`. All that fails raises a LabError.
"""

import hashlib
import os
import shutil
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, String, cast, delete, func, insert, select, update

from engine import texts
from engine.errors import LabError
from engine.measure.clock import utc_now
from engine.paths import runs_dir
from engine.service import files, kinds
from engine.service.estimate import Past, work_of
from engine.service.index import JOBS, RUNS, Index
from engine.service.progress import Learners

PAGE_WAIT_S = 2.0
ACTIVE = ("queued", "running")
_DEFAULT_MB = 2000
_JOBS_KEPT = 5000
_PAST_RUNS = 200
_HEADLINES = ("ttft_s", "prefill_s", "itl_max_s", "itl_p99_s", "throughput_tokens_per_s", "makespan_s", "preemptions")
_OF_POINTS = ("alone_s", "load", "wait_slope_s", "grows")


@dataclass(frozen=True)
class StoredRun:
    """A stored result, as a list of them shows it. summary: per schedule, or value of a sweep, the headline metrics."""

    id: str
    kind: str
    title: str
    started_at: str
    summary: dict
    pinned: bool
    browser: str = ""


@dataclass(frozen=True)
class Job:
    """What the store knows of a job. browser: the hash of whose it is; app: whose process was to do it."""

    id: str
    browser: str
    state: str
    error: dict | None
    result_id: str | None
    answered: bool
    app: str


class Store:
    """The results and jobs of one folder; every thread and process has its own or shares one.

    wait_s: how long anything here waits for another process that holds the index.
    """

    def __init__(self, wait_s: float = PAGE_WAIT_S, folder: Path | None = None) -> None:
        self.folder = folder or runs_dir()
        self._index = Index(self.folder, wait_s)
        self.learners = Learners(self._index)
        self._owed: list[dict] = []
        self._lock = threading.Lock()

    # Results

    def save(self, result: dict, browser: str = "") -> None:
        """Keep a result: its file, then its row, then room for the next one.

        Raises LabError("store-unwritable") if the file cannot be written; nothing half-written is left. A row that
        cannot be written now is owed: see `settle`.
        """
        try:
            path = files.write_result(self.folder, result)
        except OSError as error:
            raise LabError("store-unwritable", path=str(self.folder), why=error.strerror or str(error)) from error
        with self._lock:
            self._owed.append(_row(result, path, browser))
        self.settle()

    def settle(self) -> bool:
        """Write the rows that are owed; False if that is not possible now."""
        with self._lock:
            try:
                if self._owed:
                    self._index.write(lambda connection: _insert_missing(connection, self._owed))
                    kept, self._owed = self._owed[-1]["id"], []
                    self._clean_up(kept)
            except LabError as error:
                print(f"engine: {error}", file=sys.stderr, flush=True)
            return not self._owed

    def exists(self, run_id: str) -> bool:
        """Whether a result is stored under this id."""
        return files.path_of(self.folder, run_id) is not None

    def load(self, run_id: str) -> dict | None:
        """The stored result of a run; None if there is none. Raises LabError("run-unreadable")."""
        path = files.path_of(self.folder, run_id)
        return files.read_result(path) if path else None

    def find(self, scenario_key: str, device_key: str) -> str | None:
        """The newest run of this scenario on such a device that may be handed to anybody."""
        query = select(RUNS.c.id).where(
            RUNS.c.scenario_key == scenario_key, RUNS.c.device_key == device_key, ~RUNS.c.private
        )
        ids = self._index.read(lambda c: c.execute(query.order_by(RUNS.c.seq.desc())).scalars().all())
        return next((run_id for run_id in ids if self.exists(run_id)), None)

    def run(self, run_id: str) -> StoredRun | None:
        """The index's row of a run."""
        return next(iter(self._runs(select(RUNS).where(RUNS.c.id == run_id))), None)

    def runs(self, browser: str | None = None, limit: int = 20, kind: str | None = None) -> list[StoredRun]:
        """The newest first: all (of a kind), or those that one browser (its hash) measured or was answered with."""
        query = select(RUNS).order_by(RUNS.c.seq.desc()).limit(limit)
        if kind is not None:
            query = query.where(RUNS.c.kind == kind)
        if browser is not None:
            answered = select(JOBS.c.result_id).where(JOBS.c.browser == browser, JOBS.c.answered)
            query = query.where((RUNS.c.browser == browser) | RUNS.c.id.in_(answered))
        return self._runs(query)

    def past(self, kind: str, device_key: str) -> list[Past]:
        """The newest runs of a kind on such a device, for estimates."""
        query = (
            select(RUNS.c.scenario_key, RUNS.c.work, RUNS.c.duration_s)
            .where(RUNS.c.kind == kind, RUNS.c.device_key == device_key, RUNS.c.duration_s.is_not(None))
            .order_by(RUNS.c.seq.desc())
            .limit(_PAST_RUNS)
        )
        rows = self._index.read(lambda connection: connection.execute(query).all())
        return [Past(key or "", work or 0, seconds) for key, work, seconds in rows]

    def pin(self, run_id: str, wanted: bool) -> None:
        """Keep a run from the clean-up, or no longer. Raises LabError("run-unknown", "pins-full" and as all here)."""
        path = files.path_of(self.folder, run_id)
        if path is None:
            raise LabError("run-unknown", run_id=run_id[:80])
        size = path.stat().st_size

        def change(connection: Connection) -> None:
            others = select(func.coalesce(func.sum(RUNS.c.bytes), 0)).where(RUNS.c.pinned, RUNS.c.id != run_id)
            limit = limit_bytes() // 2
            if wanted and connection.execute(others).scalar() + size > limit:
                raise LabError("pins-full", limit_mb=f"{limit / 1_000_000:g}")
            connection.execute(update(RUNS).where(RUNS.c.id == run_id).values(pinned=wanted))

        self._index.write(change)
        mark = files.pin_path(self.folder, run_id)
        try:
            mark.touch() if wanted else mark.unlink(missing_ok=True)
        except OSError as error:
            raise LabError("store-unwritable", path=str(mark), why=error.strerror or str(error)) from error

    def erase(self, browser: str) -> None:
        """Remove all results that a browser (its hash) measured, pinned ones too, its jobs that have ended, and the texts of
        its own that no other browser ran. Raises LabError("store-unwritable", "store-busy"); what went is gone then."""
        own = self._index.read(lambda c: c.execute(select(RUNS.c.id).where(RUNS.c.browser == browser)).scalars().all())
        try:
            for run_id in own:
                while path := files.path_of(self.folder, run_id):
                    path.unlink(missing_ok=True)
                files.pin_path(self.folder, run_id).unlink(missing_ok=True)
        except OSError as error:
            raise LabError("store-unwritable", path=str(self.folder), why=error.strerror or str(error)) from error
        self._index.write(lambda connection: _delete_runs(connection, list(own)))
        for name in self._index.write(lambda connection: _delete_jobs(connection, browser)):
            texts.forget_own_text(name)

    def adopt(self) -> int:
        """Make the index agree with the files; returns how many had no row. Files that are no results stay as they are."""
        files.remove_unfinished(self.folder)
        there, indexed = files.stored(self.folder), self._indexed()
        adopted = 0
        for run_id, path in there.items():
            if run_id in indexed:
                continue
            job = self.job(run_id)  # of a service that was killed before it wrote the row
            try:
                row = _row(files.read_result(path), path, job.browser if job else "")
            except Exception:  # damaged or just deleted: its link tells; whatever it is, the others are taken in
                continue
            self._index.write(lambda connection, row=row: _insert_missing(connection, [{**row, "id": run_id}]))
            adopted += 1
        if lost := indexed - there.keys():
            gone = [run_id for run_id in lost if not self.exists(run_id)]  # one may have been stored since we looked
            self._index.write(lambda connection: _delete_runs(connection, gone))
        return adopted

    def unindexed(self) -> bool:
        """Whether there are files that `adopt` would take in."""
        return bool(files.stored(self.folder).keys() - self._indexed())

    def _indexed(self) -> set[str]:
        return set(self._index.read(lambda connection: connection.execute(select(RUNS.c.id)).scalars().all()))

    def check_room(self, needed_bytes: int, name: str) -> None:
        """Before minutes of measuring: will the result fit? Raises LabError("disk-full")."""
        free = shutil.disk_usage(self.folder).free
        if free < needed_bytes:
            raise LabError("disk-full", name=name, needed_bytes=needed_bytes, free_bytes=free, path=str(self.folder))

    def _runs(self, query) -> list[StoredRun]:
        rows = self._index.read(lambda connection: connection.execute(query).mappings().all())
        return [StoredRun(**{name: row[name] for name in StoredRun.__dataclass_fields__}) for row in rows]

    def _clean_up(self, kept: str) -> None:
        """The oldest go until all fit, never a pinned one nor the one just stored."""
        sizes = select(RUNS.c.id, RUNS.c.bytes, RUNS.c.pinned).order_by(RUNS.c.seq)
        rows = self._index.read(lambda connection: connection.execute(sizes).all())
        over = sum(size for _, size, _ in rows) - limit_bytes()
        gone = []
        for run_id, size, pinned in rows:
            if over <= 0:
                break
            if pinned or run_id == kept:
                continue
            try:
                while path := files.path_of(self.folder, run_id):
                    path.unlink(missing_ok=True)
            except OSError as error:  # it stays, and the next older one goes
                print(f"engine: {path} could not be removed: {error}", file=sys.stderr, flush=True)
                continue
            gone.append(run_id)
            over -= size
        if gone:
            self._index.write(lambda connection: _delete_runs(connection, gone))

    # Jobs

    def put_job(self, job_id: str, *, browser: str, kind: str, scenario: dict, app: str, **rest: object) -> None:
        """Note a promise, as queued unless `rest` says more (state, result_id, answered)."""
        values = {"state": "queued", "answered": False, **rest, "browser": browser, "kind": kind, "app": app}
        values |= {"id": job_id, "scenario": scenario, "submitted_at": utc_now()}

        def put(connection: Connection) -> None:
            connection.execute(insert(JOBS).values(**values))
            newest = connection.execute(select(func.max(JOBS.c.seq))).scalar()
            connection.execute(delete(JOBS).where(JOBS.c.seq <= newest - _JOBS_KEPT, JOBS.c.state.not_in(ACTIVE)))

        self._index.write(put)

    def end_jobs(self, ids: list[str], state: str, **how: object) -> None:
        """Note how jobs ended (error, result_id, answered); the first word on each stands."""
        change = update(JOBS).where(JOBS.c.id.in_(ids), JOBS.c.state.in_(ACTIVE)).values(state=state, **how)
        self._index.write(lambda connection: connection.execute(change))

    def job(self, job_id: str) -> Job | None:
        """What is known of a job."""
        row = self._index.read(lambda c: c.execute(select(JOBS).where(JOBS.c.id == job_id)).mappings().first())
        return Job(**{name: row[name] for name in Job.__dataclass_fields__}) if row else None

    def waiting_apps(self) -> list[str]:
        """The apps that have jobs which did not end."""
        query = select(JOBS.c.app).where(JOBS.c.state.in_(ACTIVE)).distinct()
        return list(self._index.read(lambda connection: connection.execute(query).scalars().all()))

    def fail_jobs_of(self, app: str) -> None:
        """The app is gone: what it had not done it will not do."""
        error = LabError("app-stopped").as_dict()
        change = update(JOBS).where(JOBS.c.app == app, JOBS.c.state.in_(ACTIVE)).values(state="failed", error=error)
        self._index.write(lambda connection: connection.execute(change))


def limit_bytes() -> int:
    """How much all results together may take: LAB_STORE_MB, in whole megabytes."""
    chosen = os.environ.get("LAB_STORE_MB", "").strip()
    return max(1, int(chosen) if chosen.isdecimal() else _DEFAULT_MB) * 1_000_000


def hashed(browser: str) -> str:
    """What is kept of a browser's token; "" stays ""."""
    return hashlib.sha256(browser.encode("utf-8", "surrogatepass")).hexdigest()[:32] if browser else ""


def _row(result: dict, path: Path, browser: str) -> dict:
    """What the index says of a result; of a result in an odd shape as much as can be told."""
    manifest = result["manifest"]
    scenario = manifest.get("scenario") if isinstance(manifest.get("scenario"), dict) else {}
    try:
        known = kinds.scenario_of(result["kind"], scenario)
        private, work = kinds.is_private(known), work_of(known)
    except (LabError, TypeError, ValueError, AttributeError):
        private, work = True, None  # whatever it is, it is no answer for anybody
    seconds = manifest.get("duration_s")
    return {
        "id": result["run_id"],
        "kind": _words(result["kind"]),
        "scenario_key": _words(manifest.get("scenario_key")),
        "device_key": kinds.device_key(manifest),
        "private": private,
        "browser": browser,
        "title": _words(scenario.get("workload") or result["kind"]),
        "started_at": _words(manifest.get("started_at")),
        "stored_at": utc_now(),
        "bytes": path.stat().st_size,
        "pinned": files.pin_path(path.parent, result["run_id"]).exists(),
        "duration_s": float(seconds) if isinstance(seconds, int | float) else None,
        "work": work,
        "summary": _summary(result),
    }


def _words(value: object) -> str:
    """A value as text that a database takes: bytes of a file name that are no text as escapes."""
    return str(value or "").encode("utf-8", "backslashreplace").decode()


def _summary(result: dict) -> dict:
    """By schedule, or by the value of a sweep's point: what a list of runs can say of it."""
    entries = list((result.get("schedules") or {}).items())
    points = [point for point in result.get("points") or () if isinstance(point, dict) and "value" in point]
    entries += [(str(point["value"]), point) for point in points]
    summary = {}
    for name, entry in entries:
        found = dict(entry) if isinstance(entry, dict) else {}
        metrics = found.get("metrics")
        summary[name] = {key: metrics[key] for key in _HEADLINES if key in metrics} if isinstance(metrics, dict) else {}
        summary[name] |= {key: found[key] for key in _OF_POINTS if key in found}
    return summary


def _insert_missing(connection: Connection, rows: Iterable[dict]) -> None:
    for row in rows:
        if connection.execute(select(RUNS.c.id).where(RUNS.c.id == row["id"])).first() is None:
            connection.execute(insert(RUNS).values(**row))


def _delete_jobs(connection: Connection, browser: str) -> list[str]:
    """Forget a browser's jobs that have ended; returns the texts of somebody's own that no job names any more."""
    ended = (JOBS.c.browser == browser) & JOBS.c.state.not_in(ACTIVE)
    scenarios = connection.execute(select(JOBS.c.scenario).where(ended)).scalars().all()
    named = {str(scenario.get("text", "")) for scenario in scenarios if isinstance(scenario, dict)}
    connection.execute(delete(JOBS).where(ended))
    others = select(func.count()).select_from(JOBS)
    return [
        name
        for name in sorted(filter(texts.is_own, named))
        if connection.execute(others.where(cast(JOBS.c.scenario, String).contains(name))).scalar() == 0
    ]


def _delete_runs(connection: Connection, ids: list[str]) -> None:
    for start in range(0, len(ids), 500):
        connection.execute(delete(RUNS).where(RUNS.c.id.in_(ids[start : start + 500])))
