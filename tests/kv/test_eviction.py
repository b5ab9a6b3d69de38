"""The bookkeeping of eviction, against a list that is cut by hand."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.eviction import Full, Sinks, Window, as_dict, from_dict


@st.composite
def policies(draw):
    window = draw(st.integers(1, 12))
    return Sinks(draw(st.integers(0, window - 1)), window)


@given(policies(), st.integers(0, 50))
def test_slots_and_positions_follow_a_list_cut_by_hand(policy, tokens):
    """The bugs: a ring that throws out the second oldest, a sink that is overwritten, one slot too many, places that are
    those of the memory instead of those of the order."""
    kept, memory = [], {}
    for position in range(tokens):
        if len(kept) == policy.window:
            del kept[policy.sinks]
        kept.append(position)
        memory[policy.slot(position)] = position
        assert policy.slot(position) < policy.slots(position + 1) == len(kept) <= policy.window
    assert policy.kept(tokens) == tuple(kept)
    assert sorted(memory) == list(range(policy.slots(tokens)))
    assert policy.cache_positions(tokens) == tuple(kept.index(memory[slot]) for slot in sorted(memory))


@given(policies(), st.integers(0, 50))
def test_a_token_never_moves(policy, tokens):
    """KV is not copied when others go: a kept token lies where it was put."""
    slots = {policy.slot(position) for position in policy.kept(tokens)}
    assert len(slots) == len(policy.kept(tokens))


@given(st.integers(0, 40))
def test_without_eviction_everything_stays_where_it_stands(tokens):
    policy = Full()
    assert policy.slots(tokens) == tokens and policy.slot(tokens) == tokens
    assert policy.kept(tokens) == policy.cache_positions(tokens) == tuple(range(tokens))


def test_four_sinks_and_252_others():
    """The paper's setting, in numbers: token 256 is the first that throws another out, and that is token 4."""
    policy = Sinks(4, 256)
    assert policy.kept(256) == tuple(range(256))
    assert policy.kept(257) == (0, 1, 2, 3, *range(5, 257))
    assert policy.slot(256) == 4 and policy.slot(3) == 3 and policy.slot(256 + 252) == 4
    assert policy.cache_positions(257)[:6] == (0, 1, 2, 3, 255, 4)


def test_a_window_is_a_cache_without_sinks():
    policy = Window(3)
    assert policy.sinks == 0 and policy.kept(5) == (2, 3, 4) and policy.slots(2) == 2


@pytest.mark.parametrize("sinks, window", [(0, 0), (4, 4), (5, 4), (-1, 4)])
def test_a_cache_with_no_room_for_the_next_token_is_refused(sinks, window):
    """A ring of no slots would divide by zero in the middle of a run."""
    with pytest.raises(ValueError):
        Sinks(sinks, window)
    with pytest.raises(ValueError):
        Window(0)


@pytest.mark.parametrize("policy", [Full(), Window(512), Sinks(4, 512), Sinks(0, 7)])
def test_policies_survive_json(policy):
    """They travel to the workers and stand in results."""
    read = from_dict(json.loads(json.dumps(as_dict(policy))))
    assert read.kept(20) == policy.kept(20) and as_dict(read) == as_dict(policy) and read == policy


def test_an_unknown_policy_is_refused():
    with pytest.raises(ValueError, match="newest"):
        from_dict({"kind": "newest"})
