"""Records in another host's time: every moment moves, no duration does."""

import json

from engine.serving.clocks import shifted
from engine.serving.messages import Part, decode, encode

PART = Part(3, 1, 0, 2, (1000, 2000), token=7, lease_expires_ns=9000, size=64, crc32=5)


def as_record(message):
    return json.loads(encode(message))


def test_all_moments_move_and_nothing_else():
    """A stamp that is forgotten lies hours away in the trace; a duration that is moved too is a transfer of hours."""
    step = {"type": "step", "begin_ns": 10, "end_ns": 20, "slices": [[0, 10, 20]], "tokens": [[0, 10, 1.0]]}
    assert shifted(step, 5) == {**step, "begin_ns": 15, "end_ns": 25}
    fetch = {"type": "fetch", "published_ns": [1, 2], "pulled_ns": [3, 4], "begin_ns": 5, "end_ns": 6, "bytes": 7, "move_s": 0.1}
    assert shifted(fetch, -1) == {**fetch, "published_ns": [0, 1], "pulled_ns": [2, 3], "begin_ns": 4, "end_ns": 5}
    opening = {"type": "open", "lease_ns": 60}
    assert shifted(opening, 5) == opening, "the length of a lease is no moment"


def test_a_lease_only_gets_shorter_on_its_way():
    """There and back over two hosts: what the decode worker believes must end before the blocks may be used again."""
    there = shifted(as_record(PART), 700, 30)
    assert decode(there).lease_expires_ns == 9000 + 700 - 30 and decode(there).published_ns == [1700, 2700]
    back = shifted(there, -700, 20)
    assert back["lease_expires_ns"] == 9000 - 50 and back["published_ns"] == [1000, 2000]


def test_messages_that_come_together_all_move():
    together = {"type": "together", "messages": [{"type": "Ack", "index": 0, "attempt": 0}, as_record(PART)]}
    ack, part = shifted(together, 5)["messages"]
    assert ack == {"type": "Ack", "index": 0, "attempt": 0} and part["published_ns"] == [1005, 2005]


def test_a_part_without_a_lease_has_none_afterwards():
    """Layers on their way: the last part alone brings the lease."""
    part = as_record(Part(3, 1, 0, 2, (1000, 2000)))
    assert shifted(part, 5, 1)["lease_expires_ns"] is None
