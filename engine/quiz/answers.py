"""What the answers to quiz items are computed with: the engine's formulas on the profiles, never a number typed in.

An item names a public function here. It is called with what it takes of what the item draws and gives, and gives the answer in
the item's unit; for a choice the right option's id; for an order the steps' ids. Functions for items that ask to read a figure
get the recording's result first. Typical wrong answers (slips) are computed here too, and named for what goes wrong.

    model, device, link   names of profiles
"""

from __future__ import annotations

from dataclasses import replace

from engine import profiles
from engine.formulas.kv import Attention
from engine.formulas.memory import request_bytes, requests_that_fit, room_bytes

GIB = 2**30
RESERVE = 0.1

# ---------------------------------------------------------------- memory: how large a cache is, how many fit


def kv_gib(model: str, tokens: int, dtype: str = "bf16") -> float:
    """KV of one request."""
    return profiles.model(model).kv_bytes(tokens, dtype).total / GIB


def kv_gib_query_heads(model: str, tokens: int) -> float:
    """As if every query head kept its own key and value."""
    return _with_query_heads(model).kv_bytes(tokens).total / GIB


def kv_gib_one_layer(model: str, tokens: int) -> float:
    """Of one layer only."""
    return kv_gib(model, tokens) / profiles.model(model).layers


def kv_gib_keys_only(model: str, tokens: int) -> float:
    """Of a model whose keys and values are of one size: the keys without the values."""
    return kv_gib(model, tokens) / 2


def requests_fit(model: str, device: str, tokens: int) -> int:
    """Requests beside 16-bit weights and the reserve."""
    return _fit(model, device, tokens, weights=True, reserve=RESERVE)


def requests_fit_no_weights(model: str, device: str, tokens: int) -> int:
    return _fit(model, device, tokens, weights=False, reserve=RESERVE)


def requests_fit_query_heads(model: str, device: str, tokens: int) -> int:
    room = room_bytes(profiles.device(device).capacity_bytes, profiles.model(model).weight_bytes(), RESERVE)
    return requests_that_fit(room, request_bytes(_with_query_heads(model).groups, tokens, "bf16"))


def smallest_token_first() -> tuple[str, ...]:
    """Models by what they keep of a token."""
    names = ("smollm2-135m-instruct", "deepseek-v3", "llama-3.1-8b", "llama-2-7b")
    kept = {name: profiles.model(name).kv_bytes_per_token() for name in names}
    return tuple(name.replace(".", "-") for name in sorted(kept, key=kept.__getitem__))


def running_most(result: dict, pool: str) -> int:
    """Of a measured wall: the most requests that were in the pool at one moment."""
    return result["schedules"][pool]["metrics"]["running_most"]


def _fit(model: str, device: str, tokens: int, *, weights: bool, reserve: float) -> int:
    kept = profiles.model(model)
    room = room_bytes(profiles.device(device).capacity_bytes, kept.weight_bytes() if weights else 0, reserve)
    return requests_that_fit(room, request_bytes(kept.groups, tokens, "bf16"))


def _with_query_heads(model: str) -> profiles.ModelProfile:
    profile = profiles.model(model)
    groups = tuple(replace(g, kv_heads=profile.heads) if isinstance(g, Attention) else g for g in profile.groups)
    return replace(profile, groups=groups)
