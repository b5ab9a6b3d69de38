"""A decode step computed from shapes: how a batch moves it along the roof, and what ends the batch first. Pure.

    matrices    2 x weights in use x batch operations; the weights read once for the whole batch
    attention   every sequence reads its own KV: its intensity is a matter of heads, not of the batch

The two follow each other in a step, so its least time is the sum of theirs at the roof. Weights are counted with the
embedding, activations are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.formulas.kv import Recurrent
from engine.formulas.memory import request_bytes, requests_that_fit, room_bytes
from engine.formulas.roofline import decode_attention_intensity
from engine.profiles import ModelProfile
from pages.roofline.story import Roof

MOST_BATCH = 1 << 20
RESERVE_SHARE = 0.1  # left free by a server; vLLM's default


@dataclass(frozen=True)
class Machine:
    """One or several devices that share everything evenly."""

    title: str
    roof: Roof
    capacity_bytes: int
    measured: bool = False

    def times(self, n: int) -> Machine:
        """n of them."""
        roof = Roof(self.roof.flops_per_s * n, self.roof.bytes_per_s * n, self.roof.dtype)
        return Machine(self.title, roof, self.capacity_bytes * n, self.measured)

    @property
    def bytes_per_value(self) -> int:
        return 4 if self.roof.dtype == "float32" else 2

    @property
    def kv_dtype(self) -> str:
        return "fp32" if self.bytes_per_value == 4 else "bf16"


@dataclass(frozen=True)
class Step:
    """Operations and bytes of one decode step, and its least time on a machine."""

    linear_flops: float
    linear_bytes: float
    attention_flops: float
    attention_bytes: float
    seconds: float
    idle_share: float

    @property
    def linear_intensity(self) -> float:
        return self.linear_flops / self.linear_bytes

    @property
    def attention_intensity(self) -> float:
        return self.attention_flops / self.attention_bytes

    @property
    def intensity(self) -> float:
        return (self.linear_flops + self.attention_flops) / (self.linear_bytes + self.attention_bytes)


def usable(model: ModelProfile) -> bool:
    """Whether its weights are known, in use and in all, and whether there is attention to speak of."""
    return model.weight_bytes_read(1) is not None and model.attention_kind != "state"


def step(model: ModelProfile, machine: Machine, batch: int, context: int) -> Step:
    """One step of so many sequences, each with so many tokens before it. model: a usable one."""
    linear_flops, linear_bytes = _linear(model, machine, batch)
    flops, moved = _attention(model, machine, context)
    attention_flops, attention_bytes = flops * batch, moved * batch
    seconds = _least_s(linear_flops, linear_bytes, machine.roof) + _least_s(attention_flops, attention_bytes, machine.roof)
    idle = 1 - (linear_flops + attention_flops) / machine.roof.flops_per_s / seconds
    return Step(linear_flops, linear_bytes, attention_flops, attention_bytes, seconds, max(0.0, idle))


def compute_bound_from(model: ModelProfile, machine: Machine) -> int | None:
    """The smallest batch at which the matrices reach the ridge; None if a million sequences do not."""

    def reached(batch: int) -> bool:
        flops, moved = _linear(model, machine, batch)
        return flops / moved >= machine.roof.ridge

    if not reached(MOST_BATCH):
        return None
    low, high = 1, MOST_BATCH
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle + 1, high)
    return low


def requests(model: ModelProfile, machine: Machine, context: int) -> int | None:
    """How many sequences of so many tokens the memory holds beside the weights; None if not even the weights fit."""
    room = room_bytes(machine.capacity_bytes, model.weight_bytes(machine.bytes_per_value), RESERVE_SHARE)
    if room < 0:
        return None
    return requests_that_fit(room, request_bytes(model.groups, context, machine.kv_dtype))


def endless_idle_share(model: ModelProfile, machine: Machine, context: int) -> float:
    """The idle share that no batch gets below at a context: the matrices then compute all the time, attention as it must."""
    return step(model, machine, MOST_BATCH, context).idle_share


def _linear(model: ModelProfile, machine: Machine, batch: int) -> tuple[float, float]:
    """Operations and bytes of the matrices of one step."""
    flops = 2 * (model.active_parameters or model.parameters) * batch
    return flops, model.weight_bytes_read(batch, machine.bytes_per_value)


def _attention(model: ModelProfile, machine: Machine, context: int) -> tuple[float, float]:
    """Operations and bytes of one sequence's attention: its KV read once, a recurrent state read and written. The few
    operations on a state are left out."""
    flops = moved = 0.0
    for group in model.groups:
        if isinstance(group, Recurrent):
            moved += 2 * request_bytes([group], context, machine.kv_dtype)
        else:
            kv = request_bytes([group], context, machine.kv_dtype)
            moved += kv
            flops += kv * decode_attention_intensity(group, model.heads, machine.bytes_per_value)
    return flops, moved


def _least_s(flops: float, moved: float, roof: Roof) -> float:
    return max(flops / roof.flops_per_s, moved / roof.bytes_per_s)
