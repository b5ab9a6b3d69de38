"""The data in profiles/: enough of every kind, with sources one can look up, and right where it can be recounted.

The recount is by Hugging Face transformers on the meta device (shapes without memory): a configuration is made of the
profile's own numbers and of what BEYOND adds, so a wrong number in a profile changes what comes out.
"""

import re
from collections import Counter
from functools import cache

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.models.minimax.modeling_minimax import MiniMaxCache

from engine import profiles
from engine.formulas.kv import Attention, Latent, Recurrent
from engine.profiles.links import KINDS

MODELS, DEVICES, LINKS = profiles.models(), profiles.devices(), profiles.links()
GIB = 2**30


def _deepseek(q_lora_rank: int | None, dense: int, expert: int, shared: int, first_dense: int) -> dict:
    widths = {"intermediate_size": dense, "moe_intermediate_size": expert, "q_lora_rank": q_lora_rank}
    return widths | {"qk_nope_head_dim": 128, "v_head_dim": 128, "n_shared_experts": shared, "first_k_dense_replace": first_dense}


# What config.json says and a profile does not hold: sizes of experts, tied embeddings, the order of layers.
BEYOND = {
    "smollm2-135m-instruct": {"tie_word_embeddings": True},
    "llama-3.2-1b": {"tie_word_embeddings": True},
    "llama-3.2-3b": {"tie_word_embeddings": True},
    "mixtral-8x7b": {"intermediate_size": 14_336},
    "qwen3-30b-a3b": {"moe_intermediate_size": 768},
    "qwen3-235b-a22b": {"moe_intermediate_size": 1536},
    "gpt-oss-20b": {"intermediate_size": 2880},
    "gpt-oss-120b": {"intermediate_size": 2880},
    "falcon-7b": {"multi_query": True},
    "starcoder": {"multi_query": True, "n_inner": 24_576},
    "gpt-neox-20b": {"intermediate_size": 24_576},
    "deepseek-v2-lite": _deepseek(None, 10_944, 1408, 2, 1),
    "deepseek-v2": _deepseek(1536, 12_288, 1536, 2, 1),
    "deepseek-v3": _deepseek(1536, 18_432, 2048, 1, 3),
    "kimi-k2": _deepseek(1536, 18_432, 2048, 1, 1),
    "jamba-v0.1": {"intermediate_size": 14_336, "attn_layer_period": 8, "attn_layer_offset": 4},
    "qwen3-next-80b-a3b": {
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "linear_num_key_heads": 16,
        "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
    },
    "granite-4.0-h-tiny": {
        "intermediate_size": 512, "shared_intermediate_size": 1024, "tie_word_embeddings": True, "mamba_n_heads": 48,
        "mamba_d_head": 64, "mamba_d_state": 128, "layer_types": ["attention" if at % 10 == 5 else "mamba" for at in range(40)],
    },
    "recurrentgemma-2b": {"intermediate_size": 15_360},
    "nemotron-h-8b": {
        "num_hidden_layers": 52, "intermediate_size": 21_504, "mamba_num_heads": 128, "mamba_head_dim": 64,
        "ssm_state_size": 128, "n_groups": 8, "conv_kernel": 4,
        "hybrid_override_pattern": "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-",
    },
    "falcon-h1-0.5b": {
        "num_hidden_layers": 36, "mamba_d_ssm": 1536, "mamba_n_heads": 24, "mamba_d_head": 64, "mamba_d_state": 128,
    },
    "lfm2-1.2b": {"intermediate_size": 12_288, "full_attn_idxs": [2, 5, 8, 10, 12, 14]},
    "llama-4-scout": {"intermediate_size": 8192},
    "codestral-mamba-7b": {"num_heads": 128, "head_dim": 64, "state_size": 128, "n_groups": 8, "conv_kernel": 4},
    "falcon-mamba-7b": {"intermediate_size": 8192, "state_size": 16, "conv_kernel": 4, "tie_word_embeddings": False},
    "minimax-text-01": {
        "intermediate_size": 9216, "layer_types": ["full_attention" if at % 8 == 7 else "linear_attention" for at in range(80)],
    },
}  # fmt: skip
EXPERTS = {"qwen3_moe": "num_experts", "jamba": "num_experts", "qwen3_next": "num_experts"}
EXPERTS |= dict.fromkeys(("mixtral", "gpt_oss", "granitemoehybrid", "minimax", "llama4_text"), "num_local_experts")
EXPERTS |= dict.fromkeys(("deepseek_v2", "deepseek_v3", "kimi_k2"), "n_routed_experts")


