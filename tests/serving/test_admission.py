"""Admission as the engine does it: the first wave against the formula, and reservations, over random workloads."""

from hypothesis import event, given, settings
from hypothesis import strategies as st

from engine.errors import LabError
from engine.formulas.admission import blocks_for, first_wave
from engine.kv.blocks import BlockPool
from engine.measure.trace import build_trace
from engine.measure.usage import measured_first_wave
from engine.serving.policies import Chunked, Limits, Unified
from engine.serving.request import Request, Sequence
from engine.serving.scheduler import Scheduler
from tests.serving.simulation import World, expected_output

SETTINGS = settings(max_examples=400, deadline=None)
# Mostly paged: there a single token decides whether a request still fits.
reserves = st.just(0) | st.just(0) | st.integers(1, 90)
lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 20)), min_size=1, max_size=14)


def requests_of(rows) -> list[Request]:
    return [Request(i, tuple((i * 37 + j) % 101 for j in range(prompt)), output) for i, (prompt, output) in enumerate(rows)]


def submitted(scheduler, requests) -> list[Request]:
    """Those that were not refused, which is right for exactly those that the empty pool could not hold."""
    taken = []
    for request in requests:
        needed = blocks_for(max(scheduler.limits.reserve_tokens, request.max_kv_tokens), scheduler.blocks.block_tokens)
        try:
            scheduler.submit(Sequence.begin(request))
            taken.append(request)
        except LabError as error:
            reserved = scheduler.limits.reserve_tokens > request.max_kv_tokens
            assert error.code == ("reservation-never-fits" if reserved else "request-never-fits")
        assert (request in taken) == (needed <= scheduler.blocks.num_blocks)
    return taken


def wave(scheduler) -> int:
    """How many the real scheduler admits before the first block is given back."""
    admitted = 0
    while not scheduler.idle:
        plan = scheduler.next_plan()
        if plan.preempt:
            break
        admitted += len(plan.admit)
        if scheduler.complete(plan, {piece.index: 1 for piece in plan.slices if piece.sample}):
            break
    return admitted


def by_formula(requests, *pool) -> int:
    return first_wave([len(r.prompt) for r in requests], [r.output_tokens for r in requests], *pool)


@SETTINGS
@given(lengths, st.integers(1, 60), st.integers(1, 20), st.integers(1, 16), st.integers(1, 400), reserves)
def test_the_first_wave_is_what_the_formula_says(rows, blocks, block_tokens, most, prefill_tokens, reserve):
    """The real scheduler on the real pool: block rounding, the room for a first decode, order, batch size, steps. A
    formula that is one block off anywhere would tell a class something else than its machine does."""
    scheduler = Scheduler(Unified(), BlockPool(blocks, block_tokens), Limits(most, prefill_tokens, reserve))
    taken = submitted(scheduler, requests_of(rows))
    found = wave(scheduler)
    assert found == by_formula(taken, blocks, block_tokens, most, reserve, prefill_tokens)
    event("reserved" if reserve else "paged")
    event("all in" if found == len(taken) else "batch" if found == most else "pool or step")


@SETTINGS
@given(lengths, st.integers(1, 60), st.integers(1, 20), reserves)
def test_the_first_wave_of_prompts_alone(rows, blocks, block_tokens, reserve):
    """One output token each: nothing but prompts, all in one step, and the blocks come back when it ends."""
    scheduler = Scheduler(Unified(), BlockPool(blocks, block_tokens), Limits(64, 10**6, reserve))
    taken = submitted(scheduler, requests_of([(prompt, 1) for prompt, _ in rows]))
    assert wave(scheduler) == by_formula(taken, blocks, block_tokens, 64, reserve)


@settings(max_examples=150, deadline=None)
@given(lengths, st.integers(4, 60), st.integers(1, 20), reserves, st.integers(0, 3))
def test_the_wave_is_read_from_a_trace(rows, blocks, block_tokens, reserve, seed):
    """Through node, router and trace, under the fake clock: what the page reports as measured is what happened."""
    requests = requests_of([(prompt, output + 1) for prompt, output in rows])
    world = World(
        "unified", [(0, r) for r in requests], blocks=blocks, block_tokens=block_tokens, seed=seed, delay_ns=0, limits=Limits(64, 50, reserve)
    ).run()
    facts = [{"id": str(r.index), "kind": "request", "prompt_tokens": len(r.prompt), "output_tokens": r.output_tokens} for r in requests]
    trace = build_trace("unified", facts, world.records, block_tokens=block_tokens)
    taken = [r for r in requests if r.index not in world.refused]
    assert measured_first_wave(trace) == by_formula(taken, blocks, block_tokens, 64, reserve, 50)


arrivals = st.lists(st.tuples(st.integers(0, 400), st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=8).map(
    lambda rows: [(at, request) for (at, *_), request in zip(sorted(rows), requests_of([row[1:] for row in sorted(rows)]))]
)


@settings(max_examples=150, deadline=None)
@given(arrivals, st.sampled_from(["unified", "chunked"]), st.integers(3, 40), st.integers(1, 8), st.integers(1, 60), st.integers(0, 3))
def test_whoever_has_a_reservation_keeps_it(arrivals, schedule, blocks, block_tokens, reserve, seed):
    """Whatever arrives when: nobody is preempted, every request ends with its own tokens, what can never fit is refused."""
    world = World(
        schedule, arrivals, blocks=blocks, block_tokens=block_tokens, seed=seed, limits=Limits(4, 40, reserve_tokens=reserve)
    ).run()
    assert not [note for _, note in world.noted if note.kind == "preempted"]
    for request in world.requests:
        fits = blocks_for(max(reserve, request.max_kv_tokens), block_tokens) <= blocks
        made = [token for _, token in world.tokens.get(request.index, [])]
        assert made == (expected_output(request) if fits else [])
    assert all(w.node.scheduler.idle and w.node.scheduler.blocks.num_used == 0 for w in world.workers.values())


@settings(max_examples=150, deadline=None)
@given(lengths, st.sampled_from([Unified(), Chunked(7)]), st.integers(1, 40), st.integers(1, 8), st.integers(1, 90))
def test_reserved_blocks_never_change(rows, policy, blocks, block_tokens, reserve):
    """From admission to the end the same blocks: a table that grew would have been reserved too small."""
    scheduler = Scheduler(policy, BlockPool(blocks, block_tokens), Limits(64, 100, reserve))
    submitted(scheduler, requests_of(rows))
    tables = {}
    while not scheduler.idle:
        plan = scheduler.next_plan()
        assert not plan.preempt
        for sequence in scheduler.running:
            table = scheduler.blocks.table(sequence.index)
            assert tables.setdefault(sequence.index, table) == table
            assert len(table) == blocks_for(max(reserve, sequence.request.max_kv_tokens), block_tokens)
        assert scheduler.blocks.num_used == sum(len(scheduler.blocks.table(s.index)) for s in scheduler.running) <= blocks
        scheduler.complete(plan, {piece.index: 1 for piece in plan.slices if piece.sample})


def test_blocks_are_noted_while_they_are_owned():
    """Noted only after a step, those of a request that ends with it were never seen: a pool that was full looked empty."""
    request = requests_of([(9, 1)])[0]
    world = World("unified", [(0, request)], blocks=8, block_tokens=4).run()
    fact = {"id": "0", "kind": "request", "prompt_tokens": 9, "output_tokens": 1}
    trace = build_trace("unified", [fact], world.records, block_tokens=4)
    assert [point["tokens"] for point in trace["kv"]] == [12, 0]
    assert trace["kv"][0]["at_s"] <= trace["steps"][0]["begin_s"]
