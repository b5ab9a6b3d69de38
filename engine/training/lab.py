"""The lab model from its text to its files: `python -m engine train lab`."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import torch

from engine import texts
from engine.errors import LabError
from engine.formulas.recall import BOS, KEYS, MARK, VALUES
from engine.training import checkpoint
from engine.training.corpus import Corpus, make_corpus, make_tokenizer, tokenizer_sha256
from engine.training.evaluate import held_out_loss, pairs_recalled
from engine.training.export import FILES, WEIGHTS, write_model
from engine.training.network import Network
from engine.training.recall import Words
from engine.training.recipe import Recipe
from engine.training.train import Report, Trained, train


def train_lab(
    folder: Path,
    recipe: Recipe,
    seed: int = 0,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Callable[[Report], None] = lambda report: None,
    stopped: Callable[[], bool] = lambda: False,
) -> dict[str, object]:
    """Train into a folder, which is made if need be; returns what training.json says.

    resume: go on from the checkpoint in it; force: begin anew whatever is in it.
    Raises LabError: "training-finished" for a folder with a model in it, "training-begun" for one with a checkpoint,
    "training-not-begun" for one without where there should be one; what `load_text` and `train` raise. Raises train's Stopped.
    """
    _prepare(folder, resume, force)
    tokenizer = make_tokenizer(texts.kjv_for_training().text)
    corpus, words = make_corpus(tokenizer), words_of(tokenizer)
    trained = train(recipe, corpus, words, seed, folder, resume=resume, progress=progress, stopped=stopped)
    facts = _facts(recipe, corpus, words, trained, seed, tokenizer_sha256(tokenizer))
    write_model(folder, recipe.config, trained.weights, tokenizer, facts)
    (folder / checkpoint.NAME).unlink(missing_ok=True)
    return facts


def words_of(tokenizer) -> Words:
    """The ids of the words of needles in a vocabulary of `make_tokenizer`."""
    number = tokenizer.token_to_id
    return Words(number(BOS), number(MARK), tuple(map(number, KEYS)), tuple(map(number, VALUES)))


def _prepare(folder: Path, resume: bool, force: bool) -> None:
    begun = os.path.exists(folder / checkpoint.NAME)
    # With a checkpoint, other files than the weights, which come last, are those of an end that was cut short.
    ours = (WEIGHTS,) if begun else FILES
    if any(os.path.exists(folder / name) for name in ours) and not force:
        raise LabError("training-finished", path=str(folder))
    if resume and not begun:
        raise LabError("training-not-begun", path=str(folder))
    if begun and not (resume or force):
        raise LabError("training-begun", path=str(folder))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # or the first minute of training would be lost
            pass
    except OSError as error:
        raise LabError("output-unwritable", path=str(folder), why=error.strerror or str(error)) from error


def _facts(recipe: Recipe, corpus: Corpus, words: Words, trained: Trained, asked_seed: int, vocabulary: str) -> dict[str, object]:
    # As it will be read: in fp16, from the file.
    network = Network(recipe.config, {name: tensor.half().float() for name, tensor in trained.weights.items()})
    return {
        "recipe": recipe.as_dict(),
        "seed": trained.seed,
        "asked_seed": asked_seed,
        "threads": trained.threads,
        "corpus": {"name": "kjv", "sha256": texts.KJV_SHA256, "version": f"{texts.KJV_FILE.package} {texts.KJV_FILE.version}"},
        "training_text": {"sha256": corpus.sha256, "tokens": len(corpus.ids)},
        "held_out_text": {
            "name": texts.HELD_OUT_NAME,
            "books": list(texts.HELD_OUT_BOOKS.values()),
            "sha256": corpus.held_out_sha256,
            "tokens": len(corpus.held_out),
        },
        "tokenizer_sha256": vocabulary,
        "recall_steps": trained.recall_steps,
        "training_loss": round(trained.text_loss, 4),
        "recall_loss": round(trained.recall_loss, 4),
        "held_out_loss": round(held_out_loss(network, words, corpus.held_out), 4),
        "pairs_recalled": round(pairs_recalled(network, words, corpus.held_out), 4),
        "seconds": round(trained.seconds, 1),
        "versions": {"python": platform.python_version(), "torch": torch.__version__, "tokenizers": version("tokenizers")},
    }
