"""A roofline as a job of the service: an experiment without a text and without workers of the cluster."""

import time
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.experiments.roofline_scenario import RooflineScenario, roofline_for
from engine.experiments.scenarios import scenario_for
from engine.service import client, kinds
from engine.service.estimate import Past, duration_s, work_of
from engine.service.server import RUNNERS, Server, _Job
from engine.service.store import Store
from tests.service.test_server import StandIn, padded
from tests.service.test_store import result as result_of

SCENARIO = RooflineScenario((16,), (1, 2), (30,), model="random-tiny", device="cpu", dtype="float32", repeats=1)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def service(home, monkeypatch):
    """A client with a service of this test's own; nothing of it may be left."""
    made = client.Client()
    monkeypatch.setattr(client, "_client", made)
    yield made
    family = processes(made)
    made.stop()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE], "a process was left behind"


def processes(service) -> list[psutil.Process]:
    parent = psutil.Process(service._link.process.pid)
    return [parent, *parent.children(recursive=True)]


def wait_for(run_id, state, phase=None):
    deadline = time.monotonic() + 60
    while (status := client.status(run_id)).state != state or phase not in (None, status.phase):
        assert status.active and time.monotonic() < deadline, status
        time.sleep(0.02)
    return status


def test_a_day_at_the_service(service):
    """Measured, told, stored, answered to the next one, estimated, cancelled: in one go, since every start costs seconds."""
    first = client.submit(SCENARIO, browser="a")
    wait_for(first, "running", "calibrating")
    wait_for(first, "done")
    result = client.result(first)
    assert result["run_id"] == first and len(result["points"]) == 9
    assert client.live(first) is None
    (run,) = client.runs("a", kind="roofline")
    assert (run.id, run.title, run.summary) == (first, "roofline", {})
    assert client.submit(SCENARIO, browser="b") == first, "an equal one is answered from the store"
    again = client.submit(SCENARIO.changed({"repeats": 20}), browser="b")
    wait_for(again, "running", "calibrating")
    assert client.live(again) is None, "nothing is served: a page that asks gets nothing, and no error"
    measuring = [process for process in processes(service) if "roofline_worker" in " ".join(process.cmdline())]
    assert client.cancel(again, "b")
    wait_for(again, "cancelled")
    _, alive = psutil.wait_procs(measuring, timeout=10)
    assert measuring and alive == [] and not Store().exists(again)


def test_it_is_known_to_the_service():
    """A kind that is missing in one of the tables fails when its page is opened."""
    assert "roofline" in RUNNERS and kinds.scenario_of("roofline", SCENARIO.as_dict()) == SCENARIO
    assert not kinds.is_private(SCENARIO) and kinds.is_private(SCENARIO.changed({"model": "/my/model"}))
    assert kinds.device_key_here(SCENARIO) == kinds.device_key_here(scenario_for("quick", device="cpu", dtype="float32"))


def test_workers_that_stand_ready_make_room(home, monkeypatch):
    """Three of them beside it, each with its model, are more than a small machine has."""
    stopped = []
    monkeypatch.setitem(RUNNERS, "roofline", lambda scenario, **_: stopped.append(server._cluster) or result_of(padded("a"), SCENARIO))
    server = Server(lambda record: None, Store())
    ready = server._cluster = StandIn("one")
    server._measure(_Job(padded("a"), {"kind": "roofline", "scenario": SCENARIO.as_dict()}))
    assert ready.stopped and stopped == [None]


def test_about_how_long():
    """By its new tokens, repeats counted."""
    assert work_of(SCENARIO.changed({"repeats": 3})) == 3 * (16 + 1 + 2)
    preset = roofline_for("cpu")
    assert duration_s(preset.key(), work_of(preset), [Past(preset.key(), 1, 25.0)]) == 25.0


def test_no_files_of_the_server_by_path(home):
    """A page must not make the server read what it names."""
    with pytest.raises(LabError) as caught:
        client.Client().submit(SCENARIO.changed({"model": str(Path(home) / "model")}))
    assert caught.value.code == "job-not-allowed"
