"""What the browser fetches beside the page: timelines of runs, the timeline of a run under way, and a run's files.

Plain GET routes of the web application, so that a figure of some ten thousand numbers is sent once, compressed, and
never again with every rerun of a page. Who has the id of a run may read it, as with the page's own address.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections.abc import Callable
from functools import lru_cache

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.errors import LabError
from engine.measure import export
from engine.service import client
from pages._ui import payload, recordings

RECORDED = "recorded:"
# A stored run never changes; what is drawn of it may, with the next version of the lab.
KEEP = "private, max-age=600"
NEVER = "no-store"
LIVE_KEPT = 8
_made: dict[tuple, bytes] = {}
_making = threading.Lock()


def timeline(request: Request) -> Response:
    """The timeline of a stored run, or of a recording (``recorded:NAME``)."""
    name = request.path_params["name"]
    version = recordings.version(name.removeprefix(RECORDED)) if name.startswith(RECORDED) else 0
    try:
        return _json(request, _packed_timeline(name, version), KEEP)
    except LabError as error:
        return _failed(error)


def live(request: Request) -> Response:
    """What is known by now of a run under way; lanes named in ``have`` are complete at the browser and left out."""
    job = request.path_params["job"]
    have = request.query_params.get("have", "").split(",")
    try:
        status, found = client.status(job), client.live(job)
    except LabError as error:
        return _failed(error)
    return _json(request, _packed_live(found, status.state, have), NEVER)


def run_file(request: Request) -> Response:
    """One of a run's files, as an attachment."""
    name, file = request.path_params["name"], request.path_params["file"]
    if file not in FILES:
        return _failed(LabError("run-unknown", run_id=f"{name[:80]}/{file[:80]}"))
    try:
        found = load(name) if file in FILES_OF_ALL else _traced(name)
    except LabError as error:
        return _failed(error)
    make, kind = FILES[file]
    stem = f"{found['kind']}-{found['run_id'][:8]}"
    headers = {"content-disposition": f'attachment; filename="{stem}.{file}"', "cache-control": NEVER}
    return Response(make(found), media_type=kind, headers=headers)


FILES: dict[str, tuple[Callable[[dict], str | bytes], str]] = {
    "result.json": (lambda result: _dump(result), "application/json"),
    "manifest.json": (
        lambda result: json.dumps({"run_id": result["run_id"], **result["manifest"]}, ensure_ascii=False, indent=2),
        "application/json",
    ),
    "tokens.csv": (export.to_csv, "text/csv; charset=utf-8"),
    "trace.json": (lambda result: _dump(export.to_chrome(result)), "application/json"),
}
FILES_OF_ALL = ("result.json", "manifest.json")

ROUTES = [
    Route("/lab/timeline/{name}", timeline),
    Route("/lab/live/{job}", live),
    Route("/lab/runs/{name}/{file}", run_file),
]


def load(name: str) -> dict:
    """A stored run, or a shipped recording by ``recorded:NAME``. Raises LabError("run-unknown" and what a store can meet)."""
    if name.startswith(RECORDED):
        known = name.removeprefix(RECORDED)
        found = recordings.load(known) if known in recordings.names() else None
    else:
        found = client.result(name)
    if found is None:
        raise LabError("run-unknown", run_id=name[:80])
    return found


def _traced(name: str) -> dict:
    """The same of a run that has traces: a sweep keeps none, and nothing can be drawn of it in time."""
    found = load(name)
    if "schedules" not in found:
        raise LabError("run-unknown", run_id=name[:80])
    return found


@lru_cache(maxsize=64)
def _packed_timeline(name: str, _version: int) -> bytes:
    return gzip.compress(_dump(payload.timeline(_traced(name))), 6)


def _packed_live(found: dict | None, state: str, have: list[str]) -> bytes:
    """The live payload, made once for all that ask within a second for the same: a class that watches costs as little as
    one reader, and disturbs what it watches as little."""
    if found is None:
        return gzip.compress(_dump({"lanes": [], "texts": {}, "planned": [], "live": True, "state": state, "version": 0}))
    new = {name: lane for name, lane in found["schedules"].items() if not (lane["complete"] and name in have)}
    key = (found["run_id"], found["version"], tuple(new), state, int(time.monotonic()))
    with _making:
        if key not in _made:
            _made[key] = _live_payload({**found, "schedules": new}, state)
            for old in list(_made)[:-LIVE_KEPT]:
                del _made[old]
        return _made[key]


def _live_payload(found: dict, state: str) -> bytes:
    shown = {**payload.timeline(found), "live": True, "state": state, "version": found["version"]}
    return gzip.compress(_dump(shown), 1)


def _json(request: Request, packed: bytes, cache: str) -> Response:
    headers = {"cache-control": cache, "vary": "accept-encoding"}
    if "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(gzip.decompress(packed), media_type="application/json", headers=headers)
    return Response(packed, media_type="application/json", headers={**headers, "content-encoding": "gzip"})


def _failed(error: LabError) -> Response:
    status = 404 if error.code == "run-unknown" else 503
    return Response(_dump(error.as_dict()), status, media_type="application/json", headers={"cache-control": NEVER})


def _dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
