"""The loop that trains the lab model. It can be stopped after any step and goes on from there as if it had not been.

What a step reads is drawn from its seed, stage and number, so nothing of the past is needed but weights, both optimizers'
state and the step's number. On one machine, with equally many threads, the same seed gives the same weights to the last bit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from engine.errors import LabError
from engine.training import checkpoint
from engine.training.corpus import Corpus
from engine.training.evaluate import pairs_recalled
from engine.training.network import EMBEDDING, Network, Weights, initial_weights
from engine.training.recall import ANSWER, TEXT, Words, needles, pairs, prose
from engine.training.recipe import Recipe

RECALL, MIXED = 0, 1  # the stages
SAVE_EVERY_S = 60.0
_REMEMBERED = 0.98  # of the running means that are shown
_NUMBERS = ("asked_seed", "seed", "stage", "step", "streak", "recall_steps", "seconds", "text_loss", "recall_loss")


@dataclass(frozen=True)
class Report:
    """How far it is. stage: RECALL or MIXED; losses: running means in nats; left_s: seconds the rest of this stage will take
    at this pace; event: "" or why this is told: "saved", "recall-formed", "recall-failed" (the next seed is tried)."""

    seed: int
    stage: int
    step: int
    steps: int
    text_loss: float | None
    recall_loss: float | None
    left_s: float | None
    event: str = ""


@dataclass(frozen=True)
class Trained:
    """weights: by checkpoint name; seed: the one that led to them; recalled: share of pairs; text_loss, recall_loss: the last
    running means; recall_steps: of the first stage; seconds: of computing, over all sittings; threads: of torch."""

    weights: Weights
    seed: int
    recalled: float
    text_loss: float
    recall_loss: float
    recall_steps: int
    seconds: float
    threads: int


class Stopped(Exception):
    """Training was asked to stop, and has; a checkpoint holds all of it."""


def train(
    recipe: Recipe,
    corpus: Corpus,
    words: Words,
    seed: int,
    folder: Path,
    *,
    resume: bool = False,
    progress: Callable[[Report], None] = lambda report: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Trained:
    """Train until recall has formed and all steps are done; checkpoints are kept in `folder`, which must exist.

    progress is told of every step; stopped is asked after every step.
    Raises Stopped; LabError("training-no-recall") when no seed led to recall; "training-checkpoint" or
    "training-other-recipe" for a checkpoint to resume that is none, or another training's; "output-unwritable".
    """
    begun = _Training(recipe, corpus, words, seed, seed)
    if resume:
        _restore(begun, folder)
    while True:
        formed = begun.run(folder, progress, stopped)
        recalled = pairs_recalled(begun.network, words, corpus.ids) if formed else 0.0
        if formed and recalled >= recipe.recall_least:
            return begun.result(recalled)
        progress(begun.report("recall-failed"))
        if begun.seed + 1 >= seed + recipe.attempts:
            raise LabError("training-no-recall", seeds=recipe.attempts, least=recipe.recall_least)
        begun = _Training(recipe, corpus, words, seed, begun.seed + 1, begun.seconds)


class _Training:
    """One seed's training as far as it is."""

    def __init__(self, recipe: Recipe, corpus: Corpus, words: Words, asked_seed: int, seed: int, seconds: float = 0.0) -> None:
        self.recipe, self.corpus, self.words, self.asked_seed, self.seed = recipe, corpus, words, asked_seed, seed
        self.stage, self.step, self.streak, self.recall_steps, self.seconds = RECALL, 0, 0, 0, seconds
        self.text_loss: float | None = None
        self.recall_loss: float | None = None
        weights = {name: tensor.requires_grad_() for name, tensor in initial_weights(recipe.config, seed).items()}
        self.network = Network(recipe.config, weights)
        matrices = [w for name, w in weights.items() if w.dim() == 2 and name != EMBEDDING]
        norms = [w for w in weights.values() if w.dim() == 1]
        decay = recipe.weight_decay
        # Muon (K. Jordan et al. 2024, kellerjordan.github.io/posts/muon) for what multiplies, AdamW for the rest.
        self.muon = torch.optim.Muon(matrices, lr=recipe.muon_lr, weight_decay=decay, momentum=recipe.muon_momentum)
        groups = [{"params": [weights[EMBEDDING]], "weight_decay": decay}, {"params": norms, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(groups, lr=recipe.adam_lr, betas=recipe.adam_betas)

    def run(self, folder: Path, progress: Callable[[Report], None], stopped: Callable[[], bool]) -> bool:
        """All steps that are left. Returns whether recall formed. Raises Stopped."""
        saved, pace = time.monotonic(), _Pace()
        while self.step < self.steps:
            begun = time.monotonic()
            self._one_step()
            self.seconds += time.monotonic() - begun
            event = ""
            if self.stage == RECALL and self.streak >= self.recipe.recall_streak:
                self.stage, self.step, self.recall_steps, event, pace = MIXED, 0, self.step, "recall-formed", _Pace()
            elif self.stage == RECALL and self.step == self.steps:
                return False
            if stopped():
                checkpoint.save(folder, self.state())
                raise Stopped
            if time.monotonic() - saved > SAVE_EVERY_S:
                checkpoint.save(folder, self.state())
                saved, event = time.monotonic(), event or "saved"
            progress(self.report(event, pace.left(self.steps - self.step)))
        return True

    @property
    def steps(self) -> int:
        """Of this stage; of the first, at most."""
        return self.recipe.recall_steps if self.stage == RECALL else self.recipe.steps

    def report(self, event: str = "", left_s: float | None = None) -> Report:
        return Report(self.seed, self.stage, self.step, self.steps, self.text_loss, self.recall_loss, left_s, event)

    def result(self, recalled: float) -> Trained:
        weights = {name: tensor.detach() for name, tensor in self.network.weights.items()}
        return Trained(
            weights, self.seed, recalled, self.text_loss, self.recall_loss, self.recall_steps, self.seconds, torch.get_num_threads()
        )

    def state(self) -> dict:
        """All that a checkpoint holds."""
        return {
            "recipe": self.recipe.key(),
            "corpus": self.corpus.sha256,
            "threads": torch.get_num_threads(),
            "numbers": {name: getattr(self, name) for name in _NUMBERS},
            "weights": {name: tensor.detach() for name, tensor in self.network.weights.items()},
            "muon": self.muon.state_dict(),
            "adam": self.adam.state_dict(),
        }

    def restore(self, state: dict) -> None:
        for name in _NUMBERS:
            setattr(self, name, state["numbers"][name])
        with torch.no_grad():
            for name, tensor in self.network.weights.items():
                tensor.copy_(state["weights"][name])
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        torch.set_num_threads(state["threads"])  # with others, sums differ in their last bits

    def _one_step(self) -> None:
        ids, kinds = batch_of(self.recipe, self.corpus, self.words, self.seed, self.stage, self.step)
        text, recall = losses(self.network, ids, kinds)
        share = self._learning_rate()
        for optimizer, rate in ((self.muon, self.recipe.muon_lr), (self.adam, self.recipe.adam_lr)):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
            optimizer.zero_grad()
        (recall if self.stage == RECALL else text + self.recipe.recall_weight * recall).backward()
        self.muon.step()
        self.adam.step()
        if self.stage == MIXED:
            self.text_loss = _running(self.text_loss, text.item())
        self.recall_loss = _running(self.recall_loss, recall.item())
        self.streak = self.streak + 1 if recall.item() < self.recipe.recall_goal else 0
        self.step += 1

    def _learning_rate(self) -> float:
        """As a share of its height."""
        warm = min(1.0, (self.step + 1) / self.recipe.warmup)
        if self.stage == RECALL:
            return warm
        return max(warm * 0.5 * (1 + math.cos(math.pi * self.step / self.recipe.steps)), self.recipe.lr_floor)


def batch_of(
    recipe: Recipe, corpus: Corpus, words: Words, seed: int, stage: int, step: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a step reads: ids and kinds [batch, tokens], the same whenever it is asked for."""
    draw = np.random.default_rng((seed, stage, step))
    if stage == RECALL:
        samples = [pairs(draw, words, corpus.ids, recipe.recall_length, recipe.fewest_keys) for _ in range(recipe.batch)]
    else:
        length = recipe.config.max_context + 1  # of which all but the last are read, and all but the first foreseen
        paired = partial(pairs, fewest_keys=recipe.fewest_keys)
        makers = [prose] * recipe.prose + [paired] * recipe.pairs + [needles] * recipe.needles
        samples = [make(draw, words, corpus.ids, length) for make in makers]
    ids, kinds = (torch.from_numpy(np.stack(part)) for part in zip(*samples, strict=True))
    return ids, kinds


def losses(network: Network, ids: torch.Tensor, kinds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean cross-entropy of the prose and of the answers, in nats; 0 where there are none."""
    each = F.cross_entropy(network(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten(), reduction="none")
    wanted = kinds[:, 1:].flatten()
    found = [each[wanted == kind] for kind in (TEXT, ANSWER)]
    return tuple(part.mean() if len(part) else each.new_zeros(()) for part in found)


def _restore(begun: _Training, folder: Path) -> None:
    """Bring a training as far as its checkpoint is. Raises LabError, whatever is wrong with that."""
    state, path = checkpoint.load(folder), str(folder / checkpoint.NAME)
    wanted = (begun.recipe.key(), begun.corpus.sha256, begun.asked_seed)
    try:
        fits = (state["recipe"], state["corpus"], state["numbers"]["asked_seed"]) == wanted
        if fits:
            begun.restore(state)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:  # something is missing, or not what it was
        raise LabError("training-checkpoint", path=path, why=f"it is damaged: {str(error).strip()[:100]}") from error
    if not fits:
        raise LabError("training-other-recipe", path=path)


def _running(mean: float | None, value: float) -> float:
    return value if mean is None else _REMEMBERED * mean + (1 - _REMEMBERED) * value


class _Pace:
    """Steps a second since it was made."""

    def __init__(self) -> None:
        self.begun, self.steps = time.monotonic(), 0

    def left(self, steps: int) -> float:
        self.steps += 1
        return steps * (time.monotonic() - self.begun) / self.steps
