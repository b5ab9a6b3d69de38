"""The pools' state machines and the router, message by message: late, lost and repeated ones above all."""

import dataclasses
import json

import pytest

from engine.errors import LabError
from engine.kv.blocks import BlockPool
from engine.serving.link import Link
from engine.serving.messages import Ack, Failed, Finished, Noted, Offer, Part, Refused, Return, Submit, decode, encode
from engine.serving.nodes import DecodeNode, PrefillNode, Replica
from engine.serving.policies import DecodeOnly, Limits, PrefillOnly, Unified
from engine.serving.request import Request
from engine.serving.router import Capacity, Router
from engine.serving.scheduler import Scheduler

BLOCK, LEASE_NS = 4, 1000


def prefill_node(blocks=8, layerwise=False) -> PrefillNode:
    scheduler = Scheduler(PrefillOnly(), BlockPool(blocks, BLOCK), Limits())
    return PrefillNode(scheduler, name="prefill-0", layers=4, layerwise=layerwise, lease_ns=LEASE_NS)


def decode_node(blocks=8) -> DecodeNode:
    return DecodeNode(Scheduler(DecodeOnly(), BlockPool(blocks, BLOCK), Limits()))


def submit(index=0, prompt=8, output=5, attempt=0, made=0) -> Submit:
    return Submit(index, prompt, list(range(prompt + made)), output, seed=index, attempt=attempt)


def offer(index=0, prompt=8, output=5, attempt=0, made=0) -> Offer:
    tokens = list(range(prompt + made))
    return Offer(index, prompt, tokens, output, index, attempt, "prefill-0", list(range(3)))


def part(index=0, attempt=0, token=77, lease=LEASE_NS, layers=(0, 4)) -> Part:
    return Part(index, attempt, *layers, published_ns=(1, 2), token=token, lease_expires_ns=lease if token is not None else None)


def said(node) -> list:
    messages, node.outbox = node.outbox, []
    return messages


def prefill(node, now_ns) -> list:
    """One step, with a token for every prompt; returns what was said."""
    plan = node.next_plan(now_ns)
    node.complete(plan, {piece.index: 50 + piece.index for piece in plan.slices}, now_ns)
    return said(node)


def arrived(node, now_ns=10, **options) -> None:
    """A sequence with its KV copied, ready to decode."""
    node.receive(offer(**{name: value for name, value in options.items() if name != "layers"}), now_ns)
    options.pop("prompt", None), options.pop("output", None), options.pop("made", None)
    node.receive(part(**options), now_ns)
    node.next_plan(now_ns)
    for fetch in node.fetches():
        node.fetched(fetch, now_ns)


