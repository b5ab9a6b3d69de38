"""An emulated link: never faster than it says, nothing overtakes, idle time is not saved up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.serving.link import Link

SENT = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**7)), min_size=1, max_size=20)


def test_what_is_sent_queues():
    """Parts that all began at once would arrive as if there were a link for each of them."""
    link = Link(1000.0)
    assert [link.send(0, 500), link.send(0, 500), link.send(10**8, 1000)] == [(0, 5 * 10**8), (5 * 10**8, 10**9), (10**9, 2 * 10**9)]
    assert link.send(5 * 10**9, 1000) == (5 * 10**9, 6 * 10**9), "while it stood still, nothing was sent ahead"


@given(sent=SENT, rate=st.floats(1e3, 1e12))
def test_never_faster_than_its_rate(sent, rate):
    """Whatever is sent when: from the first byte that may go to the last that is there, and for every part alone."""
    link, last = Link(rate), 0
    for ready, size in (sent := sorted(sent)):
        begin, end = link.send(ready, size)
        assert begin == max(ready, last) and end >= begin + size * 1e9 / rate - 1
        last = end
    assert last >= sent[0][0] + sum(size for _, size in sent) * 1e9 / rate - len(sent)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_link_that_moves_nothing_is_refused(rate):
    """A division by it, or a wait without end."""
    with pytest.raises(ValueError):
        Link(rate)
