"""State against KV: by hand for one shape, and the crossing of real models held against both sides of it."""

import pytest

from engine import profiles
from engine.formulas.memory import request_bytes
from engine.formulas.state import StateShape, crossing_tokens

MODELS = profiles.models()


def test_a_shape_by_hand():
    """Query heads counted for KV heads, or a state per token: 4 layers of 2 heads of 8 x 16 in fp32."""
    shape = StateShape(4, 2, 8, 16, 4)
    assert shape.state_bytes == 4 * 2 * 8 * 16 * 4 and shape.kv_bytes(10) == 4 * 2 * 24 * 10 * 4
    assert shape.kv_bytes(16) == 3 * shape.state_bytes and shape.crossing_tokens == pytest.approx(16 / 3)


@pytest.mark.parametrize("tokens", [1, 7, 1000])
def test_at_its_crossing_a_shape_keeps_as_much_either_way(tokens):
    """Equal dimensions cross at half of them, whatever layers, heads and format are."""
    shape = StateShape(3, 5, 2 * tokens, 2 * tokens, 2)
    assert shape.crossing_tokens == tokens and shape.kv_bytes(tokens) == shape.state_bytes


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8"])
@pytest.mark.parametrize("name", ["codestral-mamba-7b", "falcon-mamba-7b", "rwkv-4-14b", "nemotron-h-8b", "minimax-text-01", "jamba-v0.1"])
def test_the_crossing_is_the_first_length_at_which_it_holds(name, dtype):
    """One token off, or of the KV alone: just before it the state is still more."""
    own, other = MODELS[name].groups, MODELS["llama-3.1-8b"].groups
    at = crossing_tokens(own, other, dtype)
    assert at > 1 and request_bytes(own, at, dtype) <= request_bytes(other, at, dtype)
    assert request_bytes(own, at - 1, dtype) > request_bytes(other, at - 1, dtype)
    assert request_bytes(own, 1_000_000, dtype) < request_bytes(other, 1_000_000, dtype)


def test_where_nothing_crosses():
    """A cache never becomes smaller than a state that it has outgrown; one that never was larger is so from the first token."""
    kv, state = MODELS["llama-3.1-8b"].groups, MODELS["codestral-mamba-7b"].groups
    assert crossing_tokens(MODELS["llama-2-7b"].groups, kv, "bf16") is None
    assert crossing_tokens(kv, MODELS["llama-2-7b"].groups, "bf16") == 1
    assert crossing_tokens(kv, state, "bf16") == 1 and crossing_tokens(state, state, "bf16") == 1
