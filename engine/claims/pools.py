"""The claim on which card a decode pool is to be built of: A9. What was measured of it is in measured_pools.py."""

from __future__ import annotations

from engine import profiles
from engine.claims import measured_pools
from engine.claims.claim import Claim, Input, Line
from engine.claims.inputs import BF16_BYTES, RESERVE, TOKENS_A, bytes_per_s, capacity_bytes, chosen, kv_shape, of_device, parameters, reserve, tokens
from engine.claims.memory import FITTING
from engine.claims.roofline import SPEED
from engine.formulas.memory import decode_tokens_per_s, requests_that_fit, room_bytes
from engine.profiles import DeviceProfile, ModelProfile

LESSONS = ("pools",)
POOLS = "pools"


def a9() -> Claim:
    """The L40S and the older A100 as decode cards: how wide, how large, what fits, and below which price the L40S is the cheaper."""
    model = profiles.model("llama-3-8b")
    small, older, new = (profiles.device(name) for name in ("l40s", "a100-80gb-sxm", "h100-sxm"))
    speeds = [_speed(name, model, device) for name, device in (("l40s", small), ("a100", older))]
    v, v_other = (chosen("ends", symbol, line.value, "tokens/s") for symbol, line in zip(("v", "v_other"), speeds, strict=True))
    lines = (
        _wide("wide_a100", small, older),
        _wide("wide_h100", small, new),
        _wide("wide_older", older, new),
        Line("room", "{M} ÷ {M_other}", (capacity_bytes(small), _other_capacity(older)), small.capacity_bytes / older.capacity_bytes, "share"),
        _fit("fit_l40s", model, small),
        _fit("fit_a100", model, older),
        *speeds,
        Line("even", "{v} ÷ {v_other}", (v, v_other), v.value / v_other.value, "share"),
    )
    return Claim("A9", LESSONS, "depends", lines, {POOLS: measured_pools.memory_of_pools})


CLAIMS = (a9,)


def _wide(name: str, device: DeviceProfile, other: DeviceProfile) -> Line:
    """The share of the other card's bandwidth: a card at more than that share of its price is the dearer per byte read."""
    given = (bytes_per_s(device), of_device(other, "W_other", other.memory_bytes_per_s, "memory_bytes_per_s", "B/s"))
    return Line(name, "{W} ÷ {W_other}", given, device.memory_bytes_per_s / other.memory_bytes_per_s, "share")


def _other_capacity(device: DeviceProfile) -> Input:
    return of_device(device, "M_other", device.capacity_bytes, "usable_bytes", "B")


def _batch(model: ModelProfile, device: DeviceProfile) -> int:
    room = room_bytes(device.capacity_bytes, model.weight_bytes(BF16_BYTES), RESERVE)
    return requests_that_fit(room, model.kv_bytes(TOKENS_A).total)


def _fit(name: str, model: ModelProfile, device: DeviceProfile) -> Line:
    given = (*kv_shape(model), tokens("A", TOKENS_A), parameters(model), capacity_bytes(device), chosen("cards", "G", 1), reserve(RESERVE))
    return Line(name, FITTING, given, _batch(model, device), "sequences")


def _speed(name: str, model: ModelProfile, device: DeviceProfile) -> Line:
    """All that fit, at the card's full bandwidth."""
    batch, kv = _batch(model, device), model.kv_bytes(TOKENS_A).total
    given = (*kv_shape(model), tokens("A", TOKENS_A), parameters(model), bytes_per_s(device), chosen("as_fit", "B", batch))
    value = decode_tokens_per_s(batch, model.weight_bytes(BF16_BYTES), kv, device.memory_bytes_per_s)
    return Line(f"speed_{name}", SPEED, given, value, "tokens/s")
