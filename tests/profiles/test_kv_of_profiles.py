"""KV bytes of every profile, three ways: recomputed from the file's own numbers by a formula of a few lines per kind of
layer, allocated by the engine's KV code, and against the defaults of Hugging Face's classes where those are that model."""

import tomllib

import pytest
import torch
from transformers import CONFIG_MAPPING
from transformers.cache_utils import get_layer_types_and_kwargs

from engine import profiles
from engine.formulas.kv import KV_DTYPES, Attention, kv_bytes
from engine.kv.storage import KVStorage
from engine.model.config import ModelConfig

MODELS = profiles.models()
RAW = {path.stem: tomllib.loads(path.read_text()) for path in (profiles.PROFILES_DIR / "models").glob("*.toml")}
LENGTHS = (1, 31, 32, 33, 127, 128, 129, 1000, 2047, 2048, 2049, 4095, 4096, 4097, 100_001, 131_072)

# Which profiles the class of that model type describes when nothing is given. The others say where each number is from.
BY_CLASS_DEFAULTS = {
    "llama-2-7b", "mistral-7b-v0.1", "mixtral-8x7b", "falcon-7b", "gpt-neox-20b", "olmo-2-7b", "gpt-oss-120b", "deepseek-v3",
    "jamba-v0.1", "qwen3-next-80b-a3b",
}  # fmt: skip
BY_SOURCE = {
    "smollm2-135m-instruct", "llama-2-13b", "llama-2-70b", "llama-3-8b", "llama-3-70b", "llama-3.1-8b", "llama-3.1-405b",
    "llama-3.2-1b", "llama-3.2-3b", "qwen2.5-7b", "qwen2.5-72b", "qwen3-8b", "qwen3-32b", "qwen3-30b-a3b", "qwen3-235b-a22b",
    "gemma-2-9b", "gemma-2-27b", "gemma-3-27b", "phi-3-mini-4k", "phi-4", "gpt-oss-20b", "starcoder", "command-r7b",
    "deepseek-v2", "deepseek-v2-lite", "kimi-k2", "falcon-h1-0.5b", "granite-4.0-h-tiny", "lfm2-1.2b", "nemotron-h-8b",
    "recurrentgemma-2b", "codestral-mamba-7b", "falcon-mamba-7b", "rwkv-4-14b", "minimax-text-01", "llama-4-scout",
}  # fmt: skip
# The class has another vocabulary or context than the model that was trained.
NOT_OF_THE_CLASS = {"olmo-2-7b": {"vocab_size"}}


def attention(entry: dict, tokens: int, dtype: str) -> tuple[float, float]:
    """(payload, scales): K and V of the tokens held, times KV heads."""
    n, k = entry["count"] * entry["kv_heads"], entry["key_dim"]
    v, held = entry.get("value_dim", k), min(tokens, entry.get("window", tokens))
    whole = held - held % 32
    if dtype == "int4":
        return n * (k * whole / 2 + k * (held - whole) * 2 + v * held / 2), n * (k * whole / 32 * 4 + held * 4)
    return n * (k + v) * held * {"fp32": 4, "bf16": 2, "fp8": 1, "int8": 1}[dtype], n * held * 4 * (dtype == "int8")


def latent(entry: dict, tokens: int, dtype: str) -> tuple[float, float]:
    n, channels = entry["count"], entry["rank"] + entry["rope_dim"]
    whole = tokens - tokens % 32
    if dtype == "int4":
        return n * channels * (whole / 2 + (tokens - whole) * 2), n * channels * whole / 32 * 4
    return n * channels * tokens * {"fp32": 4, "bf16": 2, "fp8": 1, "int8": 1}[dtype], n * tokens * 4 * (dtype == "int8")


def recurrent(entry: dict, tokens: int, dtype: str) -> tuple[float, float]:
    return 0, 0


BY_KIND = {"attention": attention, "latent": latent, "recurrent": recurrent}


@pytest.mark.parametrize("dtype", KV_DTYPES)
@pytest.mark.parametrize("name", MODELS)
def test_a_second_formula_gives_the_same_bytes(name, dtype):
    """Below, at and above every window, and where 32 does not divide the length: one formula wrong in one kind of layer
    would pass for a model without it."""
    for tokens in LENGTHS:
        parts = [BY_KIND[entry["kind"]](entry, tokens, dtype) for entry in RAW[name]["layers"]]
        found = MODELS[name].kv_bytes(tokens, dtype)
        assert (found.payload, found.scales) == tuple(map(sum, zip(*parts, strict=True))), tokens
    states = sum(entry["count"] * entry["state_values"] for entry in RAW[name]["layers"] if entry["kind"] == "recurrent")
    assert MODELS[name].state_bytes(dtype) == states * (4 if dtype == "fp32" else 2)


