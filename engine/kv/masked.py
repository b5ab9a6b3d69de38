"""The kept tokens of an evicting cache as a mask, so that a whole text can be read in a few forwards.

What token i sees in a cache of sinks and a window depends on i alone, and a key is the same before rotation whenever it
is used. So the run of a text through such a cache, token by token, equals one forward under a mask, with two groups of
scores that share a softmax (StreamingLLM, Xiao et al. 2023, section 3.2, on where positions are counted):

    window   keys (i - R, i] that are no sinks, R = window - sinks: only distances matter, and they are those of the text
    sinks    keys at cache positions 0 .. S - 1, the query turned again to where it stands in the cache, min(i, W - 1)

`Memory` is the `attend` of a text that is read in pieces of any length. It wants queries and keys *unturned*: give the
transformer position 0 for every token.
"""

import copy
from typing import Protocol

import torch

from engine.kv.eviction import Eviction, Full, Sinks
from engine.model.attention import causal_attention
from engine.model.rope import Rope, rotate
from engine.model.transformer import Transformer

# Query rows for which scores exist at once: they take rows x heads x (rows + window + sinks) numbers.
_ROWS_AT_ONCE = 256


class LayerCache(Protocol):
    """What one layer remembers of one text. Tensors are replaced, never changed in place, so that a copy is cheap."""

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """The next n tokens: q [n, heads, head_dim], k and v [n, kv_heads, head_dim], unturned -> [n, heads, head_dim]."""


class Memory:
    """The layers' caches of one text, as an `attend` function over unturned queries and keys."""

    def __init__(self, layers: list[LayerCache]) -> None:
        self.layers = layers

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return self.layers[layer].attend(q, k, v)

    def fork(self) -> "Memory":
        """A second memory of the same text, which may go on differently."""
        return Memory([copy.copy(layer) for layer in self.layers])


def memory(model: Transformer, policy: Eviction) -> Memory:
    """An empty memory that keeps what the policy keeps."""
    if isinstance(policy, Full):
        return Memory([DenseLayer(model.rope) for _ in model.layers])
    return Memory([StreamedLayer(model.rope, policy) for _ in model.layers])


class DenseLayer:
    """Everything is kept, turned by its place in the text; unturned if that angle changes as the text grows."""

    def __init__(self, rope: Rope) -> None:
        self.rope = rope
        self.keys: torch.Tensor | None = None  # [kv_heads, tokens, head_dim]
        self.values: torch.Tensor | None = None

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """As `LayerCache.attend`."""
        start = 0 if self.keys is None else self.keys.shape[1]
        self.values = joined(self.values, v.transpose(0, 1))
        if self.rope.depends_on_length:
            self.keys = joined(self.keys, k.transpose(0, 1))
            return unturned_attention(q, self.keys, self.values, start, Full(), self.rope)
        cosines, sines = self.rope.further(torch.arange(start, start + len(q), device=q.device), q.dtype)
        self.keys = joined(self.keys, rotate(k, cosines, sines).transpose(0, 1))
        return causal_attention(rotate(q, cosines, sines), self.keys, self.values, start)


class StreamedLayer:
    """The sinks and as much of the rest as the next token may still see, both unturned."""

    def __init__(self, rope: Rope, policy: Sinks) -> None:
        self.rope, self.policy = rope, policy
        self.tokens = 0
        self.keys: torch.Tensor | None = None  # [kv_heads, kept tokens in order, head_dim]
        self.values: torch.Tensor | None = None

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """As `LayerCache.attend`."""
        keys, values = joined(self.keys, k.transpose(0, 1)), joined(self.values, v.transpose(0, 1))
        out = masked_attention(q, keys, values, self.tokens, self.policy, self.rope)
        self.tokens += len(q)
        if keys.shape[1] > self.policy.window:
            keys, values = (self._last_kept(x) for x in (keys, values))
        self.keys, self.values = keys, values
        return out

    def _last_kept(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.cat((rows[:, : self.policy.sinks], rows[:, rows.shape[1] - self.policy.recent :]), dim=1)


def joined(earlier: torch.Tensor | None, new: torch.Tensor) -> torch.Tensor:
    """Rows [kv_heads, n, ...] behind earlier ones, if there are any; never a view, which would hold on to more."""
    return new.clone(memory_format=torch.contiguous_format) if earlier is None else torch.cat((earlier, new), dim=1)


def unturned_attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int, policy: Eviction, rope: Rope
) -> torch.Tensor:
    """As `masked_attention`, for either policy."""
    if isinstance(policy, Sinks):
        return masked_attention(q, keys, values, start, policy, rope)
    places = torch.arange(keys.shape[1], device=q.device)
    q = rope.turned(q.transpose(0, 1), places[start:], len(places)).transpose(0, 1)
    return causal_attention(q, rope.turned(keys, places, len(places)), values, start)


def masked_attention(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, start: int, policy: Sinks, rope: Rope
) -> torch.Tensor:
    """What n new tokens read, each from the cache as it is when that token comes.

    q [n, heads, head_dim]: tokens start .. start + n - 1 of a text, unturned; keys and values [kv_heads, kept + n,
    head_dim], unturned: what the policy kept of the first `start` tokens, in order, then the new tokens
    -> [n, heads, head_dim]. A rotation that depends on the length is that of the cache behind the last of them.
    """
    n, heads, width = q.shape
    kv_heads, group = keys.shape[0], heads // keys.shape[0]
    sinks = min(policy.sinks, start + n)
    missing = start + n - keys.shape[1]  # tokens evicted before: text positions sinks .. sinks + missing - 1
    length = policy.slots(start + n)
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    grouped_q, grouped_out = q.reshape(n, kv_heads, group, width) * width**-0.5, out.view(n, kv_heads, group, width)
    sink_keys = rope.turned(keys[:, :sinks], torch.arange(sinks, device=q.device), length)
    for begin in range(0, n, _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, n)
        first = min(max(sinks, start + begin - policy.recent + 1), start + end)  # text position of the oldest key that a row sees
        places = torch.arange(start + begin, start + end, device=q.device)
        recent = torch.arange(first, start + end, device=q.device)
        rows = grouped_q[begin:end].permute(1, 2, 0, 3)
        # Counted from the oldest key: angles stay small in a long text, and so do their rounding errors.
        window_keys = rope.turned(keys[:, first - missing : start + end - missing], recent - first, length)
        scores = torch.cat(
            (
                _scores(rope.turned(rows, places.clamp(max=policy.window - 1), length), sink_keys),
                _scores(rope.turned(rows, places - first, length), window_keys),
            ),
            dim=-1,
        )
        distance = places[:, None] - torch.cat((torch.arange(sinks, device=q.device), recent))
        hidden = distance < 0
        hidden[:, sinks:] |= distance[:, sinks:] >= policy.recent
        scores.view(kv_heads, group, end - begin, -1).masked_fill_(hidden, float("-inf"))
        seen = torch.cat((values[:, :sinks], values[:, first - missing : start + end - missing]), dim=1)
        read = torch.bmm(torch.softmax(scores, dim=-1), seen)
        grouped_out[begin:end] = read.view(kv_heads, group, end - begin, width).permute(2, 0, 1, 3)
    return out


def _scores(rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """rows [kv_heads, group, n, head_dim], keys [kv_heads, m, head_dim] -> [kv_heads, group x n, m]."""
    return torch.bmm(rows.flatten(1, 2), keys.transpose(1, 2))
