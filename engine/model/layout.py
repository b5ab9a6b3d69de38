"""The model's tensors: their names, their shapes, and how checkpoints' tensors become them.

Checkpoints store query, key and value (and gate and up) apart. Here they are
one matrix each, because one large product is quicker than several small ones.
The fused names below are the module paths of ``transformer.Transformer``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch

from engine.errors import LabError
from engine.model.config import ModelConfig


@dataclass(frozen=True)
class Part:
    """One tensor of a checkpoint under its Hugging Face name, and the shape the configuration calls for."""

    name: str
    shape: tuple[int, ...]


class Checkpoint(Protocol):
    """Where tensors come from: a directory of safetensors files, a GGUF file, or a dict in a test."""

    path: str

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The stored shape under a Hugging Face name, or None if it is not there. Reads no data."""

    def tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The values in ``dtype`` on the CPU. Raises LabError if they cannot be read."""


def fused_layout(config: ModelConfig) -> dict[str, list[Part]]:
    """Every tensor of the transformer -> the checkpoint tensors it is stacked from (along the first axis)."""
    hidden, ffn = config.hidden_size, config.ffn_size
    q, kv = config.n_heads * config.head_dim, config.n_kv_heads * config.head_dim
    layout = {"embedding.weight": [Part("model.embed_tokens.weight", (config.vocab_size, hidden))]}
    for i in range(config.n_layers):
        source, target = f"model.layers.{i}", f"layers.{i}"
        qkv = {f"{source}.self_attn.{name}_proj": rows for name, rows in (("q", q), ("k", kv), ("v", kv))}
        gate_up = {f"{source}.mlp.{name}_proj": ffn for name in ("gate", "up")}
        out, down = f"{source}.self_attn.o_proj", f"{source}.mlp.down_proj"
        layout[f"{target}.attention_norm"] = [Part(f"{source}.input_layernorm.weight", (hidden,))]
        layout[f"{target}.qkv.weight"] = [Part(f"{name}.weight", (rows, hidden)) for name, rows in qkv.items()]
        layout[f"{target}.out.weight"] = [Part(f"{out}.weight", (hidden, q))]
        layout[f"{target}.mlp_norm"] = [Part(f"{source}.post_attention_layernorm.weight", (hidden,))]
        layout[f"{target}.gate_up.weight"] = [Part(f"{name}.weight", (rows, hidden)) for name, rows in gate_up.items()]
        layout[f"{target}.down.weight"] = [Part(f"{down}.weight", (hidden, ffn))]
        if config.attention_bias:
            layout[f"{target}.qkv.bias"] = [Part(f"{name}.bias", (rows,)) for name, rows in qkv.items()]
        if config.attention_out_bias:
            layout[f"{target}.out.bias"] = [Part(f"{out}.bias", (hidden,))]
        if config.mlp_bias:
            layout[f"{target}.gate_up.bias"] = [Part(f"{name}.bias", (rows,)) for name, rows in gate_up.items()]
            layout[f"{target}.down.bias"] = [Part(f"{down}.bias", (hidden,))]
    layout["norm"] = [Part("model.norm.weight", (hidden,))]
    if not config.tie_embeddings:
        layout["head.weight"] = [Part("lm_head.weight", (config.vocab_size, hidden))]
    return layout


def fused_shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of the transformer -> its shape."""
    return {
        name: (sum(part.shape[0] for part in parts), *parts[0].shape[1:])
        for name, parts in fused_layout(config).items()
    }


def check_shapes(config: ModelConfig, checkpoint: Checkpoint) -> None:
    """Hold a checkpoint's tensors against its configuration, before any memory is taken for them.

    Raises LabError("checkpoint-tensor-missing") or LabError("checkpoint-tensor-shape").
    """
    for parts in fused_layout(config).values():
        for part in parts:
            found = checkpoint.shape(part.name)
            if found is None:
                raise LabError("checkpoint-tensor-missing", path=checkpoint.path, tensor=part.name)
            if found != part.shape:
                raise LabError(
                    "checkpoint-tensor-shape", path=checkpoint.path, tensor=part.name, found=list(found), expected=list(part.shape)
                )


def fused_tensors(config: ModelConfig, checkpoint: Checkpoint, dtype: torch.dtype) -> Iterator[tuple[str, torch.Tensor]]:
    """The transformer's tensors one after the other, so that at most one of them is in memory twice.

    Raises what the checkpoint raises; call :func:`check_shapes` first.
    """
    for name, parts in fused_layout(config).items():
        pieces = [checkpoint.tensor(part.name, dtype) for part in parts]
        yield name, pieces[0] if len(pieces) == 1 else torch.cat(pieces)
