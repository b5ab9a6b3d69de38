"""What pages and the command line know of the engine: submit, look, cancel, read, and what a learner has done. No torch,
nothing blocks for long.

One service process per app, started at the first need and again after its end. Its states are mirrored here by a
thread; results are read from the store, so they are found after a restart too. A class, and functions for the one
client that an app has.
"""

import atexit
import queue
import secrets
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from engine import texts
from engine.errors import LabError
from engine.experiments.scenarios import new_run_id
from engine.measure.device import choose
from engine.model.catalog import CATALOG
from engine.paths import runs_dir
from engine.service import estimate, fair_queue, files, kinds
from engine.service.app_mark import AppMark, is_alive
from engine.service.link import Link
from engine.service.live import Live
from engine.service.progress import Learner
from engine.service.rate import Rate
from engine.service.store import ACTIVE, Store, StoredRun, hashed

__all__ = ["Client", "Learner", "Status", "StoredRun"]

ENDED_KEPT = 300
# What a browser may note, and how often it may try a code or have one made: so many within so many seconds.
NOTES, TRIES = (600, 60.0), (10, 60.0)
# A service that dies this often in a row without ending any job is not started again for those that wait.
MOST_DEATHS = 3


@dataclass(frozen=True)
class Status:
    """Where a job is.

    state: queued, running, done, failed, cancelled or unknown; place: jobs ahead of it; expected_s: about how long
    until it starts (queued) or ends (running), None if nothing is known; elapsed_s: how long it has been running;
    phase, and done of it from 0 to 1; error: code, facts and English message; result_id: the run whose result it is,
    once done; answered: from the store, without measuring; own: whether the browser that asks may cancel it (it
    submitted it, or nobody in particular did).
    """

    state: str
    place: int | None = None
    expected_s: float | None = None
    elapsed_s: float | None = None
    phase: str | None = None
    done: float = 0.0
    facts: dict = field(default_factory=dict)
    error: dict | None = None
    result_id: str | None = None
    answered: bool = False
    own: bool = False

    @property
    def active(self) -> bool:
        return self.state in ACTIVE


@dataclass
class _Job:
    """A job of this app: what was asked of the service, and what the service said of it last."""

    request: dict
    status: Status = Status("queued")
    estimate_s: float | None = None
    ahead_s: float | None = None
    begun: float = 0.0
    phase_begun: float = 0.0
    live: Live | None = None
    sent: bool = False
    followers: list = field(default_factory=list)

    @property
    def browser(self) -> str:
        return self.request["browser"]


