"""Lengths and retrieval as jobs of the service: measured, told cell by cell, stored, answered, cancelled."""

import psutil
import pytest

from engine.errors import LabError
from engine.experiments.lengths_scenario import lengths_for
from engine.experiments.retrieval_scenario import RetrievalScenario, retrieval_for
from engine.service import client, kinds
from engine.service.estimate import Past, duration_s, work_of
from engine.service.server import RUNNERS, WITHOUT_WORKERS
from engine.service.store import Store
from tests.experiments.test_lengths import SMALL
from tests.experiments.test_retrieval import scenario_in
from tests.service.jobs import processes, wait_for, wait_for_view

NEEDLES = RetrievalScenario(text="pydoc", model="random-tiny", device="cpu", dtype="float32")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def test_a_day_at_the_service(service, tmp_path):
    """Measured, told, stored, answered to the next one, cancelled: in one go, since every start costs seconds."""
    for scenario in (SMALL, scenario_in(tmp_path / "model")):
        first = client.submit(scenario, browser="a")
        wait_for(first, "done")
        result = client.result(first)
        assert result["run_id"] == first and result["kind"] == scenario.kind and result["cells"]
        (run,) = client.runs("a", kind=scenario.kind)
        assert (run.id, run.title, run.summary) == (first, scenario.kind, {})
    assert client.submit(SMALL, browser="a") == client.submit(SMALL, browser="b"), "an equal one is answered from the store"
    for scenario in (
        SMALL.changed({"lengths": [64, 32_768], "samples": 3}),
        scenario_in(tmp_path / "model").changed({"lengths": [64, 4096], "trials": 100}),
    ):
        running = client.submit(scenario, browser="b")
        wait_for(running, "running", "measuring")
        view = wait_for_view(running, "cells")
        assert view["schedules"] == view["curves"] == {} and view["lengths"] == list(scenario.lengths) and view["trained"] >= 64
        assert view["cells"][0]["length"] == 64 and view["cells"][0]["method"] == scenario.methods[0]
        module = f"{scenario.kind}_worker"
        measuring = [process for process in processes(service) if module in " ".join(process.cmdline())]
        assert client.cancel(running, "b")
        wait_for(running, "cancelled")
        _, alive = psutil.wait_procs(measuring, timeout=10)
        assert measuring and alive == [] and not Store().exists(running) and client.live(running) is None


@pytest.mark.parametrize("scenario", [SMALL, NEEDLES], ids=lambda scenario: scenario.kind)
def test_they_are_known_to_the_service(scenario):
    """A kind that is missing in one of the tables fails when its page is opened; workers that stand ready make room for it."""
    assert scenario.kind in RUNNERS and scenario.kind in WITHOUT_WORKERS
    assert kinds.scenario_of(scenario.kind, scenario.as_dict()) == scenario
    preset = {"lengths": lengths_for, "retrieval": retrieval_for}[scenario.kind]("cpu")
    assert duration_s(preset.key(), work_of(preset), [Past("other", 2 * work_of(preset), 30.0)]) == pytest.approx(15.0)
    assert work_of(scenario) == scenario.total_tokens


@pytest.mark.parametrize("scenario", [SMALL, NEEDLES], ids=lambda scenario: scenario.kind)
def test_no_files_of_the_server_by_path(home, scenario):
    """A page must not make the server read what it names; somebody's own text is never handed to others."""
    assert not kinds.is_private(scenario) and kinds.is_private(scenario.changed({"text": "own:" + "0" * 64}))
    for changes in ({"model": str(home / "model")}, {"text": "/etc/hostname"}):
        with pytest.raises(LabError) as caught:
            client.Client().submit(scenario.changed(changes))
        assert caught.value.code == "job-not-allowed"
