"""Attention maps as a job of the service: somebody's own text stays somebody's own, an equal run is answered from the store."""

import time
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.experiments.attention_scenario import AttentionScenario, attention_for
from engine.experiments.scenarios import scenario_for
from engine.service import client, kinds
from engine.service.estimate import work_of
from engine.service.files import read_result, write_result
from engine.service.server import RUNNERS
from engine.service.store import Store

SCENARIO = AttentionScenario(30, "korean", model="random-tiny", device="cpu", dtype="float32")


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
    parent = psutil.Process(made._link.process.pid)
    family = [parent, *parent.children(recursive=True)]
    made.stop()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE], "a process was left behind"


def wait_for(run_id, state):
    deadline, phases = time.monotonic() + 60, []
    while (status := client.status(run_id)).state != state:
        assert status.active and time.monotonic() < deadline, status
        phases += [status.phase] if status.phase and status.phase not in phases else []
        time.sleep(0.01)
    return phases


def test_a_day_at_the_service(service):
    """Read, told, stored, answered to the next one; an own text is read again for everybody else: in one go, since every
    start costs seconds."""
    first = client.submit(SCENARIO, browser="a")
    assert set(wait_for(first, "done")) - {"starting"} <= {"starting-workers", "loading", "computing"}
    result = client.result(first)
    assert result["run_id"] == first and len(result["tokens"]) == 30
    (run,) = client.runs("a", kind="attention")
    assert (run.id, run.title, run.summary) == (first, "attention", {})
    assert client.submit(SCENARIO, browser="b") == first, "an equal one is answered from the store"

    own = SCENARIO.changed({"text": client.keep_text("My secret: 비밀 👩\u200d👩\u200d👧".encode(), "diary.txt")})
    mine = client.submit(own, browser="a")
    wait_for(mine, "done")
    assert client.result(mine)["tokens"][:2] == ["M", "y"] and "diary" not in str(client.result(mine)["manifest"])
    others = client.submit(own, browser="b")
    assert others != mine, "somebody's own text is never handed to others, even to one who has the same"
    client.cancel(others, "b")
    assert Store().find(own.key(), kinds.device_key_here(own)) is None


def test_it_is_known_to_the_service():
    """A kind that is missing in one of the tables fails when its page is opened."""
    assert "attention" in RUNNERS and kinds.scenario_of("attention", SCENARIO.as_dict()) == SCENARIO
    assert not kinds.is_private(SCENARIO) and kinds.is_private(SCENARIO.changed({"model": "/my/model"})) and kinds.is_private(SCENARIO.changed({"text": "own:" + "0" * 64}))
    assert kinds.device_key_here(SCENARIO) == kinds.device_key_here(scenario_for("quick", device="cpu", dtype="float32"))
    assert work_of(attention_for("cpu")) == 512 + 4 * 200


@pytest.mark.parametrize("changes", [{"model": "my/model"}, {"text": "/etc/passwd"}, {"text": "own:../../etc/passwd"}])
def test_no_files_of_the_server_by_path(changes):
    """A page must not make the server read what it names."""
    with pytest.raises(LabError) as caught:
        client.Client().submit(SCENARIO.changed(changes))
    assert caught.value.code == "job-not-allowed"


@pytest.mark.parametrize("body", [{"overview": {}}, {"curves": {}}, {"cells": []}, {"points": []}, {"schedules": {}}])
def test_a_result_of_each_kind_is_read_back(tmp_path, body):
    """And one without its main part is damaged, whatever else it has."""
    result = {"run_id": "r" * 22, "kind": "x", "manifest": {}}
    assert read_result(write_result(tmp_path, result | body)) == result | body
    (name,) = body
    for broken in (result, result | {name: 5}, result | {"starts": []}):
        with pytest.raises(LabError) as caught:
            read_result(write_result(tmp_path, broken))
        assert caught.value.code == "run-unreadable"


def test_the_recording_is_a_result():
    """What a page shows before anybody ran anything: of the preset, small, and with what makes a sink."""
    path = Path(__file__).resolve().parents[2] / "profiles" / "recordings" / "attention-cpu.json"
    result = read_result(path)
    scenario = AttentionScenario.from_dict(result["manifest"]["scenario"])
    assert path.stat().st_size < 1_500_000 and (scenario.tokens, scenario.text, scenario.model) == (512, "kjv", "smollm2-135m-instruct")
    assert result["manifest"]["scenario_key"] == scenario.key() and [start["name"] for start in result["starts"]] == ["as_is", "special", "newline", "word", "newlines4"]
