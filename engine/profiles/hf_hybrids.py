"""What a config.json says of models some of whose layers keep a state: one short function per architecture.

The size of a state is what the modelling code of Hugging Face transformers allocates: the last inputs of a short
convolution (channels x its width) and, except in LFM2, the recurrent state itself. Parameters are not counted.
"""

from engine.formulas.kv import Recurrent
from engine.profiles.hf_fields import REQUIRED, Fields
from engine.profiles.hf_layers import FULL, SLIDING, attention_groups, base, every

LINEAR, CONV = "linear_attention", "conv"


def _hybrid(f: Fields, kinds: list[str], state_values: int, *, kv_heads: object = None, head_dim: int | None = None) -> dict:
    with_state = len([kind for kind in kinds if kind in (LINEAR, CONV)])
    groups = attention_groups(kinds, f.kv_heads(kv_heads), f.head_dim(head_dim), None)
    states = (Recurrent(with_state, state_values),) if with_state else ()
    return {**base(f), "groups": (*groups, *states), "parameters": None}


def _mamba2(f: Fields) -> int:
    """Values of a Mamba-2 layer's state (Dao and Gu 2024, arXiv 2405.21060): heads x head x state, and the convolution's
    window over x, B and C."""
    inner = f.whole("mamba_expand", default=2) * f.hidden
    if f.has("mamba_d_ssm"):  # Falcon-H1 sets it apart from the hidden size
        inner = f.whole("mamba_d_ssm")
    state, groups = f.whole("mamba_d_state"), f.whole("mamba_n_groups", default=1)
    f.share("mamba_expand x hidden_size", inner, "mamba_n_heads", f.whole("mamba_n_heads"))
    return inner * state + (inner + 2 * groups * state) * f.whole("mamba_d_conv", default=4)


def jamba(f: Fields) -> dict:
    """Mamba-1 layers (Gu and Dao 2023, arXiv 2312.00752): channels x state, and the convolution's window."""
    period, offset = f.whole("attn_layer_period"), f.whole("attn_layer_offset", lowest=0)
    kinds = [FULL if at % period == offset else LINEAR for at in range(f.layers)]
    inner = f.whole("mamba_expand", default=2) * f.hidden
    state = inner * (f.whole("mamba_d_state", default=16) + f.whole("mamba_d_conv", default=4))
    return _hybrid(f, kinds, state, kv_heads=REQUIRED)


def bamba(f: Fields) -> dict:
    at_layers = f.items("attn_layer_indices", int, default=[])
    return _hybrid(f, [FULL if at in at_layers else LINEAR for at in range(f.layers)], _mamba2(f), kv_heads=8)


def granitemoehybrid(f: Fields) -> dict:
    """The kinds must be there: without them every layer would keep a state."""
    kinds = f.kinds(REQUIRED, (FULL, LINEAR), "layer_types", "layers_block_type")
    return _hybrid(f, kinds, _mamba2(f) if LINEAR in kinds else 0)


def falcon_h1(f: Fields) -> dict:
    """Every layer has both, side by side."""
    both = _hybrid(f, [FULL] * f.layers, 0, kv_heads=8)
    return {**both, "groups": (*both["groups"], Recurrent(f.layers, _mamba2(f)))}


def nemotron_h(f: Fields) -> dict:
    """Layers without attention or state, only an MLP, are in the list of layers, too."""
    letters = {"M": LINEAR, "*": FULL, "-": "mlp", "E": "moe"}
    known = (FULL, LINEAR, "mlp", "moe")
    if f.has("hybrid_override_pattern") and not (f.has("layers_block_type") or f.has("layer_types")):
        pattern = f.config["hybrid_override_pattern"]
        kinds = [letters.get(letter, letter) for letter in pattern] if isinstance(pattern, str) else pattern
        f = Fields({**f.config, "layers_block_type": kinds}, f.model_type)
    kinds = f.kinds(REQUIRED, known, "layers_block_type", "layer_types")
    inner = f.whole("mamba_num_heads") * f.whole("mamba_head_dim")
    state, groups = f.whole("ssm_state_size"), f.whole("n_groups", "mamba_n_groups")
    window = f.whole("conv_kernel", "mamba_d_conv", default=4)
    values = inner * state + (inner + 2 * groups * state) * window
    return _hybrid(f, kinds, values, kv_heads=REQUIRED, head_dim=128)


def qwen3_next(f: Fields) -> dict:
    """Gated delta rule (Yang et al. 2024, arXiv 2412.06464): value heads x key x value, and the convolution's window over
    queries, keys and values."""
    kinds = f.kinds(every(f.whole("full_attention_interval", default=4), f.layers, FULL, LINEAR), (FULL, LINEAR))
    key, value = f.whole("linear_key_head_dim"), f.whole("linear_value_head_dim")
    k_heads, v_heads = f.whole("linear_num_key_heads"), f.whole("linear_num_value_heads")
    channels = 2 * k_heads * key + v_heads * value
    state = v_heads * key * value + channels * f.whole("linear_conv_kernel_dim")
    return _hybrid(f, kinds, state, kv_heads=REQUIRED, head_dim=256)


def lfm2(f: Fields) -> dict:
    """Only a short convolution: hidden size x its width."""
    attend = f.items("full_attn_idxs", int, default=[]) if f.has("full_attn_idxs") else range(f.layers)
    kinds = f.kinds([FULL if at in attend else CONV for at in range(f.layers)], (FULL, CONV))
    return _hybrid(f, kinds, f.hidden * f.whole("conv_L_cache", default=3), kv_heads=REQUIRED)


def minimax(f: Fields) -> dict:
    """Lightning attention (Qin et al. 2024, arXiv 2401.04658): heads x key x value."""
    kinds = f.kinds(every(2, f.layers, LINEAR, FULL), (FULL, LINEAR))
    return _hybrid(f, kinds, f.heads * f.head_dim() ** 2, kv_heads=REQUIRED)


def recurrent_gemma(f: Fields) -> dict:
    """Griffin (De et al. 2024, arXiv 2402.19427): a vector and the last width - 1 inputs of the convolution; its attention
    is local. No limit of length is stated."""
    named = {"recurrent": LINEAR, "attention": SLIDING}
    blocks = f.items("block_types", str) if f.has("block_types") else ["recurrent", "recurrent", "attention"]
    f_blocks = Fields({"block_types": [named.get(block, block) for block in blocks]}, f.model_type)
    pattern = f_blocks.kinds(REQUIRED, tuple(named.values()), "block_types")
    kinds = [pattern[at % len(pattern)] for at in range(f.layers)]
    width = f.whole("lru_width", default=f.hidden)
    groups = attention_groups(kinds, f.kv_heads(), f.head_dim(), f.whole("attention_window_size", default=2048))
    state = Recurrent(kinds.count(LINEAR), width * f.whole("conv1d_width", default=4))
    return {**base(f, context=None), "groups": (*groups, state), "parameters": None}


READERS = {
    "jamba": jamba,
    "bamba": bamba,
    "granitemoehybrid": granitemoehybrid,
    "falcon_h1": falcon_h1,
    "nemotron_h": nemotron_h,
    "qwen3_next": qwen3_next,
    "lfm2": lfm2,
    "minimax": minimax,
    "recurrent_gemma": recurrent_gemma,
}
