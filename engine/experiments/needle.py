"""The needle experiment: a sentence early in a text, asked for behind it, under caches that keep everything or a part.

Every trial is a sentence that says the secret word of a place, among others of its kind (`needle_text`), and a question
about it. Its score is the log-probability of the right word against that of the wrong ones; it is right if no wrong word is
likelier. A child process of its own reads (`needle_worker`); what it is asked, and what the result says of it, is decided
here, without torch. The result, beside format, kind, run_id, provenance and manifest:

    guess      what guessing among the words gives; choices: the words
    window     KV entries of every policy but "dense", sinks included; sinks: of them
    length     tokens of each text, before the question; texts: how many, each with `needles` needles
    cells      [{"policy", "in_sinks", "in_window": where the needle lies when it is asked for (for "dense" and the others the
               same texts), "trials", "right", "rate", "interval": Wilson's, 95 %, "margin_mean": log-probability of the right
               word minus the likeliest wrong one's, in nats, "against_guess": "above", "below" or "level"}]; the last of them
               is the control: sinks and window, with the needles near the end of the text
    excluded   trials whose needle lay in a sink slot: the policy keeps those for ever, so they are in no cell
    example    {"text": a part of one, "question", "answers": the words, "right": the right one, "position", "length"}

"snapkv" reads the text and the question with everything in sight and keeps `window` entries per KV head for the answer, the
question's tokens voting (SnapKV, Li et al. 2024, arXiv 2404.14469); "h2o" evicts while it reads (Zhang et al. 2023). The
questions about one text share it, so that trials are not wholly independent; every word is right equally often, so that a
model that always says the same does not look as if it knew something.
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import LabError
from engine.experiments.child import Bench, alone
from engine.experiments.manifest import about_text
from engine.experiments.measuring import OnRecord, Progress, no_progress
from engine.experiments.needle_scenario import SINKS, NeedleScenario
from engine.experiments.needle_text import (
    NEAR_THE_END,
    Haystack,
    NeedleWriter,
    begin_of,
    in_sinks,
    in_window,
    stays,
)
from engine.experiments.plan import Ground, ground
from engine.experiments.settings import wrong
from engine.formulas.intervals import against, wilson
from engine.kv.eviction import Sinks
from engine.model.load_tokenizer import load_tokenizer
from engine.texts import Text, load_text

MODULE = "engine.experiments.needle_worker"
_SHOWN_TOKENS = 24


@dataclass(frozen=True)
class NeedlePlan:
    """What will be asked. near: texts for the control, all with the same `shared` first tokens; empty where the window is too
    small for needles and question together."""

    setup: Ground
    text: Text
    writer: NeedleWriter
    texts: tuple[Haystack, ...]
    near: tuple[Haystack, ...]
    shared: int


def run_needle(
    scenario: NeedleScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda name, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Ask for every needle under every policy; returns the result.

    progress(phase, done, **facts): phases are waiting, starting-workers, loading and measuring; while measuring the facts
    are policy, trials done under it, and of how many.
    on_plan, on_record, cluster_for: as other experiments have them, unused.
    Raises LabError (what `ground` and `load_text` raise; "model-too-long"; "needle-words"; "scenario-value" where the needles
    do not fit the text), or `engine.serving.cluster.Cancelled`.
    """
    plan = plan_needle(scenario)
    with alone(MODULE, plan.setup, scenario, progress=progress, cancelled=cancelled, wait=wait) as bench, bench.watched():
        scores, near = _ask_all(plan, scenario, bench, progress)
    return {
        **bench.head(run_id, text={**about_text(plan.text), "repeated": plan.writer.repeated}),
        **result_of(plan, scenario, scores, near),
        "disturbance": bench.disturbance,
    }


def plan_needle(scenario: NeedleScenario) -> NeedlePlan:
    """Write all texts, and check everything that can be checked before a process starts. Raises LabError."""
    setup, text = ground(scenario), load_text(scenario.text)
    writer = NeedleWriter(
        load_tokenizer(scenario.model),
        text.text,
        text_name=text.name,
        distractors=scenario.distractors,
        seed=scenario.seed,
    )
    pairs = [writer.pairs() for _ in range(scenario.texts)]
    block = max(sum(map(len, writer.sentences(some))) for some in pairs)
    asked = sum(map(len, writer.ask(writer.places[0])))
    longest = setup.card.config.max_context
    if scenario.length + asked > longest:
        raise LabError("model-too-long", wanted=scenario.length + asked, limit=longest)
    least = block + scenario.sinks + NEAR_THE_END
    if scenario.length < least:
        raise wrong("length", scenario.length, f"a whole number from {least}: the needles alone are {block} tokens")
    texts = []
    for some in pairs:
        at = begin_of(scenario.length, block, scenario.depth, scenario.sinks)
        texts.append(writer.write(writer.filler(scenario.length), some, at))
    near, shared = _near(scenario, writer, pairs, block, asked)
    return NeedlePlan(setup, text, writer, tuple(texts), near, shared)


