"""Real worker processes with a tiny random model: the schedules agree, and whatever ends a worker ends in one sentence."""

import json
import os
import queue
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.formulas.admission import first_wave
from engine.measure.trace import build_trace, output_tokens
from engine.measure.usage import measured_first_wave
from engine.serving import cluster as cluster_module
from engine.serving.cluster import Arrival, Cancelled, Cluster, SessionSettings
from engine.serving.deployment import WorkerSpec, cpu_deployment
from engine.serving.process import WorkerProcess
from engine.serving.request import Request

ROOT = Path(__file__).resolve().parents[2]
BLOCK_TOKENS = 4
BYTES_PER_BLOCK = BLOCK_TOKENS * 2 * 2 * 2 * 8 * 4  # K and V, 2 layers, 2 KV heads of 8 float32
NEAR_TIE = 0.01
DEPLOYMENT = cpu_deployment("random-tiny", "float32", tuple(sorted(psutil.Process().cpu_affinity()))[:2])
LONG_RUN = [(0.0, Request(0, tuple(range(200)), 3000))]


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory):
    """A data folder of its own: nothing of the user's is read or locked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAB_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(scope="module")
def cluster():
    with Cluster(DEPLOYMENT) as made:
        made.start({"engine", "prefill", "decode"})
        yield made


def settings(schedule, *, blocks=2000, chunk=7, layerwise=False, **rest) -> SessionSettings:
    """`blocks` in all: half for each pool."""
    each = blocks // 2 if schedule == "disaggregated" else blocks
    defaults = dict(max_batch_requests=64, max_prefill_tokens=8192, lease_s=30.0, time_limit_s=60.0)
    return SessionSettings(
        schedule, chunk, BLOCK_TOKENS, each, each, BYTES_PER_BLOCK, layerwise=layerwise, **(defaults | rest)
    )


def serve(cluster, requests, schedule, **options):
    run = {name: options.pop(name) for name in ("on_record", "cancelled") if name in options}
    return cluster.serve([Arrival(at_s, request) for at_s, request in requests], settings(schedule, **options), **run)


def trace_of(records, requests, schedule):
    rows = [
        {"id": str(i), "kind": "chat", "prompt_tokens": len(r.prompt), "output_tokens": r.output_tokens}
        for i, (_, r) in enumerate(requests)
    ]
    return build_trace(schedule, rows, records, block_tokens=BLOCK_TOKENS)


def assert_same_tokens(base, other, requests):
    """Every token up to the first near-tie, and most of all tokens must be before one."""
    compared = 0
    for _, request in requests:
        left, right = base.get(request.index, []), other.get(request.index, [])
        assert len(left) == len(right) == request.output_tokens
        for (token, gap), (same, _) in zip(left, right, strict=True):
            if gap <= NEAR_TIE and token != same:
                break
            assert token == same
            compared += 1
    assert compared > 0.8 * sum(r.output_tokens for _, r in requests)


REQUESTS = [
    (0.0, Request(0, tuple(range(1, 40)), 30)),
    (0.0, Request(1, tuple(range(50, 61)), 40)),
    (0.01, Request(2, (7,), 25)),
    (0.02, Request(3, tuple(range(100, 250)), 1)),
    (0.03, Request(4, tuple(range(200, 207)), 50)),
]
SCHEDULES = {
    "chunks of 1": dict(schedule="chunked", chunk=1),
    "chunks of 7": dict(schedule="chunked", chunk=7),
    "one large chunk": dict(schedule="chunked", chunk=1000),
    "transfer after": dict(schedule="disaggregated"),
    "layer by layer": dict(schedule="disaggregated", layerwise=True),
}


@pytest.fixture(scope="module")
def unified(cluster):
    return output_tokens(serve(cluster, REQUESTS, "unified"))


@pytest.mark.parametrize("case", SCHEDULES)
def test_all_schedules_make_the_same_tokens(cluster, unified, case):
    """Real model, processes, pipes and KV transfer: what a schedule changes is when a token comes, never which."""
    records = serve(cluster, REQUESTS, **SCHEDULES[case])
    assert_same_tokens(unified, output_tokens(records), REQUESTS)
    trace = trace_of(records, REQUESTS, SCHEDULES[case]["schedule"])
    assert all(request["status"] == "finished" for request in trace["requests"])
    disaggregated = SCHEDULES[case]["schedule"] == "disaggregated"
    assert {step["worker"] for step in trace["steps"]} == ({"prefill-0", "decode-0"} if disaggregated else {"engine-0"})
    for step in trace["steps"]:
        assert step["prefill_tokens"] <= SCHEDULES[case].get("chunk", 10**6)
        assert not (step["worker"] == "decode-0" and step["prefill_tokens"])
        assert not (step["worker"] == "prefill-0" and step["decode_tokens"])
    moved = {t["request"]: t["bytes"] for t in trace["transfers"]}
    per_token = BYTES_PER_BLOCK // BLOCK_TOKENS
    expected = {r.index: len(r.prompt) * per_token for _, r in REQUESTS if r.output_tokens > 1}
    assert moved == (expected if disaggregated else {}), "KV of exactly the prompts goes over the link, once"


# Three that grow to 53 blocks each: in pools of 56, two that run at the same time for a while cannot both end.
GROWING = [(0.0, Request(i, tuple(range(i, i + 10)), 200)) for i in range(3)]


@pytest.fixture(scope="module")
def unified_growing(cluster):
    return output_tokens(serve(cluster, GROWING, "unified"))


@pytest.mark.parametrize("case", ["unified", *SCHEDULES])
def test_preemption_changes_no_token(cluster, unified_growing, case):
    """Recompute, and return from the decode pool, on a real cache that others have written over in between."""
    options = dict(SCHEDULES.get(case, dict(schedule="unified")))
    pools = 2 if options["schedule"] == "disaggregated" else 1
    records = serve(cluster, GROWING, blocks=56 * pools, **options)
    assert_same_tokens(unified_growing, output_tokens(records), GROWING)
    trace = trace_of(records, GROWING, options["schedule"])
    assert sum(request["preemptions"] for request in trace["requests"]) > 0
    returned = any(event["type"] == "returned" for event in trace["events"])
    assert returned == (options["schedule"] == "disaggregated")
    assert max(point["tokens"] for point in trace["kv"]) <= 56 * BLOCK_TOKENS


@pytest.mark.parametrize("schedule", ["unified", "chunked", "disaggregated"])
def test_a_request_that_never_fits_is_refused_and_the_others_served(cluster, schedule):
    """It must not wait for blocks that cannot come, nor take the run with it."""
    requests = [(0.0, Request(0, tuple(range(200)), 4)), (0.0, Request(1, tuple(range(9)), 4))]
    trace = trace_of(serve(cluster, requests, schedule, blocks=80 if schedule == "disaggregated" else 40), requests, schedule)
    refused, served = trace["requests"]
    assert refused["status"] == "refused" and refused["token_s"] == []
    assert refused["reason"]["code"] == "request-never-fits"
    assert refused["reason"]["facts"] == {"tokens": 203, "needed_blocks": 51, "total_blocks": 40, "block_tokens": 4}
    assert served["status"] == "finished" and len(served["token_s"]) == 4
    only = trace_of(serve(cluster, requests[:1], schedule, blocks=40), requests[:1], schedule)
    assert only["requests"][0]["status"] == "refused" and only["steps"] == []


@pytest.mark.parametrize("reserve", [0, 90])
@pytest.mark.parametrize("outputs", [1, 40])
@pytest.mark.parametrize("seed", range(4))
def test_the_first_admission_wave_is_the_formula_s(cluster, seed, outputs, reserve):
    """Prompts of mixed lengths, all at once, into 60 blocks: through real processes just as many are let in before the
    first block is given back as follows from the lengths. It must not hang on which of them the worker reads first."""
    rng = random.Random(seed)
    requests = [(0.0, Request(i, tuple(range(rng.randint(1, 50))), outputs)) for i in range(24)]
    prompts = [len(request.prompt) for _, request in requests]
    records = serve(cluster, requests, "unified", blocks=60, reserve_tokens=reserve, max_prefill_tokens=100)
    trace = trace_of(records, requests, "unified")
    expected = first_wave(prompts, [outputs] * 24, 60, BLOCK_TOKENS, 64, reserve, 100)
    assert measured_first_wave(trace) == expected < 24
    assert max(point["tokens"] for point in trace["kv"]) <= 60 * BLOCK_TOKENS
    preempted = sum(request["preemptions"] for request in trace["requests"])
    assert (preempted > 0) == (outputs > 1 and not reserve), "who has a reservation keeps it"
    assert all(request["status"] == "finished" for request in trace["requests"])


def test_requests_are_served_as_they_arrive(cluster):
    """Sent all at once, every queueing effect of a workload would be gone."""
    requests = [(0.0, Request(0, tuple(range(5)), 3)), (0.3, Request(1, tuple(range(5)), 3))]
    first, second = trace_of(serve(cluster, requests, "unified"), requests, "unified")["requests"]
    assert first["arrival_s"] < 0.2 and first["token_s"][-1] < 0.3 <= second["arrival_s"] < second["prefill_begin_s"]


def test_sampling_depends_on_the_seed_and_not_on_the_batch(cluster):
    """Seeded draws that change with the company would make every schedule write another text."""
    alone = [(0.0, Request(0, tuple(range(30)), 20, seed=5))]
    crowd = alone + [(0.0, Request(i, tuple(range(i, i + 9)), 20, seed=i)) for i in range(1, 5)]
    first = output_tokens(serve(cluster, alone, "unified", temperature=1.0))[0]
    among = output_tokens(serve(cluster, crowd, "chunked", temperature=1.0))[0]
    assert [token for token, _ in first] == [token for token, _ in among]
    other = output_tokens(serve(cluster, [(0.0, Request(0, tuple(range(30)), 20, seed=6))], "unified", temperature=1.0))[0]
    assert [token for token, _ in first] != [token for token, _ in other]


@pytest.mark.parametrize("schedule", ["unified", "disaggregated"])
@pytest.mark.parametrize("requests", [LONG_RUN, [(0.0, Request(0, tuple(i % 256 for i in range(8000)), 2))]], ids=["decodes", "one long step"])
def test_cancelling_keeps_the_workers_for_the_next_run(cluster, unified, schedule, requests):
    """A cancel that kills costs the next run its start; one that leaves a session open hangs it."""
    pids = {name: facts["pid"] for name, facts in cluster.facts.items()}
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        serve(cluster, requests, schedule, blocks=8000, cancelled=lambda: time.monotonic() > begun + 0.15)
    assert time.monotonic() - begun < 10
    assert cluster.alive
    tokens = output_tokens(serve(cluster, REQUESTS, schedule))
    assert_same_tokens(unified, tokens, REQUESTS)
    assert pids == {name: facts["pid"] for name, facts in cluster.facts.items()}


def test_the_shared_cache_has_no_name_any_more_once_it_is_served_from(cluster, monkeypatch):
    """A file left in /dev/shm is memory lost until the next boot, above all when somebody kills the coordinator."""
    made, left = [], []
    mkdtemp = cluster_module.tempfile.mkdtemp
    monkeypatch.setattr(cluster_module.tempfile, "mkdtemp", lambda **options: made.append(mkdtemp(**options)) or made[-1])
    serve(cluster, REQUESTS, "disaggregated", on_record=lambda record: left.extend(p for p in made if Path(p).exists()))
    assert len(made) == 1 and left == [] and not Path(made[0]).exists()


@pytest.fixture
def cluster_to_lose():
    """Makes clusters that a test may break; afterwards none of their processes may be there."""
    made = []

    def make(*groups) -> Cluster:
        made.append(Cluster(DEPLOYMENT))
        made[-1].start(set(groups))
        return made[-1]

    yield make
    pids = [facts["pid"] for cluster in made for facts in cluster.facts.values()]
    for cluster in made:
        cluster.stop()
    assert pids and not any(psutil.pid_exists(pid) for pid in pids)


def test_steps_with_prompts_are_told_when_they_begin(cluster):
    """For seconds nothing else comes from the worker: whoever watches would take it for dead. Decode steps cost no word."""
    seen: list[dict] = []
    serve(cluster, REQUESTS, "chunked", chunk=8, on_record=seen.append)
    told = [record for record in seen if record["type"] in ("begun", "step")]
    begun = [record for record in told if record["type"] == "begun"]
    prefills = [record for record in told if record["type"] == "step" and record["prefill_tokens"]]
    assert [r["slices"] for r in begun] == [r["slices"] for r in prefills] and begun
    assert all(told[told.index(b) + 1] is p and b["at_ns"] <= p["begin_ns"] for b, p in zip(begun, prefills, strict=True))


def test_a_killed_worker_is_named_the_others_end_and_the_next_run_works(cluster_to_lose, unified):
    """The run is lost with the reason, nothing hangs, and nobody is left behind."""
    cluster = cluster_to_lose("prefill", "decode")
    pids = {name: facts["pid"] for name, facts in cluster.facts.items()}

    def kill_decode(record):
        if record["type"] == "step" and record["worker"] == "decode-0":
            os.kill(pids["decode-0"], signal.SIGKILL)

    with pytest.raises(LabError) as caught:
        serve(cluster, LONG_RUN, "disaggregated", blocks=8000, on_record=kill_decode)
    assert caught.value.code == "worker-died"
    assert caught.value.facts["worker"] == "decode-0" and caught.value.facts["exit"] == "signal 9"
    assert not any(psutil.pid_exists(pid) for pid in pids.values()), "a worker was left behind"
    assert not cluster.alive
    again = cluster_to_lose("engine")
    assert_same_tokens(unified, output_tokens(serve(again, REQUESTS, "unified")), REQUESTS)


def test_a_kv_budget_beyond_memory_is_told_as_that(cluster_to_lose):
    """Not as an error of the engine's own, and not by the system's killer after minutes of filling lists."""
    cluster = cluster_to_lose("engine")
    with pytest.raises(LabError) as caught:
        serve(cluster, REQUESTS, "unified", blocks=2**40)
    assert caught.value.code == "kv-memory"
    assert not cluster.alive
    with pytest.raises(LabError) as caught:
        serve(cluster, REQUESTS, "disaggregated", blocks=2**40)
    assert caught.value.code == "kv-memory"


PARENT = """
import json, sys, time
from engine.serving.cluster import Cluster
from engine.serving.deployment import cpu_deployment
cluster = Cluster(cpu_deployment("random-tiny", "float32", (0,)))
cluster.start({"engine"})
print(cluster.facts["engine-0"]["pid"], flush=True)
from tests.serving.test_real_workers import LONG_RUN, serve
serve(cluster, LONG_RUN, "unified", on_record=lambda record: print(record["type"], flush=True))
"""


def test_workers_end_when_their_parent_is_killed():
    """An orphan holds the model's memory, or a GPU, until somebody finds it."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        pid = int(parent.stdout.readline())
        while parent.stdout.readline().strip() != "step":
            assert parent.poll() is None
    finally:
        parent.kill()
        parent.wait()
    wait_for_end(pid)


