"""What a config.json says of models whose layers all attend: one short function per architecture.

Each gives the fields of a ModelProfile. The defaults are those of the configuration classes in Hugging Face transformers
(models/<name>/configuration_<name>.py).
"""

from engine.formulas.kv import Latent
from engine.profiles.hf_fields import REQUIRED, Fields
from engine.profiles.hf_layers import (
    CHUNKED,
    FULL,
    SLIDING,
    Mlps,
    attention_groups,
    base,
    decoder,
    every,
    kinds_of,
    mixture_of,
    uniform,
    windowed,
)


def llama(f: Fields) -> dict:
    """And granite: biases only if it says so."""
    bias = f.flag("attention_bias", False)
    return decoder(f, qkv_bias=bias, out_bias=bias, mlp_bias=f.flag("mlp_bias", False))


def mistral(f: Fields) -> dict:
    kinds, window = uniform(f, 4096)
    return decoder(f, kv_heads=REQUIRED, kinds=kinds, window=window)


def mixtral(f: Fields) -> dict:
    kinds, window = uniform(f, None)
    experts = f.whole("num_local_experts", "num_experts")
    mixture = mixture_of(f, experts, 3 * f.hidden * f.whole("intermediate_size"), f.hidden * experts, f.layers)
    return decoder(f, kv_heads=REQUIRED, kinds=kinds, window=window, mlps=mixture)


def _qwen_windows(f: Fields) -> tuple[list[str], int | None]:
    """Off unless use_sliding_window; then from layer max_window_layers on."""
    if not f.flag("use_sliding_window", False):
        return kinds_of(f), None
    window, first = f.window(4096), f.whole("max_window_layers", default=28, lowest=0)
    return kinds_of(f, [SLIDING if window and at >= first else FULL for at in range(f.layers)]), window


def qwen2(f: Fields) -> dict:
    kinds, window = _qwen_windows(f)
    return decoder(f, kinds=kinds, window=window, qkv_bias=True)


def qwen3(f: Fields) -> dict:
    kinds, window = _qwen_windows(f)
    bias = f.flag("attention_bias", False)
    return decoder(f, head_dim=128, kinds=kinds, window=window, qkv_bias=bias, out_bias=bias, qk_norm="head")


def _qwen_mixture(f: Fields, shared: int) -> Mlps:
    """Some layers may keep a dense MLP: mlp_only_layers, and those that decoder_sparse_step leaves out."""
    only, step = f.items("mlp_only_layers", int, default=[]), f.whole("decoder_sparse_step", default=1)
    sparse = len([at for at in range(f.layers) if at not in only and (at + 1) % step == 0])
    dense = (f.layers - sparse) * 3 * f.hidden * f.whole("intermediate_size") if sparse < f.layers else 0
    experts = f.whole("num_experts", "num_local_experts")
    return mixture_of(f, experts, 3 * f.hidden * f.whole("moe_intermediate_size"), f.hidden * experts + shared, sparse, dense)


def qwen2_moe(f: Fields) -> dict:
    kinds, window = [FULL] * f.layers, None
    if f.flag("use_sliding_window", False):
        window, end = f.whole("sliding_window", default=4096), f.whole("max_window_layers", default=28, lowest=0)
        kinds = [SLIDING if at % 2 == 0 and at < end else FULL for at in range(f.layers)]
    shared = 3 * f.hidden * f.whole("shared_expert_intermediate_size") + f.hidden  # and its gate
    bias = f.flag("qkv_bias", True)
    return decoder(f, kinds=kinds_of(f, kinds), window=window, qkv_bias=bias, mlps=_qwen_mixture(f, shared))


def qwen3_moe(f: Fields) -> dict:
    kinds, window = uniform(f, 4096) if f.flag("use_sliding_window", False) else (None, None)
    bias = f.flag("attention_bias", False)
    mixture = _qwen_mixture(f, 0)
    return decoder(
        f, kv_heads=REQUIRED, kinds=kinds, window=window, qkv_bias=bias, out_bias=bias, qk_norm="head", mlps=mixture
    )


def gemma(f: Fields) -> dict:
    bias = f.flag("attention_bias", False)
    return decoder(f, kv_heads=REQUIRED, head_dim=256, tied=True, qkv_bias=bias, out_bias=bias)


def gemma2(f: Fields) -> dict:
    bias, kinds = f.flag("attention_bias", False), kinds_of(f, every(2, f.layers))
    window = windowed(f, kinds, 4096)
    return decoder(
        f, kv_heads=REQUIRED, head_dim=256, tied=True, qkv_bias=bias, out_bias=bias, kinds=kinds, window=window, norms=4
    )


