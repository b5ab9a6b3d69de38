"""Answers to the quiz of the rope lesson. How these functions are found and called: answers.py.

head_dim   numbers of a head (d); pairs are counted from 0, the fastest, to d/2 - 1
base       of the frequencies (b)
times      by how much a text is longer than the model was trained for (s)
"""

from __future__ import annotations

from math import pi

from engine.formulas.rope import frequencies, ntk_base, scaling_for, turning, turns

# ---------------------------------------------------------------- NTK-aware: another base


def base_factor(head_dim: int, times: float) -> float:
    """What the base is multiplied by, so that the slowest pair turns exactly so many times slower."""
    return ntk_base(1.0, times, head_dim)


def base_factor_without_exponent(times: float) -> float:
    """s alone."""
    return times


def base_factor_upside_down(head_dim: int, times: float) -> float:
    """With (d - 2) / d in place of d / (d - 2)."""
    return times ** ((head_dim - 2) / head_dim)


def pair_slower(head_dim: int, times: float, pair: int) -> float:
    """How many times slower a pair turns with the new base. It does not hang on the base it had."""
    base = 10_000.0
    now = turning(scaling_for("ntk", times, 1), head_dim, base).frequencies
    return float(frequencies(head_dim, base)[pair] / now[pair])


def pair_slower_all_alike(times: float) -> float:
    """Linear interpolation: the same for every pair."""
    return times


def pair_slower_from_one(head_dim: int, times: float, pair: int) -> float:
    """As if the pairs were counted from 1."""
    return pair_slower(head_dim, times, pair - 1)


# ---------------------------------------------------------------- hands that never made a full turn in training


def never_turned(head_dim: int, base: float, trained: int) -> int:
    """Pairs of a head with less than one turn within so many tokens."""
    return int((turns(frequencies(head_dim, base), trained) < 1).sum())


def turned(head_dim: int, base: float, trained: int) -> int:
    """The others."""
    return head_dim // 2 - never_turned(head_dim, base, trained)


def never_turned_radians(head_dim: int, base: float, trained: int) -> int:
    """As if a turn were one radian."""
    return never_turned(head_dim, base, 2 * pi * trained)


def never_turned_numbers(head_dim: int, base: float, trained: int) -> int:
    """The numbers in these pairs, two in each."""
    return 2 * never_turned(head_dim, base, trained)


# ---------------------------------------------------------------- read from measured perplexities


def linear_passes_ntk(result: dict) -> int | None:
    """The shortest measured length (tokens) from which on linear interpolation has the lower perplexity of the two."""
    lengths = [length for length, better in _linear_better(result) if better]
    return lengths[0] if lengths and all(better for length, better in _linear_better(result) if length >= lengths[0]) else None


def linear_last_behind(result: dict) -> int | None:
    """The longest at which NTK-aware still has the lower one."""
    return max((length for length, better in _linear_better(result) if not better), default=None)


def _linear_better(result: dict) -> list[tuple[int, bool]]:
    """(length, whether linear is lower), beyond the trained length."""
    found = {(cell["method"], cell["length"]): cell["perplexity"] for cell in result["cells"]}
    return [(length, found["linear", length] < found["ntk", length]) for length in sorted(result["lengths"]) if length > result["trained"]]
