"""From logits to tokens."""

import torch

from engine.serving.request import Sequence


def sample(logits: torch.Tensor, sequences: list[Sequence], temperature: float) -> tuple[list[int], list[float]]:
    """logits [m, vocab], one row per sequence -> tokens and the gap between the two largest logits of each row.

    Greedy at temperature 0. Otherwise a seeded draw that depends on the request's seed and the token's position only,
    not on who else is in the batch. The gap tells how close a greedy choice was: schedules may differ at near-ties,
    since batch composition changes floating-point sums.
    """
    logits = logits.float()
    top = logits.topk(2, dim=-1)
    gaps = (top.values[:, 0] - top.values[:, 1]).tolist()
    if temperature <= 0:
        return top.indices[:, 0].tolist(), gaps
    # Differences to the largest, in float64: divided by almost nothing they become 0 and -inf, never NaN.
    scaled = (logits - top.values[:, :1]).double() / temperature
    probabilities = torch.softmax(scaled, dim=-1).cpu()
    tokens = []
    for row, sequence in zip(probabilities, sequences, strict=True):
        generator = torch.Generator().manual_seed(sequence.request.seed * 1_000_003 + len(sequence.tokens))
        tokens.append(int(torch.multinomial(row, 1, generator=generator)))
    return tokens, gaps
