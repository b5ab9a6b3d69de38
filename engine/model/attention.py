"""Causal attention of a run of new tokens over everything up to them.

The run may be a whole prompt (nothing before it) or a chunk of one: row i of
n new tokens that follow ``start`` earlier ones sees keys 0 .. start + i. Torch's
own ``is_causal`` flag aligns its triangle at the top left, which is right for a
whole prompt only.
"""

from __future__ import annotations

from functools import cache

import torch
from torch.nn import functional as F

# Query rows of all heads of a group that are multiplied at once: enough to feed
# the matrix units, few enough that their scores stay in the processor's cache.
_ROWS_AT_ONCE = 384
# Where plain products begin to pay, each of them being a call of its own: (query, key) pairs of a run, keys of all decodes.
_FEW_PAIRS = 100_000
_FEW_KEYS = 2_048


def causal_attention(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int = 0) -> torch.Tensor:
    """Attend with the kernel that suits the device and number format.

    q [n, n_heads, head_dim]; keys and values [n_kv_heads, start + n, head_dim],
    any strides as long as a head's numbers lie side by side -> [n, n_heads, head_dim].
    Scores are scaled by 1 / sqrt(head_dim) (Vaswani et al. 2017, section 3.2.1).
    """
    n = q.shape[0]
    if n == 1:
        return decode_attention(q[0], keys, values)[None]
    if n * (start + n // 2) >= _FEW_PAIRS and _products_are_quicker(q):
        return blockwise_attention(q, keys, values, start)
    mask = None
    if start and q.device.type == "cuda":
        from torch.nn.attention.bias import causal_lower_right  # here: it brings torch.compile, a second of imports

        mask = causal_lower_right(n, start + n)
    elif start:
        seen = torch.arange(start + n, device=q.device)
        mask = seen[None, :] <= seen[start:, None]
    read = F.scaled_dot_product_attention(
        q.transpose(0, 1)[None], keys[None], values[None], attn_mask=mask, is_causal=mask is None, enable_gqa=q.shape[1] != keys.shape[0]
    )
    return read[0].transpose(0, 1)


def decode_attention(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """One new token over all keys: q [n_heads, head_dim], keys and values [n_kv_heads, keys, head_dim] -> [n_heads, head_dim]."""
    return decode_attention_together(q[None], keys[None], values[None])[0]


def decode_attention_together(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
    """One new token of each of several sequences.

    q [sequences, n_heads, head_dim]; keys and values [sequences, n_kv_heads, keys,
    head_dim], any strides; mask [sequences, 1, 1, keys] is added to the scores
    -> [sequences, n_heads, head_dim]. The heads of a group are the rows of one small matrix.
    """
    sequences, heads, width = q.shape
    n_kv_heads, tokens = keys.shape[1:3]
    grouped = q.reshape(sequences, n_kv_heads, heads // n_kv_heads, width)
    if sequences * tokens < _FEW_KEYS or not _products_are_quicker(q):
        return F.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask).reshape(q.shape)
    # A product over a batch wants its matrices evenly spaced: the keys of several sequences are copied together for it.
    scores = torch.bmm((grouped * width**-0.5).flatten(0, 1), keys.reshape(-1, tokens, width).transpose(1, 2))
    if mask is not None:
        scores.view(*grouped.shape[:3], tokens).add_(mask)
    return torch.bmm(torch.softmax(scores, dim=-1), values.reshape(-1, tokens, width)).view(q.shape)


def blockwise_attention(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int = 0) -> torch.Tensor:
    """The same with plain matrix products, a block of rows after the other.

    Keys that a whole block cannot see are never touched, so only the small
    triangle on the diagonal needs a mask, for a chunk exactly as for a prompt.
    The heads of a group are rows of one product over the keys they share.
    """
    n, heads, width = q.shape
    kv_heads, group = keys.shape[0], heads // keys.shape[0]
    block = max(32, _ROWS_AT_ONCE // group)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    grouped_q, grouped_out = q.view(n, kv_heads, group, width), out.view(n, kv_heads, group, width)
    future = torch.full((block, block), float("-inf"), dtype=q.dtype, device=q.device).triu_(1)
    across = keys.transpose(1, 2)
    for begin in range(0, n, block):
        end = min(begin + block, n)
        m, seen = end - begin, start + end
        rows = grouped_q[begin:end].permute(1, 2, 0, 3).reshape(kv_heads, group * m, width) * width**-0.5
        scores = torch.bmm(rows, across[:, :, :seen])
        scores.view(kv_heads, group, m, seen)[..., seen - m :].add_(future[:m, :m])
        read = torch.bmm(torch.softmax(scores, dim=-1), values[:, :seen])
        grouped_out[begin:end] = read.view(kv_heads, group, m, width).permute(2, 0, 1, 3)
    return out


def _products_are_quicker(q: torch.Tensor) -> bool:
    """Whether plain products beat torch's fused kernel.

    On CPUs with AVX-512 BF16 but no AMX the fused kernel computes bf16 at fp32
    speed. Measured on a 2-core Zen 4: prompts of 512 to 4,096 tokens, and chunks
    of them, are 1.1 to 1.6 times as fast with products, ten decodes over 500 keys each 1.2 to 1.6 times.
    """
    return q.dtype == torch.bfloat16 and q.device.type == "cpu" and _bf16_without_amx()


@cache
def _bf16_without_amx() -> bool:
    has = {name: getattr(torch.cpu, f"_is_{name}_supported", lambda: False)() for name in ("amx_tile", "avx512_bf16")}
    return has["avx512_bf16"] and not has["amx_tile"]
