"""The transformer: token ids in, logits out, everything about caches left to the caller.

A batch is *packed*: the tokens of all requests stand in one row, with no
padding, and ``positions`` says where in its own request each one is. Every
matrix product then sees all tokens of a step at once, whether they are 4,096
of one prompt or ten decodes of ten chats. Only attention needs to know which
token belongs to whom, so it is a function that the caller passes in:

    attend(layer, q, k, v) -> output
        q      [n, n_heads, head_dim]       already turned by its position
        k, v   [n, n_kv_heads, head_dim]    k already turned
        output [n, n_heads, head_dim]

The caller stores k and v where it keeps its cache and attends to what is
there; :func:`causal_attend` is the simplest such function.
Tensors passed to ``attend`` are views: keep copies, not the views.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.nn import functional as F

from engine.formulas.rope import RopeScaling
from engine.model.attention import causal_attention
from engine.model.config import ModelConfig
from engine.model.layout import fused_shapes
from engine.model.linear import Linear
from engine.model.rope import Rope, rotate

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


class Transformer(nn.Module):
    """A Llama-style decoder (Touvron et al. 2023, section 2.2), for inference only.

    weights: tensors under the names and in the shapes of ``layout.fused_shapes``,
    all of one dtype on one device; they are used as they are, not copied.
    """

    def __init__(self, config: ModelConfig, weights: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Module()
        self.embedding.register_buffer("weight", weights["embedding.weight"])
        self.layers = nn.ModuleList(Layer(config, i, weights) for i in range(config.n_layers))
        self.register_buffer("norm", weights["norm"])
        self.head = Linear(weights["embedding.weight" if config.tie_embeddings else "head.weight"])
        self.rope = Rope(config)
        self.eval()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.norm.device

    @property
    def dtype(self) -> torch.dtype:
        """What the weights and activations are."""
        return self.norm.dtype

    def pack(self) -> Transformer:
        """Lay the matrices out for this CPU (see ``linear``); call once, after loading. Returns itself."""
        for layer in self.layers:
            for matrix in (layer.qkv, layer.out, layer.gate_up, layer.down):
                matrix.pack()
        self.head.pack(keep=self.config.tie_embeddings)
        return self

    def scaled(self, scaling: RopeScaling | None) -> Transformer:
        """The same weights, shared and laid out as they are, under another stretching of the rotary frequencies.

        Raises LabError("checkpoint-config") for numbers that cannot be.
        """
        other = copy.copy(self)
        other.config = dataclasses.replace(self.config, rope_scaling=scaling)
        other.rope = Rope(other.config)
        return other

    @staticmethod
    def _length(positions: torch.Tensor) -> int:
        """Tokens of the text that these positions are, for a rotation that depends on it.

        It must be there from its first token to its last. Callers with several texts, or a part of one, give position 0
        for every token and turn by the text's length. Raises ValueError for anything else: the angles would be wrong.
        """
        highest = int(positions.max())
        if highest and not torch.equal(positions, torch.arange(len(positions), device=positions.device)):
            raise ValueError("a rotation that follows the length of the text needs all of it in one forward, or unturned keys")
        return highest + 1

    @torch.inference_mode()
    def forward(
        self, token_ids: torch.Tensor, positions: torch.Tensor, attend: Attend, logit_rows: torch.Tensor | None = None
    ) -> torch.Tensor:
        """One step over n packed tokens.

        token_ids [n] and positions [n], int64, on the model's device;
        logit_rows [m] int64 picks the tokens whose logits are wanted (None: all).
        -> logits [m, vocab_size] in the model's dtype.
        """
        return self.logits(self.hidden(token_ids, positions, attend, logit_rows))

    @torch.inference_mode()
    def hidden(
        self, token_ids: torch.Tensor, positions: torch.Tensor, attend: Attend, rows: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Everything but the head: the last hidden states [m, hidden_size] of the wanted rows, not yet normalised.

        Behind the last attention only the wanted rows are computed on; a prompt
        wants one, which saves most of the last layer's work.
        """
        x = F.embedding(token_ids, self.embedding.weight)
        length = self._length(positions) if self.rope.depends_on_length else None
        cosines, sines = self.rope.tables(positions, x.dtype, length)
        last = len(self.layers) - 1
        for i, layer in enumerate(self.layers):
            mixed = layer.attention(x, cosines, sines, attend)
            if i == last and rows is not None:
                x, mixed = x[rows], mixed[rows]
            x = layer.after_attention(x, mixed)
        return x

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Hidden states [m, hidden_size] -> logits [m, vocab_size]."""
        return self.head(F.rms_norm(hidden, (hidden.shape[-1],), self.norm, self.config.norm_eps))

    @classmethod
    def random(
        cls, config: ModelConfig, *, seed: int, device: str = "cpu", dtype: torch.dtype = torch.float32, logit_std: float = 2.0
    ) -> Transformer:
        """Random weights, drawn on the device: for tests, and for shapes whose speed matters and whose words do not.

        Every matrix keeps the variance of what goes through it, so activations
        neither vanish nor explode, and the logits spread by about ``logit_std``:
        at the customary 0.02 a wrong rotation would hardly show in them.
        The same seed gives the same weights on the same kind of device.
        """
        return cls(config, random_weights(config, seed=seed, device=device, dtype=dtype, logit_std=logit_std))


class Layer(nn.Module):
    """One block: attention and SwiGLU, each behind an RMSNorm and added to the stream."""

    def __init__(self, config: ModelConfig, index: int, weights: Mapping[str, torch.Tensor]) -> None:
        super().__init__()
        self.config, self.index = config, index
        name = f"layers.{index}."
        self.register_buffer("attention_norm", weights[name + "attention_norm"])
        self.register_buffer("mlp_norm", weights[name + "mlp_norm"])
        for matrix in ("qkv", "out", "gate_up", "down"):
            setattr(self, matrix, Linear(weights[f"{name}{matrix}.weight"], weights.get(f"{name}{matrix}.bias")))

    def attention(self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor, attend: Attend) -> torch.Tensor:
        """What the heads read, side by side: [n, hidden_size] -> [n, n_heads x head_dim]."""
        c = self.config
        n, turned = x.shape[0], c.n_heads + c.n_kv_heads
        normed = F.rms_norm(x, (c.hidden_size,), self.attention_norm, c.norm_eps)
        heads = self.qkv(normed).view(n, turned + c.n_kv_heads, c.head_dim)
        qk = rotate(heads[:, :turned], cosines, sines)
        read = attend(self.index, qk[:, : c.n_heads], qk[:, c.n_heads :], heads[:, turned:])
        return read.reshape(n, c.n_heads * c.head_dim)

    def after_attention(self, x: torch.Tensor, mixed: torch.Tensor) -> torch.Tensor:
        """The rest of the block, row by row: [m, hidden_size] and [m, n_heads x head_dim] -> [m, hidden_size]."""
        c = self.config
        x = self.out(mixed).add_(x)
        gate, up = self.gate_up(F.rms_norm(x, (c.hidden_size,), self.mlp_norm, c.norm_eps)).split(c.ffn_size, dim=-1)
        return self.down(F.silu(gate).mul_(up)).add_(x)


def causal_attend(_layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Plain causal attention of one whole sequence over itself; nothing is kept."""
    return causal_attention(q, k.transpose(0, 1), v.transpose(0, 1))


def random_weights(
    config: ModelConfig, *, seed: int, device: str = "cpu", dtype: torch.dtype = torch.float32, logit_std: float = 2.0
) -> dict[str, torch.Tensor]:
    """The tensors behind :meth:`Transformer.random`, under the names of ``layout.fused_shapes``."""
    generator = torch.Generator(device=device).manual_seed(seed)
    weights = {}
    for name, shape in fused_shapes(config).items():
        values = torch.randn(shape, generator=generator, device=device, dtype=dtype)
        if name == "embedding.weight" or name == "head.weight":
            values *= logit_std / config.hidden_size**0.5
        elif name.endswith(".weight"):
            values *= shape[1] ** -0.5
        elif name.endswith(".bias"):
            values *= 0.2
        else:  # the norms' gains: near one, but not one, so that leaving them out would show
            values.mul_(0.1).add_(1.0)
        weights[name] = values
    return weights
