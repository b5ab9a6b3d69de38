"""The Schedules experiment: the same requests served under unified, chunked and disaggregated scheduling, for real.

`run_schedules` drives worker processes and gives back one JSON-ready result: manifest, metrics, traces, texts. It
imports no torch itself; only the workers do.
"""

from collections.abc import Callable
from statistics import median

from engine.experiments.agreement import agreement, texts_of
from engine.experiments.manifest import FORMAT, manifest
from engine.experiments.measuring import (
    Measuring,
    Meter,
    OnRecord,
    Progress,
    announcement,
    long_index,
    measuring,
    no_progress,
    observer,
    prefill_alone_s,
    rotated,
)
from engine.experiments.pieces import pieces_of
from engine.experiments.plan import Plan, plan_for
from engine.experiments.scenarios import SchedulesScenario, new_run_id
from engine.measure.metrics import median_of, summarize
from engine.measure.trace import build_trace, output_tokens
from engine.serving.cluster import Cluster
from engine.serving.deployment import Deployment


def run_schedules(
    scenario: SchedulesScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda schedule, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: Callable[[Deployment], Cluster] | None = None,
    run_id: str | None = None,
) -> dict:
    """Measure a scenario; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, measuring and decomposing; done in 0..1.
    on_plan(plan): once, before anything is measured: what will be served, with what (see `engine.experiments.measuring.announcement`).
    on_record(schedule, repeat, record): every trace record as it comes; steps have the text of their tokens ("pieces").
    cluster_for(deployment): gives workers that outlive the run; without it they are started and ended here.
    run_id: the result's name, if it was promised to somebody already.
    Raises LabError, or `engine.serving.cluster.Cancelled`.
    """
    plan = plan_for(scenario)
    on_plan(announcement(plan, scenario.repeats))
    purpose = f"schedules: {scenario.workload}"
    with measuring(
        plan, purpose, progress=progress, cancelled=cancelled, wait=wait, cluster_for=cluster_for
    ) as bench:
        result = _measure(plan, bench, progress, on_record)
    return {**result, "run_id": run_id or new_run_id()}


def _measure(plan: Plan, bench: Measuring, progress: Progress, on_record: OnRecord) -> dict:
    scenario = plan.scenario
    runs: dict[str, list[list[dict]]] = {schedule: [] for schedule in scenario.schedules}
    order = [rotated(scenario.schedules, repeat) for repeat in range(scenario.repeats)]
    turns = [(repeat, schedule) for repeat, schedules in enumerate(order) for schedule in schedules]
    for number, (repeat, schedule) in enumerate(turns):
        facts = {"schedule": schedule, "repeat": repeat + 1, "repeats": scenario.repeats}
        meter = Meter(plan, number, len(turns), progress, **facts)
        see = observer(plan, meter, on_record, schedule, repeat)
        runs[schedule].append(bench.serve(plan, schedule, on_record=see, name=schedule))
    chunking = _decompose(plan, bench, runs, progress) if scenario.decompose else None
    schedules = {schedule: _entry(plan, bench.cluster, schedule, runs[schedule]) for schedule in scenario.schedules}
    if chunking:
        served = schedules["chunked"]["metrics"]["prefill_s"]
        chunking |= {"chunked_served_s": served, "scheduling_cost_s": served - chunking["chunked_alone_s"]}
    shown = {schedule: runs[schedule][entry["trace"]["repeat"]] for schedule, entry in schedules.items()}
    tokens = {schedule: output_tokens(records) for schedule, records in shown.items()}
    return {
        "format": FORMAT,
        "kind": scenario.kind,
        "run_id": "",
        "provenance": "measured",
        "manifest": manifest(plan, scenario, bench.begun, order=[list(schedules) for schedules in order]),
        "schedules": schedules,
        "chunking": chunking,
        "texts": texts_of(plan, tokens),
        "pieces": _pieces(plan, {schedule: pieces_of(records) for schedule, records in shown.items()}),
        "agreement": agreement(plan, tokens),
        "disturbance": bench.disturbance,
    }


def _entry(plan: Plan, cluster: Cluster, schedule: str, runs: list[list[dict]]) -> dict:
    """What the result says of one schedule: median metrics of all repeats, and the trace of the middle one."""
    resources = plan.resources(schedule)
    traces = [
        build_trace(schedule, list(plan.requests), records, block_tokens=plan.setup.block_tokens) for records in runs
    ]
    summaries = [
        summarize(
            trace,
            kv_bytes_per_token=plan.setup.kv_bytes_per_token,
            kv_capacity_bytes=sum(worker["kv_capacity_bytes"] for worker in resources),
        )
        for trace in traces
    ]
    metrics, spread = median_of(summaries)
    ranked = sorted(range(len(runs)), key=lambda i: summaries[i]["prefill_s"] or summaries[i]["makespan_s"] or 0.0)
    middle = ranked[(len(ranked) - 1) // 2]
    return {
        "metrics": metrics,
        "spread": spread,
        "runs": [{name: summary[name] for name in ("itl_max_s", "ttft_s", "prefill_s")} for summary in summaries],
        "resources": [
            {**worker, "clock_offset_ns": cluster.facts[worker["worker"]]["clock_offset_ns"]} for worker in resources
        ],
        "trace": {**traces[middle], "repeat": middle},
    }


def _decompose(plan: Plan, bench: Measuring, runs: dict, progress: Progress) -> dict | None:
    """The long prompt alone on the whole engine, whole and in chunks: what chunking costs without any decode between.

    kernel cost = chunked alone - whole alone (weights and earlier KV are read again for every chunk, masks);
    scheduling cost = chunked among the chats - chunked alone (the decodes that share its steps).
    """
    index = long_index(plan)
    if index is None or "chunked" not in runs or _refused(runs["chunked"][0], index):
        return None
    seconds: dict[str, list[float]] = {"unified": [], "chunked": []}
    for repeat in range(plan.scenario.repeats):
        for place, schedule in enumerate(rotated(("unified", "chunked"), repeat)):
            done = (repeat + place / 2) / plan.scenario.repeats
            progress("decomposing", done, schedule=schedule)
            seconds[schedule].append(prefill_alone_s(plan, bench, schedule, index, name="alone"))
    whole, chunked = median(seconds["unified"]), median(seconds["chunked"])
    return {
        "chunk_tokens": plan.scenario.chunk_tokens,
        "whole_prefill_s": whole,
        "chunked_alone_s": chunked,
        "kernel_cost_s": chunked - whole,
    }


def _refused(records: list[dict], index: int) -> bool:
    return any(record["type"] == "Refused" and record["index"] == index for record in records)


def _pieces(plan: Plan, pieces: dict[str, dict[int, list[str]]]) -> dict:
    """Per request and schedule, the text of each token; None where it is the same as under the first schedule."""
    first = plan.scenario.schedules[0]
    found = {}
    for index, request in enumerate(plan.requests):
        base = pieces[first].get(index, [])
        others = {name: by_index.get(index, []) for name, by_index in pieces.items() if name != first}
        found[request["id"]] = {first: base, **{name: own if own != base else None for name, own in others.items()}}
    return found
