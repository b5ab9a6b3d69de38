"""The data beside the page: right files under right names, 404 for what is not there, compressed for who can read it."""

import csv
import gzip
import io
import json

import pytest
from starlette.applications import Starlette

from engine.errors import LabError
from pages._ui import routes
from tests.pages import small
from tests.pages.test_web import get

APP = Starlette(routes=routes.ROUTES)
RUN = small.result()["run_id"]
GZIP = {"accept-encoding": "gzip, br"}


class Client:
    """Stands in for the service: one stored run, one that is under way."""

    class Status:
        state = "running"

    def __init__(self):
        self.failure = None

    def result(self, name):
        if self.failure:
            raise self.failure
        return small.result() if name == RUN else None

    def status(self, job):
        return self.Status()

    def live(self, job):
        if job != "job":
            return None
        partial = small.result()
        partial["version"] = 7
        for name, entry in partial["schedules"].items():
            entry["complete"] = name != "disaggregated"
        return partial


@pytest.fixture(autouse=True)
def client(monkeypatch):
    made = Client()
    monkeypatch.setattr(routes, "client", made)
    routes._packed_timeline.cache_clear()
    routes._made.clear()
    return made


def read(path, headers=None, query=b""):
    status, headers, body = get(APP, path, headers or {}, query)
    return status, headers, json.loads(gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body)


def test_the_timeline_of_a_run_is_compressed_and_kept():
    status, headers, found = read(f"/lab/timeline/{RUN}", GZIP)
    assert status == 200 and headers["content-encoding"] == "gzip" and "max-age" in headers["cache-control"]
    assert [lane["schedule"] for lane in found["lanes"]] == ["unified", "chunked", "disaggregated"]


def test_who_cannot_read_gzip_gets_it_plain():
    status, headers, found = read(f"/lab/timeline/{RUN}")
    assert status == 200 and "content-encoding" not in headers and found["lanes"]


def test_a_shipped_recording_has_a_timeline_too():
    status, _, found = read("/lab/timeline/recorded:schedules-cpu", GZIP)
    assert status == 200 and len(found["lanes"]) == 3


@pytest.mark.parametrize(
    "path",
    [
        "/lab/timeline/nobody",
        "/lab/timeline/recorded:nobody",
        "/lab/timeline/recorded:..%2F..%2F..%2Fetc%2Fpasswd",
        "/lab/runs/nobody/result.json",
        f"/lab/runs/{RUN}/secrets.json",
        "/lab/runs/recorded:/result.json",
        "/lab/timeline/recorded:chunk-sweep-cpu",
        "/lab/runs/recorded:chunk-sweep-cpu/tokens.csv",
        "/lab/runs/recorded:backlog-cpu/trace.json",
    ],
)
def test_what_is_not_there_is_404_and_says_so(path):
    status, _, found = read(path)
    assert status == 404 and found["code"] == "run-unknown"


def test_a_run_that_appears_later_is_found(client, monkeypatch):
    """A miss must not be remembered: the page asks again after a fault."""
    monkeypatch.setattr(client, "result", lambda name: None)
    assert read(f"/lab/timeline/{RUN}")[0] == 404
    monkeypatch.undo()
    monkeypatch.setattr(routes, "client", client)
    assert read(f"/lab/timeline/{RUN}")[0] == 200


def test_a_store_that_cannot_be_read_is_503_with_the_reason(client):
    client.failure = LabError("run-unreadable", path="x", why="damaged")
    status, _, found = read(f"/lab/timeline/{RUN}")
    assert status == 503 and found["facts"]["why"] == "damaged"


def test_complete_lanes_are_sent_once_and_growing_ones_always():
    _, headers, found = read("/lab/live/job", query=b"have=unified,disaggregated")
    assert headers["cache-control"] == "no-store"
    assert [lane["schedule"] for lane in found["lanes"]] == ["chunked", "disaggregated"]
    assert found["live"] and found["state"] == "running" and found["version"] == 7


def test_a_class_that_watches_costs_as_little_as_one(monkeypatch):
    """Thirty readers ask every second; what they watch must not be disturbed thirty times."""
    made = []
    monkeypatch.setattr(routes.payload, "timeline", lambda found: made.append(1) or {"lanes": []})
    monkeypatch.setattr(routes.time, "monotonic", lambda: 5.0)
    routes._made.clear()
    for _ in range(30):
        read("/lab/live/job")
    assert len(made) == 1
    monkeypatch.setattr(routes.time, "monotonic", lambda: 6.0)  # the clock of the run goes on between its records
    read("/lab/live/job")
    read("/lab/live/job", query=b"have=unified")
    assert len(made) == 3 and len(routes._made) <= routes.LIVE_KEPT


def test_a_job_without_anything_to_draw_still_answers():
    status, _, found = read("/lab/live/other")
    assert status == 200 and found["lanes"] == [] and found["version"] == 0


@pytest.mark.parametrize("file", sorted(routes.FILES))
def test_every_file_is_an_attachment_with_a_name(file):
    status, headers, body = get(APP, f"/lab/runs/{RUN}/{file}")
    assert status == 200 and f'filename="schedules-{RUN[:8]}.{file}"' in headers["content-disposition"]
    if file.endswith(".json"):
        assert json.loads(body)
    else:
        assert len(list(csv.DictReader(io.StringIO(body.decode())))) > 10


def test_the_manifest_names_its_run():
    found = json.loads(get(APP, f"/lab/runs/{RUN}/manifest.json")[2])
    assert found["run_id"] == RUN and found["scenario"]["workload"] == "quick"