def _near(
    scenario: NeedleScenario, writer: NeedleWriter, pairs: list, block: int, asked: int
) -> tuple[tuple[Haystack, ...], int]:
    """The control's texts: one filler for all of them, the needles behind `shared` tokens of it."""
    at = scenario.length - NEAR_THE_END - block
    if SINKS not in scenario.policies or at < scenario.sinks:
        return (), 0
    filler = writer.filler(scenario.length)
    texts = tuple(writer.write(filler, some, at) for some in pairs)
    policy, tokens = Sinks(scenario.sinks, scenario.window), scenario.length + asked
    seen = all(stays(needle, policy, tokens) for text in texts for needle in text.needles)
    return (texts, at) if seen else ((), 0)


def _ask_all(plan: NeedlePlan, scenario: NeedleScenario, bench: Bench, progress: Progress):
    """{policy: [scores of each trial, text by text]}, and those of the control."""
    scores: dict[str, list[list[float]]] = {policy: [] for policy in scenario.policies}
    near: list[list[float]] = []
    of = sum(len(text.needles) for text in plan.texts)
    parts = len(scenario.policies) + bool(plan.near)

    def told(policy: str, found: list) -> None:
        done = sum(map(len, scores.values())) + len(near)
        progress("measuring", done / (of * parts), policy=policy, trials=len(found), of=of)

    def see(record: dict) -> None:
        found = scores[record["policy"]]
        found.extend(record["scores"])
        told(record["policy"], found)

    def see_near(record: dict) -> None:
        near.extend(record["scores"])
        told(SINKS, near)

    told(scenario.policies[0], [])
    opening = {"budget": scenario.window, "sinks": scenario.sinks, "choices": plan.writer.choices}
    bench.ask({"type": "open", **opening}, "opened")
    for text in plan.texts:
        question = {"ids": text.ids, "questions": _questions(text), "policies": list(scenario.policies)}
        bench.ask({"type": "ask", **question}, "asked", see)
    if plan.near:
        texts = [{"ids": text.ids[plan.shared :], "questions": _questions(text)} for text in plan.near]
        shared = plan.near[0].ids[: plan.shared]
        bench.ask({"type": "near", "ids": shared, "texts": texts, "policy": SINKS}, "asked", see_near)
    return scores, near


def _questions(text: Haystack) -> list[tuple]:
    return [(needle.question, needle.lead) for needle in text.needles]


def result_of(plan: NeedlePlan, scenario: NeedleScenario, scores: dict[str, list[list[float]]], near: list[list[float]]) -> dict:
    """What the result says, from the log-probabilities of every word in every trial."""
    policy, writer = Sinks(scenario.sinks, scenario.window), plan.writer
    needles = [needle for text in plan.texts for needle in text.needles]
    counted = [number for number, needle in enumerate(needles) if not in_sinks(needle, policy)]
    inside = any(in_window(needles[number], policy, scenario.length) for number in counted)
    guess = 1 / len(writer.words)
    answers = [needle.answer for needle in needles]
    cells = [
        _cell(name, [found[n] for n in counted], [answers[n] for n in counted], guess, in_window=inside)
        for name, found in scores.items()
    ]
    if near:
        cells.append(_cell(SINKS, near, [n.answer for text in plan.near for n in text.needles], guess, in_window=True))
    return {
        "guess": guess,
        "choices": writer.words,
        "window": scenario.window,
        "sinks": scenario.sinks,
        "length": scenario.length,
        "texts": len(plan.texts),
        "needles": writer.needles,
        "cells": cells,
        "excluded": len(needles) - len(counted),
        "example": _example(plan),
    }


def _cell(policy: str, scores: list[list[float]], answers: list[int], guess: float, *, in_window: bool) -> dict:
    margins = [margin(found, answer) for found, answer in zip(scores, answers, strict=True)]
    right, trials = sum(m > 0 for m in margins), len(margins)
    interval = wilson(right, trials) if trials else (0.0, 1.0)
    return {
        "policy": policy,
        "in_sinks": False,
        "in_window": in_window,
        "trials": trials,
        "right": right,
        "rate": round(right / trials, 6) if trials else None,
        "interval": [round(edge, 6) for edge in interval],
        "margin_mean": round(sum(margins) / trials, 5) if trials else None,
        "against_guess": against(guess, interval),
    }


def margin(scores: list[float], answer: int) -> float:
    """Log-probability of the right word minus that of the likeliest wrong one; above 0 it is the model's choice."""
    return scores[answer] - max(score for number, score in enumerate(scores) if number != answer)


def _example(plan: NeedlePlan) -> dict:
    """The first trial, in words: what stands around the needles, and the question."""
    text, decode = plan.texts[0], plan.writer.tokenizer.decode
    needle = text.needles[0]
    begin, end = max(0, needle.begin - _SHOWN_TOKENS), text.needles[-1].end + _SHOWN_TOKENS
    before, after = ("… " if begin else ""), (" …" if end < len(text.ids) else "")
    return {
        "text": before + decode(text.ids[begin:end]) + after,
        "needle": decode(text.ids[needle.begin : needle.end]).strip(),
        "question": decode([*needle.question, *needle.lead]).strip(),
        "answers": plan.writer.words,
        "right": plan.writer.words[needle.answer],
        "position": needle.begin,
        "length": len(text.ids),
    }
