"""Whatever the schedule, the model computes the same: teacher-forced fp32 logits against one whole forward.

A chunk that reads past what was written, a mask aligned at the wrong corner, KV that a transfer or a recompute lost:
each would show here.
"""

import pytest
import torch

from engine.model.config import ModelConfig
from engine.model.load import load_model
from engine.model.transformer import Transformer, causal_attend
from engine.serving.request import Request
from tests.serving.in_process import serve_in_process

TOLERANCE = 1e-4  # of the standard deviation of the logits

TINY = ModelConfig(
    vocab_size=211,
    hidden_size=48,
    n_layers=3,
    n_heads=6,
    n_kv_heads=2,
    head_dim=16,
    ffn_size=96,
    max_context=512,
    tie_embeddings=True,
)


def requests_of(lengths, outputs, vocab, seed=0):
    generator = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(0, vocab, (n,), generator=generator).tolist() for n in lengths]
    forced = {i: torch.randint(0, vocab, (n,), generator=generator).tolist() for i, n in enumerate(outputs)}
    return [Request(i, tuple(p), n) for i, (p, n) in enumerate(zip(prompts, outputs, strict=True))], forced


def whole_forward(model, request, forced):
    """The logits that predict each output token, from one causal forward over prompt and outputs."""
    ids = torch.tensor([*request.prompt, *forced[request.index]])
    logits = model(ids, torch.arange(len(ids)), causal_attend).float()
    return logits[len(request.prompt) - 1 : -1]


def worst_difference(model, requests, forced, found):
    return worst_of(found, {request.index: whole_forward(model, request, forced) for request in requests})


def worst_of(found, expected):
    """The largest difference of any logit, over the spread of those expected; both by request."""
    return max(float((found[index] - logits).abs().max() / logits.std()) for index, logits in expected.items())


CASES = {
    "unified": dict(schedule="unified"),
    "chunk 1": dict(schedule="chunked", chunk=1),
    "chunk 7": dict(schedule="chunked", chunk=7),
    "disaggregated": dict(schedule="disaggregated"),
    "layer by layer": dict(schedule="disaggregated", layerwise=True),
    "host mirror": dict(schedule="disaggregated", mirror=True),
    "host mirror, layer by layer": dict(schedule="disaggregated", mirror=True, layerwise=True),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("pool", ["roomy", "tight"])
def test_tiny_model(case, pool, monkeypatch, tmp_path):
    """Three requests together; in a tight pool somebody is preempted and recomputed, and nothing changes."""
    model = Transformer.random(TINY, seed=3)
    requests, forced = requests_of((41, 17, 29), (60, 40, 40), TINY.vocab_size)
    options = dict(blocks=64, block_tokens=4) if pool == "roomy" else dict(blocks=28, block_tokens=4)
    found, preemptions = serve_in_process(
        model, requests=requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, **CASES[case], **options
    )
    assert (sum(preemptions.values()) > 0) == (pool == "tight")
    assert worst_difference(model, requests, forced, found) < TOLERANCE


@pytest.fixture(scope="module")
def default_case(default_model_path, kjv):
    """The pretrained model, a prompt of 300 tokens beside one of 40, what follows in the text, and what a forward of each makes
    of it: loaded, read and computed once."""
    loaded = load_model("smollm2-135m-instruct", dtype=torch.float32)
    ids = loaded.tokenizer.encode(kjv.text[:3000])
    requests = [Request(0, tuple(ids[:300]), 30), Request(1, tuple(ids[300:340]), 30)]
    forced = {0: ids[340:370], 1: ids[370:400]}
    expected = {request.index: whole_forward(loaded.transformer, request, forced) for request in requests}
    return loaded.transformer, requests, forced, expected


DEFAULT_CASES = {
    "unified": dict(schedule="unified"),
    "chunk 64": dict(schedule="chunked", chunk=64),
    "chunk 256": dict(schedule="chunked", chunk=256),
    "disaggregated": dict(schedule="disaggregated"),
    "layer by layer": dict(schedule="disaggregated", layerwise=True),
    "preempted": dict(schedule="unified", blocks=23),
}


@pytest.mark.parametrize("case", DEFAULT_CASES)
def test_default_model(case, default_case, monkeypatch, tmp_path):
    """The pretrained model on real text."""
    model, requests, forced, expected = default_case
    found, preemptions = serve_in_process(
        model, requests=requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, **DEFAULT_CASES[case]
    )
    assert (sum(preemptions.values()) > 0) == (case == "preempted")
    assert worst_of(found, expected) < TOLERANCE


def test_a_wrong_mask_is_noticed(monkeypatch, tmp_path):
    """The comparison has power: with the triangle aligned at the top left, chunks differ by far more than the tolerance."""
    from engine.kv import attention
    from engine.model.attention import causal_attention

    monkeypatch.setattr(attention, "causal_attention", lambda q, k, v, start: causal_attention(q, k[:, : len(q)], v[:, : len(q)], 0))
    model = Transformer.random(TINY, seed=3)
    requests, forced = requests_of((41,), (3,), TINY.vocab_size)
    found, _ = serve_in_process(
        model, "chunked", requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, chunk=7
    )
    assert worst_difference(model, requests, forced, found) > 100 * TOLERANCE
