"""The attention experiment: where every head of a real model looks while it reads a text, and what makes a sink.

Attention sinks: Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks", section 3.1. A child process
of its own reads (`attention_worker`); which tokens, and what the result says of them, is decided here, without torch.

The result, beside format, kind, run_id, provenance and manifest:

    tokens        a label for each token (`labels`); layers, heads: how many
    text          {"tokens", "asked", "offset", "characters": how many of the text the tokens cover, "more": whether it goes on}
    overview      attention to the first token and to the first k, the mean over the queries from `queries_from` on:
                  {"queries_from", "first_k_tokens", "first": [layer][head], "first_k": [layer][head]}, and what a head that
                  treats all keys alike would give: "uniform", "uniform_k"
    profile       the same mean for every key: {"by_layer": [layer][key], the mean over heads; "by_head": base64, one byte
                  each, [layer][head][key], or null where it would be too much; "uniform": [key]; "scale"}
    maps          of every head: {"reduction": what was done to neighbouring tokens, null for nothing, "size": n, "edges": the
                  first token of each of the n bins and the end, "scale": from byte to share, "data": base64 of
                  [layer][head][the n (n + 1) / 2 bytes up to the diagonal, row = query]} (`formulas.attention.head_map`)
    exact         one head's map token by token: {"layer", "head", "size", "scale", "data"}, or null above EXACT_TOKENS
    starts        what comes first, and what it gets: [{"name", "first", "first_k": mean over layers, heads and queries,
                  "by_layer", "by_layer_k", "by_position": of the first keys one by one, "labels": of the first tokens}]; []
                  for a text of fewer than SHORTEST tokens
    starts_on     {"tokens": of each start, "queries_from", "uniform", "uniform_k"}, or null
    seconds       {"starting", "loading", "computing"}

Probabilities are those after the softmax, in float32 whatever the model's number format; the text stands alone, without a
special token in front of it.
"""

import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import LabError
from engine.experiments.attention_scenario import START_TOKENS, STRONGEST, AttentionScenario
from engine.experiments.child import alone
from engine.experiments.labels import token_labels
from engine.experiments.manifest import about_text
from engine.experiments.measuring import OnRecord, Progress, no_progress
from engine.experiments.plan import Ground, ground
from engine.experiments.settings import wrong
from engine.formulas import attention as formulas
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import Tokenizer
from engine.texts import Text, load_text

MODULE = "engine.experiments.attention_worker"
# A result is to stay below 1.5 MB, and base64 makes four bytes of three: so many values at most for all maps together, for
# the profiles of all heads, and (131,328 are the triangle of 512 tokens) for the exact one.
MOST_MAP_VALUES = 600_000
MOST_PROFILE_VALUES = 280_000
EXACT_TOKENS = 512
# Fewer tokens say nothing about what a start does to those that follow.
SHORTEST = 16
# Of the text, so many characters at most are looked at for each token wanted: runs of spaces or stars make long tokens.
_CHARACTERS_PER_TOKEN = 64
_TRIES = 2000
_STARTS_SHOWN = 8
# How many new tokens a start puts first, and from which of its own the text goes on behind them.
NEW_TOKENS = {"as_is": (0, 0), "special": (1, 0), "newline": (1, 1), "word": (1, 1), "newlines4": (4, 0)}


@dataclass(frozen=True)
class AttentionPlan:
    """What will be read: the text's tokens, the same behind other starts, and how the maps are cut into bins.

    characters: of the text, from the offset on, that the tokens cover; starts: token ids by name, each `start_tokens` long.
    """

    setup: Ground
    text: Text
    tokenizer: Tokenizer
    ids: tuple[int, ...]
    characters: int
    starts: dict[str, tuple[int, ...]]
    start_tokens: int
    edges: tuple[int, ...]
    exact: tuple[int, int] | None

    @property
    def queries_from(self) -> int:
        return formulas.first_query(len(self.ids))

    @property
    def start_from(self) -> int:
        return formulas.first_query(self.start_tokens)


