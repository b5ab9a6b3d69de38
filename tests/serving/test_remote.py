"""Pools on other hosts, over loopback: real `engine pool` processes with workers of their own, and whoever should not be let in.

Where the system allows it, the prefill worker's host has another clock, as a real other host has.
"""

import json
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace

import psutil
import pytest

from engine.errors import LabError
from engine.measure.trace import output_tokens
from engine.model.card import describe
from engine.serving import channel as channel_module
from engine.serving import remote
from engine.serving.cluster import Cancelled
from engine.serving.deployment import Deployment, WorkerSpec
from engine.serving.messages import Offer, Part, encode
from engine.serving.relay import Relay, join
from engine.serving.remote import Gate, address_of, engine_version, proof_of
from tests.serving.test_real_workers import (
    BLOCK_TOKENS,
    BYTES_PER_BLOCK,
    DEPLOYMENT,
    GROWING,
    LONG_RUN,
    REQUESTS,
    ROOT,
    assert_same_tokens,
    own_home,  # noqa: F401  a fixture
    serve,
    trace_of,
    wait_for_end,
)

AHEAD_S = 5000
CLOCK_AHEAD = ["unshare", "--time", "--monotonic", str(AHEAD_S)]
FULL_SPEED = dict(device=None, model=None, say=lambda words: None)


def can_have_another_clock() -> bool:
    try:
        return subprocess.run([*CLOCK_AHEAD, "true"], capture_output=True).returncode == 0
    except OSError:
        return False


class Hosts:
    """`engine pool` processes, and a gate that they join."""

    def __init__(self) -> None:
        self.gate = Gate("127.0.0.1:0", "random-tiny")
        self.processes: dict[str, subprocess.Popen] = {}

    def join(self, role: str, core: int, prefix: list[str]) -> None:
        command = [sys.executable, "-m", "engine", "pool", "--role", role, "--join", self.gate.address]
        command = [*prefix, *command, "--code", self.gate.code, "--cores", str(core)]
        self.processes[role] = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def cluster(self, groups, deployment=DEPLOYMENT):
        made = self.gate.cluster(deployment, limit_s=120)
        made.start(groups)
        return made

    def workers(self) -> dict[str, psutil.Process]:
        """The worker process of each host."""
        return {role: psutil.Process(process.pid).children(recursive=True)[0] for role, process in self.processes.items()}

    def ended(self, role: str, seconds: float = 30) -> tuple[int, str]:
        process = self.processes[role]
        _, words = process.communicate(timeout=seconds)
        return process.returncode, words.strip().splitlines()[-1]

    def close(self) -> None:
        self.gate.close()
        for process in self.processes.values():
            process.kill()
            process.communicate()


@pytest.fixture
def hosts():
    made = Hosts()
    yield made
    made.close()


@pytest.fixture(scope="module")
def pools():
    """A cluster with its pools on other hosts, and those."""
    made = Hosts()
    cores = [worker.cores[-1] for worker in DEPLOYMENT.workers[1:]]
    other_clock = can_have_another_clock()
    made.join("prefill", cores[0], CLOCK_AHEAD if other_clock else [])
    made.join("decode", cores[1], [])
    with made.cluster({"engine", "prefill", "decode"}) as cluster:
        yield cluster, made, other_clock
    made.close()


@pytest.fixture(scope="module")
def expected(pools):
    return {name: output_tokens(serve(pools[0], requests, "unified")) for name, requests in CASES.items()}


CASES = {"mixed": REQUESTS, "growing": GROWING}


