"""A small roofline result made by hand, with numbers a reader can check in the head.

The machine computes 100 GFLOP/s in float32 (200 in bfloat16) and reads 10 GB/s: the two meet at 10 FLOP/B. The model is
real in its shape only; a point's seconds are its time at the roof, times 2 for attention and 1.25 for the matrices.
"""

from __future__ import annotations

from engine.formulas.roofline import Shape, step_cost

PEAK, MEMORY = 100e9, 10e9
RIDGE = 10.0
SHAPE = {
    "layers": 2, "hidden_size": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn_size": 128, "vocab_size": 256, "bytes_per_value": 4,
}  # fmt: skip
PREFILLS = (8, 64, 512)
BATCHES = (1, 4, 16)
CONTEXTS = (64, 1024)


def result(prefills=PREFILLS, batches=BATCHES, contexts=CONTEXTS, **changes: object) -> dict:
    """A result with these steps; changes replace whole entries of it."""
    steps = [(f"prefill-{n}", "prefill", 1, n, 0) for n in prefills]
    steps += [(f"decode-{b}x{c}", "decode", b, 1, c) for c in contexts for b in batches]
    return {
        "format": 1,
        "kind": "roofline",
        "run_id": "Hand_made_roofline_run",
        "provenance": "measured",
        "manifest": {
            "scenario": {
                "prefill_tokens": list(prefills), "decode_batches": list(batches), "decode_contexts": list(contexts),
                "model": "smollm2-135m-instruct", "device": "auto", "dtype": "auto", "threads": 0, "kv_bytes": 1 << 28,
                "repeats": 3, "seed": 0,
            },
            "model": {"name": "tiny", "title": "Tiny", "quantization": "none"},
            "device": {"name": "A machine", "cores": 2, "memory_bytes": 16 * 10**9, "class": "cpu"},
            "dtype": "float32",
            "threads": 2,
            "started_at": "2026-11-30T01:00:00Z",
        },
        "shape": dict(SHAPE),
        "calibration": {
            "matmul": {
                "float32": [{"n": 256, "flops_per_s": 60e9}, {"n": 1024, "flops_per_s": PEAK}],
                "bfloat16": [{"n": 256, "flops_per_s": 200e9}],
            },
            "read_bytes_per_s": MEMORY,
            "call_overhead_s": 2e-6,
            "copy_bytes_per_s": 2e9,
        },
        "points": [point for step in steps for point in _points(*step)],
        "skipped": [],
        "disturbance": {"disturbed": False},
        **changes,
    }  # fmt: skip


def _points(name: str, phase: str, batch: int, new: int, context: int) -> list[dict]:
    cost = step_cost(Shape(**SHAPE), [(context, new, True)] * batch)
    seconds = {"linear": 1.25 * _at_the_roof(*cost["linear"]), "attention": 2 * _at_the_roof(*cost["attention"])}
    whole = {"all": tuple(map(sum, zip(*cost.values())))}
    seconds["all"] = (seconds["linear"] + seconds["attention"]) * 1.5
    found = []
    for part, (flops, moved) in (whole | cost).items():
        s = seconds[part]
        found.append(
            {
                "id": f"{name}-{part}", "phase": phase, "part": part, "tokens": batch * new, "batch": batch, "context": context,
                "seconds": s, "spread": [s * 0.9, s * 1.2], "flops": flops, "bytes": moved, "intensity": flops / moved,
                "flops_per_s": flops / s, "share_of_roof": flops / s / min(PEAK, flops / moved * MEMORY),
            }
        )  # fmt: skip
    return found


def _at_the_roof(flops: int, moved: int) -> float:
    return max(flops / PEAK, moved / MEMORY)
