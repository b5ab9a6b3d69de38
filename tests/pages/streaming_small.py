"""Small streaming and needle results made by hand, in the form of the engine's: their numbers follow from a few given ones."""

from __future__ import annotations

from math import exp, log

from engine.experiments.needle_scenario import NeedleScenario
from engine.experiments.streaming_scenario import StreamingScenario
from engine.formulas.intervals import against, wilson

TOKENS, WINDOW, BIN = 400, 100, 20
# Perplexities behind the first eviction; before it every policy is as good as dense.
AFTER = {"dense": 5.0, "window": 15.0, "sinks-1": 5.6, "sinks-4": 5.2, "h2o": 5.1}
SAMPLED = list(range(110, 399, 50))


def manifest(scenario) -> dict:
    return {
        "scenario": scenario.as_dict(),
        "model": {"name": "tiny", "title": "Tiny", "quantization": "none"},
        "device": {"name": "A machine", "cores": 2, "memory_bytes": 16 * 10**9, "class": "cpu"},
        "dtype": "float32",
        "threads": 2,
        "started_at": "2026-11-30T01:00:00Z",
    }


def bins(perplexity: float) -> list[list[float]]:
    """[[from, to, loss], ...], the same as dense up to the first eviction."""
    return [[at, at + BIN, round(log(perplexity if at >= WINDOW else AFTER["dense"]), 5)] for at in range(0, TOKENS - BIN, BIN)]


def cost(ms: float, per_token: float, held: int | None = None) -> dict:
    """Around the first eviction and at the end, as the engine measures it."""
    at = [*range(WINDOW - 20, WINDOW + 41, 10), *range(TOKENS - 30, TOKENS, 10)]
    kv = [[n, 1000 * (n if held is None else min(n, held))] for n in at]
    return {"ms_per_token": [[n, ms + per_token * n] for n in at], "kv_bytes": kv, "rss_bytes": [[n, 10**9] for n in at]}


def streaming(after: dict | None = None, recompute: bool = True, **changes: object) -> dict:
    """after: perplexities by curve; changes replace whole entries."""
    after = AFTER if after is None else after
    curves = {
        name: {"policy": {"kind": name}, "bins": bins(value), "perplexity_after": value, "sampled": None, "perplexity_at_sampled": value, "seconds": 1.0}
        for name, value in after.items()
    }
    if recompute:
        spots = [[n - 25, n + 25, 1.6] for n in SAMPLED]
        sampled = {"every": 50, "points": len(SAMPLED)}
        curves["recompute"] = {"policy": {"kind": "recompute"}, "bins": spots, "perplexity_after": exp(1.6), "sampled": sampled, "perplexity_at_sampled": exp(1.6), "seconds": 1.0}
    costs = {"dense": cost(40.0, 0.05), "sinks-4": cost(35.0, 0.0, WINDOW)}
    if recompute:
        costs["recompute"] = {"ms_per_token": [[111, 400.0], [361, 400.0]], "kv_bytes": [[111, 10**5], [361, 10**5]], "rss_bytes": []}
    counts = {name: 0 if name == "window" else int(name[6:]) for name in after if name == "window" or name.startswith("sinks-")}
    return {
        "format": 1,
        "kind": "streaming",
        "run_id": "Hand_made_streaming_run",
        "provenance": "measured",
        "manifest": manifest(StreamingScenario(tokens=TOKENS, window=WINDOW)),
        "tokens": TOKENS,
        "window": WINDOW,
        "first_eviction": WINDOW,
        "curves": curves,
        "table": [{"sinks": n, "perplexity_after": after[name]} for name, n in counts.items()],
        "dense": after["dense"],
        "sampled_at": SAMPLED if recompute else [],
        "cost": costs,
        "agreement": {"name": "sinks-4", "tokens": 90, "largest_difference": 0.0004, "mean_difference": 0.00002},
        "disturbance": {"disturbed": False},
        **changes,
    }


def cell(policy: str, right: int, trials: int = 64, *, in_window: bool = False, guess: float = 1 / 15) -> dict:
    found = wilson(right, trials) if trials else (0.0, 1.0)
    return {
        "policy": policy,
        "in_sinks": False,
        "in_window": in_window,
        "trials": trials,
        "right": right,
        "rate": right / trials if trials else None,
        "interval": list(found),
        "margin_mean": 0.5 if trials else None,
        "against_guess": against(guess, found),
    }


CELLS = [cell("dense", 48), cell("sinks", 4), cell("window", 3), cell("snapkv", 40), cell("h2o", 6), cell("sinks", 50, in_window=True)]


def needle(cells: list[dict] | None = None, **changes: object) -> dict:
    """The last of the usual cells is the control."""
    return {
        "format": 1,
        "kind": "needle",
        "run_id": "Hand_made_needle_run",
        "provenance": "measured",
        "manifest": manifest(NeedleScenario(trials=64, length=512, window=128)),
        "guess": 1 / 15,
        "choices": [f"word{n}" for n in range(15)],
        "window": 128,
        "sinks": 4,
        "length": 512,
        "texts": 16,
        "needles": 4,
        "cells": CELLS if cells is None else cells,
        "excluded": 0,
        "example": {
            "text": "… and it came to pass. The secret word of the harbor is lion. <b>And</b> so it was …",
            "needle": "The secret word of the harbor is lion.",
            "question": "Question: What is the secret word of the harbor?\nAnswer: The secret word of the harbor is",
            "answers": ["lion", "dog", "<script>alert(1)</script>"],
            "right": "lion",
            "position": 51,
            "length": 512,
        },
        "disturbance": {"disturbed": False},
        **changes,
    }
