"""What a pool was used for, on a trace that fits on a page: two requests, one preempted, blocks of 4 tokens."""

import pytest

from engine.measure.usage import computed_again, mean_running, measured_first_wave, usage, waste


def request(arrival, tokens, *, status="finished"):
    return {"arrival_s": arrival, "token_s": tokens, "status": status}


def step(begin, end, *slices):
    return {"begin_s": begin, "end_s": end, "slices": [list(s) for s in slices]}


def event(at, kind, index):
    return {"at_s": at, "type": kind, "request": index}


def kv(at, blocks):
    return {"at_s": at, "tokens": blocks * 4, "worker": "engine-0"}


# Request 0: a prompt of 6, three tokens. Request 1: a prompt of 3, two tokens; after its first it loses its block to 0,
# which has 8 tokens and wants a third block, and is read again (4 tokens) when 0 is done. Request 2 is refused.
TRACE = {
    "duration_s": 10.0,
    "requests": [request(0.0, [2.0, 4.0, 7.0]), request(0.0, [3.0, 10.0]), request(0.0, [], status="refused")],
    "steps": [step(1.0, 2.0, (0, 0, 6)), step(2.0, 3.0, (1, 0, 3)), step(3.0, 4.0, (0, 6, 1), (1, 3, 1)),
              step(5.0, 7.0, (0, 7, 1)), step(7.0, 10.0, (1, 0, 4))],
    "kv": [kv(1.0, 2), kv(2.0, 3), kv(5.0, 2), kv(7.0, 1), kv(10.0, 0)],
    "events": [event(1.0, "admitted", 0), event(2.0, "admitted", 1), event(0.0, "refused", 2), event(5.0, "preempted", 1), event(7.0, "admitted", 1)],
}  # fmt: skip


def test_the_columns():
    """A finished or preempted request that kept its tokens would hide waste; one still waiting is not running."""
    assert usage(TRACE, 4) == {
        "at_s": [1.0, 2.0, 3.0, 5.0, 7.0, 10.0],
        "blocks": [2, 3, 3, 2, 1, 0],
        "tokens": [6, 9, 11, 8, 4, 0],
        "running": [1, 2, 2, 1, 1, 0],
        "waiting": [1, 0, 0, 1, 0, 0],
    }


def test_a_run_that_goes_on():
    """What is known of it by now must not look as if all had just ended."""
    going = {**TRACE, "duration_s": 4.0, "steps": TRACE["steps"][:3], "kv": TRACE["kv"][:2], "events": TRACE["events"][:3]}
    going["requests"] = [request(0.0, [2.0, 4.0], status="unfinished"), request(0.0, [3.0], status="unfinished"), TRACE["requests"][2]]
    used = usage(going, 4)
    assert used["at_s"] == [1.0, 2.0, 3.0, 4.0] and used["blocks"] == [2, 3, 3, 3] and used["running"][-1] == 2


def test_waste_is_weighed_by_time():
    """Slots x seconds: 8 + 12 + 2 x 12 + 2 x 8 + 3 x 4 = 72; tokens x seconds: 6 + 9 + 22 + 16 + 12 = 65. A mean over
    rows would let many short steps count for more than a long one."""
    found = waste(usage(TRACE, 4), 4)
    assert found["mean"] == pytest.approx(1 - 65 / 72)
    assert found["peak"] == pytest.approx(1 - 9 / 12), "the first moment with most blocks"
    assert mean_running(usage(TRACE, 4)) == pytest.approx((1 + 2 + 4 + 2 + 3) / 9)


def test_the_wave_ends_with_the_first_block_given_back():
    """By a preemption here: the request admitted again is not a third one."""
    assert measured_first_wave(TRACE) == 2
    calm = {**TRACE, "events": [e for e in TRACE["events"] if e["type"] == "admitted"]}
    assert measured_first_wave(calm) == 2, "admitted when request 0 was done"
    late = {**calm, "events": [*calm["events"][:2], event(6.9, "admitted", 1)]}
    assert measured_first_wave(late) == 3


def test_what_was_computed_again():
    """All four tokens of request 1 had been computed before."""
    assert computed_again(TRACE) == 4
    assert computed_again({**TRACE, "steps": TRACE["steps"][:4]}) == 0


def test_a_run_without_steps():
    empty = {**TRACE, "steps": [], "events": [], "kv": []}
    used = usage(empty, 4)
    assert used == {name: [] for name in used} and waste(used, 4) == {"mean": None, "peak": None} and mean_running(used) is None
    assert measured_first_wave(empty) == 0
