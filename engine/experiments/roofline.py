"""The roofline experiment: this engine's steps, timed, under the roof that was measured in the same run.

A child process of its own calibrates the device and runs the steps (`roofline_worker`); the order, the repeats and what
the times mean are decided here, without torch.

    share_of_roof   operations per second over min(best matmul rate in the run's format, intensity x read rate). Above 1 is
                    possible: K and V that fit a cache are read quicker than the roof, which is that of memory, allows
"""

import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median

from engine.errors import LabError
from engine.experiments.child import Bench, alone
from engine.experiments.measuring import OnRecord, Progress, no_progress
from engine.experiments.plan import Ground, ground
from engine.experiments.roofline_scenario import RooflineScenario, Step
from engine.formulas import roofline as formulas
from engine.kv.blocks import blocks_for
from engine.measure import calibration
from engine.serving.deployment import WorkerSpec

MODULE = "engine.experiments.roofline_worker"
LIMIT_S = 600
# A step that took this long says its time well enough: it is measured once. A short one warms up first. On a machine that
# is busy with something else, repeats are what is left out: each of them may take this long, over all steps.
ONCE_S = 0.5
WARM_UP_BELOW_S = 0.25
REPEAT_S = 4.0
# Rates below those of any machine that people run this on, operations and bytes per second; per thread on a CPU. Of what a
# device was calibrated to do, a step reaches this share at least.
_SLOW = {"cpu": (10e9, 4e9), "gpu": (5e12, 200e9)}
_WORST_SHARE = 0.2
_BF16_IN_SOFTWARE = 8


@dataclass(frozen=True)
class RooflinePlan:
    """What will be measured: the steps that fit, why the others do not, and blocks that hold the largest."""

    setup: Ground
    shape: formulas.Shape
    steps: tuple[Step, ...]
    skipped: tuple[dict, ...]
    num_blocks: int

    @property
    def worker(self) -> WorkerSpec:
        """The whole engine, as unified serving has it; the first of several GPUs."""
        return self.setup.deployment.entry("unified")[0]

    def cost(self, step: Step) -> dict[str, formulas.Cost]:
        """Operations and bytes of each part."""
        parts = formulas.step_cost(self.shape, step.slices)
        return {"all": tuple(map(sum, zip(*parts.values(), strict=True))), **parts}