def gemma3(f: Fields) -> dict:
    """Google's own files of the larger models leave out what is as in the class."""
    f = Fields({"num_attention_heads": 8, **f.config}, f.model_type)
    bias, kinds = f.flag("attention_bias", False), kinds_of(f, every(f.whole("sliding_window_pattern", default=6), f.layers))
    return decoder(
        f, kv_heads=4, head_dim=256, tied=True, qkv_bias=bias, out_bias=bias, kinds=kinds, window=windowed(f, kinds, 4096),
        norms=4, qk_norm="head", vocab=262_208, context=131_072,
    )  # fmt: skip


def phi(f: Fields) -> dict:
    """The head has a bias, too. With norms on queries and keys the parameters are left uncounted."""
    found = decoder(f, gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, last_norms=2)
    found["parameters"] += found["vocab_size"]
    return {**found, "parameters": None} if f.flag("qk_layernorm", False) else found


def phi3(f: Fields) -> dict:
    kinds, window = uniform(f, None)
    return decoder(f, kinds=kinds, window=window)


def smollm3(f: Fields) -> dict:
    """Windows, if used, are on the layers without rotary positions."""
    kinds = [FULL] * f.layers
    if f.flag("use_sliding_window", False) and f.has("sliding_window"):
        plain = every(f.whole("no_rope_layer_interval", default=4), f.layers)
        rope = f.items("no_rope_layers", int, default=[int(kind == SLIDING) for kind in plain])
        kinds = [FULL if at >= len(rope) or rope[at] else SLIDING for at in range(f.layers)]
    bias = f.flag("attention_bias", False)
    return decoder(
        f, kv_heads=4, kinds=kinds_of(f, kinds), tied=True, qkv_bias=bias, out_bias=bias, mlp_bias=f.flag("mlp_bias", False)
    )


def gpt_oss(f: Fields) -> dict:
    """A sink per query head; every expert has biases, and so has the router."""
    kinds, hidden, ffn = kinds_of(f, every(2, f.layers)), f.hidden, f.whole("intermediate_size")
    experts = f.whole("num_local_experts", "num_experts")
    expert = 3 * hidden * ffn + 2 * ffn + hidden
    mixture = mixture_of(f, experts, expert, experts * (hidden + 1) + f.heads, f.layers)
    bias = f.flag("attention_bias", True)
    return decoder(
        f, kv_heads=REQUIRED, head_dim=64, kinds=kinds, window=windowed(f, kinds, 128), qkv_bias=bias, out_bias=bias,
        mlps=mixture,
    )  # fmt: skip


def gpt_neox(f: Fields) -> dict:
    f = Fields({**f.config, "num_key_value_heads": None, "head_dim": None}, f.model_type)
    bias = f.flag("attention_bias", True)
    return decoder(f, gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=True, norms=4, last_norms=2)


def starcoder2(f: Fields) -> dict:
    kinds, window = uniform(f, None)
    bias = f.flag("use_bias", True)
    return decoder(
        f, kv_heads=REQUIRED, kinds=kinds, window=window, tied=True, gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=bias,
        norms=4, last_norms=2,
    )  # fmt: skip


def gpt_bigcode(f: Fields) -> dict:
    """Positions are a table, too."""
    kv_heads = 1 if f.flag("multi_query", True) else f.heads
    f = Fields({**f.config, "num_key_value_heads": kv_heads, "head_dim": None, "intermediate_size": None}, f.model_type)
    found = decoder(f, tied=True, gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, ffn=4 * f.hidden, norms=4, last_norms=2)
    return {**found, "parameters": found["parameters"] + found["max_context_tokens"] * found["hidden_size"]}


def falcon(f: Fields) -> dict:
    """KV heads: num_kv_heads in the new architecture, else one if multi_query, else as many as query heads. (Hugging Face's
    own cache copies the keys of the new architecture for every query head; serving engines keep num_kv_heads.)"""
    new = f.flag("new_decoder_architecture", False)
    kv_heads = f.whole("num_kv_heads", default=f.heads) if new else 1 if f.flag("multi_query", True) else f.heads
    f = Fields(
        {**f.config, "num_key_value_heads": kv_heads, "head_dim": None, "intermediate_size": f.config.get("ffn_hidden_size")},
        f.model_type,
    )
    parallel = f.flag("parallel_attn", True)
    two_norms = not parallel or f.whole("num_ln_in_parallel_attn", default=2 if new else 1) == 2
    bias = f.flag("bias", False)
    return decoder(
        f, tied=True, gated=False, qkv_bias=bias, out_bias=bias, mlp_bias=bias, ffn=4 * f.hidden,
        norms=4 if two_norms else 2, last_norms=2, context=2048,
    )  # fmt: skip


