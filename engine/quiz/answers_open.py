"""Answers to the quiz of the open questions. How these functions are found and called: answers.py. All in 16 bits."""

from __future__ import annotations

from engine import profiles
from engine.formulas.memory import request_bytes
from engine.formulas.state import crossing_tokens
from engine.formulas.transfer import transfer_s

LONG = 10_000_000
# A policy that answers so many times as often as the next one is best beyond chance.
BY_FAR = 1.5

# ---------------------------------------------------------------- a state against a cache


def state_crossing(model_state: str, model: str) -> int:
    """Tokens from which on the cache of one model is no smaller than the state of the other."""
    return crossing_tokens(profiles.model(model_state).groups, profiles.model(model).groups, "bf16")


def state_crossing_keys_only(model_state: str, model: str) -> float:
    """As if a token left a key without a value, or as if the state counted twice."""
    return state_crossing(model_state, model) * 2


def state_crossing_one_layer(model_state: str, model: str) -> float:
    """One layer's state against all layers' caches."""
    return state_crossing(model_state, model) / profiles.model(model_state).layers


def state_crossing_query_heads(model_state: str, model: str) -> float:
    """As if every query head had a key and a value of its own."""
    found = profiles.model(model)
    return state_crossing(model_state, model) * found.kv_heads / found.heads


def fewest_bytes_at_ten_million() -> tuple[str, ...]:
    """Models by what a sequence of ten million tokens keeps, states included."""
    names = ("rwkv-4-14b", "codestral-mamba-7b", "minimax-text-01", "deepseek-v3", "llama-3.1-8b")
    kept = {name: request_bytes(profiles.model(name).groups, LONG, "bf16") for name in names}
    return tuple(name.replace(".", "-") for name in sorted(kept, key=kept.__getitem__))


# ---------------------------------------------------------------- ten million tokens over a link


def ten_million_s(model: str, link: str) -> float:
    """Seconds of the cache of ten million tokens at the link's full rate."""
    return transfer_s(request_bytes(profiles.model(model).groups, LONG, "bf16"), profiles.link(link).bytes_per_s)


def ten_million_s_bits_as_bytes(model: str, link: str) -> float:
    """As if a link's Gbit/s were GB/s."""
    return ten_million_s(model, link) / 8


def ten_million_s_one_layer(model: str, link: str) -> float:
    return ten_million_s(model, link) / profiles.model(model).layers


def ten_million_s_query_heads(model: str, link: str) -> float:
    """As if every query head had a key and a value of its own."""
    found = profiles.model(model)
    return ten_million_s(model, link) * found.heads / found.kv_heads


# ---------------------------------------------------------------- read from measurements


def best_outside(result: dict) -> str | None:
    """Of a measured needle: who of those that keep only some tokens answers best for a needle neither among the sinks nor in
    the window; None if it does not lead by far."""
    rates = {c["policy"]: c["rate"] for c in result["cells"] if c["policy"] != "dense" and not (c["in_sinks"] or c["in_window"])}
    best, second = sorted(rates, key=rates.__getitem__, reverse=True)[:2]
    return best if rates[best] > BY_FAR * rates[second] else None


def still_right(result: dict, mechanism: str, dim: int) -> float:
    """Of the most pairs written, with keys of so many numbers, the share that a mechanism answers rightly, in percent."""
    cells = [cell for cell in result["recall"] if cell["mechanism"] == mechanism and cell["key_dim"] == dim]
    return 100 * max(cells, key=lambda cell: cell["pairs"])["rate"]


# ---------------------------------------------------------------- the course's five remedies

RELIEVED = {
    "StreamingLLM": "kept",
    "YaRN": "reach",
    "Ring Attention": "share",
    "Chunked prefill": "turn",
    "Disaggregation": "turn",
}


def what_it_relieves(remedy: str) -> str:
    """The axis of the course's closing table on which a remedy acts."""
    return RELIEVED[remedy]
