"""A trained network as a Hugging Face Llama directory, complete or not there: others load it as they load any other."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import tokenizers
import torch
from safetensors.torch import save

from engine.errors import LabError
from engine.formulas.recall import BOS
from engine.model.config import ModelConfig
from engine.model.layout import fused_layout

WEIGHTS = "model.safetensors"
FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "training.json", WEIGHTS)


def write_model(
    folder: Path,
    config: ModelConfig,
    weights: Mapping[str, torch.Tensor],
    tokenizer: tokenizers.Tokenizer,
    facts: Mapping[str, object],
) -> None:
    """Write config.json, tokenizer.json, tokenizer_config.json, training.json (`facts`) and, last, the weights in fp16.

    What is there is replaced, file by file. Raises LabError("output-unwritable").
    """
    names = [part.name for parts in fused_layout(config).values() for part in parts]
    halved = {name: weights[name].detach().to(torch.float16).contiguous() for name in names}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS, "model_max_length": config.max_context}
    try:
        _write(folder / "config.json", _json(hf_settings(config, tokenizer.token_to_id(BOS))))
        _write(folder / "tokenizer.json", tokenizer.to_str(pretty=True) + "\n")
        _write(folder / "tokenizer_config.json", _json(settings))
        _write(folder / "training.json", _json(facts))
        unfinished = folder / f"{WEIGHTS}.part"
        unfinished.write_bytes(save(halved, metadata={"format": "pt"}))  # save_file would hide the file from other users
        os.replace(unfinished, folder / WEIGHTS)
    except OSError as error:
        raise LabError("output-unwritable", path=str(folder), why=error.strerror or str(error)) from error


def hf_settings(config: ModelConfig, bos_id: int) -> dict[str, object]:
    """The config.json of a Llama of this shape, without biases or stretching; `ModelConfig.from_hf` reads the same shape."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.ffn_size,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_context,
        "rope_theta": config.rope_theta,
        "rms_norm_eps": config.norm_eps,
        "hidden_act": "silu",
        "tie_word_embeddings": config.tie_embeddings,
        "bos_token_id": bos_id,
        "torch_dtype": "float16",
    }


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> None:
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_text(text, encoding="utf-8", newline="\n")
    os.replace(unfinished, path)
