"""Answers to the quiz of the roofline lesson. How these functions are found and called: answers.py."""

from __future__ import annotations

from engine import profiles
from engine.formulas.roofline import Shape, compute_bound_batch, decode_attention_intensity, intensity, ridge, step_cost

BYTES = 2  # of a number in 16 bits
# A factor that cannot be overlooked on axes that go over powers of ten.
CLEARLY = 1.5

# ---------------------------------------------------------------- where the matrices of a decode step cross


def crossing_batch(device: str) -> int:
    """Requests in a decode step from which arithmetic limits the matrices: 16-bit weights, each used twice per request."""
    found = profiles.device(device)
    return compute_bound_batch(ridge(found.bf16_flops_per_s, found.memory_bytes_per_s), BYTES)


def crossing_batch_bytes_ignored(device: str) -> float:
    """As if a weight were one byte: operations per weight in place of operations per byte."""
    return crossing_batch(device) / BYTES


def crossing_batch_one_operation(device: str) -> float:
    """As if multiplying and adding were one operation."""
    return crossing_batch(device) * 2


# ---------------------------------------------------------------- attention of a decode step, 16 bits


def attention_flop_per_byte(model: str) -> float:
    """Of a model with heads that share keys and values; the batch does not occur in it."""
    found = profiles.model(model)
    return decode_attention_intensity(found.groups[0], found.heads, BYTES)


def attention_flop_per_byte_times_batch(model: str, batch: int) -> float:
    """As if all requests read the same cache."""
    return attention_flop_per_byte(model) * batch


def attention_flop_per_byte_alone() -> float:
    """As if each query head read a key and a value of its own: two operations for two bytes."""
    return 2 / BYTES


def attention_flop_per_byte_bytes_ignored(model: str) -> float:
    """Operations of each number that is read."""
    return attention_flop_per_byte(model) * BYTES


# ---------------------------------------------------------------- the least intensity first

CONTEXT, MANY, PROMPT = 4096, 64, 2048


def least_intensity_first() -> tuple[str, ...]:
    """Pieces of steps of Llama 3.1 8B, and the attention of DeepSeek-V3's decode, in 16 bits."""
    model, latent = profiles.model("llama-3.1-8b"), profiles.model("deepseek-v3")
    shape = Shape(model.layers, model.hidden_size, model.heads, model.kv_heads, model.head_dim, model.ffn_size, model.vocab_size, BYTES)
    found = {
        "decode-one": intensity(step_cost(shape, [(CONTEXT, 1, True)])["linear"]),
        "attention-gqa": attention_flop_per_byte(model.name),
        "decode-many": intensity(step_cost(shape, [(CONTEXT, 1, True)] * MANY)["linear"]),
        "attention-mla": decode_attention_intensity(latent.groups[0], latent.heads, BYTES),
        "prefill": intensity(step_cost(shape, [(0, PROMPT, True)])["linear"]),
    }
    return tuple(sorted(found, key=found.__getitem__))


# ---------------------------------------------------------------- read from a measured roofline


def attention_with_batch(result: dict) -> str | None:
    """Where decode's attention goes from the smallest batch to the largest, at the shortest context that has several: "right"
    (more operations of each byte), "up" (more operations per second of the same intensity), "both" or "stays"."""
    found = [p for p in result["points"] if p["phase"] == "decode" and p["part"] == "attention"]
    shortest = min(p["context"] for p in found)
    line = sorted((p for p in found if p["context"] == shortest), key=lambda p: p["batch"])
    if len(line) < 2:
        return None
    right, up = (line[-1][name] / line[0][name] > CLEARLY for name in ("intensity", "flops_per_s"))
    return "both" if right and up else "right" if right else "up" if up else "stays"
