"""A running job as a partial result: the whole trace of what is known, built no oftener than needed."""

import copy
import threading

import pytest

from engine.measure.clock import now_ns
from engine.measure.trace import build_trace
from engine.service import live as live_module
from engine.service.live import Live

REQUESTS = [{"id": f"chat-{n}", "kind": "chat", "prompt_tokens": 4, "output_tokens": 2} for n in range(2)]
PLAN = {
    "kind": "schedules", "schedules": ["unified", "chunked"], "repeats": 2, "requests": REQUESTS, "block_tokens": 16, "kv_bytes_per_token": 8,
    "resources": {"unified": [{"worker": "engine-0"}], "chunked": [{"worker": "engine-0"}]},
}  # fmt: skip


def run(start_ns=1_000_000_000):
    """Two requests, each with a prefill and a decode."""
    ms = 1_000_000
    records = [{"type": "start", "at_ns": start_ns}, *({"type": "arrive", "index": n, "at_ns": start_ns + ms} for n in range(2))]
    for number, (slices, tokens) in enumerate([([[0, 0, 4]], [[0, 5, 1.0]]), ([[0, 4, 1]], [[0, 6, 1.0]]), ([[1, 0, 4]], [[1, 5, 1.0]]), ([[1, 4, 1]], [[1, 6, 1.0]])]):
        begin = start_ns + (number + 1) * 10 * ms
        prefill = slices[0][2] if slices[0][2] > 1 else 0
        records.append(
            {"type": "step", "worker": "engine-0", "begin_ns": begin, "end_ns": begin + 9 * ms, "prefill_tokens": prefill, "decode_tokens": 0 if prefill else 1,
             "slices": slices, "tokens": tokens, "pieces": [[tokens[0][0], f"word{number} "]]}
        )  # fmt: skip
        if not prefill:
            records.append({"type": "Finished", "index": slices[0][0], "at_ns": begin + 9 * ms})
    return records


def given(live, schedule, repeat, records):
    live.add([[schedule, repeat, record] for record in records])


@pytest.fixture
def live(monkeypatch):
    monkeypatch.setattr(live_module, "_BUILD_SHARE", 1e9)  # at once: these tests do not wait
    made = Live("run", "schedules", {"workload": "x"})
    made.plan(PLAN)
    return made


def test_before_the_plan_nothing_is_shown():
    """A page that draws lanes without requests fails."""
    assert Live("run", "schedules", {}).view() is None


def test_a_whole_run_looks_as_its_result_will(live):
    """The picture must not jump when the result takes the place of the live one."""
    given(live, "unified", 0, run())
    view = live.view()
    entry = view["schedules"]["unified"]
    assert entry["trace"] == {**build_trace("unified", REQUESTS, run(), block_tokens=16), "repeat": 0}
    assert (entry["complete"], entry["repeat"], entry["now_s"], entry["resources"]) == (True, 0, 0.049, [{"worker": "engine-0"}])
    assert view["pieces"] == {"chat-0": {"unified": ["word0 ", "word1 "]}, "chat-1": {"unified": ["word2 ", "word3 "]}}
    assert view["run_id"] == "run" and view["kind"] == "schedules"
    assert view["manifest"] == {"model": {"kv_bytes_per_token": 8}, "scenario": {"workload": "x"}}


def test_it_grows_with_each_record(live):
    """A version that stands still keeps the page at what it had."""
    versions = [live.view()["version"]]
    for record in run(now_ns() - 10**9):
        given(live, "unified", 0, [record])
        versions.append(live.view()["version"])
    assert versions == sorted(set(versions))
    trace = live.view()["schedules"]["unified"]["trace"]
    assert len(trace["steps"]) == 4 and live.view()["version"] == versions[-1]


def test_time_passes_between_records(live):
    """During a long prefill nothing is heard for seconds, and the play-head must not stand still."""
    given(live, "unified", 0, run(now_ns() - 5 * 10**9)[:4])
    first, second = live.view()["schedules"]["unified"], live.view()["schedules"]["unified"]
    assert not first["complete"] and 5 <= first["now_s"] < second["now_s"]


def test_the_schedule_before_is_complete_and_not_built_again(live, monkeypatch):
    """Built anew for every record of the next, it would cost as much as everything else."""
    built = []
    monkeypatch.setattr(live_module, "build_trace", lambda name, *rest, **named: built.append(name) or build_trace(name, *rest, **named))
    given(live, "unified", 0, run()[:-1])
    live.view()
    for record in run():
        given(live, "chunked", 0, [record])
        live.view()
    assert built == ["unified"] + ["chunked"] * len(run())
    assert live.view()["schedules"]["unified"]["complete"], "another one runs: whatever is missing will not come"


