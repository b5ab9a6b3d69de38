"""Pools of one to three real workers with a tiny random model: the same tokens at every ratio, the same resources, and what
becomes of a run when a decode pool is full or a worker is killed."""

import json
import os
import signal
import time
from dataclasses import replace

import psutil
import pytest

from engine.errors import LabError
from engine.experiments.pools import plan_pools, run_pools
from engine.experiments.pools_scenario import PoolsScenario, pools, pools_for
from engine.experiments.scenarios import RequestGroup
from engine.lock import device_lock
from engine.measure.device import usable_cores
from engine.service.live import Live
from engine.serving.cluster import Cancelled, Cluster

TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32", "text": "korean"}
GROUPS = (RequestGroup("chat", 6, 45, 14, 0.0, 0.01), RequestGroup("long", 1, 150, 3, 0.02))
SMALL = PoolsScenario("small", GROUPS, kv_bytes=1 << 20, **TINY)
RATIOS = ("1:1", "2:1", "1:2")


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def lent():
    """The workers of all arrangements, started once for all runs here."""
    made = []

    def cluster_for(deployment):
        if not made or made[0].deployment != deployment:
            assert not made, "another scenario here would start another five processes"
            made.append(Cluster(deployment))
        return made[0]

    yield cluster_for
    for cluster in made:
        cluster.stop()


@pytest.fixture(scope="module")
def told():
    return []


@pytest.fixture(scope="module")
def live():
    return Live("promised", "pools", SMALL.as_dict())


@pytest.fixture(scope="module")
def result(lent, told, live):
    def see(name, repeat, record):
        told.append((name, repeat, record["type"]))
        live.add([(name, repeat, record)])

    return run_pools(SMALL, run_id="promised", cluster_for=lent, on_plan=live.plan, on_record=see)


def nothing_is_left():
    workers = [p for p in psutil.Process().children(recursive=True) if "engine.serving.worker" in " ".join(p.cmdline())]
    assert workers == []
    with device_lock("cpu", "next", wait=False):
        pass


def test_the_result_is_json_and_names_what_was_run(result, told):
    """A NaN breaks browsers, and a missing setting makes it unrepeatable."""
    assert (result["format"], result["kind"], result["run_id"], result["provenance"]) == (1, "pools", "promised", "measured")
    assert len(json.dumps(result, allow_nan=False)) < 400_000
    assert PoolsScenario.from_dict(result["manifest"]["scenario"]) == SMALL and result["manifest"]["scenario_key"] == SMALL.key()
    assert tuple(result["arrangements"]) == SMALL.arrangements == tuple(dict.fromkeys(name for name, _, _ in told))
    assert {kind for _, _, kind in told} >= {"start", "arrive", "step", "fetch", "Finished"}
    assert set(result["disturbance"]["schedules"]) == set(SMALL.arrangements)


def test_a_run_can_be_watched_while_it_grows(result, live):
    """What the page shows meanwhile is made of what is told here: at the end it is what the result says."""
    view = live.view()
    assert list(view["schedules"]) == list(SMALL.arrangements)
    for name, entry in result["arrangements"].items():
        shown = view["schedules"][name]
        assert shown["complete"] and shown["trace"]["requests"] == entry["trace"]["requests"]
        assert [w["worker"] for w in shown["resources"]] == [w["worker"] for w in entry["resources"]]


def test_the_tokens_are_unified_s_at_every_ratio(result):
    """What the ratio changes is when a token comes, never which: else a transfer or a block was wrong."""
    for request, found in result["agreement"].items():
        assert set(found) == set(RATIOS) and all(v is None or v["near_tie"] for v in found.values()), (request, found)
    same = [v is None for found in result["agreement"].values() for v in found.values()]
    assert sum(same) >= 0.8 * len(same)
    for entry in result["arrangements"].values():
        assert entry["metrics"]["finished"] == 7 and entry["metrics"]["output_tokens"] == 6 * 14 + 3


