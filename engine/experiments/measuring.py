"""What all measurements share: the device to themselves, workers that are ready, one serving after another, watched."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from engine.experiments.manifest import Begun, begin
from engine.experiments.pieces import PieceWriter
from engine.experiments.plan import Plan
from engine.lock import device_lock
from engine.measure import disturbance
from engine.measure.metrics import LONG
from engine.serving.cluster import Arrival, Cluster
from engine.serving.deployment import Deployment

Progress = Callable[..., None]
OnRecord = Callable[[str, int, dict], None]


def no_progress(phase: str, done: float, **facts: object) -> None:
    """For callers that do not look."""


def announcement(plan: Plan, repeats: int = 1) -> dict:
    """What can be told before the first record, of schedules or of arrangements of pools."""
    schedules = plan.scenario.schedules
    return {
        "kind": plan.scenario.kind,
        "schedules": list(schedules),
        "repeats": repeats,
        "requests": list(plan.requests),
        "block_tokens": plan.setup.block_tokens,
        "kv_bytes_per_token": plan.setup.kv_bytes_per_token,
        "resources": {schedule: plan.resources(schedule) for schedule in schedules},
    }


def rotated(items: tuple, by: int) -> tuple:
    """The same, beginning with another one each time: whoever comes first always would have the cooler machine."""
    by %= len(items)
    return items[by:] + items[:by]


class Measuring:
    """Serves a plan's requests on a cluster that is ready, and keeps how much each serving was disturbed."""

    def __init__(self, cluster: Cluster, cancelled: Callable[[], bool], begun: Begun) -> None:
        self.cluster = cluster
        self.cancelled = cancelled
        self.begun = begun
        self.disturbances: dict[str, list[dict]] = {}

    def serve(
        self,
        plan: Plan,
        schedule: str,
        *,
        arrivals: list[Arrival] | None = None,
        name: str,
        on_record: Callable[[dict], None] = lambda record: None,
    ) -> list[dict]:
        """One serving under one schedule: its trace records. Its disturbance is kept under `name`.

        arrivals: others than the plan's. Of workers on other hosts nobody here knows how much they were disturbed.
        """
        workers = [worker for worker in plan.workers(schedule) if "host" not in self.cluster.facts[worker.name]]
        pids = [pid for worker in workers if (pid := self.cluster.facts[worker.name].get("pid"))]
        cores = {core for worker in workers for core in worker.cores}
        before = disturbance.take_sample(pids, cores)
        records = self.cluster.serve(
            list(plan.arrivals if arrivals is None else arrivals),
            plan.settings(schedule),
            on_record=on_record,
            cancelled=self.cancelled,
        )
        judged = disturbance.judge(before, disturbance.take_sample(pids, cores)) if workers else disturbance.verdict(None, None)
        self.disturbances.setdefault(name, []).append(judged)
        return records

    @property
    def disturbance(self) -> dict:
        return disturbance.overall(self.disturbances)


@contextmanager
def measuring(
    plan: Plan,
    purpose: str,
    *,
    progress: Progress,
    cancelled: Callable[[], bool],
    wait: bool,
    cluster_for: Callable[[Deployment], Cluster] | None,
) -> Iterator[Measuring]:
    """Hold the device, with the workers that the plan needs started; afterwards they are ended unless they were lent.

    Raises as `device_lock` and `Cluster.start` do.
    """
    setup = plan.setup
    with device_lock(
        setup.lock_name,
        purpose,
        wait=wait,
        cancelled=cancelled,
        on_wait=lambda holder: progress("waiting", 0.0, holder=holder),
    ):
        begun = begin()
        cluster = cluster_for(setup.deployment) if cluster_for else Cluster(setup.deployment)
        try:
            progress("starting-workers", 0.0)
            cluster.start(plan.groups, cancelled=cancelled)
            yield Measuring(cluster, cancelled, begun)
        finally:
            if not cluster_for:
                cluster.stop()


class Meter:
    """Turns one serving's trace records into progress: the share of its tokens that was computed.

    number, total: which of how many equal parts of the whole it is; facts: what is told with the progress.
    """

    def __init__(self, plan: Plan, number: int, total: int, progress: Progress, **facts: object) -> None:
        self.number, self.total, self.progress, self.facts = number, total, progress, facts
        self.all_tokens = sum(r["prompt_tokens"] + r["output_tokens"] for r in plan.requests)
        self.tokens = 0

    def see(self, record: dict) -> None:
        if record["type"] == "step":
            self.tokens += sum(length for _, _, length in record["slices"])
        elif record["type"] != "start":
            return
        done = (self.number + min(1.0, self.tokens / self.all_tokens)) / self.total
        self.progress("measuring", done, **self.facts)


def observer(plan: Plan, meter: Meter, on_record: OnRecord, name: str, repeat: int) -> Callable[[dict], None]:
    """What one serving's records go through: their tokens get their text, then everybody else sees them."""
    writer = PieceWriter(plan.setup.tokenizer, plan.requests)

    def see(record: dict) -> None:
        writer.write(record)
        on_record(name, repeat, record)
        meter.see(record)

    return see


def long_index(plan: Plan) -> int | None:
    """The index of the first long prompt; None without one."""
    return next((index for index, request in enumerate(plan.requests) if request["kind"] == LONG), None)


def prefill_alone_s(plan: Plan, bench: Measuring, schedule: str, index: int, name: str) -> float:
    """Seconds that one prompt takes with the device to itself: first step's begin to last step's end, one output token.

    Raises IndexError if it is refused. name: as for `Measuring.serve`.
    """
    alone = Arrival(0.0, replace(plan.arrivals[index].request, index=0, output_tokens=1))
    steps = [r for r in bench.serve(plan, schedule, arrivals=[alone], name=name) if r["type"] == "step"]
    return (steps[-1]["end_ns"] - steps[0]["begin_ns"]) / 1e9
