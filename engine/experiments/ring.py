"""The ring experiment: one text's prefill on N ranks that pass keys and values round, and on one process.

Ring Attention: Liu et al. 2023, arXiv 2310.01889; what is where and how much is sent: `engine.formulas.ring`; the attention
itself: `engine.serving.ring`. Ranks are processes of this one (`ring_worker`), each with its share of the cores, or a GPU.
The result, beside format, kind, run_id, provenance and manifest:

    tokens, ranks
    backend       "gloo" or "nccl"; ranks that share a GPU send through the host's memory
    threads_each  of a rank; together they have as many as the one process
    shape         {"layers", "heads", "kv_heads", "head_dim", "bytes_per_value"}, for the formulas
    layouts       {layout: {"seconds": from the first begin to the last end, "balance": of `formulas.ring`, "ranks": [...]}}.
                  Of each rank: tokens, pieces [[begin, end], ...], begin_s, end_s, kv_bytes, activation_bytes, buffer_bytes,
                  sent_bytes and received_bytes counted from its tensors, rss_peak_bytes (with the weights; None where the system
                  does not tell), rounds [{"layer", "round", "pairs", "compute": [begin_s, end_s], "communication": the same or
                  None}], attention_s in blocks, waited_s for K and V, busy_s the rest, hidden_share as in `formulas.ring`.
                  Times count from the layout's first begin
    alone         {"seconds", "attention_s", "threads", "kv_bytes", "activation_bytes", "rss_peak_bytes"}; None without compare
    agreement     {"rows": at how many tokens all logits were compared, "largest_difference" over both layouts, "last_token":
                  the same of the last one, "by_layout": {layout: largest}, "std": of a token's logits, a mean}; None without
                  compare
    processes_at_most_cores   whether every rank has cores (or a GPU) of its own; else times are not to be believed
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from engine.errors import LabError
from engine.experiments.child import load_record
from engine.experiments.manifest import FORMAT, Begun, about_text, begin, origin
from engine.experiments.measuring import OnRecord, Progress, no_progress
from engine.experiments.plan import Ground, ground
from engine.experiments.ranks import Ranks, started_ranks
from engine.experiments.ring_scenario import RING, RingScenario
from engine.experiments.scenarios import new_run_id
from engine.experiments.settings import wrong
from engine.experiments.streaming import tokens_from
from engine.formulas import ring as formulas
from engine.lock import device_lock
from engine.measure import disturbance
from engine.model.load_tokenizer import load_tokenizer
from engine.serving.deployment import WorkerSpec
from engine.texts import Text, load_text

MODULE = "engine.experiments.ring_worker"
ALONE = "alone"
# At so many tokens the logits are compared, the last one among them: of a long text all would be gigabytes.
COMPARED_ROWS = 64


@dataclass(frozen=True)
class RingPlan:
    """What will be computed, where. specs: of the ranks; whole: of the one process."""

    setup: Ground
    text: Text
    ids: tuple[int, ...]
    specs: tuple[WorkerSpec, ...]
    whole: WorkerSpec
    backend: str
    own_cores: bool
    rows: tuple[int, ...]

    @property
    def shape(self) -> formulas.AttentionShape:
        config = self.setup.card.config
        return formulas.AttentionShape(config.n_heads, config.n_kv_heads, config.head_dim, self.setup.bytes_per_value)


def run_ring(
    scenario: RingScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda name, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Compute a text's prefill on a ring; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, loading and measuring; while measuring the fact
    policy is the layout, or "alone".
    on_plan, on_record, cluster_for: as other experiments have them, unused.
    Raises LabError (what `ground` and `load_text` raise; "text-too-short"; of a rank "worker-died", "ring-broken" and others),
    or `engine.serving.cluster.Cancelled`. No process is left then.
    """
    plan = plan_ring(scenario)
    lock = device_lock(
        plan.setup.lock_name,
        RING,
        wait=wait,
        cancelled=cancelled,
        on_wait=lambda holder: progress("waiting", 0.0, holder=holder),
    )
    with lock, tempfile.TemporaryDirectory(prefix="lab-ring-", ignore_cleanup_errors=True) as folder:
        run = _Run(plan, scenario, Path(folder), progress, cancelled, begin())
        alone = run.alone() if scenario.compare else None
        layouts = run.layouts()
    return {
        "format": FORMAT,
        "kind": RING,
        "run_id": run_id or new_run_id(),
        "provenance": "measured",
        "manifest": {**origin(plan.setup, scenario, run.begun, seed=scenario.seed), "text": about_text(plan.text)},
        **result_of(plan, scenario, alone, layouts),
        "disturbance": disturbance.overall(run.judged),
    }


