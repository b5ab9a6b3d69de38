"""The Schedules experiment: the same requests served under unified, chunked and disaggregated scheduling, for real.

`run_schedules` drives worker processes and gives back one JSON-ready result: manifest, metrics, traces, texts. It
imports no torch itself; only the workers do.
"""

import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median

import engine
from engine.errors import LabError
from engine.experiments.prompts import Prompt, PromptWriter
from engine.experiments.scenarios import SchedulesScenario, new_run_id
from engine.kv.blocks import BLOCK_TOKENS
from engine.lock import device_lock
from engine.measure.device import Device, choose, choose_dtype, usable_cores
from engine.measure.metrics import LONG, median_of, summarize
from engine.measure.trace import build_trace, output_tokens
from engine.model.card import describe, find_checkpoint
from engine.model.catalog import CATALOG
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import Tokenizer
from engine.serving.cluster import Arrival, Cluster, SessionSettings
from engine.serving.deployment import Deployment, cpu_deployment, cuda_deployment
from engine.serving.request import Request
from engine.texts import load_text

FORMAT = 1
_BYTES_PER_VALUE = {"float32": 4, "bfloat16": 2}
# Two logits closer than this may change places when the batch changes: the error of a forward in this format.
NEAR_TIE = {"float32": 0.01, "bfloat16": 0.5}

Progress = Callable[..., None]


@dataclass(frozen=True)
class Plan:
    """A checked scenario: what will run, on what, with which prompts."""

    scenario: SchedulesScenario
    device: Device
    dtype: str
    deployment: Deployment
    model: dict
    text: dict
    requests: tuple[dict, ...]
    arrivals: tuple[Arrival, ...]
    prompts: dict[str, Prompt]
    tokenizer: Tokenizer
    kv_bytes_per_token: int
    block_tokens: int

    @property
    def lock_name(self) -> str:
        return "cpu" if self.device.device_class == "cpu" else "cuda"


def plan_schedules(scenario: SchedulesScenario) -> Plan:
    """Check everything that can be checked before a worker starts. Raises LabError."""
    device = choose(scenario.device)
    dtype = choose_dtype(scenario.dtype, device)
    card = describe(scenario.model)
    if not card.ready:
        raise LabError("model-missing", name=scenario.model)
    for group in scenario.groups:
        if group.count and group.prompt_tokens + group.output_tokens > card.config.max_context:
            raise LabError(
                "prompt-exceeds-model",
                kind=group.kind,
                prompt_tokens=group.prompt_tokens,
                output_tokens=group.output_tokens,
                max_context=card.config.max_context,
            )
    text = load_text(scenario.text)
    tokenizer = load_tokenizer(scenario.model)
    requests, arrivals, prompts, repeated = _write_requests(scenario, tokenizer, text.text)
    block_tokens = BLOCK_TOKENS[device.device_class]
    kv_bytes_per_token = card.config.kv_bytes_per_token(_BYTES_PER_VALUE[dtype])
    deployment = _deploy(scenario, device, dtype)
    plan = Plan(
        scenario,
        device,
        dtype,
        deployment,
        card.as_dict(_BYTES_PER_VALUE[dtype]),
        {
            "name": text.name,
            "title": text.title,
            "sha256": text.sha256,
            "version": text.version,
            "language": text.language,
            "repeated": repeated,
        },
        tuple(requests),
        tuple(arrivals),
        prompts,
        tokenizer,
        kv_bytes_per_token,
        block_tokens,
    )
    for schedule in scenario.schedules:
        _settings(plan, schedule)
    return plan


