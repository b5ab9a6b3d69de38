"""The queue of the service, with experiments replaced by ones that end when the test says so."""

import threading
import time

import pytest

from engine.errors import LabError
from engine.experiments.scenarios import RequestGroup, SchedulesScenario
from engine.service import server as server_module
from engine.service.server import Server
from engine.serving.cluster import Cancelled

SCENARIO = SchedulesScenario("test", (RequestGroup("chat", 1, 10, 5),), model="random-tiny", text="korean").as_dict()


class Desk:
    """A server in a thread, and experiments that wait for `end(id, outcome)`."""

    def __init__(self, monkeypatch):
        self.records, self.saved, self.outcomes, self.begun = [], [], {}, []
        self.changed = threading.Condition()
        monkeypatch.setattr(server_module, "run_schedules", self.run)
        monkeypatch.setattr(server_module.store, "save", self.save)
        self.server = Server(self.write)
        self.thread = threading.Thread(target=self.server.work, daemon=True)
        self.thread.start()

    def write(self, record):
        with self.changed:
            self.records.append(record)
            self.changed.notify_all()

    def save(self, result):
        if isinstance(result, Exception):
            raise result
        self.saved.append(result["run_id"])

    def run(self, scenario, *, progress, cancelled, cluster_for, run_id):
        with self.changed:
            self.begun.append(run_id)
            progress("measuring", 0.5, schedule="unified")
            while run_id not in self.outcomes:
                self.changed.wait(0.01)
                if cancelled() and run_id not in self.outcomes:
                    raise Cancelled
            outcome = self.outcomes[run_id]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome or {"run_id": run_id}

    def submit(self, *names):
        for name in names:
            self.server.take({"do": "submit", "id": name, "scenario": SCENARIO})

    def end(self, name, outcome=None):
        with self.changed:
            self.outcomes[name] = outcome
            self.changed.notify_all()

    def last(self, name) -> dict:
        return next((r for r in reversed(self.records) if r["id"] == name), {})

    def wait_for(self, name, state, **rest):
        def found():
            record = self.last(name)
            return record.get("state") == state and all(record.get(key) == value for key, value in rest.items())

        with self.changed:
            assert self.changed.wait_for(found, timeout=5), (name, state, rest, self.records)
        return self.last(name)


@pytest.fixture
def desk(monkeypatch):
    made = Desk(monkeypatch)
    yield made
    made.server.close()
    made.thread.join(timeout=5)
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
    desk.wait_for("b", "running")
    desk.wait_for("c", "queued", place=1)
    desk.end("c")
    assert desk.begun == ["a", "b"]
    desk.end("b")
    desk.wait_for("c", "done")
    assert desk.saved == desk.begun == ["a", "b", "c"]


def test_a_result_is_stored_before_it_is_announced(desk, monkeypatch):
    """A page that follows the announcement must find it."""
    stored = []
    monkeypatch.setattr(server_module.store, "save", lambda result: stored.append([r["state"] for r in desk.records if r["id"] == "a"]))
    desk.submit("a")
    desk.end("a")
    desk.wait_for("a", "done")
    assert len(stored) == 1 and "done" not in stored[0]


def test_cancelling_one_that_waits(desk):
    """It must not run after all, and those behind it move up."""
    desk.submit("a", "b", "c")
    desk.wait_for("c", "queued", place=2)
    desk.server.take({"do": "cancel", "id": "b"})
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
    desk.server.take({"do": "cancel", "id": "a"})
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
    desk.server.take({"do": "cancel", "id": "a"})
    desk.server.take({"do": "cancel", "id": "nobody"})
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


def test_a_result_that_cannot_be_stored_is_a_failed_job(desk):
    """Announced as done, its link would lead nowhere."""
    desk.submit("a")
    desk.end("a", LabError("store-unwritable", path="x", why="full"))
    assert desk.wait_for("a", "failed")["error"]["code"] == "store-unwritable"


def test_a_scenario_that_is_none_fails_its_job_only(desk):
    """A page of an older version must not end the service for all."""
    desk.server.take({"do": "submit", "id": "a", "scenario": {"workload": "x", "nonsense": 1}})
    assert desk.wait_for("a", "failed")["error"]["code"] == "scenario-field"
    desk.submit("b")
    desk.end("b")
    desk.wait_for("b", "done")


def test_a_cancel_that_looks_like_a_failure_is_a_cancel(desk):
    """Whoever cancels while the device is busy gets the lock's refusal: his page must not call that an error."""
    desk.submit("a")
    desk.wait_for("a", "running")
    with desk.changed:
        desk.server.take({"do": "cancel", "id": "a"})
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
    desk.server.take({"do": "fetch", "id": "f", "name": "kjv"})
    desk.wait_for("f", "queued", place=1)
    assert fetched == []
    desk.end("a")
    desk.wait_for("f", "done")
    shares = [r["done"] for r in desk.records if r["id"] == "f" and r.get("phase") == "fetching"]
    assert fetched == ["kjv"] and shares and shares[-1] == 0.5


def test_a_fetch_can_be_cancelled(desk, monkeypatch):
    """A hundred megabytes over a slow line block the queue for long."""
    def fetch(name, progress):
        for done in range(1000):
            time.sleep(0.01)
            progress(done, 1000)

    monkeypatch.setattr(server_module, "fetch", fetch)
    desk.server.take({"do": "fetch", "id": "f", "name": "kjv"})
    desk.wait_for("f", "running", phase="fetching")
    desk.server.take({"do": "cancel", "id": "f"})
    desk.wait_for("f", "cancelled")


def test_closing_drops_the_queue_and_cancels_what_runs(desk):
    """With the app gone nobody waits for the rest of the queue."""
    desk.submit("a", "b")
    desk.wait_for("a", "running")
    desk.server.close()
    desk.thread.join(timeout=5)
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
    server = Server(lambda record: None)
    first = server._cluster_for("one")
    assert server._cluster_for("one") is first
    second = server._cluster_for("another")
    assert second is not first and first.stopped
    second.alive = False
    third = server._cluster_for("another")
    assert third is not second and third.deployment == "another"
