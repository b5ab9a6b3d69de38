"""KV between real pools: in every format, over an emulated link, and what becomes of damage. One request pays, nobody else."""

import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from engine.formulas.kv import Attention, kv_bytes
from engine.measure.trace import output_tokens
from engine.serving import cluster as cluster_module
from engine.serving.cluster import Cluster
from engine.serving.request import Request
from engine.serving.staging import Staging
from tests.serving.test_real_workers import (
    BLOCK_TOKENS,
    BYTES_PER_BLOCK,
    DEPLOYMENT,
    REQUESTS,
    assert_same_tokens,
    serve,
    trace_of,
)

GROUPS = [Attention(2, 2, 8, 8)]  # of the tiny model
FORMATS = ("exact", "fp32", "bf16", "fp8", "int8", "int4")
HIT = 1  # the request that something happens to
WORK = ("quantise_s", "move_s", "dequantise_s", "checksum_s")


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def cluster():
    with Cluster(DEPLOYMENT) as made:
        made.start({"engine", "prefill", "decode"})
        yield made


@pytest.fixture(scope="module")
def unified(cluster):
    return output_tokens(serve(cluster, REQUESTS, "unified"))


@pytest.fixture
def between(monkeypatch):
    """`between(see)`: see(record, folder) looks at every message of the next session to the coordinator, with the memory
    between the pools under its name, and may change it; what it returns is passed on (None: nothing)."""
    kept, sessions = [], []

    def install(see):
        take = cluster_module._Session._take

        def taking(session, name, record):
            sessions.append(session)
            seen = see(record, kept[0] if kept else None) if session is sessions[0] else record
            if seen is not None:
                take(session, name, seen)

        monkeypatch.setattr(cluster_module._Session, "_take", taking)
        monkeypatch.setattr(cluster_module.shutil, "rmtree", lambda folder, **_: kept.append(Path(folder)))

    yield install
    monkeypatch.undo()
    for folder in kept:
        shutil.rmtree(folder)


def served(cluster, requests=REQUESTS, **options):
    records = serve(cluster, requests, "disaggregated", **options)
    return records, trace_of(records, requests, "disaggregated")


def only_one_failed(cluster, unified, records, trace, code):
    """All others as ever, the failed one with its reason, its blocks given back on both sides, and the workers well."""
    for index, request in enumerate(trace["requests"]):
        assert request["status"] == ("failed" if index == HIT else "finished"), request
    failed = trace["requests"][HIT]
    assert failed["reason"]["code"] == code and len(failed["token_s"]) == 1
    assert [event["request"] for event in trace["events"] if event["type"] == "failed"] == [HIT]
    assert all(transfer["complete"] == (transfer["request"] != HIT) for transfer in trace["transfers"])
    tokens, others = output_tokens(records), [pair for pair in REQUESTS if pair[1].index != HIT]
    assert_same_tokens(unified, tokens, others)
    last = {point["worker"]: point["tokens"] for point in trace["kv"]}
    assert last["decode-0"] == 0, "blocks of the failed request are still owned"
    assert cluster.alive and [r["status"] for r in served(cluster)[1]["requests"]] == ["finished"] * len(REQUESTS)


@pytest.mark.parametrize("layerwise", [False, True], ids=["after", "layer by layer"])
@pytest.mark.parametrize("dtype", FORMATS)
def test_the_decode_pool_goes_on_from_what_arrived(cluster, unified, dtype, layerwise):
    """In every format, all to the end; in the exact ones with unified's tokens; bytes on the link are those of the formula."""
    records, trace = served(cluster, kv_format=dtype, layerwise=layerwise)
    assert all(request["status"] == "finished" for request in trace["requests"])
    if dtype in ("exact", "fp32"):
        assert_same_tokens(unified, output_tokens(records), REQUESTS)
    plain = "fp32" if dtype == "exact" else dtype
    moved = {t["request"]: t["bytes"] for t in trace["transfers"]}
    assert moved == {r.index: kv_bytes(GROUPS, len(r.prompt), plain).total for _, r in REQUESTS if r.output_tokens > 1}
    for transfer in trace["transfers"]:
        assert transfer["move_s"] > 0 and transfer["checksum_s"] > 0
        assert (transfer["quantise_s"] > 0) == (transfer["dequantise_s"] > 0) == (dtype != "exact")


