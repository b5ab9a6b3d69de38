"""A small transfer result made by hand, in the form of the engine's: its numbers follow from a few given ones."""

from __future__ import annotations

from engine.experiments.transfer_scenario import TransferScenario
from engine.formulas.kv import Attention, kv_bytes
from tests.pages.streaming_small import manifest

EXACT = " thee, I have not eaten of her."
# Seconds of both sides' work by format, per 100 tokens; a copy makes 1 GB/s.
WORK = {"fp32": (0.002, 0.002), "bf16": (0.005, 0.005), "fp8": (0.020, 0.080), "int8": (0.020, 0.020), "int4": (0.040, 0.060)}
KL = {"fp32": 0.0, "bf16": 1.2e-5, "fp8": 0.004, "int8": 0.0002, "int4": 0.012}
PERPLEXITY = {"fp32": 7.0, "bf16": 7.0, "fp8": 7.04, "int8": 6.99, "int4": 7.14}
TEXTS = {"int4": " thee, I have done it."}
COPIES = 1e9
SHAPE = Attention(30, 3, 64, 64)


def row(tokens: int, dtype: str, *, work: dict | None = None, kl: dict | None = None, perplexity: dict | None = None) -> dict:
    size = kv_bytes([SHAPE], tokens, dtype)
    quantise, dequantise = (work or {}).get(dtype) or WORK[dtype]
    text = TEXTS.get(dtype, EXACT)
    return {
        "tokens": tokens,
        "format": dtype,
        "bytes": {"payload": size.payload, "scales": size.scales, "total": size.total},
        "quantise_s": quantise * tokens / 100,
        "move_s": size.total / COPIES,
        "dequantise_s": dequantise * tokens / 100,
        "checksum_s": size.total / 2e9,
        "kl": {**KL, **(kl or {})}[dtype],
        "perplexity": {**PERPLEXITY, **(perplexity or {})}[dtype],
        "exact_perplexity": 7.0,
        "continuation": text,
        "same_tokens": 8 if text == EXACT else 5,
    }


def overlap(transfer: float = 6.0, prefill: float = 6.0, layerwise: float = 7.2, layerwise_prefill: float = 6.0) -> dict:
    """Six parts of five layers each."""
    ready = [layerwise_prefill * (n + 1) / 6 for n in range(6)]
    parts = [
        {"layers": [5 * n, 5 * n + 5], "published": [at - 0.01, at], "moved": [at, at + transfer / 6]} for n, at in enumerate(ready)
    ]
    return {
        "tokens": 200,
        "format": "fp32",
        "link": {"name": "emulated", "asked_bytes_per_s": 1_536_000, "measured_bytes_per_s": 1_530_000},
        "prefill_s": prefill,
        "transfer_s": transfer,
        "whole_s": prefill + transfer,
        "layerwise_s": layerwise,
        "layerwise_prefill_s": layerwise_prefill,
        "hidden_share": (prefill + transfer - layerwise) / transfer,
        "parts": parts,
    }


def transfer(formats: tuple[str, ...] = tuple(WORK), lengths: tuple[int, ...] = (100, 200), **changes: object) -> dict:
    """changes: of the rows work, kl, perplexity; of the result anything else."""
    of_rows = {name: changes.pop(name) for name in ("work", "kl", "perplexity") if name in changes}
    by = {str(n): {"prefill_s": n / 40, "perplexity": 7.0, "continuation": EXACT} for n in lengths}
    return {
        "format": 1,
        "kind": "transfer",
        "run_id": "transfer-small",
        "provenance": "measured",
        "manifest": manifest(TransferScenario(lengths=lengths, formats=formats)),
        "rows": [row(n, dtype, **of_rows) for n in lengths for dtype in formats],
        "exact": {"continuation": EXACT, "by_tokens": by},
        "link": {"name": "memory", "bytes_per_s": 1.1e9, "asked_bytes_per_s": None, "measured_bytes_per_s": COPIES},
        "overlap": overlap(),
        "disturbance": {"disturbed": False, "waited_share": 0.0, "others_cpu_share": 0.0},
        **changes,
    }
