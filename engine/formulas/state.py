"""A state of fixed size beside a cache that grows: bytes, and where one becomes smaller than the other. Pure.

A head of linear attention keeps a matrix of key_dim x value_dim numbers (`engine.model.linear_attention`), a head of softmax
attention key_dim + value_dim numbers for every token. So of one shape

    state < KV    from key_dim x value_dim / (key_dim + value_dim) tokens on; head_dim / 2 where both dimensions are alike

A state must be read and written by every decode step, KV only read:

    bytes moved   2 x state, against KV
"""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.formulas.kv import Group
from engine.formulas.memory import MOST_TOKENS, request_bytes


@dataclass(frozen=True)
class StateShape:
    """Layers of attention, or of linear attention with a state for each KV head. key_dim, value_dim: values per head."""

    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int
    bytes_per_value: int

    @property
    def state_bytes(self) -> int:
        """Of one sequence, whatever its length."""
        return self.layers * self.kv_heads * self.key_dim * self.value_dim * self.bytes_per_value

    def kv_bytes(self, tokens: int) -> int:
        """Of softmax attention of this shape after so many tokens."""
        return self.layers * self.kv_heads * (self.key_dim + self.value_dim) * self.bytes_per_value * tokens

    @property
    def crossing_tokens(self) -> float:
        """Where both are equal."""
        return self.key_dim * self.value_dim / (self.key_dim + self.value_dim)


def crossing_tokens(groups: Iterable[Group], reference: Iterable[Group], dtype: str) -> int | None:
    """The fewest tokens at which a sequence of the one model takes no more bytes than of the reference; None if it never does.

    For models of which the one begins with more (its state) and grows less: there is one crossing then. 1 where the one is
    never larger. Bytes in int4 go up and down within a group of tokens; the crossing is then one of several close together.
    """
    groups, reference = tuple(groups), tuple(reference)

    def smaller(tokens: int) -> bool:
        return request_bytes(groups, tokens, dtype) <= request_bytes(reference, tokens, dtype)

    if smaller(1):
        return 1
    high = 2
    while not smaller(high):
        high *= 2
        if high > MOST_TOKENS:
            return None
    low = high // 2  # not smaller here
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if smaller(middle) else (middle, high)
    return high