class Client:
    """A service process of its own, its jobs, and the store. Use from any thread; `stop` it at the end.

    own_files: whether models and texts may be named by path (the user's own command line, never a page).
    """

    def __init__(self, *, own_files: bool = False) -> None:
        self._own_files = own_files
        self._lock = threading.RLock()
        self._link: Link | None = None
        self._mark: AppMark | None = None
        self._jobs: dict[str, _Job] = {}
        self._running: _Job | None = None
        self._deaths = 0
        self._kept_store: Store | None = None
        self._notes, self._tries = Rate(*NOTES), Rate(*TRIES)

    @property
    def store(self) -> Store:
        """The store of the data folder."""
        folder = runs_dir()
        if self._kept_store is None or self._kept_store.folder != folder:
            self._kept_store = Store()
        return self._kept_store

    def start(self) -> None:
        """Tell those who wait for an app that is gone; start the service only if results lack in the index."""
        try:
            for app in self.store.waiting_apps():
                if not is_alive(app):
                    self.store.fail_jobs_of(app)
            if self.store.unindexed():
                with self._lock:
                    self._serving()
        except LabError as error:  # the app serves its pages even so; the next run tells
            _log(error)

    def stop(self) -> None:
        """End the service process and all its workers; waits for them. What had not ended yet has failed."""
        with self._lock:
            link, self._link = self._link, None
            mark, self._mark = self._mark, None
        if link:
            link.stop()
        with self._lock:
            left = self._active() if self._link is None else []
        self._fail(left, LabError("app-stopped"))
        if mark:
            mark.release()

    def submit(self, scenario, *, browser: str = "", again: bool = False, wait: bool = True) -> str:
        """Have a scenario measured, or its equal found in the store; returns the id for `status` and `result`.

        browser: whose job it is, as an opaque token; again: measure even if there is an equal result; wait: for another
        process that has the device.
        Raises LabError: "model-missing", "text-missing", "job-not-allowed" (no files of the server by path),
        "device-unknown", "queue-full", "service-gone".
        """
        self._check(scenario)
        found = None if again else self._stored(scenario, hashed(browser))
        if found:
            return found
        job_id = new_run_id()
        request = {"do": "submit", "kind": scenario.kind, "scenario": scenario.as_dict(), "again": again}
        self._put({"id": job_id, **request, "wait": wait, "browser": hashed(browser)})
        return job_id

    def fetch(self, name: str, *, browser: str = "") -> str:
        """Queue the download of a model or text; returns a job id for `status` and `cancel`."""
        job_id = secrets.token_urlsafe(16)
        request = {"do": "fetch", "kind": "fetch", "name": name, "scenario": {"name": name}}
        self._put({"id": job_id, **request, "browser": hashed(browser)})
        return job_id

    def cancel(self, job_id: str, browser: str = "") -> bool:
        """Ask for the end of a queued or running job. False, and harmless, for one that has ended or is another's."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None or not job.status.active or not _owns(browser, job.browser) or self._link is None:
                return False
            return self._link.send({"do": "cancel", "id": job_id})

    def status(self, job_id: str, browser: str = "") -> Status:
        """Where a job is; those of an earlier life of the app included. Raises LabError("store-busy")."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is not None:
                elapsed_s = time.monotonic() - job.begun if job.status.state == "running" else None
                known = {"expected_s": self._expected_s(job), "elapsed_s": elapsed_s}
                return replace(job.status, **known, own=_owns(browser, job.browser))
        if files.RUN_ID.fullmatch(job_id) is None:
            return Status("unknown")
        return self._remembered(job_id, browser)

    def follow(self, job_id: str) -> Iterator[Status]:
        """Every status of a job of this app as it comes, up to its end."""
        news: queue.SimpleQueue[Status] = queue.SimpleQueue()
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None:
                news.put(self.status(job_id))
            else:
                news.put(job.status)
                job.followers.append(news)
        while True:
            status = news.get()
            yield status
            if not status.active:
                return

    def live(self, job_id: str) -> dict | None:
        """What is known of a running job, as a partial result; None before anything is. Treat it as read-only.

        {"run_id", "kind", "version" (grows with each record), "manifest": {"model": {"kv_bytes_per_token"}, "scenario"},
        "schedules": {name: {"trace", "resources", "complete", "repeat", "now_s"}}, "pieces": {request id: {schedule:
        texts}}}, each schedule in its newest repeat.
        """
        with self._lock:
            job = self._jobs.get(job_id)
            live = job.live if job else None
        return live.view() if live else None

    def result(self, run_id: str) -> dict | None:
        """The stored result of a run, or None. Treat it as read-only. Raises LabError("run-unreadable")."""
        path = files.path_of(self.store.folder, run_id)
        return _load(path) if path else None

    def runs(self, browser: str | None, limit: int = 20, kind: str | None = None) -> list[StoredRun]:
        """The runs (of a kind) a browser measured or was answered with, newest first; None: everybody's. Raises
        "store-busy"."""
        return self.store.runs(None if browser is None else hashed(browser), limit, kind)

    def stored(self, run_id: str) -> StoredRun | None:
        """What the index says of a run; None if it is not here. Raises LabError("store-busy")."""
        return self.store.run(run_id)

    def pin(self, run_id: str, wanted: bool) -> None:
        """Keep a run from the clean-up, or no longer. Raises LabError("run-unknown", "pins-full", "store-busy")."""
        self.store.pin(run_id, wanted)

    # Progress. A browser without a name has none, and asks for nothing.

    def learner(self, browser: str) -> Learner:
        """What is known of a browser's learner. Raises LabError("store-busy")."""
        return self.store.learners.of(hashed(browser)) if browser else Learner()

    def progress(self, browser: str) -> dict[str, dict]:
        """{topic: record} of a browser's learner (see `engine.service.progress`). Raises LabError("store-busy")."""
        return self.learner(browser).progress

    def note_progress(self, browser: str, topic: str, record: dict) -> None:
        """Put a record's entries over what is known of a topic ("lesson:...", "predict:...", "quiz:..."); an entry that is
        None goes; when it was is put in as "at". Costs nothing where nothing is new.

        Raises LabError: "progress-refused", "progress-full", "too-often", "store-busy", "store-unwritable".
        """
        if browser:
            self._notes.take(browser)
            self.store.learners.note(hashed(browser), topic, record)

    def new_resume_code(self, browser: str) -> str:
        """A new code for this browser's learner, in groups of four: it is shown this once, and voids the one before.
        Raises LabError: "too-often", "store-busy", "store-unwritable"."""
        self._tries.take(browser)
        return self.store.learners.new_code(hashed(browser))

    def resume(self, browser: str, code: str) -> None:
        """Go on in this browser as the learner whose code this is; what it had noted is merged into that.
        Raises LabError: "code-unknown", "code-crowded", "progress-full", "too-often", "store-busy", "store-unwritable"."""
        self._tries.take(browser)
        self.store.learners.resume(hashed(browser), code)

    def leave(self, browser: str) -> None:
        """This browser is nobody's again, as on a computer that others use too. What has a code is kept; what has neither
        a code nor another browser is gone. Raises LabError: "store-busy", "store-unwritable"."""
        self.store.learners.leave(hashed(browser))

    def erase(self, browser: str, runs: bool = False) -> None:
        """Erase all that is kept of a browser's learner, on its other browsers too. runs: the runs of this browser as
        well, with texts of its own that nobody else ran; what it still measures is cancelled.
        Raises LabError: "store-busy", "store-unwritable"; it can be called again then."""
        if runs and browser:
            with self._lock:
                active = [name for name, job in self._jobs.items() if job.status.active and job.browser == hashed(browser)]
            for job_id in active:
                self.cancel(job_id, browser)
            self.store.erase(hashed(browser))
        self.store.learners.erase(hashed(browser))  # last: it also overwrites what was removed

    def _check(self, scenario) -> None:
        if not self._own_files:
            if scenario.model not in CATALOG:
                raise LabError("job-not-allowed", name=scenario.model[:80])
            if scenario.text not in ("", *texts.NAMED) and not texts.is_own(scenario.text):
                raise LabError("job-not-allowed", name=scenario.text[:80])
        if scenario.model in CATALOG and not model_ready(scenario.model):
            raise LabError("model-missing", name=scenario.model)
        if (scenario.text in texts.NAMED or texts.is_own(scenario.text)) and not text_ready(scenario.text):
            raise LabError("text-missing", name=scenario.text)

    def _stored(self, scenario, browser: str) -> str | None:
        """An equal result; noted as one of this browser's runs."""
        try:
            found = self.store.find(scenario.key(), kinds.device_key_here(scenario))
            if found:
                about = {"browser": browser, "kind": scenario.kind, "scenario": scenario.as_dict(), "app": ""}
                self.store.put_job(new_run_id(), **about, state="done", result_id=found, answered=True)
        except LabError as error:
            if error.code not in ("store-busy", "store-unwritable"):
                raise
            _log(error)  # the service looks again when it is the job's turn
            return None
        return found

    def _put(self, request: dict) -> None:
        """Note a job and hand it to the service."""
        job_id = request["id"]
        with self._lock:
            waiting = [job for job in self._jobs.values() if job.status.state == "queued"]
            fair_queue.check_room(len(waiting), sum(job.browser == request["browser"] for job in waiting))
            self._mark = self._mark or AppMark()
            app = self._mark.token
            job = self._jobs[job_id] = _Job(request)
        about = {name: request[name] for name in ("browser", "kind", "scenario")}
        _try(self.store.put_job, job_id, **about, app=app)
        try:
            with self._lock:
                self._send(job)
        except LabError as error:
            self._fail([job], error)
            raise

    def _send(self, job: _Job) -> None:
        """Give a job to the service. If that is gone already, `_ended` is about to send it again; with the lock held."""
        self._serving().send(job.request)
        job.sent = True

    def _serving(self) -> Link:
        """The service, started if there is none; with the lock held. Raises LabError("service-gone")."""
        if self._link is None:
            try:
                self._link = Link(self._hear, self._ended)
            except OSError as error:
                raise LabError("service-gone", why=error.strerror or str(error)) from error
            self._link.start()
        return self._link

    def _hear(self, record: dict) -> None:
        """A line from the service."""
        with self._lock:
            job = self._jobs.get(record["id"])
            if job is None or not job.status.active:
                return
            if "live" in record:
                self._feed(job, record["live"])
                return
            now = time.monotonic()
            if record["state"] == "running":
                if self._running is not job:
                    self._running, job.begun = job, now
                    job.live = Live(record["id"], job.request["kind"], job.request["scenario"])
                if record.get("phase") != job.status.phase:
                    job.phase_begun = now
            for name in ("estimate_s", "ahead_s"):
                if name in record:
                    setattr(job, name, record.pop(name))
            self._set(job, Status(**{name: value for name, value in record.items() if name != "id"}))
            if not job.status.active:
                self._deaths = 0

    @staticmethod
    def _feed(job: _Job, news: dict) -> None:
        if job.live is None:
            return
        if "plan" in news:
            job.live.plan(news["plan"])
        job.live.add(news.get("records", ()))

    def _set(self, job: _Job, status: Status) -> None:
        job.status = status
        for follower in job.followers:
            follower.put(status)
        if not status.active:
            job.live = None
            if self._running is job:
                self._running = None
            ended = [name for name, other in self._jobs.items() if not other.status.active]
            for name in ended[: max(0, len(ended) - ENDED_KEPT)]:
                del self._jobs[name]

    def _active(self) -> list[_Job]:
        return [job for job in self._jobs.values() if job.status.active]

    def _fail(self, jobs: list[_Job], error: LabError) -> None:
        """The service cannot say it any more: here and in the store. The lock is not held while the store is busy.

        A job whose result was stored before the service went is done."""
        with self._lock:
            lost = []
            for job in (job for job in jobs if job.status.active):
                job_id = job.request["id"]
                if self._is_stored(job_id):
                    self._set(job, Status("done", done=1.0, result_id=job_id))
                else:
                    self._set(job, replace(job.status, state="failed", place=None, error=error.as_dict()))
                    lost.append(job_id)
        if lost:
            _try(self.store.end_jobs, lost, "failed", error=error.as_dict())

    def _is_stored(self, job_id: str) -> bool:
        try:
            return self.store.exists(job_id)
        except LabError:  # no data folder any more
            return False

    def _ended(self, link: Link, why: str) -> None:
        """A service is gone: the job that ran has failed, those that waited go to the next one in their order."""
        with self._lock:
            if self._link is not link:
                return  # it was stopped, or replaced
            self._link = None
            self._deaths += 1
            lost = [self._running] if self._running else []
            waiting = [job for job in self._active() if job.sent and job not in lost]
            try:
                if self._deaths >= MOST_DEATHS:
                    raise LabError("service-gone", why=why)
                for job in sorted(waiting, key=lambda job: job.status.place or 0):
                    self._send(job)
            except LabError:
                lost, self._deaths = lost + waiting, 0
        self._fail(lost, LabError("service-gone", why=why))

    def _expected_s(self, job: _Job) -> float | None:
        running = self._running and self._remaining_s(self._running)
        if job.status.state == "running":
            return self._remaining_s(job)
        if job.status.state != "queued" or job.ahead_s is None or (self._running and running is None):
            return None
        return job.ahead_s + (running or 0.0)

    @staticmethod
    def _remaining_s(job: _Job) -> float | None:
        now = time.monotonic()
        facts = {"done": job.status.done, "phase_s": now - job.phase_begun, "elapsed_s": now - job.begun}
        return estimate.remaining_s({**facts, "estimate_s": job.estimate_s})

    def _remembered(self, job_id: str, browser: str) -> Status:
        """What the store says of a job that is not in memory."""
        try:
            job = self.store.job(job_id)
            owner = job.browser if job else ((run := self.store.run(job_id)) and run.browser)
        except LabError:
            if self.store.exists(job_id):
                return Status("done", done=1.0, result_id=job_id)
            raise
        own = owner is not None and _owns(browser, owner)
        if self.store.exists(job_id):
            return Status("done", done=1.0, result_id=job_id, own=own)
        if job is None or (job.result_id and not self.store.exists(job.result_id)):
            return Status("unknown")  # or cleaned up since
        if job.state in ACTIVE and not is_alive(job.app):
            _try(self.store.fail_jobs_of, job.app)
            return Status("failed", error=LabError("app-stopped").as_dict(), own=own)
        done = 1.0 if job.state == "done" else 0.0
        return Status(job.state, done=done, error=job.error, result_id=job.result_id, answered=job.answered, own=own)


