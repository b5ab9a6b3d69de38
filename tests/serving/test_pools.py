"""Pools of several workers without processes: the router is fair, and a decode pool that is full loses nothing."""

from hypothesis import given
from hypothesis import strategies as st

from engine.serving.messages import Noted, Offer, Part, Submit
from engine.serving.request import Request
from engine.serving.router import Capacity, Router
from tests.serving.simulation import World, expected_output

BLOCK_TOKENS = 4


def router(prefill: int, decode: int) -> Router:
    entry, others = [f"prefill-{n}" for n in range(prefill)], [f"decode-{n}" for n in range(decode)]
    return Router(entry, others, {name: Capacity(10**6, BLOCK_TOKENS) for name in entry + others})


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 40), st.integers(1, 60), st.integers(1, 30), st.randoms(use_true_random=False))
def test_equal_requests_are_spread_evenly(prefill, decode, count, prompt, output, luck):
    """Whichever prefill ends first: no worker gets two more than another, of those that come at once or one by one."""
    routing, got, under_way = router(prefill, decode), {}, []
    for index in range(count):
        ((entry, submit),) = routing.arrive(Request(index, (1,) * prompt, output + 1))
        assert isinstance(submit, Submit)
        got[entry] = got.get(entry, 0) + 1
        under_way.append((entry, index))
    luck.shuffle(under_way)
    for entry, index in under_way:
        ((target, _),) = routing.handle(entry, Offer(index, prompt, [1] * prompt, output + 1, 0, 0, entry, [0]))
        got[target] = got.get(target, 0) + 1
        routing.handle(entry, Part(index, 0, 0, 1, (0, 0), token=1, lease_expires_ns=9))
    for names in (routing.entry, routing.decode):
        each = [got.get(name, 0) for name in names]
        assert max(each) - min(each) <= 1, got


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(2, 50)), min_size=1, max_size=30), st.integers(2, 4))
def test_no_worker_is_given_more_while_another_has_less_to_do(sizes, decode):
    """Requests of all sizes: the next one goes to a worker than which none has fewer tokens outstanding, so nobody starves."""
    routing = router(1, decode)
    for index, (prompt, output) in enumerate(sizes):
        routing.arrive(Request(index, (1,) * prompt, output))
        before = {name: routing.outstanding_tokens(name) for name in routing.decode}
        ((target, _),) = routing.handle("prefill-0", Offer(index, prompt, [1] * prompt, output, 0, 0, "prefill-0", [0]))
        assert before[target] == min(before.values())


def test_requests_that_come_one_at_a_time_go_round():
    """With nobody outstanding all are equal: the first one would do everything, and the others be idle for ever."""
    routing, chosen = router(3, 1), []
    for index in range(6):
        ((entry, _),) = routing.arrive(Request(index, (1, 2), 2))
        chosen.append(entry)
        routing.handle(entry, Offer(index, 2, [1, 2], 2, 0, 0, entry, [0]))
        routing.handle(entry, Part(index, 0, 0, 1, (0, 0), token=1, lease_expires_ns=9))
    assert sorted(chosen[:3]) == routing.entry == sorted(chosen[3:])


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(1, 20), st.integers(2, 10)), min_size=2, max_size=8),
    st.sampled_from([(1, 1), (2, 1), (1, 2)]),
    st.booleans(),
    st.integers(0, 3),
)
def test_a_full_decode_pool_holds_the_prefill_pool_and_loses_nothing(rows, workers, layerwise, seed):
    """Each decode worker holds one request or two: the others' KV stays pinned at the prefill workers, whose own room ends
    too, until all have had their turn. A lost wake-up would hang here, and a block given away too early makes wrong tokens."""
    requests = [(at, Request(i, tuple((i * 37 + j) % 101 for j in range(prompt)), output)) for i, (at, prompt, output) in enumerate(sorted(rows))]
    largest = max(-(-request.max_kv_tokens // BLOCK_TOKENS) for _, request in requests)
    world = World(
        "disaggregated", requests, blocks=2 * largest, decode_blocks=largest, block_tokens=BLOCK_TOKENS, workers=workers,
        layerwise=layerwise, lease_ns=10**9, seed=seed,
    ).run()  # fmt: skip
    for _, request in requests:
        assert [token for _, token in world.tokens[request.index]] == expected_output(request)
    assert all(worker.node.scheduler.blocks.num_used == 0 for worker in world.workers.values())
    assert not any(getattr(message, "kind", "") == "lease_expired" for _, message in world.noted), "the prefill side holds what it promised"


def test_who_finds_no_room_is_noted_once():
    """Back-pressure is counted by these notes: one for each step would be a note for every token of the others."""
    requests = [(0, Request(i, tuple(range(8)), 6)) for i in range(3)]
    world = World("disaggregated", requests, blocks=20, decode_blocks=4, block_tokens=BLOCK_TOKENS, lease_ns=10**9).run()
    told = [message.index for _, message in world.noted if isinstance(message, Noted) and message.kind == "no_room"]
    assert len(told) == len(set(told)) == 2
