"""The claim on quantising a cache before it travels: A10. What was measured of it is in measured_transfer.py."""

from __future__ import annotations

from engine import profiles
from engine.claims import measured_transfer
from engine.claims.claim import Claim, Input, Line
from engine.claims.inputs import TOKENS_A, bf16, bytes_per_s, chosen, head_dim, kv_shape, of_link, tokens
from engine.claims.memory import KV
from engine.formulas.kv import INT4_GROUP_TOKENS
from engine.formulas.transfer import transfer_s
from engine.profiles import DeviceProfile, LinkProfile, ModelProfile

LESSONS = ("transfer",)
TRANSFER = "transfer"
FP8_BYTES = 1
# A scale and a zero of 16 bits each.
SCALE_BYTES = 4
HALF = (0.5,)
# Bits of keys, their scales per channel and group, bits of values, their scales per token; over keys and values in 16 bits.
INT4 = "({d_head} ÷ 2 + {d_head} × {b_scale} ÷ {g} + {d_head} ÷ 2 + {b_scale}) ÷ (2 × {d_head} × {b})"
# Both sides read one format and write the other at the speed of memory. The bytes of the cache cancel out.
TIME = "{b_sent} ÷ {b} + 2 × ({b} + {b_sent}) ÷ {b} × {W_link} ÷ {W}"


def a10() -> Claim:
    """FP8 halves the bytes, and so the time: the bytes yes; the time as far as the link is slow beside memory."""
    model, gpu = profiles.model("llama-3-8b"), profiles.device("h100-sxm")
    whole, half = model.kv_bytes(TOKENS_A, "bf16").total, model.kv_bytes(TOKENS_A, "fp8").total
    links = [profiles.link(name) for name in ("ethernet-10", "infiniband-ndr", "nvlink-4")]
    lines = (
        Line("bytes", "{b_sent} ÷ {b}", (_sent(), bf16()), half / whole, "x", HALF),
        Line("int4", INT4, (head_dim(model), *_scales(), bf16()), model.kv_bytes(TOKENS_A, "int4").total / whole, "x"),
        Line("over", f"{KV} ÷ {{W_link}}", (*kv_shape(model), tokens("A", TOKENS_A), of_link(links[1])), transfer_s(whole, links[1].bytes_per_s), "s"),
        *(_time(name, model, gpu, link) for name, link in zip(("ethernet", "infiniband", "nvlink"), links, strict=True)),
    )
    return Claim("A10", LESSONS, "incomplete", lines, {TRANSFER: measured_transfer.bytes_time_quality})


def _time(name: str, model: ModelProfile, gpu: DeviceProfile, link: LinkProfile) -> Line:
    """All three stages in fp8 over the way alone in 16 bits."""
    whole, half = (model.kv_bytes(TOKENS_A, dtype).total for dtype in ("bf16", "fp8"))
    seconds = transfer_s(half, link.bytes_per_s) + 2 * (whole + half) / gpu.memory_bytes_per_s
    value = seconds / transfer_s(whole, link.bytes_per_s)
    return Line(name, TIME, (_sent(), bf16(), of_link(link), bytes_per_s(gpu)), value, "x", HALF)


def _sent() -> Input:
    return chosen("fp8", "b_sent", FP8_BYTES, "B")


def _scales() -> tuple[Input, ...]:
    return chosen("scale_and_zero", "b_scale", SCALE_BYTES, "B"), chosen("group", "g", INT4_GROUP_TOKENS, "tokens")


CLAIMS = (a10,)