ALLOCATED = [name for name, m in MODELS.items() if all(isinstance(group, Attention) for group in m.groups)]
FORMATS = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}


def allocated_bytes(m: profiles.ModelProfile, group: Attention, tokens: int, dtype: torch.dtype) -> int:
    """What the engine's storage really takes for so many tokens of these layers."""
    shape = ModelConfig(
        vocab_size=m.vocab_size, hidden_size=m.hidden_size, n_layers=group.layers, n_heads=m.heads, n_kv_heads=group.kv_heads,
        head_dim=group.key_dim, ffn_size=1,
    )  # fmt: skip
    blocks = -(-tokens // 8)
    memory = KVStorage(shape, blocks, 8, dtype=dtype).memory
    assert memory.untyped_storage().nbytes() == memory.nbytes, "nothing beside it"
    return memory.nbytes * tokens // (blocks * 8)


@pytest.mark.parametrize("name", ALLOCATED)
def test_the_engine_allocates_as_many_bytes(name):
    """Query heads for KV heads, K without V, a layer too many: the formula would not see it, memory does."""
    m = MODELS[name]
    for dtype, torch_dtype in FORMATS.items():
        for tokens in (8, 16):
            assert sum(allocated_bytes(m, group, tokens, torch_dtype) for group in m.groups) == m.kv_bytes(tokens, dtype).total


def test_enough_are_allocated_and_a_window_full_is_a_storage_of_its_size():
    """Past its window a layer holds what a storage of the window's size does: gpt-oss keeps 128 tokens in half its layers."""
    assert len(ALLOCATED) >= 10
    m = MODELS["gpt-oss-20b"]
    (windowed,) = [group for group in m.groups if group.window]
    assert kv_bytes([windowed], 100_000, "bf16").total == allocated_bytes(m, windowed, windowed.window, torch.bfloat16)


def values_by_class(config) -> dict[tuple[int, int | None], int]:
    """{(values per token, window): layers} that Hugging Face's cache would hold; layers with a state are (0, None)."""
    kinds, settings = get_layer_types_and_kwargs(config)
    kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    if getattr(config, "multi_query", False):
        kv_heads = 1
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    per_token = 2 * kv_heads * head_dim
    if hasattr(config, "kv_lora_rank"):
        per_token = config.kv_lora_rank + config.qk_rope_head_dim
    found: dict = {}
    for kind, setting in zip(kinds, settings, strict=True):
        held = (0, None) if kind == "linear_attention" else (per_token, setting.get("sliding_window"))
        found[held] = found.get(held, 0) + 1
    return found


@pytest.mark.parametrize("name", sorted(BY_CLASS_DEFAULTS))
def test_the_class_in_transformers_has_the_same_defaults(name):
    """Made by the authors of the model or with them: a second source for layers, KV heads, dimensions and windows."""
    m = MODELS[name]
    config = CONFIG_MAPPING[m.model_type]()
    ours: dict = {}
    for group in m.groups:
        values = group.kv_heads * (group.key_dim + group.value_dim) if isinstance(group, Attention) else getattr(group, "rank", 0)
        values += getattr(group, "rope_dim", 0)
        held = (values, getattr(group, "window", None))
        ours[held] = ours.get(held, 0) + group.layers
    assert ours == values_by_class(config)
    also = {"hidden_size": m.hidden_size, "num_attention_heads": m.heads, "vocab_size": m.vocab_size}
    for field in also.keys() - NOT_OF_THE_CLASS.get(name, set()):
        assert getattr(config, field) == also[field], field


def test_every_profile_is_checked_against_its_class_or_says_its_source():
    """A new profile must be put in one of the two lists, not in neither by forgetting."""
    assert set(MODELS) == BY_CLASS_DEFAULTS | BY_SOURCE and not BY_CLASS_DEFAULTS & BY_SOURCE
    for name in BY_SOURCE:
        assert "https://" in MODELS[name].sources["layers"] or "arXiv" in MODELS[name].sources["layers"], name