def test_every_arrangement_has_the_same_kv_and_all_its_workers_work(result):
    """A worker without a request, or more memory for one ratio, would be measured as the ratio's doing."""
    kv = {sum(w["kv_capacity_bytes"] for w in entry["resources"]) for entry in result["arrangements"].values()}
    block = 16 * 2 * 2 * 2 * 8 * 4
    assert max(kv) <= SMALL.kv_bytes and max(kv) - min(kv) < 3 * block
    for name, entry in result["arrangements"].items():
        wanted = {"engine": 1} if name == "unified" else {"prefill": int(name[0]), "decode": int(name[2])}
        assert {pool: len(facts["workers"]) for pool, facts in entry["pools"].items()} == wanted
        assert entry["processes"] == len(entry["resources"]) == sum(wanted.values())
        assert entry["processes_at_most_cores"] == (sum(wanted.values()) <= len(usable_cores()))
        for pool, facts in entry["pools"].items():
            assert sum(w["requests"] for w in facts["workers"]) == 7
            assert all(w["requests"] >= 1 and 0 < w["busy_share"] <= 1 and 0 < w["kv_peak_bytes"] <= w["kv_capacity_bytes"] for w in facts["workers"])
            assert facts["queue"][0] == [0.0, 0] and facts["queue"][-1][1] == 0 and facts["queue_max"] <= 7
        assert all(not (step["worker"].startswith("decode") and step["prefill_tokens"]) for step in entry["trace"]["steps"])


def test_what_moves_between_the_pools_is_every_prompt_s_kv_once(result):
    """Whatever the ratio; and in one engine nothing moves."""
    moved = {name: entry["transfer"]["bytes"] for name, entry in result["arrangements"].items()}
    wanted = (6 * 45 + 150) * result["manifest"]["model"]["kv_bytes_per_token"]
    assert moved == {"unified": 0, **dict.fromkeys(RATIOS, wanted)}
    assert all(result["arrangements"][name]["transfer"]["seconds"] > 0 for name in RATIOS)


def test_a_full_decode_pool_makes_the_others_wait_and_loses_nothing(result, lent):
    """Two requests fit into the decode pool: the others' KV is held where it was made, and all of them end rightly."""
    tight = replace(SMALL, groups=(RequestGroup("chat", 6, 80, 14),), decode_kv_share=0.05)
    assert [plan_pools(tight).settings(name).decode_blocks for name in RATIOS] == [13, 13, 6]  # of which a request takes 6
    found = run_pools(tight, cluster_for=lent)
    for name in RATIOS:
        entry = found["arrangements"][name]
        pressure, decode = entry["back_pressure"], entry["pools"]["decode"]
        assert entry["metrics"]["finished"] == 6 and pressure["requests"] >= 3, (name, pressure)
        assert 0 < pressure["waited_s_max"] <= pressure["waited_s_total"] and decode["queue_max"] >= 3
        assert all(w["kv_peak_bytes"] <= w["kv_capacity_bytes"] for w in decode["workers"])
        assert all(found["agreement"][request][name] is None or found["agreement"][request][name]["near_tie"] for request in found["agreement"])
        assert found["texts"]["chat-0"][name]
    assert found["arrangements"]["unified"]["back_pressure"]["requests"] == 0
    assert all(result["arrangements"][name]["back_pressure"]["requests"] == 0 for name in RATIOS), "with room for all there is none"


def test_a_slow_link_and_fewer_bits_on_it(lent):
    """The settings of the link reach the workers: int8 is about a quarter of fp32, and the link takes as long as it takes."""
    rate = 400_000.0
    slow = SMALL.changed({"kv_format": "int8", "link_bytes_per_s": rate, "transfer": "layerwise"})
    found = run_pools(slow, cluster_for=lent)["arrangements"]
    for name in RATIOS:
        transfers = found[name]["trace"]["transfers"]
        assert len(transfers) == 7 and all(t["complete"] for t in transfers)
        exact = (6 * 45 + 150) * 2 * 2 * 2 * 8 * 4
        assert 0.25 * exact < found[name]["transfer"]["bytes"] < 0.4 * exact
        assert found[name]["transfer"]["seconds"] >= 0.99 * found[name]["transfer"]["bytes"] / rate


def test_a_run_may_be_cancelled_and_the_workers_stay(lent):
    """A class presses stop all the time: the next run is not to wait for five processes to load."""
    seen = []
    with pytest.raises(Cancelled):
        run_pools(SMALL, cluster_for=lent, on_record=lambda name, repeat, record: seen.append(name), cancelled=lambda: "2:1" in seen)
    assert "1:2" not in seen and lent(plan_pools(SMALL).setup.deployment).alive