class TestPrefillNode:
    def test_blocks_stay_pinned_from_prefill_to_acknowledgement(self):
        """Freed before the copy has ended, they would be overwritten by the next prompt while being read."""
        node = prefill_node()
        node.receive(submit(), 0)
        messages = prefill(node, now_ns=5)
        assert [type(m) for m in messages] == [Noted, Offer, Part]
        _, offered, part_ = messages
        assert offered.tokens == list(range(8)) and offered.blocks == [0, 1] and offered.source == "prefill-0"
        assert part_ == Part(0, 0, 0, 4, (5, 5), token=50, lease_expires_ns=5 + LEASE_NS)
        assert node.scheduler.blocks.num_used == 2 and node.scheduler.idle
        node.receive(Ack(0, attempt=0), 6)
        assert node.scheduler.blocks.num_used == 0 and node.next_deadline_ns is None

    def test_a_lease_that_ends_frees_the_blocks_and_not_a_moment_earlier(self):
        """A lost acknowledgement must cost a wait, not the pool; a lease cut short would break the promise to readers."""
        node = prefill_node()
        node.receive(submit(), 0)
        prefill(node, now_ns=5)
        assert node.next_deadline_ns == 5 + LEASE_NS
        node.next_plan(5 + LEASE_NS - 1)
        assert node.scheduler.blocks.num_used == 2
        node.next_plan(5 + LEASE_NS)
        assert node.scheduler.blocks.num_used == 0
        assert said(node) == [Noted("lease_expired", 0, 5 + LEASE_NS)]

    def test_a_late_acknowledgement_of_an_earlier_attempt_does_not_free_the_new_blocks(self):
        """The decode side gave the request back; its acknowledgement of the first copy comes after the second prefill."""
        node = prefill_node()
        node.receive(submit(), 0)
        prefill(node, now_ns=5)
        node.receive(submit(attempt=1, made=1), 20)
        prefill(node, now_ns=25)
        used = node.scheduler.blocks.num_used
        assert used == 3
        node.receive(Ack(0, attempt=0), 30)
        assert node.scheduler.blocks.num_used == used and node.next_deadline_ns == 25 + LEASE_NS
        node.receive(Ack(0, attempt=1), 31)
        assert node.scheduler.blocks.num_used == 0

    def test_the_pin_of_an_old_attempt_ends_when_the_request_comes_back(self):
        """Kept, its lease would run out while the new prefill waits or runs and free that one's blocks."""
        node = prefill_node()
        node.receive(submit(), 0)
        prefill(node, now_ns=5)
        node.receive(submit(attempt=1, made=1), 20)
        assert node.scheduler.blocks.num_used == 0 and node.next_deadline_ns is None
        plan = node.next_plan(21)  # the new prefill begins, and its step goes on beyond the old lease
        assert node.scheduler.blocks.num_used == 3
        node.next_plan(5 + LEASE_NS)
        assert node.scheduler.blocks.num_used == 3, "the old lease freed the blocks of the running prefill"
        node.complete(plan, {0: 9}, 6 + LEASE_NS)
        assert node.held[0].attempt == 1 and node.next_deadline_ns == 6 + 2 * LEASE_NS
        assert not [m for m in said(node) if isinstance(m, Noted) and m.kind == "lease_expired"]

    def test_an_acknowledgement_of_an_unknown_request_is_harmless(self):
        """Acknowledgements come twice, or for what has long been freed."""
        node = prefill_node()
        node.receive(Ack(9, attempt=0), 0)
        node.receive(submit(), 0)
        prefill(node, now_ns=5)
        node.receive(Ack(0, attempt=0), 6)
        node.receive(Ack(0, attempt=0), 7)
        assert node.scheduler.blocks.num_used == 0

    def test_a_request_whose_only_token_is_made_here_is_finished_here(self):
        """There is nothing to decode: offered, its KV would be pinned and moved for nothing."""
        for layerwise in (False, True):
            node = prefill_node(layerwise=layerwise)
            node.receive(submit(output=1), 0)
            messages = prefill(node, now_ns=5)
            assert [type(m) for m in messages] == [Noted, Finished]
            assert node.scheduler.blocks.num_used == 0 and not node.held

    def test_layer_by_layer_the_offer_comes_first_and_the_token_last(self):
        """The reader learns of the blocks before any layer, and may decode only after the token."""
        node = prefill_node(layerwise=True)
        node.receive(submit(), 0)
        plan = node.next_plan(5)
        node.publish(plan, 0, 2, (6, 7))
        node.publish(plan, 2, 4, (8, 9))
        node.complete(plan, {0: 50}, 10)
        noted, offered, first, second, last = said(node)
        assert isinstance(noted, Noted) and isinstance(offered, Offer)
        assert (first.first_layer, first.end_layer, first.token) == (0, 2, None)
        assert (second.first_layer, second.end_layer, second.published_ns) == (2, 4, (8, 9))
        assert (last.first_layer, last.end_layer, last.token) == (4, 4, 50), "nothing is copied twice"
        assert last.lease_expires_ns == 10 + LEASE_NS

    def test_what_can_never_fit_is_refused(self):
        """Queued, it would block everybody behind it for ever."""
        node = prefill_node(blocks=2)
        node.receive(submit(prompt=8, output=2), 0)
        (refused,) = said(node)
        assert isinstance(refused, Refused) and refused.error["code"] == "request-never-fits"
        assert node.scheduler.idle