def run_schedules(
    scenario: SchedulesScenario,
    *,
    progress: Progress = lambda phase, done, **facts: None,
    on_record: Callable[[str, int, dict], None] = lambda schedule, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: Callable[[Deployment], Cluster] | None = None,
    run_id: str | None = None,
) -> dict:
    """Measure a scenario; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, measuring and decomposing; done in 0..1.
    on_record(schedule, repeat, record): every trace record as it comes.
    cluster_for(deployment): gives workers that outlive the run; without it they are started and ended here.
    run_id: the result's name, if it was promised to somebody already.
    Raises LabError, or `engine.serving.cluster.Cancelled`.
    """
    plan = plan_schedules(scenario)
    with device_lock(
        plan.lock_name,
        f"schedules: {scenario.workload}",
        wait=wait,
        cancelled=cancelled,
        on_wait=lambda holder: progress("waiting", 0.0, holder=holder),
    ):
        cluster = cluster_for(plan.deployment) if cluster_for else Cluster(plan.deployment)
        try:
            result = _measure(plan, cluster, progress, on_record, cancelled)
        finally:
            if not cluster_for:
                cluster.stop()
    return {**result, "run_id": run_id or new_run_id()}


def _measure(plan: Plan, cluster: Cluster, progress: Progress, on_record, cancelled) -> dict:
    scenario = plan.scenario
    begun = time.monotonic()
    started_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    progress("starting-workers", 0.0)
    groups = {"engine"} if set(scenario.schedules) != {"disaggregated"} else set()
    cluster.start(groups | ({"prefill", "decode"} if "disaggregated" in scenario.schedules else set()), cancelled=cancelled)
    runs: dict[str, list[list[dict]]] = {schedule: [] for schedule in scenario.schedules}
    order = [_rotated(scenario.schedules, repeat) for repeat in range(scenario.repeats)]
    total = scenario.repeats * len(scenario.schedules)
    for repeat, schedules in enumerate(order):
        for place, schedule in enumerate(schedules):
            meter = _Meter(plan, repeat * len(schedules) + place, total, schedule, repeat, progress, on_record)
            settings = _settings(plan, schedule)
            runs[schedule].append(
                cluster.serve(list(plan.arrivals), settings, on_record=meter.see, cancelled=cancelled)
            )
    chunking = _decompose(plan, cluster, runs, progress, cancelled) if scenario.decompose else None
    schedules = {schedule: _entry(plan, cluster, schedule, runs[schedule]) for schedule in scenario.schedules}
    if chunking:
        served = schedules["chunked"]["metrics"]["prefill_s"]
        chunking |= {"chunked_served_s": served, "scheduling_cost_s": served - chunking["chunked_alone_s"]}
    tokens = {
        schedule: output_tokens(runs[schedule][entry["trace"]["repeat"]]) for schedule, entry in schedules.items()
    }
    return {
        "format": FORMAT,
        "kind": "schedules",
        "run_id": "",
        "provenance": "measured",
        "manifest": {
            "scenario": scenario.as_dict(),
            "scenario_key": scenario.key(),
            "seed": scenario.seed,
            "model": plan.model,
            "text": plan.text,
            "device": plan.device.as_dict(),
            "dtype": plan.dtype,
            "threads": sum(worker.threads for worker in plan.deployment.entry("unified")),
            "shared_device": plan.deployment.shared_device,
            "versions": _versions(),
            "commit": _commit(),
            "started_at": started_at,
            "duration_s": round(time.monotonic() - begun, 3),
            "order": [list(schedules) for schedules in order],
        },
        "schedules": schedules,
        "chunking": chunking,
        "texts": _texts(plan, tokens),
        "agreement": _agreement(plan, tokens),
    }


class _Meter:
    """Turns trace records into progress: the share of all tokens of all runs that was computed."""

    def __init__(self, plan: Plan, number: int, total: int, schedule: str, repeat: int, progress: Progress, on_record):
        self.number, self.total, self.schedule, self.repeat = number, total, schedule, repeat
        self.progress, self.on_record = progress, on_record
        self.tokens = 0
        self.all_tokens = sum(r["prompt_tokens"] + r["output_tokens"] for r in plan.requests)
        self.repeats = plan.scenario.repeats

    def see(self, record: dict) -> None:
        self.on_record(self.schedule, self.repeat, record)
        if record["type"] == "step":
            self.tokens += sum(length for _, _, length in record["slices"])
        elif record["type"] != "start":
            return
        done = (self.number + min(1.0, self.tokens / self.all_tokens)) / self.total
        self.progress("measuring", done, schedule=self.schedule, repeat=self.repeat + 1, repeats=self.repeats)


