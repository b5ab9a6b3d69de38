"""Who waited where: waits, queues and back-pressure of a trace written by hand, and of random servings under a fake clock."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.measure.pools import DECODE, ENGINE, PREFILL, back_pressure, pool_facts, pool_of, queue, waits
from engine.measure.trace import build_trace
from engine.serving.messages import Return
from engine.serving.request import Request
from tests.measure.traces import START, at, kv, noted, step
from tests.serving.simulation import World

BLOCK_TOKENS = 4
ROWS = [{"id": f"chat-{n}", "kind": "chat", "prompt_tokens": 4, "output_tokens": output} for n, output in enumerate((3, 3, 1))]
# Three requests at once; the third needs no decoding. The second finds the decode worker full from 24 to 40.
RECORDS = [
    {"type": "start", "at_ns": START},
    *({"type": "arrive", "index": index, "at_ns": at(1)} for index in range(3)),
    noted("admitted", 0, 2, "prefill-0"),
    noted("admitted", 1, 3, "prefill-1"),
    step("prefill-0", 2, 10, [[0, 0, 4]], [0]),
    noted("admitted", 2, 10, "prefill-0"),
    kv("prefill-0", 10, 2),
    noted("admitted", 0, 11, "decode-0"),
    step("prefill-0", 10, 20, [[2, 0, 4]], [2]),
    {"type": "Finished", "index": 2, "at_ns": at(20), "worker": "prefill-0"},
    step("prefill-1", 3, 22, [[1, 0, 4]], [1]),
    noted("no_room", 1, 24, "decode-0"),
    step("decode-0", 12, 24, [[0, 4, 1]], [0], decodes=1),
    step("decode-0", 24, 40, [[0, 5, 1]], [0], decodes=1),
    {"type": "Finished", "index": 0, "at_ns": at(40), "worker": "decode-0"},
    noted("admitted", 1, 40, "decode-0"),
    step("decode-0", 41, 46, [[1, 4, 1]], [1], decodes=1),
    step("decode-0", 46, 50, [[1, 5, 1]], [1], decodes=1),
    {"type": "Finished", "index": 1, "at_ns": at(50), "worker": "decode-0"},
]


def trace_of(records):
    return build_trace("2:1", ROWS, records, block_tokens=BLOCK_TOKENS)


def ms(points):
    return [[round(seconds * 1000, 6), waiting] for seconds, waiting in points]


def test_what_waits_is_counted_from_when_it_could_go_on():
    """A request that waits for the decode pool is not one that waits for a prefill, and one without a decode waits for none."""
    trace = trace_of(RECORDS)
    assert ms(queue(trace, PREFILL)) == [[0, 0], [1, 3], [2, 2], [3, 1], [10, 0]]
    assert ms(queue(trace, DECODE)) == [[0, 0], [10, 1], [11, 0], [22, 1], [40, 0]]
    assert queue(trace, ENGINE) == [[0.0, 0]]
    assert [(w["pool"], w["request"]) for w in waits(trace)] == [(PREFILL, 0), (PREFILL, 1), (PREFILL, 2), (DECODE, 0), (DECODE, 1)]


def test_back_pressure_counts_from_when_there_was_no_room():
    """The 2 ms before it were a step under way: counted too, every pool would seem full."""
    assert back_pressure(trace_of(RECORDS)) == {"requests": 1, "waited_s_max": 0.016, "waited_s_total": 0.016}
    free = [record for record in RECORDS if record.get("kind") != "no_room"]
    assert back_pressure(trace_of(free)) == {"requests": 0, "waited_s_max": 0.0, "waited_s_total": 0}


def test_blocks_that_are_there_before_the_kv_are_no_wait():
    """Layer by layer an offer comes before the prefill's end: what was full until then held nobody up."""
    early = [noted("no_room", 1, 5, "decode-0"), noted("admitted", 1, 20, "decode-0")]
    records = [r for r in RECORDS if not (r.get("index") == 1 and r.get("worker") == "decode-0" and r["type"] == "Noted")]
    trace = trace_of([*records[:8], *early, *records[8:]])
    assert back_pressure(trace)["requests"] == 0 and ms(queue(trace, DECODE)) == [[0, 0], [10, 1], [11, 0]]


def test_back_pressure_does_not_begin_before_the_kv_is_there():
    """Layer by layer the decode worker is full while the prefill still computes: what that takes is not the pool's doing."""
    records = [{**r, "at_ns": at(15)} if r.get("kind") == "no_room" else r for r in RECORDS]
    assert back_pressure(trace_of(records)) == {"requests": 1, "waited_s_max": 0.018, "waited_s_total": 0.018}


