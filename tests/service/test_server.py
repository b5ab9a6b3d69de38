"""The queue of the service, with experiments replaced by ones that end when the test says so."""

import errno
import shutil
import threading
import time
from collections import namedtuple
from importlib.metadata import version

import pytest

import engine
from engine.errors import LabError
from engine.experiments.scenarios import RequestGroup, SchedulesScenario
from engine.experiments.sweep_scenarios import sweep_for
from engine.service import files, kinds
from engine.service import server as server_module
from engine.service.server import Server
from engine.service.store import Store, hashed
from engine.serving.cluster import Cancelled
from tests.service.test_store import held
from tests.service.test_store import result as result_of

SCENARIO = SchedulesScenario("test", (RequestGroup("chat", 1, 10, 5),), model="random-tiny", text="korean", device="cpu", dtype="float32")


VERSIONS = {"engine": engine.__version__, "torch": version("torch")}


class Desk:
    """A server in a thread, and experiments that wait for `end(id, outcome)`. Ids are padded to those of runs."""

    def __init__(self, monkeypatch, store):
        self.records, self.outcomes, self.begun, self.traced = [], {}, [], []
        self.store = store
        self.changed = threading.Condition()
        monkeypatch.setattr(server_module, "RUNNERS", {"schedules": self.run})
        self.server = Server(self.write, store, lambda *record: self.traced.append(record))
        self.thread = threading.Thread(target=self.server.work, daemon=True)
        self.thread.start()

    def write(self, record):
        with self.changed:
            self.records.append(record)
            self.changed.notify_all()

    @property
    def saved(self):
        return [run.id.rstrip("-") for run in reversed(self.store.runs())]

    def run(self, scenario, *, progress, on_plan, on_record, cancelled, wait, cluster_for, run_id):
        name = run_id.rstrip("-")
        with self.changed:
            self.begun.append(name)
            on_plan({"kind": "schedules"})
            progress("measuring", 0.5, schedule="unified")
            on_record("unified", 0, {"type": "start", "at_ns": 5})
            while name not in self.outcomes:
                self.changed.wait(0.01)
                if cancelled() and name not in self.outcomes:
                    raise Cancelled
            outcome = self.outcomes[name]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome or result_of(run_id, scenario)

    def submit(self, *names, browser="", again=True, **changes):
        """Jobs that are measured each, unless `again` says otherwise."""
        for name in names:
            record = SCENARIO.changed(changes).as_dict()
            self.store.put_job(padded(name), browser=hashed(browser), kind="schedules", scenario=record, app="")
            self.server.take({"do": "submit", "id": padded(name), "kind": "schedules", "scenario": record, "browser": hashed(browser), "again": again})

    def cancel(self, name):
        self.server.take({"do": "cancel", "id": padded(name)})

    def end(self, name, outcome=None):
        with self.changed:
            self.outcomes[name] = outcome
            self.changed.notify_all()

    def last(self, name) -> dict:
        return next((r for r in reversed(self.records) if r["id"] == padded(name) and "state" in r), {})

    def wait_for(self, name, state, **rest):
        def found():
            record = self.last(name)
            return record.get("state") == state and all(record.get(key) == value for key, value in rest.items())

        with self.changed:
            assert self.changed.wait_for(found, timeout=60), (name, state, rest, self.records)
        return self.last(name)


def padded(name) -> str:
    return name.ljust(16, "-")


@pytest.fixture
def desk(monkeypatch, tmp_path):
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    made = Desk(monkeypatch, Store(wait_s=0.2))
    yield made
    made.server.close()
    made.thread.join(timeout=60)
    assert not made.thread.is_alive()


def test_first_come_first_served_one_at_a_time(desk):
    """Two measurements at once would both be wrong; out of order, somebody waits for ever."""
    desk.submit("a")
    desk.wait_for("a", "running")
    desk.submit("b", "c")
    desk.wait_for("b", "queued", place=1)
    desk.wait_for("c", "queued", place=2)
    assert desk.begun == ["a"]
    desk.end("a")
    desk.wait_for("a", "done", done=1.0)
    desk.wait_for("b", "running", phase="measuring")
    desk.wait_for("c", "queued", place=1)
    desk.end("c")
    assert desk.begun == ["a", "b"]
    desk.end("b")
    desk.wait_for("c", "done")
    assert desk.saved == desk.begun == ["a", "b", "c"]