def run_roofline(
    scenario: RooflineScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda step, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Measure a scenario; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, loading, calibrating and measuring; while measuring the
    facts are step ("prefill" or "decode"), tokens, batch, context, and point of points.
    on_plan, on_record, cluster_for: as other experiments have them, unused. Nothing is served, so there is no trace to show.
    Raises LabError ("roofline-too-long" for what would take far too long, "request-never-fits" where nothing fits), or
    `engine.serving.cluster.Cancelled`.
    """
    plan = plan_roofline(scenario)
    with alone(MODULE, plan.setup, scenario, progress=progress, cancelled=cancelled, wait=wait) as bench:
        roof = bench.ask({"type": "calibrate"}, "calibrated", lambda r: progress("calibrating", r["done"]))["calibration"]
        pool = {"num_blocks": plan.num_blocks, "block_tokens": plan.setup.block_tokens}
        bench.ask({"type": "open", **pool, "seed": scenario.seed}, "opened")
        runs, order = _measure(plan, bench, scenario, roof, progress)
    return {
        **bench.head(run_id, order=order),
        "shape": asdict(plan.shape),
        "calibration": roof,
        "points": [point for step in plan.steps for point in points_of(plan, step, runs[step], roof)],
        "skipped": list(plan.skipped),
        "disturbance": bench.disturbance,
    }


def plan_roofline(scenario: RooflineScenario) -> RooflinePlan:
    """Check everything that can be checked before a process starts. Raises LabError."""
    setup = ground(scenario)
    c = setup.card.config
    shape = formulas.Shape(
        c.n_layers, c.hidden_size, c.n_heads, c.n_kv_heads, c.head_dim, c.ffn_size, c.vocab_size, setup.bytes_per_value
    )
    total_blocks = scenario.kv_bytes // (setup.kv_bytes_per_token * setup.block_tokens)
    fitting, skipped = [], []
    for step in scenario.steps:
        needed = step.batch * blocks_for(step.context + step.new, setup.block_tokens)
        why = {**step.as_dict(), "needed_blocks": needed, "total_blocks": total_blocks, "block_tokens": setup.block_tokens}
        why |= {"needed_bytes": needed * setup.block_tokens * setup.kv_bytes_per_token, "kv_bytes": scenario.kv_bytes}
        if step.context + step.new > c.max_context:
            skipped.append({**why, "reason": "model", "max_context_tokens": c.max_context})
        elif needed > total_blocks:
            skipped.append({**why, "reason": "pool"})
        else:
            fitting.append(step)
    if not fitting:
        _refuse(setup, scenario, total_blocks)
    blocks = max(step.batch * blocks_for(step.context + step.new, setup.block_tokens) for step in fitting)
    plan = RooflinePlan(setup, shape, tuple(fitting), tuple(skipped), blocks)
    seconds = worst_case_s(plan, scenario.repeats)
    if seconds > LIMIT_S:
        raise LabError("roofline-too-long", seconds=round(seconds), limit_s=LIMIT_S)
    return plan


def worst_case_s(plan: RooflinePlan, repeats: int) -> float:
    """How long the steps take at most: from what this device was calibrated to do, else from a slow one's rates."""
    flops_per_s, bytes_per_s = _worst_rates(plan)
    total = 0.0
    for step in plan.steps:
        flops, moved = plan.cost(step)["all"]
        seconds = flops / flops_per_s + moved / bytes_per_s
        total += seconds if seconds > ONCE_S / _WORST_SHARE else (repeats + 1) * seconds
    return total


def _worst_rates(plan: RooflinePlan) -> tuple[float, float]:
    setup, worker = plan.setup, plan.worker
    known = calibration.stored(worker.device)
    if known is not None and known["threads"] == worker.threads:
        best = calibration.best_flops_per_s(known, setup.dtype)
        return _WORST_SHARE * best, _WORST_SHARE * known["read_bytes_per_s"]
    threads = worker.threads if setup.device.device_class == "cpu" else 1
    flops_per_s, bytes_per_s = (threads * rate for rate in _SLOW[setup.device.device_class])
    if setup.dtype == "bfloat16" and not setup.device.fast_bf16:
        flops_per_s /= _BF16_IN_SOFTWARE
    return flops_per_s, bytes_per_s


def _refuse(setup: Ground, scenario: RooflineScenario, total_blocks: int) -> None:
    smallest = min(scenario.steps, key=lambda step: step.batch * (step.context + step.new))
    tokens, longest = smallest.batch * (smallest.context + smallest.new), setup.card.config.max_context
    if smallest.context + smallest.new > longest:
        raise LabError("model-too-long", wanted=smallest.context + smallest.new, limit=longest)
    needed = smallest.batch * blocks_for(smallest.context + smallest.new, setup.block_tokens)
    facts = {"needed_blocks": needed, "block_tokens": setup.block_tokens, "total_blocks": total_blocks}
    raise LabError("request-never-fits", tokens=tokens, **facts)


def _measure(plan: RooflinePlan, bench: Bench, scenario: RooflineScenario, roof: dict, progress: Progress):
    """{step: times of each repeat}, and the names of the steps as they were measured."""
    runs: dict[Step, list[dict]] = {step: [] for step in plan.steps}
    order = []
    meter = _Meter(plan, scenario.repeats, roof, progress)
    for repeat in range(scenario.repeats):
        if repeat <= 1:
            begun = time.monotonic()  # the first time around has no limit: every step is to have a time
        order.append([])
        with bench.watched():
            for step in _shuffled(plan.steps, scenario.seed, repeat):
                late = time.monotonic() - begun > REPEAT_S * (scenario.repeats - 1)
                if runs[step] and (late or runs[step][0]["seconds"] > ONCE_S):
                    continue
                meter.begin(step)
                order[-1].append(step.name)
                asked = {"type": "step", "batch": step.batch, "new": step.new, "context": step.context}
                times = bench.ask(asked, "timed")
                if not runs[step] and times["seconds"] < WARM_UP_BELOW_S:
                    times = bench.ask(asked, "timed")  # the first of its shape paid for choosing how to compute it
                runs[step].append(times)
                meter.end(step)
    return runs, order


class _Meter:
    """Progress by the time that steps take under the roof: a prefill of thousands of tokens is not one of thirty."""

    def __init__(self, plan: RooflinePlan, repeats: int, roof: dict, progress: Progress) -> None:
        self.progress, self.points, self.number, self.spent = progress, len(plan.steps), {}, 0.0
        flops_per_s = calibration.best_flops_per_s(roof, plan.setup.dtype)
        for number, step in enumerate(plan.steps, start=1):
            self.number[step] = number
        costs = {step: plan.cost(step)["all"] for step in plan.steps}
        self.seconds = {s: max(f / flops_per_s, b / roof["read_bytes_per_s"]) for s, (f, b) in costs.items()}
        self.total = sum(s * (1 if s > ONCE_S else repeats) for s in self.seconds.values())

    def begin(self, step: Step) -> None:
        facts = {name: value for name, value in step.as_dict().items() if name != "phase"}
        done = min(1.0, self.spent / self.total)
        self.progress("measuring", done, step=step.phase, **facts, point=self.number[step], points=self.points)

    def end(self, step: Step) -> None:
        self.spent += self.seconds[step]


def points_of(plan: RooflinePlan, step: Step, times: list[dict], roof: dict) -> list[dict]:
    """What the result says of a step: one point for the whole of it, one for its matrices, one for its attention.

    times: {"seconds", "linear", "attention"} of each repeat, in seconds.
    """
    flops_per_s, bytes_per_s = calibration.best_flops_per_s(roof, plan.setup.dtype), roof["read_bytes_per_s"]
    points = []
    for part, (flops, moved) in plan.cost(step).items():
        measured = [run["seconds" if part == "all" else part] for run in times]
        seconds, intensity = median(measured), formulas.intensity((flops, moved))
        points.append(
            {
                "id": f"{step.name}-{part}",
                "part": part,
                **step.as_dict(),
                "seconds": _rounded(seconds),
                "spread": [_rounded(min(measured)), _rounded(max(measured))],
                "runs": len(measured),
                "flops": flops,
                "bytes": moved,
                "intensity": _rounded(intensity),
                "flops_per_s": _rounded(flops / seconds),
                "share_of_roof": _rounded(flops / seconds / formulas.attainable(intensity, flops_per_s, bytes_per_s)),
            }
        )
    return points


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _shuffled(steps: tuple[Step, ...], seed: int, repeat: int) -> list[Step]:
    """Another order in every repeat: a machine that becomes slower is not taken for an effect of length."""
    order = list(steps)
    random.Random(f"{seed} {repeat}").shuffle(order)
    return order