def test_fewer_bits_are_really_used(cluster, unified):
    """A decode pool that read the exact cache behind the format's back would look perfect."""
    prompts = [(0.0, Request(i, tuple((7 * i + 3 * k) % 256 for k in range(90)), 60)) for i in range(8)]
    exact, rough = (output_tokens(served(cluster, prompts, kv_format=dtype)[0]) for dtype in ("exact", "int4"))
    assert any([t for t, _ in exact[i]] != [t for t, _ in rough[i]] or [g for _, g in exact[i]] != [g for _, g in rough[i]] for i in range(8))
    assert [exact[i][0][0] for i in range(8)] == [rough[i][0][0] for i in range(8)], "token 1 is the prefill's"


@pytest.mark.parametrize("layerwise", [False, True], ids=["after", "layer by layer"])
@pytest.mark.parametrize("dtype", ["exact", "int4"])
def test_a_flipped_byte_fails_that_request_only(cluster, unified, between, dtype, layerwise):
    """In the memory between the pools, after it was sent: decoded from, it would be a wrong text that nobody notices."""
    blocks = {}

    def flip(record, folder):
        if record["type"] == "Offer":
            blocks[record["index"]] = record["blocks"]
        if record["type"] == "Part" and record["index"] == HIT and record["first_layer"] == 0:
            size = BYTES_PER_BLOCK * (1 if dtype == "exact" else 2)
            # The cache has a head's keys in a row, float32; another format has a request's bytes where its blocks are.
            place = blocks[HIT][0] * (BLOCK_TOKENS * 8 * 4 if dtype == "exact" else size) + 5
            memory = np.memmap(folder / "prefill-0", dtype=np.uint8, mode="r+")
            memory[place] ^= 64
            memory.flush()
        return record

    between(flip)
    records, trace = served(cluster, kv_format=dtype, layerwise=layerwise)
    assert trace["requests"][HIT]["reason"]["facts"]["layers"] == ("1-1" if layerwise else "1-2")
    only_one_failed(cluster, unified, records, trace, "transfer-corrupted")


@pytest.mark.parametrize("dtype", ["exact", "int8"])
def test_a_truncated_part_fails_that_request_only(cluster, unified, between, dtype):
    """Bytes that were not sent are those of somebody before."""

    def cut(record, _):
        hit = record["type"] == "Part" and record["index"] == HIT
        return {**record, "size": record["size"] - 8} if hit else record

    between(cut)
    records, trace = served(cluster, kv_format=dtype)
    facts = trace["requests"][HIT]["reason"]["facts"]
    assert facts["found"] == facts["expected"] - 8 and facts["unit"] == "bytes"
    only_one_failed(cluster, unified, records, trace, "transfer-cut")


def test_a_part_that_never_comes_fails_that_request_only(cluster, unified, between):
    """The token comes with the last part: without a count of layers it would be decoded over what lay there before."""

    def lose(record, _):
        return None if record["type"] == "Part" and record["index"] == HIT and record["first_layer"] == 0 else record

    between(lose)
    records, trace = served(cluster, layerwise=True)
    assert trace["requests"][HIT]["reason"]["facts"] == {"found": 1, "expected": 2, "unit": "layers"}
    only_one_failed(cluster, unified, records, trace, "transfer-cut")


def test_a_transfer_that_would_be_late_fails_at_once(cluster):
    """Given back, it would be prefilled, sent and late for ever; the short one beside it is in time."""
    requests = [(0.0, Request(0, tuple(range(5)), 4)), (0.02, Request(1, tuple(range(200)), 4))]
    rate = kv_bytes(GROUPS, 200, "fp32").total / 40  # the long one takes 40 s
    begun = time.monotonic()
    records, trace = served(cluster, requests, link_bytes_per_s=rate, lease_s=20.0)
    assert [request["status"] for request in trace["requests"]] == ["finished", "failed"] and time.monotonic() - begun < 35
    reason = trace["requests"][1]["reason"]
    assert reason["code"] == "transfer-late" and reason["facts"]["late_s"] > 10 and reason["facts"]["bytes_per_s"] == round(rate)


