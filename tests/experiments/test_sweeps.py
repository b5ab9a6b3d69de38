"""The sweeps around their workers: order, costs told apart, queueing theory; simulated workers, and one real run of each."""

import json
from dataclasses import replace
from statistics import median

import pytest

from engine.errors import LabError
from engine.experiments.scenarios import RequestGroup, SchedulesScenario
from engine.experiments.sweep_scenarios import SweepScenario
from engine.experiments.sweeps import run_sweep
from engine.lock import device_lock
from engine.measure import disturbance
from engine.serving.cluster import Cancelled
from engine.serving.deployment import cuda_deployment
from tests.experiments.simulated import Simulated

TINY = {"model": "random-tiny", "text": "korean", "kv_bytes": 1 << 20, "device": "cpu", "dtype": "float32"}
CHUNKS = SweepScenario(
    "chunk-sweep",
    SchedulesScenario("test", (RequestGroup("chat", 3, 20, 24), RequestGroup("long", 1, 90, 4, arrival_s=0.3)), **TINY),
    (16, 64, 0, 100),
)
BACKLOG = SweepScenario("backlog", SchedulesScenario("test", (RequestGroup("prompt", 6, 50, 1, spacing_s=0.1),), **TINY), (40, 100, 200))


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


class OneServer:
    """Prompts one after another, in order of arrival, at a fixed time per token: the queue that the theory is about."""

    SECONDS_PER_TOKEN = 0.001

    def __init__(self):
        self.facts = {name: {"clock_offset_ns": 0} for name in ("engine-0", "engine-1")}

    def start(self, groups, *, cancelled):
        assert groups == {"engine"}

    def serve(self, arrivals, settings, *, on_record, cancelled):
        assert settings.max_prefill_tokens == 1, "one prompt a step, else waiting and computing cannot be told apart"
        records = [{"type": "start", "at_ns": 0}]
        records += [{"type": "arrive", "index": a.request.index, "at_ns": int(a.at_s * 1e9)} for a in arrivals]
        free = 0.0
        for a in arrivals:
            begin, tokens = max(free, a.at_s), len(a.request.prompt)
            free = begin + tokens * self.SECONDS_PER_TOKEN
            piece = [a.request.index, 0, tokens]
            records.append(
                {"type": "step", "worker": "engine-0", "begin_ns": int(begin * 1e9), "end_ns": int(free * 1e9), "slices": [piece],
                 "prefill_tokens": tokens, "decode_tokens": 0, "tokens": [[a.request.index, 65, 1.0]]}
            )  # fmt: skip
        for record in records:
            on_record(record)
        return records


def run(scenario, cluster=None, **options):
    cluster = cluster or Simulated()
    return run_sweep(scenario, cluster_for=lambda deployment: cluster, **options)


def by_value(result):
    return {point["value"]: point for point in result["points"]}


def run_plan(scenario):
    told = []
    run(scenario, on_plan=told.append)
    return told[0]["requests"]


@pytest.mark.parametrize("scenario", [CHUNKS, BACKLOG], ids=lambda s: s.kind)
def test_the_result_is_small_json_and_names_what_was_run(scenario):
    """A NaN breaks browsers, a missing setting makes it unrepeatable, and traces of every point would be megabytes."""
    text = json.dumps(run(scenario, run_id="promised"), allow_nan=False)
    result = json.loads(text)
    assert len(text) < 60_000 and result["kind"] == scenario.kind and result["run_id"] == "promised"
    assert (result["format"], result["provenance"]) == (1, "measured")
    assert SweepScenario.from_dict(result["manifest"]["scenario"]) == scenario and result["manifest"]["scenario_key"] == scenario.key()
    assert [point["value"] for point in result["points"]] == list(scenario.values), "in the order asked for, not as measured"
    assert result["manifest"]["model"]["name"] == "random-tiny" and len(run(scenario)["run_id"]) > 16


