"""A model asked for more than it was trained on: what a method does to it at a length. Pure, for lengths and retrieval alike."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from engine.experiments.settings import wrong
from engine.formulas.rope import METHODS, RopeScaling, dynamic_factor, scaling_for
from engine.kv.eviction import Eviction, Full, Sinks
from engine.model.config import ModelConfig

STREAMING = "streaming"
STRETCHES = (*METHODS, STREAMING)


@dataclass(frozen=True)
class Stretched:
    """A method at a length. factor: by how much it stretches, None if it does not; scaling: None leaves the model as it is;
    policy: what is kept of the text."""

    method: str
    length: int
    factor: float | None
    scaling: RopeScaling | None
    policy: Eviction

    @property
    def reading(self) -> tuple:
        """Equal for two methods that, in one forward, turn and keep the same at this length: one reading tells of both."""
        return self.length, self.at_once(), self.policy

    def at_once(self) -> RopeScaling | None:
        """The scaling of a text that is read in one forward, as one that can be read in pieces: "dynamic" then is NTK-aware
        with the factor of the whole length, for all of its tokens."""
        if self.scaling is None or self.scaling.kind != "dynamic":
            return self.scaling
        return scaling_for("ntk", self.factor, self.scaling.original_context)


def stretched(method: str, length: int, trained: int, *, factor: float, ramp: str, sinks: int) -> Stretched:
    """factor: 0 takes what the length needs, length / trained, and nothing up to the trained length.

    "dynamic" takes its factor from the length whatever `factor` is; "none" and "streaming" have none. Streaming keeps
    `sinks` first tokens and the latest others, `trained` in all, and counts positions among them.
    """
    policy = Sinks(sinks, trained) if method == STREAMING else Full()
    if method in ("none", STREAMING):
        return Stretched(method, length, None, None, policy)
    needed = length / trained
    scaling = scaling_for(method, needed if method == "dynamic" else factor or needed, trained, ramp=ramp)
    if scaling is None:
        return Stretched(method, length, 1.0, None, policy)
    by = dynamic_factor(scaling, length) if method == "dynamic" else scaling.factor
    return Stretched(method, length, by, scaling, policy)


def planned(scenario, config: ModelConfig) -> tuple[Stretched, ...]:
    """Every method at every length of a scenario of lengths or retrieval, in the order of measuring.

    Raises LabError: "scenario-value" for sinks that fill the window, "checkpoint-config" for a stretching that heads of this
    width cannot have.
    """
    check_sinks(scenario.sinks, config.max_context)
    options = {"factor": scenario.factor, "ramp": scenario.ramp, "sinks": scenario.sinks}
    order = measuring_order(scenario.lengths, scenario.methods, scenario.seed)
    cells = tuple(stretched(method, length, config.max_context, **options) for length, method in order)
    for cell in cells:
        replace(config, rope_scaling=cell.scaling)  # which checks that heads of this width can be turned so
    return cells


def measuring_order(lengths: tuple[int, ...], methods: tuple[str, ...], seed: int) -> list[tuple[int, str]]:
    """(length, method): lengths rising, at each of them another method first, and with another seed another one."""
    turn = [(n + seed) % len(methods) for n in range(len(lengths))]
    return [(length, m) for length, n in zip(sorted(lengths), turn, strict=True) for m in (*methods[n:], *methods[:n])]


def as_record(scaling: RopeScaling | None) -> dict | None:
    """JSON-ready."""
    return None if scaling is None else {**asdict(scaling), "divisors": list(scaling.divisors)}


def from_record(record: Mapping | None) -> RopeScaling | None:
    """What `as_record` described."""
    return None if record is None else RopeScaling(**{**record, "divisors": tuple(record["divisors"])})


def check_sinks(sinks: int, trained: int) -> None:
    """Raises LabError("scenario-value") where they would leave no room in the window."""
    if sinks > trained // 2:
        raise wrong("sinks", sinks, f"a whole number from 0 to {trained // 2}")
