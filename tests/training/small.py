"""A recipe and a corpus so small that a training takes a second, through the real code."""

from __future__ import annotations

import numpy as np

from engine.model.config import ModelConfig
from engine.training.corpus import Corpus
from engine.training.recall import Words
from engine.training.recipe import Recipe

WORDS = Words(bos=60, mark=61, keys=tuple(range(62, 78)), values=tuple(range(78, 94)))
CONFIG = ModelConfig(
    vocab_size=94, hidden_size=32, n_layers=2, n_heads=4, n_kv_heads=2, head_dim=8, ffn_size=48, max_context=64, tie_embeddings=True
)


def corpus() -> Corpus:
    """Tokens 0 to 59, in an order that can be learnt."""
    ids = np.cumsum(np.random.default_rng(0).integers(1, 4, 4_000)) % 60
    return Corpus(ids[:3_000], ids[3_000:], "training text", "held-out text")


def recipe(**changes: object) -> Recipe:
    """Recall counts as formed after two steps, and nothing is asked of it at the end."""
    usual = {
        "config": CONFIG, "batch": 6, "prose": 3, "pairs": 1, "needles": 2, "recall_steps": 4, "recall_goal": 99.0, "recall_streak": 2,
        "steps": 8, "recall_least": 0.0, "warmup": 2,
    }
    return Recipe(**{**usual, **changes})
