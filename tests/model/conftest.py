"""What several tests of the model room need; the expensive things once a session."""

from __future__ import annotations

import os

# The reference implementation must never try to reach its hub; it reads this when it is imported.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch


@pytest.fixture(scope="session")
def default_tokenizer(default_model_path):
    from engine.model.load_tokenizer import load_tokenizer

    return load_tokenizer("smollm2-135m-instruct")


@pytest.fixture(scope="session")
def real_tokens(default_tokenizer, kjv) -> torch.Tensor:
    """512 tokens of the default text."""
    ids = default_tokenizer.encode(kjv.text[:4000])[:512]
    assert len(ids) == 512
    return torch.tensor(ids)


@pytest.fixture(scope="session")
def hf_default(default_model_path):
    from tests.model.reference import hf_from_gguf

    return hf_from_gguf(
        default_model_path, vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, head_dim=64, max_position_embeddings=8192, rms_norm_eps=9.999999747378752e-06, rope_theta=100000.0,
        tie_word_embeddings=True,
    )


@pytest.fixture(scope="session")
def hf_default_logits(hf_default, real_tokens):
    from tests.model.reference import hf_logits_of

    return hf_logits_of(hf_default, real_tokens)
