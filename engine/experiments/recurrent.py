"""The experiment with a recurrent state: what a decode step keeps and takes with attention and without, and what is forgotten.

No language model is run: keys, values and queries are drawn, of the shape of a model's attention. So bytes and times are those
of the mechanism itself, without the matrices around it, and the recall test says how much fits into a state, not how well a
trained model uses it. The mechanisms and their sources: `engine.model.linear_attention`. The recall test is that of associative
memories: pairs are written, then every key is asked for (as in Arora et al. 2023, arXiv 2312.04927, but without training; Schlag
et al. 2021, arXiv 2102.11174, section 4, on how many pairs a state of key_dim holds). The result, beside format, kind, run_id,
provenance and manifest:

    shape         {"layers", "heads", "kv_heads", "head_dim", "bytes_per_value", "model_layers"}
    forms         {"tokens", "differences": {rule: {"recurrent", "chunked"}}}: how far from the parallel form, over the outputs'
                  standard deviation, in float32
    decode        [{"mechanism", "tokens", "ms", "spread": [lowest, highest], "runs", "steps", "bytes": of the tensors held,
                  "computed_bytes": of `engine.formulas.state`, "rss_bytes": by how much the process grew}], by length
    recall        [{"mechanism", "key_dim", "pairs", "asked", "right", "rate", "interval", "by_age": right answers from the oldest
                  quarter of the pairs to the newest, None for fewer than 4}]
    rewrites      [{"mechanism", "key_dim", "pairs", "asked", "right", "rate", "interval", "by_age"}]: every key was given another
                  value first; right is the later one
    values        so many answers there are; guessing is right once in so many
"""

import random
from collections.abc import Callable
from statistics import median

from engine.experiments.child import Bench, load_record, started
from engine.experiments.manifest import begin
from engine.experiments.measuring import OnRecord, Progress, no_progress, rotated
from engine.experiments.plan import Ground, ground
from engine.experiments.recurrent_scenario import MECHANISMS, RECURRENT, SOFTMAX, VALUES, RecurrentScenario
from engine.experiments.settings import wrong
from engine.formulas.intervals import wilson
from engine.formulas.state import StateShape
from engine.lock import device_lock

MODULE = "engine.experiments.recurrent_worker"
RUNS = 3
FORMS_TOKENS = 256
# Of a key's numbers, so many go to each pair that is written twice.
REWRITTEN_PART = 8
# A cache may take this share of the machine's memory: others live there, too.
_MEMORY_SHARE = 0.4
# Of the whole, what the first part takes; steps and answers share the rest.
_FORMS, _STEPS = 0.05, 0.7