def plan_ring(scenario: RingScenario) -> RingPlan:
    """Check everything that can be checked before a process starts. Raises LabError."""
    setup, text = ground(scenario), load_text(scenario.text)
    scaling = setup.card.config.rope_scaling
    if scaling is not None and scaling.kind == "dynamic":  # its positions follow the length of the text, which no rank knows
        raise wrong("model", scenario.model, "a model whose rotary positions are the same for texts of every length")
    ids = tokens_from(load_tokenizer(scenario.model), text.text, scenario.seed, scenario.tokens)
    if len(ids) < scenario.tokens:
        raise LabError("text-too-short", name=text.name, tokens=len(ids), needed=scenario.tokens)
    engine = setup.deployment.entry("unified")[0]
    gpus = setup.device.num_gpus
    if setup.device.device_class == "gpu":
        specs = [WorkerSpec(f"rank-{r}", RING, f"cuda:{r % gpus}", 1) for r in range(scenario.ranks)]
        own, whole = scenario.ranks <= gpus, replace(engine, name=ALONE)
    else:
        shares = shared_out(engine.cores, scenario.ranks)
        specs = [WorkerSpec(f"rank-{r}", RING, "cpu", len(cores), cores) for r, cores in enumerate(shares)]
        own, used = scenario.ranks <= len(engine.cores), tuple(sorted({core for cores in shares for core in cores}))
        whole = WorkerSpec(ALONE, RING, "cpu", len(used), used)
    backend = "nccl" if gpus >= scenario.ranks > 1 else "gloo"
    return RingPlan(setup, text, ids, tuple(specs), whole, backend, own, compared_rows(scenario.tokens))


def shared_out(cores: tuple[int, ...], ranks: int) -> list[tuple[int, ...]]:
    """The same number of cores for each rank, those that are left over for none; with too few, one for each by turns."""
    each = len(cores) // ranks
    if not each:
        return [(cores[rank % len(cores)],) for rank in range(ranks)]
    return [cores[rank * each : (rank + 1) * each] for rank in range(ranks)]


