"""The measured wall around its workers: three servings of the same requests, told apart; simulated workers, and a real run."""

import json

import pytest

from engine.errors import LabError
from engine.experiments.wall import run_wall
from engine.experiments.wall_scenario import AMPLE, PAGED, RESERVED, VARIANTS, WallScenario
from engine.formulas.admission import blocks_for, first_wave
from engine.lock import device_lock
from engine.measure import disturbance
from engine.measure.export import to_chrome, to_csv
from engine.serving.cluster import Cancelled
from engine.serving.deployment import cuda_deployment
from tests.experiments.simulated import Simulated

TINY = {"model": "random-tiny", "text": "korean", "device": "cpu", "dtype": "float32"}
# 16 blocks of 16 for requests of up to 90 tokens: paged holds some five at first, reserved two.
WALL = WallScenario(8, 10, 60, 5, 31, pool_tokens=256, reserve_tokens=100, max_prefill_tokens=100, **TINY)


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


def run(scenario, cluster=None, **options):
    cluster = cluster or Simulated()
    return run_wall(scenario, cluster_for=lambda deployment: cluster, **options)


def test_the_result_is_small_json_and_names_what_was_run():
    """A NaN breaks browsers, and a missing setting makes it unrepeatable."""
    text = json.dumps(run(WALL, run_id="promised"), allow_nan=False)
    result = json.loads(text)
    assert len(text) < 100_000 and (result["kind"], result["run_id"]) == ("wall", "promised")
    assert (result["format"], result["provenance"]) == (1, "measured")
    assert WallScenario.from_dict(result["manifest"]["scenario"]) == WALL and result["manifest"]["scenario_key"] == WALL.key()
    assert tuple(result["schedules"]) == VARIANTS == tuple(result["prediction"])
    assert len(run(WALL)["run_id"]) > 16


def test_only_the_pool_and_the_reservation_differ():
    """Anything else that differed between the servings would be taken for the price of memory."""
    cluster = Simulated()
    run(WALL, cluster)
    ample, paged, reserved = cluster.settings
    needed = sum(blocks_for(prompt + output - 1, 16) for prompt, output in WALL.lengths)
    assert (ample.entry_blocks, paged.entry_blocks, reserved.entry_blocks) == (needed, 16, 16) and needed > 16
    assert (ample.reserve_tokens, paged.reserve_tokens, reserved.reserve_tokens) == (0, 0, 100)
    names = {"entry_blocks", "decode_blocks", "reserve_tokens"}
    assert len({str({k: v for k, v in vars(s).items() if k not in names}) for s in cluster.settings}) == 1
    assert cluster.served == [("unified", 8)] * 3


def test_an_ample_pool_is_never_the_smaller_one():
    """Where all fits anyway, the pool asked for is the ample one."""
    cluster = Simulated()
    result = run(WALL.changed({"pool_tokens": 4096}), cluster)
    assert [s.entry_blocks for s in cluster.settings] == [256] * 3
    assert result["prediction"][AMPLE] == result["prediction"][PAGED]


def test_who_comes_first_changes():
    """A machine that becomes slower would otherwise always be slowest for the same one."""
    order = run(WALL.changed({"repeats": 4}))["manifest"]["order"]
    assert order[0] == list(VARIANTS) and {variants[0] for variants in order[:3]} == set(VARIANTS) and order[3] == order[0]


@pytest.mark.parametrize("seed", range(12))
def test_the_first_wave_is_predicted_exactly(seed):
    """Whatever lengths are drawn: in each serving as many are let in at first as the formula says from the lengths alone."""
    result = run(WALL.changed({"seed": seed, "count": 20}))
    prompts, outputs = zip(*WALL.changed({"seed": seed, "count": 20}).lengths)
    for variant, reserve in ((PAGED, 0), (RESERVED, 100)):
        found = result["prediction"][variant]
        assert found["measured"] == [found["first_wave"]] == [first_wave(prompts, outputs, 16, 16, 64, reserve)]
        assert (found["blocks"], found["block_tokens"], found["reserve_tokens"]) == (16, 16, reserve)
    assert result["prediction"][AMPLE]["measured"] == [20] == [result["prediction"][AMPLE]["first_wave"]]
    assert result["prediction"][PAGED]["first_wave"] >= result["prediction"][RESERVED]["first_wave"]


