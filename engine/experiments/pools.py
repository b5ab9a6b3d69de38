"""The pools experiment: the same requests in one engine, and in pools of prefill and decode workers of several sizes.

Processes of this machine as in the Schedules experiment; the pools take turns on them. The result, beside format, kind, run_id,
provenance, manifest, texts, agreement and disturbance as there (by arrangement instead of by schedule):

    arrangements   of each, by its name {
        "metrics"        as `engine.measure.metrics.summarize`
        "resources"      [{"worker", "role", "device", "threads", "cores", "kv_capacity_bytes", "kv_block_tokens",
                         "clock_offset_ns"}], and "host" of one on another host (`engine.experiments.hosts`)
        "processes"      how many serve
        "processes_at_most_cores"   no two of them share a core (or a GPU). If not, its times say nothing of the arrangement
        "pools"          of "engine", or of "prefill" and "decode": as `engine.measure.pools.pool_facts`
        "back_pressure"  as there
        "transfer"       {"bytes", "seconds"} of KV between the pools, the seconds of all copies together
        "trace"          as `engine.measure.trace`}

Every arrangement has the same cores and the same KV bytes in all. While a run grows, `engine.service.live` shows the
arrangements as "schedules".
"""

from collections.abc import Callable
from dataclasses import replace

from engine.experiments.agreement import agreement, texts_of
from engine.experiments.hosts import apart, placed
from engine.experiments.manifest import FORMAT, manifest
from engine.experiments.measuring import Measuring, Meter, OnRecord, Progress, announcement, measuring, no_progress, observer
from engine.experiments.plan import Plan, Setup, check_fits, plan_for, set_up
from engine.experiments.pools_scenario import POOLS, PoolsScenario
from engine.experiments.scenarios import new_run_id
from engine.experiments.settings import wrong
from engine.measure.metrics import summarize
from engine.measure.pools import back_pressure, pool_facts, pool_of
from engine.measure.trace import build_trace, output_tokens
from engine.serving.cluster import Cluster, SessionSettings
from engine.serving.deployment import Deployment, gpu_pools_deployment, pools_deployment, ratio_of


class PoolsPlan(Plan):
    """Its scenario is a PoolsScenario; an arrangement is what others call a schedule."""

    def settings(self, schedule: str) -> SessionSettings:
        """The KV budget split over the pools as the scenario says, and evenly in each. Raises LabError("scenario-value") if
        that is too small."""
        found = super().settings(schedule)
        if ratio_of(schedule):
            scenario, (prefill, decode) = self.scenario, ratio_of(schedule)
            blocks = scenario.kv_bytes // found.kv_bytes_per_block
            for_decode = round(blocks * scenario.decode_kv_share)
            found = replace(found, entry_blocks=(blocks - for_decode) // prefill, decode_blocks=for_decode // decode)
            if not found.entry_blocks or not found.decode_blocks:
                raise wrong("kv_bytes", scenario.kv_bytes, "enough for a block in each worker")
        return replace(found, kv_format=self.scenario.kv_format, link_bytes_per_s=self.scenario.link_bytes_per_s)


def run_pools(
    scenario: PoolsScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda arrangement, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: Callable[[Deployment], Cluster] | None = None,
    run_id: str | None = None,
) -> dict:
    """Serve the requests under each arrangement; returns the result. Arguments and errors are those of `run_schedules`.

    Raises LabError("request-never-fits") too, where a worker of some arrangement could not hold a request.
    """
    plan = plan_pools(scenario)
    on_plan(announcement(plan))
    runs: dict[str, list[dict]] = {}
    purpose = f"{POOLS}: {scenario.workload}"
    with measuring(plan, purpose, progress=progress, cancelled=cancelled, wait=wait, cluster_for=cluster_for) as bench:
        for number, name in enumerate(scenario.arrangements):
            meter = Meter(plan, number, len(scenario.arrangements), progress, schedule=name)
            see = observer(plan, meter, on_record, name, 0)
            runs[name] = bench.serve(plan, name, on_record=see, name=name)
        arrangements = {name: _entry(plan, bench, name, records) for name, records in runs.items()}
    tokens = {name: output_tokens(records) for name, records in runs.items()}
    return {
        "format": FORMAT,
        "kind": scenario.kind,
        "run_id": run_id or new_run_id(),
        "provenance": "measured",
        "manifest": manifest(plan, scenario, bench.begun, order=[list(scenario.arrangements)]),
        "arrangements": arrangements,
        "texts": texts_of(plan, tokens),
        "agreement": agreement(plan, tokens),
        "disturbance": bench.disturbance,
    }


def plan_pools(scenario: PoolsScenario) -> PoolsPlan:
    """Check everything that can be checked before a worker starts. Raises LabError."""
    setup = set_up(scenario)
    plan = plan_for(scenario, replace(setup, deployment=_deployed(scenario, setup)), made=PoolsPlan)
    check_fits(plan)
    return plan


def _deployed(scenario: PoolsScenario, setup: Setup) -> Deployment:
    """The same machine, with workers enough for all arrangements."""
    plain = setup.deployment
    pools = [ratio for name in scenario.arrangements if (ratio := ratio_of(name))]
    if setup.device.device_class == "gpu":
        return gpu_pools_deployment(plain.model, plain.dtype, setup.device.num_gpus, pools)
    return pools_deployment(plain.model, plain.dtype, plain.entry("unified")[0].cores, pools)


def _entry(plan: PoolsPlan, bench: Measuring, name: str, records: list[dict]) -> dict:
    """What the result says of one arrangement."""
    setup, resources = plan.setup, placed(plan.resources(name), bench.cluster.facts)
    trace = build_trace(name, list(plan.requests), records, block_tokens=setup.block_tokens)
    capacity, per_token = sum(worker["kv_capacity_bytes"] for worker in resources), setup.kv_bytes_per_token
    metrics = summarize(trace, kv_bytes_per_token=per_token, kv_capacity_bytes=capacity)
    by_pool: dict[str, list[dict]] = {}
    for worker in resources:
        by_pool.setdefault(pool_of(worker["worker"]), []).append(worker)
    return {
        "metrics": metrics,
        "resources": resources,
        "processes": len(resources),
        "processes_at_most_cores": apart(resources),
        "pools": {pool: pool_facts(trace, workers, pool, kv_bytes_per_token=per_token) for pool, workers in by_pool.items()},
        "back_pressure": back_pressure(trace),
        "transfer": {"bytes": metrics["transfer_bytes"], "seconds": metrics["transfer_s"]},
        "trace": trace,
    }
