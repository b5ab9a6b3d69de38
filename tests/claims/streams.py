"""Streaming and needle results made by hand, with numbers a reader can check in the head."""


def streaming(
    perplexities: dict[str, float] | None = None, *, ms: tuple[float, ...] = (40.0,) * 8, held: tuple[int, ...] = (1_000_000,) * 8
) -> dict:
    """A cache of 100 slots; costs every 50 tokens from 50 on: 10,000 B a token where nothing is evicted.

    ms and held: of four sinks and the window, at 50, 100, ... tokens; the first eviction comes at 100.
    """
    perplexities = perplexities or {"dense": 10.0, "window": 20.0, "sinks-4": 11.0, "recompute": 11.5}
    tokens = [50 * (n + 1) for n in range(len(ms))]
    return {
        "kind": "streaming",
        "first_eviction": 100,
        "curves": {
            name: {"policy": {}, "bins": [], "perplexity_after": value, "sampled": None} for name, value in perplexities.items()
        },
        "table": [],
        "cost": {
            "dense": {"ms_per_token": [[t, 40.0 + t / 10] for t in tokens], "kv_bytes": [[t, 10_000 * t] for t in tokens]},
            "sinks-4": {
                "ms_per_token": [list(pair) for pair in zip(tokens, ms, strict=True)],
                "kv_bytes": [list(pair) for pair in zip(tokens, held, strict=True)],
            },
        },
    }


def needle(
    dense: tuple[int, tuple[float, float]] = (30, (0.60, 0.86)), sinks: tuple[int, tuple[float, float]] = (10, (0.14, 0.40))
) -> dict:
    """Forty trials of a value among four; (right, interval) with everything kept and with sinks and window, once the window
    has passed the value, and beside it a value that still lies in the window."""

    def cell(policy: str, right: int, interval: tuple[float, float], **where: bool) -> dict:
        return {
            "policy": policy, "trials": 40, "right": right, "rate": right / 40, "interval": list(interval), "margin_mean": 0.0,
            "in_sinks": False, "in_window": False, **where,
        }  # fmt: skip

    cells = [
        cell("dense", 39, (0.87, 1.0), in_window=True),
        cell("sinks", 38, (0.84, 0.99), in_window=True),
        cell("sinks", 40, (0.91, 1.0), in_sinks=True),
        cell("window", 11, (0.16, 0.43)),
        cell("dense", *dense),
        cell("sinks", *sinks),
    ]
    return {"kind": "needle", "guess": 0.25, "cells": cells}