class TestDecodeNode:
    def test_a_sequence_decodes_once_all_its_kv_was_copied(self):
        """It must not prefill, and not decode on KV that has not come."""
        node = decode_node()
        node.receive(offer(), 1)
        assert node.fetches() == [], "no blocks yet"
        plan = node.next_plan(2)
        assert plan.slices == () and plan.admit == ((0, 9),)
        assert node.fetches() == [], "nothing to read yet"
        node.receive(part(token=None, layers=(0, 2)), 3)
        (fetch,) = node.fetches()
        assert (fetch.source, fetch.source_blocks, fetch.tokens) == ("prefill-0", (0, 1, 2), 8)
        node.fetched(fetch, 4)
        assert node.next_plan(5).slices == () and node.fetches() == []
        node.receive(part(token=77, layers=(2, 4)), 6)
        said(node)
        node.fetched(node.fetches()[0], 7)
        assert said(node) == [Ack(0, 0)]
        (piece,) = node.next_plan(8).slices
        assert (piece.start, piece.length, piece.decode) == (8, 1, True)
        assert node.scheduler[0].tokens[-1] == 77

    def test_kv_copied_after_its_lease_ended_is_thrown_away(self):
        """The source may have reused the blocks in the middle of the copy: wrong tokens, and no error anywhere."""
        node = decode_node()
        node.receive(offer(), 1)
        node.receive(part(), 1)
        node.next_plan(2)
        said(node)
        (fetch,) = node.fetches()
        node.fetched(fetch, LEASE_NS)
        assert said(node) == [Return(0, [*range(8), 77], "lease_expired")]
        assert 0 not in node.scheduler and node.scheduler.blocks.num_used == 0
        assert node.next_plan(LEASE_NS + 1).slices == ()

    def test_a_copy_that_ends_just_before_the_lease_counts(self):
        """Thrown away too early, it would be prefilled and moved again for nothing."""
        node = decode_node()
        arrived(node, now_ns=LEASE_NS - 1)
        assert [m for m in said(node) if not isinstance(m, Noted)] == [Ack(0, 0)]

    def test_a_lease_that_ends_while_the_request_waits_for_blocks_gives_it_back(self):
        """Nobody else would wake it: it would wait for KV that is gone."""
        node = decode_node(blocks=3)
        arrived(node, index=0)
        node.receive(offer(index=1), 20)
        node.receive(part(index=1), 20)
        said(node)
        node.next_plan(21)
        assert node.fetches() == [] and node.next_deadline_ns == LEASE_NS
        node.next_plan(LEASE_NS)
        assert Return(1, [*range(8), 77], "lease_expired") in said(node)
        assert node.next_deadline_ns is None and 0 in node.scheduler and 1 not in node.scheduler

    def test_a_part_of_an_earlier_attempt_is_not_taken_for_the_new_one(self):
        """Its layers lie in blocks that now belong to somebody else."""
        node = decode_node()
        node.receive(offer(attempt=1), 1)
        node.next_plan(2)
        node.receive(part(attempt=0), 3)
        assert node.fetches() == [] and node.arrivals[0].last is None and node.next_deadline_ns is None
        node.receive(part(attempt=1), 4)
        (fetch,) = node.fetches()
        assert fetch.attempt == fetch.part.attempt == 1

    def test_a_part_that_is_wrong_ends_the_request_when_its_last_one_is_here(self):
        """Not before: an acknowledgement of blocks that are not pinned yet would be lost, and they pinned until the lease ends."""
        node = decode_node()
        node.receive(offer(), 1)
        node.receive(part(token=None, layers=(0, 2)), 2)
        node.next_plan(3)
        (fetch,) = node.fetches()
        node.fetched(fetch, 4, {"code": "transfer-corrupted"})
        said(node)
        assert 0 in node.scheduler and node.fetches() == []
        node.receive(part(layers=(2, 4)), 5)
        (fetch,) = node.fetches()
        node.fetched(fetch, 6)
        assert said(node) == [Failed(0, {"code": "transfer-corrupted"}), Ack(0, 0)]
        assert 0 not in node.scheduler and node.scheduler.blocks.num_used == 0 and node.next_deadline_ns is None

    def test_layers_that_never_came_end_the_request(self):
        """Decoded over whatever lay in the blocks before, its text would be somebody else's."""
        node = DecodeNode(Scheduler(DecodeOnly(), BlockPool(8, BLOCK), Limits()), layers=4)
        arrived(node, layers=(1, 4))
        failed, ack = [m for m in said(node) if not isinstance(m, Noted)]
        assert failed.error["code"] == "transfer-cut" and failed.error["facts"] == {"found": 3, "expected": 4, "unit": "layers"} and ack == Ack(0, 0)

    def test_a_copy_waits_for_its_link_and_the_others_do_not(self):
        """The loop is woken when it is due; until then it is not decoded, and its lease may end, since the copy is here."""
        node = DecodeNode(Scheduler(DecodeOnly(), BlockPool(8, BLOCK), Limits()), link=Link(1e9))  # a byte per nanosecond
        node.receive(offer(), 1)
        node.receive(dataclasses.replace(part(), published_ns=(10, 20), size=500), 21)
        node.next_plan(30)
        (fetch,) = node.fetches()
        assert node.fetched(fetch, 40) == (30, 530), "there was no room for it before 30"
        assert node.next_deadline_ns == 530 and node.next_plan(529).slices == () and [type(m) for m in said(node)] == [Noted]
        assert [piece.index for piece in node.next_plan(530).slices] == [0] and said(node) == [Ack(0, 0)] and node.next_deadline_ns is None

    def test_a_link_that_is_too_slow_for_the_lease_ends_the_request(self):
        """Given back it would come again, and again too late; what is in time by a nanosecond counts."""
        for size, reason in ((LEASE_NS - 30, "transfer-late"), (LEASE_NS - 31, None)):
            node = DecodeNode(Scheduler(DecodeOnly(), BlockPool(8, BLOCK), Limits()), link=Link(1e9))
            node.receive(offer(), 1)
            node.receive(dataclasses.replace(part(), size=size), 2)
            node.next_plan(30)
            node.fetched(node.fetches()[0], 40)
            errors = [message.error["code"] for message in said(node) if isinstance(message, Failed)]
            assert errors == ([reason] if reason else []) and (0 in node.scheduler) == (reason is None)
            if reason is None:
                node.next_plan(LEASE_NS + 5)
                assert said(node) == [Ack(0, 0)], "busy when it came, not late"

    def test_a_part_for_nobody_is_harmless(self):
        """Parts of a request that was given back may still be on their way."""
        node = decode_node()
        node.receive(part(index=5), 1)
        assert node.fetches() == [] and node.scheduler.idle

    def test_a_preempted_sequence_goes_back_with_all_tokens_so_far(self):
        """A token that the user has seen must not be made again, nor one be lost."""
        node = decode_node(blocks=6)
        for index in range(2):
            arrived(node, index=index, prompt=8, output=16)
        said(node)
        plan = node.next_plan(20)
        while not plan.preempt:
            node.complete(plan, {piece.index: 90 + piece.index for piece in plan.slices}, 20)
            plan = node.next_plan(20)
        assert said(node) == [Noted("preempted", 1, 20), Return(1, [*range(8), 77, 91, 91, 91, 91], "preempted")]
        assert 1 not in node.scheduler and len(node.scheduler.blocks.table(1)) == 0
        assert [piece.index for piece in plan.slices] == [0]

    def test_what_can_never_fit_is_refused_and_not_awaited(self):
        """An arrival remembered for it would wake the loop, and give back what is not there, when its lease ends."""
        node = decode_node(blocks=2)
        node.receive(offer(prompt=8, output=5), 0)
        node.receive(part(), 1)
        assert [type(m) for m in said(node)] == [Refused]
        assert node.arrivals == {} and node.next_deadline_ns is None