def test_a_part_that_is_late_costs_a_wait(cluster, unified, between):
    """Held up beyond the lease, once: its blocks may be somebody's. The request is prefilled again, and told as returned."""
    held = []

    def hold(record, _):
        if record["type"] == "Part" and record["index"] == HIT and not held:
            held.append(record)
            time.sleep(0.6)
        return record

    between(hold)
    records, trace = served(cluster, lease_s=0.5)
    assert [request["status"] for request in trace["requests"]] == ["finished"] * len(REQUESTS)
    assert HIT in [event["request"] for event in trace["events"] if event["type"] == "returned"]
    assert_same_tokens(unified, output_tokens(records), REQUESTS)


@pytest.mark.parametrize("layerwise", [False, True], ids=["after", "layer by layer"])
def test_nothing_waits_for_the_link_but_what_is_on_it(cluster, unified, layerwise):
    """A decode loop that slept until the KV is there would stall everybody who decodes meanwhile."""
    requests = [(0.0, Request(0, tuple(range(4)), 900)), (0.05, Request(1, tuple(range(150)), 3))]
    size = kv_bytes(GROUPS, 150, "fp32").total
    records, trace = served(cluster, requests, layerwise=layerwise, link_bytes_per_s=size / 0.5)
    assert all(request["status"] == "finished" for request in trace["requests"])
    (first, second) = sorted(trace["transfers"], key=lambda t: t["request"])
    span = second["end_s"] - second["begin_s"]
    assert span >= 0.5 - 0.001 and second["move_s"] >= 0.5 - 0.001
    assert trace["requests"][1]["decode_begin_s"] >= second["end_s"] - 1e-4
    meanwhile = [at for at in trace["requests"][0]["token_s"] if second["begin_s"] < at < second["end_s"]]
    assert len(meanwhile) > 3, "tokens of the other one, while the link was busy"
    base = output_tokens(serve(cluster, requests, "unified"))
    assert_same_tokens(base, output_tokens(records), requests)


def test_one_link_for_all(cluster):
    """Two at once, each with a link of its own, would be twice as fast as the link."""
    requests = [(0.0, Request(i, tuple(range(60)), 3)) for i in range(3)]
    each = kv_bytes(GROUPS, 60, "fp32").total
    _, trace = served(cluster, requests, link_bytes_per_s=each / 0.2)
    begin, end = min(t["begin_s"] for t in trace["transfers"]), max(t["end_s"] for t in trace["transfers"])
    assert end - begin >= 0.6 - 0.001 and len(trace["transfers"]) == 3


class TestStaging:
    """Bytes of a request in the places of its blocks."""

    @examples(max_examples=60, deadline=None)
    @given(
        table=st.permutations(range(6)), block=st.integers(1, 9), sizes=st.lists(st.integers(0, 12), min_size=1, max_size=4), seed=st.integers(0, 99)
    )
    def test_what_is_written_is_read(self, table, block, sizes, seed):
        """Through any block table and in pieces of any size: a run cut at the wrong byte is another request's."""
        blocks, room = table[:4], 4 * block
        sizes = [size for place, size in enumerate(sizes) if sum(sizes[: place + 1]) <= room]
        data = torch.randint(0, 256, (sum(sizes),), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
        with tempfile.NamedTemporaryFile() as file:
            file.truncate(6 * block)
            staging, offset = Staging(Path(file.name), 6, block), 0
            other = Staging(Path(file.name), 6, block)
            for piece in data.split(sizes):
                staging.write(blocks, offset, piece)
                offset += len(piece)
            assert torch.equal(other.read(blocks, 0, len(data)), data)
            offset = 0
            for piece in data.split(sizes):
                assert torch.equal(other.read(blocks, offset, len(piece)), piece)
                offset += len(piece)
            mine = {b * block + k for b in blocks for k in range(block)}
            assert all(other.memory[place] == 0 for place in range(6 * block) if place not in mine)
            with pytest.raises(ValueError):
                staging.write(blocks, room, torch.ones(1, dtype=torch.uint8))