def test_a_new_repeat_takes_the_place_of_the_old_one(live):
    """Two repeats in one picture would show every request twice; the other schedule stays until its turn."""
    given(live, "unified", 0, run())
    given(live, "chunked", 0, run())
    given(live, "unified", 1, run()[:4])
    view = live.view()
    assert view["schedules"]["unified"]["repeat"] == 1 and len(view["schedules"]["unified"]["trace"]["steps"]) == 1
    assert view["schedules"]["chunked"]["repeat"] == 0 and view["schedules"]["chunked"]["complete"]
    assert view["pieces"]["chat-0"] == {"unified": ["word0 "], "chunked": ["word0 ", "word1 "]}


def test_the_points_of_a_sweep_have_requests_of_their_own(live):
    """A prompt of one length drawn with the numbers of another."""
    longer = [{**request, "prompt_tokens": 400} for request in REQUESTS]
    live.plan({**PLAN, "schedules": ["4", "400"], "resources": {}, "points": [{"value": 4, "requests": REQUESTS}, {"value": 400, "requests": longer}]})
    given(live, "4", 0, run())
    given(live, "400", 0, run())
    found = {name: entry["trace"]["requests"][0]["prompt_tokens"] for name, entry in live.view()["schedules"].items()}
    assert found == {"4": 4, "400": 400}
    assert live.view()["pieces"]["chat-0"] == {"4": ["word0 ", "word1 "], "400": ["word0 ", "word1 "]}


def test_nobody_changes_what_another_looks_at(live):
    """Thirty pages look at one view; what comes later must be in the next one only."""
    given(live, "unified", 0, run()[:4])
    view = live.view()
    steps, pieces = len(view["schedules"]["unified"]["trace"]["steps"]), copy.deepcopy(view["pieces"]["chat-0"])
    given(live, "unified", 0, run()[4:])
    assert len(view["schedules"]["unified"]["trace"]["steps"]) == steps and view["pieces"]["chat-0"] == pieces


def test_many_readers_build_it_once(live, monkeypatch):
    """A class of thirty must not cost thirty times the building."""
    built = []
    monkeypatch.setattr(live_module, "build_trace", lambda *rest, **named: built.append(1) or build_trace(*rest, **named))
    given(live, "unified", 0, run())
    seen = []
    readers = [threading.Thread(target=lambda: seen.append(live.view())) for _ in range(30)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert len(built) == 1 and len(seen) == 30 and all(view == seen[0] for view in seen)


def test_building_rests_in_proportion_to_its_cost(monkeypatch):
    """A run of many thousand steps would keep the web server busy with nothing else."""
    monkeypatch.setattr(live_module, "_BUILD_SHARE", 1e-9)  # once built it rests for good
    live = Live("run", "schedules", {})
    live.plan(PLAN)
    first = live.view()["version"]
    given(live, "unified", 0, run())
    assert live.view()["version"] == first and live.view()["schedules"] == {}


def test_curves_that_grow(live):
    """An experiment that serves nothing tells whole curves so far: the newest of each is shown, beside what its plan said."""
    curves = Live("run", "streaming", {"window": 4})
    curves.plan({"tokens": 9, "first_eviction": 4})
    for name, upto in (("dense", 2), ("dense", 5), ("window", 3)):
        given(curves, name, 0, [{"type": "curve", "bins": [[0, upto, 1.5]]}])
    view = curves.view()
    assert {name: view[name] for name in ("run_id", "kind", "tokens", "first_eviction", "schedules")} == {
        "run_id": "run", "kind": "streaming", "tokens": 9, "first_eviction": 4, "schedules": {},
    }  # fmt: skip
    assert view["curves"] == {"dense": {"bins": [[0, 5, 1.5]]}, "window": {"bins": [[0, 3, 1.5]]}} and view["manifest"] == {"scenario": {"window": 4}}
    assert "curves" not in live.view()


def test_cells_that_come_one_by_one():
    """As the result will have them: in the order in which they came, the newest of each."""
    cells = Live("run", "retrieval", {"trials": 2})
    cells.plan({"lengths": [128], "depths": [0.5]})
    for name, trials in (("yarn 128 0.5", 1), ("none 128 0.5", 1), ("yarn 128 0.5", 2)):
        given(cells, name, 0, [{"type": "cell", "method": name.split()[0], "trials": trials}])
    view = cells.view()
    assert view["cells"] == [{"method": "yarn", "trials": 2}, {"method": "none", "trials": 1}]
    assert view["curves"] == view["schedules"] == {} and (view["lengths"], view["kind"]) == ([128], "retrieval")
