"""What a Llama-style model is: thirteen numbers and a few switches.

The architecture is that of LLaMA (Touvron et al. 2023, section 2.2): RMSNorm
before each block, rotary positions, SwiGLU; with grouped-query attention
(Ainslie et al. 2023) where ``n_kv_heads < n_heads``. No torch here, so that a
page or a listing can describe a model without loading it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from engine.errors import LabError
from engine.formulas.kv import kv_bytes_per_token
from engine.formulas.rope import RopeScaling, UnfitScaling


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a model. All sizes count elements; ``max_context`` counts tokens.

    Query head h reads the keys and values of KV head ``h // (n_heads // n_kv_heads)``.
    Raises LabError("checkpoint-config") on values that cannot be right, so an
    instance always describes a model that can be built.
    """

    vocab_size: int
    hidden_size: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    ffn_size: int
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5
    max_context: int = 2048
    tie_embeddings: bool = False
    attention_bias: bool = False
    attention_out_bias: bool = False
    mlp_bias: bool = False
    rope_scaling: RopeScaling | None = None

    def __post_init__(self) -> None:
        for field, highest in _HIGHEST.items():
            _check_int(field, getattr(self, field), highest)
        _check_float("rope_theta", self.rope_theta, 0.0, 1e12)
        _check_float("norm_eps", self.norm_eps, 0.0, 1.0)
        if self.n_heads % self.n_kv_heads:
            raise _wrong("n_kv_heads", self.n_kv_heads, f"it must divide the {self.n_heads} query heads")
        if self.head_dim % 2:
            raise _wrong("head_dim", self.head_dim, "rotary positions turn pairs of numbers, so it must be even")
        if self.rope_scaling is not None:
            try:
                self.rope_scaling.check(self.head_dim)
            except UnfitScaling as error:
                raise _wrong(error.field, error.value, error.why) from error

    # What it costs. These formulas are the lesson: every page that shows a size gets it here.

    @property
    def group_size(self) -> int:
        """Query heads that share one KV head (1 = multi-head, n_heads = multi-query)."""
        return self.n_heads // self.n_kv_heads

    @property
    def qkv_size(self) -> int:
        """Rows of the fused query, key and value matrix."""
        return (self.n_heads + 2 * self.n_kv_heads) * self.head_dim

    def kv_bytes_per_token(self, bytes_per_value: int) -> int:
        """Bytes the cache grows by with every token: 2 (K and V) x layers x KV heads x head_dim x bytes.

        The number of query heads does not occur in it: that is what GQA saves.
        """
        return kv_bytes_per_token(self.n_layers, self.n_kv_heads, self.head_dim, bytes_per_value=bytes_per_value)

    def parameter_count(self) -> int:
        """Parameters, counting tied embeddings once."""
        hidden, attention = self.hidden_size, self.n_heads * self.head_dim
        per_layer = self.qkv_size * hidden + attention * hidden + 3 * hidden * self.ffn_size + 2 * hidden
        per_layer += self.qkv_size * self.attention_bias + hidden * self.attention_out_bias
        per_layer += (2 * self.ffn_size + hidden) * self.mlp_bias
        embeddings = self.vocab_size * hidden * (1 if self.tie_embeddings else 2)
        return embeddings + self.n_layers * per_layer + hidden

    def forward_flops(self, new_tokens: int, earlier_tokens: int = 0, logit_rows: int = 1) -> int:
        """Floating-point operations of one forward over ``new_tokens`` that follow ``earlier_tokens`` cached ones.

        Two per multiply-add: matrices 2 x weights x tokens, attention
        4 x heads x head_dim x (pairs under the causal mask) per layer, and the
        head for ``logit_rows`` rows only. Norms and activations are left out
        (well under 1 %).
        """
        hidden, attention = self.hidden_size, self.n_heads * self.head_dim
        weights = self.qkv_size * hidden + attention * hidden + 3 * hidden * self.ffn_size
        pairs = new_tokens * earlier_tokens + new_tokens * (new_tokens + 1) // 2
        return (
            2 * self.n_layers * weights * new_tokens
            + 4 * self.n_layers * attention * pairs
            + 2 * self.vocab_size * hidden * logit_rows
        )

    # Where it comes from.

    @staticmethod
    def from_hf(settings: Mapping[str, object], path: str = "config.json") -> ModelConfig:
        """Read a Hugging Face ``config.json`` (already parsed).

        Raises LabError("checkpoint-architecture") for anything but Llama, and
        LabError("checkpoint-config") for settings that are missing or absurd.
        ``path`` is only for the message.
        """
        _require_llama(settings, path)
        with _named(path):
            heads = _int_of(settings, "num_attention_heads")
            hidden = _int_of(settings, "hidden_size")
            head_dim = _int_of(settings, "head_dim", None)
            if head_dim is None:
                head_dim = _whole_share(hidden, heads)
            bias = _bool_of(settings, "attention_bias")
            rope = settings.get("rope_scaling") or settings.get("rope_parameters") or {}  # theirs, where there are both
            if not isinstance(rope, Mapping):
                raise _wrong("rope_parameters", rope, "it must be a table of settings")
            theta = rope.get("rope_theta", settings.get("rope_theta", 10_000.0))
            return ModelConfig(
                vocab_size=_int_of(settings, "vocab_size"),
                hidden_size=hidden,
                n_layers=_int_of(settings, "num_hidden_layers"),
                n_heads=heads,
                n_kv_heads=_int_of(settings, "num_key_value_heads", heads),
                head_dim=head_dim,
                ffn_size=_int_of(settings, "intermediate_size"),
                rope_theta=_number("rope_theta", theta),
                norm_eps=_number("rms_norm_eps", settings.get("rms_norm_eps", 1e-6)),
                max_context=_int_of(settings, "max_position_embeddings", 2048),
                tie_embeddings=_bool_of(settings, "tie_word_embeddings"),
                attention_bias=bias,
                attention_out_bias=bias,
                mlp_bias=_bool_of(settings, "mlp_bias"),
                rope_scaling=_hf_rope_scaling(rope, settings, path),
            )

    @staticmethod
    def from_gguf(
        fields: Mapping[str, object], tensors: Collection[str], path: str = "model.gguf", rope_divisors: tuple[float, ...] = ()
    ) -> ModelConfig:
        """Read the ``llama.*`` metadata of a GGUF file.

        fields: key -> value as stored; tensors: the names in the file, which
        tell what metadata does not (tied head, biases); rope_divisors: the
        contents of ``rope_freqs.weight`` if there is one.
        Raises the same errors as :meth:`from_hf`.
        """
        architecture = fields.get("general.architecture")
        if architecture != "llama":
            raise LabError("checkpoint-architecture", path=path, architecture=architecture, why="its general.architecture must be llama")
        if fields.get("llama.expert_count"):
            raise LabError("checkpoint-architecture", path=path, architecture="llama with experts", why="mixtures of experts are not supported")
        with _named(path):
            heads = _int_of(fields, "llama.attention.head_count")
            hidden = _int_of(fields, "llama.embedding_length")
            head_dim = _int_of(fields, "llama.attention.key_length", None)
            if head_dim is None:
                head_dim = _whole_share(hidden, heads)
            for other in ("llama.attention.value_length", "llama.rope.dimension_count"):
                if _int_of(fields, other, head_dim) != head_dim:
                    raise _wrong(other, fields[other], f"only heads turned and read over their whole width ({head_dim}) are supported")
            return ModelConfig(
                vocab_size=_int_of(fields, "llama.vocab_size"),
                hidden_size=hidden,
                n_layers=_int_of(fields, "llama.block_count"),
                n_heads=heads,
                n_kv_heads=_int_of(fields, "llama.attention.head_count_kv", heads),
                head_dim=head_dim,
                ffn_size=_int_of(fields, "llama.feed_forward_length"),
                rope_theta=_number("rope.freq_base", fields.get("llama.rope.freq_base", 10_000.0)),
                norm_eps=_number("layer_norm_rms_epsilon", fields.get("llama.attention.layer_norm_rms_epsilon", 1e-5)),
                max_context=_int_of(fields, "llama.context_length"),
                tie_embeddings="output.weight" not in tensors,
                attention_bias="blk.0.attn_q.bias" in tensors,
                attention_out_bias="blk.0.attn_output.bias" in tensors,
                mlp_bias="blk.0.ffn_down.bias" in tensors,
                rope_scaling=_gguf_rope_scaling(fields, rope_divisors, path),
            )


