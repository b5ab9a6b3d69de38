"""Put a model together: find it, check it, read it, place it.

``load_model`` takes a name of the catalog, a .gguf file, or a Hugging Face
model directory, and gives a transformer on the wanted device with its tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from engine.errors import LabError
from engine.model.cache import cached_weights
from engine.model.card import ModelCard, describe, describe_directory, describe_gguf, find_checkpoint
from engine.model.catalog import CATALOG
from engine.model.config import ModelConfig
from engine.model.gguf import GgufFile
from engine.model.gguf_weights import GgufCheckpoint
from engine.model.layout import check_shapes, fused_tensors
from engine.model.load_tokenizer import fetched_path, gguf_tokenizer, random_tokenizer
from engine.model.placement import resolve_device, resolve_dtype
from engine.model.tokenizer import Tokenizer, tokenizer_from_directory
from engine.model.transformer import Transformer, random_weights
from engine.model.weights import SafetensorsCheckpoint

__all__ = ["LoadedModel", "describe", "load_model", "resolve_device", "resolve_dtype"]


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to compute: the transformer, what it is, how to talk to it, and its card."""

    transformer: Transformer
    config: ModelConfig
    tokenizer: Tokenizer
    card: ModelCard


def load_model(name_or_path: str, *, device: str = "cpu", dtype: torch.dtype = torch.float32, pack: bool = True) -> LoadedModel:
    """Load a model onto ``device`` ("cpu", "cuda", "cuda:1") in ``dtype``.

    pack: lay matrices out for the CPU (see ``linear``); costs their size once
    more in memory of this process, and makes decoding about twice as fast.
    Raises LabError: "model-unknown", "model-missing", "model-out-of-memory",
    "device-unknown", and the "checkpoint-..." and "tokenizer-..." codes.
    """
    device = resolve_device(device)
    if name_or_path in CATALOG:
        loaded = _load_named(name_or_path, device, dtype)
    else:
        path = find_checkpoint(name_or_path)
        loaded = _load_directory(path, None, device, dtype) if path.is_dir() else _load_gguf(GgufFile(path), None, device, dtype)
    if loaded.tokenizer.vocab_size > loaded.config.vocab_size:
        raise LabError(
            "tokenizer-unsupported", path=name_or_path,
            why=f"it has {loaded.tokenizer.vocab_size} tokens and the model only {loaded.config.vocab_size}",
        )
    if pack and device == "cpu":
        loaded.transformer.pack()
    return loaded


def _load_named(name: str, device: str, dtype: torch.dtype) -> LoadedModel:
    card = describe(name)
    if card.kind == "directory":
        return _load_directory(Path(card.path), card, device, dtype)
    if card.seed is None:
        return _load_gguf(GgufFile(fetched_path(name)), card, device, dtype)
    config = card.config
    _require_memory(config, device, dtype)
    with _memory_errors(config, device, dtype):
        transformer = Transformer(config, random_weights(config, seed=card.seed, device=device, dtype=dtype))
    tokenizer = random_tokenizer(name, config)
    return LoadedModel(transformer, config, tokenizer, replace(card, has_chat_template=tokenizer.chat_template is not None))


def _load_gguf(file: GgufFile, card: ModelCard | None, device: str, dtype: torch.dtype) -> LoadedModel:
    card = card or describe_gguf(file)
    config = card.config
    tokenizer = gguf_tokenizer(file, card.name)
    checkpoint = GgufCheckpoint(file, config)
    check_shapes(config, checkpoint)
    _require_memory(config, device, dtype)
    folder = re.sub(r"[^A-Za-z0-9._-]", "_", card.name).lstrip(".")[:80] or "model"
    weights = cached_weights(folder, card.sha256, config, dtype, lambda: fused_tensors(config, checkpoint, dtype))
    return LoadedModel(_place(config, weights.items(), device, dtype), config, tokenizer, card)


def _load_directory(path: Path, card: ModelCard | None, device: str, dtype: torch.dtype) -> LoadedModel:
    card = card or describe_directory(path)
    checkpoint = SafetensorsCheckpoint(path)
    check_shapes(card.config, checkpoint)
    tokenizer = tokenizer_from_directory(path, name=card.name)
    _require_memory(card.config, device, dtype)
    return LoadedModel(_place(card.config, fused_tensors(card.config, checkpoint, dtype), device, dtype), card.config, tokenizer, card)


def _place(config: ModelConfig, tensors: Iterable[tuple[str, torch.Tensor]], device: str, dtype: torch.dtype) -> Transformer:
    with _memory_errors(config, device, dtype):
        return Transformer(config, {name: tensor.to(device) for name, tensor in tensors})


def _require_memory(config: ModelConfig, device: str, dtype: torch.dtype) -> None:
    if config.parameter_count() * dtype.itemsize > _free_bytes(device):
        raise _out_of_memory(config, device, dtype)


@contextmanager
def _memory_errors(config: ModelConfig, device: str, dtype: torch.dtype) -> Iterator[None]:
    # Somebody else may have taken the memory since it was counted, or it may be too fragmented.
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise _out_of_memory(config, device, dtype) from error


def _out_of_memory(config: ModelConfig, device: str, dtype: torch.dtype) -> LabError:
    needed = config.parameter_count() * dtype.itemsize
    return LabError("model-out-of-memory", needed_bytes=needed, device=device, free_bytes=_free_bytes(device))


def _free_bytes(device: str) -> int:
    return torch.cuda.mem_get_info(device)[0] if device.startswith("cuda") else psutil.virtual_memory().available
