"""Attention made visible: the probabilities that the kernels never write down."""

from __future__ import annotations

from collections.abc import Callable

import torch

from engine.model.transformer import Attend

See = Callable[[int, torch.Tensor], None]


def watching_attend(see: See) -> Attend:
    """Causal attention of one whole sequence over itself that shows its probabilities while it computes.

    see(layer, probabilities) is called once per layer, in order: float32 [n_heads, n, n], row = query, column = key,
    after the softmax, so rows sum to 1 and nothing stands right of the diagonal. n x n numbers per head are all in
    memory at once, for one layer at a time: reduce them inside `see`, keep no more than needed.
    """

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        n, heads, width = q.shape
        kv_heads = k.shape[1]
        grouped = q.reshape(n, kv_heads, heads // kv_heads, width).permute(1, 2, 0, 3).reshape(kv_heads, -1, width)
        scores = torch.bmm(grouped * width**-0.5, k.permute(1, 2, 0)).float().view(heads, n, n)
        future = torch.ones(n, n, dtype=torch.bool, device=q.device).triu_(1)
        probabilities = torch.softmax(scores.masked_fill_(future, float("-inf")), dim=-1)
        see(layer, probabilities)
        read = torch.bmm(probabilities.to(v.dtype).view(kv_heads, -1, n), v.transpose(0, 1))
        return read.view(heads, n, width).transpose(0, 1)

    return attend
