"""Hugging Face's Llama as the other implementation, and the one number that compares.

Untrained models from its default initialisation would hide errors: their
logits hardly depend on positions, and a wrong theta moves them by less than
1 %. So weights here are drawn to keep the variance of what goes through them,
which gives logits a standard deviation of 1 or more, and differences are
counted in that standard deviation.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

from engine.model.config import ModelConfig
from engine.model.layout import check_shapes, fused_tensors
from engine.model.transformer import Transformer, causal_attend

TOLERANCE = 1e-4


class DictCheckpoint:
    """Tensors in memory under Hugging Face names, as a ``layout.Checkpoint``."""

    path = "memory"

    def __init__(self, tensors: Mapping[str, torch.Tensor]) -> None:
        self.tensors = tensors

    def shape(self, name):
        return tuple(self.tensors[name].shape) if name in self.tensors else None

    def tensor(self, name, dtype):
        return self.tensors[name].to(dtype)


def hf_random(seed: int, **settings) -> LlamaForCausalLM:
    """A Llama of Hugging Face with random weights that let errors show."""
    model = LlamaForCausalLM(LlamaConfig(**settings)).float().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            draw = torch.randn(parameter.shape, generator=generator)
            if "embed_tokens" in name or "lm_head" in name:
                parameter.copy_(draw * 2.0 / parameter.shape[1] ** 0.5)
            elif parameter.dim() == 2:
                parameter.copy_(draw / parameter.shape[1] ** 0.5)
            elif name.endswith("bias"):
                parameter.copy_(draw * 0.3)
            else:
                parameter.copy_(1.0 + 0.2 * draw)
    return model


def hf_from_gguf(path: Path, **settings) -> LlamaForCausalLM:
    """The model in a GGUF file as Hugging Face's own reader sees it, fp32.

    ``from_pretrained(gguf_file=...)`` wraps the same reader, but needs a package
    more. Reading takes seconds, so the settings are given and only compared with the file's.
    """
    model = LlamaForCausalLM(LlamaConfig(**settings)).float().eval()
    read = load_gguf_checkpoint(str(path), return_tensors=True, model_to_load=model)
    for name, value in settings.items():
        assert read["config"].get(name, value) == value, name
    missing, unexpected = model.load_state_dict(read["tensors"], strict=False)
    assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
    model.tie_weights()
    return model


def ours_from_hf(model: LlamaForCausalLM) -> Transformer:
    """Our transformer with the weights and configuration of a Hugging Face model."""
    config = ModelConfig.from_hf({**model.config.to_dict(), "architectures": ["LlamaForCausalLM"]})
    checkpoint = DictCheckpoint(model.state_dict())
    check_shapes(config, checkpoint)
    return Transformer(config, dict(fused_tensors(config, checkpoint, torch.float32)))


def logits_of(transformer: Transformer, ids: torch.Tensor, attend=causal_attend) -> torch.Tensor:
    """Every position's logits of one sequence, with our transformer."""
    return transformer(ids, torch.arange(len(ids)), attend)


@torch.no_grad()
def hf_logits_of(model: LlamaForCausalLM, ids: torch.Tensor) -> torch.Tensor:
    """The same with Hugging Face's."""
    return model(ids[None]).logits[0]


def difference(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """Largest difference of two logit matrices, in standard deviations of the second."""
    assert ours.shape == theirs.shape
    return ((ours - theirs).abs().max() / theirs.std()).item()
