"""The retrieval experiment: needles by depth and length, with every way of stretching RoPE and with sinks and a window.

A text carries one needle at every depth, each with a key of its own, and is read once for all questions: each goes on from a
copy of what was kept (`retrieval_text`). An answer is the likeliest of the values; whether it is the likeliest of the whole
vocabulary is kept beside it. A child process of its own reads (`retrieval_worker`); what it is asked, and what the result
says of it, is decided here, without torch. The result, beside format, kind, run_id, provenance and manifest:

    trained    tokens the model was trained on; lengths: rising, tokens of a text with its question; depths: rising
    guess      what guessing among the values gives
    cells      in the order measured, and at each length and method by depth: [{"method", "length", "depth", "factor": by how
               much it stretches, null where it does not, "trials", "right", "rate", "interval": Wilson's, 95 %, "rate_free":
               share whose right value is the likeliest of all tokens, "in_sinks": share of trials whose needle lay, at least
               in part, in sink slots, "in_window": in part among what the question still sees outside of those}]
    seconds    [{"method", "length", "seconds": of the reading}]
    example    {"text": a part of one, "needle", "question", "answers": the values, "right", "position", "length"}

Methods that turn nothing differently at a length, as all of them up to the trained one, are told of by one reading. "dynamic"
keeps keys as they are before rotation and turns them anew when the question has made the text longer.

Only "streaming" has sink slots; for every other method all is in sight. The questions of one text share it, but a cell has
one of each, so that its trials are independent but for the prose that texts may share.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import LabError
from engine.experiments.child import Bench, alone
from engine.experiments.lengths import bos_of, tokens_of
from engine.experiments.manifest import about_text
from engine.experiments.measuring import OnRecord, Progress, no_progress
from engine.experiments.plan import Ground, ground
from engine.experiments.retrieval_scenario import RetrievalScenario
from engine.experiments.retrieval_text import (
    Trial,
    Words,
    example_of,
    questions,
    seen_where,
    spots,
    trials_of,
    words_of,
    write,
)
from engine.experiments.stretched import Stretched, as_record, planned
from engine.formulas.intervals import wilson
from engine.formulas.recall import KEYS, MARK, VALUES
from engine.kv.eviction import as_dict
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import Tokenizer
from engine.texts import Text, load_text

MODULE = "engine.experiments.retrieval_worker"


@dataclass(frozen=True)
class RetrievalPlan:
    """What will be asked. depths: rising; places: of each length, where the needles begin; cells: in the order measured."""

    setup: Ground
    text: Text
    tokenizer: Tokenizer
    words: Words
    bos: tuple[int, ...]
    trials: tuple[Trial, ...]
    depths: tuple[float, ...]
    places: dict[int, list[int]]
    cells: tuple[Stretched, ...]

    @property
    def trained(self) -> int:
        return self.setup.card.config.max_context


def run_retrieval(
    scenario: RetrievalScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda name, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Ask for every needle of every text with every method; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, loading and measuring; while measuring the facts
    are method, length, trials done of it, and of how many.
    on_plan, on_record: told what there is before anything is measured (`engine.service.live`): {"trained", "guess",
    "lengths", "depths"}, then of each cell, as its trials come, {"type": "cell"} and what the result says of it.
    cluster_for: as other experiments have it, unused.
    Raises LabError (what `ground` and `load_text` raise; "recall-words"; "text-too-short"; "scenario-value" for depths too
    close to each other and for sinks that fill the window; "checkpoint-config" for a stretching that these heads cannot
    have), or `engine.serving.cluster.Cancelled`.
    """
    plan = plan_retrieval(scenario)
    head = _head(plan)
    with alone(MODULE, plan.setup, scenario, progress=progress, cancelled=cancelled, wait=wait, once=True) as bench:
        on_plan(head)
        with bench.watched():
            found = _ask_all(plan, scenario, bench, progress, on_record)
    example = example_of(plan.trials[0], plan.words, plan.tokenizer, max(plan.places), plan.places[max(plan.places)], plan.bos)
    return {
        **bench.head(run_id, text=about_text(plan.text)),
        **head,
        **found,
        "example": example,
        "disturbance": bench.disturbance,
    }


