"""Claims on what limits prefill and decode: A5, A17. What was measured of them is in measured.py."""

from __future__ import annotations

from engine import profiles
from engine.claims import measured
from engine.claims.claim import Claim, Input, Line
from engine.claims.inputs import (
    BF16_BYTES,
    RESERVE,
    TOKENS_A,
    bf16,
    bytes_per_s,
    capacity_bytes,
    chosen,
    flops_per_s,
    heads,
    kv_heads,
    kv_shape,
    of_model,
    parameters,
    reserve,
    tokens,
)
from engine.claims.memory import FITTING, KV
from engine.formulas.memory import decode_tokens_per_s, requests_that_fit, room_bytes
from engine.formulas.roofline import compute_bound_batch, decode_attention_intensity, ridge
from engine.profiles import DeviceProfile, ModelProfile

CROSSING = "⌈{F} ÷ {W} × {b} ÷ 2⌉"
SPEED = "{B} × {W} ÷ ({b} × {P} + {B} × " + KV + ")"
SHORT, SHORTER = 4_096, 1_024


def a5() -> Claim:
    """Where prefill and decode cross from one limit to the other."""
    gqa, mha, mla = (profiles.model(name) for name in ("llama-3-8b", "llama-2-7b", "deepseek-v3"))
    large, older = profiles.device("h100-sxm"), profiles.device("a100-80gb-sxm")
    latent = mla.groups[0]
    of_latent = (
        heads(mla),
        of_model(mla, "R", latent.rank, "layers"),
        of_model(mla, "R_rope", latent.rope_dim, "layers"),
        bf16(),
    )
    absorbed = "2 × {n_heads} × (2 × {R} + {R_rope}) ÷ (({R} + {R_rope}) × {b})"
    lines = (
        Line("ridge", "{F} ÷ {W}", (flops_per_s(large), bytes_per_s(large)), _ridge(large), "FLOP/B"),
        _crossing("batch", large, "sequences"),
        _crossing("prompt", large, "tokens"),
        _crossing("prompt_older", older, "tokens"),
        _attention("attention_mha", mha),
        _attention("attention_gqa", gqa),
        Line("attention_mla", absorbed, of_latent, decode_attention_intensity(latent, mla.heads, BF16_BYTES), "FLOP/B"),
    )
    return Claim("A5", ("roofline",), "depends", lines, {"roofline": measured.rates_of_rows})


def a17() -> Claim:
    """Capacity limits the batch, bandwidth the speed: at which batches, for three lengths of context."""
    model, device = profiles.model("llama-3-8b"), profiles.device("h100-sxm")
    long = tokens("A", TOKENS_A)
    short, shorter = (chosen("context", "L", count, "tokens") for count in (SHORT, SHORTER))
    lines = (
        _crossing("arithmetic", device, "sequences"),
        *_limits("long", model, device, long),
        *_limits("short", model, device, short),
        *_limits("shorter", model, device, shorter),
    )
    return Claim("A17", ("memory", "roofline"), "depends", lines, {"wall": measured.batch_of_pools})


CLAIMS = (a5, a17)


def _ridge(device: DeviceProfile) -> float:
    return ridge(device.bf16_flops_per_s, device.memory_bytes_per_s)


def _crossing(name: str, device: DeviceProfile, unit: str) -> Line:
    """Rows in a step, sequences of a decode or tokens of a prompt, from which the matrices are limited by arithmetic."""
    given = (flops_per_s(device), bytes_per_s(device), bf16())
    return Line(name, CROSSING, given, compute_bound_batch(_ridge(device), BF16_BYTES), unit)


def _attention(name: str, model: ModelProfile) -> Line:
    value = decode_attention_intensity(model.groups[0], model.heads, BF16_BYTES)
    return Line(name, "2 × {n_heads} ÷ ({n_kv} × {b})", (heads(model), kv_heads(model), bf16()), value, "FLOP/B")


def _limits(name: str, model: ModelProfile, device: DeviceProfile, length: Input) -> tuple[Line, ...]:
    """How many fit, and the speed of one and of all that fit."""
    kv, weights = model.kv_bytes(int(length.value)).total, model.weight_bytes(BF16_BYTES)
    fit = requests_that_fit(room_bytes(device.capacity_bytes, weights, RESERVE), kv)
    shape = (*kv_shape(model), length, parameters(model))
    in_memory = (*shape, capacity_bytes(device), chosen("cards", "G", 1), reserve(RESERVE))

    def speed(which: str, batch: int) -> Line:
        given = (*shape, bytes_per_s(device), chosen("one" if which == "one" else "as_fit", "B", batch))
        value = decode_tokens_per_s(batch, weights, kv, device.memory_bytes_per_s)
        return Line(f"{name}_{which}", SPEED, given, value, "tokens/s")

    return Line(f"{name}_fit", FITTING, in_memory, fit, "sequences"), speed("one", 1), speed("all", fit)