@pytest.mark.parametrize("seed", range(6))
def test_the_first_wave_of_prompts_alone(seed):
    """One output token each: nothing is decoded, and the first step that is over gives its blocks back."""
    scenario = WALL.changed({"seed": seed, "count": 20, "output_tokens_min": 1, "output_tokens_max": 1, "max_prefill_tokens": 2000})
    result = run(scenario, Simulated(delay_ns=0))
    prompts, outputs = zip(*scenario.lengths)
    for variant, reserve in ((PAGED, 0), (RESERVED, 100)):
        assert result["prediction"][variant]["measured"] == [first_wave(prompts, outputs, 16, 16, 64, reserve)]
        assert result["prediction"][variant]["measured"] == [result["prediction"][variant]["first_wave"]]
    assert result["schedules"][PAGED]["metrics"]["tpot_p50_s"] is None and result["schedules"][PAGED]["metrics"]["preemptions"] == 0
    json.dumps(result, allow_nan=False)


def test_what_each_variant_did():
    """Reserving wastes blocks, runs fewer and preempts nobody; paging wastes part of a last block and may preempt."""
    result = run(WALL.changed({"count": 20}))
    ample, paged, reserved = (result["schedules"][variant] for variant in VARIANTS)
    assert reserved["metrics"]["preemptions"] == ample["metrics"]["preemptions"] == 0 < paged["metrics"]["preemptions"]
    assert reserved["metrics"]["computed_again_tokens"] == 0 < paged["metrics"]["computed_again_tokens"]
    assert reserved["metrics"]["running_most"] == 2 < paged["metrics"]["running_most"] < ample["metrics"]["running_most"] == 20
    assert reserved["waste"] == reserved["metrics"]["waste_mean"] > 0.3 > paged["waste"] > 0
    for variant, entry in result["schedules"].items():
        used, capacity = entry["usage"], result["prediction"][variant]["blocks"]
        assert max(used["blocks"]) <= capacity and max(used["blocks"]) == entry["metrics"]["blocks_most"]
        assert all(tokens <= blocks * 16 for tokens, blocks in zip(used["tokens"], used["blocks"]))
        assert all(running + waiting <= 20 for running, waiting in zip(used["running"], used["waiting"]))
        assert [used[name][-1] for name in ("blocks", "tokens", "running", "waiting")] == [0, 0, 0, 0]
        assert used["at_s"] == sorted(used["at_s"])
        times = [r["token_s"][0] - r["arrival_s"] for r in entry["trace"]["requests"]]
        assert entry["metrics"]["ttft_p50_s"] <= entry["metrics"]["ttft_p90_s"] <= entry["metrics"]["ttft_max_s"] == max(times)
        assert [(r["id"], r["kind"]) for r in entry["trace"]["requests"]][:2] == [("request-0", "request"), ("request-1", "request")]
        assert entry["trace"]["schedule"] == variant and all(r["status"] == "finished" for r in entry["trace"]["requests"])


def test_medians_over_repeats():
    """One lucky repeat must not be the result; what is drawn is one run, the one in the middle."""
    result = run(WALL.changed({"repeats": 3}))
    for variant, entry in result["schedules"].items():
        for name, value in entry["metrics"].items():
            low, high = entry["spread"][name]
            assert low <= value <= high
        assert entry["spread"]["makespan_s"][0] < entry["spread"]["makespan_s"][1]
        last = max(r["token_s"][-1] for r in entry["trace"]["requests"]) - min(r["arrival_s"] for r in entry["trace"]["requests"])
        assert last == pytest.approx(entry["metrics"]["makespan_s"]) and entry["trace"]["repeat"] in range(3)
        assert len(result["prediction"][variant]["measured"]) == 3


def test_the_files_to_download_can_be_made():
    """The exports go by schedule; a variant is one of its own there."""
    result = run(WALL)
    rows = to_csv(result).splitlines()
    assert len(rows) == 1 + 3 * sum(output for _, output in WALL.lengths) and {row.split(",")[1] for row in rows[1:]} == set(VARIANTS)
    assert {e["args"]["name"] for e in to_chrome(result)["traceEvents"] if e["name"] == "process_name"} >= {f"{v}: engine-0" for v in VARIANTS}


def test_the_plan_comes_first_and_every_record_with_its_variant():
    """Live pages draw from it; a record under another name would be drawn in the wrong place."""
    told = []
    run(WALL, on_plan=told.append, on_record=lambda *record: told.append(record))
    plan = json.loads(json.dumps(told[0], allow_nan=False))
    assert plan["kind"] == "wall" and plan["schedules"] == list(VARIANTS) == list(plan["resources"])
    assert [r["id"] for r in plan["requests"]] == [f"request-{n}" for n in range(8)]
    seen = [(name, repeat) for name, repeat, _ in told[1:]]
    assert list(dict.fromkeys(seen)) == [(variant, 0) for variant in VARIANTS]