def compared_rows(tokens: int) -> tuple[int, ...]:
    """Tokens, evenly spread and rising, whose logits are compared; the last is among them, and of a short text all are."""
    count = min(tokens, COMPARED_ROWS)
    return tuple((number + 1) * tokens // count - 1 for number in range(count))


@dataclass
class _Run:
    """Asks the processes: first the one, then the ranks."""

    plan: RingPlan
    scenario: RingScenario
    folder: Path
    progress: Progress
    cancelled: Callable[[], bool]
    begun: Begun
    judged: dict[str, list[dict]] = field(default_factory=dict)
    passes_done: int = 0

    def alone(self) -> dict:
        """One process, as fast as it can, whose logits go to a file. It is gone afterwards: the ranks want its cores."""
        with started_ranks(MODULE, [self.plan.whole], self.cancelled) as ranks:
            pids = self._load(ranks)
            question = {"type": "alone", "ids": self.plan.ids, "rows": self.plan.rows, "logits": str(self._logits)}
            return self._pass(ranks, ALONE, [question], pids)[0]

    def layouts(self) -> dict[str, list[dict]]:
        """What each rank says of each layout."""
        size = self.scenario.ranks
        with started_ranks(MODULE, self.plan.specs, self.cancelled) as ranks:
            pids = self._load(ranks)
            ranks.check_clocks()
            shared = {"type": "join", "ranks": size, "store": str(self.folder / "store"), "backend": self.plan.backend}
            ranks.ask([{**shared, "rank": rank} for rank in range(size)], "joined")
            return {layout: self._layout(ranks, layout, pids) for layout in self.scenario.layouts}

    def _layout(self, ranks: Ranks, layout: str, pids: list[int]) -> list[dict]:
        parts = formulas.pieces(self.scenario.tokens, self.scenario.ranks, layout)
        logits = str(self._logits) if self.scenario.compare else None
        questions = [
            {
                "type": "prefill",
                "ids": [token for begin, end in part for token in self.plan.ids[begin:end]],
                "parts": parts,
                "rows": self.plan.rows,
                "logits": logits,
            }
            for part in parts
        ]
        return self._pass(ranks, layout, questions, pids)

    def _load(self, ranks: Ranks) -> list[int]:
        """Load and warm up, everywhere at once; the processes' ids."""
        self.progress("starting-workers", 0.0)
        specs = [process.spec for process in ranks.processes]
        records = [load_record(self.plan.setup, spec, once=True) for spec in specs]
        loaded = ranks.ask(records, "loaded", lambda *_: self.progress("loading", 0.0))
        ranks.ask([{"type": "warm"}] * len(specs), "warmed")
        return [answer["pid"] for answer in loaded]

    def _pass(self, ranks: Ranks, name: str, questions: list[dict], pids: list[int]) -> list[dict]:
        """One prefill, watched."""
        layers, passes = self.plan.setup.card.config.n_layers, len(self.scenario.layouts) + self.scenario.compare
        cores = {core for process in ranks.processes for core in process.spec.cores}

        def see(rank: int, told: dict) -> None:
            if rank == 0:
                self.progress("measuring", (self.passes_done + (told["layer"] + 1) / layers) / passes, policy=name)

        self.progress("measuring", self.passes_done / passes, policy=name)
        before = disturbance.take_sample(pids, cores)
        answers = ranks.ask(questions, "prefilled", see)
        self.judged[name] = [disturbance.judge(before, disturbance.take_sample(pids, cores))]
        self.passes_done += 1
        return answers

    @property
    def _logits(self) -> Path:
        return self.folder / "logits.npy"


def result_of(plan: RingPlan, scenario: RingScenario, alone: dict | None, layouts: dict[str, list[dict]]) -> dict:
    """What the result says, from what the processes told; alone: None if nobody was asked."""
    config = plan.setup.card.config
    return {
        "tokens": scenario.tokens,
        "ranks": scenario.ranks,
        "backend": plan.backend,
        "threads_each": plan.specs[0].threads,
        "shape": {"layers": config.n_layers, **vars(plan.shape)},
        "layouts": {name: _layout(scenario, name, told) for name, told in layouts.items()},
        "alone": _alone(plan, alone) if alone else None,
        "agreement": _agreement(plan, alone, layouts) if alone else None,
        "processes_at_most_cores": plan.own_cores,
    }


def _alone(plan: RingPlan, told: dict) -> dict:
    kept = ("attention_s", "kv_bytes", "activation_bytes", "rss_peak_bytes")
    return {"seconds": _seconds(told["end_ns"] - told["begin_ns"]), "threads": plan.whole.threads, **{k: told[k] for k in kept}}


def _layout(scenario: RingScenario, layout: str, told: list[dict]) -> dict:
    zero = min(rank["begin_ns"] for rank in told)
    parts = formulas.pieces(scenario.tokens, scenario.ranks, layout)
    return {
        "seconds": _seconds(max(rank["end_ns"] for rank in told) - zero),
        "balance": round(formulas.balance(formulas.pairs(scenario.tokens, scenario.ranks, layout)), 4),
        "ranks": [_rank(rank, part, zero) for rank, part in zip(told, parts, strict=True)],
    }


def _rank(told: dict, part: tuple[formulas.Piece, ...], zero: int) -> dict:
    rounds, attention_ns, waited_ns = [], 0, 0
    for layer, number, pairs, compute, communication, waited_until in told["rounds"]:
        attention_ns += compute[1] - compute[0]
        waited_ns += waited_until - compute[1] if communication else 0
        spans = {"compute": compute, "communication": communication}
        since = {name: [_seconds(at - zero) for at in span] if span else None for name, span in spans.items()}
        rounds.append({"layer": layer, "round": number, "pairs": pairs, **since})
    counted = ("kv_bytes", "activation_bytes", "buffer_bytes", "sent_bytes", "received_bytes", "rss_peak_bytes")
    hidden = formulas.hidden_share(rounds)
    return {
        "tokens": formulas.held(part),
        "pieces": [list(piece) for piece in part],
        "begin_s": _seconds(told["begin_ns"] - zero),
        "end_s": _seconds(told["end_ns"] - zero),
        **{name: told[name] for name in counted},
        "attention_s": _seconds(attention_ns),
        "waited_s": _seconds(waited_ns),
        "busy_s": _seconds(told["end_ns"] - told["begin_ns"] - waited_ns),
        "hidden_share": None if hidden is None else round(hidden, 4),
        "rounds": rounds,
    }


def _agreement(plan: RingPlan, alone: dict, layouts: dict[str, list[dict]]) -> dict:
    apart = {name: dict(pair for rank in told for pair in rank["differences"]) for name, told in layouts.items()}
    return {
        "rows": len(plan.rows),
        "largest_difference": max(max(found.values()) for found in apart.values()),
        "last_token": max(found[plan.rows[-1]] for found in apart.values()),
        "by_layout": {name: max(found.values()) for name, found in apart.items()},
        "std": alone["std"],
    }


def _seconds(ns: int) -> float:
    return round(ns / 1e9, 6)
