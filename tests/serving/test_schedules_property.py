"""Random workloads through all schedules, under a fake clock: what must hold whatever the order of events."""

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from engine.measure.export import to_chrome
from engine.measure.metrics import summarize
from engine.measure.trace import build_trace
from engine.serving.messages import Return
from engine.serving.request import Request
from tests.measure.test_export import check_trace_event_format
from tests.serving.simulation import LAYERS, World, expected_output

SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SECONDS = 1e-6  # a tick of the fake clock
KV_BYTES = 3

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


def kind_of(index):
    return "long" if index % 3 == 0 else "chat"


def check_trace_and_metrics(world, schedule):
    """What the page shows, made from the records, against the few lines below, made from the raw stamps of the tokens."""
    requests = [
        {"id": str(r.index), "kind": kind_of(r.index), "prompt_tokens": len(r.prompt), "output_tokens": r.output_tokens}
        for r in world.requests
    ]
    trace = build_trace(schedule, requests, world.records, block_tokens=world.block_tokens)
    reported = summarize(trace, kv_bytes_per_token=KV_BYTES, kv_capacity_bytes=10**9)
    for name, value in metrics_from_stamps(world).items():
        assert reported[name] == (value if value is None else pytest.approx(value, abs=1e-9)), name
    returned = {message.index for _, message in world.noted if isinstance(message, Return)}
    for index, request in enumerate(trace["requests"]):
        check_stamps(request, schedule, index in returned)
    for transfer in trace["transfers"]:
        layers = sum(layers for _, _, layers in transfer["parts"])
        assert layers <= LAYERS, "two transfers taken for one"
        assert layers == LAYERS or not transfer["complete"], "a part was lost"
    assert all(point["tokens"] <= w.node.scheduler.blocks.num_blocks * world.block_tokens
               for point in trace["kv"] for w in [world.workers[point["worker"]]])  # fmt: skip
    last = {point["worker"]: point["tokens"] for point in trace["kv"]}
    assert not any(last.values()), "KV is still in use at the end of the trace"
    resources = [{"worker": name} for name in world.workers]
    check_trace_event_format(to_chrome({"run_id": "", "schedules": {schedule: {"trace": trace, "resources": resources}}}))
    computed = sum(length for step in trace["steps"] for _, _, length in step["slices"])
    assert computed == sum(step["prefill_tokens"] + step["decode_tokens"] for step in trace["steps"])


def metrics_from_stamps(world):
    stamps = {index: [at * SECONDS for at, _ in made] for index, made in world.tokens.items()}
    arrival = {index: at * SECONDS for index, at in world.arrivals.items()}
    chats = [times for index, times in stamps.items() if kind_of(index) == "chat"]
    gaps = [times[i] - times[i - 1] for times in chats for i in range(1, len(times))]
    first = {index: times[0] - arrival[index] for index, times in stamps.items()}
    chat_first = [wait for index, wait in first.items() if kind_of(index) == "chat"]
    per_token = [(times[-1] - times[0]) / (len(times) - 1) for times in chats if len(times) > 1]
    span = max(max(times) for times in stamps.values()) - min(arrival.values()) if stamps else None
    made = sum(map(len, stamps.values()))
    return {
        "itl_max_s": max(gaps, default=None),
        "itl_p99_s": nearest_rank(gaps, 99),
        "itl_p50_s": nearest_rank(gaps, 50),
        "itl_mean_s": sum(gaps) / len(gaps) if gaps else None,
        "ttft_s": max((wait for index, wait in first.items() if kind_of(index) == "long"), default=None),
        "chat_ttft_max_s": max(chat_first, default=None),
        "chat_ttft_p50_s": nearest_rank(chat_first, 50),
        "tpot_max_s": max(per_token, default=None),
        "tpot_p50_s": nearest_rank(per_token, 50),
        "makespan_s": span,
        "throughput_tokens_per_s": made / span if span else None,
        "output_tokens": made,
        "finished": len(stamps),
        "refused": len(world.refused),
        "requests": len(world.requests),
        "preemptions": sum(getattr(message, "kind", "") == "preempted" for _, message in world.noted),
    }


def nearest_rank(values, percent):
    """The smallest value that at least `percent` of 100 values do not exceed."""
    enough = [v for v in values if 100 * sum(other <= v for other in values) >= percent * len(values)]
    return min(enough, default=None)