def test_a_result_is_stored_before_it_is_announced(desk, monkeypatch):
    """A page that follows the announcement must find it."""
    stored = []
    save = desk.store.save

    def watched(result, browser):
        stored.append([r["state"] for r in desk.records if "state" in r])
        save(result, browser)

    monkeypatch.setattr(desk.store, "save", watched)
    desk.submit("a", browser="me")
    desk.end("a")
    desk.wait_for("a", "done", result_id=padded("a"), answered=False)
    assert len(stored) == 1 and "done" not in stored[0]
    assert desk.store.runs()[0].browser == hashed("me") and desk.store.job(padded("a")).state == "done"


def test_cancelling_one_that_waits(desk):
    """It must not run after all, and those behind it move up."""
    desk.submit("a", "b", "c")
    desk.wait_for("c", "queued", place=2)
    desk.cancel("b")
    desk.wait_for("b", "cancelled")
    desk.wait_for("c", "queued", place=1)
    desk.end("a")
    desk.end("c")
    desk.wait_for("c", "done")
    assert desk.begun == ["a", "c"] and desk.saved == ["a", "c"]


def test_cancelling_the_one_that_runs(desk):
    """Its result must not appear, and the next one begins."""
    desk.submit("a", "b")
    desk.wait_for("a", "running")
    desk.cancel("a")
    desk.wait_for("a", "cancelled")
    desk.wait_for("b", "running")
    desk.end("b")
    desk.wait_for("b", "done")
    assert desk.saved == ["b"]


def test_cancelling_what_is_not_there_is_harmless(desk):
    """A cancel that comes too late must not hit the job that runs now."""
    desk.submit("a")
    desk.end("a")
    desk.wait_for("a", "done")
    desk.cancel("a")
    desk.cancel("nobody")
    desk.submit("b")
    desk.end("b")
    desk.wait_for("b", "done")
    assert desk.last("a")["state"] == "done"


@pytest.mark.parametrize(
    "outcome, code",
    [(LabError("worker-died", worker="decode-0", exit="signal 9", last_words=""), "worker-died"), (RuntimeError("a bug"), "worker-error"),
     (MemoryError(), "worker-error"), (RecursionError(), "worker-error")],
)  # fmt: skip
def test_a_job_that_fails_is_told_with_its_reason_and_the_next_one_runs(desk, outcome, code):
    """A bug in one job must not end the service, nor leave its page waiting."""
    desk.submit("a", "b")
    desk.end("a", outcome)
    record = desk.wait_for("a", "failed")
    assert record["error"]["code"] == code and record["error"]["message"]
    desk.end("b")
    desk.wait_for("b", "done")
    assert desk.saved == ["b"]


def test_a_full_disk_fails_its_job_and_leaves_nothing(desk, monkeypatch):
    """Announced as done, its link would lead nowhere; and the next one must run once there is room again."""
    with monkeypatch.context() as full:
        full.setattr("engine.service.files.os.fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        desk.submit("a")
        desk.end("a")
        error = desk.wait_for("a", "failed")["error"]
    assert error["code"] == "store-unwritable" and "No space left" in error["message"]
    assert [path.name for path in desk.store.folder.iterdir() if not path.name.startswith("runs.db")] == []
    assert desk.store.job(padded("a")).error["code"] == "store-unwritable"
    desk.submit("b")
    desk.end("b")
    desk.wait_for("b", "done")
    assert desk.saved == ["b"]


def test_a_disk_that_is_nearly_full_is_told_before_anything_is_measured(desk, monkeypatch):
    """Minutes of measuring for a result that cannot be kept."""
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda _: usage(10**9, 10**9 - 1000, 1000))
        desk.submit("a")
        error = desk.wait_for("a", "failed")["error"]
    assert error["code"] == "disk-full" and error["facts"]["free_bytes"] == 1000 and desk.begun == []
    desk.submit("b")
    desk.end("b")
    desk.wait_for("b", "done")


