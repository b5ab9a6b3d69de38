"""Small sound checkpoints on disk, for tests that then break them."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.torch import save_file

from engine.model.config import ModelConfig
from engine.model.gguf_weights import gguf_name
from engine.model.layout import fused_layout
from engine.model.tokenizer import byte_tokenizer

SETTINGS = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 260,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 64,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "hidden_act": "silu",
}


def tensors_of(config: ModelConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """Random tensors under Hugging Face names in the shapes the configuration calls for."""
    generator = torch.Generator().manual_seed(seed)
    parts = [part for parts in fused_layout(config).values() for part in parts]
    return {part.name: torch.randn(part.shape, generator=generator) * part.shape[-1] ** -0.5 for part in parts}


def write_directory(folder: Path, *, settings: dict | None = None, tensors: dict | None = None) -> Path:
    """A Hugging Face model directory with config.json, model.safetensors and tokenizer.json."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {**SETTINGS, **(settings or {})}
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(tensors or tensors_of(ModelConfig.from_hf(settings)), folder / "model.safetensors")
    byte_tokenizer("tiny")._core.save(str(folder / "tokenizer.json"))
    return folder


def write_gguf(
    path: Path, config: ModelConfig, tensors: dict[str, torch.Tensor], *, fields: dict | None = None, extra: dict[str, np.ndarray] | None = None
) -> Path:
    """A GGUF file as llama.cpp's converter writes it: renamed, q and k with rotary pairs side by side.

    fields override metadata (None leaves a setting out); extra tensors are added as they are.
    """
    settings: dict[str, object] = {
        "llama.vocab_size": config.vocab_size,
        "llama.context_length": config.max_context,
        "llama.embedding_length": config.hidden_size,
        "llama.block_count": config.n_layers,
        "llama.feed_forward_length": config.ffn_size,
        "llama.attention.head_count": config.n_heads,
        "llama.attention.head_count_kv": config.n_kv_heads,
        "llama.attention.key_length": config.head_dim,
        "llama.rope.dimension_count": config.head_dim,
        "llama.rope.freq_base": config.rope_theta,
        "llama.attention.layer_norm_rms_epsilon": config.norm_eps,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": sorted(byte_tokenizer("tiny")._core.get_vocab()) + ["<|end|>"],
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.token_type": [1] * 256 + [3],
        "tokenizer.ggml.eos_token_id": 256,
        **(fields or {}),
    }
    if "ab" not in (tokens := settings["tokenizer.ggml.tokens"] or []):
        tokens.append("ab")
        settings["tokenizer.ggml.token_type"] = (settings["tokenizer.ggml.token_type"] or []) + [1]
    writer = gguf.GGUFWriter(path, str(settings.pop("general.architecture", "llama")))
    for key, value in settings.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        elif isinstance(value, int):
            (writer.add_int32 if value < 0 else writer.add_uint32)(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
    for name, tensor in tensors.items():
        heads = config.n_heads if ".q_proj." in name else config.n_kv_heads if ".k_proj." in name else None
        values = tensor if heads is None else neighbours(tensor, heads)
        writer.add_tensor(gguf_name(name), np.ascontiguousarray(values.float().numpy()))
    for name, array in (extra or {}).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def neighbours(rows: torch.Tensor, heads: int) -> torch.Tensor:
    """Rotary pairs half a head apart -> neighbours, as the converter does to q and k."""
    width = rows.shape[0] // heads
    return rows.view(heads, 2, width // 2, *rows.shape[1:]).transpose(1, 2).reshape(rows.shape)
