"""From logits to tokens: greedy and its gap, and draws that depend on nothing but seed and position."""

import pytest
import torch

from engine.serving.request import Request, Sequence
from engine.serving.sampling import sample


def sequences(count, seed=0, made=0):
    return [Sequence(Request(i, (1, 2, 3), 9, seed=seed + i), [1, 2, 3] + [0] * made) for i in range(count)]


def random_logits(rows, vocab=40, seed=0):
    return torch.randn((rows, vocab), generator=torch.Generator().manual_seed(seed)) * 2


def test_greedy_takes_the_largest_and_tells_how_close_it_was():
    """The gap is what later calls a difference between two schedules a near-tie."""
    logits = torch.tensor([[0.0, 3.0, 2.5], [7.0, -1.0, 7.0]])
    assert sample(logits[:1], sequences(1), 0.0) == ([1], [0.5])
    assert sample(logits, sequences(2), 0.0)[1] == [0.5, 0.0]
    assert sample(logits.bfloat16(), sequences(2), 0.0)[1] == [0.5, 0.0]


def test_a_draw_depends_on_seed_and_position_and_not_on_the_company():
    """One generator for the whole batch would make every schedule write another text."""
    logits = random_logits(1)
    crowd = torch.cat([random_logits(3, seed=1), logits, random_logits(2, seed=2)])
    others = sequences(3, seed=50) + sequences(1, seed=7) + sequences(2, seed=90)
    alone = [sample(logits, sequences(1, seed=7, made=n), 1.0)[0][0] for n in range(30)]
    among = [
        sample(crowd, [*others[:3], *sequences(1, seed=7, made=n), *others[4:]], 1.0)[0][3] for n in range(30)
    ]
    assert alone == among
    assert len(set(alone)) > 5, "the position changes the draw"
    assert alone != [sample(logits, sequences(1, seed=8, made=n), 1.0)[0][0] for n in range(30)]


def test_draws_follow_the_probabilities():
    """Temperature multiplied instead of divided, or softmax over the wrong axis, would still give tokens."""
    logits = torch.tensor([[0.0, 2.0, 4.0]])
    counts = [0, 0, 0]
    for seed in range(2000):
        counts[sample(logits, sequences(1, seed=seed), 2.0)[0][0]] += 1
    expected = torch.softmax(torch.tensor([0.0, 1.0, 2.0]), 0)
    assert [count / 2000 for count in counts] == pytest.approx(expected.tolist(), abs=0.05)


@pytest.mark.parametrize("temperature", [1e-3, 1e-30, 1e-39, 5e-324])
def test_a_temperature_near_zero_is_greedy(temperature):
    """Logits divided by almost nothing overflow, and the draw from NaN used to end the run."""
    logits = random_logits(4)
    greedy, gaps = sample(logits, sequences(4), 0.0)
    assert sample(logits, sequences(4), temperature) == (greedy, gaps)


def test_a_high_temperature_still_draws_valid_tokens():
    """Huge logits must not overflow into no probabilities at all."""
    tokens, _ = sample(random_logits(50) * 1e4, sequences(50), 5.0)
    assert all(0 <= token < 40 for token in tokens)