def test_points_are_measured_in_another_order_every_time():
    """A machine that heats up would otherwise make the last point, always the same, look slow."""
    result = run(CHUNKS.changed({"repeats": 5}))
    order = result["manifest"]["order"]
    assert len(order) == 5 and all(sorted(values) == sorted(CHUNKS.values) for values in order)
    assert len({tuple(values) for values in order}) > 2 and len({values[-1] for values in order}) > 1
    assert run(CHUNKS.changed({"repeats": 5}))["manifest"]["order"] == order, "the seed decides"


def test_every_point_gets_its_chunk_size_and_the_prompt_alone_beside_it():
    """Measured at another time, the prompt alone would be compared across a drift."""
    cluster = Simulated()
    order = run(CHUNKS, cluster)["manifest"]["order"][0]
    expected = [("unified" if value == 0 else "chunked", count) for value in order for count in (4, 1)]
    assert cluster.served == expected
    assert [s.chunk_tokens for s in cluster.settings[::2] if s.schedule == "chunked"] == [value for value in order if value]
    assert [s.chunk_tokens for s in cluster.settings[1::2]] == [s.chunk_tokens for s in cluster.settings[::2]]


def test_chunks_are_counted():
    """The axis of claim A7: how often the prompt was cut. 90 tokens in 16s are six, the last of ten; whole is one."""
    points = by_value(run(CHUNKS))
    assert {value: point["chunks"] for value, point in points.items()} == {16: 6, 64: 2, 0: 1, 100: 1}
    assert points[0]["schedule"] == "unified" and points[0]["chunk_tokens"] is None
    assert points[16]["schedule"] == "chunked" and points[16]["chunk_tokens"] == 16


def test_decodes_are_no_chunks():
    """The prompt's own decodes, beside the prefill of a later request, would make few chunks look like many."""
    late = (*CHUNKS.base.groups, *(RequestGroup(f"late{i}", 1, 60, 2, arrival_s=0.3 + i / 20) for i in range(6)))
    scenario = SweepScenario("chunk-sweep", replace(CHUNKS.base, groups=late).changed({"long.output_tokens": 40, "max_batch_requests": 64}), (100,))
    records = []
    points = by_value(run(scenario, on_record=lambda name, repeat, record: records.append(record)))
    index = next(i for i, r in enumerate(run_plan(scenario)) if r["kind"] == "long")
    mixed = [s for r in records if r["type"] == "step" and r["prefill_tokens"] for s in r["slices"] if s[0] == index and s[1] >= 90]
    assert mixed and points[100]["chunks"] <= 2


def test_the_costs_of_cutting_and_of_sharing_are_told_apart():
    """Cost of cutting = alone in chunks - alone whole; cost of sharing = among the chats - alone in chunks."""
    points = by_value(run(CHUNKS.changed({"repeats": 3})))
    for value, point in points.items():
        assert point["kernel_cost_s"] == pytest.approx(point["alone_s"] - points[0]["alone_s"], abs=2e-6)
        assert point["scheduling_cost_s"] == pytest.approx(point["metrics"]["prefill_s"] - point["alone_s"], abs=2e-6)
        for name in ("prefill_s", "itl_max_s", "throughput_tokens_per_s", "ttft_s"):
            low, high = point["spread"][name]
            assert low <= point["metrics"][name] <= high
        assert point["spread"]["alone_s"][0] <= point["alone_s"] <= point["spread"]["alone_s"][1]
    assert points[16]["alone_s"] > points[0]["alone_s"], "six steps against one"
    without = by_value(run(CHUNKS.changed({"values": [16, 64]})))
    assert without[16]["kernel_cost_s"] is None and without[16]["scheduling_cost_s"] is not None


