"""Transfers as jobs of the service: measured, told row by row, stored, answered, cancelled; own texts stay private."""

import psutil
import pytest

from engine.errors import LabError
from engine.experiments.transfer_scenario import transfer_for
from engine.service import client, kinds
from engine.service.estimate import Past, duration_s, work_of
from engine.service.server import RUNNERS, WITHOUT_WORKERS
from engine.service.store import Store
from tests.experiments.test_transfer import SMALL
from tests.service.jobs import processes, wait_for, wait_for_view


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def test_a_day_at_the_service(service):
    """Measured, told, stored, answered to the next one, cancelled: in one go, since every start costs seconds."""
    first = client.submit(SMALL, browser="a")
    wait_for(first, "done")
    result = client.result(first)
    assert result["run_id"] == first and result["kind"] == "transfer" and len(result["rows"]) == 10
    (run,) = client.runs("a", kind="transfer")
    assert (run.id, run.title, run.summary) == (first, "transfer", {})
    assert client.submit(SMALL, browser="b") == first, "an equal one is answered from the store"
    again = client.submit(SMALL.changed({"lengths": [64, 2000], "continue_tokens": 500, "scored": 1000}), browser="b")
    wait_for(again, "running", "measuring")
    view = wait_for_view(again, "cells")
    assert view["lengths"] == [64, 2000] and view["formats"] == list(SMALL.formats) and view["schedules"] == {}
    assert view["cells"][0]["format"] == "fp32" and view["cells"][0]["bytes"]["total"] == 64 * 256
    measuring = [process for process in processes(service) if "transfer_worker" in " ".join(process.cmdline())]
    assert client.cancel(again, "b")
    wait_for(again, "cancelled")
    _, alive = psutil.wait_procs(measuring, timeout=30)
    assert len(measuring) == 2 and alive == [] and not Store().exists(again) and client.live(again) is None


def test_it_is_known_to_the_service():
    """A kind that is missing in one of the tables fails when its page is opened; workers that stand ready make room for it."""
    assert "transfer" in RUNNERS and "transfer" in WITHOUT_WORKERS and kinds.scenario_of("transfer", SMALL.as_dict()) == SMALL
    preset = transfer_for("cpu")
    assert duration_s(preset.key(), work_of(preset), [Past("other", 2 * work_of(preset), 30.0)]) == pytest.approx(15.0)
    assert work_of(SMALL) == SMALL.total_tokens


def test_own_texts_and_files_of_the_server(home):
    """The result quotes from the text; and a page must not make the server read what it names."""
    assert not kinds.is_private(SMALL) and kinds.is_private(SMALL.changed({"text": "own:" + "0" * 64}))
    for changes in ({"model": str(home / "model")}, {"text": "/etc/hostname"}):
        with pytest.raises(LabError) as caught:
            client.Client().submit(SMALL.changed(changes))
        assert caught.value.code == "job-not-allowed"
