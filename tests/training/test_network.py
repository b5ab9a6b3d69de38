"""The network that is trained computes what the engine and Hugging Face compute with its weights."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from dataclasses import replace

import pytest
import torch

from engine.formulas.rope import scaling_for
from engine.model.config import ModelConfig
from engine.model.transformer import Transformer, causal_attend
from engine.training.network import EMBEDDING, Network, initial_weights
from tests.model.reference import hf_random
from tests.training.small import CONFIG

HF = {
    "vocab_size": 94, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
    "intermediate_size": 48, "max_position_embeddings": 64, "tie_word_embeddings": True, "rope_theta": 10_000.0,
}


def test_it_is_the_engines_transformer_and_hugging_faces():
    """Heads wider than hidden / heads, grouped, tied: a wrong grouping, rotation or norm moves logits by far more than this."""
    model = hf_random(3, **HF)
    config = ModelConfig.from_hf({**model.config.to_dict(), "architectures": ["LlamaForCausalLM"]})
    network = Network(config, model.state_dict())
    ids = torch.randint(0, 94, (3, 40), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        ours, theirs = network(ids), model(ids).logits
        engine = Transformer(config, network.fused())
        alone = torch.stack([engine(row, torch.arange(40), causal_attend) for row in ids])
    assert theirs.std() > 1
    assert (ours - theirs).abs().max() < 1e-4 * theirs.std() and (ours - alone).abs().max() < 1e-4 * theirs.std()


def test_it_stretches_as_the_engine_does():
    """Perplexities measured with it and with the engine would otherwise be of two rotations."""
    config = replace(CONFIG, rope_scaling=scaling_for("yarn", 4, 64))
    network = Network(config, initial_weights(CONFIG, 1))
    ids = torch.arange(90)
    with torch.inference_mode():
        engine = Transformer(config, network.fused())(ids, torch.arange(90), causal_attend)
        plain = Network(CONFIG, network.weights)(ids[None])[0]
        assert (network(ids[None])[0] - engine).abs().max() < 1e-4 * engine.std() < (plain - engine).abs().max()


def test_every_weight_learns():
    weights = {name: tensor.requires_grad_() for name, tensor in initial_weights(CONFIG, 0).items()}
    Network(CONFIG, weights)(torch.arange(60).view(2, 30)).logsumexp(-1).sum().backward()
    assert all(tensor.grad is not None and tensor.grad.abs().max() > 0 for tensor in weights.values())


def test_untied_embeddings_are_refused():
    with pytest.raises(ValueError, match="tied"):
        Network(replace(CONFIG, tie_embeddings=False), {})


def test_the_first_layer_begins_by_looking_a_token_back():
    """Without it recall forms late or never. Attention of its first head, read off the queries and keys of an engine."""
    config = replace(CONFIG, head_dim=32, hidden_size=64)
    seen = {}

    def attend(layer, q, k, v):
        if layer == 0:
            seen["scores"] = q[:, 0] @ k[:, 0].T / config.head_dim**0.5
        return causal_attend(layer, q, k, v)

    ids = torch.randint(0, 94, (64,), generator=torch.Generator().manual_seed(0))
    Transformer(config, Network(config, initial_weights(config, 0)).fused())(ids, torch.arange(64), attend)
    shares = (seen["scores"] + torch.full((64, 64), float("-inf")).triu(1)).softmax(-1)
    back = shares.diagonal(-1)
    assert back.mean() > 0.5 and (shares[1:].argmax(-1) == torch.arange(63)).float().mean() > 0.9


def test_the_same_seed_gives_the_same_beginning():
    one, same, other = (initial_weights(CONFIG, seed) for seed in (4, 4, 5))
    assert all(torch.equal(one[name], same[name]) for name in one) and not torch.equal(one[EMBEDDING], other[EMBEDDING])