def test_a_scenario_that_is_none_fails_its_job_only(desk):
    """A page of an older version must not end the service for all."""
    for name, kind, code in (("a", "schedules", "scenario-field"), ("c", "nonsense", "job-not-allowed")):
        desk.server.take({"do": "submit", "id": padded(name), "kind": kind, "scenario": {"workload": "x", "nonsense": 1}})
        assert desk.wait_for(name, "failed")["error"]["code"] == code
    desk.submit("b")
    desk.end("b")
    desk.wait_for("b", "done")


def test_a_cancel_that_looks_like_a_failure_is_a_cancel(desk):
    """Whoever cancels while the device is busy gets the lock's refusal: his page must not call that an error."""
    desk.submit("a")
    desk.wait_for("a", "running")
    with desk.changed:
        desk.cancel("a")
        desk.outcomes["a"] = LabError("device-busy", device="cpu", holder="somebody")
    desk.wait_for("a", "cancelled")


def test_fetches_wait_their_turn_and_tell_their_progress(desk, monkeypatch):
    """A download in the middle of a measurement would disturb it."""
    fetched = []

    def fetch(name, progress):
        progress(0, None)
        progress(50, 200)
        time.sleep(0.15)  # reports are at most ten a second
        progress(100, 200)
        fetched.append(name)

    monkeypatch.setattr(server_module, "fetch", fetch)
    desk.submit("a")
    desk.server.take({"do": "fetch", "id": padded("f"), "kind": "fetch", "name": "kjv"})
    desk.wait_for("f", "queued", place=1)
    assert fetched == []
    desk.end("a")
    assert "result_id" not in desk.wait_for("f", "done")
    shares = [r["done"] for r in desk.records if r["id"] == padded("f") and r.get("phase") == "fetching"]
    assert fetched == ["kjv"] and shares and shares[-1] == 0.5


def test_a_fetch_can_be_cancelled(desk, monkeypatch):
    """A hundred megabytes over a slow line block the queue for long."""
    def fetch(name, progress):
        for done in range(1000):
            time.sleep(0.01)
            progress(done, 1000)

    monkeypatch.setattr(server_module, "fetch", fetch)
    desk.server.take({"do": "fetch", "id": padded("f"), "kind": "fetch", "name": "kjv"})
    desk.wait_for("f", "running", phase="fetching")
    desk.cancel("f")
    desk.wait_for("f", "cancelled")


def test_closing_drops_the_queue_and_cancels_what_runs(desk):
    """With the app gone nobody waits for the rest of the queue."""
    desk.submit("a", "b")
    desk.wait_for("a", "running")
    desk.server.close()
    desk.thread.join(timeout=60)
    assert not desk.thread.is_alive() and desk.begun == ["a"] and desk.saved == []


class StandIn:
    """A cluster that only remembers whether it was stopped."""

    def __init__(self, deployment):
        self.deployment, self.alive, self.stopped = deployment, True, False

    def stop(self):
        self.stopped, self.alive = True, False


def test_workers_are_kept_for_the_same_deployment_and_replaced_for_another_or_when_dead(monkeypatch):
    """Kept for another model they would serve the wrong one; dead ones would fail every later job."""
    monkeypatch.setattr(server_module, "Cluster", StandIn)
    server = Server(lambda record: None, None)
    first = server._cluster_for("one")
    assert server._cluster_for("one") is first
    second = server._cluster_for("another")
    assert second is not first and first.stopped
    second.alive = False
    third = server._cluster_for("another")
    assert third is not second and third.deployment == "another"


def test_browsers_take_turns(desk):
    """One reader with five runs must not keep the class waiting."""
    desk.submit("a1", "a2", "a3", browser="a")
    desk.wait_for("a1", "running")
    desk.submit("b1", browser="b")
    desk.wait_for("b1", "queued", place=1)
    desk.wait_for("a2", "queued", place=2)
    for name in ("a1", "b1", "a2", "a3"):
        desk.end(name)
    desk.wait_for("a3", "done")
    assert desk.begun == ["a1", "b1", "a2", "a3"]