def test_medians_over_repeats(monkeypatch):
    """One lucky repeat must not be the point."""
    result = run(CHUNKS.changed({"repeats": 3, "values": [16]}))
    (point,) = result["points"]
    low, high = point["spread"]["prefill_s"]
    assert low < point["metrics"]["prefill_s"] < high and point["metrics"]["prefill_s"] != pytest.approx((low + high) / 2)


def test_the_wait_grows_as_theory_says_where_the_load_is_above_one():
    """One server, fixed times: each arrival waits spacing x (load - 1) longer; below one nobody waits at all."""
    points = by_value(run(BACKLOG, OneServer()))
    for value, load in ((40, 0.4), (100, 1.0), (200, 2.0)):
        point = points[value]
        assert point["load"] == pytest.approx(load) and point["alone_s"] == pytest.approx(value / 1000) == pytest.approx(point["served_s"])
        assert point["capacity_prompts_per_s"] == pytest.approx(1000 / value)
        assert point["theory_slope_s"] == pytest.approx(0.1 * max(0, load - 1), abs=1e-6)
        assert point["wait_slope_s"] == pytest.approx(point["theory_slope_s"], abs=1e-6)
        assert point["grows"] is (load > 1)
        assert point["wait_s"] == pytest.approx([k * point["theory_slope_s"] for k in range(6)], abs=1e-5)
        assert point["ttft_s"] == pytest.approx([wait + value / 1000 for wait in point["wait_s"]], abs=1e-5)


def test_two_engines_carry_twice_the_load(monkeypatch):
    """On two GPUs the unified schedule has two replicas: counted as one, the wall would be drawn at half of where it is."""
    monkeypatch.setattr(
        "engine.experiments.plan.cpu_deployment", lambda model, dtype, cores: cuda_deployment(model, dtype, num_gpus=2)
    )
    two, one = by_value(run(BACKLOG, OneServer()))[200], by_value(run(BACKLOG, OneServer()))[100]
    assert two["servers"] == 2 and two["load"] == pytest.approx(1.0) and one["load"] == pytest.approx(0.5)
    assert two["capacity_prompts_per_s"] == pytest.approx(10.0) and two["theory_slope_s"] == pytest.approx(0, abs=1e-6)


def test_the_queue_over_time():
    """Prompts that have arrived and have no token yet: at most one below capacity, piling up above it, none at the end."""
    points = by_value(run(BACKLOG, OneServer()))
    assert points[40]["queue"][:4] == [[0.0, 1], [0.04, 0], [0.1, 1], [0.14, 0]]
    lengths = [length for _, length in points[200]["queue"]]
    assert max(lengths) == 4 and lengths[-1] == 0 and len(lengths) == 12
    assert points[200]["queue"] == sorted(points[200]["queue"], key=lambda at: at[0])


def test_the_plan_comes_first_and_every_record_with_its_point():
    """Live pages draw from it; a record under another point's name would be drawn in the wrong place."""
    told = []
    run(BACKLOG, on_plan=lambda plan: told.append(plan), on_record=lambda *record: told.append(record))
    plan = json.loads(json.dumps(told[0], allow_nan=False))
    assert plan["kind"] == "backlog" and plan["schedules"] == ["40", "100", "200"] == list(plan["resources"])
    assert [[r["prompt_tokens"] for r in point["requests"]] for point in plan["points"]] == [[40] * 6, [100] * 6, [200] * 6]
    for name, repeat, record in told[1:]:
        assert repeat == 0 and all(length in (int(name), 1) for _, _, length in record.get("slices", ()))
        assert ("pieces" in record) == (record["type"] == "step")
    assert {name for name, *_ in told[1:]} == set(plan["schedules"])


