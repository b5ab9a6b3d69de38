"""Random workloads through all schedules, under a fake clock: what must hold whatever the order of events."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.serving.request import Request
from tests.serving.simulation import World, expected_output

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

requests = st.lists(
    st.tuples(st.integers(0, 400), st.integers(1, 40), st.integers(1, 12)), min_size=1, max_size=8
).map(
    lambda rows: [
        (at, Request(i, tuple((i * 37 + j) % 101 for j in range(prompt)), output))
        for i, (at, prompt, output) in enumerate(sorted(rows))
    ]
)


def check_ends(world):
    """Every request ends with exactly its tokens, or was refused with the numbers, and no block stays owned."""
    for request in world.requests:
        if request.index in world.refused:
            facts = world.refused[request.index]
            assert facts["needed_blocks"] > facts["total_blocks"]
            continue
        made = [token for _, token in world.tokens[request.index]]
        assert made == expected_output(request)
        assert request.index in world.router.ended
        times = [at for at, _ in world.tokens[request.index]]
        assert times == sorted(times)
    for worker in world.workers.values():
        assert worker.node.scheduler.blocks.num_used == 0, f"{worker.name} still owns blocks"
        assert worker.node.scheduler.idle
    assert all(world.router.outstanding_tokens(name) == 0 for name in world.workers)


@SETTINGS
@given(requests, st.integers(3, 30), st.integers(1, 8), st.integers(0, 3), st.integers(1, 2))
def test_unified(arrivals, blocks, block_tokens, seed, replicas):
    world = World("unified", arrivals, blocks=blocks, block_tokens=block_tokens, seed=seed, workers=(replicas, 0)).run()
    check_ends(world)
    for _, _, plan in world.token_steps:
        assert not (plan.prefill_tokens and plan.decode_tokens), "unified never mixes"


@SETTINGS
@given(requests, st.integers(3, 30), st.integers(1, 8), st.integers(1, 20), st.integers(0, 3))
def test_chunked(arrivals, blocks, block_tokens, chunk, seed):
    world = World("chunked", arrivals, blocks=blocks, block_tokens=block_tokens, chunk=chunk, seed=seed).run()
    check_ends(world)
    for _, decoding, plan in world.token_steps:
        assert plan.prefill_tokens <= chunk
        decoded = {s.index for s in plan.slices if s.decode}
        assert decoded == decoding, "a running decode was left out of a step"


@SETTINGS
@given(
    requests,
    st.integers(3, 30),
    st.integers(1, 8),
    st.booleans(),
    st.sampled_from([(1, 1), (2, 1), (1, 2), (2, 2)]),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from([0, 300, 2000]),
    st.sampled_from([120, 1000, 100_000]),
    st.integers(0, 5),
)
def test_disaggregated(arrivals, blocks, block_tokens, layerwise, workers, lose_ack, late_ack_ns, lease_ns, seed):
    world = World(
        "disaggregated",
        arrivals,
        blocks=blocks,
        block_tokens=block_tokens,
        layerwise=layerwise,
        workers=workers,
        lose_ack=lose_ack,
        late_ack_ns=late_ack_ns,
        lease_ns=lease_ns,
        seed=seed,
    ).run()
    check_ends(world)
    for name, _, plan in world.token_steps:
        if name.startswith("decode"):
            assert plan.prefill_tokens == 0 and all(s.length == 1 for s in plan.slices), "the decode pool prefilled"
        else:
            assert plan.decode_tokens == 0