def test_an_equal_job_is_answered_when_its_turn_comes(desk):
    """A class that presses Run at once waits for one measurement, not for thirty; who wants another one gets it."""
    desk.submit("a", again=False)
    desk.wait_for("a", "running")
    desk.submit("b", again=False, browser="b")
    desk.submit("c", again=True, browser="c")
    desk.submit("d", again=False, browser="d", seed=1)
    desk.wait_for("b", "queued", place=1)
    desk.end("a", result_of(padded("a"), SCENARIO, versions=VERSIONS))
    desk.wait_for("b", "done", answered=True, result_id=padded("a"))
    job = desk.store.job(padded("b"))
    assert (job.state, job.answered, job.result_id) == ("done", True, padded("a"))
    for name in ("c", "d"):
        desk.end(name)
        desk.wait_for(name, "done", answered=False, result_id=padded(name))
    assert desk.begun == ["a", "c", "d"]
    assert [run.id for run in desk.store.runs(hashed("b"))] == [padded("a")], "it is one of its runs, too"


def test_own_texts_are_measured_every_time(desk):
    """The result holds the text; it must not be found by another who guesses the same settings."""
    own = "own:" + "0" * 64
    desk.submit("a", "b", again=False, text=own)
    for name in ("a", "b"):
        desk.end(name, result_of(padded(name), SCENARIO.changed({"text": own}), versions=VERSIONS))
        desk.wait_for(name, "done", answered=False, result_id=padded(name))
    assert desk.begun == ["a", "b"]


def test_a_result_that_is_there_already_is_not_measured_again(desk):
    """A service that was killed between storing and telling: the next one is given the job once more."""
    files.write_result(desk.store.folder, result_of(padded("a")))
    desk.submit("a")
    desk.wait_for("a", "done", result_id=padded("a"), answered=False)
    assert desk.begun == []


def test_a_job_that_takes_too_long_is_ended(desk, monkeypatch):
    """One run without an end would be the last of the day; the next one gets its own time."""
    monkeypatch.setenv("LAB_JOB_LIMIT_S", "0.05")
    desk.submit("a")
    error = desk.wait_for("a", "failed")["error"]
    assert error["code"] == "run-too-long" and desk.store.job(padded("a")).state == "failed"
    monkeypatch.setenv("LAB_JOB_LIMIT_S", "60")
    desk.submit("b")
    desk.end("b")
    desk.wait_for("b", "done")


def test_waiting_for_the_device_is_not_counted(desk, monkeypatch):
    """A benchmark of half an hour on the command line would fail the jobs of all pages."""
    monkeypatch.setenv("LAB_JOB_LIMIT_S", "0.05")

    def waits(scenario, *, progress, cancelled, run_id, **_):
        progress("waiting", 0.0, holder="a benchmark")
        time.sleep(0.15)
        assert not cancelled()
        progress("starting-workers", 0.0)
        return result_of(run_id)

    monkeypatch.setitem(server_module.RUNNERS, "schedules", waits)
    desk.submit("a")
    desk.wait_for("a", "done")


@pytest.mark.parametrize("value, seconds", [("", 1200), ("60", 60), ("0", 1200), ("-1", 1200), ("nan", 1200), ("x", 1200)])
def test_a_limit_that_is_none(monkeypatch, value, seconds):
    """A typing error in a setting must not end every run at once."""
    monkeypatch.setenv("LAB_JOB_LIMIT_S", value)
    assert server_module.limit_s() == seconds


def test_how_long_is_told_once_something_is_known(desk):
    """Before the first run nothing is known, and nothing is claimed; then each knows its own and what is ahead of it."""
    desk.submit("a")
    desk.wait_for("a", "running")
    desk.submit("b", "c")
    assert desk.last("c")["estimate_s"] is None and desk.last("c")["ahead_s"] is None
    desk.end("a", result_of(padded("a"), SCENARIO, versions=VERSIONS))
    desk.wait_for("b", "running")
    desk.submit("d", "e")
    assert desk.wait_for("c", "queued", place=1, estimate_s=2.5)["ahead_s"] == 0
    assert desk.wait_for("e", "queued", place=3)["ahead_s"] == 5.0
    for name in "bcde":
        desk.end(name)
    desk.wait_for("e", "done")