def run_attention(
    scenario: AttentionScenario,
    *,
    progress: Progress = no_progress,
    on_plan: Callable[[dict], None] = lambda plan: None,
    on_record: OnRecord = lambda name, repeat, record: None,
    cancelled: Callable[[], bool] = lambda: False,
    wait: bool = True,
    cluster_for: object = None,
    run_id: str | None = None,
) -> dict:
    """Read a text and look at every head; returns the result.

    progress(phase, done): phases are waiting, starting-workers, loading and computing.
    on_plan, on_record, cluster_for: as other experiments have them, unused.
    Raises LabError (what `ground` and `load_text` raise; "scenario-value" for an offset behind the text's end or a head that
    the model has not; "model-too-long"), or `engine.serving.cluster.Cancelled`.
    """
    plan = plan_attention(scenario)
    seconds = _Stopwatch()

    def told(phase: str, done: float, **facts: object) -> None:
        seconds.see(phase)
        progress(phase, done, **facts)

    with alone(MODULE, plan.setup, scenario, progress=told, cancelled=cancelled, wait=wait, once=True) as bench:
        told("computing", 0.0)
        with bench.watched():
            found = bench.ask(_question(plan, scenario), "computed", lambda record: told("computing", record["done"]))
        seconds.see(None)
    return {
        **bench.head(run_id, text=about_text(plan.text)),
        **result_of(plan, scenario, found),
        "seconds": seconds.found,
        "disturbance": bench.disturbance,
    }


def plan_attention(scenario: AttentionScenario) -> AttentionPlan:
    """Check everything that can be checked before a process starts. Raises LabError."""
    setup, text, tokenizer = ground(scenario), load_text(scenario.text), load_tokenizer(scenario.model)
    c = setup.card.config
    if scenario.exact_layer >= c.n_layers:
        raise wrong("exact_layer", scenario.exact_layer, f"a whole number from {STRONGEST} to {c.n_layers - 1}")
    if scenario.exact_head >= c.n_heads:
        raise wrong("exact_head", scenario.exact_head, f"a whole number from {STRONGEST} to {c.n_heads - 1}")
    if scenario.offset >= len(text.text):
        raise wrong("offset", scenario.offset, f"a whole number from 0 to {len(text.text) - 1}: the text is no longer")
    ids, characters = first_tokens(tokenizer, text.text, scenario.offset, scenario.tokens)
    if len(ids) > c.max_context:
        raise LabError("model-too-long", wanted=len(ids), limit=c.max_context)
    starts = other_starts(tokenizer, ids[:START_TOKENS], scenario.seed) if len(ids) >= SHORTEST else {}
    width = formulas.bin_tokens(len(ids), c.n_layers * c.n_heads, MOST_MAP_VALUES)
    edges = tuple(formulas.bin_edges(len(ids), width))
    exact = (scenario.exact_layer, scenario.exact_head) if len(ids) <= EXACT_TOKENS else None
    start_tokens = min(START_TOKENS, len(ids))
    return AttentionPlan(setup, text, tokenizer, ids, characters, starts, start_tokens, edges, exact)


def first_tokens(tokenizer: Tokenizer, text: str, offset: int, tokens: int) -> tuple[tuple[int, ...], int]:
    """The first tokens of a text from a character on, at most so many, and how many characters they cover.

    A character of which only a part fits is not covered.
    """
    piece = text[offset : offset + _CHARACTERS_PER_TOKEN * tokens]
    ids = tokenizer.encode(piece, add_special=False)[:tokens]
    stream = tokenizer.pieces()
    return tuple(ids), sum(len(stream.add(token)) for token in ids)


def other_starts(tokenizer: Tokenizer, ids: tuple[int, ...], seed: int) -> dict[str, tuple[int, ...]]:
    """The same text behind other first tokens, by the names of STARTS; each as long as the text, which loses at its end what
    it gains in front.

    A vocabulary without a special token, or without words, has no such start.
    """
    line_break, word = tokenizer.encode("\n", add_special=False)[-1], _random_word(tokenizer, seed, not_this=ids[0])
    tokens = {"special": tokenizer.bos_id, "newline": line_break, "word": word, "newlines4": line_break}
    found = {}
    for name, token in tokens.items():
        new, kept_from = NEW_TOKENS[name]
        if token is not None:
            found[name] = (*(token,) * new, *ids[kept_from:])[: len(ids)]
    return found