@pytest.mark.parametrize("layerwise", [False, True], ids=["after", "layer by layer"])
def test_pools_on_other_hosts_make_the_tokens_of_one_engine(pools, expected, layerwise):
    """Real hosts' processes, KV over gloo. What moves is the KV of exactly the prompts, in one host's time and in order."""
    records = serve(pools[0], REQUESTS, "disaggregated", layerwise=layerwise)
    assert_same_tokens(expected["mixed"], output_tokens(records), REQUESTS)
    trace = trace_of(records, REQUESTS, "disaggregated")
    moved = {t["request"]: t["bytes"] for t in trace["transfers"]}
    assert moved == {r.index: len(r.prompt) * BYTES_PER_BLOCK // BLOCK_TOKENS for _, r in REQUESTS if r.output_tokens > 1}
    slack = sum(facts["host"]["clock_uncertainty_ns"] for name, facts in pools[0].facts.items() if name != "engine-0") / 1e9 + 1e-5
    for request in trace["requests"]:
        stamps = [request[f"{name}_s"] for name in ("arrival", "prefill_begin", "transfer_end", "decode_begin", "decode_end")]
        stamps = [stamp for stamp in stamps if stamp is not None]
        assert all(later >= earlier - slack for earlier, later in zip(stamps, stamps[1:], strict=False)), request
        assert -slack <= stamps[0] and stamps[-1] < 60
    assert all(t["complete"] and 0 < t["move_s"] < 60 and len(t["parts"]) % 2 == 0 for t in trace["transfers"])


@pytest.mark.parametrize("options", [{}, {"layerwise": True}], ids=["after", "layer by layer"])
def test_blocks_that_are_used_again_bring_nobody_another_s_kv(pools, expected, options):
    """Preempted sequences come back through a mirror whose places others had meanwhile."""
    records = serve(pools[0], GROWING, "disaggregated", blocks=112, **options)
    assert_same_tokens(expected["growing"], output_tokens(records), GROWING)
    assert any(event["type"] == "returned" for event in trace_of(records, GROWING, "disaggregated")["events"])


@pytest.mark.parametrize("kv_format", ["int8", "int4"])
def test_quantised_kv_goes_as_its_bytes(pools, kv_format):
    """It lies elsewhere, in another memory: a mirror laid out like the cache would fail every checksum."""
    trace = trace_of(serve(pools[0], REQUESTS, "disaggregated", kv_format=kv_format), REQUESTS, "disaggregated")
    assert [request["status"] for request in trace["requests"]] == ["finished"] * len(REQUESTS)


def test_a_cancelled_session_leaves_the_hosts_for_the_next_one(pools, expected):
    """Joining again takes a person on each host."""
    begun = time.monotonic()
    with pytest.raises(Cancelled):
        serve(pools[0], LONG_RUN, "disaggregated", blocks=8000, cancelled=lambda: time.monotonic() > begun + 0.1)
    assert_same_tokens(expected["mixed"], output_tokens(serve(pools[0], REQUESTS, "disaggregated")), REQUESTS)


def test_what_is_known_of_a_worker_tells_its_host_and_clock(pools):
    """Its process id means nothing here: whoever looked for it would watch a stranger."""
    cluster, _, other_clock = pools
    for name in ("prefill-0", "decode-0"):
        facts = cluster.facts[name]
        assert "pid" not in facts and facts["host"]["name"] == socket.gethostname() and facts["host"]["threads"] == 1
        ahead_s = AHEAD_S if other_clock and name == "prefill-0" else 0
        off_ns = abs(facts["host"]["clock_offset_ns"] - ahead_s * 10**9)
        assert off_ns <= facts["host"]["clock_uncertainty_ns"] + 1000 < 10**9


def test_a_worker_that_dies_on_its_host_is_named_and_all_hosts_are_let_go(pools):
    """The last of these tests: afterwards nothing of this cluster is there."""
    cluster, hosts, _ = pools
    workers = hosts.workers()

    def kill(record):
        if record["type"] == "step" and record["worker"] == "decode-0" and workers["decode"].is_running():
            workers["decode"].send_signal(signal.SIGKILL)

    begun = time.monotonic()
    with pytest.raises(LabError) as caught:
        serve(cluster, LONG_RUN, "disaggregated", blocks=8000, on_record=kill)
    assert caught.value.code == "worker-died" and caught.value.facts["exit"] == "signal 9"
    assert caught.value.facts["worker"] == f"decode-0 on {socket.gethostname()}"
    assert time.monotonic() - begun < 30 and not cluster.alive
    assert hosts.ended("prefill") == (0, "the run has ended")
    code, words = hosts.ended("decode")
    assert code == 1 and "ended in the middle of the work (signal 9" in words
    for worker in workers.values():
        wait_for_end(worker.pid)


def test_a_host_that_is_gone_ends_the_run_and_the_others(hosts):
    """Killed in the middle of decoding: a sentence that names it, and no process left on either side."""
    for role in ("prefill", "decode"):
        hosts.join(role, DEPLOYMENT.workers[0].cores[0], [])
    cluster = hosts.cluster({"prefill", "decode"})
    workers = hosts.workers()

    def kill(record):
        if record["type"] == "step" and record["worker"] == "decode-0":
            hosts.processes["prefill"].kill()

    with pytest.raises(LabError) as caught:
        serve(cluster, LONG_RUN, "disaggregated", blocks=8000, on_record=kill)
    assert caught.value.code == "pool-host-gone" and caught.value.facts["worker"] == "prefill-0"
    assert not cluster.alive
    assert hosts.ended("decode") == (0, "the run has ended")
    for worker in workers.values():
        wait_for_end(worker.pid)


def test_a_coordinator_that_is_gone_ends_its_hosts(hosts):
    """It was killed: its connections end without a word, and the hosts must not wait for ever with a model in memory."""
    hosts.join("prefill", DEPLOYMENT.workers[0].cores[0], [])
    alone = Deployment("random-tiny", "float32", (WorkerSpec("prefill-0", "prefill", "cpu", 1),), shared_device=False)
    hosts.cluster({"prefill"}, alone)
    worker = hosts.workers()["prefill"]
    hosts.gate.joined[0].channel.close()
    code, words = hosts.ended("prefill")
    assert code == 1 and words.startswith("engine: The connection to the coordinator is gone")
    wait_for_end(worker.pid)


def test_a_part_that_arrives_when_its_session_has_ended_is_nobody_s():
    """A cancelled run: handed to a worker without a session, or with the next one, it would end the worker."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as here:
        relay = Relay(here, here.makefile("rb"), describe("random-tiny"), "decode", (0,), "cpu", "random-tiny", lambda words: None)
        told = []
        relay.worker = SimpleNamespace(send=told.append, kill=lambda: None)
        part = {"type": "Part", "index": 0, "attempt": 0, "first_layer": 0}
        relay._hand_over(((relay.session, part), 1, 2))
        assert told == [part]
        late = (relay.session, part)
        relay._from_coordinator({"type": "close"})
        relay._hand_over((late, 3, 4))
        assert told == [part, {"type": "close"}]
        relay.channel.close()
        relay.stop()


class Stranger:
    """A joining host by hand."""

    def __init__(self, address: str) -> None:
        self.socket = socket.create_connection(address_of(address), timeout=20)
        self.file = self.socket.makefile("rb")

    def read(self) -> dict:
        return json.loads(self.file.readline())

    def write(self, record: dict) -> None:
        self.socket.sendall(json.dumps(record).encode() + b"\n")

    def introduce(self, code: str, **other) -> dict:
        """The answer to a right introduction, but for some fields."""
        nonce = self.read()["nonce"]
        facts = {"name": "far", "machine": "m", "device": "", "cores": [0]}
        role = other.get("role", "prefill")
        record = {"type": "join", "proof": proof_of(code, nonce, role), "engine": engine_version(), "role": role, **facts}
        self.write({**record, **other})
        return self.read()


class TestTheGate:
    @pytest.fixture
    def gate(self):
        """One that waits for the two pools; what it says of refusals; how its waiting ends."""
        self.notes, self.ended, self.cancelled = [], [], False
        with Gate("127.0.0.1:0", "random-tiny", on_note=self.notes.append) as gate:

            def wait():
                try:
                    gate.cluster(DEPLOYMENT, cancelled=lambda: self.cancelled, limit_s=60)
                except (LabError, Cancelled) as error:
                    self.ended.append(error)

            waiting = threading.Thread(target=wait)
            waiting.start()
            yield gate
            self.cancelled = True
            waiting.join(20)
            assert not waiting.is_alive()

    def test_a_wrong_code_is_told_at_once(self, gate):
        with pytest.raises(LabError) as caught:
            join(gate.address, "wrong" + gate.code, "prefill", (0,), **FULL_SPEED)
        assert caught.value.code == "pool-code" and len(self.notes) == 1
        assert gate.code not in self.notes[0], "a note may be seen by others"

    def test_the_code_itself_is_never_sent(self, gate):
        """Whoever listens to the network must not be able to join with what was heard: the proof is of one nonce."""
        first, second = Stranger(gate.address), Stranger(gate.address)
        heard = proof_of(gate.code, first.read()["nonce"], "prefill")
        second.read()
        second.write({"type": "join", "proof": heard, "role": "prefill", "engine": engine_version(), "name": "", "machine": "", "device": "", "cores": [0]})
        assert second.read()["error"]["code"] == "pool-code"

    def test_another_engine_is_refused(self, gate):
        error = Stranger(gate.address).introduce(gate.code, engine="0.0.1 (old)")["error"]
        assert error["code"] == "pool-engine" and error["facts"]["here"] == "0.0.1 (old)"

    def test_one_too_many_is_refused(self, gate):
        first = Stranger(gate.address)
        assert first.introduce(gate.code)["sha256"] == gate.sha256
        first.write({"type": "ready"})
        for _ in range(100):
            if gate.joined:
                break
            time.sleep(0.05)
        error = Stranger(gate.address).introduce(gate.code)["error"]
        assert error["code"] == "pool-full" and error["facts"] == {"role": "prefill", "wanted": 1}
        first.socket.shutdown(socket.SHUT_RDWR)  # and its place is free again when it has gone
        for _ in range(100):
            if not gate.joined:
                break
            time.sleep(0.05)
        assert Stranger(gate.address).introduce(gate.code)["type"] == "welcome"

    def test_a_host_with_another_model_is_refused_in_words_on_both_sides(self, gate, monkeypatch):
        gate.sha256 = "f" * 64
        with pytest.raises(LabError) as caught:
            join(gate.address, gate.code, "prefill", (0,), **FULL_SPEED)
        assert caught.value.code == "pool-model" and caught.value.facts["there"] == "f" * 12
        for _ in range(100):
            if self.notes:
                break
            time.sleep(0.05)
        assert "not the coordinator's" in self.notes[0]

    @pytest.mark.parametrize("words", [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"[]\n", b'{"role": []}\n', b"x" * 10000, b"[" * 4000 + b"\n", b""], ids=range(7))
    def test_what_is_no_host_is_let_go_and_others_may_still_join(self, gate, words):
        """A port scanner, a browser: nobody waits for it, and it ends nothing."""
        other = Stranger(gate.address)
        other.read()
        with suppress(OSError):  # it may be let go before it has said all
            other.socket.sendall(words)
            other.socket.shutdown(socket.SHUT_WR)
        with suppress(ConnectionResetError):
            assert other.file.read() == b"" or words.startswith(b'{"role"')
        assert Stranger(gate.address).introduce(gate.code)["type"] == "welcome"

    @pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
    def test_who_knows_the_code_and_describes_himself_in_nonsense_is_let_go(self, gate):
        """An infinite core is no whole number, and no ValueError."""
        for cores in ([float("inf")], [None], 5, ["x"]):
            with pytest.raises(ValueError):
                Stranger(gate.address).introduce(gate.code, cores=cores)
        assert Stranger(gate.address).introduce(gate.code)["type"] == "welcome"

    def test_who_says_nothing_is_in_nobody_s_way(self, gate):
        silent = [Stranger(gate.address) for _ in range(5)]
        assert Stranger(gate.address).introduce(gate.code)["type"] == "welcome"
        assert all(stranger.read()["type"] == "hello" for stranger in silent)

    def test_any_number_of_silent_strangers_keeps_nobody_out(self, gate):
        """They cost them nothing, byte by byte they could stay for hours, and those who may join would be turned away."""
        silent = [Stranger(gate.address) for _ in range(40)]
        assert Stranger(gate.address).introduce(gate.code)["type"] == "welcome"
        assert silent[-1].read()["type"] == "hello"
        assert silent[0].file.read().count(b"\n") <= 1, "the oldest are let go: this would wait for more"

    def test_a_host_that_was_ready_when_the_gate_closed_is_let_go(self, gate):
        """It would wait with a model in memory for a run that has ended."""
        stranger = Stranger(gate.address)
        assert stranger.introduce(gate.code)["type"] == "welcome"
        self.cancelled = True
        gate.close()
        stranger.write({"type": "ready"})
        assert stranger.file.read() == b"" and not gate.joined

    def test_pools_that_could_not_reach_each_other_are_told(self, gate):
        """127.0.0.1 is another host for each of them: gloo would wait for its limit, and name no reason."""
        for role in ("prefill", "decode"):
            stranger = Stranger(gate.address)
            stranger.introduce(gate.code, role=role)
            stranger.write({"type": "ready"})
            setattr(self, role, stranger)
            while not any(worker.role == role for worker in gate.joined):
                time.sleep(0.01)
            if role == "prefill":
                gate.joined[0].host["address"] = "192.0.2.7"
        for _ in range(200):
            if self.ended:
                break
            time.sleep(0.05)
        assert self.ended[0].code == "pool-addresses"
        for role in ("prefill", "decode"):
            getattr(self, role).socket.shutdown(socket.SHUT_RDWR)  # nobody is to wait for their goodbye


def test_nobody_joins_in_time():
    with Gate("127.0.0.1:0", "random-tiny") as gate, pytest.raises(LabError) as caught:
        gate.cluster(DEPLOYMENT, limit_s=0.3)
    assert caught.value.code == "nobody-joined" and caught.value.facts["missing"] == "1 prefill, 1 decode"


def test_a_port_that_is_taken_and_one_where_nobody_waits():
    with Gate("127.0.0.1:0", "random-tiny") as gate:
        with pytest.raises(LabError) as caught:
            Gate(gate.address, "random-tiny")
        assert caught.value.code == "listen-failed" and caught.value.facts["address"] == gate.address
    with pytest.raises(LabError) as caught:
        join(gate.address, gate.code, "decode", (0,), **FULL_SPEED)
    assert caught.value.code == "join-failed"


@pytest.mark.parametrize("text", ["", "host", ":80", "host:", "host:x", "host:70000", "host:٣", "a\nb:80"], ids=repr)
def test_what_is_no_address_is_told(text):
    with pytest.raises(LabError) as caught:
        address_of(text)
    assert caught.value.code == "address-bad"
    assert address_of("[::1]:80") == ("::1", 80) and address_of("a.b:0") == ("a.b", 0)


def test_a_host_without_a_sign_of_life_is_gone(monkeypatch):
    """A cable was pulled: the connection does not end by itself, and the run would wait for its time limit."""
    monkeypatch.setattr(channel_module, "SILENCE_S", 1.0)
    alone = Deployment("random-tiny", "float32", (WorkerSpec("prefill-0", "prefill", "cpu", 1),), shared_device=False)
    with Gate("127.0.0.1:0", "random-tiny") as gate:
        ended = []
        waiting = threading.Thread(target=lambda: ended.append(pytest.raises(LabError, gate.cluster, alone, limit_s=60)))
        waiting.start()
        stranger = Stranger(gate.address)
        stranger.introduce(gate.code)
        stranger.write({"type": "ready"})  # and not a word more
        waiting.join(20)
        assert ended[0].value.code == "pool-host-gone" and "no sign of life" in ended[0].value.facts["why"]
        stranger.socket.close()


class Pretender(threading.Thread):
    """A host that joins and answers as one should, until it is asked for `until`: then it says something else."""

    ANSWERS = {"mesh": {"type": "meshed"}, "open": {"type": "opened"}, "close": {"type": "closed"}, "ping": {"type": "pong", "now_ns": 1}}
    LOADED = {"type": "loaded", "pid": 1, "load_s": 0.0, "threads": 1, "torch": "2", "device_name": None}

    def __init__(self, gate: Gate, role: str, until: str = "", line: str = "") -> None:
        super().__init__(daemon=True)
        self.stranger, self.until, self.line = Stranger(gate.address), until, line
        assert self.stranger.introduce(gate.code, role=role)["type"] == "welcome"
        self.stranger.write({"type": "ready"})
        self.start()

    def run(self) -> None:
        answers = {**self.ANSWERS, "load": self.LOADED}
        with suppress(OSError, ValueError):
            while (record := self.stranger.read())["type"] != "bye":
                if record["type"] == self.until:
                    self.stranger.socket.sendall(self.line.encode() + b"\n")
                elif record["type"] == "beat":
                    self.stranger.write({**record, "type": "beaten", "now_ns": record["sent_ns"]})
                elif record["type"] in answers:
                    self.stranger.write(answers[record["type"]])
        with suppress(OSError):
            self.stranger.socket.shutdown(socket.SHUT_RDWR)


NONSENSE = [
    ("mesh", '{"type": "failed", "error": 7}', "failed: error"),
    ("mesh", '{"type": "store", "key": "k", "value": 5}', "store: value"),
    ("load", '{"type": "loaded", "at_ns": "x"}', "loaded: pid, loaded: load_s, loaded: threads"),
    ("load", '{"type": "died"}', "died: exit, died: last_words"),
    ("Submit", '{"type": "step"}', "step: begin_ns, step: end_ns, step: slices"),
    ("Submit", '{"type": "start", "at_ns": 5}', "'start'"),
    ("Submit", '{"type": "Finished", "index": 77}', "Finished: 77"),
    ("Submit", '{"type": "Finished", "index": 0, "more": 1}', "Finished: more"),
    ("Submit", encode(Part(0, 0, 0, 1, (1, 2))), "Part"),
    ("Submit", encode(Offer(0, 3, [1, 2, 3], 5, 0, 0, "prefill-7", [0])), "Offer: source"),
]


@pytest.mark.parametrize("until, line, what", NONSENSE, ids=[f"{until} {line[:40]}" for until, line, _ in NONSENSE])
def test_a_host_that_talks_nonsense_is_named(until, line, what):
    """It has the code and a broken program: no traceback of ours, no wait for the time limit, and nobody else is blamed."""
    with Gate("127.0.0.1:0", "random-tiny") as gate:
        gate._wanted = dict.fromkeys(remote.ROLES, 1)
        threading.Thread(target=gate._accept, daemon=True).start()
        with pytest.raises(LabError) as caught:
            hosts = [Pretender(gate, "prefill", until, line), Pretender(gate, "decode")]
            with gate.cluster(DEPLOYMENT, limit_s=20) as cluster:
                cluster.start({"prefill", "decode"})
                serve(cluster, REQUESTS[:1], "disaggregated")
    assert caught.value.code == "pool-host-nonsense"
    assert caught.value.facts == {"worker": "prefill-0", "host": "far", "what": what}
    for host in hosts:
        host.join(20)
        assert not host.is_alive()


@pytest.mark.parametrize("line", [b"7", b'{"type": 7', b'{"type": "beat"}', b'{"type": "beat", "sent_ns": "x"}', b'{"type": "beaten", "sent_ns": 1, "now_ns": 1e400}'])
def test_a_connection_that_carries_no_records_ends(line):
    """A clock that is infinitely far ahead would be in every moment of that host."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = socket.create_connection(server.getsockname())
        here, _ = server.accept()
    ended = queue.SimpleQueue()
    channel = channel_module.Channel(here, here.makefile("rb"), lambda record: None, ended.put)
    channel.start()
    there.sendall(line + b"\n")
    assert ended.get(timeout=20) == "what came is no record" and channel.clock() is None
    there.close()


def test_codes_differ_and_are_long_enough():
    """A code that can be guessed lets strangers in."""
    codes = {remote.new_code() for _ in range(200)}
    assert len(codes) == 200 and all(len(code) == 10 for code in codes) and len(set("".join(codes))) > 25