def plan_retrieval(scenario: RetrievalScenario) -> RetrievalPlan:
    """Write all texts, and check everything that can be checked before a process starts. Raises LabError."""
    setup, text, tokenizer = ground(scenario), load_text(scenario.text), load_tokenizer(scenario.model)
    depths = tuple(sorted(scenario.depths))
    words, bos = words_of(tokenizer, MARK, KEYS, VALUES), bos_of(tokenizer)
    cells = planned(scenario, setup.card.config)
    places = {length: spots(length, depths, len(bos)) for length in sorted(scenario.lengths)}
    ids, longest = tokens_of(tokenizer, text), max(places)
    if len(ids) < longest:
        raise LabError("text-too-short", name=text.name, tokens=len(ids), needed=longest)
    trials = trials_of(ids, words, scenario.trials, len(depths), longest, scenario.seed)
    return RetrievalPlan(setup, text, tokenizer, words, bos, tuple(trials), depths, places, cells)


def _head(plan: RetrievalPlan) -> dict:
    return {
        "trained": plan.trained,
        "guess": 1 / len(plan.words.values),
        "lengths": list(plan.places),
        "depths": list(plan.depths),
    }


def _ask_all(
    plan: RetrievalPlan, scenario: RetrievalScenario, bench: Bench, progress: Progress, on_record: OnRecord
) -> dict[str, list[dict]]:
    """The cells, and the seconds of each length and method."""
    cells, seconds, opened, read = [], [], None, 0
    readings: dict[tuple, tuple[list, float]] = {}
    of = sum(length for length, *_ in {_reading(cell) for cell in plan.cells}) * scenario.trials
    for cell in plan.cells:
        if opened != cell.length:
            opened = cell.length
            bench.ask({"type": "open", **_texts(plan, cell.length)}, "opened")
        found: list[tuple[list[int], list[bool]]] = []

        def told(cell: Stretched = cell, found: list = found, before: int = read) -> None:
            facts = {"method": cell.method, "length": cell.length, "trials": len(found), "of": scenario.trials}
            progress("measuring", min(1.0, (before + len(found) * cell.length) / of), **facts)

        def see(record: dict, cell: Stretched = cell, found: list = found, told: Callable = told) -> None:
            found += zip(record["chosen"], record["free"], strict=True)
            told()
            _record(plan, cell, found, on_record)

        told()
        if _reading(cell) not in readings:
            question = {"scaling": as_record(cell.scaling), "policy": as_dict(cell.policy)}
            readings[_reading(cell)] = found, bench.ask({"type": "ask", **question}, "asked", see)["seconds"]
            read += cell.length * scenario.trials
        found, took = readings[_reading(cell)]
        _record(plan, cell, found, on_record)
        cells += cells_of(plan, cell, found)
        seconds.append({"method": cell.method, "length": cell.length, "seconds": took})
    return {"cells": cells, "seconds": seconds}


def _reading(cell: Stretched) -> tuple:
    """Equal for two methods that turn and keep the same."""
    return cell.length, cell.scaling, cell.policy


def _record(plan: RetrievalPlan, cell: Stretched, found: list[tuple[list[int], list[bool]]], on_record: OnRecord) -> None:
    for known in cells_of(plan, cell, found):
        on_record(f"{cell.method} {cell.length} {known['depth']}", 0, {"type": "cell", **known})


def _texts(plan: RetrievalPlan, length: int) -> dict:
    texts = [write(trial, plan.words, length, plan.places[length], plan.bos) for trial in plan.trials]
    return {"texts": texts, "questions": [questions(t, plan.words) for t in plan.trials], "values": plan.words.values}


def cells_of(plan: RetrievalPlan, cell: Stretched, found: list[tuple[list[int], list[bool]]]) -> list[dict]:
    """What the result says of a length and method, depth by depth. found: of each trial so far, by depth, the number of the
    chosen value, and whether it was the likeliest of all tokens."""
    return [_cell(plan, cell, number, found) for number in range(len(plan.depths))]


def _cell(plan: RetrievalPlan, cell: Stretched, depth: int, found: list[tuple[list[int], list[bool]]]) -> dict:
    hits = [chosen[depth] == trial.answers[depth] for (chosen, _), trial in zip(found, plan.trials, strict=False)]
    free = [hit and likeliest[depth] for hit, (_, likeliest) in zip(hits, found, strict=True)]
    right, trials = sum(hits), len(hits)
    in_sinks, in_window = seen_where(plan.places[cell.length][depth], cell.policy, cell.length)
    return {
        "method": cell.method,
        "length": cell.length,
        "depth": plan.depths[depth],
        "factor": None if cell.factor is None else round(cell.factor, 6),
        "trials": trials,
        "right": right,
        "rate": round(right / trials, 6),
        "interval": [round(edge, 6) for edge in wilson(right, trials)],
        "rate_free": round(sum(free) / trials, 6),
        "in_sinks": float(in_sinks),
        "in_window": float(in_window),
    }
