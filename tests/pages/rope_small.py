"""Small lengths and retrieval results made by hand, in the form of the engine's: their numbers follow from a few given ones."""

from __future__ import annotations

from engine.experiments.lengths_scenario import LengthsScenario
from engine.experiments.retrieval_scenario import RetrievalScenario
from engine.formulas.intervals import wilson

TRAINED, GUESS = 128, 1 / 16
LENGTHS, DEPTHS = (128, 256, 512, 1024), (0.05, 0.5, 0.95)
# Perplexity by method at each of the lengths, and the right answers of 100 at every depth of each of them.
PERPLEXITY = {
    "none": (20.0, 33.0, 83.0, 90.0),
    "linear": (20.0, 25.0, 37.0, 49.0),
    "ntk": (20.0, 23.0, 42.0, 77.0),
    "dynamic": (20.0, 23.0, 42.0, 77.0),
    "by-parts": (20.0, 20.4, 23.8, 32.0),
    "yarn": (20.0, 20.2, 22.4, 29.0),
    "llama3": (20.0, 24.0, 45.0, 70.0),
    "streaming": (20.0, 19.6, 19.5, 19.6),
}
RIGHT = {
    "none": ((99, 98, 99), (60, 55, 80), (8, 9, 30), (5, 6, 8)),
    "linear": ((99, 98, 99), (90, 88, 92), (60, 55, 70), (20, 18, 33)),
    "ntk": ((99, 98, 99), (97, 96, 98), (80, 75, 90), (22, 21, 40)),
    "dynamic": ((99, 98, 99), (97, 96, 98), (80, 75, 90), (22, 21, 40)),
    "by-parts": ((99, 98, 99), (99, 98, 99), (97, 95, 98), (90, 88, 95)),
    "yarn": ((99, 98, 99), (100, 99, 100), (99, 98, 100), (97, 95, 99)),
    "llama3": ((99, 98, 99), (80, 79, 90), (40, 35, 60), (10, 12, 30)),
    "streaming": ((99, 98, 99), (6, 97, 99), (5, 7, 99), (8, 4, 98)),
}
# The seeds' texts are of different difficulty.
SEEDS = (0.9, 1.0, 1.11)


def manifest(scenario, model: str = "lab-1m") -> dict:
    return {
        "scenario": scenario.as_dict(),
        "model": {"name": model, "title": "Lab model", "quantization": "none"},
        "device": {"name": "A machine", "cores": 2, "memory_bytes": 16 * 10**9, "class": "cpu"},
        "dtype": "float32",
        "threads": 2,
        "started_at": "2026-11-30T01:00:00Z",
    }


def manifest_of(model: str) -> dict:
    """That of a lengths result with another model."""
    return manifest(LengthsScenario(lengths=LENGTHS), model)


def lengths(perplexity: dict | None = None, *, at: tuple[int, ...] = LENGTHS, trained: int = TRAINED, factor: float = 0, seeds: tuple = SEEDS, **changes: object) -> dict:
    """perplexity: by method, at each of the lengths; changes replace whole entries."""
    cells = [
        {
            "method": method,
            "length": length,
            "factor": stretch,
            "scaling": {"kind": method, "factor": stretch} if (stretch or 1) > 1 else None,
            "perplexity": value,
            "by_seed": [value * seed for seed in seeds],
            "tokens": 3072,
            "seconds": 0.5,
        }
        for method, values in (PERPLEXITY if perplexity is None else perplexity).items()
        for length, value in zip(at, values, strict=True)
        for stretch in [None if method in ("none", "streaming") else factor or max(1.0, length / trained)]
    ]
    return {
        "format": 1,
        "kind": "lengths",
        "run_id": "Hand_made_lengths_run_",
        "provenance": "measured",
        "manifest": manifest(LengthsScenario(lengths=at, factor=factor)),
        "trained": trained,
        "scored": 128,
        "texts": 8 * len(seeds),
        "lengths": list(at),
        "seeds": list(range(len(seeds))),
        "cells": cells,
        "disturbance": {"disturbed": False},
        **changes,
    }


def retrieval(right: dict | None = None, *, at: tuple[int, ...] = LENGTHS, trials: int = 100, **changes: object) -> dict:
    """right: by method, of each length, of each depth; changes replace whole entries."""
    cells = [
        {
            "method": method,
            "length": length,
            "depth": depth,
            "factor": None,
            "trials": trials,
            "right": hits,
            "rate": hits / trials if trials else 0.0,
            "interval": list(wilson(hits, trials)) if trials else [0.0, 1.0],
            "rate_free": hits / trials if trials else 0.0,
            "in_sinks": float(method == "streaming" and depth * length < 4),
            "in_window": float(method != "streaming" or depth * length >= length - TRAINED + 4),
        }
        for method, by_length in (RIGHT if right is None else right).items()
        for length, by_depth in zip(at, by_length, strict=True)
        for depth, hits in zip(DEPTHS, by_depth, strict=True)
    ]
    return {
        "format": 1,
        "kind": "retrieval",
        "run_id": "Hand_made_retrieval_run",
        "provenance": "measured",
        "manifest": manifest(RetrievalScenario(lengths=at, depths=DEPTHS, trials=max(trials, 1))),
        "trained": TRAINED,
        "guess": GUESS,
        "lengths": list(at),
        "depths": list(DEPTHS),
        "cells": cells,
        "seconds": [],
        "example": {
            "text": "… and it came to pass <b>that</b> he went. NOTE harbor lion And so it was …",
            "needle": "NOTE harbor lion",
            "question": "NOTE harbor",
            "answers": ["lion", "dog", "<script>alert(1)</script>"],
            "right": "lion",
            "position": 51,
            "length": 1024,
        },
        "disturbance": {"disturbed": False},
        **changes,
    }