def test_a_replica_tells_when_it_admits_preempts_and_finishes():
    """The page's events and the router's books come from these."""
    node = Replica(Scheduler(Unified(), BlockPool(4, BLOCK), Limits()))
    node.receive(submit(0, prompt=4, output=8), 0)
    node.receive(submit(1, prompt=4, output=8), 0)
    for now_ns in range(1, 40):
        plan = node.next_plan(now_ns)
        node.complete(plan, {piece.index: 5 for piece in plan.slices}, now_ns)
    kinds = [(m.kind, m.index) if isinstance(m, Noted) else ("finished", m.index) for m in said(node)]
    assert kinds == [
        ("admitted", 0), ("admitted", 1), ("preempted", 1), ("finished", 0), ("admitted", 1), ("finished", 1)
    ]  # fmt: skip


def request(index, prompt=8, output=5) -> Request:
    return Request(index, tuple(range(prompt)), output, seed=index)


def router(entry=1, decode=0, blocks=100) -> Router:
    entries, decodes = [f"e{i}" for i in range(entry)], [f"d{i}" for i in range(decode)]
    return Router(entries, decodes, {name: Capacity(blocks, BLOCK) for name in entries + decodes})


class TestRouter:
    def test_the_worker_with_the_fewest_outstanding_tokens_is_chosen(self):
        """Round robin, or counting requests, would put a chat behind the long prompt."""
        r = router(entry=2)
        assert r.arrive(request(0, prompt=50, output=5))[0][0] == "e0"
        assert [r.arrive(request(i, prompt=8, output=5))[0][0] for i in (1, 2, 3, 4)] == ["e1"] * 4
        assert r.outstanding_tokens("e0") == 55 and r.outstanding_tokens("e1") == 52
        assert r.arrive(request(5, prompt=8, output=5))[0][0] == "e1"
        r.computed("e0", 0, 50)
        assert r.outstanding_tokens("e0") == 5
        assert r.arrive(request(6))[0][0] == "e0"
        r.handle("e0", Finished(0))
        assert r.outstanding_tokens("e0") == 13 and r.ended == {0}

    def test_outstanding_tokens_never_fall_below_none(self):
        """What a preempted request computes twice would otherwise count against others."""
        r = router()
        r.arrive(request(0, prompt=8, output=5))
        r.computed("e0", 0, 100)
        r.computed("e0", 99, 100)
        assert r.outstanding_tokens("e0") == 0

    def test_decode_workers_are_chosen_by_the_same_rule(self):
        """All long outputs on one decode worker would make the pool as slow as that one."""
        r = router(entry=1, decode=2)
        for index, output in ((0, 30), (1, 5), (2, 5)):
            r.arrive(request(index, output=output))
        assert r.handle("e0", offer(0))[0][0] == "d0"
        assert r.handle("e0", offer(1))[0][0] == "d1"
        assert r.handle("e0", offer(2))[0][0] == "d1"
        assert (r.outstanding_tokens("d0"), r.outstanding_tokens("d1")) == (30, 10)

    def test_messages_go_to_those_who_wait_for_them(self):
        """An acknowledgement to the wrong prefill worker keeps blocks pinned; a part to the wrong decode worker is lost."""
        r = router(entry=2, decode=2)
        r.arrive(request(0, prompt=50))
        (name, _), = r.arrive(request(1))
        assert name == "e1"
        assert r.outstanding_tokens("e1") == 9, "its prompt and token 1; the rest is decoded elsewhere"
        offered, last = offer(1), part(1)
        assert r.handle("e1", offered) == [("d0", offered)]
        assert r.handle("e1", part(1, token=None)) == [("d0", part(1, token=None))]
        assert r.outstanding_tokens("e1") == 9, "the prompt is done only with its token"
        assert r.handle("e1", last) == [("d0", last)] and r.outstanding_tokens("e1") == 0
        assert r.handle("d0", Ack(1, 0)) == [("e1", Ack(1, 0))]
        assert r.handle("d0", Noted("admitted", 1, 5)) == []
        assert r.handle("d0", Failed(0, {})) == [] and r.ended == {0}, "what failed is not waited for"
        assert r.handle("d0", Finished(1)) == [] and r.ended == {0, 1} and r.outstanding_tokens("d0") == 0

    def test_a_returned_request_is_prefilled_again_as_the_next_attempt(self):
        """With the same attempt, late messages of the first could not be told apart; on a decode worker it could not be
        prefilled at all."""
        r = router(entry=2, decode=1)
        r.arrive(request(0))
        r.arrive(request(1, prompt=80))
        r.handle("e0", offer(0))
        r.handle("e0", part(0))
        tokens = [*range(8), 77, 78]
        ((name, again),) = r.handle("d0", Return(0, tokens, "preempted"))
        assert name == "e0" and r.outstanding_tokens("d0") == 0
        assert again == Submit(0, 8, tokens, 5, 0, attempt=1)
        assert r.outstanding_tokens("e0") == 11
        ((_, third),) = r.handle("d0", Return(0, tokens, "lease_expired"))
        assert third.attempt == 2
        assert r.ended == set()

    def test_a_request_is_refused_by_the_smallest_pool_it_must_pass_through(self):
        """Let in because the first pool holds it, it would wait for the second for ever; the numbers must be the ones
        to change."""
        r = Router(["p"], ["d"], {"p": Capacity(100, BLOCK), "d": Capacity(3, BLOCK)})
        with pytest.raises(LabError) as caught:
            r.arrive(request(0, prompt=10, output=4))
        assert caught.value.code == "request-never-fits"
        assert caught.value.facts == {"tokens": 13, "needed_blocks": 4, "total_blocks": 3, "block_tokens": BLOCK}
        assert r.ended == {0} and r.outstanding_tokens("p") == 0
        assert r.arrive(request(1, prompt=10, output=3))

    def test_of_several_pools_that_are_too_small_the_smallest_is_named(self):
        """With the numbers of the first one, a user would enlarge it and be refused again."""
        r = Router(["p"], ["d"], {"p": Capacity(3, BLOCK), "d": Capacity(2, BLOCK)})
        with pytest.raises(LabError) as caught:
            r.arrive(request(0, prompt=10, output=4))
        assert caught.value.facts["total_blocks"] == 2


def test_every_message_survives_the_wire():
    """A field that is lost or turned into another type on the way would show only far from here."""
    messages = [
        submit(1, made=2, attempt=3), offer(2), part(3), part(3, token=None), Ack(1, 2), Return(1, [1, 2], "preempted"),
        Finished(4), Failed(6, {"code": "y", "facts": {"n": 1}, "message": "x"}), Refused(5, {"code": "x", "facts": {}, "message": "가"}), Noted("admitted", 1, 123456789012345678),
    ]  # fmt: skip
    for message in messages:
        line = encode(message)
        assert "\n" not in line
        received = decode(json.loads(line))
        if isinstance(message, Part):
            received = Part(**{**vars(received), "published_ns": tuple(received.published_ns)})
        assert received == message
    assert decode({"type": "step"}) is None and decode({}) is None
