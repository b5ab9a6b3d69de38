"""A model's rotary position embedding on its device (Su et al. 2021, section 3.2); the formulas are in `formulas.rope`.

The dot product of a turned query and a turned key depends on the distance of
their positions only. Pairs are (i, i + head_dim/2), the "half-split" layout of
Hugging Face checkpoints; the paper and GGUF files pair neighbours (2i, 2i + 1),
which is the same thing after a permutation of the weight rows.
"""

from __future__ import annotations

import torch

from engine.formulas.rope import turning
from engine.model.config import ModelConfig

Tables = tuple[torch.Tensor, torch.Tensor]


class Rope:
    """One model's rotation: how far its pairs turn a token, and by how much its attention is sharpened."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.depends_on_length = config.rope_scaling is not None and config.rope_scaling.kind == "dynamic"
        self._frequencies: dict[tuple[torch.device, int | None], torch.Tensor] = {}
        self.attention_factor = self._turning(None).attention_factor

    def frequencies(self, device: torch.device, length: int | None = None) -> torch.Tensor:
        """The angle of every pair per token, in radians: [head_dim / 2] fp32; `length` as for :meth:`tables`."""
        key = (device, length if self.depends_on_length else None)
        found = self._frequencies.get(key)
        if found is None:
            found = torch.from_numpy(self._turning(length).frequencies).float().to(device)
            self._frequencies = {key: found}  # all layers of a step ask for the same
        return found

    def tables(self, positions: torch.Tensor, dtype: torch.dtype, length: int | None = None) -> Tables:
        """Cosines and signed sines for one forward, computed once and used by every layer.

        positions [n] int64; length: the tokens of the text after this step, of which only a rotation that
        ``depends_on_length`` takes notice -> two tensors [n, 1, head_dim] in ``dtype``, the attention factor inside.
        Angles are fp32: bf16 cannot tell position 4,000 from 4,001. The sines' first half is negated, as
        :func:`rotate` wants.
        """
        return _tables(positions, self.frequencies(positions.device, length), dtype, self.attention_factor)

    def further(self, positions: torch.Tensor, dtype: torch.dtype, length: int | None = None) -> Tables:
        """The tables for queries and keys that the transformer has given at position 0, to be turned from there.

        Nothing was turned there, but the attention factor is in them already.
        """
        return _tables(positions, self.frequencies(positions.device, length), dtype, 1.0)

    def turned(self, rows: torch.Tensor, positions: torch.Tensor, length: int | None = None) -> torch.Tensor:
        """Rows [..., n, head_dim] as the transformer gives them at position 0, turned by their positions [..., n]; a new tensor."""
        tables = self.further(positions.flatten(), rows.dtype, length)
        return rotate(rows, *(table.view(*positions.shape, rows.shape[-1]) for table in tables))

    def _turning(self, length: int | None):
        c = self.config
        return turning(c.rope_scaling, c.head_dim, c.rope_theta, length)


def rotate(heads: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turn vectors [n, heads, head_dim] by tables [n, 1, head_dim]; a new tensor.

    (a, b) -> (a cos - b sin, b cos + a sin), where b is what rolling by half a
    head brings to the place of a, and the other way round.
    """
    return (heads * cosines).addcmul_(heads.roll(heads.shape[-1] // 2, dims=-1), sines)


def _tables(positions: torch.Tensor, frequencies: torch.Tensor, dtype: torch.dtype, attention_factor: float) -> Tables:
    angles = torch.outer(positions.float(), frequencies)
    cosines, sines = angles.cos(), angles.sin()
    if attention_factor != 1.0:
        cosines, sines = cosines * attention_factor, sines * attention_factor
    cosines = torch.cat((cosines, cosines), dim=-1).to(dtype).unsqueeze(1)
    sines = torch.cat((-sines, sines), dim=-1).to(dtype).unsqueeze(1)
    return cosines, sines