def test_a_worker_killed_mid_run_is_named_within_seconds_and_nobody_is_left(lent):
    """The second decode worker is the one that only the last arrangement has. (The last test here: its workers are gone.)"""
    cluster, killed = lent(plan_pools(SMALL).setup.deployment), []

    def see(name, repeat, record):
        if name == "1:2" and record["type"] == "step" and record["worker"] == "decode-1" and not killed:
            killed.append(time.monotonic())
            os.kill(cluster.facts["decode-1"]["pid"], signal.SIGKILL)

    more = SMALL.changed({"chat.output_tokens": 200, "arrangements": "1:2"})
    with pytest.raises(LabError) as caught:
        run_pools(more, cluster_for=lambda deployment: cluster, on_record=see)
    assert caught.value.code == "worker-died" and caught.value.facts["worker"] == "decode-1" and caught.value.facts["exit"] == "signal 9"
    assert time.monotonic() - killed[0] < 10, "whoever waits for it is to know"
    nothing_is_left()


@pytest.mark.parametrize("device_class", ["cpu", "gpu"])
@pytest.mark.parametrize("case", ["balanced", "short-prompts", "slow-link", "idle-pool", "full-decode"])
def test_the_cases_are_there_for_both_devices(device_class, case):
    """A file with a misspelt setting would be noticed by the first user; one that fits no worker, by the first class."""
    scenario = pools_for(device_class, case)
    assert scenario.workload == case in pools() and set(scenario.arrangements) == {"unified", *RATIOS}
    assert PoolsScenario.from_dict(json.loads(json.dumps(scenario.as_dict()))) == scenario
    assert (scenario.link_bytes_per_s > 0) == (case == "slow-link") and scenario.key() != scenario.changed({"seed": 1}).key()


@pytest.mark.parametrize(
    "changes,words",
    [
        ({"arrangements": "unified,0:1"}, ["arrangements", "p:d"]), ({"arrangements": []}, ["arrangements"]), ({"arrangements": "1:1,1:1"}, ["once"]),
        ({"arrangements": [f"{p}:1" for p in (1, 2, 3, 4)] + ["1:2", "1:3", "1:4"]}, ["6"]), ({"arrangements": 1}, ["arrangements"]),
        ({"decode_kv_share": 0.0}, ["decode_kv_share", "0.05"]), ({"decode_kv_share": 1}, ["0.95"]), ({"kv_format": "int3"}, ["kv_format", "exact", "int4"]),
        ({"link_bytes_per_s": -1}, ["link_bytes_per_s"]), ({"link_bytes_per_s": float("nan")}, ["link_bytes_per_s"]),
        ({"transfer": "soon"}, ["transfer", "layerwise"]), ({"chunk_tokens": 5}, ["chunk_tokens", "arrangements"]), ({"chat.colour": 1}, ["chat.colour"]),
        ({"chat.count": 0, "long.count": 0}, ["request"]), ({"kv_bytes": 1}, ["kv_bytes"]), ({"threads": 1.5}, ["threads"]),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_a_reason(changes, words):
    """A traceback, or a run that fails after minutes."""
    with pytest.raises(LabError) as caught:
        SMALL.changed(changes)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("record", [None, [], {}, {"workload": "x", "groups": 3}, {"workload": "x", "groups": [{"kind": "a"}]}, {**SMALL.as_dict(), "colour": 1}, {**SMALL.as_dict(), "arrangements": {"1:1": 2}}])
def test_what_is_no_scenario_is_refused(record):
    """What a browser sends is not to be trusted."""
    with pytest.raises(LabError):
        PoolsScenario.from_dict(record)


def test_equal_settings_are_one_scenario():
    """10 and 10.0 MB/s are one link: the store would measure it twice."""
    assert SMALL.changed({"link_bytes_per_s": 10, "lease_s": 60}).key() == SMALL.changed({"link_bytes_per_s": 10.0}).key()


@pytest.mark.parametrize(
    "changes,code,words",
    [
        ({"decode_kv_share": 0.05, "kv_bytes": 1 << 20, "long.prompt_tokens": 900}, "request-never-fits", ["block"]),
        ({"long.prompt_tokens": 100_000}, "prompt-exceeds-model", ["long"]),
        ({"arrangements": ["4:4"], "kv_bytes": 1 << 20, "model": "random-1b"}, "scenario-value", ["kv_bytes"]),
    ],
)
def test_what_does_not_fit_is_refused_before_a_process_starts(changes, code, words):
    """A request that one arrangement refuses would make the others look slow."""
    with pytest.raises(LabError) as caught:
        plan_pools(SMALL.changed(changes))
    assert caught.value.code == code and all(word in str(caught.value) for word in words), str(caught.value)
