"""Models by their published shapes: what their layers keep, what they weigh, what they compute."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.formulas import kv
from engine.formulas.flops import attention_flops, matrix_flops, matrix_parameters
from engine.formulas.kv import Attention, Group, KvBytes, Latent, Recurrent
from engine.profiles.read import check_names, check_numbers, check_sources, check_words

_WORDS = ("name", "title", "repo", "model_type")
_NUMBERS = ("parameters", "hidden_size", "heads", "vocab_size", "max_context_tokens")
_OF_EXPERTS = ("experts", "experts_per_token", "active_parameters")
_UNCOMPRESSED = ("uncompressed_key_dim", "uncompressed_value_dim")
_OPTIONAL = ("ffn_size", *_OF_EXPERTS, *_UNCOMPRESSED)
_GROUPS = {  # kind: its class, what must be given, what may be
    "attention": (Attention, ("kv_heads", "key_dim"), ("value_dim", "window")),
    "latent": (Latent, ("rank", "rope_dim"), ()),
    "recurrent": (Recurrent, ("state_values",), ()),
}


@dataclass(frozen=True)
class ModelProfile:
    """The shape of a model.

    name: of its file, or of what was pasted; repo: on Hugging Face ("" if pasted); model_type: as its config.json says.
    parameters: all of them, tied embeddings counted once; None where a pasted configuration does not let them be counted.
    heads: query heads. max_context_tokens: None only where a pasted configuration states no limit.
    groups: what the layers keep. A layer that keeps K and V beside a state is in two groups, one that keeps nothing in none.
    ffn_size: of a gated MLP (three matrices of hidden_size x ffn_size); None where the MLP is another one.
    experts, experts_per_token, active_parameters: of a mixture of experts, routed ones; else None.
    uncompressed_key_dim, uncompressed_value_dim: of a latent's heads, what each of them would keep without it; else None.
    sources: where each number is from, by its name; "layers" is for all groups.
    """

    name: str
    title: str
    repo: str
    model_type: str
    parameters: int | None
    hidden_size: int
    heads: int
    vocab_size: int
    max_context_tokens: int | None
    groups: tuple[Group, ...]
    ffn_size: int | None = None
    experts: int | None = None
    experts_per_token: int | None = None
    active_parameters: int | None = None
    uncompressed_key_dim: int | None = None
    uncompressed_value_dim: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def layers(self) -> int:
        """Layers that keep something, those that keep both K and V and a state twice."""
        return sum(group.layers for group in self.groups)

    @property
    def dense(self) -> bool:
        """Whether it is Llama-style: every layer the same attention over everything and the same gated MLP."""
        first = self.groups[0]
        plain = isinstance(first, Attention) and first.window is None and first.key_dim == first.value_dim
        return len(self.groups) == 1 and plain and self.ffn_size is not None and self.experts is None

    @property
    def kv_heads(self) -> int:
        """Of a dense one."""
        return self.groups[0].kv_heads

    @property
    def head_dim(self) -> int:
        """Of a dense one."""
        return self.groups[0].key_dim

    @property
    def attention_kind(self) -> str:
        """mha, gqa, mqa, mla, sliding (some layers hold a window), hybrid (some keep a state) or state (all do, and nothing else)."""
        if all(isinstance(group, Recurrent) for group in self.groups):
            return "state"
        if any(isinstance(group, Recurrent) for group in self.groups):
            return "hybrid"
        if any(getattr(group, "window", None) for group in self.groups):
            return "sliding"
        if any(isinstance(group, Latent) for group in self.groups):
            return "mla"
        kv_heads = {group.kv_heads for group in self.groups}
        return "mha" if kv_heads == {self.heads} else "mqa" if kv_heads == {1} else "gqa"

    @property
    def matrix_parameters(self) -> int:
        """Without embedding and head. Of a dense one."""
        return matrix_parameters(self.layers, self.hidden_size, self.heads, self.kv_heads, self.head_dim, self.ffn_size)

    def matrix_flops(self, tokens: int) -> int:
        """Of a prefill of so many tokens. Of a dense one."""
        return matrix_flops(self.matrix_parameters, tokens)

    def attention_flops(self, tokens: int, *, causal: bool = True) -> int:
        """Of a prefill of so many tokens. Of a dense one."""
        return attention_flops(self.layers, self.heads, self.head_dim, tokens, causal=causal)

    def prefill_flops(self, tokens: int) -> int:
        """Matrices and causal attention. Of a dense one."""
        return self.matrix_flops(tokens) + self.attention_flops(tokens)

    def kv_bytes(self, tokens: int, dtype: str = "bf16") -> KvBytes:
        """Of one sequence; dtype: one of engine.formulas.kv.KV_DTYPES."""
        return kv.kv_bytes(self.groups, tokens, dtype)

    def state_bytes(self, dtype: str = "bf16") -> int:
        """Of one sequence's recurrent states."""
        return kv.state_bytes(self.groups, dtype)

    def kv_bytes_per_token(self, bytes_per_value: int = 2) -> int:
        """What a token adds while every window still has room; no scales."""
        return self.kv_bytes(1, "fp8").payload * bytes_per_value

    def weight_bytes(self, bytes_per_value: int = 2) -> int | None:
        return None if self.parameters is None else self.parameters * bytes_per_value

    def weight_bytes_read(self, batch: int, bytes_per_value: int = 2) -> int | None:
        """What one decode step of so many sequences reads of the weights.

        Of a mixture of E experts, k per token, a token leaves one out with 1 - k/E, so the batch reads the share
        1 - (1 - k/E)^batch of them, if tokens choose evenly and apart. All experts together weigh
        (parameters - active) / (1 - k/E). None where the weights (or the active ones) could not be counted.
        """
        if self.parameters is None or (self.experts is not None and self.active_parameters is None):
            return None
        if self.experts is None:
            return self.parameters * bytes_per_value
        left_out = 1 - self.experts_per_token / self.experts
        in_experts = (self.parameters - self.active_parameters) / left_out
        return round((self.parameters - in_experts * left_out**batch) * bytes_per_value)


