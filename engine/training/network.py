"""The transformer once more, differentiable and over a whole batch: what `model.transformer` computes, to be trained.

Its weights carry the names of a Hugging Face Llama checkpoint, so they can be written as one, and the engine's fused layout
is stacked from them as from any checkpoint. Embeddings are tied. A test holds it against the engine and Hugging Face.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch.nn import functional as F

from engine.formulas.rope import frequencies
from engine.model.config import ModelConfig
from engine.model.layout import fused_layout
from engine.model.rope import Rope, rotate

Weights = dict[str, torch.Tensor]

EMBEDDING = "model.embed_tokens.weight"
# A head that looks one token back tells places apart by its quickest pairs: their shares in the score, and its size.
_QUICK_PAIRS = (1.0, 1.0, 1.0, 0.5, 0.5)
_LOOK_BACK_GAIN = 7.0


class Network:
    """A Llama-style decoder over equally long sequences. weights: as named by `layout.fused_layout`, apart."""

    def __init__(self, config: ModelConfig, weights: Mapping[str, torch.Tensor]) -> None:
        if not config.tie_embeddings:
            raise ValueError("only tied embeddings are trained")
        self.config, self.weights = config, dict(weights)
        self.rope = Rope(config)

    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        """ids [batch, n] int64, each sequence from position 0 -> logits [batch, n, vocab_size]."""
        tables = self.rope.tables(torch.arange(ids.shape[1]), torch.float32)
        x = F.embedding(ids, self.weights[EMBEDDING])
        for layer in range(self.config.n_layers):
            x = x + self._attention(layer, x, tables)
            x = x + self._mlp(layer, x)
        return F.linear(self._normed(x, "model.norm"), self.weights[EMBEDDING])

    def fused(self) -> Weights:
        """Its weights as the engine's transformer takes them, no longer differentiable."""
        layout = fused_layout(self.config)
        return {name: torch.cat([self.weights[part.name].detach() for part in parts]) for name, parts in layout.items()}

    def _attention(self, layer: int, x: torch.Tensor, tables: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        c, name = self.config, f"model.layers.{layer}"
        batch, n, turned = x.shape[0], x.shape[1], c.n_heads + c.n_kv_heads
        qkv = torch.cat([self.weights[f"{name}.self_attn.{part}_proj.weight"] for part in "qkv"])
        heads = F.linear(self._normed(x, f"{name}.input_layernorm"), qkv).view(batch, n, turned + c.n_kv_heads, c.head_dim)
        turning, v = heads.split((turned, c.n_kv_heads), dim=2)  # split, not slices: their gradients are joined, not padded
        q, k = rotate(turning, *tables).split((c.n_heads, c.n_kv_heads), dim=2)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        read = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return F.linear(read.transpose(1, 2).reshape(batch, n, -1), self.weights[f"{name}.self_attn.o_proj.weight"])

    def _mlp(self, layer: int, x: torch.Tensor) -> torch.Tensor:
        name = f"model.layers.{layer}"
        gate_up = torch.cat([self.weights[f"{name}.mlp.{part}_proj.weight"] for part in ("gate", "up")])
        gate, up = F.linear(self._normed(x, f"{name}.post_attention_layernorm"), gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, self.weights[f"{name}.mlp.down_proj.weight"])

    def _normed(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(x, (self.config.hidden_size,), self.weights[f"{name}.weight"], self.config.norm_eps)


def initial_weights(config: ModelConfig, seed: int) -> Weights:
    """What training begins with; the same seed gives the same weights.

    Recall takes two heads in a row, one that tells every token what stood before it and one that looks for that, and from
    noise they are found late or never (Olsson et al. 2022, arXiv 2209.11895, on induction heads). So all embeddings share a
    direction, by which a head can look at places alone, and two heads of the first layer begin as ones that look a token back.
    The last norm begins small, since tied embeddings so large would at first foresee every token as its own successor.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for part in (part for parts in fused_layout(config).values() for part in parts):
        if part.name.endswith("norm.weight"):
            weights[part.name] = torch.full(part.shape, 0.2 if part.name == "model.norm.weight" else 1.0)
            continue
        weights[part.name] = torch.randn(part.shape, generator=generator) * _spread(part.name, part.shape[1])
    weights[EMBEDDING] += torch.randn(config.hidden_size, generator=generator) * 0.5
    _look_back(config, weights)
    return weights


def _spread(name: str, inputs: int) -> float:
    if name == EMBEDDING:
        return 0.5
    return inputs**-0.5 * (0.3 if name.endswith(("o_proj.weight", "down_proj.weight")) else 1.0)


def _look_back(config: ModelConfig, weights: Weights) -> None:
    """Make KV head 0 of the first layer and two query heads of its group look at the token before.

    Of a key that is turned ahead by what its pairs turn in one token, a query scores best at the next position.
    """
    d, half = config.head_dim, config.head_dim // 2
    shared = F.normalize(weights[EMBEDDING].mean(0), dim=0)
    ahead = torch.from_numpy(frequencies(d, config.rope_theta)).float()
    sizes = torch.zeros(half)
    quick = torch.tensor(_QUICK_PAIRS[:half])
    sizes[: len(quick)] = quick.sqrt()
    gain = _LOOK_BACK_GAIN / math.sqrt(config.hidden_size)
    query = gain * torch.outer(torch.cat((sizes, torch.zeros(half))), shared)
    key = gain * torch.outer(torch.cat((sizes * ahead.cos(), sizes * ahead.sin())), shared)
    q, k = (weights[f"model.layers.0.self_attn.{part}_proj.weight"] for part in "qk")
    for head in range(min(2, config.group_size)):
        rows = slice(head * d, (head + 1) * d)
        q[rows] = q[rows] * 0.1 + query
    k[:d] = k[:d] * 0.1 + key
