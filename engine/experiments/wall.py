"""The measured memory wall: the same requests in an ample pool, and in a small one, paged and reserved.

What is compared is the admission of requests and nothing else: one engine, one schedule (unified), one machine. How much
of the pool is used for what is read from the traces, and the first admission wave stands beside what the formula says.
"""

from collections.abc import Callable
from dataclasses import replace

from engine.errors import LabError
from engine.experiments.manifest import FORMAT, manifest
from engine.experiments.measuring import Measuring, Meter, OnRecord, Progress, measuring, no_progress, observer, rotated
from engine.experiments.plan import Plan, Setup, check_fits, plan_for, set_up
from engine.experiments.scenarios import new_run_id
from engine.experiments.wall_scenario import AMPLE, PAGED, REQUEST, RESERVED, VARIANTS, WALL, WallScenario
from engine.formulas.admission import blocks_for, first_wave
from engine.measure.disturbance import any_disturbed
from engine.measure.metrics import median_of, percentile, summarize, ttft_s
from engine.measure.trace import build_trace
from engine.measure.usage import computed_again, mean_running, measured_first_wave, usage, waste
from engine.serving.cluster import Cluster
from engine.serving.deployment import Deployment

SCHEDULE = "unified"
_KEPT = (
    "throughput_tokens_per_s",
    "makespan_s",
    "preemptions",
    "tpot_p50_s",
    "itl_max_s",
    "kv_peak_bytes",
    "kv_capacity_bytes",
    "output_tokens",
)


def run_wall(
    scenario: WallScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda variant, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: Callable[[Deployment], Cluster] | None = None,
    run_id: str | None = None,
) -> dict:
    """Measure a wall; returns the result. Arguments and errors are those of `run_schedules`; records are named by variant.

    Raises LabError("request-never-fits") where the pool could not hold a request, or what is reserved for it, at all.
    """
    setup = _one_engine(set_up(scenario.base))
    plans = _plans(scenario, setup)
    on_plan(_announcement(scenario, plans))
    order = [rotated(VARIANTS, repeat) for repeat in range(scenario.repeats)]
    turns = [(repeat, variant) for repeat, variants in enumerate(order) for variant in variants]
    runs: dict[str, list[dict]] = {variant: [] for variant in VARIANTS}
    with measuring(
        plans[PAGED], WALL, progress=progress, cancelled=cancelled, wait=wait, cluster_for=cluster_for
    ) as bench:
        for number, (repeat, variant) in enumerate(turns):
            plan, facts = plans[variant], {"schedule": variant, "repeat": repeat + 1, "repeats": scenario.repeats}
            see = observer(plan, Meter(plan, number, len(turns), progress, **facts), on_record, variant, repeat)
            records = bench.serve(plan, SCHEDULE, on_record=see, name=variant)
            runs[variant].append(build_trace(variant, list(plan.requests), records, block_tokens=setup.block_tokens))
        entries = {variant: _entry(plans[variant], bench, variant, traces) for variant, traces in runs.items()}
    return {
        "format": FORMAT,
        "kind": scenario.kind,
        "run_id": run_id or new_run_id(),
        "provenance": "measured",
        "manifest": manifest(plans[PAGED], scenario, bench.begun, order=[list(variants) for variants in order]),
        "schedules": entries,
        "prediction": {variant: _prediction(plans[variant], traces) for variant, traces in runs.items()},
        "disturbance": bench.disturbance,
    }


def _one_engine(setup: Setup) -> Setup:
    """On a machine with several GPUs, the first one alone: one pool, one wall."""
    engines = setup.deployment.entry(SCHEDULE)
    if len(engines) == 1:
        return setup
    return replace(setup, deployment=replace(setup.deployment, workers=(engines[0],)))


