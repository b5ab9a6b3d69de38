"""The ring as a job of the service: known in all its tables, its result is read back, own texts stay private."""

import gzip
import json

import pytest

from engine.errors import LabError
from engine.experiments.ring_scenario import RingScenario
from engine.service import files, kinds
from engine.service.estimate import work_of
from engine.service.server import RUNNERS, WITHOUT_WORKERS

TINY = RingScenario(331, 2, model="random-tiny", device="cpu", dtype="float32", text="pydoc")


def test_it_is_known_to_the_service():
    """A kind that is missing in one of the tables fails when its page is opened."""
    assert TINY.kind in RUNNERS and TINY.kind in WITHOUT_WORKERS
    assert kinds.scenario_of(TINY.kind, TINY.as_dict()) == TINY and work_of(TINY) == 3 * 331
    assert not kinds.is_private(TINY) and kinds.is_private(TINY.changed({"text": "own-1234"}))


def test_a_result_file_is_one_only_with_layouts(tmp_path):
    """A file of another program must not reach the page."""
    result = {"run_id": "a" * 22, "kind": "ring", "manifest": {}, "layouts": {}}
    path = files.write_result(tmp_path, result)
    assert files.read_result(path) == result
    path.write_bytes(gzip.compress(json.dumps({**result, "layouts": []}).encode()))
    with pytest.raises(LabError):
        files.read_result(path)
