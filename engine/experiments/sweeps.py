"""The sweeps: one thing changed from point to point, everything else the same, in one result without traces.

    chunk-sweep   per chunk size: what the long prompt waits and takes, what the chats feel, and the prompt alone in those
                  chunks, so that the cost of sharing steps with decodes is told apart from that of cutting the work
    backlog       per prompt length: the load that the arrivals are (prefill seconds of one prompt / spacing / engines),
                  how long each prompt waits, and how fast the wait grows, beside what theory says: spacing x (load - 1)

The points are measured in another order in every repeat, so that a machine that becomes slower is not taken for an effect.
"""

import random
from collections.abc import Callable
from statistics import fmean, linear_regression, median

from engine.experiments.manifest import FORMAT, manifest
from engine.experiments.measuring import (
    Measuring,
    Meter,
    OnRecord,
    Progress,
    long_index,
    measuring,
    no_progress,
    observer,
    prefill_alone_s,
)
from engine.experiments.plan import Plan, check_fits, plan_for, set_up
from engine.experiments.scenarios import new_run_id
from engine.experiments.sweep_scenarios import CHUNK_SWEEP, WHOLE, SweepScenario
from engine.formulas.queueing import highest_rate_per_s, load, wait_growth_s
from engine.measure.disturbance import any_disturbed
from engine.measure.metrics import median_of, summarize, ttft_s
from engine.measure.trace import build_trace
from engine.serving.cluster import Cluster
from engine.serving.deployment import Deployment

# The wait is said to grow where each arrival waits longer than the one before by more than this share of the spacing:
# at a load of about one a few slow prompts make a small slope.
GROWS_ABOVE = 0.1
_METRICS = (
    "ttft_s",
    "prefill_s",
    "itl_max_s",
    "itl_p99_s",
    "itl_p50_s",
    "itl_mean_s",
    "tpot_p50_s",
    "decode_step_p50_s",
    "throughput_tokens_per_s",
    "makespan_s",
    "preemptions",
)


def run_sweep(
    scenario: SweepScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda point, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: Callable[[Deployment], Cluster] | None = None,
    run_id: str | None = None,
) -> dict:
    """Measure a sweep; returns the result. Arguments and errors are those of `run_schedules`.

    A point is named by its value as a string: in on_record, and as the "schedules" of on_plan, which has "points" too.
    Raises LabError("request-never-fits") where a point's prompts could not be served at all.
    """
    setup = set_up(scenario.base)
    plans = {value: plan_for(point, setup) for value, point in scenario.points().items()}
    for plan in plans.values():
        check_fits(plan)
    on_plan(_announcement(scenario, plans))
    first = next(iter(plans.values()))
    measure = _measure_chunks if scenario.kind == CHUNK_SWEEP else _measure_backlog
    order = [_shuffled(scenario.values, scenario.base.seed, repeat) for repeat in range(scenario.repeats)]
    with measuring(
        first, scenario.kind, progress=progress, cancelled=cancelled, wait=wait, cluster_for=cluster_for
    ) as bench:
        runs: dict[int, list[dict]] = {value: [] for value in scenario.values}
        turns = [(repeat, value) for repeat, values in enumerate(order) for value in values]
        for number, (repeat, value) in enumerate(turns):
            facts = {"point": value, "repeat": repeat + 1, "repeats": scenario.repeats}
            meter = Meter(plans[value], number, len(turns), progress, **facts)
            see = observer(plans[value], meter, on_record, str(value), repeat)
            runs[value].append(measure(plans[value], bench, value, see))
    points = (_chunk_points if scenario.kind == CHUNK_SWEEP else _backlog_points)(scenario, runs)
    for point in points:
        point["disturbed"] = any_disturbed(bench.disturbances[str(point["value"])])
    return {
        "format": FORMAT,
        "kind": scenario.kind,
        "run_id": run_id or new_run_id(),
        "provenance": "measured",
        "manifest": manifest(first, scenario, bench.begun, order=order),
        "points": points,
        "disturbance": bench.disturbance,
    }


def _announcement(scenario: SweepScenario, plans: dict[int, Plan]) -> dict:
    first = next(iter(plans.values()))
    return {
        "kind": scenario.kind,
        "schedules": [str(value) for value in plans],
        "repeats": scenario.repeats,
        "requests": list(first.requests),
        "points": [{"value": v, "schedule": _schedule(p), "requests": list(p.requests)} for v, p in plans.items()],
        "block_tokens": first.setup.block_tokens,
        "kv_bytes_per_token": first.setup.kv_bytes_per_token,
        "resources": {str(value): plan.resources(_schedule(plan)) for value, plan in plans.items()},
    }


def _schedule(plan: Plan) -> str:
    return plan.scenario.schedules[0]


def _shuffled(values: tuple[int, ...], seed: int, repeat: int) -> list[int]:
    order = list(values)
    random.Random(f"{seed} {repeat}").shuffle(order)
    return order


def _serve(plan: Plan, bench: Measuring, value: int, see) -> dict:
    """The trace of one serving of a point."""
    schedule = _schedule(plan)
    records = bench.serve(plan, schedule, on_record=see, name=str(value))
    return build_trace(schedule, list(plan.requests), records, block_tokens=plan.setup.block_tokens)


def _alone_s(plan: Plan, bench: Measuring, value: int, index: int) -> float:
    return prefill_alone_s(plan, bench, _schedule(plan), index, name=str(value))