def _plans(scenario: WallScenario, setup: Setup) -> dict[str, Plan]:
    """The same requests for each variant; "request-3" is what each is called."""
    try:
        plan = plan_for(scenario.base, setup)
    except LabError as error:
        if not str(error.facts.get("kind", "")).startswith(REQUEST):
            raise
        raise LabError(error.code, **{**error.facts, "kind": "single"}) from error  # it reads "A single request of ..."
    paged = replace(plan, requests=tuple({**r, "id": r["kind"], "kind": REQUEST} for r in plan.requests))
    blocks = scenario.pool_tokens // setup.block_tokens
    if not blocks:
        expected = f"at least {setup.block_tokens}"
        raise LabError("scenario-value", field="pool_tokens", value=scenario.pool_tokens, expected=expected)
    all_of_them = sum(blocks_for(arrival.request.max_kv_tokens, setup.block_tokens) for arrival in plan.arrivals)
    plans = {
        AMPLE: replace(paged, blocks=max(blocks, all_of_them)),
        PAGED: replace(paged, blocks=blocks),
        RESERVED: replace(paged, blocks=blocks, reserve_tokens=scenario.reserve_tokens),
    }
    for plan in plans.values():
        check_fits(plan)
    return plans


def _announcement(scenario: WallScenario, plans: dict[str, Plan]) -> dict:
    plan = plans[PAGED]
    return {
        "kind": scenario.kind,
        "schedules": list(plans),
        "repeats": scenario.repeats,
        "requests": list(plan.requests),
        "block_tokens": plan.setup.block_tokens,
        "kv_bytes_per_token": plan.setup.kv_bytes_per_token,
        "resources": {variant: plan.resources(SCHEDULE) for variant, plan in plans.items()},
    }


def _entry(plan: Plan, bench: Measuring, variant: str, traces: list[dict]) -> dict:
    """What the result says of one variant: medians of all repeats; trace and usage of the one with the middle makespan."""
    resources = plan.resources(SCHEDULE)
    capacity = sum(worker["kv_capacity_bytes"] for worker in resources)
    used = [usage(trace, plan.setup.block_tokens) for trace in traces]
    found = [_metrics(plan, trace, columns, capacity) for trace, columns in zip(traces, used, strict=True)]
    metrics, spread = median_of(found)
    ranked = sorted(range(len(traces)), key=lambda i: found[i]["makespan_s"])
    middle = ranked[(len(ranked) - 1) // 2]
    return {
        "metrics": metrics,
        "spread": spread,
        "waste": metrics["waste_mean"],
        "resources": [
            {**worker, "clock_offset_ns": bench.cluster.facts[worker["worker"]]["clock_offset_ns"]} for worker in resources
        ],
        "usage": used[middle],
        "trace": {**traces[middle], "repeat": middle},
        "disturbed": any_disturbed(bench.disturbances[variant]),
    }


def _metrics(plan: Plan, trace: dict, used: dict, capacity: int) -> dict:
    """Of one serving. Times in seconds; TTFT is over all requests."""
    summary = summarize(trace, kv_bytes_per_token=plan.setup.kv_bytes_per_token, kv_capacity_bytes=capacity)
    ttfts = [seconds for request in trace["requests"] if (seconds := ttft_s(request)) is not None]
    wasted = waste(used, plan.setup.block_tokens)
    return {
        **{name: summary[name] for name in _KEPT},
        "ttft_p50_s": percentile(ttfts, 0.5),
        "ttft_p90_s": percentile(ttfts, 0.9),
        "ttft_max_s": max(ttfts),
        "waste_mean": wasted["mean"],
        "waste_peak": wasted["peak"],
        "running_most": max(used["running"]),
        "running_mean": mean_running(used),
        "blocks_most": max(used["blocks"]),
        "computed_again_tokens": computed_again(trace),
        "first_wave": measured_first_wave(trace),
    }


def _prediction(plan: Plan, traces: list[dict]) -> dict:
    """How many requests the formula lets in at first, with what it computes from, and how many were, in each repeat."""
    settings = plan.settings(SCHEDULE)
    predicted = first_wave(
        [request["prompt_tokens"] for request in plan.requests],
        [request["output_tokens"] for request in plan.requests],
        settings.entry_blocks,
        settings.block_tokens,
        settings.max_batch_requests,
        settings.reserve_tokens,
        settings.max_prefill_tokens,
    )
    return {
        "first_wave": predicted,
        "measured": [measured_first_wave(trace) for trace in traces],
        "blocks": settings.entry_blocks,
        "block_tokens": settings.block_tokens,
        "reserve_tokens": settings.reserve_tokens,
    }
