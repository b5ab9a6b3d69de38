"""Pools as jobs of the service: known in every table, and a result that is read back from its file."""

import pytest

from engine.errors import LabError
from engine.experiments.pools_scenario import DEFAULT_CASE, pools_for
from engine.service import client, kinds
from engine.service.estimate import Past, duration_s, work_of
from engine.service.files import read_result, write_result
from engine.service.server import RUNNERS, WITHOUT_WORKERS

SCENARIO = pools_for("cpu", DEFAULT_CASE)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


def test_it_is_known_to_the_service():
    """A kind that is missing in one of the tables fails when its page is opened; its workers are the service's own."""
    assert "pools" in RUNNERS and "pools" not in WITHOUT_WORKERS and kinds.scenario_of("pools", SCENARIO.as_dict()) == SCENARIO
    assert work_of(SCENARIO) == SCENARIO.total_tokens * 4
    assert duration_s(SCENARIO.key(), work_of(SCENARIO), [Past("other", 2 * work_of(SCENARIO), 30.0)]) == pytest.approx(15.0)


def test_a_result_is_read_back_from_its_file(home):
    """A body that the store does not know would be a run that cannot be opened again."""
    result = {"run_id": "pools-of-a-test-0001", "kind": "pools", "manifest": {}, "arrangements": {"1:1": {}}}
    assert read_result(write_result(home, result)) == result
    with pytest.raises(LabError):
        read_result(write_result(home, {**result, "arrangements": []}))


def test_own_texts_and_files_of_the_server(home):
    """The result quotes from the text; and a page must not make the server read what it names."""
    assert not kinds.is_private(SCENARIO) and kinds.is_private(SCENARIO.changed({"text": "own:" + "0" * 64}))
    for changes in ({"model": str(home / "model")}, {"text": "/etc/hostname"}):
        with pytest.raises(LabError) as caught:
            client.Client().submit(SCENARIO.changed(changes))
        assert caught.value.code == "job-not-allowed"