def wait_for_end(pid, seconds=60):
    deadline = time.monotonic() + seconds
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.05)


@pytest.mark.parametrize("line", [b"garbage", b"\xff\xfe\x00", b"[1, 2]", b"{}", b'{"type": "load"', b'"close"', b""], ids=repr)
def test_a_line_that_is_no_record_ends_the_worker_with_words(line):
    """Its reading thread used to die alone: the worker then heard neither "close" nor the end of its parent."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "engine.serving.worker"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        worker.stdin.write(line + b"\n")
        worker.stdin.flush()  # and stdin stays open: only the line can end it
        assert worker.wait(timeout=20) not in (0, None)
        assert worker.stdout.read() == b""
        assert b"not a record" in worker.stderr.read()
    finally:
        worker.kill()
        worker.communicate()


def test_a_worker_answers_what_it_cannot_do_with_an_error():
    """Records in the wrong order: an answer, and the worker lives."""
    worker = subprocess.Popen(
        [sys.executable, "-m", "engine.serving.worker"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        for line in ({"type": "open", "role": "unified"}, {"type": "nonsense"}, {"type": "ping"}):
            worker.stdin.write(json.dumps(line).encode() + b"\n")
        worker.stdin.flush()
        answers = [json.loads(worker.stdout.readline()) for _ in range(3)]
        assert [answer["type"] for answer in answers] == ["failed", "failed", "pong"]
        assert {answer["error"]["code"] for answer in answers[:2]} == {"worker-error"}
    finally:
        worker.stdin.close()
        assert worker.wait(timeout=60) == 0, "the end of stdin is the end of the worker"
        worker.stdout.close()


STAND_IN = """#!{python}
import json, sys, time
def say(**record):
    print(json.dumps(record), flush=True)
