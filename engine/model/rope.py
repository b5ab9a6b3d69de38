"""Rotary position embedding (Su et al. 2021, section 3.2).

A head's vector is read as head_dim/2 pairs, and pair i at position p is turned
by the angle p x f_i with f_i = theta^(-2i/head_dim). The dot product of a
turned query and a turned key then depends on the distance of their positions
only. Pairs are (i, i + head_dim/2), the "half-split" layout of Hugging Face
checkpoints; the paper and GGUF files pair neighbours (2i, 2i + 1), which is
the same thing after a permutation of the weight rows.
"""

from __future__ import annotations

import math

import torch

from engine.model.config import ModelConfig, RopeScaling


def inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    """The angle per position of every pair, in radians: [head_dim / 2] fp32 on the CPU."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    return frequencies if config.rope_scaling is None else _scaled(frequencies, config.rope_scaling)


def rotary_tables(positions: torch.Tensor, frequencies: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and signed sines for one forward, computed once and used by every layer.

    positions [n] int64; frequencies [head_dim / 2] fp32 -> two tensors
    [n, 1, head_dim] in ``dtype``. Angles are fp32: bf16 cannot tell position
    4,000 from 4,001. The sines' first half is negated, as :func:`rotate` wants.
    """
    angles = torch.outer(positions.float(), frequencies)
    cosines, sines = angles.cos(), angles.sin()
    cosines = torch.cat((cosines, cosines), dim=-1).to(dtype).unsqueeze(1)
    sines = torch.cat((-sines, sines), dim=-1).to(dtype).unsqueeze(1)
    return cosines, sines


def rotate(heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turn vectors [n, heads, head_dim] by tables [n, 1, head_dim]; a new tensor.

    (a, b) -> (a cos - b sin, b cos + a sin), where b is what rolling by half a
    head brings to the place of a, and the other way round.
    """
    return (heads * cosines).addcmul_(heads.roll(heads.shape[-1] // 2, dims=-1), sines)


def _scaled(frequencies: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    if scaling.kind == "linear":
        return frequencies / scaling.factor
    if scaling.kind == "factors":
        return frequencies / torch.tensor(scaling.divisors, dtype=torch.float32)
    # llama3: pairs that turn more than high_freq_factor times within the original context stay,
    # those under low_freq_factor turns are divided, and a linear ramp joins them.
    turns = scaling.original_context * frequencies / (2 * math.pi)
    keep = ((turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor)).clamp(0.0, 1.0)
    return keep * frequencies + (1.0 - keep) * frequencies / scaling.factor
