"""The roofline: how fast a computation can be at most, given how many operations it makes of each byte it moves. Pure.

A device computes at most `flops_per_s` and moves at most `bytes_per_s`, so work of a given intensity (operations per byte)
reaches at most min(flops_per_s, intensity x bytes_per_s): Williams, Waterman and Patterson 2009, "Roofline: an insightful
visual performance model", CACM 52(4), section 3. Left of the ridge, where the two meet, memory limits; right of it,
arithmetic.

Operations and bytes of a step are counted from shapes alone, two operations per multiply-add, every tensor moved once
between memory and the cores (what a cache saves beyond that is the device's merit and shows as a point above the roof):

    linear      each matrix: 2 x weights x rows operations; its weights once for all rows of the step, its inputs and its
                outputs once per row. Behind the last attention only the rows whose next token is wanted are computed, the
                head for those alone
    attention   4 x heads x head_dim x (query, key) pairs under the causal mask; queries, new keys and values in, the new
                keys and values written to the cache, K and V of all tokens up to the end read once per sequence, output out

Norms, rotations, activations, embedding rows and sampling are left out (well under 1 % of the operations).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from engine.formulas.kv import Attention, Group, Latent

Cost = tuple[int, int]  # operations, bytes
Slice = tuple[int, int, bool]  # tokens before, new tokens, whether its next token is wanted


@dataclass(frozen=True)
class Shape:
    """A dense Llama-style model and the size of its numbers. Sizes count values; ffn_size is that of gate, up and down."""

    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    bytes_per_value: int

    @property
    def matrices_before_attention(self) -> tuple[tuple[int, int], ...]:
        """(inputs, outputs) of a layer's matrices that see all rows: query, key and value in one."""
        return ((self.hidden_size, (self.heads + 2 * self.kv_heads) * self.head_dim),)

    @property
    def matrices_after_attention(self) -> tuple[tuple[int, int], ...]:
        """Of those that in the last layer see the wanted rows only: output, gate and up in one, down."""
        return (
            (self.heads * self.head_dim, self.hidden_size),
            (self.hidden_size, 2 * self.ffn_size),
            (self.ffn_size, self.hidden_size),
        )

    @property
    def matrices(self) -> tuple[tuple[int, int], ...]:
        """All of the model, the head included: what a decode step goes through."""
        layer = self.matrices_before_attention + self.matrices_after_attention
        return layer * self.layers + ((self.hidden_size, self.vocab_size),)


def step_cost(shape: Shape, slices: Iterable[Slice]) -> dict[str, Cost]:
    """{"linear": (operations, bytes), "attention": (operations, bytes)} of one forward over these slices, all layers."""
    slices = list(slices)
    rows, wanted = sum(length for _, length, _ in slices), sum(bool(sample) for *_, sample in slices)
    before, after = shape.matrices_before_attention, shape.matrices_after_attention
    inner = shape.layers - 1
    per_row = [(shape.layers, before, rows), (inner, after, rows), (1, after, wanted)]
    per_row.append((1, ((shape.hidden_size, shape.vocab_size),), wanted))
    linear_flops = linear_bytes = 0
    for times, matrices, count in per_row:
        for inputs, outputs in matrices:
            flops, moved = linear_cost(inputs, outputs, count, shape.bytes_per_value)
            linear_flops += times * flops
            linear_bytes += times * moved
    attention = [attention_cost(shape, start, length) for start, length, _ in slices]
    flops, moved = (shape.layers * sum(column) for column in zip(*attention, strict=True)) if attention else (0, 0)
    return {"linear": (linear_flops, linear_bytes), "attention": (flops, moved)}


def linear_cost(inputs: int, outputs: int, rows: int, bytes_per_value: int) -> Cost:
    """One matrix product of [rows, inputs] with weights [outputs, inputs]; without rows nothing is computed or read."""
    if rows == 0:
        return 0, 0
    return 2 * inputs * outputs * rows, (inputs * outputs + rows * (inputs + outputs)) * bytes_per_value


def attention_cost(shape: Shape, start: int, length: int) -> Cost:
    """One layer, one sequence: `length` new tokens that follow `start` cached ones."""
    pairs = length * start + length * (length + 1) // 2
    new_and_output = 2 * length * shape.heads * shape.head_dim
    new_kv, all_kv = (2 * tokens * shape.kv_heads * shape.head_dim for tokens in (length, start + length))
    values = new_and_output + 2 * new_kv + all_kv  # new K and V come in and are written to the cache
    return 4 * shape.heads * shape.head_dim * pairs, values * shape.bytes_per_value


def intensity(cost: Cost) -> float:
    """Operations per byte; 0 for nothing."""
    flops, moved = cost
    return flops / moved if moved else 0.0


def attainable(intensity: float, flops_per_s: float, bytes_per_s: float) -> float:
    """The roof: operations per second that work of this intensity can reach at most."""
    return min(flops_per_s, intensity * bytes_per_s)


def ridge(flops_per_s: float, bytes_per_s: float) -> float:
    """The intensity above which arithmetic limits, in operations per byte."""
    return flops_per_s / bytes_per_s


def decode_attention_intensity(group: Group, heads: int, bytes_per_value: int) -> float:
    """Of one new token over a long context, K and V alone counted; the batch does not occur in it.

    Each query head makes 2 operations of every cached value it reads, and query heads that share a KV head share the
    reading: 2 x heads / (kv_heads x bytes per value), so about the group's size in 16 bits. Absorbed MLA (DeepSeek-V2, arXiv
    2405.04434, section 2.1.2) reads one latent for all heads, its scores over rank + rope_dim, its values over rank:
    2 x heads x (2 rank + rope_dim) / ((rank + rope_dim) x bytes per value), hundreds.
    Raises TypeError for recurrent layers, which have no cache that grows.
    """
    if isinstance(group, Attention):
        return 2 * heads / (group.kv_heads * bytes_per_value)
    if isinstance(group, Latent):
        return 2 * heads * (2 * group.rank + group.rope_dim) / ((group.rank + group.rope_dim) * bytes_per_value)
    raise TypeError("recurrent layers read a state of fixed size, not a cache")


def compute_bound_batch(ridge: float, bytes_per_value: int) -> int:
    """The smallest decode batch at which the matrices of a dense model reach the ridge, their weights alone counted as bytes."""
    return max(1, ceil(ridge * bytes_per_value / 2))
