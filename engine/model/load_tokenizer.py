"""A model's tokenizer without the model: quick, and without torch.

Whoever writes prompts needs only this.
"""

from __future__ import annotations

from pathlib import Path

from engine.errors import LabError
from engine.model.card import find_checkpoint
from engine.model.catalog import CATALOG, DEFAULT_MODEL
from engine.model.config import ModelConfig
from engine.model.gguf import GgufFile
from engine.model.tokenizer import Tokenizer, byte_tokenizer, tokenizer_from_directory, tokenizer_from_gguf


def load_tokenizer(name_or_path: str) -> Tokenizer:
    """The tokenizer alone, in a fraction of the time. Raises as :func:`load_model`."""
    model = CATALOG.get(name_or_path)
    if model is not None and model.shipped is not None:
        return tokenizer_from_directory(model.shipped, name=name_or_path)
    if model is not None and model.file is None:
        return random_tokenizer(name_or_path, model.config)
    if model is not None:
        return gguf_tokenizer(GgufFile(fetched_path(name_or_path)), name_or_path)
    path = find_checkpoint(name_or_path)
    return tokenizer_from_directory(path, name=path.name) if path.is_dir() else gguf_tokenizer(GgufFile(path), path.stem)


def fetched_path(name: str) -> Path:
    """The file of a named model. Raises LabError("model-missing")."""
    path = CATALOG[name].path()
    if path is None:
        raise LabError("model-missing", name=name)
    return path


def gguf_tokenizer(file: GgufFile, name: str) -> Tokenizer:
    """The tokenizer of an opened GGUF file."""
    # A tokenizer.json beside the file is the original; it also serves where the file's own rule is unknown here.
    if (file.path.parent / "tokenizer.json").exists():
        return tokenizer_from_directory(file.path.parent, name=name)
    return tokenizer_from_gguf(file.fields, name=name, path=str(file.path))


def random_tokenizer(name: str, config: ModelConfig) -> Tokenizer:
    """What a random model talks with: the default model's tokenizer where it is here, else bytes."""
    default = CATALOG[DEFAULT_MODEL]
    path = default.path()
    if path is not None and default.config.vocab_size <= config.vocab_size:
        return gguf_tokenizer(GgufFile(path), name)
    return byte_tokenizer(name)
