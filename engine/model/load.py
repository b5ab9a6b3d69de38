"""Put a model together: find it, check it, read it, place it.

``load_model`` takes a name of the catalog, a .gguf file, or a Hugging Face
model directory, and gives a transformer on the wanted device with its tokenizer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import torch

from engine.errors import LabError
from engine.model.cache import cached_weights
from engine.model.card import ModelCard, describe, describe_directory, describe_gguf, find_checkpoint
from engine.model.catalog import CATALOG, DEFAULT_MODEL
from engine.model.config import ModelConfig
from engine.model.gguf import GgufFile
from engine.model.gguf_weights import GgufCheckpoint
from engine.model.layout import check_shapes, fused_tensors
from engine.model.placement import resolve_device, resolve_dtype
from engine.model.tokenizer import Tokenizer, byte_tokenizer, tokenizer_from_directory, tokenizer_from_gguf
from engine.model.transformer import Transformer, random_weights
from engine.model.weights import SafetensorsCheckpoint

__all__ = ["LoadedModel", "describe", "load_model", "load_tokenizer", "resolve_device", "resolve_dtype"]


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
        loaded = _load_directory(path, device, dtype) if path.is_dir() else _load_gguf(GgufFile(path), None, device, dtype)
    if loaded.tokenizer.vocab_size > loaded.config.vocab_size:
        raise LabError(
            "tokenizer-unsupported", path=name_or_path,
            why=f"it has {loaded.tokenizer.vocab_size} tokens and the model only {loaded.config.vocab_size}",
        )
    if pack and device == "cpu":
        loaded.transformer.pack()
    return loaded


def load_tokenizer(name_or_path: str) -> Tokenizer:
    """The tokenizer alone, in a fraction of the time. Raises as :func:`load_model`."""
    model = CATALOG.get(name_or_path)
    if model is not None and model.file is None:
        return _random_tokenizer(name_or_path, model.config)
    if model is not None:
        return _gguf_tokenizer(GgufFile(_fetched(name_or_path)), name_or_path)
    path = find_checkpoint(name_or_path)
    return tokenizer_from_directory(path, name=path.name) if path.is_dir() else _gguf_tokenizer(GgufFile(path), path.stem)


def _load_named(name: str, device: str, dtype: torch.dtype) -> LoadedModel:
    card = describe(name)
    if card.seed is None:
        return _load_gguf(GgufFile(_fetched(name)), card, device, dtype)
    _require_memory(card.config, device, dtype)
    weights = random_weights(card.config, seed=card.seed, device=device, dtype=dtype)
    tokenizer = _random_tokenizer(name, card.config)
    card = replace(card, has_chat_template=tokenizer.chat_template is not None)
    return LoadedModel(Transformer(card.config, weights), card.config, tokenizer, card)


def _load_gguf(file: GgufFile, card: ModelCard | None, device: str, dtype: torch.dtype) -> LoadedModel:
    card = card or describe_gguf(file)
    config = card.config
    tokenizer = _gguf_tokenizer(file, card.name)
    checkpoint = GgufCheckpoint(file, config)
    check_shapes(config, checkpoint)
    _require_memory(config, device, dtype)
    folder = re.sub(r"[^A-Za-z0-9._-]", "_", card.name).lstrip(".")[:80] or "model"
    weights = cached_weights(folder, card.sha256, config, dtype, lambda: fused_tensors(config, checkpoint, dtype))
    return LoadedModel(_place(config, weights.items(), device), config, tokenizer, card)


def _load_directory(path: Path, device: str, dtype: torch.dtype) -> LoadedModel:
    card = describe_directory(path)
    checkpoint = SafetensorsCheckpoint(path)
    check_shapes(card.config, checkpoint)
    tokenizer = tokenizer_from_directory(path, name=card.name)
    _require_memory(card.config, device, dtype)
    return LoadedModel(_place(card.config, fused_tensors(card.config, checkpoint, dtype), device), card.config, tokenizer, card)


def _place(config: ModelConfig, tensors, device: str) -> Transformer:
    try:
        return Transformer(config, {name: tensor.to(device) for name, tensor in tensors})
    except torch.OutOfMemoryError as error:
        raise LabError("model-out-of-memory", needed_bytes="more", device=device, free_bytes="too few") from error


def _require_memory(config: ModelConfig, device: str, dtype: torch.dtype) -> None:
    needed = config.parameter_count() * dtype.itemsize
    free = torch.cuda.mem_get_info(device)[0] if device.startswith("cuda") else psutil.virtual_memory().available
    if needed > free:
        raise LabError("model-out-of-memory", needed_bytes=needed, device=device, free_bytes=free)


def _fetched(name: str) -> Path:
    path = CATALOG[name].path()
    if path is None:
        raise LabError("model-missing", name=name)
    return path


def _gguf_tokenizer(file: GgufFile, name: str) -> Tokenizer:
    # A tokenizer.json beside the file is the original; it also serves where the file's own rule is unknown here.
    if (file.path.parent / "tokenizer.json").exists():
        return tokenizer_from_directory(file.path.parent, name=name)
    return tokenizer_from_gguf(file.fields, name=name, path=str(file.path))


def _random_tokenizer(name: str, config: ModelConfig) -> Tokenizer:
    default = CATALOG[DEFAULT_MODEL]
    path = default.path()
    if path is not None and default.config.vocab_size <= config.vocab_size:
        return _gguf_tokenizer(GgufFile(path), name)
    return byte_tokenizer(name)
