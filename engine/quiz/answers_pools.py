"""Answers to the quiz of the pools lesson. How these functions are found and called: answers.py."""

from __future__ import annotations

from engine import profiles
from engine.formulas import pools
from engine.quiz.answers import requests_fit

# A pool idles where it is busy for less than half as long as the other.
CLEARLY = 2

# ---------------------------------------------------------------- below which price: a share of the other card's, in percent


def even_price_percent(device: str, device_other: str) -> float:
    """Of the other card's price: what a card may cost at most to be the cheaper one per byte read in a second."""
    return _even_percent(device, device_other, "memory_bytes_per_s")


def even_price_percent_by_capacity(device: str, device_other: str) -> float:
    """By the bytes it holds."""
    return _even_percent(device, device_other, "capacity_bytes")


def even_price_percent_by_arithmetic(device: str, device_other: str) -> float:
    """By its operations per second."""
    return _even_percent(device, device_other, "bf16_flops_per_s")


def _even_percent(device: str, device_other: str, kind: str) -> float:
    one, other = (getattr(profiles.device(name), kind) for name in (device, device_other))
    return 100 * pools.break_even_price(1.0, one, other)


# ---------------------------------------------------------------- what fits on a smaller card: requests


def fit_on_small(model: str, device: str, tokens: int) -> int:
    """Requests beside 16-bit weights and the reserve of 10 %."""
    return requests_fit(model, device, tokens)


def fit_in_proportion(model: str, device: str, device_other: str, tokens: int) -> int:
    """As if what fits went with the whole memory: the other card's requests times the ratio of the memories."""
    share = profiles.device(device).capacity_bytes / profiles.device(device_other).capacity_bytes
    return int(requests_fit(model, device_other, tokens) * share)


# ---------------------------------------------------------------- the widest memory first

CARDS = ("h200-sxm", "h100-sxm", "a100-80gb-sxm", "l40s")


def widest_memory_first() -> tuple[str, ...]:
    """Cards by the bytes that one reads in a second."""
    return tuple(sorted(CARDS, key=lambda name: -profiles.device(name).memory_bytes_per_s))


# ---------------------------------------------------------------- how many of each: *_ms in milliseconds


def prefill_per_decode(prefill_ms: float, step_ms: float, batch: int, output: int) -> float:
    """Prefill instances for one decode instance, so that neither waits: answers of so many tokens, the first from prefill."""
    return pools.ratio(1000 / prefill_ms, pools.decode_rate_per_s(batch, step_ms / 1000, output))


def prefill_per_decode_alone(prefill_ms: float, step_ms: float, output: int) -> float:
    """As if each request had decode's steps to itself."""
    return prefill_per_decode(prefill_ms, step_ms, 1, output)


def prefill_per_decode_turned(prefill_ms: float, step_ms: float, batch: int, output: int) -> float:
    """Decode instances for one prefill instance."""
    return 1 / prefill_per_decode(prefill_ms, step_ms, batch, output)


def prefill_per_decode_one_step(prefill_ms: float, step_ms: float, batch: int) -> float:
    """As if an answer took one step."""
    return prefill_per_decode(prefill_ms, step_ms, batch, 2)


# ---------------------------------------------------------------- read from measured pools


def idle_pool(result: dict, arrangement: str) -> str | None:
    """"prefill" or "decode": the one whose workers computed for less than half as long as the other's; None if neither."""
    busy = {name: _busy(result["arrangements"][arrangement]["pools"][name]) for name in ("prefill", "decode")}
    less, more = sorted(busy, key=busy.__getitem__)
    return less if busy[more] > CLEARLY * busy[less] else None


def _busy(pool: dict) -> float:
    return sum(worker["busy_share"] for worker in pool["workers"]) / len(pool["workers"])
