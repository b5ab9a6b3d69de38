"""Texts read side by side are read as each of them alone, whatever is kept, in pieces and from a copy."""

import pytest
import torch
from torch.nn import functional as F

from engine.formulas.rope import scaling_for
from engine.kv.eviction import Full, Sinks
from engine.kv.masked import memory
from engine.kv.side_by_side import SideBySide, last_losses, read_together
from engine.model.transformer import Transformer, causal_attend
from tests.kv.streaming import TINY

pytestmark = pytest.mark.usefixtures("one_thread")
POLICIES = [Full(), Sinks(3, 16), Sinks(0, 9)]
LENGTH = 41


@pytest.fixture(scope="module")
def model():
    return Transformer.random(TINY, seed=3)


def drawn(texts: int) -> torch.Tensor:
    return torch.randint(0, TINY.vocab_size, (texts, LENGTH + 1), generator=torch.Generator().manual_seed(texts))


@pytest.mark.parametrize("chunk", [LENGTH, 7, 1])
@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_side_by_side_is_one_by_one(model, policy, chunk):
    """Heads of one text that read another's keys, or a mask that is off by a row, would still give plausible losses."""
    ids = drawn(3)
    together = last_losses(model, ids, SideBySide(memory(model, policy), 3), 11, chunk_tokens=chunk)
    alone = [last_losses(model, ids[n : n + 1], SideBySide(memory(model, policy), 1), 11, chunk_tokens=LENGTH) for n in range(3)]
    assert together.shape == (3, 11) and torch.allclose(together, torch.cat(alone), atol=1e-5)


@pytest.mark.parametrize("method", ["none", "linear", "ntk", "dynamic", "by-parts", "yarn", "llama3"])
def test_the_losses_are_those_of_a_plain_forward(model, method):
    """Against the transformer's own causal attention, which knows nothing of memories: of exactly the last tokens."""
    stretched = model.scaled(scaling_for(method, 4.0, 10))
    ids = drawn(2)
    found = last_losses(stretched, ids, SideBySide(memory(stretched, Full()), 2), 5, chunk_tokens=LENGTH)
    for text, losses in zip(ids, found, strict=True):
        logits = stretched(text[:-1], torch.arange(LENGTH), causal_attend)
        assert torch.allclose(F.cross_entropy(logits, text[1:], reduction="none")[-5:], losses, atol=2e-5)


def test_it_tells_of_every_token_once(model):
    """What progress is made of."""
    told = []
    last_losses(model, drawn(2), SideBySide(memory(model, Full()), 2), 5, chunk_tokens=10, on_chunk=told.append)
    assert told == [20, 20, 20, 20, 2]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_a_copy_goes_on_alone(model, policy):
    """A question that is still in the memory when the next is asked answers it."""
    ids = drawn(3)
    kept = SideBySide(memory(model, policy), 3)
    read_together(model, ids[:, :30], kept)
    first = read_together(model, ids[:, 30:32], kept.fork())
    read_together(model, ids[:, 34:38], kept.fork())
    assert torch.equal(first, read_together(model, ids[:, 30:32], kept.fork()))
    whole = SideBySide(memory(model, policy), 3)
    assert torch.allclose(read_together(model, ids[:, :32], whole), first, atol=1e-5)