def olmo2(f: Fields) -> dict:
    bias = f.flag("attention_bias", False)
    return decoder(f, qkv_bias=bias, out_bias=bias, qk_norm="all")


def olmo3(f: Fields) -> dict:
    bias, kinds = f.flag("attention_bias", False), kinds_of(f, every(4, f.layers))
    return decoder(f, kinds=kinds, window=windowed(f, kinds, 4096), qkv_bias=bias, out_bias=bias, qk_norm="all")


def cohere(f: Fields) -> dict:
    bias, normed = f.flag("attention_bias", False), f.flag("use_qk_norm", False)
    return decoder(f, tied=True, qkv_bias=bias, out_bias=bias, norms=1, qk_norm="all" if normed else "")


def cohere2(f: Fields) -> dict:
    bias, kinds = f.flag("attention_bias", False), kinds_of(f, every(f.whole("sliding_window_pattern", default=4), f.layers))
    return decoder(f, tied=True, qkv_bias=bias, out_bias=bias, norms=1, kinds=kinds, window=windowed(f, kinds, 4096))


def glm4(f: Fields) -> dict:
    return decoder(f, kv_heads=REQUIRED, head_dim=128, qkv_bias=f.flag("attention_bias", True), norms=4)


def deepseek(f: Fields) -> dict:
    """Versions 2 and 3 and Kimi K2: a latent vector and a rotary key per token; the first layers keep a dense MLP."""
    hidden, heads, layers = f.hidden, f.heads, f.layers
    rank, rope, nope = f.whole("kv_lora_rank"), f.whole("qk_rope_head_dim"), f.whole("qk_nope_head_dim")
    value, q_size, q_rank = f.whole("v_head_dim"), heads * (nope + rope), f.whole("q_lora_rank", default=None)
    attention = hidden * q_size if q_rank is None else hidden * q_rank + q_rank + q_rank * q_size
    attention += hidden * (rank + rope) + rank + rank * heads * (nope + value) + heads * value * hidden + 2 * hidden
    found = base(f)
    embeddings = (1 if f.flag("tie_word_embeddings", False) else 2) * found["vocab_size"] * hidden
    first = min(f.whole("first_k_dense_replace", lowest=0), layers)
    experts, expert = f.whole("n_routed_experts"), 3 * hidden * f.whole("moe_intermediate_size")
    others = experts * hidden + f.whole("n_shared_experts", lowest=0) * expert
    mixture = mixture_of(f, experts, expert, others, layers - first, first * 3 * hidden * f.whole("intermediate_size"))
    parameters = embeddings + layers * attention + mixture.parameters + hidden
    active = None if mixture.left_out is None else parameters - mixture.left_out
    counted = not (f.flag("attention_bias", False) or f.flag("mlp_bias", False))
    return {
        **found,
        **mixture.fields,
        "groups": (Latent(layers, rank, rope),),
        "uncompressed_key_dim": nope + rope,
        "uncompressed_value_dim": value,
        "parameters": parameters if counted else None,
        "active_parameters": active if counted else None,
    }


def llama4(f: Fields) -> dict:
    """Layers with rotary positions attend within chunks, of which the cache keeps the last. Parameters are not counted."""
    interval = f.whole("no_rope_layer_interval", default=4)
    rope = f.items("no_rope_layers", int, default=[int(kind == SLIDING) for kind in every(interval, f.layers)])
    chunk = f.window(8192, "attention_chunk_size")
    default = [CHUNKED if chunk and at < len(rope) and rope[at] else FULL for at in range(f.layers)]
    kinds = f.kinds(default, (FULL, CHUNKED))
    window = windowed(f, kinds, 8192, "attention_chunk_size")
    groups = attention_groups(kinds, f.kv_heads(REQUIRED), f.head_dim(128), window)
    return {**base(f), "groups": groups, "parameters": None}


READERS = {
    "llama": llama,
    "mistral": mistral,
    "mixtral": mixtral,
    "qwen2": qwen2,
    "qwen2_moe": qwen2_moe,
    "qwen3": qwen3,
    "qwen3_moe": qwen3_moe,
    "gemma": gemma,
    "gemma2": gemma2,
    "gemma3_text": gemma3,
    "phi": phi,
    "phi3": phi3,
    "gpt_oss": gpt_oss,
    "gpt_neox": gpt_neox,
    "falcon": falcon,
    "gpt_bigcode": gpt_bigcode,
    "starcoder2": starcoder2,
    "olmo2": olmo2,
    "olmo3": olmo3,
    "cohere": cohere,
    "cohere2": cohere2,
    "glm4": glm4,
    "smollm3": smollm3,
    "granite": llama,
    "deepseek_v2": deepseek,
    "deepseek_v3": deepseek,
    "kimi_k2": deepseek,
    "llama4_text": llama4,
}