def _fields(m) -> dict:
    """A config.json of the profile's numbers."""
    fields = {"hidden_size": m.hidden_size, "num_attention_heads": m.heads, "vocab_size": m.vocab_size}
    fields |= {"num_hidden_layers": m.layers, "max_position_embeddings": m.max_context_tokens}
    for group in m.groups:
        if isinstance(group, Latent):
            fields |= {"kv_lora_rank": group.rank, "qk_rope_head_dim": group.rope_dim, "num_key_value_heads": m.heads}
        elif isinstance(group, Attention):
            fields["num_key_value_heads"] = group.kv_heads
            if group.key_dim * m.heads != m.hidden_size:
                fields["head_dim"] = group.key_dim
    windows = [group.window for group in m.groups if getattr(group, "window", None)]
    if windows or m.model_type == "mistral":
        fields["sliding_window"] = windows[0] if windows else None
    if m.ffn_size:
        fields["intermediate_size"] = m.ffn_size
    if m.experts:
        fields |= {EXPERTS[m.model_type]: m.experts, "num_experts_per_tok": m.experts_per_token}
    return fields | BEYOND.get(m.name, {})


@cache
def _on_meta(name: str):
    """(configuration, model) of the profile."""
    m = MODELS[name]
    kind = {"kimi_k2": "deepseek_v3"}.get(m.model_type, m.model_type)  # Kimi K2 says itself that it has that architecture
    config = AutoConfig.for_model(kind, **_fields(m))
    with torch.device("meta"):
        return config, AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_those_that_transformers_builds(name):
    """A mistyped width, layer count, head dimension or number of experts shifts the weights on every page."""
    _, model = _on_meta(name)
    assert model.num_parameters() == MODELS[name].parameters


