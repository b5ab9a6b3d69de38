"""Messages on the wire: a line each, or several that are to be received at once."""

import json

import pytest

from engine.serving.messages import Ack, Finished, Submit, decode_all, encode, together

SENT = [Submit(0, 2, [5, 6], 3, 0), Finished(1), Ack(2, 1)]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_several_in_one_line_come_in_their_order(count):
    """Read one by one, a worker would begin its first step with the first of them alone."""
    line = together([encode(message) for message in SENT[:count]])
    assert "\n" not in line and decode_all(json.loads(line)) == SENT[:count]


def test_other_records_are_no_messages():
    assert decode_all({"type": "ping"}) == [] == decode_all({"type": "step", "slices": []})
