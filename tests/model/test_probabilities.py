"""The probabilities that are shown are those of the model, against Hugging Face's `output_attentions`."""

import pytest
import torch
from transformers import LlamaForCausalLM

from engine.model.config import ModelConfig
from engine.model.probabilities import watching_attend
from engine.model.transformer import Transformer
from tests.model.reference import TOLERANCE, difference, hf_random, logits_of, ours_from_hf

SHAPE = dict(vocab_size=120, hidden_size=48, num_hidden_layers=3, intermediate_size=64, max_position_embeddings=128)


def watched(model, ids):
    seen = []
    logits = logits_of(model, ids, watching_attend(lambda layer, p: seen.append((layer, p.clone()))))
    assert [layer for layer, _ in seen] == list(range(model.config.n_layers))
    return logits, torch.stack([p for _, p in seen])


@pytest.mark.parametrize("heads, kv_heads", [(6, 6), (6, 2), (6, 1)])
@pytest.mark.parametrize("n", [1, 37])
def test_probabilities_equal_hugging_face(heads, kv_heads, n):
    """Logits instead of probabilities, heads in the order of the KV heads, rows and columns swapped, a missing scale."""
    theirs: LlamaForCausalLM = hf_random(1, num_attention_heads=heads, num_key_value_heads=kv_heads, **SHAPE)
    theirs.set_attn_implementation("eager")
    ids = torch.randint(0, 120, (n,), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        expected = torch.cat(theirs(ids[None], output_attentions=True).attentions)
    model = ours_from_hf(theirs)
    logits, found = watched(model, ids)
    assert found.shape == (3, heads, n, n) and found.dtype == torch.float32
    assert (found - expected).abs().max() < 1e-4
    assert (found.sum(dim=-1) - 1).abs().max() < 1e-5
    assert found.triu(1).abs().max() == 0
    assert difference(logits, logits_of(model, ids)) < TOLERANCE


def test_watching_changes_nothing_in_bfloat16_either():
    """The picture is drawn from the run that is shown: the same output within the number format."""
    config = ModelConfig(vocab_size=120, hidden_size=48, n_layers=2, n_heads=6, n_kv_heads=2, head_dim=8, ffn_size=64)
    model = Transformer.random(config, seed=2, dtype=torch.bfloat16)
    ids = torch.arange(50)
    logits, found = watched(model, ids)
    assert found.dtype == torch.float32 and (found.sum(dim=-1) - 1).abs().max() < 1e-5
    assert difference(logits.float(), logits_of(model, ids).float()) < 0.1
