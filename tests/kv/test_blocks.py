"""The block pool: who owns which block, whatever is allocated, grown and freed in whatever order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from engine.kv.blocks import BlockPool, slot_runs

OWNERS = st.integers(0, 5)


class PoolMachine(RuleBasedStateMachine):
    """Holds these bugs: a block given to two owners, a block lost, a failed allocation that keeps half of what it took,
    a growing table that forgets the blocks it had."""

    @initialize(num_blocks=st.integers(1, 24), block_tokens=st.integers(1, 5))
    def make(self, num_blocks, block_tokens):
        self.pool = BlockPool(num_blocks, block_tokens)
        self.tokens: dict[int, int] = {}

    @rule(owner=OWNERS, tokens=st.integers(0, 60), more=st.integers(0, 60))
    def allocate(self, owner, tokens, more):
        pool = self.pool
        before, free = pool.table(owner), pool.num_free
        tables = {other: pool.table(other) for other in range(6)}
        missing = max(0, -(-tokens // pool.block_tokens) - len(before))
        if missing > free:
            assert not pool.can_allocate(missing)
            with pytest.raises(MemoryError):
                pool.allocate(owner, tokens, may_grow_to=tokens + more)
            assert pool.num_free == free and tables == {other: pool.table(other) for other in range(6)}
            return
        assert pool.can_allocate(missing)
        pool.allocate(owner, tokens, may_grow_to=tokens + more)
        after = pool.table(owner)
        assert after[: len(before)] == before, "growing must not move what is written"
        assert len(after) - len(before) == missing
        self.tokens[owner] = max(tokens, self.tokens.get(owner, 0))

    @rule(owner=OWNERS)
    def free(self, owner):
        owned = len(self.pool.table(owner))
        assert self.pool.free(owner) == owned
        assert self.pool.table(owner) == ()
        self.tokens.pop(owner, None)

    @invariant()
    def one_owner_each_and_none_lost(self):
        pool = self.pool
        owned = [block for owner in range(6) for block in pool.table(owner)]
        assert len(owned) == len(set(owned)), "a block has two owners"
        assert all(0 <= block < pool.num_blocks for block in owned)
        assert pool.num_free + len(owned) == pool.num_blocks
        assert pool.num_used == len(owned)
        for owner, tokens in self.tokens.items():
            assert len(pool.table(owner)) == -(-tokens // pool.block_tokens), "the tokens do not fit its blocks"


PoolMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestPool = PoolMachine.TestCase


def test_growth_stays_one_run_of_memory_while_others_are_placed_behind_it():
    """CPU attention reads one run in place; a neighbour placed right behind would force a gather at every step."""
    pool = BlockPool(16, 4)
    pool.allocate("a", 4, may_grow_to=24)
    pool.allocate("b", 4, may_grow_to=24)
    for tokens in range(4, 25):
        pool.allocate("a", tokens)
        pool.allocate("b", tokens)
    for owner in ("a", "b"):
        assert len(slot_runs(pool.table(owner), 4, 24)) == 1


def test_room_to_grow_is_a_wish_that_never_refuses_anybody():
    """Reserved room would turn away a request that fits."""
    pool = BlockPool(4, 1)
    pool.allocate("a", 1, may_grow_to=4)
    pool.allocate("b", 3)
    assert pool.num_free == 0
    pool.free("b")
    pool.allocate("a", 4)
    assert pool.table("a") == (0, 1, 2, 3)


def test_a_freed_owner_leaves_no_wish_behind():
    """Wishes of the dead would push everybody else to the far end and, in time, into scattered blocks."""
    pool = BlockPool(8, 1)
    pool.allocate("a", 1, may_grow_to=4)
    pool.free("a")
    pool.allocate("b", 2, may_grow_to=2)
    assert pool.table("b") == (0, 1)


def test_a_hole_too_small_to_grow_in_is_left_to_others():
    """The first hole that fits today is a gather tomorrow."""
    pool = BlockPool(8, 1)
    for owner in range(3):
        pool.allocate(owner, 1)
    pool.free(0)
    pool.free(1)
    pool.allocate("grows", 1, may_grow_to=4)
    assert pool.table("grows") == (3,)
    pool.allocate("small", 2, may_grow_to=2)
    assert pool.table("small") == (0, 1)


def test_one_run_that_somebody_wishes_for_is_better_than_scattered_blocks():
    """The wish may never be used; the scattered blocks are gathered at every step."""
    pool = _with_holes()
    pool.allocate("new", 2)
    assert pool.table("new") == (2, 3)


def test_scattered_blocks_are_those_that_nobody_wishes_for_first():
    """Who has to take scattered blocks must not take the neighbour's room while other blocks are free."""
    pool = _with_holes()
    pool.allocate("scattered", 3)  # there is no run of three
    assert pool.table("scattered") == (5, 7, 2)


def _with_holes() -> BlockPool:
    """Free are 2 and 3, for which "grows" in block 1 wishes, and 5 and 7."""
    pool = BlockPool(8, 1)
    for owner in range(8):
        pool.allocate(owner, 1)
    for owner in (1, 2, 3, 5, 7):
        pool.free(owner)
    pool.allocate("grows", 1, may_grow_to=3)
    assert pool.table("grows") == (1,)
    return pool


@pytest.mark.parametrize("numbers", [(0, 4), (4, 0), (-1, 4), (4, -1)])
def test_a_pool_without_blocks_is_refused(numbers):
    """A pool of nothing would divide by zero or never place anybody."""
    with pytest.raises(ValueError):
        BlockPool(*numbers)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12, unique=True), st.integers(1, 6), st.data())
def test_slot_runs_name_the_same_slots_as_the_naive_list(table, block_tokens, data):
    """A run that is one slot short or reads over a gap would attend to somebody else's keys."""
    tokens = data.draw(st.integers(0, len(table) * block_tokens))
    naive = [table[p // block_tokens] * block_tokens + p % block_tokens for p in range(tokens)]
    runs = slot_runs(table, block_tokens, tokens)
    assert [slot for start, length in runs for slot in range(start, start + length)] == naive
    assert all(length > 0 for _, length in runs)
    ends = [start + length for start, length in runs]
    assert all(end != start for end, (start, _) in zip(ends, runs[1:], strict=False)), "neighbours must be one run"


def test_slot_runs_of_a_table_that_is_too_short():
    """Reading past the table would silently drop tokens."""
    with pytest.raises(ValueError):
        slot_runs([3, 1], 4, 9)