@pytest.mark.parametrize("kind", ["chunk-sweep", "backlog"])
def test_sweeps_are_run_stored_and_answered(desk, monkeypatch, kind):
    """Their results have points in place of schedules: they used to be no results."""
    scenario = sweep_for(kind, "cpu", model="random-tiny", text="korean", device="cpu", dtype="float32")
    points = [{"value": 64, "metrics": {"ttft_s": 1.0, "kv_peak_bytes": 5}, "load": 1.5}]

    def run(scenario, *, run_id, **_):
        desk.begun.append(run_id)
        found = result_of(run_id, scenario, versions=VERSIONS)
        del found["schedules"]
        return {**found, "kind": scenario.kind, "points": points}

    monkeypatch.setitem(server_module.RUNNERS, kind, run)
    for name in "ab":
        desk.server.take({"do": "submit", "id": padded(name), "kind": kind, "scenario": scenario.as_dict(), "browser": ""})
        desk.wait_for(name, "done", result_id=padded("a"), answered=name == "b")
    (stored,) = desk.store.runs()
    assert (stored.kind, stored.title, stored.summary) == (kind, kind, {"64": {"ttft_s": 1.0, "load": 1.5}})
    assert desk.store.load(padded("a"))["points"] == points and desk.begun == [padded("a")]
    assert desk.store.past(kind, kinds.device_key_here(scenario))[0].work == scenario.total_tokens * scenario.repeats


def test_what_runs_is_told_as_it_happens(desk):
    """The plan before the records, all of them with their job."""
    desk.submit("a")
    desk.end("a")
    desk.wait_for("a", "done")
    (plan,) = [record for record in desk.records if "live" in record]
    assert plan == {"id": padded("a"), "live": {"plan": {"kind": "schedules"}}}
    assert desk.traced == [(padded("a"), "unified", 0, {"type": "start", "at_ns": 5})]


def test_a_new_phase_is_told_at_once(desk, monkeypatch):
    """Short schedules used to be skipped, and the page never said that they were measured."""
    def quick(scenario, *, progress, run_id, **_):
        for schedule in ("unified", "chunked", "disaggregated"):
            for _ in range(100):
                progress("measuring", 0.5, schedule=schedule)
        return result_of(run_id)

    monkeypatch.setitem(server_module.RUNNERS, "schedules", quick)
    desk.submit("a")
    desk.wait_for("a", "done")
    told = [record["facts"]["schedule"] for record in desk.records if record.get("phase") == "measuring"]
    assert sorted(set(told)) == ["chunked", "disaggregated", "unified"] and len(told) < 30


def test_an_index_that_is_held_costs_no_result(desk, tmp_path, monkeypatch):
    """The file is on disk; its row comes when the other process lets go, without a restart."""
    monkeypatch.setattr(server_module, "_OWED_S", 0.05)
    desk.submit("a", browser="me")
    desk.wait_for("a", "running")
    with held(tmp_path / "home" / "runs" / "runs.db", "BEGIN EXCLUSIVE"):
        desk.end("a")
        desk.wait_for("a", "done", result_id=padded("a"))
        assert desk.store.load(padded("a")) and desk.saved == []
    deadline = time.monotonic() + 60
    while desk.saved != ["a"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert desk.store.runs(hashed("me"))


def test_more_than_may_wait_is_refused(desk):
    """The page refuses it first; a client that does not must not fill the service."""
    desk.submit("first")
    desk.wait_for("first", "running")
    desk.submit(*[f"job-{number}" for number in range(21)], browser="b")
    assert desk.wait_for("job-20", "failed")["error"]["code"] == "queue-full"
    desk.wait_for("job-19", "queued", place=20)


def test_the_end_of_the_app_is_no_cancel(desk):
    """Whoever asks after the restart is to be told that the app ended, not that somebody cancelled."""
    desk.submit("a", "b")
    desk.wait_for("a", "running")
    desk.server.close()
    desk.thread.join(timeout=60)
    assert [desk.store.job(padded(name)).state for name in "ab"] == ["queued", "queued"]
    assert desk.last("a")["state"] == "running" and desk.last("b")["state"] == "queued"
