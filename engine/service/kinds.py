"""What a job can be about: scenario classes by kind, and what the store has to know of a scenario. No torch."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

import engine
from engine import texts
from engine.errors import LabError
from engine.experiments.attention_scenario import AttentionScenario
from engine.experiments.lengths_scenario import LengthsScenario
from engine.experiments.needle_scenario import NeedleScenario
from engine.experiments.pools_scenario import PoolsScenario
from engine.experiments.recurrent_scenario import RecurrentScenario
from engine.experiments.retrieval_scenario import RetrievalScenario
from engine.experiments.ring_scenario import RingScenario
from engine.experiments.roofline_scenario import RooflineScenario
from engine.experiments.scenarios import SchedulesScenario
from engine.experiments.streaming_scenario import StreamingScenario
from engine.experiments.sweep_scenarios import BACKLOG, CHUNK_SWEEP, SweepScenario
from engine.experiments.transfer_scenario import TransferScenario
from engine.experiments.wall_scenario import WallScenario
from engine.measure.device import choose, choose_dtype
from engine.model.catalog import CATALOG

SCENARIOS = {
    SchedulesScenario.kind: SchedulesScenario,
    CHUNK_SWEEP: SweepScenario,
    BACKLOG: SweepScenario,
    RooflineScenario.kind: RooflineScenario,
    WallScenario.kind: WallScenario,
    AttentionScenario.kind: AttentionScenario,
    StreamingScenario.kind: StreamingScenario,
    NeedleScenario.kind: NeedleScenario,
    RingScenario.kind: RingScenario,
    LengthsScenario.kind: LengthsScenario,
    RetrievalScenario.kind: RetrievalScenario,
    TransferScenario.kind: TransferScenario,
    RecurrentScenario.kind: RecurrentScenario,
    PoolsScenario.kind: PoolsScenario,
}


def scenario_of(kind: str, record: Mapping) -> object:
    """A scenario from its `as_dict()`. Raises LabError: "job-not-allowed" for an unknown kind, "scenario-..."."""
    if kind not in SCENARIOS:
        raise LabError("job-not-allowed", name=str(kind)[:80])
    return SCENARIOS[kind].from_dict(record)


def is_private(scenario: object) -> bool:
    """Whether it reads somebody's own text or model: such a result is never handed to others. One without a text has ""."""
    return scenario.text not in ("", *texts.NAMED) or scenario.model not in CATALOG


def device_key_here(scenario: object) -> str:
    """The key of what a scenario would be measured on and with, here and now. Raises LabError("device-unknown")."""
    base = getattr(scenario, "base", scenario)  # a sweep's points are all measured on the same
    device = choose(base.device)
    try:
        torch = version("torch")
    except PackageNotFoundError:
        torch = None
    return _device_key(device.as_dict(), choose_dtype(base.dtype, device), engine.__version__, torch)


def device_key(manifest: Mapping) -> str:
    """The same of a result: only results with equal keys are answers for each other."""
    versions = manifest.get("versions") or {}
    return _device_key(manifest.get("device"), manifest.get("dtype"), versions.get("engine"), versions.get("torch"))


def _device_key(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
