"""A small attention result made by hand: its heads attend by a rule, so that every number of the page can be checked.

Head (layer, head) gives token 0 a part of its attention and spreads the rest evenly over all it can see. The part is SINK from
layer ONSET on and nothing before, a little more with each head. Reduced to bins as the experiment does it.
"""

from __future__ import annotations

import base64

LAYERS, HEADS, ONSET, SINK = 6, 3, 2, 0.4
TOKENS = ["In", " the", " beginning", "\n", "한", "\ufffd", " \u202eabc", "👩‍👩‍👧", " of", "."]


def part(layer: int, head: int, onset: int | None = ONSET) -> float:
    """What token 0 gets beside its even share."""
    return min(0.9, SINK + 0.1 * head) if onset is not None and layer >= onset else 0.0


def row(layer: int, head: int, query: int, onset: int | None = ONSET) -> list[float]:
    """The attention of one query: sums to 1."""
    sink = part(layer, head, onset)
    return [(1 - sink) / (query + 1) + (sink if key == 0 else 0.0) for key in range(query + 1)]


def result(tokens: int = 40, size: int = 64, layers: int = LAYERS, heads: int = HEADS, onset: int | None = ONSET, **changes: object) -> dict:
    """A result of so many tokens, its maps of at most ``size`` bins; changes replace whole entries."""
    n = min(size, tokens)
    edges = [i * tokens // n for i in range(n + 1)]
    begin = tokens // 10
    queries = range(begin, tokens)
    maps = {(layer, head): [row(layer, head, q, onset) + [0.0] * (tokens - q - 1) for q in range(tokens)] for layer in range(layers) for head in range(heads)}

    def mean(layer: int, head: int, keys: int) -> float:
        return sum(sum(maps[layer, head][q][:keys]) for q in queries) / len(queries)

    def even(keys: int) -> float:
        return sum(min(keys, q + 1) / (q + 1) for q in queries) / len(queries)

    def profile(layer: int, head: int) -> list[float]:
        return [sum(maps[layer, head][q][k] for q in queries) / len(queries) for k in range(tokens)]

    data = bytearray()
    for found in maps.values():
        for i in range(n):
            group = found[edges[i] : edges[i + 1]]
            for j in range(n):
                share = sum(sum(q[edges[j] : edges[j + 1]]) for q in group) / len(group)
                data.append(round(255 * min(1.0, share) ** 0.5))
    profiles = [[profile(layer, head) for head in range(heads)] for layer in range(layers)]
    first = [[mean(layer, head, 1) for head in range(heads)] for layer in range(layers)]
    layer_first = [sum(found) / heads for found in first]
    first_k = [[mean(layer, head, 4) for head in range(heads)] for layer in range(layers)]
    return {
        "format": 1,
        "kind": "attention",
        "run_id": "Hand_made_attention_run",
        "provenance": "measured",
        "manifest": {
            "scenario": {
                "text": "kjv", "tokens": tokens, "offset": 0, "first_k": 4, "model": "smollm2-135m-instruct",
                "device": "auto", "dtype": "auto", "threads": 0, "seed": 0,
            },
            "model": {"name": "tiny", "title": "Tiny", "quantization": "none"},
            "device": {"name": "A machine", "cores": 2, "memory_bytes": 16 * 10**9, "class": "cpu"},
            "dtype": "float32",
            "threads": 2,
            "started_at": "2026-11-30T01:00:00Z",
        },
        "tokens": [TOKENS[i % len(TOKENS)] for i in range(tokens)],
        "layers": layers,
        "heads": heads,
        "overview": {"first": first, "first_k": first_k, "uniform": even(1), "uniform_k": even(4), "queries_from": begin},
        "maps": {
            "reduction": None if n == tokens else "mean over queries, sum over keys",
            "size": n,
            "edges": edges,
            "scale": "sqrt",
            "data": base64.b64encode(bytes(data)).decode(),
        },
        "profile": {"by_head": profiles, "by_layer": [[sum(v) / heads for v in zip(*found)] for found in profiles]},
        "starts": [
            {"name": name, "first": factor * sum(layer_first) / layers, "first_k": 0.4, "by_layer": [factor * v for v in layer_first], "labels": labels}
            for name, factor, labels in (
                ("as_is", 1.0, ["In", " the"]),
                ("special", 0.9, ["<|im_start|>", "In"]),
                ("newline", 0.8, ["\n", " the"]),
                ("word", 0.9, [" Dog", " the"]),
                ("newlines4", 0.3, ["\n", "\n", "\n", "\n"]),
            )
        ],
        "seconds": {"forward": 0.5},
        "disturbance": {"disturbed": False},
        **changes,
    }  # fmt: skip
