"""What can be said about a model without loading it. No torch here.

A card goes into the list of models and into the manifest of every result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.errors import LabError
from engine.model.catalog import CATALOG, CatalogModel
from engine.model.config import ModelConfig
from engine.model.digests import directory_digest, file_digest
from engine.model.files import inside, read_json
from engine.model.gguf import GgufFile
from engine.model.headers import read_header, weight_files

_MOST_CONFIG_BYTES = 1 << 20


@dataclass(frozen=True)
class ModelCard:
    """A model in words and numbers.

    kind: "gguf", "directory" or "random"; path: where its weights are, None for
    random ones and for those not fetched yet; sha256: of the weights' files (for random ones:
    of the shape and seed); ready: whether it can be loaded now.
    """

    name: str
    title: str
    kind: str
    config: ModelConfig
    sha256: str
    source: str
    licence: str
    quantization: str
    languages: tuple[str, ...]
    has_chat_template: bool
    ready: bool
    path: str | None = None
    seed: int | None = None

    def as_dict(self, bytes_per_value: int = 2) -> dict[str, object]:
        """For a result's manifest; kv_bytes_per_token for keys and values of ``bytes_per_value`` bytes each."""
        return {
            "name": self.name,
            "title": self.title,
            "sha256": self.sha256,
            "source": self.source,
            "licence": self.licence,
            "quantization": self.quantization,
            "parameters": self.config.parameter_count(),
            "kv_bytes_per_token": self.config.kv_bytes_per_token(bytes_per_value),
            "layers": self.config.n_layers,
            "max_context_tokens": self.config.max_context,
            "languages": list(self.languages),
            "random": self.seed is not None,
        }


def list_models() -> list[ModelCard]:
    """The cards of all models the lab knows by name, fetched or not."""
    return [_named_card(model) for model in CATALOG.values()]


def describe(name_or_path: str) -> ModelCard:
    """The card of a named model, a .gguf file or a Hugging Face model directory.

    Raises LabError: "model-unknown", the "checkpoint-..." codes for files that
    are no sound Llama model. A named model that has not been fetched is
    described with ``ready=False``.
    """
    if name_or_path in CATALOG:
        return _named_card(CATALOG[name_or_path])
    path = find_checkpoint(name_or_path)
    return describe_directory(path) if path.is_dir() else describe_gguf(GgufFile(path))


def find_checkpoint(name_or_path: str) -> Path:
    """The existing .gguf file or directory meant. Raises "model-unknown", "checkpoint-not-a-model" or "checkpoint-pickle"."""
    path = Path(name_or_path).expanduser()
    try:
        is_directory, is_file = path.is_dir(), path.is_file()
    except (OSError, ValueError):
        is_directory = is_file = False
    if is_directory or is_file and path.suffix.lower() == ".gguf":
        return path
    if is_file and path.suffix.lower() in (".bin", ".pt", ".pth", ".ckpt", ".pkl"):
        raise LabError("checkpoint-pickle", path=str(path.parent), file=path.name)
    if is_file:
        raise LabError("checkpoint-not-a-model", path=str(path), why="a single file must be a .gguf file")
    raise LabError("model-unknown", name=name_or_path[:200], known=", ".join(CATALOG))


def describe_gguf(file: GgufFile) -> ModelCard:
    """The card of an opened GGUF file; reads its tables and, the first time, hashes it."""
    if file.fields.get("split.count", 0) not in (0, 1):
        raise LabError("checkpoint-not-a-model", path=str(file.path), why="it is one part of a split file; join the parts with llama-gguf-split --merge")
    languages = file.fields.get("general.languages")
    return ModelCard(
        name=file.path.stem,
        title=str(file.fields.get("general.name", file.path.stem))[:120],
        kind="gguf",
        config=gguf_config(file),
        sha256=file_digest(file.path),
        source="local file",
        licence=str(file.fields.get("general.license", "not stated"))[:80],
        quantization=_gguf_label(file),
        languages=tuple(str(language)[:16] for language in languages[:64]) if isinstance(languages, list) else (),
        has_chat_template=isinstance(file.fields.get("tokenizer.chat_template"), str),
        ready=True,
        path=str(file.path),
    )


def describe_directory(directory: Path) -> ModelCard:
    """The card of a Hugging Face model directory; reads its settings and, the first time, hashes its files."""
    settings = directory_settings(directory)
    files = weight_files(directory)
    stored = {kind for file in files for _, kind in read_header(file).values()}
    return ModelCard(
        name=directory.resolve().name,
        title=directory.resolve().name,
        kind="directory",
        config=ModelConfig.from_hf(settings, str(directory / "config.json")),
        sha256=directory_digest([directory / "config.json", *files]),
        source="local directory",
        licence="not stated",
        quantization="none, " + "/".join(sorted(stored)),
        languages=(),
        has_chat_template=_directory_has_template(directory),
        ready=True,
        path=str(directory),
    )


def directory_settings(directory: Path) -> Mapping[str, object]:
    """The parsed ``config.json``. Raises "checkpoint-not-a-model" or "checkpoint-unreadable"."""
    if not (directory / "config.json").exists():
        raise LabError("checkpoint-not-a-model", path=str(directory), why="it has no config.json")
    settings = read_json(inside(directory, "config.json"), _MOST_CONFIG_BYTES)
    if not isinstance(settings, dict):
        raise LabError("checkpoint-unreadable", path=str(directory / "config.json"), why="it is not a table of settings")
    return settings


def gguf_config(file: GgufFile) -> ModelConfig:
    """The configuration of an opened GGUF file, stretched frequencies included."""
    divisors: tuple[float, ...] = ()
    if "rope_freqs.weight" in file.tensors:
        divisors = tuple(float(v) for chunk in file.chunks("rope_freqs.weight") for v in chunk.ravel())
    fields = file.fields
    if "llama.vocab_size" not in fields and "token_embd.weight" in file.tensors:
        fields = {**fields, "llama.vocab_size": file.tensors["token_embd.weight"].shape[0]}
    return ModelConfig.from_gguf(fields, file.tensors, str(file.path), divisors)


def _named_card(model: CatalogModel) -> ModelCard:
    path = model.path()
    return ModelCard(
        name=model.name,
        title=model.title,
        kind="gguf" if model.file else "directory" if model.shipped else "random",
        config=model.config,
        sha256=_named_digest(model),
        source=model.source,
        licence=model.licence,
        quantization=model.quantization,
        languages=model.languages,
        has_chat_template=model.has_chat_template,
        ready=model.ready,
        path=str(path) if path else None,
        seed=model.seed,
    )


def _named_digest(model: CatalogModel) -> str:
    if model.file:
        return model.file.sha256
    if model.shipped:
        return directory_digest([model.shipped / "config.json", *weight_files(model.shipped)])
    return hashlib.sha256(f"{model.config} seed={model.seed}".encode()).hexdigest()


def _gguf_label(file: GgufFile) -> str:
    label = file.quantization_label()
    return f"none, {label}" if label in ("F32", "F16", "BF16") else f"{label}, dequantised"


def _directory_has_template(directory: Path) -> bool:
    if (directory / "chat_template.jinja").exists():
        return True
    if not (directory / "tokenizer_config.json").exists():
        return False
    settings = read_json(inside(directory, "tokenizer_config.json"))
    return isinstance(settings, dict) and bool(settings.get("chat_template"))
