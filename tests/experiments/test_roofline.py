"""The roofline experiment: what is made of the times (a process that answers at once), and one real run of everything."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.experiments import roofline
from engine.experiments.plan import Ground
from engine.experiments.roofline import ONCE_S, WARM_UP_BELOW_S, plan_roofline, run_roofline, worst_case_s
from engine.experiments.roofline_scenario import RooflineScenario, roofline_for
from engine.formulas.roofline import Shape, attainable, step_cost
from engine.lock import device_lock
from engine.measure import calibration, disturbance
from engine.measure.device import cpu
from engine.model.card import describe
from engine.serving.cluster import Cancelled
from engine.serving.deployment import cpu_deployment
from tests.experiments.stand_in import StandIn

ROOT = Path(__file__).resolve().parents[2]
TINY = {"model": "random-tiny", "device": "cpu", "dtype": "float32"}
SMALL = RooflineScenario((16, 64), (1, 4), (32, 100), **TINY)
ROOF = {
    "version": 1,
    "threads": 2,
    "matmul": {"float32": [{"n": 8, "flops_per_s": 1e11}, {"n": 16, "flops_per_s": 2e11}], "bfloat16": [{"n": 8, "flops_per_s": 9e11}]},
    "read_bytes_per_s": 1e10,
    "call_overhead_s": 1e-6,
    "copy_bytes_per_s": None,
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


class Desk(StandIn):
    """Stands in for the measuring process: says of each step what `seconds(step, how often it was asked before)` says."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.steps, self.opened = [], None
        self.seconds = lambda step, number: 0.3 + 0.01 * number

    def answer(self, record, on_other):
        if record["type"] == "calibrate":
            for done in (0.0, 0.5):
                on_other({"type": "calibrating", "done": done})
            return {"calibration": ROOF}
        if record["type"] == "open":
            self.opened = record
            return {}
        step = (record["batch"], record["new"], record["context"])
        seconds = self.seconds(step, self.steps.count(step))
        self.steps.append(step)
        return {"seconds": seconds, "linear": seconds / 2, "attention": seconds / 4}


@pytest.fixture
def desk(monkeypatch):
    return Desk(monkeypatch)


def by_id(result):
    return {point["id"]: point for point in result["points"]}


def test_the_result_is_small_json_and_names_what_was_run(desk):
    """A NaN breaks browsers, a missing setting makes it unrepeatable."""
    text = json.dumps(run_roofline(SMALL, run_id="promised"), allow_nan=False)
    result = json.loads(text)
    assert len(text) < 30_000 and (result["format"], result["kind"], result["run_id"], result["provenance"]) == (1, "roofline", "promised", "measured")
    assert RooflineScenario.from_dict(result["manifest"]["scenario"]) == SMALL and result["manifest"]["scenario_key"] == SMALL.key()
    assert "text" not in result["manifest"] and result["manifest"]["threads"] >= 1 and result["calibration"] == ROOF
    assert [point["id"] for point in result["points"]] == [f"{step.name}-{part}" for step in SMALL.steps for part in ("all", "linear", "attention")]
    assert Shape(**result["shape"]).kv_heads == 2 and len(run_roofline(SMALL)["run_id"]) > 16
    assert desk.ended and set(result["disturbance"]["schedules"]) == {"roofline"} and len(result["disturbance"]["schedules"]["roofline"]) == 3


def test_a_point_is_the_median_over_the_roof_of_this_run(desk):
    """Its speed from the operations and the middle time, its share from the rate of its own number format."""
    desk.seconds = lambda step, number: [0.4, 0.3, 0.35][number]
    result = run_roofline(SMALL)
    shape = Shape(**result["shape"])
    for step in SMALL.steps:
        parts = step_cost(shape, step.slices)
        for part, factor in (("all", 1), ("linear", 2), ("attention", 4)):
            point = by_id(result)[f"{step.name}-{part}"]
            flops, moved = parts[part] if part != "all" else [a + b for a, b in zip(*parts.values(), strict=True)]
            assert (point["flops"], point["bytes"], point["part"], point["runs"]) == (flops, moved, part, 3)
            assert point["seconds"] == pytest.approx(0.35 / factor) and point["spread"] == pytest.approx([0.3 / factor, 0.4 / factor])
            assert point["intensity"] == pytest.approx(flops / moved, rel=1e-5)
            assert point["flops_per_s"] == pytest.approx(flops / point["seconds"], rel=1e-5)
            assert point["share_of_roof"] == pytest.approx(point["flops_per_s"] / attainable(flops / moved, 2e11, 1e10), rel=1e-4)
            assert {name: point[name] for name in ("phase", "tokens", "batch", "context")} == step.as_dict()