def _measure_chunks(plan: Plan, bench: Measuring, value: int, see) -> dict:
    """One repeat of a point: its metrics, the number of chunks, and the long prompt's prefill alone in such chunks."""
    trace = _serve(plan, bench, value, see)
    index = long_index(plan)
    capacity = sum(worker["kv_capacity_bytes"] for worker in plan.resources(_schedule(plan)))
    metrics = summarize(trace, kv_bytes_per_token=plan.setup.kv_bytes_per_token, kv_capacity_bytes=capacity)
    return {
        **{name: metrics[name] for name in _METRICS},
        "chunks": _chunks(trace, index),
        "alone_s": _alone_s(plan, bench, value, index),
    }


def _chunks(trace: dict, index: int) -> int:
    """In how many steps a request's prompt was computed."""
    end = trace["requests"][index]["prompt_tokens"]
    return sum(request == index and start < end for step in trace["steps"] for request, start, _ in step["slices"])


def _chunk_points(scenario: SweepScenario, runs: dict[int, list[dict]]) -> list[dict]:
    """Medians and spreads; the differences are between medians."""
    points = []
    for value, repeats in runs.items():
        middle, spread = median_of(repeats)
        chunks, alone_s = middle.pop("chunks"), middle.pop("alone_s")
        del spread["chunks"]
        points.append(
            {
                "value": value,
                "chunk_tokens": value if value != WHOLE else None,
                "schedule": "unified" if value == WHOLE else "chunked",
                "chunks": round(chunks),
                "metrics": _rounded(middle),
                "alone_s": round(alone_s, 6),
                "spread": {name: _rounded_pair(pair) for name, pair in spread.items()},
                "scheduling_cost_s": round(middle["prefill_s"] - alone_s, 6),
            }
        )
    whole_s = next((point["alone_s"] for point in points if point["value"] == WHOLE), None)
    for point in points:
        point["kernel_cost_s"] = None if whole_s is None else round(point["alone_s"] - whole_s, 6)
    return points


def _measure_backlog(plan: Plan, bench: Measuring, value: int, see) -> dict:
    """One repeat of a point: the prefill of a prompt alone, before and after, and what each prompt waited."""
    before = _alone_s(plan, bench, value, 0)
    trace = _serve(plan, bench, value, see)
    alone_s = fmean([before, _alone_s(plan, bench, value, 0)])
    requests = trace["requests"]
    waits = [request["prefill_begin_s"] - request["arrival_s"] for request in requests]
    slope = linear_regression(range(len(waits)), waits).slope
    return {
        "servers": len(plan.workers(_schedule(plan))),
        "alone_s": alone_s,
        "served_s": median(request["prefill_end_s"] - request["prefill_begin_s"] for request in requests),
        "ttft_s": [ttft_s(request) for request in requests],
        "wait_s": waits,
        "wait_slope_s": slope,
        "queue": _queue(requests),
        "makespan_s": trace["duration_s"],
    }


def _queue(requests: list[dict]) -> list[list]:
    """[second, prompts that have arrived and have no token yet] at each change."""
    changes = [(r["arrival_s"], 1) for r in requests] + [(r["token_s"][0], -1) for r in requests]
    length, steps = 0, []
    for at_s, change in sorted(changes):
        length += change
        steps.append([round(at_s, 4), length])
    return steps


def _backlog_points(scenario: SweepScenario, runs: dict[int, list[dict]]) -> list[dict]:
    """Medians over the repeats; the queue is that of the repeat with the middle slope."""
    points = []
    for value, repeats in runs.items():
        (group,) = scenario.point(value).groups
        alone_s = median(run["alone_s"] for run in repeats)
        servers = repeats[0]["servers"]
        slope = median(run["wait_slope_s"] for run in repeats)
        ranked = sorted(repeats, key=lambda run: run["wait_slope_s"])
        points.append(
            {
                "value": value,
                "prompt_tokens": value,
                "prompts": group.count,
                "spacing_s": group.spacing_s,
                "alone_s": round(alone_s, 6),
                "served_s": round(median(run["served_s"] for run in repeats), 6),
                "servers": servers,
                "capacity_prompts_per_s": round(highest_rate_per_s(alone_s, servers=servers), 4),
                "load": round(load(1 / group.spacing_s, alone_s, servers=servers), 4),
                "ttft_s": _medians([run["ttft_s"] for run in repeats]),
                "wait_s": _medians([run["wait_s"] for run in repeats]),
                "wait_slope_s": round(slope, 6),
                "theory_slope_s": round(wait_growth_s(group.spacing_s, alone_s, servers=servers), 6),
                "grows": slope > GROWS_ABOVE * group.spacing_s,
                "queue": ranked[(len(ranked) - 1) // 2]["queue"],
                "spread": {
                    name: _rounded_pair([min(run[name] for run in repeats), max(run[name] for run in repeats)])
                    for name in ("alone_s", "served_s", "wait_slope_s", "makespan_s")
                },
            }
        )
    return points


def _medians(rows: list[list[float]]) -> list[float]:
    return [round(median(column), 6) for column in zip(*rows, strict=True)]


def _rounded(metrics: dict) -> dict:
    return {name: None if value is None else round(value, 6) for name, value in metrics.items()}


def _rounded_pair(pair: list | None) -> list | None:
    return None if pair is None else [round(value, 6) for value in pair]
