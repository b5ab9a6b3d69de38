"""The tensors of a GGUF file, under Hugging Face names and in Hugging Face order.

Converting a checkpoint to GGUF renames its tensors and re-orders the rows of
the query and key projections, so that rotary pairs are neighbours (2i, 2i + 1).
Both are undone here: what comes out can be held against the original.
"""

from __future__ import annotations

import re
from math import prod

import numpy as np
import torch

from engine.model.config import ModelConfig
from engine.model.gguf import GgufFile

_TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_IN_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


class GgufCheckpoint:
    """A ``layout.Checkpoint`` over an opened GGUF file."""

    def __init__(self, file: GgufFile, config: ModelConfig) -> None:
        self.path = str(file.path)
        self._file, self._config = file, config

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The stored shape, or None. Reads no data."""
        info = self._file.tensors.get(gguf_name(name))
        return info.shape if info else None

    def tensor(self, name: str, dtype: torch.dtype) -> torch.Tensor:
        """The dequantised values. Raises LabError("checkpoint-tensor-type") for unknown block formats."""
        source = gguf_name(name)
        shape = self._file.tensors[source].shape
        values = torch.empty(prod(shape[:-1]), shape[-1], dtype=dtype)
        row = 0
        for chunk in self._file.chunks(source):
            values[row : row + len(chunk)] = torch.from_numpy(np.array(chunk, dtype=np.float32))
            row += len(chunk)
        values = values.view(shape)
        heads = {"attn_q": self._config.n_heads, "attn_k": self._config.n_kv_heads}.get(source.split(".")[-2])
        return values if heads is None else halves_apart(values, heads)


def gguf_name(name: str) -> str:
    """"model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight"."""
    stem, _, kind = name.rpartition(".")
    if stem in _TOP:
        return f"{_TOP[stem]}.{kind}"
    layer = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", stem)
    return f"blk.{layer[1]}.{_IN_LAYER[layer[2]]}.{kind}"


def halves_apart(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rows of q or k with rotary pairs as neighbours -> pairs half a head apart; works for weights and biases."""
    width = rows.shape[0] // heads
    return rows.view(heads, width // 2, 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)
