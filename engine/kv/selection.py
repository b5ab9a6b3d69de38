"""Eviction that looks at what is kept: the tokens that attention has used, chosen for every KV head by itself.

    HeavyHitters   H2O (Zhang et al. 2023, arXiv 2306.14048, section 4): half of the budget for the latest tokens, half for
                   those that have gathered the most attention since they came
    Compressed     SnapKV (Li et al. 2024, arXiv 2404.14469, section 4): the end of a prompt votes on which of the earlier
                   tokens stay; what comes after the prompt is added

Both are layer caches for `masked.Memory`, over unturned queries and keys. With grouped queries, the heads that share a KV
head share its choice: their probabilities are added.
"""

from math import gcd

import torch
from torch.nn import functional as F

from engine.kv.masked import Memory, joined
from engine.model.attention import causal_attention
from engine.model.rope import Rope
from engine.model.transformer import Transformer

# Tokens that are evicted together. Until then their places are kept free, so the budget holds at every token.
EVICT_TOGETHER = 16
# SnapKV's observation window and the width over which votes are pooled (its authors' code: 32 or 64, and 5, averaged).
OBSERVED_TOKENS = 32
POOLED_TOKENS = 5


def heavy_hitters(model: Transformer, budget: int, *, together: int | None = None) -> Memory:
    """An empty memory of `budget` tokens per KV head, two at least, which evicts `together` at a time.

    together: None takes as many as divide the budget and its half, up to 16. Raises ValueError as `HeavyHitters`.
    """
    together = together or gcd(budget, budget // 2, EVICT_TOGETHER)
    return Memory([HeavyHitters(model.rope, budget, together) for _ in model.layers])


def compressed(
    model: Transformer, prompt_tokens: int, budget: int, *, observed: int = OBSERVED_TOKENS, pooled: int = POOLED_TOKENS
) -> Memory:
    """An empty memory that is cut to `budget` tokens per KV head behind token `prompt_tokens`.

    Raises ValueError unless 1 <= observed <= budget and the pooled width is odd.
    """
    return Memory([Compressed(model.rope, prompt_tokens, budget, observed, pooled) for _ in model.layers])


class HeavyHitters:
    """At most `budget` tokens per KV head, in the order of the text; angles are counted inside the cache.

    Tokens come in groups of `together`, at text positions that are multiples of it; behind each group the cache is cut to
    budget - together. Every query of a group sees what was kept before it, and causally the group. With together = 1 this
    is H2O token by token; either way it does not matter in which pieces the text is read (but a rotation that follows the
    length is that of the end of each piece).
    Raises ValueError unless `together` divides the budget and is at most half of it.
    """

    def __init__(self, rope: Rope, budget: int, together: int = 1) -> None:
        if not 1 <= together <= budget // 2 or budget % together:
            raise ValueError(f"a budget of {budget} tokens cannot be freed by {together} at a time")
        self.rope, self.budget, self.together = rope, budget, together
        self.tokens = 0
        self.keys: torch.Tensor | None = None  # [kv_heads, kept, head_dim], as values
        self.values: torch.Tensor | None = None
        self.gathered: torch.Tensor | None = None  # float32 [kv_heads, kept]: attention received so far
        self.positions: torch.Tensor | None = None  # int64 [kv_heads, kept]: where in the text

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """As `LayerCache.attend`."""
        out, begin = [], 0
        while begin < len(q):
            end = min(begin + self.together - self.tokens % self.together, len(q))
            out.append(self._group(q[begin:end], k[begin:end], v[begin:end]))
            if self.tokens % self.together == 0 and self.keys.shape[1] > self.budget - self.together:
                self._cut()
            begin = end
        return torch.cat(out)

    def _group(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        n, kv_heads = k.shape[:2]
        new = torch.arange(self.tokens, self.tokens + n, device=q.device).expand(kv_heads, n)
        self.keys, self.values = joined(self.keys, k.transpose(0, 1)), joined(self.values, v.transpose(0, 1))
        self.positions = joined(self.positions, new)
        places = torch.arange(self.keys.shape[1], device=q.device)
        rows = self.rope.turned(_by_kv_head(q, kv_heads), places[-n:], len(places))
        probabilities = _probabilities(rows, self.rope.turned(self.keys, places, len(places)))
        received = probabilities.sum(dim=(1, 2), dtype=torch.float32)
        earlier = received.new_zeros(kv_heads, n) if self.gathered is None else F.pad(self.gathered, (0, n))
        self.gathered = earlier + received
        self.tokens += n
        return _read(probabilities.to(v.dtype), self.values)

    def _cut(self) -> None:
        room = self.budget - self.together
        recent = self.budget - self.budget // 2 - self.together  # what comes next is recent too
        heavy = room - recent
        candidates = self.keys.shape[1] - recent
        best = self.gathered[:, :candidates].topk(heavy, dim=1).indices.sort(dim=1).values
        last = torch.arange(candidates, candidates + recent, device=best.device).expand(len(best), recent)
        stay = torch.cat((best, last), dim=1)
        self.keys, self.values = _picked(self.keys, stay), _picked(self.values, stay)
        self.gathered, self.positions = self.gathered.gather(1, stay), self.positions.gather(1, stay)


class Compressed:
    """A prompt read with everything in sight, then cut to what its last `observed` tokens voted for, and those.

    Keys keep the angle of their place in the text, as in the paper: distances stay true. Queries and keys are kept turned,
    unless that angle changes as the text grows.
    """

    def __init__(self, rope: Rope, prompt_tokens: int, budget: int, observed: int, pooled: int) -> None:
        if not 1 <= observed <= budget or pooled % 2 == 0:
            raise ValueError(f"{observed} observed tokens of {budget}, votes pooled over {pooled}")
        self.rope, self.prompt_tokens = rope, prompt_tokens
        self.budget, self.observed, self.pooled = budget, observed, pooled
        self.tokens = 0
        self.queries: torch.Tensor | None = None  # [heads, n, head_dim]: the last of the prompt so far
        self.keys: torch.Tensor | None = None  # [kv_heads, kept, head_dim]
        self.values: torch.Tensor | None = None
        self.positions: torch.Tensor | None = None  # int64 [kv_heads, kept]

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """As `LayerCache.attend`; what is left of the prompt and what follows it may come in one call."""
        left = self.prompt_tokens - self.tokens
        if 0 < left < len(q):
            return torch.cat((self._part(q[:left], k[:left], v[:left]), self._part(q[left:], k[left:], v[left:])))
        return self._part(q, k, v)

    def _part(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        places = torch.arange(self.tokens, self.tokens + len(q), device=q.device)
        q, k = q.transpose(0, 1), k.transpose(0, 1)
        if not self.rope.depends_on_length:
            q, k = self.rope.turned(q, places), self.rope.turned(k, places)
        start = 0 if self.keys is None else self.keys.shape[1]
        self.keys, self.values = joined(self.keys, k), joined(self.values, v.transpose(0, 1))
        self.positions = joined(self.positions, places.expand(len(k), len(places)))
        self.tokens += len(places)
        out = causal_attention(self._now(q, places).transpose(0, 1), self._now(self.keys, self.positions), self.values, start)
        if self.tokens <= self.prompt_tokens:
            self.queries = joined(self.queries, q)[:, -self.observed :]
        if self.tokens == self.prompt_tokens and self.tokens > self.budget:
            self._cut()
        return out

    def _now(self, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Kept queries or keys at the angles of a text of this length."""
        return self.rope.turned(rows, positions, self.tokens) if self.rope.depends_on_length else rows

    def _cut(self) -> None:
        (kv_heads, tokens), observed = self.keys.shape[:2], self.observed
        earlier = tokens - observed
        rows = self._now(self.queries, self.positions[0, earlier:]).view(kv_heads, -1, observed, self.keys.shape[2])
        votes = _probabilities(rows, self._now(self.keys, self.positions))[..., :earlier].sum(dim=(1, 2), dtype=torch.float32)
        stay = pooled_choice(votes, self.budget - observed, self.pooled)
        last = torch.arange(earlier, tokens, device=stay.device).expand(kv_heads, observed)
        stay = torch.cat((stay, last), dim=1)
        self.keys, self.values = _picked(self.keys, stay), _picked(self.values, stay)
        self.positions, self.queries = self.positions.gather(1, stay), None


def pooled_choice(votes: torch.Tensor, count: int, pooled: int) -> torch.Tensor:
    """The `count` places of each row with the most votes, in order: votes [kv_heads, n] -> int64 [kv_heads, count].

    Votes are averaged over `pooled` neighbours first (beyond the ends there are none), so that a place is kept with
    what stands around it.
    """
    around = F.avg_pool1d(votes[:, None], pooled, stride=1, padding=pooled // 2)[:, 0]
    return around.topk(count, dim=1).indices.sort(dim=1).values


def _by_kv_head(q: torch.Tensor, kv_heads: int) -> torch.Tensor:
    """[n, heads, head_dim] -> [kv_heads, group, n, head_dim]."""
    n, heads, width = q.shape
    return q.reshape(n, kv_heads, heads // kv_heads, width).permute(1, 2, 0, 3)


def _probabilities(rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """The last n tokens over all m: rows [kv_heads, group, n, head_dim], keys [kv_heads, m, head_dim]
    -> float32 [kv_heads, group, n, m]."""
    n, width = rows.shape[2:]
    scores = torch.bmm((rows * width**-0.5).flatten(1, 2), keys.transpose(1, 2)).float()
    scores = scores.view(*rows.shape[:3], -1)
    m = scores.shape[-1]
    future = torch.ones(n, m, dtype=torch.bool, device=rows.device).triu_(m - n + 1)
    return torch.softmax(scores.masked_fill_(future, float("-inf")), dim=-1)


def _read(probabilities: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """[kv_heads, group, n, m] over [kv_heads, m, head_dim] -> [n, heads, head_dim]."""
    kv_heads, group, n, _ = probabilities.shape
    read = torch.bmm(probabilities.flatten(1, 2), values).view(kv_heads, group, n, -1)
    return read.permute(2, 0, 1, 3).reshape(n, kv_heads * group, -1)


def _picked(rows: torch.Tensor, stay: torch.Tensor) -> torch.Tensor:
    """Of rows [kv_heads, n, head_dim] those in `stay` [kv_heads, m]."""
    return rows.gather(1, stay[..., None].expand(*stay.shape, rows.shape[2]))