def _write_requests(scenario: SchedulesScenario, tokenizer: Tokenizer, text: str):
    """Requests in order of arrival, with their prompts; ids are kind-number."""
    writer = PromptWriter(tokenizer, text, text_name=scenario.text, seed=scenario.seed)
    rows = []
    prompts: dict[str, Prompt] = {}
    for group in scenario.groups:
        for number in range(group.count):
            request_id = f"{group.kind}-{number}"
            prompts[request_id] = writer.write(group)
            rows.append((group.arrival_s + number * group.spacing_s, request_id, group))
    rows.sort(key=lambda row: row[0])
    requests, arrivals = [], []
    for index, (at_s, request_id, group) in enumerate(rows):
        request = Request(index, prompts[request_id].token_ids, group.output_tokens, seed=scenario.seed + index)
        arrivals.append(Arrival(at_s, request))
        requests.append(
            {
                "id": request_id,
                "kind": group.kind,
                "prompt_tokens": group.prompt_tokens,
                "output_tokens": group.output_tokens,
            }
        )
    return requests, arrivals, prompts, writer.repeated


def _deploy(scenario: SchedulesScenario, device: Device, dtype: str) -> Deployment:
    # Workers have a working directory of their own.
    model = scenario.model if scenario.model in CATALOG else str(find_checkpoint(scenario.model).absolute())
    if device.device_class == "gpu":
        return cuda_deployment(model, dtype, device.num_gpus)
    cores = usable_cores()
    if scenario.threads > len(cores):
        raise LabError("scenario-value", field="threads", value=scenario.threads, expected=f"at most {len(cores)} here")
    return cpu_deployment(model, dtype, cores[: scenario.threads or len(cores)])


def _settings(plan: Plan, schedule: str) -> SessionSettings:
    """The KV budget split evenly over the workers of a schedule. Raises LabError("scenario-value") if it is too small."""
    scenario = plan.scenario
    bytes_per_block = plan.kv_bytes_per_token * plan.block_tokens
    entry, decode = plan.deployment.entry(schedule), plan.deployment.decode(schedule)
    blocks = scenario.kv_bytes // bytes_per_block // (len(entry) + len(decode))
    if blocks < 1:
        smallest = bytes_per_block * (len(entry) + len(decode))
        raise LabError("scenario-value", field="kv_bytes", value=scenario.kv_bytes, expected=f"at least {smallest}")
    return SessionSettings(
        schedule,
        chunk_tokens=scenario.chunk_tokens,
        block_tokens=plan.block_tokens,
        entry_blocks=blocks,
        decode_blocks=blocks,
        kv_bytes_per_block=bytes_per_block,
        max_batch_requests=scenario.max_batch_requests,
        max_prefill_tokens=scenario.max_prefill_tokens,
        layerwise=scenario.transfer == "layerwise",
        lease_s=scenario.lease_s,
        temperature=scenario.temperature,
    )


def _entry(plan: Plan, cluster: Cluster, schedule: str, runs: list[list[dict]]) -> dict:
    """What the result says of one schedule: median metrics of all repeats, and the trace of the middle one."""
    settings = _settings(plan, schedule)
    workers = plan.deployment.entry(schedule) + plan.deployment.decode(schedule)
    per_worker_bytes = settings.entry_blocks * settings.kv_bytes_per_block
    traces = [
        build_trace(schedule, list(plan.requests), records, block_tokens=plan.block_tokens) for records in runs
    ]
    summaries = [
        summarize(
            trace,
            kv_bytes_per_token=plan.kv_bytes_per_token,
            kv_capacity_bytes=per_worker_bytes * len(workers),
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
            {
                "worker": worker.name,
                "role": schedule if worker.group == "engine" else worker.group,
                "device": worker.device,
                "threads": worker.threads,
                "cores": list(worker.cores),
                "kv_capacity_bytes": per_worker_bytes,
                "kv_block_tokens": plan.block_tokens,
                "clock_offset_ns": cluster.facts[worker.name]["clock_offset_ns"],
            }
            for worker in workers
        ],
        "trace": {**traces[middle], "repeat": middle},
    }