def run_recurrent(
    scenario: RecurrentScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda name, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Time the steps, ask for the pairs; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, loading and measuring; while measuring the fact
    policy is forms, decode or recall.
    on_plan, on_record, cluster_for: as other experiments have them, unused.
    Raises LabError (what `ground` raises; "scenario-value" for more layers than the model has or a length that does not fit the
    memory), or `engine.serving.cluster.Cancelled`.
    """
    setup, shape = plan_recurrent(scenario)
    worker = setup.deployment.entry("unified")[0]
    lock = device_lock(
        setup.lock_name, RECURRENT, wait=wait, cancelled=cancelled, on_wait=lambda holder: progress("waiting", 0.0, holder=holder)
    )
    with lock, started(MODULE, worker, cancelled) as child:
        begun = begin()
        progress("starting-workers", 0.0)
        loaded = child.ask(load_record(setup, worker, once=True), "loaded", lambda _: progress("loading", 0.0))
        bench = Bench(child, worker, loaded["pid"], setup, scenario, begun)
        run = _Run(bench, scenario, shape, setup.card.config.n_heads, progress)
        with bench.watched():
            forms, decode, recall, rewrites = run.forms(), run.decode(), run.recall(), run.rewrites()
    c = setup.card.config
    return {
        **bench.head(run_id),
        "shape": {
            "layers": shape.layers,
            "heads": c.n_heads,
            "kv_heads": c.n_kv_heads,
            "head_dim": c.head_dim,
            "bytes_per_value": shape.bytes_per_value,
            "model_layers": c.n_layers,
        },
        "forms": forms,
        "decode": decode,
        "recall": recall,
        "rewrites": rewrites,
        "values": VALUES,
        "disturbance": bench.disturbance,
    }


def plan_recurrent(scenario: RecurrentScenario) -> tuple[Ground, StateShape]:
    """Check everything that can be checked before a process starts. Raises LabError."""
    setup = ground(scenario)
    c = setup.card.config
    if scenario.layers > c.n_layers:
        raise wrong("layers", scenario.layers, f"a whole number from 1 to {c.n_layers}, as the model has")
    shape = StateShape(scenario.layers, c.n_kv_heads, c.head_dim, c.head_dim, setup.bytes_per_value)
    room = int(setup.device.memory_bytes * _MEMORY_SHARE)
    if shape.kv_bytes(scenario.lengths[-1]) > room:
        most = room // shape.kv_bytes(1)
        raise wrong("lengths", scenario.lengths, f"at most {most} tokens: their keys and values may take {room} bytes here")
    return setup, shape


class _Run:
    """Asks the process one thing after another."""

    def __init__(self, bench: Bench, scenario: RecurrentScenario, shape: StateShape, heads: int, progress: Progress) -> None:
        self.bench, self.scenario, self.shape, self.heads, self.progress = bench, scenario, shape, heads, progress

    def forms(self) -> dict:
        """Whether the three forms are one, at this shape."""
        self.progress("measuring", 0.0, policy="forms")
        s = self.scenario
        question = {"heads": self.shape.kv_heads, "dim": self.shape.key_dim, "tokens": FORMS_TOKENS, "decay": s.decay, "seed": s.seed}
        found = self.bench.ask({"type": "forms", **question}, "compared")["differences"]
        rounded = {rule: {form: float(f"{value:.3g}") for form, value in forms.items()} for rule, forms in found.items()}
        return {"tokens": FORMS_TOKENS, "differences": rounded}

    def decode(self) -> list[dict]:
        """A row for each length and mechanism. At one length all are held at once and take turns: what slows the machine down
        meets all of them."""
        s, done, found = self.scenario, 0, {}
        lengths = list(s.lengths)
        random.Random(s.seed).shuffle(lengths)  # a machine that becomes slower is not taken for an effect of length
        for tokens in lengths:
            self.progress("measuring", _FORMS + (_STEPS - _FORMS) * done / sum(lengths), policy="decode", tokens=tokens)
            size = {"layers": s.layers, "heads": self.heads, "kv_heads": self.shape.kv_heads, "dim": self.shape.key_dim}
            hold = {"type": "hold", "tokens": tokens, **size, "decay": s.decay, "seed": s.seed}
            held = {m: self.bench.ask({**hold, "mechanism": m}, "held") for m in MECHANISMS}
            times: dict[str, list[float]] = {m: [] for m in MECHANISMS}
            for number in range(RUNS):
                for m in rotated(MECHANISMS, number):
                    times[m].append(self.bench.ask({"type": "step", "mechanism": m, "steps": s.steps}, "stepped")["ms"])
            self.bench.ask({"type": "drop"}, "dropped")
            found |= {(tokens, m): self._row(m, tokens, held[m], times[m]) for m in MECHANISMS}
            done += tokens
        return [found[tokens, m] for tokens in s.lengths for m in MECHANISMS]

    def _row(self, mechanism: str, tokens: int, held: dict, times: list[float]) -> dict:
        return {
            "mechanism": mechanism,
            "tokens": tokens,
            "ms": round(median(times), 5),
            "spread": [round(min(times), 5), round(max(times), 5)],
            "runs": len(times),
            "steps": self.scenario.steps,
            "bytes": held["bytes"],
            "computed_bytes": self.shape.kv_bytes(tokens) if mechanism == SOFTMAX else self.shape.state_bytes,
            "rss_bytes": held["rss_bytes"],
        }

    def recall(self) -> list[dict]:
        """A row for each mechanism, size of key and number of pairs; all mechanisms are given the same pairs."""
        s, found = self.scenario, []
        cells = [(m, dim, pairs) for dim in s.key_dims for m in MECHANISMS for pairs in s.pairs]
        for number, cell in enumerate(cells):
            self.progress("measuring", _STEPS + (1 - _STEPS) * number / len(cells), policy="recall")
            found.append(self._asked(*cell, rewritten=False))
        return found

    def rewrites(self) -> list[dict]:
        """The same with a second value for every key: so few that a state has room for them."""
        few = {dim: max(1, dim // REWRITTEN_PART) for dim in self.scenario.key_dims}
        return [self._asked(m, dim, pairs, rewritten=True) for dim, pairs in few.items() for m in MECHANISMS]

    def _asked(self, mechanism: str, dim: int, pairs: int, *, rewritten: bool) -> dict:
        s = self.scenario
        question = {"mechanism": mechanism, "pairs": pairs, "key_dim": dim, "rewritten": rewritten}
        answer = self.bench.ask({"type": "ask", **question, "trials": s.trials, "decay": s.decay, "seed": s.seed}, "asked")
        asked = s.trials * pairs
        return {
            "mechanism": mechanism,
            "key_dim": dim,
            "pairs": pairs,
            "asked": asked,
            "right": answer["right"],
            "rate": round(answer["right"] / asked, 5),
            "interval": [round(edge, 5) for edge in wilson(answer["right"], asked)],
            "by_age": answer["by_age"] and [round(rate, 5) for rate in answer["by_age"]],
        }