@pytest.mark.parametrize("name", [name for name, m in MODELS.items() if m.experts])
def test_active_parameters_leave_out_the_experts_a_token_does_not_meet(name):
    """With shared experts or the router left out, or dense layers taken for mixtures, a decode step would read too little."""
    m, (_, model) = MODELS[name], _on_meta(name)
    routed = sum(p.numel() for where, p in model.named_parameters() if ".experts." in where)
    assert m.parameters - m.active_parameters == routed * (m.experts - m.experts_per_token) // m.experts
    assert m.weight_bytes_read(1) == pytest.approx(2 * m.active_parameters, rel=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_groups_are_what_the_cache_of_transformers_keeps(name):
    """The whole memory lesson stands on them: KV heads, both dimensions, windows and states, layer by layer, as a forward
    pass over a few tokens allocates them."""
    kept = Counter()
    for group in MODELS[name].groups:
        if isinstance(group, Attention):
            kept[group.kv_heads, group.key_dim, group.value_dim, group.window] += group.layers
        elif isinstance(group, Latent):  # shared by all heads; the two parts take the places of keys and values
            kept[1, group.rank, group.rope_dim, None] += group.layers
        else:
            kept[group.state_values] += group.layers
    assert kept == OTHER_CACHES.get(name, _kept_by_transformers)(name)


def _kept_by_minimax(name: str, tokens: int = 5, few: int = 8) -> Counter:
    """Its cache holds states in a list of its own. Every eighth layer attends."""
    _, model = _on_meta(name)
    held, decoder = MiniMaxCache(), model.base_model
    layers = decoder.layers
    try:
        decoder.layers = layers[:few]
        with torch.device("meta"), torch.no_grad():
            model(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=True, past_key_values=held)
    finally:
        decoder.layers = layers
    kept = Counter()
    for at in range(few):
        state = held.linear_cache[at] if at < len(held.linear_cache) else []
        found = [state.numel()] if len(state) else _of_one_layer(held.layers[at], tokens)
        kept.update({key: len(layers) // few for key in found})
    return kept


def _kept_by_rwkv(name: str) -> Counter:
    """It has no cache object: its state goes in and comes out, one tensor for each of its vectors."""
    _, model = _on_meta(name)
    with torch.device("meta"), torch.no_grad():
        state = model(input_ids=torch.zeros(1, 1, dtype=torch.long), use_cache=True).state
    return Counter({sum(part.numel() for part in state) // model.config.num_hidden_layers: model.config.num_hidden_layers})


OTHER_CACHES = {"minimax-text-01": _kept_by_minimax, "rwkv-4-14b": _kept_by_rwkv}


def _kept_by_transformers(name: str, tokens: int = 5, few: int = 8) -> Counter:
    """What a layer keeps, in how many layers. A few layers run (every pattern shows all its kinds in 8), the rest are known
    by the kind and window that the configuration gives them."""
    config, model = _on_meta(name)
    held = DynamicCache(config=config)
    decoder = getattr(model, "model", model.base_model)  # Llama 4 names another prefix
    (where, blocks), *_ = [(where, child) for where, child in decoder.named_children() if isinstance(child, nn.ModuleList)]
    try:
        setattr(decoder, where, blocks[:few])
        with torch.device("meta"), torch.no_grad():
            model(input_ids=torch.zeros(1, tokens, dtype=torch.long), use_cache=True, cache=held)
    finally:
        setattr(decoder, where, blocks)
    in_own_hands = [layer.temporal_block for layer in blocks[:few] if hasattr(layer, "temporal_block")]  # RecurrentGemma
    of_kind = {}
    for at, layer in enumerate(held.layers[:few]):
        found = _of_one_layer(layer, tokens)
        if not found and in_own_hands:
            in_own_hands[at]._setup_cache(1, torch.device("meta"), torch.bfloat16)
            found = [in_own_hands[at].conv1d_state.numel() + in_own_hands[at].rg_lru.recurrent_states.numel()]
        assert of_kind.setdefault(_kind(layer), found) == found
    kept = Counter()
    for layer in held.layers:
        kept.update(of_kind[_kind(layer)])
    return kept


def _kind(layer) -> tuple:
    return type(layer).__name__, getattr(layer, "sliding_window", None)


def _of_one_layer(layer, tokens: int) -> list:
    """(KV heads, key and value dimension, window), and the number of values of its state."""
    found = []
    if isinstance(getattr(layer, "keys", None), torch.Tensor):
        (_, heads, length, key_dim), value_dim = layer.keys.shape, layer.values.shape[-1]
        assert length == tokens
        found.append((heads, key_dim, value_dim, getattr(layer, "sliding_window", None)))
    states = [*getattr(layer, "conv_states", {}).values(), *getattr(layer, "recurrent_states", {}).values()]
    if values := sum(state.numel() for state in states if state is not None):
        found.append(values)
    return found


def test_there_are_models_of_every_kind():
    """The lesson compares kinds of attention: each needs models that people serve."""
    kinds = Counter(m.attention_kind for m in MODELS.values())
    assert len(MODELS) >= 24 and set(kinds) == {"mha", "mqa", "gqa", "mla", "sliding", "hybrid", "state"}
    assert min(kinds.values()) >= 2, kinds
    assert sum(m.experts is not None for m in MODELS.values()) >= 5
    assert any(isinstance(g, Recurrent) for g in MODELS["falcon-h1-0.5b"].groups) and MODELS["falcon-h1-0.5b"].layers == 2 * 36


def test_kv_of_a_token_as_readers_know_it():
    """Papers and model cards state them, or they follow from a table there: bf16, all layers, while windows have room."""
    known = {
        "llama-2-7b": 524_288, "llama-2-13b": 819_200, "llama-2-70b": 327_680, "llama-3.1-8b": 131_072, "llama-3.1-405b": 516_096,
        "mistral-7b-v0.1": 131_072, "mixtral-8x7b": 131_072, "qwen2.5-72b": 327_680, "falcon-7b": 8192, "gpt-neox-20b": 1_081_344,
        "deepseek-v2": 69_120, "deepseek-v3": 70_272, "kimi-k2": 70_272, "jamba-v0.1": 16_384,
    }  # fmt: skip
    assert {name: MODELS[name].kv_bytes_per_token() for name in known} == known
    assert MODELS["jamba-v0.1"].kv_bytes(262_144).total == 4 * GIB, "Jamba (arXiv 2403.19887), table 1: 4 GB at 256K"


def test_windows_bound_what_is_kept():
    """A window taken for the whole context, or the other way round: at a million tokens that is a factor of 6."""
    gemma, mistral = MODELS["gemma-3-27b"], MODELS["mistral-7b-v0.1"]
    per_layer = 2 * 16 * 128 * 2
    assert gemma.kv_bytes(4096).total == per_layer * (52 * 1024 + 10 * 4096)
    assert gemma.kv_bytes(1_000_000).total == per_layer * (52 * 1024 + 10 * 1_000_000)
    assert mistral.kv_bytes(32_768) == mistral.kv_bytes(4096)
    windows = {m.name: group.window for m in MODELS.values() for group in m.groups if getattr(group, "window", None)}
    known = {
        "mistral-7b-v0.1": 4096, "gemma-2-9b": 4096, "gemma-2-27b": 4096, "gemma-3-27b": 1024, "phi-3-mini-4k": 2047,
        "gpt-oss-20b": 128, "gpt-oss-120b": 128, "command-r7b": 4096, "recurrentgemma-2b": 2048, "llama-4-scout": 8192,
    }  # fmt: skip
    assert {name: windows[name] for name in known} == known


def test_states_do_not_grow():
    """A state counted per token would make the hybrids look like the worst of all."""
    for m in MODELS.values():
        assert (m.state_bytes() > 0) == (m.attention_kind in ("hybrid", "state"))
        assert m.attention_kind != "state" or m.kv_bytes(1_000_000).total == 0
    assert MODELS["qwen3-next-80b-a3b"].state_bytes() == 36 * (32 * 128 * 128 + 4 * (2 * 16 * 128 + 32 * 128)) * 2


@pytest.mark.parametrize("name, published", [
    ("llama-2-7b", 6.74), ("llama-2-70b", 68.98), ("llama-3.1-405b", 405.9), ("mistral-7b-v0.1", 7.24), ("mixtral-8x7b", 46.7),
    ("qwen3-235b-a22b", 235), ("gemma-2-27b", 27.2), ("phi-3-mini-4k", 3.8), ("gpt-oss-120b", 116.8), ("falcon-7b", 6.9),
    ("starcoder", 15.5), ("gpt-neox-20b", 20.6), ("deepseek-v2-lite", 15.7), ("deepseek-v2", 236), ("deepseek-v3", 671),
    ("kimi-k2", 1026), ("jamba-v0.1", 52), ("nemotron-h-8b", 8.1), ("lfm2-1.2b", 1.17), ("granite-4.0-h-tiny", 7), ("codestral-mamba-7b", 7.285), ("falcon-mamba-7b", 7.27),
    ("rwkv-4-14b", 14.1), ("minimax-text-01", 456),
])  # fmt: skip
def test_parameters_as_published(name, published):
    """BEYOND is typed by hand as well: an error there and in the profile could agree. The papers' round figures do not."""
    assert MODELS[name].parameters == pytest.approx(published * 1e9, rel=0.01)


@pytest.mark.parametrize("name, published", [
    ("mixtral-8x7b", 12.9), ("qwen3-30b-a3b", 3.3), ("qwen3-235b-a22b", 22), ("deepseek-v2", 21), ("deepseek-v3", 37),
    ("kimi-k2", 32), ("jamba-v0.1", 12), ("llama-4-scout", 17),
])  # fmt: skip
def test_active_parameters_as_published(name, published):
    assert MODELS[name].active_parameters == pytest.approx(published * 1e9, rel=0.03)


def test_there_are_enough_devices_and_every_family_of_links():
    assert len(DEVICES) >= 14 and set(KINDS) == {link.kind for link in LINKS.values()}
    speeds = {kind: {round(link.bytes_per_s * 8 / 1e9) for link in LINKS.values() if link.kind == kind} for kind in KINDS}
    assert speeds["ethernet"] >= {10, 25, 40, 100, 200, 400} and speeds["roce"] >= {100, 200, 400}
    assert speeds["infiniband"] >= {200, 400, 800} and {"nvlink-3", "nvlink-4", "nvlink-5"} <= set(LINKS)


@pytest.mark.parametrize("name", LINKS)
def test_gpudirect_rdma_is_said_of_networks_only_and_with_a_source(name):
    """It changes the path of a KV transfer, so a guess would be worse than silence."""
    link = LINKS[name]
    assert (link.gpudirect_rdma is None) == (link.kind in ("nvlink", "pcie"))
    assert ("gpudirect_rdma" in link.sources) == (link.gpudirect_rdma is not None)


def test_links_are_given_in_one_direction():
    """Vendors add up both directions of NVLink and PCIe, but not of networks: twice as fast a transfer."""
    assert [LINKS[f"nvlink-{n}"].bytes_per_s for n in (3, 4, 5)] == [300e9, 450e9, 900e9]
    for n, rate in ((3, 8e9), (4, 16e9), (5, 32e9)):
        assert LINKS[f"pcie-{n}-x16"].bytes_per_s == pytest.approx(16 * rate * 128 / 130 / 8, rel=1e-4)
    assert LINKS["pcie-6-x16"].bytes_per_s == pytest.approx(16 * 64e9 * 242 / 256 / 8, rel=1e-4)
    assert LINKS["infiniband-ndr"].bytes_per_s == LINKS["roce-400"].bytes_per_s == 50e9


def test_devices_as_their_datasheets_say():
    """(bf16 TFLOPS dense, GB/s, GB): figures with sparsity are twice as high, the usual mistake."""
    known = {
        "h200-sxm": (989.5, 4800, 141), "h100-pcie": (756.5, 2000, 80), "b200": (2250, 8000, 180), "mi300x": (1307.4, 5300, 192),
        "a100-40gb-sxm": (312, 1555, 40), "l4": (121, 300, 24), "rtx-4090": (165.2, 1008, 24), "tpu-v5e": (197, 819, 16),
    }  # fmt: skip
    found = {d.name: (d.bf16_flops_per_s / 1e12, d.memory_bytes_per_s / 1e9, d.nominal_bytes / 1e9) for d in DEVICES.values()}
    assert {name: found[name] for name in known} == known


@pytest.mark.parametrize("name", DEVICES)
def test_a_devices_figures_fit_together(name):
    """GB for GiB, a sparse figure beside a dense one, a gigabyte for a terabyte."""
    d = DEVICES[name]
    assert d.usable_bytes is None or 1.0 <= d.usable_bytes / d.nominal_bytes < 1.08, "what is sold as 80 GB is up to 80 GiB"
    assert d.fp8_flops_per_s is None or 1.0 <= d.fp8_flops_per_s / d.bf16_flops_per_s < 2.05
    assert 50 < d.bf16_flops_per_s / d.memory_bytes_per_s < 600, "FLOP per byte at the ridge"


@pytest.mark.parametrize("profile", [*MODELS.values(), *DEVICES.values(), *LINKS.values()], ids=lambda p: p.name)
def test_a_source_can_be_looked_up(profile):
    """A number without a place to check it is a rumour; what is counted from the shape the tests above count."""
    for of, source in profile.sources.items():
        counted = of == "parameters" and source.startswith("counted from the shape")
        assert counted or re.search(r"https://\S+\.\S+|arXiv \d{4}\.\d{5}", source)
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", profile.name)


@pytest.mark.parametrize("name", MODELS)
def test_a_models_sources_lead_to_its_own_repository(name):
    """Copied from a neighbour, a source leads to another model."""
    m = MODELS[name]
    assert m.repo.count("/") == 1
    for source in m.sources.values():
        for repo in re.findall(r"https://huggingface\.co/(?!docs/)([^/\s,;)]+/[^/\s,;:)]+)", source):
            assert repo == m.repo