def model_of(table: Mapping) -> ModelProfile:
    """From a TOML table. Raises ValueError with what is wrong."""
    check_names(table, (*_WORDS, *_NUMBERS, "layers", "sources"), _OPTIONAL)
    check_words(table, _WORDS)
    check_numbers(table, whole=(*_NUMBERS, *_OPTIONAL))
    check_sources(table, (*_NUMBERS, *_OPTIONAL, "layers"))
    _check_experts(table)
    rest = {name: value for name, value in table.items() if name != "layers"}
    return ModelProfile(**rest, groups=_groups_of(table["layers"]))


def _check_experts(table: Mapping) -> None:
    given = [name for name in _OF_EXPERTS if name in table]
    if given and len(given) < len(_OF_EXPERTS):
        raise ValueError(f"a mixture of experts needs each of: {', '.join(_OF_EXPERTS)}")
    if given and not (table["experts_per_token"] < table["experts"] and table["active_parameters"] < table["parameters"]):
        raise ValueError("experts_per_token must be below experts, and active_parameters below parameters")


def _groups_of(layers: object) -> tuple[Group, ...]:
    if not isinstance(layers, list) or not layers or not all(isinstance(entry, dict) for entry in layers):
        raise ValueError("layers must be given as [[layers]]")
    return tuple(_group_of(entry, f" (entry {at} of layers)") for at, entry in enumerate(layers, 1))


def _group_of(entry: Mapping, where: str) -> Group:
    if str(entry.get("kind")) not in _GROUPS:
        raise ValueError(f"kind must be one of: {', '.join(_GROUPS)}{where}")
    cls, needed, optional = _GROUPS[str(entry["kind"])]
    check_names(entry, ("count", "kind", *needed), optional, where)
    check_numbers(entry, whole=("count", *needed, *optional), where=where)
    sizes = {name: value for name, value in entry.items() if name not in ("count", "kind")}
    if cls is Attention:
        sizes.setdefault("value_dim", sizes["key_dim"])
    return cls(layers=entry["count"], **sizes)