_load = lru_cache(maxsize=32)(files.read_result)


def _owns(browser: str, owner: str) -> bool:
    return owner == "" or hashed(browser) == owner


def _try(work, *arguments, **named) -> None:
    """The store's own troubles must not stop a measurement."""
    try:
        work(*arguments, **named)
    except LabError as error:
        _log(error)


def _log(error: LabError) -> None:
    print(f"engine: {error}", file=sys.stderr, flush=True)


_client = Client()
atexit.register(lambda: _client.stop())


def start() -> None:
    """See `Client.start`."""
    _client.start()


def stop() -> None:
    """See `Client.stop`."""
    _client.stop()


def submit(scenario, *, browser: str = "", again: bool = False) -> str:
    """See `Client.submit`."""
    return _client.submit(scenario, browser=browser, again=again)


def fetch(name: str, *, browser: str = "") -> str:
    """See `Client.fetch`."""
    return _client.fetch(name, browser=browser)


def cancel(job_id: str, browser: str = "") -> bool:
    """See `Client.cancel`."""
    return _client.cancel(job_id, browser)


def status(job_id: str, browser: str = "") -> Status:
    """See `Client.status`."""
    return _client.status(job_id, browser)


def live(job_id: str) -> dict | None:
    """See `Client.live`."""
    return _client.live(job_id)