def _decompose(plan: Plan, cluster: Cluster, runs: dict, progress: Progress, cancelled) -> dict | None:
    """The long prompt alone on the whole engine, whole and in chunks: what chunking costs without any decode between.

    kernel cost = chunked alone - whole alone (weights and earlier KV are read again for every chunk, masks);
    scheduling cost = chunked among the chats - chunked alone (the decodes that share its steps).
    """
    longs = [a for a, r in zip(plan.arrivals, plan.requests, strict=True) if r["kind"] == LONG]
    if not longs or "chunked" not in runs or _refused(runs["chunked"][0], longs[0].request.index):
        return None
    alone = Arrival(0.0, replace(longs[0].request, index=0, output_tokens=1))
    seconds: dict[str, list[float]] = {"unified": [], "chunked": []}
    for repeat in range(plan.scenario.repeats):
        for place, schedule in enumerate(_rotated(("unified", "chunked"), repeat)):
            done = (repeat + place / 2) / plan.scenario.repeats
            progress("decomposing", done, schedule=schedule)
            records = cluster.serve([alone], _settings(plan, schedule), cancelled=cancelled)
            steps = [record for record in records if record["type"] == "step"]
            seconds[schedule].append((steps[-1]["end_ns"] - steps[0]["begin_ns"]) / 1e9)
    whole, chunked = median(seconds["unified"]), median(seconds["chunked"])
    return {
        "chunk_tokens": plan.scenario.chunk_tokens,
        "whole_prefill_s": whole,
        "chunked_alone_s": chunked,
        "kernel_cost_s": chunked - whole,
    }


def _refused(records: list[dict], index: int) -> bool:
    return any(record["type"] == "Refused" and record["index"] == index for record in records)


def _texts(plan: Plan, tokens: dict[str, dict]) -> dict:
    """What the model wrote, up to its end-of-text; `tokens_after_end` counts what it had to go on making after that."""
    texts = {}
    for index, request in enumerate(plan.requests):
        entry = texts[request["id"]] = {"prompt": plan.prompts[request["id"]].shown, "tokens_after_end": {}}
        for schedule, by_index in tokens.items():
            ids = [token for token, _ in by_index.get(index, [])]
            end = next((place for place, token in enumerate(ids) if token in plan.tokenizer.eos_ids), len(ids))
            entry[schedule] = plan.tokenizer.decode(ids[:end])
            entry["tokens_after_end"][schedule] = max(0, len(ids) - end - 1)
    return texts


def _agreement(plan: Plan, tokens: dict[str, dict]) -> dict:
    """Per request and schedule, where its tokens first differ from the first schedule's, and if a near-tie explains it."""
    base_name, *others = plan.scenario.schedules
    limit = NEAR_TIE[plan.dtype]
    found = {}
    for index, request in enumerate(plan.requests):
        base = tokens[base_name].get(index, [])
        found[request["id"]] = {}
        for name in others:
            pairs = zip(base, tokens[name].get(index, []), strict=False)
            place = next((i for i, (a, b) in enumerate(pairs) if a[0] != b[0]), None)
            found[request["id"]][name] = (
                None
                if place is None
                else {"first_difference": place, "gap": base[place][1], "near_tie": base[place][1] <= limit}
            )
    return found


def _rotated(schedules: tuple[str, ...], by: int) -> tuple[str, ...]:
    by %= len(schedules)
    return schedules[by:] + schedules[:by]


def _versions() -> dict[str, str | None]:
    found = {"engine": engine.__version__, "python": platform.python_version(), "platform": platform.platform()}
    for package in ("torch", "numpy", "tokenizers"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _commit() -> str | None:
    """The commit this engine was run from, if it is a git checkout."""
    root = Path(__file__).resolve().parents[2]
    try:
        command = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
