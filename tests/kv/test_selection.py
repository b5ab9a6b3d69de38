"""Heavy hitters and compressed prompts, held against a plain computation of one token and one head at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.eviction import Full
from engine.kv.losses import token_losses
from engine.kv.masked import memory
from engine.kv.selection import Compressed, HeavyHitters, compressed, heavy_hitters, pooled_choice
from engine.model.rope import Rope
from engine.model.transformer import Transformer
from tests.kv.streaming import TINY, tiny_ids, turn

pytestmark = pytest.mark.usefixtures("one_thread")

KV_HEADS, GROUP, WIDTH = 2, 3, 8
FREQUENCIES = 100.0 ** -(torch.arange(0, WIDTH, 2) / WIDTH)


def qkv(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(n, KV_HEADS * GROUP, WIDTH, generator=generator) * 4
    k, v = (torch.randn(n, KV_HEADS, WIDTH, generator=generator) for _ in range(2))
    return q, k, v


def naive_heavy(q, k, v, budget, together):
    """One KV head after the other: {position: attention gathered}, cut behind every `together` tokens."""
    out, kept_after = torch.empty_like(q), []
    for head in range(KV_HEADS):
        gathered: dict[int, float] = {}
        history = []
        for i in range(len(q)):
            gathered[i] = 0.0
            seen = sorted(gathered)
            keys = torch.stack([turn(k[p, head], place, FREQUENCIES) for place, p in enumerate(seen)])
            values = torch.stack([v[p, head] for p in seen]).double()
            for h in range(head * GROUP, (head + 1) * GROUP):
                weights = torch.softmax(keys @ turn(q[i, h], len(seen) - 1, FREQUENCIES) / WIDTH**0.5, 0)
                out[i, h] = weights @ values
                for p, weight in zip(seen, weights.tolist(), strict=True):
                    gathered[p] += weight
            if (i + 1) % together == 0 and len(gathered) > budget - together:
                recent = sorted(gathered)[len(gathered) - (budget - budget // 2 - together) :]
                others = sorted((p for p in gathered if p not in recent), key=lambda p: -gathered[p])
                gathered = {p: gathered[p] for p in [*others[: budget // 2], *recent]}
            history.append(sorted(gathered))
        kept_after.append(history)
    return out, kept_after


@pytest.mark.parametrize("budget, together", [(8, 1), (9, 1), (12, 4), (16, 8)])
@pytest.mark.parametrize("pieces", [[40], [1] * 40, [5, 1, 20, 14]], ids=["whole", "one by one", "pieces"])
def test_heavy_hitters_keep_what_attention_used(budget, together, pieces):
    """The bugs: one choice for all heads, attention of the wrong queries, the newest thrown out, a place counted wrongly
    behind an eviction, results that depend on how the text was cut."""
    q, k, v = qkv(40)
    expected, kept_after = naive_heavy(q, k, v, budget, together)
    layer, out, done = HeavyHitters(Rope(TINY), budget, together), [], 0
    for n in pieces:
        out.append(layer.attend(q[done : done + n], k[done : done + n], v[done : done + n]))
        done += n
        assert layer.positions.tolist() == [history[done - 1] for history in kept_after]
        assert layer.keys.shape[1] <= budget
    torch.testing.assert_close(torch.cat(out), expected, rtol=1e-4, atol=1e-5)
    assert kept_after[0] != kept_after[1], "the heads chose alike all the way: nothing was tested"


@settings(max_examples=25)
@given(st.integers(1, 5), st.integers(2, 4), st.integers(1, 50), st.integers(0, 3))
def test_the_budget_is_never_exceeded_and_half_of_it_is_recent(together, times, n, seed):
    """The budget must hold at every token, not only after a cut, or the comparison with a window is not fair."""
    budget = together * times
    q, k, v = qkv(n, seed)
    layer = HeavyHitters(Rope(TINY), budget, together)
    for i in range(n):
        layer.attend(q[i : i + 1], k[i : i + 1], v[i : i + 1])
        held = layer.positions
        assert held.shape == layer.gathered.shape == layer.keys.shape[:2] and held.shape[1] <= budget
        assert (held.diff(dim=1) > 0).all()
        recent = min(i + 1, budget - budget // 2 - together)
        assert held[:, held.shape[1] - recent :].tolist() == [list(range(i + 1 - recent, i + 1))] * KV_HEADS
        assert held.shape[1] == i + 1 or i + 1 >= budget, "evicted while there was room"


def naive_votes(q, k, prompt, observed):
    votes = torch.zeros(KV_HEADS, prompt - observed, dtype=torch.float64)
    for i in range(prompt - observed, prompt):
        for h in range(KV_HEADS * GROUP):
            keys = torch.stack([turn(k[p, h // GROUP], p, FREQUENCIES) for p in range(i + 1)])
            weights = torch.softmax(keys @ turn(q[i, h], i, FREQUENCIES) / WIDTH**0.5, 0)
            votes[h // GROUP] += weights[: prompt - observed]
    return votes


@pytest.mark.parametrize("pieces", [[50], [20, 30], [1] * 50, [45, 5]], ids=["whole", "halves", "one by one", "over the end"])
def test_a_compressed_prompt_keeps_what_its_end_votes_for(pieces):
    """The bugs: votes of the wrong queries, shifted by the pooling, of all heads together; text after the prompt that
    votes too, or does not see what is kept."""
    prompt, budget, observed = 40, 15, 6
    q, k, v = qkv(50, seed=2)
    layer, out, done = Compressed(Rope(TINY), prompt, budget, observed, 3), [], 0
    for n in pieces:
        out.append(layer.attend(q[done : done + n], k[done : done + n], v[done : done + n]))
        done += n
    votes = naive_votes(q, k, prompt, observed)
    padded = torch.nn.functional.pad(votes, (1, 1))
    pooled = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    kept = [sorted(row.argsort(descending=True)[: budget - observed].tolist()) + list(range(34, 40)) for row in pooled]
    assert layer.positions.tolist() == [row + list(range(40, 50)) for row in kept]
    assert kept[0] != kept[1]
    out = torch.cat(out)
    for i in (5, 39, 40, 49):  # within the prompt everything is seen, behind it what was kept
        for h in range(KV_HEADS * GROUP):
            seen = list(range(i + 1)) if i < prompt else kept[h // GROUP] + list(range(40, i + 1))
            keys = torch.stack([turn(k[p, h // GROUP], p, FREQUENCIES) for p in seen])
            weights = torch.softmax(keys @ turn(q[i, h], i, FREQUENCIES) / WIDTH**0.5, 0)
            expected = weights @ v[seen, h // GROUP].double()
            torch.testing.assert_close(out[i, h], expected.float(), rtol=1e-4, atol=1e-5)


def test_votes_are_pooled_around_their_place():
    """Two neighbours of medium weight beat a lonely peak; places come in order, one choice a row."""
    votes = torch.tensor([[0.0, 0.0, 5.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0], [1.0, 9.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    assert pooled_choice(votes, 1, 3).tolist() == [[7], [1]]
    assert pooled_choice(votes, 1, 1).tolist() == [[2], [1]]
    assert pooled_choice(votes, 4, 1).tolist()[0] == [2, 6, 7, 8]


@pytest.mark.parametrize("n", [1, 15, 40])
def test_a_budget_for_everything_is_dense_attention(n):
    """With nothing to throw out there must be no difference at all, to the last token of the budget."""
    model, ids = Transformer.random(TINY, seed=3), tiny_ids(n + 1).tolist()
    dense = token_losses(model, ids, memory(model, Full()))
    for attend in (heavy_hitters(model, 40), heavy_hitters(model, 40, together=1), compressed(model, n, max(40, n), observed=8)):
        assert abs(token_losses(model, ids, attend) - dense).max() < 1e-4


def test_a_smaller_budget_makes_a_difference():
    """The comparison above has power."""
    model, ids = Transformer.random(TINY, seed=3), tiny_ids(61).tolist()
    dense = token_losses(model, ids, memory(model, Full()))
    for attend in (heavy_hitters(model, 20), compressed(model, 40, 20, observed=8)):
        assert abs(token_losses(model, ids, attend) - dense).max() > 0.1


def test_budgets_that_cannot_work_are_refused():
    """Not an endless loop, not a silent half."""
    for budget, together in ((8, 0), (8, 5), (9, 2), (1, 1)):
        with pytest.raises(ValueError):
            HeavyHitters(Rope(TINY), budget, together)
    for budget, observed, pooled in ((8, 9, 3), (8, 0, 3), (8, 4, 2)):
        with pytest.raises(ValueError):
            Compressed(Rope(TINY), 20, budget, observed, pooled)
