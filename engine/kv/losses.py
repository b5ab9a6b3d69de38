"""How well a model predicts a text under a memory: the negative log-likelihood of every token.

Item i of an array of losses is that of token i + 1, in nats, predicted after tokens 0 .. i; the mean is the
log-perplexity. Float32, whatever the model computes in.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch.nn import functional as F

from engine.kv.eviction import Full
from engine.kv.masked import Memory, memory
from engine.model.transformer import Transformer

CHUNK_TOKENS = 1024
# Rows of logits at once: 256 x 49,152 numbers are 50 MB in float32.
_ROWS_AT_ONCE = 256

OnLosses = Callable[[int, np.ndarray], None]


def token_losses(
    model: Transformer,
    ids: Sequence[int],
    attend: Memory,
    *,
    chunk_tokens: int = CHUNK_TOKENS,
    on_losses: OnLosses = lambda first, losses: None,
) -> np.ndarray:
    """Losses [len(ids) - 1] of a text read in chunks: one forward each, memory bounded by the chunk and the cache.

    attend: `memory(model, policy)` of `masked`, or one of `selection`; it goes on from what it has read before.
    on_losses(first, losses) is told of every chunk as it comes (`first` is the index of its first item); it may raise
    to end the run.
    """
    found = [np.empty(0, np.float32)]
    tokens = torch.as_tensor(ids, dtype=torch.int64, device=model.device)
    for begin in range(0, len(ids) - 1, chunk_tokens):
        end = min(begin + chunk_tokens, len(ids) - 1)
        hidden = _read(model, tokens[begin:end], attend)
        found.append(_losses(model, hidden, tokens[begin + 1 : end + 1]))
        on_losses(begin, found[-1])
    return np.concatenate(found)


def read(model: Transformer, ids: Sequence[int], attend: Memory, *, chunk_tokens: int = CHUNK_TOKENS) -> torch.Tensor:
    """Read a text into a memory -> the logits [vocab_size], float32, of the token after it. `ids` must not be empty."""
    tokens = torch.as_tensor(ids, dtype=torch.int64, device=model.device)
    for part in tokens.split(chunk_tokens):
        hidden = _read(model, part, attend)
    return model.logits(hidden[-1:])[0].float()


def continuation_loss(model: Transformer, after: torch.Tensor, ids: Sequence[int], attend: Memory) -> float:
    """Minus the log-probability, in nats, of the tokens `ids` behind what `attend` has read; it is left as it was.

    after: the logits [vocab_size] that `read` gave for that text.
    """
    first = F.cross_entropy(after[None], torch.tensor([ids[0]], device=after.device))
    return float(first) + float(token_losses(model, ids, attend.fork()).sum())


def recomputed_losses(
    model: Transformer,
    ids: Sequence[int],
    window: int,
    points: Sequence[int],
    *,
    on_losses: OnLosses = lambda first, losses: None,
) -> np.ndarray:
    """Losses at `points` (indices as in `token_losses`), the last `window` tokens read anew for each of them.

    This is the "sliding window with re-computation" of StreamingLLM (Xiao et al. 2023, figure 1): what is read is a text
    of its own, positions from 0, dense inside. One forward over up to `window` tokens per point.
    """
    found = np.empty(len(points), np.float32)
    tokens = torch.as_tensor(ids, dtype=torch.int64, device=model.device)
    for at, point in enumerate(points):
        part = tokens[max(0, point + 1 - window) : point + 1]
        hidden = _read(model, part, memory(model, Full()), rows=torch.tensor([len(part) - 1], device=model.device))
        found[at : at + 1] = _losses(model, hidden, tokens[point + 1 : point + 2])
        on_losses(point, found[at : at + 1])
    return found


def _read(model: Transformer, tokens: torch.Tensor, attend: Memory, rows: torch.Tensor | None = None) -> torch.Tensor:
    return model.hidden(tokens, torch.zeros_like(tokens), attend, rows)  # position 0 turns nothing: the memory does


def _losses(model: Transformer, hidden: torch.Tensor, targets: torch.Tensor) -> np.ndarray:
    parts = zip(hidden.split(_ROWS_AT_ONCE), targets.split(_ROWS_AT_ONCE), strict=True)
    losses = [F.cross_entropy(model.logits(rows).float(), wanted, reduction="none") for rows, wanted in parts]
    return torch.cat(losses).cpu().numpy()
