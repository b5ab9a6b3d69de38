"""Several texts of one length read side by side: the memory of one text serves them all, as if their heads were its heads.

Attention treats every head for itself, and texts of one length have the same positions and the same mask. So the heads of
all texts, text after text, are one text with so many times as many heads: one call of the attention kernel for all of them,
whatever the memory keeps (`masked.memory`), and nothing but rounding is different from reading them one by one.
"""

from collections.abc import Callable

import torch
from torch.nn import functional as F

from engine.kv.masked import Memory
from engine.model.transformer import Transformer

# Rows of logits at once: 256 x 49,152 numbers are 50 MB in float32.
_ROWS_AT_ONCE = 256


class SideBySide:
    """The `attend` of `texts` equally long texts in one packed row, text after text; position 0 for every token."""

    def __init__(self, memory: Memory, texts: int) -> None:
        self.memory, self.texts = memory, texts

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q [texts x n, heads, head_dim], k and v [texts x n, kv_heads, head_dim] -> [texts x n, heads, head_dim]."""
        if self.texts == 1:
            return self.memory(layer, q, k, v)
        out = self.memory(layer, *(self._as_heads(rows) for rows in (q, k, v)))
        n, width = out.shape[0], out.shape[2]
        return out.view(n, self.texts, -1, width).transpose(0, 1).reshape(q.shape)

    def fork(self) -> "SideBySide":
        """A second memory of the same texts, which may go on differently."""
        return SideBySide(self.memory.fork(), self.texts)

    def _as_heads(self, rows: torch.Tensor) -> torch.Tensor:
        n, heads, width = rows.shape[0] // self.texts, *rows.shape[1:]
        return rows.reshape(self.texts, n, heads, width).transpose(0, 1).reshape(n, self.texts * heads, width)


def read_together(model: Transformer, ids: torch.Tensor, attend: SideBySide, last: int = 1) -> torch.Tensor:
    """Read the next tokens ids [texts, n] -> the hidden states [texts, last, hidden_size] of the last ones of each text."""
    texts, n = ids.shape
    rows = torch.arange(n - last, n, device=ids.device) + n * torch.arange(texts, device=ids.device)[:, None]
    return model.hidden(ids.flatten(), torch.zeros_like(ids).flatten(), attend, rows.flatten()).view(texts, last, -1)


def last_losses(
    model: Transformer,
    ids: torch.Tensor,
    attend: SideBySide,
    scored: int,
    *,
    chunk_tokens: int,
    on_chunk: Callable[[int], None] = lambda tokens: None,
) -> torch.Tensor:
    """Losses in nats, float32 [texts, scored], of the last `scored` tokens of ids [texts, n + 1], each after all before it.

    The first n tokens of each are read, `chunk_tokens` of every text at once, and logits exist for the scored ones only.
    on_chunk(tokens) is told of every chunk, of all texts together.
    """
    n, found = ids.shape[1] - 1, []
    for begin in range(0, n, chunk_tokens):
        end = min(begin + chunk_tokens, n)
        wanted = min(end - begin, scored - (n - end))  # of this chunk, so many are followed by scored tokens
        hidden = read_together(model, ids[:, begin:end], attend, max(1, wanted))
        if wanted > 0:
            found.append(_losses(model, hidden, ids[:, end - wanted + 1 : end + 1]))
        on_chunk(ids.shape[0] * (end - begin))
    return torch.cat(found, dim=1)


def _losses(model: Transformer, hidden: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    parts = zip(hidden.flatten(0, 1).split(_ROWS_AT_ONCE), targets.flatten().split(_ROWS_AT_ONCE), strict=True)
    losses = [F.cross_entropy(model.logits(rows).float(), wanted, reduction="none") for rows, wanted in parts]
    return torch.cat(losses).view(targets.shape)
