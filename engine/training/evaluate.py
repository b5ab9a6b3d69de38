"""What a trained network can do, within the length it was trained on: how it foresees held-out prose, and what it recalls."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from engine.training.network import Network
from engine.training.recall import ANSWER, Words, pairs, prose

SEQUENCES = 64


@torch.inference_mode()
def held_out_loss(network: Network, words: Words, text: np.ndarray) -> float:
    """Nats a token of SEQUENCES pieces of held-out prose, all tokens behind BOS; the same pieces every time."""
    draw = np.random.default_rng(0)
    samples = [prose(draw, words, text, network.config.max_context + 1) for _ in range(SEQUENCES)]
    ids = torch.from_numpy(np.stack([ids for ids, _ in samples]))
    return F.cross_entropy(network(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).item()


@torch.inference_mode()
def pairs_recalled(network: Network, words: Words, text: np.ndarray) -> float:
    """Share of the answers in SEQUENCES sequences of pairs that are the likeliest of all tokens; the same ones every time."""
    draw = np.random.default_rng(0)
    samples = [pairs(draw, words, text, network.config.max_context + 1) for _ in range(SEQUENCES)]
    ids, kinds = (torch.from_numpy(np.stack(part)) for part in zip(*samples, strict=True))
    asked = kinds[:, 1:] == ANSWER
    return (network(ids[:, :-1]).argmax(-1) == ids[:, 1:])[asked].float().mean().item()
