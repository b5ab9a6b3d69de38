"""Attention whose memory does not grow: each head keeps one matrix, its state, into which every token is written. Pure torch.

    state_t = decay_t x state_(t-1) + key_t (written_t)^T          output_t = (state_t)^T query_t

What is written decides which architecture it is:

    the value itself                       linear attention (Katharopoulos et al. 2020, arXiv 2006.16236, section 3.3), without its
                                           feature map and normaliser, which later ones leave out (RetNet, arXiv 2307.08621)
    the same, decay below 1                RetNet's decay, lightning attention, and Mamba-2 (Dao and Gu 2024, arXiv 2405.21060,
                                           section 6), where it follows from the token: keys are its B, queries its C
    beta x (value - what the decayed       the delta rule (Yang et al. 2024, arXiv 2406.06484), with decay gated DeltaNet (Yang et
    state answers to key)                  al. 2024, arXiv 2412.06464): an association that is there already is overwritten

The same outputs in three forms. With D[i, j] the product of the decays of tokens j + 1 to i (0 where j > i):

    parallel    output = (Q K^T . D) W, the work of attention without its softmax; W are the values, or for the delta rule the
                solution of (I + diag(beta) (K K^T . D below the diagonal)) W = diag(beta) V  (arXiv 2406.06484, section 3.2)
    chunked     that within chunks, and a state from chunk to chunk: linear in the length, and matrix products (prefill)
    recurrent   one token after another (decode)

Shapes: queries and keys [heads, n, key_dim], values [heads, n, value_dim], log_decay (0 or less, finite) and beta [heads, n], state
[heads, key_dim, value_dim]. Heads that share a state are rows of one query: see `step`.
"""

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Rule:
    """How every token is written: by what its head's state decays before, and how much of an error is corrected.

    log_decay: None keeps everything; beta: None adds the value as it is.
    """

    log_decay: torch.Tensor | None = None
    beta: torch.Tensor | None = None

    def part(self, begin: int, end: int) -> "Rule":
        """Of the tokens from begin to end."""
        of = (None if values is None else values[:, begin:end] for values in (self.log_decay, self.beta))
        return Rule(*of)


def parallel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule) -> torch.Tensor:
    """All outputs [heads, n, value_dim] at once, from an empty state; n x n memory."""
    return _block(q, k, v, rule, _empty(k, v))[0]


def chunked(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, *, chunk: int, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in chunks of so many tokens, after `state` (empty without one): outputs, and the state behind the last token."""
    state = _empty(k, v) if state is None else state
    outputs = []
    for begin in range(0, k.shape[1], chunk):
        part = slice(begin, begin + chunk)
        read, state = _block(q[:, part], k[:, part], v[:, part], rule.part(begin, begin + chunk), state)
        outputs.append(read)
    return torch.cat(outputs, dim=1), state


def recurrent(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, *, state: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same token by token."""
    state = _empty(k, v) if state is None else state.clone()
    outputs = []
    for at in range(k.shape[1]):
        decay = None if rule.log_decay is None else rule.log_decay[:, at].exp()
        beta = None if rule.beta is None else rule.beta[:, at]
        outputs.append(step(state, q[:, at, None], k[:, at], v[:, at], decay, beta))
    return torch.cat(outputs, dim=1), state


def step(
    state: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor | None, beta: torch.Tensor | None
) -> torch.Tensor:
    """One decode step: writes k [heads, key_dim] and v [heads, value_dim] into `state`, in place, and reads it.

    q [heads, group, key_dim]: the queries of all heads that share a state; decay and beta [heads]. -> [heads, group, value_dim].
    """
    if decay is not None:
        state.mul_(decay[:, None, None])
    written = v
    if beta is not None:
        written = beta[:, None] * (v - torch.bmm(k[:, None], state)[:, 0])
    state.baddbmm_(k[:, :, None], written[:, None])
    return torch.bmm(q, state)


def _block(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, rule: Rule, state: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The parallel form of some tokens after a state: outputs, and the state behind them."""
    n = k.shape[1]
    # Differences of long sums: in float32 they would lose the digits that tell neighbours apart.
    given = torch.zeros(k.shape[:2], device=k.device) if rule.log_decay is None else rule.log_decay
    logs = given.double().cumsum(1)
    later = torch.ones(n, n, dtype=torch.bool, device=k.device).triu(1)
    # What is masked is masked before exp: of later tokens the difference is positive and may overflow.
    decays = (logs[:, :, None] - logs[:, None, :]).to(k.dtype).masked_fill(later, -torch.inf).exp()
    since = logs.to(k.dtype).exp()[:, :, None]  # of what stood in the state before
    written = v
    if rule.beta is not None:
        error = v - since * (k @ state)
        ties = rule.beta[:, :, None] * (k @ k.transpose(1, 2) * decays)  # below the diagonal: it counts as ones
        written = torch.linalg.solve_triangular(ties, rule.beta[:, :, None] * error, upper=False, unitriangular=True)
    outputs = (q @ k.transpose(1, 2) * decays) @ written + since * (q @ state)
    kept = (k * decays[:, -1, :, None]).transpose(1, 2) @ written
    return outputs, state * since[:, -1:] + kept


def _empty(k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.zeros(k.shape[0], k.shape[2], v.shape[2], dtype=k.dtype, device=k.device)