def check_stamps(request, schedule, returned):
    """The seven stamps of a life are in order, and those that never happened are not there."""
    if request["status"] == "refused":
        assert request["token_s"] == [] and request["prefill_begin_s"] is None
        return
    assert request["status"] == "finished" and len(request["token_s"]) == request["output_tokens"]
    assert request["arrival_s"] <= request["prefill_begin_s"] < request["prefill_end_s"] == request["token_s"][0]
    if request["decode_begin_s"] is None:  # each token was made by a prefill: one in all, or its KV was lost each time
        assert len(request["token_s"]) == 1 or returned or request["preemptions"]
        assert request["decode_end_s"] is request["transfer_begin_s"] is request["transfer_end_s"] is None
        return
    assert request["prefill_end_s"] <= request["decode_begin_s"] < request["decode_end_s"] == request["token_s"][-1]
    if schedule == "disaggregated":
        assert request["prefill_begin_s"] <= request["transfer_begin_s"] <= request["transfer_end_s"]
        assert request["transfer_end_s"] <= request["decode_begin_s"], "decoded before its KV had come"
        assert request["prefill_end_s"] <= request["transfer_end_s"], "the last part carries token 1"
    else:
        assert request["transfer_begin_s"] is request["transfer_end_s"] is None


def note_what_happened(world):
    """Hypothesis counts these (--hypothesis-show-statistics): the rare paths must not be rare here."""
    event(f"preempted: {any(getattr(m, 'kind', '') == 'preempted' for _, m in world.noted)}")
    event(f"lease expired: {any(getattr(m, 'kind', '') == 'lease_expired' for _, m in world.noted)}")
    event(f"returned: {any(isinstance(m, Return) for _, m in world.noted)}")
    event(f"refused: {bool(world.refused)}")


@SETTINGS
@given(requests, st.integers(3, 30), st.integers(1, 8), st.integers(0, 3), st.integers(1, 2))
def test_unified(arrivals, blocks, block_tokens, seed, replicas):
    """Every request ends with its own tokens; blocks are owned once and given back; prompts and decodes never mix."""
    world = World("unified", arrivals, blocks=blocks, block_tokens=block_tokens, seed=seed, workers=(replicas, 0)).run()
    check_ends(world)
    check_trace_and_metrics(world, "unified")
    note_what_happened(world)
    for _, _, plan in world.token_steps:
        assert not (plan.prefill_tokens and plan.decode_tokens), "unified never mixes"


@SETTINGS
@given(requests, st.integers(3, 30), st.integers(1, 8), st.integers(1, 20), st.integers(0, 3))
def test_chunked(arrivals, blocks, block_tokens, chunk, seed):
    """As above; and no step prefills more than its chunk or leaves a running decode out."""
    world = World("chunked", arrivals, blocks=blocks, block_tokens=block_tokens, chunk=chunk, seed=seed).run()
    check_ends(world)
    check_trace_and_metrics(world, "chunked")
    note_what_happened(world)
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
    """As above with lost and late acknowledgements and short leases; and the decode pool never prefills."""
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
    check_trace_and_metrics(world, "disaggregated")
    note_what_happened(world)
    for name, _, plan in world.token_steps:
        if name.startswith("decode"):
            assert plan.prefill_tokens == 0 and all(s.length == 1 for s in plan.slices), "the decode pool prefilled"
        else:
            assert plan.decode_tokens == 0


def crowd(count, prompt=8, output=12):
    return [(0, Request(i, tuple((i * 37 + j) % 101 for j in range(prompt)), output)) for i in range(count)]


@pytest.mark.parametrize("schedule", ["unified", "chunked", "disaggregated"])
def test_forced_preemption(schedule):
    """Four requests that grow to 19 tokens in a pool of 40: the rare path, made certain, so that no change of the random
    workloads can lose it."""
    world = World(schedule, crowd(4), blocks=10, block_tokens=4, lease_ns=100_000).run()
    check_ends(world)
    check_trace_and_metrics(world, schedule)
    preempted = [message.index for _, message in world.noted if getattr(message, "kind", "") == "preempted"]
    assert preempted and 0 not in preempted, "the oldest is never the one to go"
    returned = [message for _, message in world.noted if isinstance(message, Return)]
    assert bool(returned) == (schedule == "disaggregated")
    assert all(message.reason == "preempted" for message in returned)


@pytest.mark.parametrize("layerwise", [False, True])
def test_leases_that_end_before_the_copy(layerwise):
    """Every acknowledgement is lost and the lease is shorter than most waits: requests go back and are prefilled again."""
    world = World(
        "disaggregated", crowd(6), blocks=10, block_tokens=4, lease_ns=60, lose_ack=1.0, layerwise=layerwise, copy_ns=70
    ).run()
    check_ends(world)
    check_trace_and_metrics(world, "disaggregated")
    assert any(isinstance(m, Return) and m.reason == "lease_expired" for _, m in world.noted)
    assert any(getattr(m, "kind", "") == "lease_expired" for _, m in world.noted)
