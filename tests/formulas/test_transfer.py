"""Seconds of a KV transfer: against schedules made part by part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formulas.transfer import exposed_s, least_bytes_per_s, pays_below, staged_s, transfer_s

SECONDS = st.floats(1e-3, 1e3)


def test_bytes_over_rate_and_the_latency_once():
    assert transfer_s(50e9, 50e9) == 1.0 and transfer_s(0, 1e9, 2e-6) == 2e-6


@pytest.mark.parametrize("rate", [0, -1, float("nan")])
def test_a_link_that_moves_nothing_is_no_link(rate):
    """Infinity in a table would read like a measurement."""
    with pytest.raises(ValueError, match="moves nothing"):
        transfer_s(1, rate)


def test_through_host_memory_one_way_after_another_adds_both_copies():
    assert staged_s(10e9, 10e9, 20e9) == pytest.approx(0.5 + 1 + 0.5)


@given(link=st.floats(1e8, 1e12), pcie=st.floats(1e9, 1e11), pieces=st.integers(1, 200))
def test_pieces_are_a_pipeline(link, pcie, pieces):
    """Piece by piece, as three stations would do it; a closed formula is easily off by one piece."""
    size, free = 1e9, [0.0, 0.0, 0.0]
    for _ in range(pieces):
        at = 0.0
        for way, rate in enumerate((pcie, link, pcie)):
            at = free[way] = max(at, free[way]) + size / pieces / rate
    assert staged_s(size, link, pcie, pieces=pieces) == pytest.approx(free[2])


@given(transfer=SECONDS, prefill=SECONDS, parts=st.integers(1, 80))
def test_what_is_left_of_a_transfer_is_what_a_link_that_queues_leaves(transfer, prefill, parts):
    """Part by part: computed one after another, sent in this order."""
    free = 0.0
    for part in range(1, parts + 1):
        free = max(free, prefill * part / parts) + transfer / parts
    assert exposed_s(transfer, prefill, parts) == pytest.approx(free - prefill, abs=1e-9 * (transfer + prefill))


def test_the_whole_cache_behind_the_prefill_hides_nothing():
    assert exposed_s(2.0, 5.0, 1) == 2.0


@given(size=st.floats(1, 1e12), stall=SECONDS)
def test_at_the_least_link_the_transfer_takes_as_long_as_the_stall(size, stall):
    assert transfer_s(size, least_bytes_per_s(size, stall)) == pytest.approx(stall)


def test_quantising_pays_below_saved_bytes_over_extra_seconds():
    """On the limit both take equally long: 8 GB, or 4 GB and 2 s of work."""
    limit = pays_below(4e9, 2.0)
    assert transfer_s(8e9, limit) == pytest.approx(transfer_s(4e9, limit) + 2.0)
    assert pays_below(4e9, 0.0) is None
