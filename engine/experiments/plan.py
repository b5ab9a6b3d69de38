"""A checked scenario: what will run, on what, with which prompts. Everything that can fail early fails here."""

from dataclasses import dataclass
from functools import cached_property

from engine.errors import LabError
from engine.experiments.prompts import Prompt, PromptWriter
from engine.experiments.scenarios import SchedulesScenario
from engine.kv.blocks import BLOCK_TOKENS
from engine.measure.device import Device, choose, choose_dtype, usable_cores
from engine.model.card import ModelCard, describe, find_checkpoint
from engine.model.catalog import CATALOG
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import Tokenizer
from engine.serving.cluster import Arrival, SessionSettings
from engine.serving.deployment import Deployment, WorkerSpec, cpu_deployment, cuda_deployment
from engine.serving.request import Request
from engine.serving.router import Capacity
from engine.serving.scheduler import refuse_what_never_fits
from engine.texts import Text, load_text

_BYTES_PER_VALUE = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Ground:
    """The device that a scenario runs on, the workers there, and the model."""

    device: Device
    dtype: str
    deployment: Deployment
    card: ModelCard

    @property
    def lock_name(self) -> str:
        return "cpu" if self.device.device_class == "cpu" else "cuda"

    @property
    def block_tokens(self) -> int:
        return BLOCK_TOKENS[self.device.device_class]

    @property
    def bytes_per_value(self) -> int:
        return _BYTES_PER_VALUE[self.dtype]

    @property
    def kv_bytes_per_token(self) -> int:
        return self.card.config.kv_bytes_per_token(self.bytes_per_value)


@dataclass(frozen=True)
class Setup(Ground):
    """And the text that requests are made of: the same for all points of a sweep."""

    text: Text
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Plan:
    """A scenario with its requests, in order of arrival: as data ({"id", "kind", "prompt_tokens", "output_tokens"}) and
    as what the cluster gets; their prompts by id.

    blocks: of each worker's KV pool; None takes what the scenario's kv_bytes give. reserve_tokens: as
    `engine.serving.policies.Limits` has it.
    """

    scenario: SchedulesScenario
    setup: Setup
    requests: tuple[dict, ...]
    arrivals: tuple[Arrival, ...]
    prompts: dict[str, Prompt]
    text_repeated: bool
    blocks: int | None = None
    reserve_tokens: int = 0

    def workers(self, schedule: str) -> list[WorkerSpec]:
        return self.setup.deployment.entry(schedule) + self.setup.deployment.decode(schedule)

    @cached_property
    def groups(self) -> set[str]:
        """The groups of workers that the scenario's schedules need."""
        return {worker.group for schedule in self.scenario.schedules for worker in self.workers(schedule)}

    def settings(self, schedule: str) -> SessionSettings:
        """The KV budget split evenly over the workers of a schedule. Raises LabError("scenario-value") if too small."""
        scenario, setup = self.scenario, self.setup
        bytes_per_block = setup.kv_bytes_per_token * setup.block_tokens
        num_workers = len(self.workers(schedule))
        blocks = scenario.kv_bytes // bytes_per_block // num_workers if self.blocks is None else self.blocks
        if blocks < 1:
            smallest = bytes_per_block * num_workers
            raise LabError("scenario-value", field="kv_bytes", value=scenario.kv_bytes, expected=f"at least {smallest}")
        return SessionSettings(
            schedule,
            chunk_tokens=scenario.chunk_tokens,
            block_tokens=setup.block_tokens,
            entry_blocks=blocks,
            decode_blocks=blocks,
            kv_bytes_per_block=bytes_per_block,
            max_batch_requests=scenario.max_batch_requests,
            max_prefill_tokens=scenario.max_prefill_tokens,
            reserve_tokens=self.reserve_tokens,
            layerwise=scenario.transfer == "layerwise",
            lease_s=scenario.lease_s,
            temperature=scenario.temperature,
        )

    def resources(self, schedule: str) -> list[dict]:
        """What a schedule is given, worker by worker."""
        settings = self.settings(schedule)
        return [
            {
                "worker": worker.name,
                "role": schedule if worker.group == "engine" else worker.group,
                "device": worker.device,
                "threads": worker.threads,
                "cores": list(worker.cores),
                "kv_capacity_bytes": settings.blocks_of(worker.group) * settings.kv_bytes_per_block,
                "kv_block_tokens": self.setup.block_tokens,
            }
            for worker in self.workers(schedule)
        ]


def ground(scenario) -> Ground:
    """Device and model of any scenario that has model, device, dtype and threads. Raises LabError if one is not here."""
    device = choose(scenario.device)
    dtype = choose_dtype(scenario.dtype, device)
    card = describe(scenario.model)
    if not card.ready:
        raise LabError("model-missing", name=scenario.model)
    return Ground(device, dtype, _deploy(scenario, device, dtype), card)


def set_up(scenario: SchedulesScenario) -> Setup:
    """The same with the text. Raises LabError if one of them is not here."""
    found = ground(scenario)
    return Setup(**vars(found), text=load_text(scenario.text), tokenizer=load_tokenizer(scenario.model))


def plan_for(scenario: SchedulesScenario, setup: Setup | None = None, made: type[Plan] = Plan) -> Plan:
    """Check everything that can be checked before a worker starts. Raises LabError.

    setup: of a scenario with the same device, number format, threads, model and text, if it is there already.
    made: the kind of plan.
    """
    setup = setup or set_up(scenario)
    _check_lengths(scenario, setup.card)
    plan = made(scenario, setup, *_write_requests(scenario, setup))
    for schedule in scenario.schedules:
        plan.settings(schedule)
    return plan


def check_fits(plan: Plan) -> None:
    """For measurements in which nothing may be refused. Raises LabError as `refuse_what_never_fits` does."""
    for schedule in plan.scenario.schedules:
        settings = plan.settings(schedule)
        pool = Capacity(min(settings.entry_blocks, settings.decode_blocks), settings.block_tokens)
        for arrival in plan.arrivals:
            refuse_what_never_fits(arrival.request, pool, settings.reserve_tokens)


def _check_lengths(scenario: SchedulesScenario, card: ModelCard) -> None:
    for group in scenario.groups:
        if group.count and group.prompt_tokens + group.output_tokens > card.config.max_context:
            raise LabError(
                "prompt-exceeds-model",
                kind=group.kind,
                prompt_tokens=group.prompt_tokens,
                output_tokens=group.output_tokens,
                max_context=card.config.max_context,
            )


def _write_requests(scenario: SchedulesScenario, setup: Setup):
    """Requests in order of arrival, with their prompts; ids are kind-number."""
    writer = PromptWriter(setup.tokenizer, setup.text.text, text_name=scenario.text, seed=scenario.seed)
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
    return tuple(requests), tuple(arrivals), prompts, writer.repeated


def _deploy(scenario, device: Device, dtype: str) -> Deployment:
    # Workers have a working directory of their own.
    model = scenario.model if scenario.model in CATALOG else str(find_checkpoint(scenario.model).absolute())
    if device.device_class == "gpu":
        return cuda_deployment(model, dtype, device.num_gpus)
    cores = usable_cores()
    if scenario.threads > len(cores):
        raise LabError("scenario-value", field="threads", value=scenario.threads, expected=f"at most {len(cores)} here")
    return cpu_deployment(model, dtype, cores[: scenario.threads or len(cores)])