def test_a_wait_that_a_lease_ended_counts():
    """Who waits until its KV is given up waits longest: without it a pool that is hopelessly full seems to press on nobody."""
    given_back = {"type": "Return", "index": 1, "tokens": [], "reason": "lease_expired", "at_ns": at(34), "worker": "decode-0"}
    again = [noted("admitted", 1, 35, "prefill-1"), step("prefill-1", 35, 38, [[1, 0, 4]], [1])]
    place = next(n for n, r in enumerate(RECORDS) if r.get("index") == 1 and r.get("kind") == "admitted" and r["worker"] == "decode-0")
    trace = trace_of([*RECORDS[:place], given_back, *again, *RECORDS[place:]])
    assert back_pressure(trace) == {"requests": 1, "waited_s_max": 0.01, "waited_s_total": 0.01}
    assert ms(queue(trace, DECODE)) == [[0, 0], [10, 1], [11, 0], [22, 1], [34, 0], [38, 1], [40, 0]]
    assert ms(queue(trace, PREFILL))[-2:] == [[34, 1], [35, 0]]


def test_a_pool_s_facts_are_of_its_own_workers():
    """Busy is the time of steps of all the time that was served; a worker without work must stand there with nothing."""
    workers = [{"worker": f"prefill-{n}", "kv_capacity_bytes": 800} for n in range(3)]
    facts = pool_facts(trace_of(RECORDS), workers, PREFILL, kv_bytes_per_token=10)
    assert facts["queue_max"] == 3 and facts["waited_s_mean"] == round((1 + 2 + 9) / 3000, 6)
    assert [(w["requests"], w["busy_share"], w["kv_peak_bytes"], w["kv_capacity_bytes"]) for w in facts["workers"]] == [
        (2, 18 / 50, 2 * BLOCK_TOKENS * 10, 800), (1, 19 / 50, 0, 800), (0, 0.0, 0, 800),
    ]  # fmt: skip
    nobody = pool_facts(trace_of(RECORDS[:1]), workers, DECODE, kv_bytes_per_token=10)
    assert nobody["waited_s_mean"] is None and nobody["queue"] == [[0.0, 0]] and nobody["workers"][0]["busy_share"] == 0.0


def test_a_serving_that_goes_on_shows_who_still_waits():
    """The live view is made of half a run: nobody may be lost there, nor counted for ever once it failed or was refused."""
    half = trace_of(RECORDS[:13])
    assert [(w["pool"], w["request"]) for w in waits(half) if w["to_s"] is None] == [(DECODE, 1)] and ms(queue(half, DECODE))[-1] == [22, 1]
    full = trace_of(RECORDS[:16])
    assert back_pressure(full) == {"requests": 1, "waited_s_max": 0.016, "waited_s_total": 0.016}
    failed = trace_of([*RECORDS[:16], {"type": "Failed", "index": 1, "error": {}, "at_ns": at(41), "worker": "decode-0"}])
    assert all(w["to_s"] is not None for w in waits(failed))


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 30), st.integers(1, 10)), min_size=1, max_size=8),
    st.sampled_from([None, (1, 1), (2, 1), (1, 2)]),
    st.booleans(),
    st.sampled_from([150, 10**9]),
    st.integers(6, 20),
    st.integers(0, 3),
)
def test_every_wait_ends_where_something_was_let_in(rows, workers, layerwise, lease_ns, blocks, seed):
    """Preemptions, ended leases and second attempts: queues never fall below none and end empty, each wait ends with an admission
    or a return, and back-pressure is only of those that were told so."""
    requests = [(at_, Request(i, tuple(range(i, i + prompt)), output)) for i, (at_, prompt, output) in enumerate(sorted(rows))]
    schedule = "disaggregated" if workers else "unified"
    world = World(schedule, requests, blocks=10, decode_blocks=blocks // 2, workers=workers or (1, 0), layerwise=layerwise, lease_ns=lease_ns, seed=seed).run()
    listed = [{"id": str(r.index), "kind": "chat", "prompt_tokens": len(r.prompt), "output_tokens": r.output_tokens} for _, r in requests]
    trace = build_trace(schedule, listed, world.records, block_tokens=world.block_tokens)
    found = waits(trace)
    assert all(w["to_s"] is not None and w["from_s"] <= w["to_s"] for w in found)
    admitted = [(pool_of(event["worker"]), event["request"], event["at_s"]) for event in trace["events"] if event["type"] == "admitted"]
    returned = [(DECODE, event["request"], event["at_s"]) for event in trace["events"] if event["type"] == "returned"]
    assert {(w["pool"], w["request"], w["to_s"]) for w in found} <= {*admitted, *returned}
    entry = PREFILL if workers else ENGINE
    assert sum(w["pool"] == entry for w in found) == sum(pool == entry for pool, _, _ in admitted)
    for pool in (ENGINE, PREFILL, DECODE):
        points = queue(trace, pool)
        assert points[-1][1] == 0 and min(waiting for _, waiting in points) == 0 and [p[0] for p in points] == sorted({p[0] for p in points})
    told = {message.index for _, message in world.noted if getattr(message, "kind", "") == "no_room"}
    held = {w["request"] for w in found if w["no_room_s"] is not None}
    assert held <= told and back_pressure(trace)["requests"] == len(held)
    if not layerwise and not any(isinstance(message, Return) for _, message in world.noted):
        assert held == told