def _random_word(tokenizer: Tokenizer, seed: int, not_this: int) -> int | None:
    """A token that is a word of letters, the same for the same seed."""
    draw = random.Random(f"word {seed}")
    for _ in range(_TRIES):
        token = draw.randrange(tokenizer.vocab_size)
        if token != not_this and re.fullmatch(" ?[A-Za-z]{4,}", tokenizer.decode([token])):
            return token
    return None


def _question(plan: AttentionPlan, scenario: AttentionScenario) -> dict:
    return {
        "type": "compute",
        "ids": plan.ids,
        "queries_from": plan.queries_from,
        "first_k": scenario.first_k,
        "edges": plan.edges,
        "exact": plan.exact,
        "starts": plan.starts,
        "start_tokens": plan.start_tokens,
        "start_from": plan.start_from,
    }


def result_of(plan: AttentionPlan, scenario: AttentionScenario, found: dict) -> dict:
    """What the result says, from what the process found."""
    c, n, first_k = plan.setup.card.config, len(plan.ids), scenario.first_k
    small = c.n_layers * c.n_heads * n <= MOST_PROFILE_VALUES
    exact = found["exact"] and {**found["exact"], "scale": formulas.SCALE}
    labels = token_labels(plan.tokenizer, plan.ids)
    return {
        "tokens": labels,
        "layers": c.n_layers,
        "heads": c.n_heads,
        "text": {
            "tokens": n,
            "asked": scenario.tokens,
            "offset": scenario.offset,
            "characters": plan.characters,
            "more": scenario.offset + plan.characters < len(plan.text.text),
        },
        "overview": {
            "queries_from": plan.queries_from,
            "first_k_tokens": first_k,
            "first": found["first"],
            "first_k": found["first_k"],
            "uniform": round(formulas.even_share(n, plan.queries_from, 1), 6),
            "uniform_k": round(formulas.even_share(n, plan.queries_from, first_k), 6),
        },
        "profile": {
            "by_layer": found["profile"]["by_layer"],
            "by_head": found["profile"]["by_head"] if small else None,
            "uniform": [float(f"{share:.3g}") for share in formulas.even(n, plan.queries_from)],
            "scale": formulas.SCALE,
        },
        "maps": {
            "reduction": None if len(plan.edges) == n + 1 else formulas.REDUCTION,
            "size": len(plan.edges) - 1,
            "edges": list(plan.edges),
            "scale": formulas.SCALE,
            "data": found["maps"],
        },
        "exact": exact,
        "starts": [
            {"name": name, **start, "labels": _start_labels(plan, name, labels)} for name, start in found["starts"].items()
        ],
        "starts_on": _starts_on(plan, first_k) if found["starts"] else None,
    }


def _start_labels(plan: AttentionPlan, name: str, labels: list[str]) -> list[str]:
    """Of the first tokens of a start; those of the text keep their labels, even where the rest of a character is gone."""
    new, kept_from = NEW_TOKENS[name]
    front = [token_labels(plan.tokenizer, [token])[0] for token in plan.starts.get(name, ())[:new]]
    return [*front, *labels[kept_from:]][:_STARTS_SHOWN]


def _starts_on(plan: AttentionPlan, first_k: int) -> dict:
    shares = {name: formulas.even_share(plan.start_tokens, plan.start_from, k) for name, k in (("uniform", 1), ("uniform_k", first_k))}
    return {
        "tokens": plan.start_tokens,
        "queries_from": plan.start_from,
        **{name: round(share, 6) for name, share in shares.items()},
    }


class _Stopwatch:
    """Seconds of the phases that a run goes through, one after another; those of waiting are nobody's."""

    _NAMES = {"starting-workers": "starting", "loading": "loading", "computing": "computing"}

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self.phase: str | None = None
        self.since = 0.0

    def see(self, phase: str | None) -> None:
        """What is told of the progress; None at the end."""
        if phase == self.phase:
            return
        now = time.monotonic()
        if self.phase in self._NAMES:
            self.found[self._NAMES[self.phase]] = round(now - self.since, 3)
        self.phase, self.since = phase, now