def test_short_steps_warm_up_and_long_ones_are_measured_once(desk):
    """The first of a shape pays for choosing how to compute it; a step of seconds, three times, is half a minute."""
    took = {(1, 16, 0): WARM_UP_BELOW_S / 2, (1, 64, 0): ONCE_S * 2, (4, 1, 100): ONCE_S}
    desk.seconds = lambda step, number: took.get(step, 0.3) * (100 if step == (1, 16, 0) and number == 0 and step not in took else 1)
    points = by_id(run_roofline(SMALL.changed({"repeats": 4})))
    assert desk.steps.count((1, 16, 0)) == 5 and points["prefill-16-all"]["runs"] == 4
    assert desk.steps.count((1, 64, 0)) == 1 and points["prefill-64-all"]["runs"] == 1
    assert desk.steps.count((4, 1, 100)) == 4 and points["decode-1x32-all"]["runs"] == 4


def test_a_busy_machine_leaves_out_repeats_and_no_step(desk, monkeypatch):
    """A class waits for the result; a step without a time would be a hole in the picture."""
    monkeypatch.setattr(roofline, "REPEAT_S", -1.0)
    result = run_roofline(SMALL)
    assert {point["runs"] for point in result["points"]} == {1} and len(result["points"]) == 3 * len(SMALL.steps)
    assert [len(steps) for steps in result["manifest"]["order"]] == [len(SMALL.steps), 0, 0]


def test_the_warm_up_is_not_in_the_result(desk):
    """It would be the upper end of every spread."""
    desk.seconds = lambda step, number: 0.2 if number == 0 else 0.001
    assert all(point["spread"][1] <= 0.001 for point in run_roofline(SMALL)["points"])


def test_steps_are_measured_in_another_order_every_time(desk):
    """A machine that heats up would otherwise make the longest contexts, always the last, look slow."""
    order = run_roofline(SMALL.changed({"repeats": 5}))["manifest"]["order"]
    names = sorted(step.name for step in SMALL.steps)
    assert len(order) == 5 and all(sorted(steps) == names for steps in order)
    assert len({tuple(steps) for steps in order}) > 2
    assert run_roofline(SMALL.changed({"repeats": 5}))["manifest"]["order"] == order, "the seed decides"
    assert run_roofline(SMALL.changed({"repeats": 5, "seed": 1}))["manifest"]["order"] != order


def test_what_does_not_fit_is_listed_with_its_numbers(desk):
    """The wall: 4 sequences of 1,000 tokens and one new one each are 4 x 63 blocks; 1 MiB has 256 of 16 tokens here."""
    scenario = SMALL.changed({"decode_contexts": [1000, 1024, 9000], "decode_batches": [1, 4, 5], "kv_bytes": 1 << 20})
    result = run_roofline(scenario)
    found = {(s["batch"], s["context"]): s for s in result["skipped"]}
    assert set(found) == {(4, 1024), (5, 1000), (5, 1024), (1, 9000), (4, 9000), (5, 9000)}
    wall = found[4, 1024]
    assert (wall["reason"], wall["needed_blocks"], wall["total_blocks"], wall["block_tokens"]) == ("pool", 4 * 65, 256, 16)
    assert wall["needed_bytes"] == wall["needed_blocks"] * 16 * 256 and wall["kv_bytes"] == 1 << 20 and wall["phase"] == "decode"
    assert found[1, 9000]["reason"] == "model" and found[1, 9000]["max_context_tokens"] == 8192
    measured = {(p["batch"], p["context"]) for p in result["points"] if p["phase"] == "decode"}
    assert measured == {(1, 1000), (4, 1000), (1, 1024)} and desk.opened["num_blocks"] == 252, "no more memory than the largest takes"


def test_what_cannot_run_is_told_before_a_process_starts(desk):
    """After seconds of loading it would be the same news."""
    cases = [
        ({"model": "nonsense"}, "model-unknown"), ({"threads": 200}, "scenario-value"), ({"model": "smollm2-135m-instruct"}, "model-missing"),
        ({"prefill_tokens": [9000], "decode_batches": []}, "model-too-long"), ({"prefill_tokens": [8000], "decode_batches": [], "kv_bytes": 1 << 20}, "request-never-fits"),
        ({"model": "random-1b", "prefill_tokens": [100_000], "kv_bytes": 1 << 40}, "roofline-too-long"),
    ]  # fmt: skip
    for changes, code in cases:
        with pytest.raises(LabError) as caught:
            run_roofline(SMALL.changed(changes))
        assert caught.value.code == code and desk.opened is None and not desk.ended
        assert "{" not in str(caught.value)


def test_how_long_at_most_follows_the_work_and_what_is_known_of_the_device(monkeypatch):
    """A huge scenario is refused on a slow device; once it is known to be a quick one, more is allowed."""
    scenario = roofline_for("cpu", **{**TINY, "model": "random-1b"})
    plan = plan_roofline(scenario)
    unknown = worst_case_s(plan, 3)
    assert worst_case_s(plan, 20) > unknown > worst_case_s(plan_roofline(scenario.changed({"prefill_tokens": [16]})), 3)
    quick = {**ROOF, "threads": plan.worker.threads, "matmul": {"float32": [{"flops_per_s": 1e14}]}, "read_bytes_per_s": 1e13}
    monkeypatch.setattr(calibration, "stored", lambda device: quick)
    assert worst_case_s(plan, 3) < unknown / 100
    monkeypatch.setattr(calibration, "stored", lambda device: {**quick, "threads": 77})
    assert worst_case_s(plan, 3) == unknown, "measured with other threads it says nothing"