for line in sys.stdin:
    match json.loads(line)["type"]:
        case "load" if {loads}:
            say(type="loaded", pid=0)
        case "ping":
            {ping}
            say(type="pong", now_ns=time.perf_counter_ns() + {clock_ahead_ns})
        case "open":
            say(type="opened")
            say(type="step", begin_ns=0, end_ns=1, slices=[], tokens=[], prefill_tokens=0, decode_tokens=0)
        case "close":
            say(type="closed")
"""


class TestCoordinator:
    """The coordinator with a stand-in for the worker, for what a real one seldom does."""

    @pytest.fixture
    def stand_in(self, tmp_path, monkeypatch):
        def make(*, loads=True, ping="pass", clock_ahead_ns=0) -> Cluster:
            path = tmp_path / "worker"
            path.write_text(STAND_IN.format(python=sys.executable, loads=loads, ping=ping, clock_ahead_ns=clock_ahead_ns))
            path.chmod(0o755)
            monkeypatch.setattr(sys, "executable", str(path))
            made.append(Cluster(DEPLOYMENT))
            return made[-1]

        made = []
        yield make
        for cluster in made:
            cluster.stop()

    def test_a_run_that_takes_too_long_is_stopped(self, stand_in):
        """A bound on every run: a page must not wait for ever."""
        cluster = stand_in()
        cluster.start({"engine"})
        with pytest.raises(LabError) as caught:
            serve(cluster, LONG_RUN, "unified", time_limit_s=0.3)
        assert caught.value.code == "run-too-long"
        assert not cluster.alive

    def test_an_error_of_the_caller_leaves_no_session_open(self, stand_in):
        """A bug in whoever watches the records: the workers would go on serving a run that nobody reads."""
        cluster = stand_in()
        cluster.start({"engine"})

        def bug(record):
            if record["type"] == "step":
                raise RuntimeError("a bug")

        with pytest.raises(RuntimeError):
            serve(cluster, LONG_RUN, "unified", on_record=bug)
        assert not cluster.alive

    def test_a_worker_that_never_answers_is_named_and_ended(self, stand_in, monkeypatch):
        """A worker that hangs while loading must not hang everybody else, nor be left behind."""
        monkeypatch.setattr(cluster_module, "LOAD_LIMIT_S", 0.5)
        cluster = stand_in(loads=False)
        with pytest.raises(LabError) as caught:
            cluster.start({"prefill", "decode"})
        assert caught.value.code == "worker-silent" and caught.value.facts["workers"] == "decode-0, prefill-0"
        assert not cluster.alive

    @pytest.mark.parametrize("ping, code", [("sys.exit(3)", "worker-died"), ("time.sleep(60)", "worker-silent")])
    def test_a_worker_that_is_lost_after_loading_is_told(self, stand_in, monkeypatch, ping, code):
        """Its clock is read last of all; without a limit there the start would wait for ever."""
        monkeypatch.setattr(cluster_module, "PING_LIMIT_S", 0.5)
        cluster = stand_in(ping=ping)
        with pytest.raises(LabError) as caught:
            cluster.start({"engine"})
        assert caught.value.code == code and "engine-0" in str(caught.value)
        assert not cluster.alive

    def test_starting_can_be_cancelled(self, stand_in):
        """Loading a model takes seconds to minutes; a cancel in that time must not wait for it."""
        cluster = stand_in(loads=False)
        with pytest.raises(Cancelled):
            cluster.start({"engine"}, cancelled=lambda: True)
        assert not cluster.alive

    def test_a_worker_with_another_clock_is_refused(self, stand_in):
        """Stamps of two clocks compared would give transfers that end before they begin."""
        cluster = stand_in(clock_ahead_ns=5_000_000_000)
        with pytest.raises(LabError) as caught:
            cluster.start({"engine"})
        assert caught.value.code == "clocks-disagree" and caught.value.facts["offset_ms"] == pytest.approx(5000, abs=500)


class TestWhatAWorkerSays:
    """A worker in the hands of others: replaced by a script that says what it must not."""

    def process(self, tmp_path, monkeypatch, script):
        path = tmp_path / "worker"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(path))
        events = queue.SimpleQueue()
        return WorkerProcess(WorkerSpec("engine-0", "engine", "cpu", 1), events), events

    @pytest.mark.parametrize("words", ['{"type": "step", "begi', "Segmentation fault", "[1]", "3"])
    def test_half_a_line_is_the_end_of_it(self, tmp_path, monkeypatch, words):
        """Killed in the middle of a long line: the reader used to die of it, and the run waited for its time limit."""
        process, events = self.process(tmp_path, monkeypatch, f"printf '%s' '{words}'; echo oh no >&2; exit 3")
        try:
            assert events.get(timeout=60) == ("engine-0", None)
            error = process.died()
            assert error.facts["exit"] == "exit code 3" and error.facts["last_words"] == "oh no"
        finally:
            process.kill()

    def test_bytes_that_are_no_text_do_not_kill_the_reader(self, tmp_path, monkeypatch):
        """A decoding error in the reading thread would leave the run waiting for its time limit."""
        process, events = self.process(tmp_path, monkeypatch, r"printf '\377\376\n'; exit 4")
        try:
            assert events.get(timeout=60) == ("engine-0", None)
        finally:
            process.kill()

    def test_telling_a_dead_worker_something_is_worker_died(self, tmp_path, monkeypatch):
        """A bare BrokenPipeError says neither who died nor how."""
        process, events = self.process(tmp_path, monkeypatch, "exit 5")
        try:
            events.get(timeout=60)
            with pytest.raises(LabError) as caught:
                process.send({"type": "ping"})
            assert caught.value.code == "worker-died" and caught.value.facts["exit"] == "exit code 5"
        finally:
            process.kill()
            process.kill()