def result(run_id: str) -> dict | None:
    """See `Client.result`."""
    return _client.result(run_id)


def runs(browser: str, limit: int = 20, kind: str | None = None) -> list[StoredRun]:
    """See `Client.runs`."""
    return _client.runs(browser, limit, kind)


def stored(run_id: str) -> StoredRun | None:
    """See `Client.stored`."""
    return _client.stored(run_id)


def pin(run_id: str, wanted: bool) -> None:
    """See `Client.pin`."""
    _client.pin(run_id, wanted)


def learner(browser: str) -> Learner:
    """See `Client.learner`."""
    return _client.learner(browser)


def progress(browser: str) -> dict[str, dict]:
    """See `Client.progress`."""
    return _client.progress(browser)


def note_progress(browser: str, topic: str, record: dict) -> None:
    """See `Client.note_progress`."""
    _client.note_progress(browser, topic, record)


def new_resume_code(browser: str) -> str:
    """See `Client.new_resume_code`."""
    return _client.new_resume_code(browser)


def resume(browser: str, code: str) -> None:
    """See `Client.resume`."""
    _client.resume(browser, code)


def leave(browser: str) -> None:
    """See `Client.leave`."""
    _client.leave(browser)


def erase(browser: str, runs: bool = False) -> None:
    """See `Client.erase`."""
    _client.erase(browser, runs)


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
