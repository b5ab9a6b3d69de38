"""The lengths experiment: perplexity of the same tokens behind ever more text, with every way of stretching RoPE.

Every text ends in the tokens that are scored, and a greater length only reaches further back, so that what differs between
two cells is what came before, and how its positions were turned: never which words had to be foreseen. Of a length of n,
n tokens are read, the model's BOS first where it has one; behind each of the last `scored` of them the next is foreseen.
A child process of its own reads (`lengths_worker`); what it reads, and what the result says of it, is decided here, without
torch. The result, beside format, kind, run_id, provenance and manifest:

    trained     tokens the model was trained on
    scored      tokens of each text that are foreseen; texts: how many there are, in order of their seeds
    lengths     rising; seeds: those of the evaluation
    cells       in the order measured: [{"method", "length", "factor": by how much it stretches, null where it does not,
                "scaling": as `formulas.rope.RopeScaling`, null for the model as it is, "perplexity": of all texts, "by_seed":
                of the texts of each seed, "tokens": how many were foreseen, "seconds": of the reading}]

Methods that turn nothing differently at a length, as all of them up to the trained one, are told of by one reading.
"dynamic" is that of one forward over the whole length: all of its tokens are turned with the factor of that length. Then it
is NTK-aware with this factor; the two differ where `factor` is fixed. "streaming" keeps sinks and a window, together as long
as the trained length, under the mask that equals the cache token by token (`engine.kv.masked`).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.errors import LabError
from engine.experiments.child import Bench, alone
from engine.experiments.curves import perplexity
from engine.experiments.lengths_scenario import LengthsScenario
from engine.experiments.manifest import about_text
from engine.experiments.measuring import OnRecord, Progress, no_progress
from engine.experiments.plan import Ground, ground
from engine.experiments.stretched import Stretched, as_record, planned
from engine.kv.eviction import as_dict
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import Tokenizer
from engine.texts import Text, load_text

MODULE = "engine.experiments.lengths_worker"
# Of a text, so many characters are looked at: enough for any named one.
_MOST_CHARACTERS = 5_000_000


@dataclass(frozen=True)
class LengthsPlan:
    """What will be read. texts: longest + 1 tokens each, those of the first seed first; bos: what stands before every text;
    cells: in the order in which they are measured."""

    setup: Ground
    text: Text
    bos: tuple[int, ...]
    texts: tuple[tuple[int, ...], ...]
    cells: tuple[Stretched, ...]

    @property
    def trained(self) -> int:
        return self.setup.card.config.max_context


def run_lengths(
    scenario: LengthsScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda name, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Read every text at every length with every method; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, loading and measuring; while measuring the facts
    are method, length, cells done, and of how many.
    on_plan, on_record: told what there is before anything is measured (`engine.service.live`): {"trained", "scored", "texts",
    "lengths", "seeds"}, then of each cell, once it is known, {"type": "cell"} and what the result says of it.
    cluster_for: as other experiments have it, unused.
    Raises LabError (what `ground` and `load_text` raise; "text-too-short"; "scenario-value" for sinks that fill the window;
    "checkpoint-config" for a stretching that these heads cannot have), or `engine.serving.cluster.Cancelled`.
    """
    plan = plan_lengths(scenario)
    head = _head(plan, scenario)
    with alone(MODULE, plan.setup, scenario, progress=progress, cancelled=cancelled, wait=wait, once=True) as bench:
        on_plan(head)
        with bench.watched():
            cells = _read_all(plan, scenario, bench, progress, on_record)
    return {**bench.head(run_id, text=about_text(plan.text)), **head, "cells": cells, "disturbance": bench.disturbance}


def plan_lengths(scenario: LengthsScenario) -> LengthsPlan:
    """Check everything that can be checked before a process starts. Raises LabError."""
    setup, text, tokenizer = ground(scenario), load_text(scenario.text), load_tokenizer(scenario.model)
    cells = planned(scenario, setup.card.config)
    ids = tokens_of(tokenizer, text)
    needed = max(scenario.lengths) + 1
    if len(ids) < needed:
        raise LabError("text-too-short", name=text.name, tokens=len(ids), needed=needed)
    texts = [part for n in seeds_of(scenario) for part in drawn(ids, needed, scenario.samples, n)]
    return LengthsPlan(setup, text, bos_of(tokenizer), tuple(texts), cells)


def tokens_of(tokenizer: Tokenizer, text: Text) -> list[int]:
    """All of a text, or as much of its beginning as experiments look at."""
    return tokenizer.encode(text.text[:_MOST_CHARACTERS], add_special=False)


def bos_of(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The token that this model expects at the start of whatever it reads, if it does."""
    return tuple(tokenizer.encode("")[:1])


def drawn(ids: Sequence[int], tokens: int, samples: int, seed: int) -> list[tuple[int, ...]]:
    """Stretches of a text, each from a place of its own that the seed draws; equal seeds draw equal ones."""
    draw = random.Random(f"lengths {seed}")
    begins = [draw.randrange(len(ids) - tokens + 1) for _ in range(samples)]
    return [tuple(ids[begin : begin + tokens]) for begin in begins]


def seeds_of(scenario: LengthsScenario) -> list[int]:
    """Those of the evaluation."""
    return [scenario.seed + n for n in range(scenario.seeds)]


def _head(plan: LengthsPlan, scenario: LengthsScenario) -> dict:
    return {
        "trained": plan.trained,
        "scored": scenario.scored,
        "texts": len(plan.texts),
        "lengths": sorted(scenario.lengths),
        "seeds": seeds_of(scenario),
    }


def _read_all(
    plan: LengthsPlan, scenario: LengthsScenario, bench: Bench, progress: Progress, on_record: OnRecord
) -> list[dict]:
    cells, read, readings = [], 0, {}
    of = sum(length for length, *_ in {cell.reading for cell in plan.cells}) * len(plan.texts)
    bench.ask({"type": "open", "texts": plan.texts, "bos": plan.bos, "scored": scenario.scored}, "opened")
    for cell in plan.cells:

        def told(tokens: int, cell: Stretched = cell) -> None:
            nonlocal read
            read += tokens
            facts = {"method": cell.method, "length": cell.length, "cells": len(cells), "of": len(plan.cells)}
            progress("measuring", min(1.0, read / of), **facts)

        told(0)
        if cell.reading not in readings:
            facts = {"length": cell.length, "scaling": as_record(cell.at_once()), "policy": as_dict(cell.policy)}
            readings[cell.reading] = bench.ask({"type": "read", **facts}, "all-read", lambda part, say=told: say(part["tokens"]))
        found = readings[cell.reading]
        cells.append(cell_of(cell, scenario, found["losses"], found["seconds"]))
        on_record(f"{cell.method} {cell.length}", 0, {"type": "cell", **cells[-1]})
    return cells


def cell_of(cell: Stretched, scenario: LengthsScenario, losses: list[float], seconds: float) -> dict:
    """What the result says of one cell. losses: the mean of each text, in nats."""
    size = scenario.samples
    return {
        "method": cell.method,
        "length": cell.length,
        "factor": None if cell.factor is None else round(cell.factor, 6),
        "scaling": as_record(cell.scaling),
        "perplexity": perplexity(losses),
        "by_seed": [perplexity(losses[at : at + size]) for at in range(0, len(losses), size)],
        "tokens": len(losses) * scenario.scored,
        "seconds": seconds,
    }
