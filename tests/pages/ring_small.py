"""Small ring results made by hand, in the form of the engine's: their bytes follow from the formulas, their times are given."""

from __future__ import annotations

from engine.experiments.ring_scenario import RingScenario
from engine.formulas import ring as formulas

LAYERS, SHAPE = 2, formulas.AttentionShape(heads=9, kv_heads=3, head_dim=64, bytes_per_value=4)
TRANSFER_S, PAIRS_PER_S, REST_S = 0.002, 1e6, 0.01


def ring(ranks: int = 2, tokens: int = 256, *, transfer_s: float = TRANSFER_S, alone_s: float = 0.2, **changes: object) -> dict:
    """Both layouts: a transfer takes transfer_s, a block as long as its pairs need, and a rank waits for what has not come."""
    layouts = {layout: _layout(ranks, tokens, layout, transfer_s) for layout in formulas.LAYOUTS}
    scenario = RingScenario(tokens=tokens, ranks=ranks)
    found = {
        "format": 1,
        "kind": "ring",
        "run_id": "r" * 22,
        "provenance": "recorded",
        "manifest": {
            "scenario": scenario.as_dict(),
            "model": {"name": scenario.model, "title": "SmolLM2 135M Instruct", "quantization": "none"},
            "device": {"name": "A machine", "cores": 2, "memory_bytes": 16 * 10**9, "class": "cpu"},
            "dtype": "float32",
            "threads": 2,
            "started_at": "2026-11-30T01:00:00Z",
        },
        "tokens": tokens,
        "ranks": ranks,
        "backend": "gloo",
        "threads_each": 1,
        "shape": {"layers": LAYERS, **vars(SHAPE)},
        "layouts": layouts,
        "alone": {
            "seconds": alone_s,
            "attention_s": alone_s / 2,
            "threads": 2,
            "kv_bytes": formulas.kv_bytes(tokens, LAYERS, SHAPE),
            "activation_bytes": formulas.alone_activation_bytes(tokens, SHAPE),
            "rss_peak_bytes": 600 * 10**6,
        },
        "agreement": {"rows": 64, "largest_difference": 6.5e-5, "last_token": 4e-5, "by_layout": {"zigzag": 6.5e-5, "contiguous": 5e-5}, "std": 4.0},
        "processes_at_most_cores": True,
        "disturbance": {"disturbed": False},
    }
    return found | changes


def _layout(ranks: int, tokens: int, layout: str, transfer_s: float) -> dict:
    parts, work = formulas.pieces(tokens, ranks, layout), formulas.pairs(tokens, ranks, layout)
    counts = [formulas.held(part) for part in parts]
    told = []
    for rank in range(ranks):
        rounds, now, attention, waited = [], 0.0, 0.0, 0.0
        for layer in range(LAYERS):
            now += REST_S
            for number in range(ranks):
                end = now + work[rank][number] / PAIRS_PER_S
                arrived = now + transfer_s if number < ranks - 1 else None
                spans = {"compute": [now, end], "communication": [now, arrived] if arrived else None}
                rounds.append({"layer": layer, "round": number, "pairs": work[rank][number], **spans})
                attention += end - now
                waited += max(0.0, (arrived or end) - end)
                now = max(end, arrived or end)
        told.append(
            {
                "tokens": counts[rank],
                "pieces": [list(piece) for piece in parts[rank]],
                "begin_s": 0.0,
                "end_s": now,
                "kv_bytes": formulas.kv_bytes(counts[rank], LAYERS, SHAPE),
                "activation_bytes": formulas.activation_bytes(counts[rank], SHAPE),
                "buffer_bytes": formulas.buffer_bytes(counts, SHAPE),
                "sent_bytes": formulas.sent_bytes(counts, rank, LAYERS, SHAPE),
                "received_bytes": formulas.received_bytes(counts, rank, LAYERS, SHAPE),
                "rss_peak_bytes": 500 * 10**6,
                "attention_s": attention,
                "waited_s": waited,
                "busy_s": now - waited,
                "hidden_share": formulas.hidden_share(rounds),
                "rounds": rounds,
            }
        )
    return {"seconds": max(rank["end_s"] for rank in told), "balance": round(formulas.balance(work), 4), "ranks": told}