# Far above any published model, far below what would exhaust a machine by itself.
_HIGHEST = {
    "vocab_size": 4_000_000,
    "hidden_size": 131_072,
    "n_layers": 1_024,
    "n_heads": 2_048,
    "n_kv_heads": 2_048,
    "head_dim": 4_096,
    "ffn_size": 1_048_576,
    "max_context": 1 << 31,
}


def _wrong(field: str, value: object, why: str) -> LabError:
    text = repr(value)
    return LabError("checkpoint-config", path="the model configuration", field=field, value=text if len(text) <= 80 else text[:77] + "...", why=why)


class _named:
    """Puts the file's name into a "checkpoint-config" error that knows only the setting."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, LabError) and error.code == "checkpoint-config":
            error.facts["path"] = self.path


def _check_int(field: str, value: object, highest: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(field, value, "it must be a whole number")
    if not 1 <= value <= highest:
        raise _wrong(field, value, f"it must lie between 1 and {highest}")


def _check_float(field: str, value: float, lowest: float, highest: float) -> None:
    if not (math.isfinite(value) and lowest < value < highest):
        raise _wrong(field, value, f"it must lie between {lowest:g} and {highest:g}")


_REQUIRED = object()


def _int_of(settings: Mapping[str, object], key: str, default: object = _REQUIRED) -> int:
    value = settings.get(key)
    if value is None:
        if default is _REQUIRED:
            raise _wrong(key, None, "it is missing")
        return default  # type: ignore[return-value]
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(key, value, "it must be a whole number")
    return value


def _bool_of(settings: Mapping[str, object], key: str) -> bool:
    value = settings.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(key, value, "it must be true or false")
    return value


def _number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _wrong(key, value, "it must be a number")
    try:
        return float(value)
    except OverflowError:
        raise _wrong(key, value, "it is too large") from None


def _whole_share(hidden: int, heads: int) -> int:
    if heads < 1 or hidden % heads:
        raise _wrong("num_attention_heads", heads, f"it must divide the hidden size {hidden} unless head_dim is given")
    return hidden // heads


def _require_llama(settings: Mapping[str, object], path: str) -> None:
    def refuse(architecture: object, why: str) -> LabError:
        return LabError("checkpoint-architecture", path=path, architecture=str(architecture)[:80], why=why)

    model_type = settings.get("model_type")
    if model_type != "llama":
        raise refuse(model_type, "its model_type must be llama")
    named = settings.get("architectures") or ["LlamaForCausalLM"]
    if not isinstance(named, list) or "LlamaForCausalLM" not in named:
        raise refuse(named, "it has no LlamaForCausalLM head")
    if settings.get("hidden_act", "silu") not in ("silu", "swish"):
        raise refuse("llama", f"its activation is {settings['hidden_act']}, not silu")
    if settings.get("quantization_config"):
        raise refuse("quantised llama", "its weights are packed by a quantisation tool; take the original, or a GGUF file")
    if settings.get("partial_rotary_factor", 1.0) not in (1, None):
        raise refuse("llama", "it turns only a part of each head")


def _hf_rope_scaling(rope: Mapping[str, object], settings: Mapping[str, object], path: str) -> RopeScaling | None:
    """What rope_scaling, or rope_parameters, says, by the rules and defaults of Hugging Face's `modeling_rope_utils`."""
    if rope.get("partial_rotary_factor", 1.0) not in (1, None):
        raise LabError("checkpoint-architecture", path=path, architecture="llama", why="it turns only a part of each head")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind in (None, "default"):
        return None
    # They also look for it beside the table, and take that first.
    contexts = (source.get("original_max_position_embeddings") for source in (settings, rope))
    stated = next((context for context in contexts if context is not None), None)
    longest = _int_of(settings, "max_position_embeddings", 2048)
    original = _int_of({"original_max_position_embeddings": stated}, "original_max_position_embeddings", longest)
    for name, context in (("max_position_embeddings", longest), ("original_max_position_embeddings", original)):
        _check_int(name, context, _HIGHEST["max_context"])
    match kind:
        case "linear":
            return RopeScaling("linear", factor=_number("factor", rope.get("factor")))
        case "dynamic":  # which knows no other trained length than this one
            return RopeScaling("dynamic", factor=_number("factor", rope.get("factor")), original_context=longest)
        case "llama3":
            return RopeScaling(
                "llama3",
                factor=_number("factor", rope.get("factor")),
                low_freq_factor=_number("low_freq_factor", rope.get("low_freq_factor")),
                high_freq_factor=_number("high_freq_factor", rope.get("high_freq_factor")),
                original_context=original,
            )
        case "yarn":
            factor = rope.get("factor")
            if factor is None and stated is not None:
                factor = longest / original
            truncate = True if rope.get("truncate") is None else _bool_of(rope, "truncate")
            # For all of these they take a zero for "not given".
            numbers = {name: _number(name, rope[name]) for name in _YARN_NUMBERS if rope.get(name)}
            # But not for this one.
            if rope.get("attention_factor") is not None:
                numbers["attention_factor"] = _number("attention_factor", rope["attention_factor"])
            return RopeScaling("yarn", factor=_number("factor", factor), original_context=original, truncate=truncate, **numbers)
    raise LabError("checkpoint-architecture", path=path, architecture="llama", why=f"its rope scaling '{str(kind)[:40]}' is not supported")


