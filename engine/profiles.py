"""Models and devices as published, one TOML file each in `profiles/`, every number with its source. No torch.

They are for computing with what is not here; what is here is measured instead.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

from engine.errors import LabError
from engine.formulas.flops import attention_flops, matrix_flops, matrix_parameters
from engine.formulas.kv import kv_bytes_per_token

PROFILES_DIR = Path(__file__).resolve().parents[1] / "profiles"
_WORDS = ("name", "title")


@dataclass(frozen=True)
class ModelProfile:
    """The shape of a dense Llama-style model. parameters: all of them, tied embeddings counted once.

    sources: where each number is from, by its name.
    """

    name: str
    title: str
    parameters: int
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    max_context_tokens: int
    sources: Mapping[str, str]

    @property
    def matrix_parameters(self) -> int:
        """Without embedding and head."""
        return matrix_parameters(
            self.layers, self.hidden_size, self.heads, self.kv_heads, self.head_dim, self.ffn_size
        )

    def matrix_flops(self, tokens: int) -> int:
        """Of a prefill of so many tokens."""
        return matrix_flops(self.matrix_parameters, tokens)

    def attention_flops(self, tokens: int, *, causal: bool = True) -> int:
        """Of a prefill of so many tokens."""
        return attention_flops(self.layers, self.heads, self.head_dim, tokens, causal=causal)

    def prefill_flops(self, tokens: int) -> int:
        """Matrices and causal attention."""
        return self.matrix_flops(tokens) + self.attention_flops(tokens)

    def kv_bytes_per_token(self, bytes_per_value: int = 2) -> int:
        return kv_bytes_per_token(self.layers, self.kv_heads, self.head_dim, bytes_per_value=bytes_per_value)

    def weight_bytes(self, bytes_per_value: int = 2) -> int:
        return self.parameters * bytes_per_value


@dataclass(frozen=True)
class DeviceProfile:
    """A GPU by its datasheet. bf16_flops_per_s: dense, without sparsity. nominal_bytes: what it is sold as;
    usable_bytes: what its driver reports. sources: where each number is from, by its name."""

    name: str
    title: str
    bf16_flops_per_s: float
    nominal_bytes: int
    usable_bytes: int
    memory_bytes_per_s: float
    sources: Mapping[str, str]


@cache
def models() -> dict[str, ModelProfile]:
    """All models by name, smallest first. Raises LabError("profile-broken")."""
    return _read_all("models", ModelProfile, lambda model: model.parameters)


@cache
def devices() -> dict[str, DeviceProfile]:
    """All devices by name, quickest first. Raises LabError("profile-broken")."""
    return _read_all("devices", DeviceProfile, lambda device: -device.bf16_flops_per_s)


def model(name: str) -> ModelProfile:
    """Raises LabError("profile-unknown" or "profile-broken")."""
    return _named(models(), name)


def device(name: str) -> DeviceProfile:
    """Raises LabError("profile-unknown" or "profile-broken")."""
    return _named(devices(), name)


def _named(known: dict, name: str):
    if name not in known:
        raise LabError("profile-unknown", name=str(name)[:80], known=", ".join(known))
    return known[name]


def _read_all(folder: str, cls, key) -> dict:
    found = [_read(path, cls) for path in sorted((PROFILES_DIR / folder).glob("*.toml"))]
    return {profile.name: profile for profile in sorted(found, key=key)}


def _read(path: Path, cls):
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        profile = cls(**data)
        why = _what_is_wrong(profile, path.stem)
    except (OSError, ValueError, TypeError) as error:
        why = str(error)
    if why:
        raise LabError("profile-broken", path=f"{path.parent.name}/{path.name}", why=why[:200])
    return profile


def _what_is_wrong(profile, stem: str) -> str | None:
    """Every number is positive and of its kind, and has a source; no source is of something else."""
    numbers = {field.name: field.type for field in fields(profile) if field.name not in (*_WORDS, "sources")}
    for name, kind in numbers.items():
        value = getattr(profile, name)
        if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)) or not 0 < value < 1e24:
            return f"{name} must be a {'whole ' if kind is int else ''}number above 0"
    for name in _WORDS:
        if not isinstance(getattr(profile, name), str) or not getattr(profile, name).strip():
            return f"{name} must be a word"
    if profile.name != stem:
        return f"its name must be that of the file, {stem}"
    if not isinstance(profile.sources, dict) or set(profile.sources) != set(numbers):
        return f"sources must name each of: {', '.join(numbers)}"
    if not all(isinstance(source, str) and source.strip() for source in profile.sources.values()):
        return "a source must be a sentence"
    return None
