"""A pasted config.json: right for every architecture, against the caches and parameters of models that transformers builds;
and one clear sentence for everything else."""

import json

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, DynamicCache

from engine import profiles
from engine.errors import LabError
from engine.formulas.kv import Attention, Latent, Recurrent
from engine.profiles.hf_config import READERS, parse_config, profile_from_config
from tests.profiles import test_data as data_of_profiles

# A model that runs in milliseconds, with every field that some architecture asks for; each takes its own.
SMALL = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
    head_dim=8, max_position_embeddings=128, pad_token_id=0, bos_token_id=0, eos_token_id=0,
    num_experts=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=24,
)  # fmt: skip
MLA = dict(
    num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=12, qk_rope_head_dim=4, qk_nope_head_dim=8, v_head_dim=8,
    n_routed_experts=4, n_shared_experts=1, first_k_dense_replace=1, n_group=1, topk_group=1,
)  # fmt: skip
MAMBA2 = dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=2)
# Their classes set the head dimension themselves, or the MLP's width.
NO_HEAD_DIM = {"falcon", "gpt_neox", "recurrent_gemma", "gpt_bigcode", "deepseek_v2", "deepseek_v3", "jamba", "lfm2"}
NO_FFN = {"falcon", "gpt_bigcode"}
OWN = {
    "falcon": [{}, {"multi_query": False, "bias": True}, {"parallel_attn": False, "tie_word_embeddings": False}],
    "gpt_neox": [{}, {"attention_bias": False}],
    "gpt_bigcode": [{}, {"multi_query": False, "n_inner": 40}],
    "deepseek_v2": [MLA, MLA | {"q_lora_rank": None, "n_shared_experts": 2}],
    "deepseek_v3": [MLA, MLA | {"q_lora_rank": None, "first_k_dense_replace": 3}],
    "mistral": [{}, {"sliding_window": None}, {"sliding_window": 64}],
    "mixtral": [{}, {"sliding_window": 64}, {"num_experts_per_tok": 4}],
    "qwen2": [{}, {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 4}],
    "qwen3": [{}, {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 2, "attention_bias": True}],
    "qwen2_moe": [{}, {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 4, "qkv_bias": False},
                  {"mlp_only_layers": [1], "decoder_sparse_step": 2}],
    "qwen3_moe": [{}, {"use_sliding_window": True, "sliding_window": 64, "mlp_only_layers": [0, 5]}],
    "llama": [{}, {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}, {"num_key_value_heads": None}],
    "granite": [{}, {"attention_bias": True, "mlp_bias": True}],
    "gemma3_text": [{}, {"sliding_window_pattern": 3, "sliding_window": 64}],
    "cohere": [{}, {"use_qk_norm": True}],
    "cohere2": [{}, {"sliding_window_pattern": 2, "sliding_window": 64}],
    "olmo3": [{}, {"layer_types": ["full_attention"] * 5 + ["sliding_attention"], "sliding_window": 64}],
    "smollm3": [{}, {"use_sliding_window": True, "sliding_window": 64}],
    "starcoder2": [{}, {"use_bias": False, "sliding_window": 64}],
    "phi": [{}, {"qk_layernorm": True}],
    "gpt_oss": [{}, {"attention_bias": False}],
    "llama4_text": [{}, {"no_rope_layer_interval": 2, "attention_chunk_size": 64}, {"attention_chunk_size": None}],
    "jamba": [{"attn_layer_period": 3, "attn_layer_offset": 1, "mamba_d_state": 8}],
    "bamba": [MAMBA2 | {"attn_layer_indices": [1, 4]}],
    "falcon_h1": [MAMBA2 | {"mamba_d_ssm": 64}, MAMBA2 | {"mamba_d_ssm": None}],
    "granitemoehybrid": [MAMBA2 | {"layer_types": ["mamba", "attention"] * 3, "shared_intermediate_size": 16}],
    "nemotron_h": [
        {"layers_block_type": ["mamba", "attention", "mlp", "moe", "mamba", "mamba"], "moe_shared_expert_intermediate_size": 16,
         "mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 8, "n_routed_experts": 4}
    ],
    "qwen3_next": [{"linear_key_head_dim": 8, "linear_value_head_dim": 4, "linear_num_key_heads": 2, "linear_num_value_heads": 4}],
    "lfm2": [{"full_attn_idxs": [2, 5]}, {"layer_types": ["conv", "full_attention"] * 3, "conv_L_cache": 5}],
    "minimax": [{}, {"layer_types": ["linear_attention"] * 5 + ["full_attention"]}],
    "recurrent_gemma": [{}, {"block_types": ["recurrent", "attention"], "attention_window_size": 64}],
}  # fmt: skip
CASES = [(name, at) for name in READERS if name != "kimi_k2" for at in range(len(OWN.get(name, [{}])))]
TOKENS = 7


def small(model_type: str, at: int = 0):
    """The class's configuration; what its class sets itself is not given."""
    fields = SMALL | OWN.get(model_type, [{}])[at]
    left_out = {"head_dim"} if model_type in NO_HEAD_DIM else set()
    left_out |= {"intermediate_size"} if model_type in NO_FFN else set()
    return CONFIG_MAPPING[model_type](**{name: value for name, value in fields.items() if name not in left_out})


def as_pasted(config) -> dict:
    """Through JSON, as a file on the hub is."""
    return parse_config(config.to_json_string(use_diff=False))


@pytest.mark.parametrize("model_type, at", CASES)
def test_it_keeps_what_the_model_keeps(model_type, at):
    """KV and state of a forward over a few tokens; windows by the cache's own settings; parameters one by one. A KV head, a
    bias or a kind of layer misread would show on every page that shows the model."""
    config = small(model_type, at)
    profile = profile_from_config(as_pasted(config))
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    kv, states, windows = _kept(model)
    assert profile.kv_bytes(TOKENS, "fp32").total == 4 * kv
    assert profile.state_bytes("fp32") == 4 * states
    assert {(group.window, group.layers) for group in profile.groups if getattr(group, "window", None)} == windows
    if profile.parameters is not None:
        assert profile.parameters == sum(p.numel() for p in model.parameters())
    if profile.active_parameters is not None:
        routed = sum(p.numel() for name, p in model.named_parameters() if ".experts." in name)
        assert profile.parameters - profile.active_parameters == routed * (profile.experts - profile.experts_per_token) // profile.experts


def _kept(model) -> tuple[int, int, set]:
    """Values of K and V, of states, and {(window, layers)}."""
    cache = None if model.config.model_type == "minimax" else DynamicCache(config=model.config)  # MiniMax makes its own
    with torch.no_grad():
        out = model(torch.arange(TOKENS)[None] + 1, use_cache=True, cache=cache)
    cache = cache or out.cache
    kv = states = 0
    windows: dict = {}
    for layer in cache.layers:
        if getattr(layer, "keys", None) is not None:
            kv += layer.keys.numel() + layer.values.numel()
        for kept in (getattr(layer, "conv_states", {}), getattr(layer, "recurrent_states", {})):
            states += sum(state.numel() for state in kept.values() if state is not None)
        if (window := getattr(layer, "sliding_window", None)) is not None:
            windows[window] = windows.get(window, 0) + 1
    states += sum(state.numel() for state in getattr(cache, "linear_cache", []) if len(state))
    for block in (module for module in model.modules() if hasattr(module, "conv1d_state")):  # RecurrentGemma's own hands
        states += block.conv1d_state.numel() + block.rg_lru.recurrent_states.numel()
    return kv, states, set(windows.items())


def test_the_parameters_of_those_that_are_simple_are_counted():
    """Else the test above could pass by counting none."""
    counted = {name for name, at in CASES if profile_from_config(as_pasted(small(name))).parameters is not None}
    hybrids = {"jamba", "bamba", "granitemoehybrid", "falcon_h1", "nemotron_h", "qwen3_next", "lfm2", "minimax", "recurrent_gemma"}
    assert counted == set(READERS) - hybrids - {"kimi_k2", "llama4_text"}
    pasted = profile_from_config(as_pasted(small("jamba")))
    assert pasted.weight_bytes() is None and pasted.weight_bytes_read(8) is None


# As on the hub, what matters of it.
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "_name_or_path": "meta-llama/Meta-Llama-3-8B",
    "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
GEMMA3_TEXT = {
    "head_dim": 128, "hidden_size": 5376, "intermediate_size": 21504, "model_type": "gemma3_text", "num_attention_heads": 32,
    "num_hidden_layers": 62, "num_key_value_heads": 16, "query_pre_attn_scalar": 168, "sliding_window": 1024,
}  # fmt: skip
QWEN25 = {
    "model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 131072,
    "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
    "sliding_window": 131072, "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 152064,
}  # fmt: skip
MISTRAL = {
    "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": 4096, "vocab_size": 32000,
}  # fmt: skip
KIMI = {
    "model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61, "num_attention_heads": 64,
    "num_key_value_heads": 64, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048,
    "first_k_dense_replace": 1, "vocab_size": 163840, "max_position_embeddings": 131072, "tie_word_embeddings": False,
}  # fmt: skip
FALCON40 = {
    "model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128, "num_kv_heads": 8,
    "new_decoder_architecture": True, "multi_query": True, "parallel_attn": True, "bias": False, "vocab_size": 65024,
}  # fmt: skip


@pytest.mark.parametrize("config, name", [
    (LLAMA, "llama-3-8b"), ({"model_type": "gemma3", "text_config": GEMMA3_TEXT}, "gemma-3-27b"), (QWEN25, "qwen2.5-7b"),
    (MISTRAL, "mistral-7b-v0.1"), (KIMI, "kimi-k2"), ({"model_type": "kimi_k25", "text_config": KIMI}, "kimi-k2"),
])  # fmt: skip
def test_a_file_from_the_hub_is_the_profile(config, name):
    """Two people's readings of one model: what is pasted must cost what the profile costs."""
    pasted, profile = profile_from_config(config), profiles.model(name)
    for field in ("groups", "parameters", "active_parameters", "hidden_size", "heads", "ffn_size", "experts", "attention_kind"):
        assert getattr(pasted, field) == getattr(profile, field), field
    assert pasted.dense == profile.dense and pasted.kv_bytes(50_000, "int4") == profile.kv_bytes(50_000, "int4")
    numbers = {"groups", "name", "title", "repo", "model_type", "sources"}
    stated = {field for field, value in vars(pasted).items() if value is not None} - numbers
    assert set(pasted.sources) == stated | {"layers"}, "the page shows where each number is from"


@pytest.mark.parametrize("name", [name for name, m in profiles.models().items() if m.attention_kind != "state"])
def test_the_configuration_of_every_profile_is_read_as_that_profile(name):
    """At their real sizes, where a default or a pattern of layers that the small ones miss would show."""
    m = profiles.model(name)
    pasted = profile_from_config({**data_of_profiles._fields(m), "model_type": m.model_type})
    compared = {"groups", "hidden_size", "heads", "vocab_size", "max_context_tokens"}
    if m.attention_kind != "hybrid" and m.model_type != "llama4_text":  # what those weigh is not counted from a paste
        compared |= {"parameters", "active_parameters", "experts", "experts_per_token", "ffn_size"}
    assert {field: getattr(pasted, field) for field in compared} == {field: getattr(m, field) for field in compared}


def test_what_is_shown_as_its_name():
    """Its own, if it has one that is a repository; a path or markup of somebody's machine is not shown as one."""
    assert profile_from_config(LLAMA).title == profile_from_config(LLAMA).repo == "meta-llama/Meta-Llama-3-8B"
    for path in ("/home/me/llama", "<b>x</b>/y", "a/b/c", 7, None, ""):
        pasted = profile_from_config(LLAMA | {"_name_or_path": path}, "mine.json")
        assert (pasted.name, pasted.title, pasted.repo) == ("mine.json", "mine.json", "")


def test_what_windows_mean():
    """null is no window, an absent field is the class's, use_sliding_window = false is none whatever else is there."""

    def windows(config):
        return {group.window: group.layers for group in profile_from_config(config).groups}

    assert windows(MISTRAL) == windows({k: v for k, v in MISTRAL.items() if k != "sliding_window"}) == {4096: 32}
    assert windows(MISTRAL | {"sliding_window": None}) == {None: 32}
    assert windows(QWEN25) == {None: 28}
    assert windows(QWEN25 | {"use_sliding_window": True, "max_window_layers": 10}) == {None: 10, 131072: 18}
    assert windows(QWEN25 | {"use_sliding_window": True}) == {None: 28}, "max_window_layers = 28: none of 28 layers"
    kinds = ["sliding_attention", "full_attention"] * 16
    assert windows(MISTRAL | {"layer_types": kinds}) == {None: 16, 4096: 16}


def test_what_googles_files_leave_out_is_in_the_class():
    """google/gemma-3-4b-it names neither its heads nor its vocabulary; parameters as its page on the hub has them for text."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}
    pasted = profile_from_config({"model_type": "gemma3", "text_config": text, "vision_config": {"hidden_size": 1152}})
    assert pasted.groups == (Attention(5, 4, 256, 256), Attention(29, 4, 256, 256, 1024)) and pasted.heads == 8
    assert pasted.parameters == pytest.approx(3.88e9, rel=0.002) and pasted.max_context_tokens == 131_072


def test_falcons_new_architecture_keeps_eight_heads_not_one_nor_all():
    """multi_query is true there, too, and does not count; transformers itself copies the eight for every query head."""
    pasted = profile_from_config(FALCON40)
    assert pasted.groups == (Attention(60, 8, 64, 64),) and pasted.attention_kind == "gqa"
    assert pasted.parameters == pytest.approx(41.3e9, rel=0.02)


def test_kinds_of_groups():
    """A latent cache read as heads, or a layer with both attention and state read as one of them."""
    assert profile_from_config(KIMI).groups == (Latent(61, 512, 64),)
    assert profile_from_config(as_pasted(small("falcon_h1"))).groups[1] == Recurrent(6, 64 * 8 + (64 + 2 * 2 * 8) * 4)


def without(config: dict, *fields: str) -> dict:
    return {name: value for name, value in config.items() if name not in fields}


HYBRID, NEMOTRON = as_pasted(small("granitemoehybrid")), without(as_pasted(small("nemotron_h")), "layers_block_type", "layer_types")
BROKEN = [
    # not a configuration at all
    (parse_config, "", "config-not-json", "line 1"),
    (parse_config, "{", "config-not-json", "column 2"),
    (parse_config, '{"model_type": "llama",}', "config-not-json", "JSON"),
    (parse_config, b"\xff\xfe{}", "config-not-json", "JSON"),
    (parse_config, "model_type: llama", "config-not-json", "braces"),
    (parse_config, '{"vocab_size": 1' + "0" * 5000 + "}", "config-not-json", "JSON"),
    (parse_config, "[1, 2]", "config-not-object", "[1, 2]"),
    (parse_config, '"llama"', "config-not-object", "llama"),
    (parse_config, "null", "config-not-object", "null"),
    (parse_config, "[" * 100_000, "config-too-deep", "deep"),
    (parse_config, '{"a":' * 200_000 + "1" + "}" * 200_000, "config-too-large", "1000000"),
    (parse_config, "{}" + " " * 1_000_000, "config-too-large", "1000002"),
    (profile_from_config, None, "config-not-object", "null"),
    (profile_from_config, [LLAMA], "config-not-object", "paste the whole"),
    # not an architecture
    (profile_from_config, {}, "config-no-model-type", "model_type"),
    (profile_from_config, {"model_type": ""}, "config-no-model-type", "model_type"),
    (profile_from_config, {"model_type": ["llama"]}, "config-no-model-type", "model_type"),
    (profile_from_config, {"model_type": "llama9"}, "config-unknown", "llama9"),
    (profile_from_config, {"model_type": "x" * 5000}, "config-unknown", "qwen3_moe"),
    (profile_from_config, {"model_type": "deepseek_v32"}, "config-unknown", "deepseek_v32"),
    (profile_from_config, {"model_type": "bert", "hidden_size": 768}, "config-no-cache", "bert"),
    (profile_from_config, LLAMA | {"use_bidirectional_attention": True}, "config-no-cache", "llama"),
    (profile_from_config, {"model_type": "t5", "is_encoder_decoder": True}, "config-encoder-decoder", "t5"),
    (profile_from_config, {"model_type": "mamba2"}, "config-no-attention", "mamba2"),
    (profile_from_config, {"model_type": "gemma3"}, "config-missing", "text_config"),
    (profile_from_config, {"model_type": "gemma3", "text_config": "gemma"}, "config-missing", "text_config"),
    (profile_from_config, {"model_type": "llava", "text_config": {}}, "config-no-model-type", "model_type"),
    (profile_from_config, {"model_type": "llava", "text_config": {"model_type": "t9"}}, "config-unknown", "t9"),
    # a field that is not there
    *[(profile_from_config, without(LLAMA, field), "config-missing", field) for field in (
        "num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size", "intermediate_size", "max_position_embeddings")],
    (profile_from_config, LLAMA | {"num_hidden_layers": None}, "config-missing", "num_hidden_layers"),
    (profile_from_config, without(MISTRAL, "num_key_value_heads"), "config-missing", "num_key_value_heads"),
    (profile_from_config, without(KIMI, "kv_lora_rank"), "config-missing", "kv_lora_rank"),
    (profile_from_config, without(KIMI, "num_experts_per_tok"), "config-missing", "num_experts_per_tok"),
    (profile_from_config, without(HYBRID, "layer_types", "layers_block_type"), "config-missing", "layer_types"),
    (profile_from_config, without(HYBRID, "mamba_d_state"), "config-missing", "mamba_d_state"),
    (profile_from_config, MISTRAL | {"sliding_window": None, "layer_types": ["sliding_attention"] * 32}, "config-missing", "sliding_"),
    # a number that cannot be
    *[(profile_from_config, LLAMA | {"num_hidden_layers": value}, "config-number", "num_hidden_layers") for value in (
        0, -1, True, "32", 32.0, float("nan"), float("inf"), 10**30, [32], {}, 10_001)],
    (profile_from_config, LLAMA | {"hidden_size": 10**30}, "config-number", "hidden_size"),
    (profile_from_config, LLAMA | {"head_dim": 0}, "config-number", "head_dim"),
    (profile_from_config, LLAMA | {"num_key_value_heads": 0}, "config-number", "num_key_value_heads"),
    (profile_from_config, LLAMA | {"vocab_size": "x" * 10_000}, "config-number", "xxx..."),
    (profile_from_config, LLAMA | {"vocab_size": "1\n2"}, "config-number", "1 2"),
    (profile_from_config, MISTRAL | {"sliding_window": 0}, "config-number", "sliding_window"),
    (profile_from_config, MISTRAL | {"sliding_window": -1}, "config-number", "sliding_window"),
    (profile_from_config, MISTRAL | {"sliding_window": False}, "config-number", "sliding_window"),
    (profile_from_config, KIMI | {"num_experts_per_tok": 385}, "config-number", "384"),
    (profile_from_config, GEMMA3_TEXT | {"sliding_window_pattern": 0}, "config-number", "sliding_window_pattern"),
    (profile_from_config, LLAMA | {"tie_word_embeddings": "yes"}, "config-flag", "tie_word_embeddings"),
    (profile_from_config, QWEN25 | {"use_sliding_window": 0}, "config-flag", "use_sliding_window"),
    # numbers that do not fit together
    (profile_from_config, LLAMA | {"num_key_value_heads": 5}, "config-divides", "num_attention_heads = 32"),
    (profile_from_config, LLAMA | {"num_key_value_heads": 64}, "config-divides", "num_key_value_heads = 64"),
    (profile_from_config, LLAMA | {"hidden_size": 4097}, "config-divides", "hidden_size = 4097"),
    (profile_from_config, HYBRID | {"mamba_n_heads": 5}, "config-divides", "mamba_n_heads = 5"),
    (profile_from_config, FALCON40 | {"num_kv_heads": 7}, "config-divides", "7"),
    # layers
    (profile_from_config, MISTRAL | {"layer_types": ["full_attention"] * 31}, "config-layer-count", "31"),
    (profile_from_config, MISTRAL | {"layer_types": ["full_attention", "linear_attention"] * 16}, "config-layer-kind", "'linear_"),
    (profile_from_config, MISTRAL | {"layer_types": ["x" * 5000] * 32}, "config-layer-kind", "xxx..."),
    (profile_from_config, MISTRAL | {"layer_types": []}, "config-list", "layer_types"),
    (profile_from_config, MISTRAL | {"layer_types": "full_attention"}, "config-list", "layer_types"),
    (profile_from_config, MISTRAL | {"layer_types": [1] * 32}, "config-list", "layer_types"),
    (profile_from_config, MISTRAL | {"layer_types": ["full_attention"] * 10_001}, "config-list", "layer_types"),
    (profile_from_config, NEMOTRON | {"hybrid_override_pattern": "M*X"}, "config-layer-kind", "'X'"),
    (profile_from_config, NEMOTRON | {"hybrid_override_pattern": 5}, "config-list", "5"),
    (profile_from_config, as_pasted(small("bamba")) | {"attn_layer_indices": ["1"]}, "config-list", "attn_layer_indices"),
    (profile_from_config, as_pasted(small("recurrent_gemma")) | {"block_types": ["attention", "mlp"]}, "config-layer-kind", "mlp"),
]  # fmt: skip


@pytest.mark.parametrize("ask, broken, code, words", BROKEN, ids=range(len(BROKEN)))
def test_a_broken_one_is_one_sentence_that_names_the_fault(ask, broken, code, words):
    """Whoever pastes the wrong thing must be told what is wrong with it, whatever it is: no traceback, no half profile."""
    with pytest.raises(LabError) as caught:
        ask(broken)
    assert caught.value.code.startswith(code)
    sentence = str(caught.value)
    assert words in sentence and "\n" not in sentence and len(sentence) < 700
    json.dumps(caught.value.as_dict())


GOOD = {name: as_pasted(small(name)) for name in READERS if name != "kimi_k2"} | {"kimi_k2": KIMI}
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200)
@given(st.data())
def test_whatever_stands_in_a_field_there_is_a_profile_or_a_sentence(data):
    """The page shows what comes out to whoever pasted it: an exception of another kind is a broken page."""
    config = dict(GOOD[data.draw(st.sampled_from(sorted(GOOD)))])
    for field in data.draw(st.lists(st.sampled_from(sorted(config)), min_size=1, max_size=3)):
        config[field] = data.draw(ANYTHING)
    try:
        profile = profile_from_config(config)
    except LabError as error:
        assert error.code.startswith("config-") and "\n" not in str(error)
    else:
        assert profile.kv_bytes(1000, "int4").total >= 0 and profile.state_bytes() >= 0 and profile.attention_kind
        assert profile.weight_bytes_read(8) is None or profile.weight_bytes_read(8) > 0


def test_what_python_takes_for_json_and_a_hub_writes_is_taken():
    """Infinity is in the files of Mamba models; a byte-order mark is what some editors add."""
    assert parse_config('{"time_step_limit": [0.0, Infinity]}')["time_step_limit"][1] == float("inf")
    assert parse_config(b'\xef\xbb\xbf{"model_type": "llama"}') == {"model_type": "llama"}
    assert parse_config('\ufeff{"model_type": "llama"}') == {"model_type": "llama"}