_YARN_NUMBERS = ("beta_fast", "beta_slow", "mscale", "mscale_all_dim")


def _gguf_rope_scaling(fields: Mapping[str, object], divisors: tuple[float, ...], path: str) -> RopeScaling | None:
    """What `llama.rope.scaling.*` says, as llama.cpp reads it; a tensor of divisors goes before it."""
    said = {key: fields.get(f"llama.rope.scaling.{key}") for key in _GGUF_ROPE}
    kind = said["type"]
    if kind not in (None, "none", "linear", "yarn"):
        raise LabError("checkpoint-architecture", path=path, architecture="llama", why=f"its rope scaling '{str(kind)[:40]}' is not supported")
    if divisors:
        return RopeScaling("factors", divisors=divisors)
    if kind in (None, "none"):
        return None
    if kind == "linear":
        return RopeScaling("linear", factor=_number("rope.scaling.factor", 1.0 if said["factor"] is None else said["factor"]))
    tuned = [key for key in _GGUF_ROPE[3:] if said[key] is not None]
    if tuned:  # read differently by different versions of llama.cpp
        raise LabError("checkpoint-architecture", path=path, architecture="llama", why=f"its yarn scaling with {tuned[0]} is not supported")
    trained = _int_of(fields, "llama.context_length")
    original = _int_of(fields, "llama.rope.scaling.original_context_length", trained)
    return RopeScaling("yarn", factor=_number("rope.scaling.factor", said["factor"]), original_context=original)


_GGUF_ROPE = (
    "type", "factor", "original_context_length",
    "attn_factor", "yarn_log_multiplier", "yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow",
)  # fmt: skip