def test_the_preset_is_not_refused_on_a_small_machine(monkeypatch):
    """One core without fast bf16 and without a calibration: the page's own button must work there."""
    model = "smollm2-135m-instruct"
    small = Ground(replace(cpu(), fast_bf16=False), "float32", cpu_deployment(model, "float32", (0,)), describe(model))
    monkeypatch.setattr(roofline, "ground", lambda scenario: small)
    plan = plan_roofline(roofline_for("cpu"))
    assert plan.worker.threads == 1 and 30 < worst_case_s(plan, 3) < roofline.LIMIT_S
    assert {(s["batch"], s["context"]) for s in plan.skipped} == {(64, 512), (16, 2048), (32, 2048), (64, 2048)}, "the wall is in sight"


def test_progress_goes_from_nothing_to_all_and_never_back(desk):
    """A bar that jumps back is not believed again; the facts are what the page says beside it."""
    seen = []
    run_roofline(SMALL, progress=lambda phase, done, **facts: seen.append((phase, done, facts)))
    phases = [phase for phase, *_ in seen]
    assert phases == sorted(phases, key=["starting-workers", "loading", "calibrating", "measuring"].index) and len(set(phases)) == 4
    for name in set(phases):
        shares = [done for phase, done, _ in seen if phase == name]
        assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] < 1.0 + 1e-9
    shares = [done for phase, done, _ in seen if phase == "measuring"]
    assert len(shares) == 3 * len(SMALL.steps) and shares[-1] > 0.7
    facts = seen[-1][2]
    assert set(facts) == {"step", "tokens", "batch", "context", "point", "points"} and facts["points"] == len(SMALL.steps)
    assert {f["point"] for *_, f in seen if f} == set(range(1, len(SMALL.steps) + 1))


def test_a_disturbed_repeat_is_told(desk, monkeypatch):
    """What the mail client did must not be taught as an effect."""
    shares = iter([0.0, 0.5, 0.0])
    monkeypatch.setattr(disturbance, "judge", lambda begin, end: disturbance.verdict(next(shares), 0.5))
    found = run_roofline(SMALL)["disturbance"]
    assert found["disturbed"] is True and found["waited_share"] == 0.5


def test_cancelling_gives_the_device_back(desk):
    """A lock kept after a cancel stops everybody."""
    with pytest.raises(Cancelled):
        run_roofline(SMALL, cancelled=lambda: len(desk.steps) > 3)
    assert desk.ended
    with device_lock("cpu", "next", wait=False):
        pass


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """One real run: a process that loads, calibrates and times."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        return run_roofline(SMALL.changed({"prefill_tokens": [16, 512], "decode_contexts": [64, 4000]}))


def test_a_real_run(real):
    """The whole way: every step timed on the real path, every figure usable, the parts within the whole."""
    json.dumps(real, allow_nan=False)
    points = by_id(real)
    assert len(points) == 3 * 6 and real["skipped"] == []
    for point in points.values():
        assert 0 < point["share_of_roof"] < 1e3 and point["spread"][0] <= point["seconds"] <= point["spread"][1] and point["runs"] >= 1
    for name in ("prefill-16", "prefill-512", "decode-1x64", "decode-4x4000"):
        whole, linear, attention = (points[f"{name}-{part}"] for part in ("all", "linear", "attention"))
        assert linear["spread"][0] + attention["spread"][0] < whole["spread"][1]
        assert whole["flops"] == linear["flops"] + attention["flops"] and whole["bytes"] == linear["bytes"] + attention["bytes"]
    assert points["prefill-512-linear"]["intensity"] > points["prefill-16-linear"]["intensity"]
    assert points["decode-4x4000-attention"]["intensity"] == pytest.approx(2 * 4 / (2 * 4), rel=0.01), "query heads per KV head, 4 bytes"
    assert set(real["calibration"]["matmul"]) == {"float32", "bfloat16"} and real["calibration"]["threads"] == real["manifest"]["threads"]
    assert real["manifest"]["duration_s"] > 0 and real["manifest"]["model"]["name"] == "random-tiny"


def test_a_longer_context_takes_more_attention(real):
    """A cache that is not really read, or a context that is not really there, costs nothing more. 60 times the keys for
    4 sequences: not a matter of noise."""
    points = by_id(real)
    assert points["decode-4x4000-attention"]["spread"][0] > points["decode-4x64-attention"]["spread"][0]
    assert points["prefill-512-all"]["spread"][0] > points["prefill-16-all"]["spread"][0]





def test_the_process_does_not_outlive_a_killed_parent():
    """Left behind, it would compute against everybody's later measurements."""
    code = "from tests.experiments.test_roofline import *; run_roofline(SMALL.changed({'repeats': 20}), progress=lambda *a, **b: print(a, flush=True))"
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert any("calibrating" in line for line in parent.stdout), "it never began"
        family = psutil.Process(parent.pid).children(recursive=True)
        assert family
    finally:
        parent.kill()
        parent.wait()
        parent.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=60)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
