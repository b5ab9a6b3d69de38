"""What the layers of a pasted model keep and weigh, put together from a few parts: attention, windows, MLPs, mixtures.

The layouts are those of Hugging Face transformers: windows as in the configuration classes
(models/<name>/configuration_<name>.py), parameters as in the modelling code.
"""

from dataclasses import dataclass

from engine.formulas.kv import Attention
from engine.profiles.hf_fields import REQUIRED, Fields

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"


@dataclass(frozen=True)
class Mlps:
    """All MLPs of a model. parameters: of them together; fields: what a profile says of them; left_out: parameters of the
    experts that a token does not meet, None without experts."""

    parameters: int
    fields: dict
    left_out: int | None = None


def base(f: Fields, *, vocab: object = REQUIRED, context: object = REQUIRED) -> dict:
    """The sizes that every profile has; vocab, context: what the class takes where they are not there."""
    return {
        "hidden_size": f.hidden,
        "heads": f.heads,
        "vocab_size": f.whole("vocab_size", default=vocab),
        "max_context_tokens": f.whole("max_position_embeddings", "n_positions", default=context),
    }


def attention_groups(kinds: list[str], kv_heads: int, head_dim: int, window: int | None) -> tuple[Attention, ...]:
    """Layers that attend to everything, then those with a window."""
    counts = ((kinds.count(FULL), None), (kinds.count(SLIDING) + kinds.count(CHUNKED), window))
    return tuple(Attention(layers, kv_heads, head_dim, head_dim, held) for layers, held in counts if layers)


def windowed(f: Fields, kinds: list[str], default: int | None = None, name: str = "sliding_window") -> int | None:
    """The window if any layer has one: then it must be there."""
    if not set(kinds) & {SLIDING, CHUNKED}:
        return None
    window = f.window(default, name)
    return f.whole(name) if window is None else window


def every(n: int, layers: int, one: str = FULL, others: str = SLIDING) -> list[str]:
    """Layer n, 2n, ... is the one, the rest are the others."""
    return [others if (at + 1) % n else one for at in range(layers)]


def kinds_of(f: Fields, default: list[str] | None = None) -> list[str]:
    """Of every layer, as given, else the default, else all without a window."""
    return f.kinds(default or [FULL] * f.layers, (FULL, SLIDING))


def uniform(f: Fields, default: int | None) -> tuple[list[str], int | None]:
    """One window for all layers, or none."""
    window = f.window(default)
    return kinds_of(f, [SLIDING if window else FULL] * f.layers), window


def decoder(
    f: Fields,
    *,
    kv_heads: object = None,
    head_dim: int | None = None,
    kinds: list[str] | None = None,
    window: int | None = None,
    tied: bool = False,
    qkv_bias: bool = False,
    out_bias: bool = False,
    mlp_bias: bool = False,
    gated: bool = True,
    ffn: object = REQUIRED,
    norms: int = 2,
    last_norms: int = 1,
    qk_norm: str = "",
    mlps: Mlps | None = None,
    **defaults: int,
) -> dict:
    """Layers of attention and an MLP. norms, last_norms: vectors of the hidden size in a layer's norms and the last one;
    qk_norm: "head" (one vector for all heads) or "all"; mlps: where they are no plain ones. Tied embeddings count once."""
    sizes = base(f, **defaults)
    hidden, heads, layers, dim = f.hidden, f.heads, f.layers, f.head_dim(head_dim)
    kv = f.kv_heads(kv_heads)
    kinds = kinds or kinds_of(f)
    q_size, kv_size = heads * dim, kv * dim
    attention = 2 * hidden * (q_size + kv_size) + qkv_bias * (q_size + 2 * kv_size) + out_bias * hidden
    attention += {"": 0, "head": 2 * dim, "all": q_size + kv_size}[qk_norm] + norms * hidden
    if mlps is None:
        ffn = f.whole("intermediate_size", "n_inner", default=ffn)
        one = (3 if gated else 2) * hidden * ffn + mlp_bias * ((2 if gated else 1) * ffn + hidden)
        mlps = Mlps(layers * one, {"ffn_size": ffn if gated else None})
    embeddings = (1 if f.flag("tie_word_embeddings", tied) else 2) * sizes["vocab_size"] * hidden
    parameters = embeddings + layers * attention + mlps.parameters + last_norms * hidden
    return {
        **sizes,
        **mlps.fields,
        "groups": attention_groups(kinds, kv, dim, window or windowed(f, kinds)),
        "parameters": parameters,
        "active_parameters": None if mlps.left_out is None else parameters - mlps.left_out,
    }


def mixture_of(f: Fields, experts: int, expert: int, others: int, layers: int, dense: int = 0) -> Mlps:
    """Of a model of whose layers some are mixtures. expert: parameters of one; others: of the router and of shared experts
    in such a layer; dense: of all other MLPs together. Where a token meets every expert it is no mixture."""
    per_token = f.whole("num_experts_per_tok", highest=experts)
    parameters = layers * (experts * expert + others) + dense
    if per_token == experts:
        return Mlps(parameters, {})
    return Mlps(parameters, {"experts": experts, "experts_per_token": per_token}, layers * (experts - per_token) * expert)
