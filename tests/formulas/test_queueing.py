"""The wall: at a load of one, for any number of servers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formulas.queueing import highest_rate_per_s, load, wait_growth_s


@given(st.floats(0.001, 1000.0), st.floats(0.001, 1000.0), st.integers(1, 100))
def test_the_wall_is_at_a_load_of_one(spacing_s, service_s, servers):
    """At the highest rate the load is one; the wait grows only beyond it, and by what is left over at each arrival."""
    assert load(highest_rate_per_s(service_s, servers=servers), service_s, servers=servers) == pytest.approx(1)
    grown = wait_growth_s(spacing_s, service_s, servers=servers)
    assert grown == pytest.approx(max(0.0, service_s / servers - spacing_s), abs=1e-9)
    assert wait_growth_s(spacing_s, 2 * service_s, servers=servers) >= grown
    assert wait_growth_s(spacing_s, service_s, servers=servers + 1) <= grown
