"""How the lab model is trained, as frozen numbers. No torch."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field

from engine.model.catalog import CATALOG, LAB_MODEL
from engine.model.config import ModelConfig


@dataclass(frozen=True)
class Recipe:
    """Two stages: pairs alone until recall has formed, then prose, pairs and needles together. Lengths in tokens.

    config: the shape, its max_context the length trained on; batch: sequences a step.
    recall_steps: at most, of the first stage, over sequences of recall_length;
        it ends when the loss was below recall_goal nats recall_streak times in a row.
    fewest_keys: in a sequence of pairs, in both stages.
    steps: of the second stage; prose, pairs, needles: sequences of each kind in its batch, `batch` together.
    muon_lr: of the matrices; adam_lr: of embeddings and norms. Both rise over `warmup` steps; in the second stage
        they fall along a cosine to lr_floor of their height.
    recall_weight: of the mean loss of answers beside that of prose.
    recall_least: share of pairs that a finished model must recall; with less the next seed is tried, `attempts` in all.
    """

    config: ModelConfig = field(default_factory=lambda: CATALOG[LAB_MODEL].config)
    batch: int = 32
    recall_steps: int = 600
    recall_length: int = 64
    recall_goal: float = 0.3
    recall_streak: int = 5
    fewest_keys: int = 8
    steps: int = 1_900
    prose: int = 19
    pairs: int = 5
    needles: int = 8
    muon_lr: float = 0.03
    muon_momentum: float = 0.95
    adam_lr: float = 0.004
    adam_betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    warmup: int = 20
    lr_floor: float = 0.01
    recall_weight: float = 0.5
    recall_least: float = 0.95
    attempts: int = 3

    def __post_init__(self) -> None:
        if self.prose + self.pairs + self.needles != self.batch:
            raise ValueError("prose, pairs and needles must fill the batch")

    def as_dict(self) -> dict[str, object]:
        """For training.json."""
        return asdict(self)

    def key(self) -> str:
        """Equal for equal recipes: a checkpoint of another one cannot be gone on with."""
        return hashlib.sha256(json.dumps(self.as_dict(), sort_keys=True).encode()).hexdigest()
