"""The heads whose hands the lesson shows: what of a model's config decides how they turn. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from engine.formulas.rope import METHODS, RAMPS


@dataclass(frozen=True)
class Head:
    """head_dim: numbers of a head, two for each pair; base: RoPE's; trained: tokens. A test holds them to the models' configs."""

    name: str
    title: str
    head_dim: int
    base: float
    trained: int


LAB = Head("lab-1m", "Lab 1M", 32, 10_000.0, 128)
PRETRAINED = Head("smollm2-135m-instruct", "SmolLM2 135M", 64, 100_000.0, 8192)
HEADS = (LAB, PRETRAINED)
FACTORS = (2, 16)
LONGEST = 16  # times the trained length
START = {"head": LAB.name, "method": METHODS[0], "factor": 4, "ramp": RAMPS[0], "position": LAB.trained - 1}


def as_data() -> list[dict]:
    """For JavaScript."""
    return [asdict(head) for head in HEADS]


def checked(at: object) -> dict:
    """What a browser says has been chosen, without what nobody could have chosen there."""
    found = dict(START)
    if not isinstance(at, dict):
        return found
    for name, choices in (("head", [head.name for head in HEADS]), ("method", METHODS), ("ramp", RAMPS)):
        if at.get(name) in choices:
            found[name] = at[name]
    trained = next(head.trained for head in HEADS if head.name == found["head"])
    for name, (low, high) in {"factor": FACTORS, "position": (0, LONGEST * trained)}.items():
        value = at.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high:
            found[name] = int(value)
    return found
