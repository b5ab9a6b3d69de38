"""How many instances each pool needs, and what a device is worth to it, against counting by hand."""

from math import inf

import pytest

from engine.formulas import pools
from engine.formulas.roofline import Shape, step_cost

# 2 prompts a second, and 6 requests a second.
PREFILL, DECODE = 2.0, 6.0


def test_a_step_takes_the_longer_of_reading_and_computing():
    """A count that adds the two, or forgets one, calls large batches too slow or too quick."""
    reads = dict(weight_bytes=100.0, kv_bytes=10.0, bytes_per_s=10.0)
    assert pools.decode_step_s(4, **reads, flops=1.0, flops_per_s=100.0) == pytest.approx(14.0)
    assert pools.decode_step_s(4, **reads, flops=1.0, flops_per_s=0.1) == pytest.approx(40.0)


@pytest.mark.parametrize("flops_per_s", [0.05, 0.2, 100.0])
@pytest.mark.parametrize("limit", [9.9, 10.0, 11.0, 25.0, 100.0])
def test_the_largest_batch_within_a_time_is_the_largest(flops_per_s, limit):
    """One more would be too slow; the batch itself is not. Reading the weights alone takes 10 s here."""
    costs = (100.0, 10.0, 1.0, 10.0, flops_per_s)
    found = pools.batch_within(limit, *costs)
    assert found == 0 or pools.decode_step_s(found, *costs) <= limit
    assert pools.decode_step_s(found + 1, *costs) > limit


def test_the_operations_of_a_token_are_those_of_the_roofline():
    """Two counts of the same step: here from parameters, there matrix by matrix."""
    shape = Shape(layers=3, hidden_size=64, heads=4, kv_heads=2, head_dim=16, ffn_size=96, vocab_size=100, bytes_per_value=2)
    cost = step_cost(shape, [(199, 1, True)])
    parameters = sum(inputs * outputs for inputs, outputs in shape.matrices)
    assert pools.token_flops(parameters, 3, 4, 16, 200) == cost["linear"][0] + cost["attention"][0]


def test_the_first_token_is_not_decodes():
    """Of 5 tokens decode makes 4; of one none, and then it never limits."""
    assert pools.decode_rate_per_s(8, 0.5, 5) == pytest.approx(4.0)
    assert pools.decode_rate_per_s(8, 0.5, 1) == inf
    assert pools.ratio(PREFILL, inf) == inf


def test_both_pools_serve_the_same_requests_at_the_ratio():
    """3 : 1 here. The wrong way round it would be 1 : 3, and one pool would idle at 8/9."""
    assert pools.ratio(PREFILL, DECODE) == pytest.approx(3.0)
    assert pools.busy_shares(3, 1, PREFILL, DECODE) == pytest.approx((1.0, 1.0))
    assert pools.busy_shares(1, 3, PREFILL, DECODE) == pytest.approx((1.0, 1 / 9))
    assert pools.busy_shares(4, 1, PREFILL, DECODE) == pytest.approx((0.75, 1.0))
    assert pools.busy_shares(1, 1, PREFILL, 0.0) == (0.0, 0.0)


@pytest.mark.parametrize("total", [2, 3, 8, 33])
@pytest.mark.parametrize("rates", [(2.0, 6.0), (1.0, 1.0), (5.0, 0.01), (0.3, 70.0), (2.0, inf), (2.0, 0.0)])
def test_the_best_split_is_the_best_and_never_above_unified(total, rates):
    split = pools.best_split(total, *rates)
    served = [pools.split_rate_per_s(p, total - p, *rates) for p in range(1, total)]
    assert sum(split) == total and min(split) >= 1
    assert pools.split_rate_per_s(*split, *rates) == max(served)
    assert max(served) <= pools.unified_rate_per_s(total, *rates) * (1 + 1e-9)


def test_prices_by_hand():
    """3 an hour for 0.5 PFLOP/s is 6 per PFLOP/s; 1,000 tokens a second are 3.6 million an hour."""
    assert pools.price_of(3.0, 0.5e15, pools.PFLOP) == pytest.approx(6.0)
    assert pools.price_of(3.0, 2e12, pools.TB) == pytest.approx(1.5)
    assert pools.price_of(3.0, 80e9, pools.GB) == pytest.approx(0.0375)
    assert pools.price_per_million(3.6, 1000.0) == pytest.approx(1.0)


def test_at_the_break_even_price_both_cost_the_same():
    price = pools.break_even_price(2.0, 864e9, 2039e9)
    assert pools.price_of(price, 864e9, pools.TB) == pytest.approx(pools.price_of(2.0, 2039e9, pools.TB))
