"""Requests to a model whose rotation follows the length of the text, in the real loop, under every schedule."""

import dataclasses

import pytest
import torch

from engine.formulas.rope import RopeScaling, scaling_for
from engine.kv.eviction import Full, Sinks
from engine.kv.masked import memory
from engine.model.transformer import Transformer
from engine.serving.request import Request
from tests.kv.streaming import naive_logits
from tests.serving.in_process import serve_in_process
from tests.serving.test_schedules_agree import TINY, TOLERANCE, requests_of, whole_forward

pytestmark = pytest.mark.usefixtures("one_thread")

LENGTHS, OUTPUTS = (41, 17, 29), (60, 40, 40)


@pytest.fixture(scope="module")
def growing():
    """A model trained on 32 tokens, prompts of both sides of that length, and tokens to go on with."""
    scaling = RopeScaling("dynamic", original_context=32)
    model = Transformer.random(dataclasses.replace(TINY, rope_scaling=scaling), seed=3)
    return model, *requests_of(LENGTHS, OUTPUTS, TINY.vocab_size)


def alone(model, request, forced, chunk):
    """The logits that predict each output token: the prompt in chunks, then token by token, every key turned anew."""
    ids = torch.tensor([*request.prompt, *forced[request.index][:-1]])
    attend = memory(model, Full())
    parts = [*ids[: len(request.prompt)].split(chunk), *ids[len(request.prompt) :].split(1)]
    return torch.cat([model(part, torch.zeros_like(part), attend) for part in parts])[len(request.prompt) - 1 :]


def worst(model, requests, forced, found, chunk):
    expected = {request.index: alone(model, request, forced, chunk) for request in requests}
    return max(float((found[i] - logits).abs().max() / logits.std()) for i, logits in expected.items())


CASES = {
    "unified": dict(schedule="unified"),
    "disaggregated": dict(schedule="disaggregated"),
    "layer by layer": dict(schedule="disaggregated", layerwise=True),
    "host mirror": dict(schedule="disaggregated", mirror=True),
}


@pytest.mark.parametrize("case", CASES)
def test_every_request_is_turned_by_its_own_length(case, growing, monkeypatch, tmp_path):
    """The bugs: one length for a batch of several, keys turned before a transfer and again after it, bases mixed."""
    model, requests, forced = growing
    found, _ = serve_in_process(model, requests=requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, **CASES[case])
    assert worst(model, requests, forced, found, chunk=1000) < TOLERANCE
    assert worst(model.scaled(None), requests, forced, found, chunk=1000) > 1000 * TOLERANCE


def test_a_chunk_is_turned_by_its_end(growing, monkeypatch, tmp_path):
    """Alone in the batch, so that the chunks are known. Beyond the trained length they matter to what is computed."""
    model, requests, forced = growing
    options = dict(forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path)
    found, _ = serve_in_process(model, "chunked", requests[:1], chunk=7, **options)
    assert worst(model, requests[:1], forced, found, chunk=7) < TOLERANCE
    assert worst(model, requests[:1], forced, found, chunk=1000) > 10 * TOLERANCE


def test_preempted_and_read_again(growing, monkeypatch, tmp_path):
    """Prompt and tokens so far in one go: they are turned by the length of now, and the run goes on."""
    model, requests, forced = growing
    options = dict(blocks=28, block_tokens=4)
    found, preemptions = serve_in_process(
        model, "unified", requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, **options
    )
    assert sum(preemptions.values()) > 0
    undisturbed = [request for request in requests if not preemptions[request.index]]
    assert undisturbed and worst(model, undisturbed, forced, found, chunk=1000) < TOLERANCE
    assert all(torch.isfinite(logits).all() and len(logits) == n for logits, n in zip(found.values(), OUTPUTS, strict=True))


@pytest.mark.parametrize("schedule", ["unified", "chunked", "disaggregated"])
def test_yarn_needs_nothing_of_its_own(schedule, monkeypatch, tmp_path):
    """Where the rotation is fixed keys are cached turned, the temperature in them; requests that evict stand beside."""
    model = Transformer.random(dataclasses.replace(TINY, rope_scaling=scaling_for("yarn", 4.0, 32)), seed=3)
    requests, forced = requests_of(LENGTHS, OUTPUTS, TINY.vocab_size)
    policy = Full() if schedule == "disaggregated" else Sinks(3, 20)
    requests[1] = Request(1, requests[1].prompt, requests[1].output_tokens, 0, policy)
    found, _ = serve_in_process(model, schedule, requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, chunk=7)
    for request in requests:
        expected = whole_forward(model, request, forced)
        if request.eviction != Full():
            ids = torch.tensor([*request.prompt, *forced[request.index]])
            expected = naive_logits(model, ids, 3, 20)[len(request.prompt) - 1 : -1]
        assert (found[request.index] - expected).abs().max() < 1e-3 * expected.std(), request.eviction
