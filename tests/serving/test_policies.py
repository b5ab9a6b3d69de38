"""The scheduling policies, one rule of the design at a time: plans are looked at, not only their consequences."""

from collections.abc import Iterable

import pytest

from engine.errors import LabError
from engine.kv.blocks import BlockPool
from engine.serving.policies import Chunked, DecodeOnly, Limits, PrefillOnly, Unified, View
from engine.serving.request import Request, Sequence
from engine.serving.scheduler import Scheduler

BLOCK = 4


def waiting(index, prompt=8, output=10) -> Sequence:
    return Sequence.begin(Request(index, tuple(range(prompt)), output))


def partly(index, prompt, computed, output=10) -> Sequence:
    sequence = waiting(index, prompt, output)
    sequence.computed = computed
    return sequence


def decoding(index, prompt=8, made=1, output=10) -> Sequence:
    sequence = waiting(index, prompt, output)
    sequence.computed = prompt + made - 1
    sequence.tokens += [0] * made
    return sequence


def view(queue: Iterable[Sequence] = (), running: Iterable[Sequence] = (), free=100, owned=None, limits=Limits()) -> View:
    """`owned` defaults to the blocks that what is computed needs."""
    running = list(running)
    needed = {s.index: -(-(s.prefill_end if s.in_prefill else s.computed) // BLOCK) for s in running}
    return View(list(queue), running, needed | (owned or {}), free, BLOCK, limits)


def pieces(plan) -> list[tuple]:
    return [(s.index, s.start, s.length, s.sample, s.decode) for s in plan.slices]


def admitted(plan) -> list[int]:
    return [index for index, _ in plan.admit]


class TestUnified:
    def test_waiting_prompts_run_whole_and_together_and_decodes_wait(self):
        """No strawman: several prompts share a step; and a decode in it would be chunked serving."""
        plan = Unified().plan(view([waiting(1, 8), waiting(2, 5)], [decoding(0)]))
        assert pieces(plan) == [(1, 0, 8, True, False), (2, 0, 5, True, False)]
        assert plan.prefill_tokens == 13 and plan.decode_tokens == 0

    def test_without_prompts_every_running_sequence_decodes_one_token(self):
        """A running sequence left out of the step would stall without a reason."""
        plan = Unified().plan(view([], [decoding(0, 8, made=3), decoding(1, 5)]))
        assert pieces(plan) == [(0, 10, 1, True, True), (1, 5, 1, True, True)]
        assert plan.prefill_tokens == 0 and plan.decode_tokens == 2

    def test_decodes_go_on_when_the_first_prompt_does_not_fit(self):
        """Waiting for blocks that only decodes can free would be a deadlock."""
        plan = Unified().plan(view([waiting(1, 40)], [decoding(0)], free=3))
        assert pieces(plan) == [(0, 8, 1, True, True)]

    def test_nobody_overtakes_a_prompt_that_does_not_fit(self):
        """First come first served: a stream of short prompts would starve a long one."""
        plan = Unified().plan(view([waiting(0, 40), waiting(1, 4)], free=5))
        assert plan.admit == () and plan.slices == ()

    def test_prompts_together_stay_under_the_limit_but_a_longer_one_goes_alone(self):
        """A limit that also held for one prompt would leave a long one waiting for ever."""
        limits = Limits(max_prefill_tokens=10)
        assert admitted(Unified().plan(view([waiting(0, 6), waiting(1, 4), waiting(2, 1)], limits=limits))) == [0, 1]
        assert admitted(Unified().plan(view([waiting(0, 6), waiting(1, 5)], limits=limits))) == [0]
        assert admitted(Unified().plan(view([waiting(0, 30), waiting(1, 1)], limits=limits))) == [0]

    def test_no_more_sequences_than_the_batch_may_hold(self):
        """Counting only the new ones would let the batch grow past its limit."""
        limits = Limits(max_batch_requests=3)
        plan = Unified().plan(view([waiting(i) for i in range(2, 6)], [decoding(0), decoding(1)], limits=limits))
        assert admitted(plan) == [2]

    def test_a_prompt_is_let_in_with_room_for_its_first_decode(self):
        """With blocks for the prompt alone it would be preempted at once, and its prefill wasted."""
        assert Unified().plan(view([waiting(0, 8)], free=2)).admit == ()
        assert Unified().plan(view([waiting(0, 8)], free=3)).admit == ((0, 9),)

    def test_a_prompt_with_one_token_to_make_needs_no_room_to_decode(self):
        """The last token's KV is never computed: asking for its room would refuse what fits exactly."""
        assert Unified().plan(view([waiting(0, 8, output=1)], free=2)).admit == ((0, 8),)

    def test_a_prompt_after_preemption_is_prefilled_with_the_tokens_made_so_far(self):
        """With the prompt alone, the tokens that the user has seen would be missing from the cache."""
        sequence = decoding(0, 8, made=3)
        sequence.restart()
        plan = Unified().plan(view([sequence]))
        assert pieces(plan) == [(0, 0, 11, True, False)] and plan.admit == ((0, 12),)


class TestChunked:
    def test_the_chunk_bounds_prefill_and_decodes_come_on_top(self):
        """Counting decodes against the chunk would cut the prefill; cutting them is a stall."""
        running = [decoding(i, 8) for i in range(6)]
        plan = Chunked(4).plan(view([waiting(9, 30)], running))
        assert pieces(plan)[:6] == [(i, 8, 1, True, True) for i in range(6)]
        assert pieces(plan)[6:] == [(9, 0, 4, False, False)]
        assert plan.prefill_tokens == 4 and plan.decode_tokens == 6

    def test_a_begun_prefill_comes_before_new_prompts_and_only_its_end_is_sampled(self):
        """New prompts first would let a long one never end; a token sampled in its middle is noise."""
        plan = Chunked(8).plan(view([waiting(2, 7)], [partly(0, 20, 16)]))
        assert pieces(plan) == [(0, 16, 4, True, False), (2, 0, 4, False, False)]
        assert pieces(Chunked(3).plan(view([waiting(2, 7)], [partly(0, 20, 16)]))) == [(0, 16, 3, False, False)]

    def test_several_short_prompts_share_a_chunk(self):
        """One prompt a step would waste most of the chunk."""
        plan = Chunked(10).plan(view([waiting(0, 4), waiting(1, 4), waiting(2, 4), waiting(3, 4)]))
        assert pieces(plan) == [(0, 0, 4, True, False), (1, 0, 4, True, False), (2, 0, 2, False, False)]
        assert admitted(plan) == [0, 1, 2]

    def test_a_last_chunk_of_one_token_is_no_decode(self):
        """It looks like one (length 1, sampled) and must count against the chunk."""
        plan = Chunked(1).plan(view([], [partly(0, 5, 4), decoding(1)]))
        assert pieces(plan) == [(1, 8, 1, True, True), (0, 4, 1, True, False)]
        assert plan.prefill_tokens == 1 and plan.decode_tokens == 1

    def test_whoever_was_preempted_is_not_let_in_again_in_the_same_step(self):
        """It would take the blocks that it was just made to give back, and be thrown out again."""
        old, new = decoding(0, 8), decoding(1, 8)
        plan = Chunked(16).plan(view([waiting(2, 2)], [old, new], free=0, owned={0: 2, 1: 3}))
        assert plan.preempt == (1,)
        assert plan.admit == () and pieces(plan) == [(0, 8, 1, True, True)]

    def test_the_begun_prefill_that_was_preempted_gets_no_chunk(self):
        """Its blocks are gone: computing on would write into somebody else's."""
        plan = Chunked(16).plan(view([], [decoding(0, 8), partly(1, 20, 4)], free=0))
        assert plan.preempt == (1,) and pieces(plan) == [(0, 8, 1, True, True)]

    def test_a_prompt_is_let_in_only_with_blocks_for_all_of_it(self):
        """Let in chunk by chunk, two half-computed prompts can block each other for ever."""
        assert Chunked(4).plan(view([waiting(0, 20)], free=5)).slices == ()
        assert Chunked(4).plan(view([waiting(0, 20)], free=6)).admit == ((0, 21),)

    def test_decodes_take_their_blocks_before_new_prompts_do(self):
        """A prompt let in with the last block would have a running decode preempted in the same step."""
        plan = Chunked(8).plan(view([waiting(1, 3)], [decoding(0, 8)], free=1))
        assert plan.admit == () and pieces(plan) == [(0, 8, 1, True, True)]

    def test_nobody_overtakes_and_the_batch_has_a_limit(self):
        """As for whole prompts: short ones would starve the long one, or the batch grow past its limit."""
        assert admitted(Chunked(50).plan(view([waiting(0, 40), waiting(1, 2)], free=5))) == []
        limits = Limits(max_batch_requests=2)
        assert admitted(Chunked(50).plan(view([waiting(1, 2), waiting(2, 2)], [decoding(0)], limits=limits))) == [1]

    def test_without_room_in_the_chunk_nobody_is_let_in(self):
        """Admitted without a token to compute, it would hold blocks for nothing."""
        plan = Chunked(4).plan(view([waiting(1, 3)], [partly(0, 20, 4)]))
        assert plan.admit == () and plan.prefill_tokens == 4


class TestPrefillOnly:
    def test_it_takes_whole_prompts_as_unified_does_and_only_room_for_the_prompt(self):
        """The decode happens elsewhere: room for it here would be KV that nobody uses."""
        plan = PrefillOnly().plan(view([waiting(0, 8), waiting(1, 4)], free=3))
        assert pieces(plan) == [(0, 0, 8, True, False), (1, 0, 4, True, False)]
        assert plan.admit == ((0, 8), (1, 4))

    def test_it_keeps_the_limits_and_the_order(self):
        """The prefill pool must not be given another batch rule than unified serving has."""
        limits = Limits(max_batch_requests=2, max_prefill_tokens=10)
        queue = [waiting(i, 4) for i in range(3)]
        assert admitted(PrefillOnly().plan(view(queue, limits=limits))) == [0, 1]
        assert admitted(PrefillOnly().plan(view([waiting(0, 8), waiting(1, 4)], limits=limits))) == [0]
        assert admitted(PrefillOnly().plan(view([waiting(0, 40), waiting(1, 4)], free=2))) == []


class TestDecodeOnly:
    def test_it_lets_in_by_blocks_and_never_computes_a_prompt(self):
        """A decode pool that quietly prefills would measure something else than is said."""
        plan = DecodeOnly().plan(view([waiting(1, 8), waiting(2, 8)], [decoding(0)], free=4))
        assert pieces(plan) == [(0, 8, 1, True, True)]
        assert plan.admit == ((1, 9),), "one block for the decode, three for the first; none is left for the second"

    def test_a_sequence_whose_kv_is_still_arriving_neither_decodes_nor_is_preempted(self):
        """The other side is still sending into its blocks: given to somebody else they would be overwritten."""
        old, arriving = decoding(0, 8), waiting(1, 8)
        plan = DecodeOnly().plan(view([], [old, decoding(2, 8), arriving], free=0, owned={0: 2, 1: 3, 2: 3}))
        assert plan.preempt == (2,)
        assert pieces(plan) == [(0, 8, 1, True, True)]
        only = DecodeOnly().plan(view([], [arriving, old], free=0, owned={0: 2, 1: 3}))
        assert only.preempt == (0,) and only.slices == ()

    def test_nobody_is_let_in_in_a_step_that_preempts(self):
        """The newcomer would take the blocks that were just freed for the old ones."""
        plan = DecodeOnly().plan(view([waiting(3, 1)], [decoding(0), decoding(1)], free=0, owned={0: 2, 1: 4}))
        assert plan.preempt == (1,) and plan.admit == ()

    def test_it_keeps_the_limit_of_the_batch_and_the_order(self):
        """Sequences whose KV is still arriving count too, and nobody overtakes."""
        limits = Limits(max_batch_requests=2)
        assert admitted(DecodeOnly().plan(view([waiting(1, 2), waiting(2, 2)], [decoding(0)], limits=limits))) == [1]
        assert admitted(DecodeOnly().plan(view([waiting(1, 80), waiting(2, 2)], [decoding(0)], free=5))) == []


@pytest.mark.parametrize("policy", [Unified(), Chunked(4), DecodeOnly()], ids=lambda p: type(p).__name__)
class TestPreemption:
    def test_the_newest_is_preempted_first_and_no_more_than_needed(self, policy):
        """Preempting the oldest would throw away the most work, and could go on for ever."""
        running = [decoding(i, 8) for i in range(4)]  # each needs a third block
        assert policy.plan(view([], running, free=4)).preempt == ()
        plan = policy.plan(view([], running, free=3))
        assert plan.preempt == (3,) and [s.index for s in plan.slices] == [0, 1, 2]
        plan = policy.plan(view([], running, free=0))
        assert plan.preempt == (3, 2), "3 gives two blocks for three, 2 gives the third"
        assert [s.index for s in plan.slices] == [0, 1]

    def test_who_has_room_in_his_last_block_needs_none(self, policy):
        """Asking for a block at every token would preempt without need."""
        plan = policy.plan(view([], [decoding(0, 6), decoding(1, 7)], free=0))
        assert plan.preempt == () and plan.decode_tokens == 2


class TestScheduler:
    def scheduler(self, policy=Unified(), blocks=6, limits=Limits()) -> Scheduler:
        return Scheduler(policy, BlockPool(blocks, BLOCK), limits)

    def test_preempted_sequences_wait_in_front_of_new_ones_in_order_of_arrival(self):
        """Put at the end, a preempted request would be overtaken by everybody who came later."""
        scheduler = self.scheduler(blocks=9)
        for index in range(3):
            scheduler.submit(waiting(index, 8, output=29))
        plan = scheduler.next_plan()
        assert admitted(plan) == [0, 1, 2]
        scheduler.complete(plan, {0: 7, 1: 7, 2: 7})
        scheduler.submit(waiting(3, 8))
        while not plan.preempt:  # every twelve tokens all three want a block that is not there
            plan = scheduler.next_plan()
            scheduler.complete(plan, {piece.index: 7 for piece in plan.slices})
        assert plan.preempt == (2,)
        assert [s.index for s in scheduler.waiting] == [2, 3]
        assert scheduler.blocks.table(2) == ()
        again = scheduler[2]
        assert again.computed == 0 and again.prefill_end == len(again.tokens) > 8 and again.preemptions == 1

    def test_a_returned_sequence_is_queued_by_arrival_among_the_returned_and_before_the_new(self):
        """The prefill pool gets returns in any order."""
        scheduler = self.scheduler()
        scheduler.submit(waiting(4))
        for index in (3, 1):
            sequence = waiting(index)
            sequence.preemptions = 1
            scheduler.submit(sequence)
        assert [s.index for s in scheduler.waiting] == [1, 3, 4]

    def test_growth_gets_its_block_before_the_step_computes(self):
        """A decode without a block for its position would write past its table."""
        scheduler = self.scheduler()
        scheduler.submit(waiting(0, 7, output=9))
        for _ in range(9):
            plan = scheduler.next_plan()
            for piece in plan.slices:
                assert len(scheduler.blocks.table(0)) * BLOCK >= piece.start + piece.length
            finished = scheduler.complete(plan, {0: 7})
        assert [s.index for s in finished] == [0]
        assert scheduler.idle and 0 not in scheduler and scheduler.blocks.num_used == 0

    def test_what_can_never_fit_is_refused_with_the_numbers(self):
        """And what fits exactly is not: the last token needs no KV."""
        scheduler = self.scheduler(blocks=3)
        with pytest.raises(LabError) as caught:
            scheduler.submit(waiting(0, 8, output=6))
        assert caught.value.code == "request-never-fits"
        assert caught.value.facts == {"tokens": 13, "needed_blocks": 4, "total_blocks": 3, "block_tokens": BLOCK}
        assert scheduler.idle and 0 not in scheduler
        scheduler.submit(waiting(1, 8, output=5))
        assert 1 in scheduler

    def test_removing_takes_a_sequence_out_wherever_it_is_and_frees_its_blocks(self):
        """Left in the queue or with blocks, a request given back would be served twice or leak."""
        scheduler = self.scheduler()
        scheduler.submit(waiting(0))
        scheduler.next_plan()
        scheduler.submit(waiting(1))
        assert scheduler.remove(0).index == 0 and scheduler.remove(1).index == 1
        assert scheduler.remove(7) is None
        assert scheduler.idle and scheduler.blocks.num_used == 0

    def test_detaching_leaves_the_blocks_owned(self):
        """A prefilled prompt waits to be fetched: freed here, its KV could be overwritten before."""
        scheduler = self.scheduler()
        scheduler.submit(waiting(0))
        scheduler.next_plan()
        table = scheduler.blocks.table(0)
        scheduler.detach(0)
        assert scheduler.idle and scheduler.blocks.table(0) == table