@pytest.mark.parametrize("scenario", [CHUNKS, BACKLOG], ids=lambda s: s.kind)
def test_progress_goes_from_nothing_to_all_and_never_back(scenario):
    """A bar that jumps back is not believed again."""
    seen = []
    run(scenario.changed({"repeats": 2}), progress=lambda phase, done, **facts: seen.append((phase, done, facts)))
    shares = [done for phase, done, _ in seen if phase == "measuring"]
    assert shares == sorted(shares) and shares[0] == 0.0 and 0.9 < shares[-1] <= 1.0
    assert seen[-1][2]["repeat"] == seen[-1][2]["repeats"] == 2 and seen[-1][2]["point"] in scenario.values
    assert {phase for phase, *_ in seen} == {"starting-workers", "measuring"}


def test_a_disturbed_point_is_named(monkeypatch):
    """A bend in the curve that the mail client made must not be taught as an effect."""
    verdicts = iter([0.0, 0.0, None, 0.5, None, 0.0, None, None])
    monkeypatch.setattr(disturbance, "judge", lambda begin, end: disturbance.verdict(next(verdicts), None))
    result = run(CHUNKS)
    first, second, third, last = result["manifest"]["order"][0]
    found = {value: point["disturbed"] for value, point in by_value(result).items()}
    assert found == {first: False, second: True, third: False, last: None} and result["disturbance"]["disturbed"] is True


@pytest.mark.parametrize("scenario", [CHUNKS, BACKLOG], ids=lambda s: s.kind)
def test_a_prompt_that_never_fits_is_told_before_a_worker_starts(scenario):
    """In a schedule it is shown as refused; a sweep over a refused prompt has nothing to show."""
    cluster = Simulated()
    with pytest.raises(LabError) as caught:
        run(scenario.changed({"kv_bytes": 1 << 20, "prompt.prompt_tokens" if scenario is BACKLOG else "long.prompt_tokens": 5000, **({"values": [5000]} if scenario is BACKLOG else {})}), cluster)
    assert caught.value.code == "request-never-fits" and cluster.groups is None


def test_what_cannot_run_is_told_before_a_worker_starts(monkeypatch):
    """The longest point decides, not the base: it may be beyond the model's context."""
    cluster = Simulated()
    for changes, code in (({"values": [64, 9000]}, "prompt-exceeds-model"), ({"model": "nonsense"}, "model-unknown"), ({"text": "nonsense"}, "text-unknown")):
        with pytest.raises(LabError) as caught:
            run(BACKLOG.changed(changes), cluster)
        assert caught.value.code == code and cluster.groups is None


def test_cancelling_ends_the_sweep_and_gives_the_device_back():
    """A lock kept after a cancel stops everybody."""
    records = []
    with pytest.raises(Cancelled):
        run(CHUNKS, on_record=lambda *record: records.append(record), cancelled=lambda: len(records) > 3)
    with device_lock("cpu", "next", wait=False):
        pass


def test_a_real_chunk_sweep():
    """The whole way with real workers: every point served, in the chunks asked for, and worth its name."""
    result = run_sweep(CHUNKS.changed({"values": [16, 0], "chat.output_tokens": 40}))
    points = by_value(result)
    assert points[16]["chunks"] == 6 and points[0]["chunks"] == 1
    for point in points.values():
        assert 0 < point["metrics"]["prefill_s"] <= point["metrics"]["ttft_s"] and point["alone_s"] > 0
        assert point["metrics"]["itl_max_s"] >= point["metrics"]["itl_p99_s"] >= point["metrics"]["itl_p50_s"] > 0
    assert result["disturbance"]["schedules"].keys() == {"16", "0"}


def test_a_real_backlog():
    """With a spacing far below a prefill the queue must be there, in measured seconds."""
    result = run_sweep(BACKLOG.changed({"values": [64, 2000], "prompt.spacing_s": 0.002, "kv_bytes": 1 << 22}))
    point = by_value(result)[2000]
    assert point["load"] > 1 and point["grows"] and point["wait_slope_s"] > 0
    assert max(length for _, length in point["queue"]) > 1 and point["wait_s"] == sorted(point["wait_s"])
    assert median(point["ttft_s"]) > point["alone_s"]
