"""A small attention result made by hand: its heads attend by a rule, so that every number of the page can be checked.

Head (layer, head) gives token 0 a part of its attention and spreads the rest evenly over all it can see. The part is SINK from
layer ONSET on and nothing before, a little more with each head.
"""

from __future__ import annotations

import base64

import numpy as np

from engine.experiments.attention_scenario import AttentionScenario
from engine.formulas import attention as formulas

LAYERS, HEADS, ONSET, SINK = 6, 3, 2, 0.4
TOKENS = ["In", "␣the", "␣beginning", "⏎", "한 (1/2)", "한 (2/2)", "U+202Eabc", "👩‍👩‍👧", "שלום", "."]


def part(layer: int, head: int, onset: int | None = ONSET) -> float:
    """What token 0 gets beside its even share."""
    return min(0.9, SINK + 0.1 * head) if onset is not None and layer >= onset else 0.0


def row(layer: int, head: int, query: int, onset: int | None = ONSET) -> list[float]:
    """The attention of one query: sums to 1."""
    sink = part(layer, head, onset)
    return [(1 - sink) / (query + 1) + (sink if key == 0 else 0.0) for key in range(query + 1)]


def maps(tokens: int, layers: int, heads: int, onset: int | None) -> np.ndarray:
    """[layers, heads, tokens, tokens]"""
    found = np.zeros((layers, heads, tokens, tokens))
    for layer in range(layers):
        for head in range(heads):
            for query in range(tokens):
                found[layer, head, query, : query + 1] = row(layer, head, query, onset)
    return found


def result(tokens: int = 40, width: int = 1, layers: int = LAYERS, heads: int = HEADS, onset: int | None = ONSET, **changes: object) -> dict:
    """A result of so many tokens, so many to each bin of its maps; changes replace whole entries."""
    edges = formulas.bin_edges(tokens, width)
    begin = formulas.first_query(tokens)
    p = maps(tokens, layers, heads, onset)
    of_keys = np.array([formulas.received(layer, begin) for layer in p])
    first, first_k = of_keys[:, :, 0], of_keys[:, :, :4].sum(axis=2)
    by_layer = first.mean(axis=1)
    return {
        "format": 1,
        "kind": "attention",
        "run_id": "Hand_made_attention_run",
        "provenance": "measured",
        "manifest": {
            "scenario": AttentionScenario(tokens=max(2, tokens)).as_dict(),
            "model": {"name": "tiny", "title": "Tiny", "quantization": "none"},
            "device": {"name": "A machine", "cores": 2, "memory_bytes": 16 * 10**9, "class": "cpu"},
            "dtype": "float32",
            "threads": 2,
            "started_at": "2026-11-30T01:00:00Z",
        },
        "tokens": [TOKENS[i % len(TOKENS)] for i in range(tokens)],
        "layers": layers,
        "heads": heads,
        "text": {"tokens": tokens, "asked": tokens, "offset": 0, "characters": 5 * tokens, "more": True},
        "overview": {
            "queries_from": begin,
            "first_k_tokens": 4,
            "first": first.tolist(),
            "first_k": first_k.tolist(),
            "uniform": formulas.even_share(tokens, begin, 1),
            "uniform_k": formulas.even_share(tokens, begin, 4),
        },
        "profile": {
            "by_layer": of_keys.mean(axis=1).tolist(),
            "by_head": base64.b64encode(formulas.as_bytes(of_keys)).decode(),
            "uniform": formulas.even(tokens, begin).tolist(),
            "scale": formulas.SCALE,
        },
        "maps": {
            "reduction": None if width == 1 else formulas.REDUCTION,
            "size": len(edges) - 1,
            "edges": edges,
            "scale": formulas.SCALE,
            "data": base64.b64encode(b"".join(formulas.packed(formulas.reduced(layer, edges)) for layer in p)).decode(),
        },
        "exact": {
            "layer": layers - 1,
            "head": heads - 1,
            "size": tokens,
            "scale": formulas.SCALE,
            "data": base64.b64encode(formulas.packed(p[-1][-1:])).decode(),
        },
        "starts": [
            {
                "name": name,
                "first": factor * float(by_layer.mean()),
                "first_k": 0.4,
                "by_layer": (factor * by_layer).tolist(),
                "by_layer_k": [0.4] * layers,
                "by_position": [0.1] * 8,
                "labels": labels,
            }
            for name, factor, labels in (
                ("as_is", 1.0, ["In", "␣the"]),
                ("special", 0.9, ["<|im_start|>", "In"]),
                ("newline", 0.8, ["⏎", "␣the"]),
                ("word", 0.9, ["␣Dog", "␣the"]),
                ("newlines4", 0.3, ["⏎", "⏎", "⏎", "⏎"]),
            )
        ],
        "starts_on": {"tokens": tokens, "queries_from": begin, "uniform": formulas.even_share(tokens, begin, 1), "uniform_k": 0.1},
        "seconds": {"starting": 1.0, "loading": 1.0, "computing": 0.5},
        "disturbance": {"disturbed": False},
        **changes,
    }
