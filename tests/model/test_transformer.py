"""The transformer's own promises: packing, wanted rows, weights laid out for the CPU, dtypes."""

from __future__ import annotations

import pytest
import torch

from engine.model.catalog import CATALOG
from engine.model.config import ModelConfig
from engine.model.layout import fused_shapes
from engine.model.linear import Linear, packing_works
from engine.model.transformer import Transformer, causal_attend
from tests.model.reference import TOLERANCE, difference, hf_random, logits_of

CONFIG = ModelConfig(
    vocab_size=120, hidden_size=40, n_layers=3, n_heads=6, n_kv_heads=2, head_dim=8, ffn_size=72, max_context=256,
    attention_bias=True, attention_out_bias=True, mlp_bias=True,
)


def _attend_within(lengths: list[int]):
    """Causal attention of several sequences that stand in one row."""

    def attend(layer, q, k, v):
        parts = zip(q.split(lengths), k.split(lengths), v.split(lengths))
        return torch.cat([causal_attend(layer, *part) for part in parts])

    return attend


def test_packed_sequences_do_not_see_each_other():
    """Three prompts in one row of tokens give what each gives alone; only the attend function knows of them."""
    model = Transformer.random(CONFIG, seed=1)
    lengths = [5, 1, 17]
    prompts = [torch.randint(0, 120, (n,), generator=torch.Generator().manual_seed(n)) for n in lengths]
    positions = torch.cat([torch.arange(n) for n in lengths])
    together = model(torch.cat(prompts), positions, _attend_within(lengths))
    alone = torch.cat([logits_of(model, prompt) for prompt in prompts])
    assert difference(together, alone) < TOLERANCE


def test_only_wanted_rows_are_computed_and_they_are_the_same():
    model = Transformer.random(CONFIG, seed=2)
    ids = torch.arange(30)
    everything = logits_of(model, ids)
    for rows in ([29], [0, 7, 29], [12, 3], []):
        wanted = torch.tensor(rows, dtype=torch.int64)
        some = model(ids, torch.arange(30), causal_attend, wanted)
        assert some.shape == (len(rows), 120)
        assert not rows or difference(some, everything[wanted]) < TOLERANCE


def test_positions_are_the_callers():
    """The same tokens further along in a text give the same logits: rotary attention sees distances only."""
    model = Transformer.random(CONFIG, seed=3)
    ids = torch.arange(20)
    moved = model(ids, torch.arange(100, 120), causal_attend)
    assert difference(moved, logits_of(model, ids)) < 1e-3
    stretched = model(ids, torch.arange(20) * 3, causal_attend)
    assert difference(stretched, logits_of(model, ids)) > 0.1


def test_attend_gets_each_layer_once_in_order_with_the_promised_shapes():
    model, calls = Transformer.random(CONFIG, seed=4), []

    def attend(layer, q, k, v):
        calls.append((layer, tuple(q.shape), tuple(k.shape), tuple(v.shape)))
        return causal_attend(layer, q, k, v)

    logits_of(model, torch.arange(9))
    model(torch.arange(9), torch.arange(9), attend)
    assert calls == [(layer, (9, 6, 8), (9, 2, 8), (9, 2, 8)) for layer in range(3)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 10, 300])
def test_packed_weights_give_the_same_products(dtype, rows):
    generator = torch.Generator().manual_seed(rows)
    weight, bias = torch.randn(96, 64, generator=generator).to(dtype), torch.randn(96, generator=generator).to(dtype)
    x = torch.randn(rows, 64, generator=generator).to(dtype)
    plain, packed = Linear(weight, bias), Linear(weight, bias)
    packed.pack()
    assert (packed.weight is None) == packing_works(dtype)
    torch.testing.assert_close(packed(x), plain(x), rtol=2e-2 if dtype == torch.bfloat16 else 1e-5, atol=2e-1 if dtype == torch.bfloat16 else 1e-4)


def test_bf16_follows_fp32():
    """Half the bytes, the same model: the favourite next token mostly agrees and no logit runs away."""
    weights = Transformer.random(CONFIG, seed=5)
    half = Transformer(CONFIG, {name: tensor.bfloat16() for name, tensor in weights.named_buffers(remove_duplicate=False)})
    ids = torch.arange(60)
    full, rounded = logits_of(weights, ids), logits_of(half.pack(), ids)
    assert rounded.dtype == torch.bfloat16
    assert difference(rounded.float(), full) < 0.3
    assert (rounded.float().argmax(-1) == full.argmax(-1)).float().mean() > 0.8


def test_same_seed_same_model():
    a, b, c = (logits_of(Transformer.random(CONFIG, seed=seed), torch.arange(8)) for seed in (6, 6, 7))
    assert torch.equal(a, b) and not torch.equal(a, c)
    assert 1 < a.std() < 4


def test_parameters_are_counted_as_hugging_face_counts_them():
    for tied in (True, False):
        settings = {
            "vocab_size": 77, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 10,
            "intermediate_size": 30, "tie_word_embeddings": tied, "attention_bias": True, "mlp_bias": tied,
        }
        theirs = hf_random(0, **settings)
        config = ModelConfig.from_hf({**theirs.config.to_dict(), "architectures": ["LlamaForCausalLM"]})
        assert config.parameter_count() == theirs.num_parameters()


def test_the_catalogs_sizes():
    """The numbers people quote: 46,080 bytes of fp32 keys and values per token; about a billion parameters."""
    assert CATALOG["smollm2-135m-instruct"].config.kv_bytes_per_token(4) == 46_080
    assert 0.9e9 < CATALOG["random-1b"].config.parameter_count() < 1.2e9
    assert CATALOG["random-tiny"].config.parameter_count() < 20_000
    assert set(fused_shapes(CATALOG["random-tiny"].config)) == set(dict(Transformer.random(CATALOG["random-tiny"].config, seed=0).state_dict())) - {"head.weight"}


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gpu_computes_what_the_cpu_computes(dtype):
    on_cpu = Transformer.random(CONFIG, seed=8)
    weights = {name: tensor.to("cuda", dtype) for name, tensor in on_cpu.named_buffers(remove_duplicate=False)}
    ids = torch.arange(60)
    on_gpu = Transformer(CONFIG, weights)(ids.cuda(), torch.arange(60).cuda(), causal_attend, torch.tensor([59, 3]).cuda())
    reference = logits_of(on_cpu, ids)[[59, 3]]
    assert difference(on_gpu.float().cpu(), reference) < (0.3 if dtype == torch.bfloat16 else 1e-3)


@pytest.mark.gpu
def test_the_billion_parameter_preset_runs_on_a_gpu():
    from engine.model.load import load_model

    model = load_model("random-1b", device="cuda", dtype=torch.bfloat16)
    ids = torch.arange(2000, device="cuda")
    logits = model.transformer(ids, ids, causal_attend, torch.tensor([1999], device="cuda"))
    assert logits.shape == (1, model.config.vocab_size) and logits.isfinite().all()
