"""Our logits equal Hugging Face's Llama, and the comparison would notice if they did not."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from engine.model import transformer as transformer_module
from engine.model.load import load_model
from engine.model.transformer import Transformer, causal_attend
from tests.model.reference import TOLERANCE, difference, hf_logits_of, hf_random, logits_of, ours_from_hf


@pytest.mark.parametrize("pack", [False, True], ids=["plain", "packed for the CPU"])
def test_default_model(default_model_path, real_tokens, hf_default_logits, pack):
    """512 real tokens; their side reads and dequantises the file with its own reader."""
    model = load_model("smollm2-135m-instruct", dtype=torch.float32, pack=pack)
    assert hf_default_logits.std() > 1
    assert difference(logits_of(model.transformer, real_tokens), hf_default_logits) < TOLERANCE


@pytest.mark.parametrize("shard", ["5GB", "100MB"], ids=["single file", "sharded"])
def test_safetensors_directory(tmp_path, default_tokenizer, hf_default, hf_default_logits, real_tokens, shard):
    """The same weights as Hugging Face writes them, read back by us."""
    hf_default.save_pretrained(tmp_path, max_shard_size=shard)
    default_tokenizer._core.save(str(tmp_path / "tokenizer.json"))
    assert (tmp_path / "model.safetensors.index.json").exists() == (shard == "100MB")
    model = load_model(str(tmp_path), dtype=torch.float32)
    assert difference(logits_of(model.transformer, real_tokens), hf_default_logits) < TOLERANCE
    for file in tmp_path.glob("*.safetensors"):
        file.unlink()  # half a gigabyte that pytest would keep for three runs


ROPES = [
    {"rope_type": "default"},
    {"rope_type": "linear", "factor": 2.5},
    {"rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 64},
    {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
]


@st.composite
def llama_settings(draw) -> dict:
    """Configurations in the corners where implementations go wrong."""
    kv_heads, group = draw(st.sampled_from([1, 2, 3, 5])), draw(st.sampled_from([1, 2, 3, 4, 8]))
    heads = kv_heads * group
    return {
        "vocab_size": draw(st.integers(50, 300)),
        # Hugging Face insists on a multiple of the heads, though head_dim below is free of it.
        "hidden_size": heads * draw(st.integers(max(1, 24 // heads), max(1, 90 // heads))),
        "num_hidden_layers": draw(st.integers(1, 3)),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": draw(st.sampled_from([2, 6, 8, 16, 26, 64])),
        "intermediate_size": draw(st.integers(8, 120)),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-5, 1e-2])),
        "max_position_embeddings": 512,
        "tie_word_embeddings": draw(st.booleans()),
        "attention_bias": draw(st.booleans()),
        "mlp_bias": draw(st.booleans()),
        "rope_parameters": {"rope_theta": draw(st.sampled_from([100.0, 1e4, 5e5])), **draw(st.sampled_from(ROPES))},
    }


@settings(max_examples=40)
@given(llama_settings(), st.integers(1, 70), st.integers(0, 2**31))
def test_random_configurations(hf_settings, length, seed):
    """Grouped queries 1 to 8, tied and untied heads, odd head counts, free head_dim, biases, stretched frequencies."""
    theirs = hf_random(seed, **hf_settings)
    ids = torch.randint(0, hf_settings["vocab_size"], (length,), generator=torch.Generator().manual_seed(seed))
    reference = hf_logits_of(theirs, ids)
    assert reference.std() >= 1
    plain = ours_from_hf(theirs)
    assert difference(logits_of(plain, ids), reference) < TOLERANCE
    assert difference(logits_of(plain.pack(), ids), reference) < TOLERANCE


def _neighbouring_pairs(heads, cosines, sines):
    """Rotation of the pairs (2i, 2i + 1) instead of (i, i + head_dim / 2)."""
    half = heads.shape[-1] // 2
    a, b, cos, sin = heads[..., 0::2], heads[..., 1::2], cosines[..., :half], sines[..., half:]
    return torch.stack((a * cos - b * sin, b * cos + a * sin), dim=-1).flatten(-2)


def _heads_dealt_out(layer, q, k, v):
    """Query head h reads KV head h % n_kv_heads instead of h // group."""
    copies = q.shape[1] // k.shape[1]
    return causal_attend(layer, q, k.repeat(1, copies, 1), v.repeat(1, copies, 1))


def _sees_the_future(_layer, q, k, v):
    q, k, v = (heads.transpose(0, 1)[None] for heads in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)[0].transpose(0, 1)


def _misses_the_first(_layer, q, k, v):
    """A mask off by one at the far end: the first token is seen by itself only."""
    n = len(q)
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    mask[1:, 0] = False
    q, k, v = (heads.transpose(0, 1)[None] for heads in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)[0].transpose(0, 1)


def _broken_logits(kind: str, model: Transformer, ids: torch.Tensor, monkeypatch) -> torch.Tensor:
    if kind == "theta":
        config = dataclasses.replace(model.config, rope_theta=model.config.rope_theta * 1.02)
        weights = {name: tensor for name, tensor in model.named_buffers(remove_duplicate=False)}
        return logits_of(Transformer(config, weights), ids)
    if kind == "rotary pairing":
        monkeypatch.setattr(transformer_module, "rotate", _neighbouring_pairs)
        return logits_of(model, ids)
    attend = {"head grouping": _heads_dealt_out, "mask": _sees_the_future, "mask by one": _misses_the_first}[kind]
    return logits_of(model, ids, attend)


BREAKAGES = ["theta", "rotary pairing", "head grouping", "mask", "mask by one"]


@pytest.mark.parametrize("kind", BREAKAGES)
def test_comparison_notices_errors_in_a_random_model(kind, monkeypatch):
    """The property test above has power: each classical mistake is at least a hundred times over its tolerance."""
    theirs = hf_random(
        3, vocab_size=200, hidden_size=60, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, head_dim=16,
        intermediate_size=100, tie_word_embeddings=True, max_position_embeddings=128,
    )
    ids = torch.randint(0, 200, (60,), generator=torch.Generator().manual_seed(3))
    reference, ours = hf_logits_of(theirs, ids), ours_from_hf(theirs)
    assert difference(logits_of(ours, ids), reference) < TOLERANCE
    assert difference(_broken_logits(kind, ours, ids, monkeypatch), reference) > 100 * TOLERANCE


@pytest.mark.parametrize("kind", BREAKAGES)
def test_comparison_notices_errors_in_the_default_model(default_model_path, hf_default_logits, real_tokens, kind, monkeypatch):
    """So does the comparison on real weights and real text."""
    model = load_model("smollm2-135m-instruct", dtype=torch.float32, pack=False).transformer
    ids = real_tokens[:96]
    reference = hf_default_logits[:96]
    assert difference(logits_of(model, ids), reference) < TOLERANCE
    assert difference(_broken_logits(kind, model, ids, monkeypatch), reference) > 100 * TOLERANCE
