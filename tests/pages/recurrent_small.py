"""A small recurrent result made by hand, in the form of the engine's: bytes follow from the formula, times and rates are given."""

from __future__ import annotations

from engine.experiments.recurrent_scenario import DECAY, DELTA, MECHANISMS, SOFTMAX, SUM, RecurrentScenario
from engine.formulas.intervals import wilson
from engine.formulas.state import StateShape
from tests.pages.streaming_small import manifest

SHAPE = StateShape(4, 8, 64, 64, 4)
# Milliseconds of a step: softmax for each 1,000 tokens, the others whatever the length is.
MS = {SOFTMAX: 1.0, SUM: 0.5, DECAY: 0.55, DELTA: 0.8}
# The share that is answered with as many pairs as a key has numbers; above it falls as that number over the pairs.
RATES = {SOFTMAX: 1.0, SUM: 1.0, DECAY: 0.9, DELTA: 0.8}
AGES = {SOFTMAX: (1.0, 1.0), SUM: (0.5, 0.5), DECAY: (0.1, 0.9), DELTA: (0.05, 0.95)}
REWRITES = {SOFTMAX: 0.5, SUM: 0.52, DECAY: 0.8, DELTA: 1.0}


def recurrent(
    lengths=(128, 4096), pairs=(4, 64, 1024), key_dims=(16, 64), *, ms: dict | None = None, rates: dict | None = None, **changes: object
) -> dict:
    """ms, rates: other times and shares by mechanism; changes replace whole entries."""
    times, shares = {**MS, **(ms or {})}, {**RATES, **(rates or {})}
    scenario = RecurrentScenario(tuple(lengths), tuple(pairs), tuple(key_dims))
    found = {
        "format": 1,
        "kind": "recurrent",
        "run_id": "s" * 22,
        "provenance": "recorded",
        "manifest": manifest(scenario),
        "shape": {"layers": 4, "heads": 32, "kv_heads": 8, "head_dim": 64, "bytes_per_value": 4, "model_layers": 16},
        "forms": {"tokens": 256, "differences": {rule: {"recurrent": 3e-6, "chunked": 2e-6} for rule in (SUM, DECAY, DELTA)}},
        "decode": [_step(m, n, times[m]) for n in lengths for m in MECHANISMS],
        "recall": [_asked(m, dim, n, _rate(m, dim, n, shares)) for dim in key_dims for m in MECHANISMS for n in pairs],
        "rewrites": [_asked(m, dim, max(1, dim // 8), REWRITES[m]) for dim in key_dims for m in MECHANISMS],
        "values": 64,
        "disturbance": {"disturbed": False},
    }
    return {**found, **changes}


def _step(mechanism: str, tokens: int, ms: float) -> dict:
    taken = ms * max(tokens, 500) / 1000 if mechanism == SOFTMAX else ms
    size = SHAPE.kv_bytes(tokens) if mechanism == SOFTMAX else SHAPE.state_bytes
    row = {"mechanism": mechanism, "tokens": tokens, "ms": taken, "spread": [taken * 0.9, taken * 1.2], "runs": 3, "steps": 20}
    return {**row, "bytes": size, "computed_bytes": size, "rss_bytes": size}


def _rate(mechanism: str, dim: int, pairs: int, shares: dict) -> float:
    return shares[mechanism] if mechanism == SOFTMAX else 1.0 if pairs < dim else shares[mechanism] * dim / pairs


def _asked(mechanism: str, dim: int, pairs: int, rate: float) -> dict:
    asked = 16 * pairs
    right = round(rate * asked)
    old, new = AGES[mechanism]
    return {
        "mechanism": mechanism,
        "key_dim": dim,
        "pairs": pairs,
        "asked": asked,
        "right": right,
        "rate": right / asked,
        "interval": list(wilson(right, asked)),
        "by_age": [old, (2 * old + new) / 3, (old + 2 * new) / 3, new] if pairs >= 4 else None,
    }