def test_progress_goes_from_nothing_to_all_and_never_back():
    """A bar that jumps back is not believed again; recomputed tokens must not carry it beyond its part."""
    seen = []
    run(WALL.changed({"repeats": 2, "count": 20}), progress=lambda phase, done, **facts: seen.append((phase, done, facts)))
    shares = [done for phase, done, _ in seen if phase == "measuring"]
    assert shares == sorted(shares) and shares[0] == 0.0 and 0.9 < shares[-1] <= 1.0
    assert {facts["schedule"] for phase, _, facts in seen if phase == "measuring"} == set(VARIANTS)


def test_a_disturbed_variant_is_named(monkeypatch):
    """A slowness that the mail client made must not be taught as the price of memory."""
    verdicts = iter([0.0, 0.5, 0.0])
    monkeypatch.setattr(disturbance, "judge", lambda begin, end: disturbance.verdict(next(verdicts), None))
    result = run(WALL)
    assert [entry["disturbed"] for entry in result["schedules"].values()] == [False, True, False]
    assert result["disturbance"]["disturbed"] is True


REFUSED = [
    ({"pool_tokens": 48, "reserve_tokens": 40}, "request-never-fits"), ({"reserve_tokens": 300, "pool_tokens": 303}, "reservation-never-fits"),
    ({"prompt_tokens_min": 9000, "prompt_tokens_max": 9000}, "prompt-exceeds-model"), ({"model": "nonsense"}, "model-unknown"), ({"text": "nonsense"}, "text-unknown"),
]  # fmt: skip


@pytest.mark.parametrize("changes", [{"pool_tokens": 15}, {"reserve_tokens": WALL.pool_tokens + 1}], ids=str)
def test_a_form_can_tell_at_once_what_no_pool_holds(changes):
    """Told only by the run, it costs its place in the queue and the start of a worker."""
    with pytest.raises(LabError) as caught:
        WALL.changed(changes)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == next(iter(changes))


@pytest.mark.parametrize("changes, code", REFUSED, ids=[str(changes) for changes, _ in REFUSED])
def test_what_cannot_run_is_told_before_a_worker_starts(changes, code):
    """A request, or a reservation, larger than the pool would wait for ever."""
    cluster = Simulated()
    with pytest.raises(LabError) as caught:
        run(WALL.changed(changes), cluster)
    assert caught.value.code == code and cluster.groups is None
    assert caught.value.facts.get("kind", "single") == "single", "not the number of a group that nobody knows, and no \"request request\""


def test_several_gpus_are_one_pool(monkeypatch):
    """Two replicas with a pool each would admit twice as many, and the wall would stand elsewhere than drawn."""
    monkeypatch.setattr(
        "engine.experiments.plan.cpu_deployment", lambda model, dtype, cores: cuda_deployment(model, dtype, num_gpus=2)
    )
    result = run(WALL)
    assert [len(entry["resources"]) for entry in result["schedules"].values()] == [1, 1, 1]


def test_cancelling_gives_the_device_back():
    """A lock kept after a cancel stops everybody."""
    records = []
    with pytest.raises(Cancelled):
        run(WALL, on_record=lambda *record: records.append(record), cancelled=lambda: len(records) > 3)
    with device_lock("cpu", "next", wait=False):
        pass


def test_a_real_wall():
    """The whole way with real workers: the wave as predicted, nobody lost, and waste that is measured."""
    result = run_wall(WALL.changed({"count": 20, "prompt_tokens_max": 120, "output_tokens_max": 60, "pool_tokens": 384, "reserve_tokens": 180}))
    for variant, entry in result["schedules"].items():
        assert result["prediction"][variant]["measured"] == [result["prediction"][variant]["first_wave"]]
        assert all(request["status"] == "finished" for request in entry["trace"]["requests"])
        assert 0 < entry["waste"] < 1 and entry["metrics"]["makespan_s"] > 0
        assert all(tokens <= 16 * blocks for tokens, blocks in zip(entry["usage"]["tokens"], entry["usage"]["blocks"]))
    paged, reserved = result["schedules"][PAGED], result["schedules"][RESERVED]
    assert paged["metrics"]["preemptions"] > 0 == reserved["metrics"]["preemptions"] and reserved["waste"] > paged["waste"]
    assert result["disturbance"]["schedules"].keys() == set(VARIANTS)
