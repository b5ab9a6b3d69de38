"""Streaming and needle as jobs of the service: measured, told, stored, answered, cancelled; own texts stay private."""

import psutil
import pytest

from engine.errors import LabError
from engine.experiments.needle_scenario import NeedleScenario, needle_for
from engine.experiments.streaming_scenario import StreamingScenario, streaming_for
from engine.service import client, kinds
from engine.service.estimate import Past, duration_s, work_of
from engine.service.server import RUNNERS, WITHOUT_WORKERS, Server, _Job
from engine.service.store import Store
from engine.texts import keep_own_text
from tests.service.jobs import processes, wait_for, wait_for_view
from tests.service.test_server import StandIn, padded
from tests.service.test_store import result as result_of

TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32", "text": "pydoc"}
STREAM = StreamingScenario(300, 48, sinks=(0, 4), points=4, decode_tokens=40, **TINY)
NEEDLE = NeedleScenario(4, 500, 320, distractors=1, **TINY)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def test_a_day_at_the_service(service):
    """Measured, told, stored, answered to the next one, cancelled: in one go, since every start costs seconds."""
    for scenario, body in ((STREAM, "curves"), (NEEDLE, "cells")):
        first = client.submit(scenario, browser="a")
        wait_for(first, "running", "measuring")
        wait_for(first, "done")
        result = client.result(first)
        assert result["run_id"] == first and result["kind"] == scenario.kind and result[body]
        (run,) = client.runs("a", kind=scenario.kind)
        assert (run.id, run.title, run.summary) == (first, scenario.kind, {})
        assert client.submit(scenario, browser="b") == first, "an equal one is answered from the store"
    again = client.submit(STREAM.changed({"tokens": 8000, "window": 2000, "points": 200}), browser="b")
    wait_for(again, "running", "measuring")
    view = wait_for_view(again, "curves")
    assert view["schedules"] == {} and view["first_eviction"] == 2000 and view["curves"]["dense"]["bins"][0][0] == 0
    measuring = [process for process in processes(service) if "streaming_worker" in " ".join(process.cmdline())]
    assert client.cancel(again, "b")
    wait_for(again, "cancelled")
    _, alive = psutil.wait_procs(measuring, timeout=10)
    assert measuring and alive == [] and not Store().exists(again) and client.live(again) is None


@pytest.mark.parametrize("scenario", [STREAM, NEEDLE], ids=lambda scenario: scenario.kind)
def test_they_are_known_to_the_service(scenario):
    """A kind that is missing in one of the tables fails when its page is opened."""
    assert scenario.kind in RUNNERS and kinds.scenario_of(scenario.kind, scenario.as_dict()) == scenario
    assert kinds.device_key_here(scenario) == kinds.device_key_here(streaming_for(device="cpu", dtype="float32"))
    preset = {"streaming": streaming_for, "needle": needle_for}[scenario.kind]("cpu")
    assert duration_s(preset.key(), work_of(preset), [Past(preset.key(), 1, 25.0)]) == 25.0
    assert work_of(scenario) == scenario.total_tokens


@pytest.mark.parametrize("scenario", [STREAM, NEEDLE], ids=lambda scenario: scenario.kind)
def test_somebodys_own_text_is_never_handed_to_others(scenario):
    """The needle's result quotes from it."""
    own = keep_own_text("Something nobody else should read. ".encode() * 50)
    assert not kinds.is_private(scenario) and kinds.is_private(scenario.changed({"text": own})) and kinds.is_private(scenario.changed({"model": "/my/model"}))


@pytest.mark.parametrize("scenario", [STREAM, NEEDLE], ids=lambda scenario: scenario.kind)
def test_no_files_of_the_server_by_path(home, scenario):
    """A page must not make the server read what it names."""
    for changes in ({"model": str(home / "model")}, {"text": "/etc/hostname"}):
        with pytest.raises(LabError) as caught:
            client.Client().submit(scenario.changed(changes))
        assert caught.value.code == "job-not-allowed"


@pytest.mark.parametrize("scenario", [STREAM, NEEDLE], ids=lambda scenario: scenario.kind)
def test_workers_that_stand_ready_make_room(monkeypatch, scenario):
    """Three of them beside it, each with its model, are more than a small machine has."""
    stopped = []
    monkeypatch.setitem(RUNNERS, scenario.kind, lambda scenario, **_: stopped.append(server._cluster) or result_of(padded("a"), scenario))
    server = Server(lambda record: None, Store())
    ready = server._cluster = StandIn("one")
    server._measure(_Job(padded("a"), {"kind": scenario.kind, "scenario": scenario.as_dict()}))
    assert ready.stopped and stopped == [None] and scenario.kind in WITHOUT_WORKERS
