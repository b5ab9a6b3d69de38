"""Requests whose cache evicts, in the real loop: the same logits as token by token, few blocks, flat memory."""

import json

import psutil
import pytest
import torch

from engine.errors import LabError
from engine.kv.blocks import BlockPool
from engine.kv.eviction import Full, Sinks, Window, from_dict
from engine.kv.storage import KVStorage
from engine.model.config import ModelConfig
from engine.model.transformer import Transformer
from engine.serving.messages import Submit, decode_all, encode
from engine.serving.nodes import Replica
from engine.serving.policies import Chunked, Limits, Unified
from engine.serving.request import Request, Sequence
from engine.serving.router import Capacity, Router
from engine.serving.runner import TorchRunner
from engine.serving.scheduler import Scheduler
from tests.kv.streaming import TINY, naive_logits
from tests.serving.in_process import serve_in_process
from tests.serving.test_schedules_agree import requests_of, whole_forward

pytestmark = pytest.mark.usefixtures("one_thread")

POLICIES = [Sinks(3, 20), Full(), Window(12), Sinks(1, 200)]


def expected_logits(model, request, forced):
    """The logits that predict each output token, token by token from a naive cache (or densely)."""
    policy = request.eviction
    if policy == Full():
        return whole_forward(model, request, forced)
    ids = torch.tensor([*request.prompt, *forced[request.index]])
    return naive_logits(model, ids, policy.sinks, policy.window)[len(request.prompt) - 1 : -1]


@pytest.fixture(scope="module")
def mixed():
    """Four requests under four policies, prompts shorter and longer than their caches; what each of them should give."""
    model = Transformer.random(TINY, seed=3)
    requests, forced = requests_of((41, 17, 9, 29), (25, 40, 30, 12), TINY.vocab_size)
    requests = [Request(r.index, r.prompt, r.output_tokens, 0, policy) for r, policy in zip(requests, POLICIES, strict=True)]
    return model, requests, forced, [expected_logits(model, request, forced) for request in requests]


CASES = {
    "unified": dict(schedule="unified", blocks=64),
    "chunk 7": dict(schedule="chunked", chunk=7, blocks=64),
    "chunk 64": dict(schedule="chunked", chunk=64, blocks=64),
    "unified, tight": dict(schedule="unified", blocks=17),
    "chunk 7, tight": dict(schedule="chunked", chunk=7, blocks=17),
}


@pytest.mark.parametrize("case", CASES)
def test_a_mixed_batch_gives_each_request_what_it_has_alone(case, mixed, monkeypatch, tmp_path):
    """The bugs: rows of one kind given to the other, a chunk whose tokens see what was evicted before they came (or miss
    what was evicted after), a recompute after a preemption that sees more than the first time."""
    model, requests, forced, expected = mixed
    found, preemptions = serve_in_process(
        model, requests=requests, forced=forced, monkeypatch=monkeypatch, tmp_path=tmp_path, block_tokens=4, **CASES[case]
    )
    assert (sum(preemptions.values()) > 0) == ("tight" in case)
    for request, logits in zip(requests, expected, strict=True):
        assert (found[request.index] - logits).abs().max() < 1e-3 * logits.std(), request.eviction


def test_eviction_changes_the_logits(mixed):
    """The comparison above has power: the dense logits are far away."""
    model, requests, forced, expected = mixed
    for request, logits in zip(requests, expected, strict=True):
        apart = (whole_forward(model, request, forced) - logits).abs().max() / logits.std()
        assert (apart > 0.1) == (request.eviction in (Sinks(3, 20), Window(12))), request.eviction


class Greedy:
    """One engine on a model, stepped by hand. With a `file` the cache is mapped from it: memory comes as it is written."""

    def __init__(self, model, policy, blocks, block_tokens, requests, file=None):
        if file:
            with file.open("wb") as empty:
                empty.truncate(blocks * block_tokens * model.config.kv_bytes_per_token(model.dtype.itemsize))
        self.pool = BlockPool(blocks, block_tokens)
        self.scheduler = Scheduler(policy, self.pool, Limits())
        self.runner = TorchRunner(model, KVStorage(model.config, blocks, block_tokens, dtype=model.dtype, shared_file=file))
        self.sequences = [Sequence.begin(request) for request in requests]
        for sequence in self.sequences:
            self.scheduler.submit(sequence)

    def step(self):
        plan = self.scheduler.next_plan()
        sampled, _ = self.runner.execute(plan, self.scheduler)
        self.scheduler.complete(plan, sampled)

    def run(self):
        while not self.scheduler.idle:
            self.step()
        return [sequence.tokens for sequence in self.sequences]


@pytest.mark.parametrize("policy", [Unified(), Chunked(8)], ids=["unified", "chunked"])
def test_a_plain_request_beside_an_evicting_one_writes_the_same_tokens(policy, mixed):
    """Greedy and with the real sampler: neither may read or overwrite the other's cache."""
    model, (evicting, plain, *_), _, _ = mixed
    together = Greedy(model, policy, 40, 4, [evicting, plain]).run()
    assert together == [*Greedy(model, policy, 40, 4, [evicting]).run(), *Greedy(model, policy, 40, 4, [plain]).run()]


@pytest.mark.parametrize("policy", [Unified(), Chunked(8)], ids=["unified", "chunked"])
def test_blocks_never_exceed_those_of_the_slots(policy):
    """A pool of 5 blocks of 4 tokens serves a request of 140 tokens with 18 slots; without eviction it is refused."""
    model = Transformer.random(TINY, seed=3)
    prompt = tuple(range(60))
    engine = Greedy(model, policy, 5, 4, [Request(0, prompt, 80, eviction=Sinks(2, 18))])
    most = 0
    while not engine.scheduler.idle:
        engine.step()
        most = max(most, engine.pool.num_used)
    assert most == 5 and len(engine.sequences[0].tokens) == 140
    with pytest.raises(LabError, match="request-never-fits|35 KV blocks"):
        Greedy(model, policy, 5, 4, [Request(0, prompt, 80)])


# 4 KV heads x 128 numbers x 2 x 4 bytes: 4,096 bytes a token, 82 MB for 20,000 tokens if nothing were evicted.
WIDE_KV = ModelConfig(vocab_size=64, hidden_size=32, n_layers=1, n_heads=4, n_kv_heads=4, head_dim=128, ffn_size=32)


def test_blocks_and_process_memory_stay_flat_over_20000_tokens(tmp_path):
    """What streaming promises: once the cache is full, neither blocks nor the process's memory grow, while a prompt is read
    in chunks (16,000 tokens, which is quick) and while tokens are made (4,000). The pool could hold the whole text, so a
    cache that goes on to new slots would show as 4 MB per thousand tokens."""
    model = Transformer.random(WIDE_KV, seed=0)
    tokens, made, window, block_tokens, chunk = 20_000, 4_000, 96, 16, 20
    prompt = tuple(n % WIDE_KV.vocab_size for n in range(tokens - made))
    request = Request(0, prompt, made + 2, eviction=Sinks(4, window))  # the end, which frees all, lies behind the last look
    engine = Greedy(model, Chunked(chunk), tokens // block_tokens, block_tokens, [request], tmp_path / "kv")
    process, blocks, memory = psutil.Process(), [], []
    while not engine.scheduler.idle:
        engine.step()
        if engine.sequences[0].computed % 1_000 == 0:
            blocks.append(engine.pool.num_used)
            memory.append(process.memory_info().rss)
    assert len(memory) == 20 and set(blocks) == {window // block_tokens}
    assert max(memory) - memory[0] < 8 << 20, [round(m / 2**20, 1) for m in memory]


def test_the_policy_travels_with_the_request():
    """A worker that never hears of the policy serves densely, and nobody notices until memory ends."""
    router = Router(["a"], [], {"a": Capacity(8, 16)})
    for index, policy in enumerate(POLICIES):
        ((_, submit),) = router.arrive(Request(index, (1, 2), 3, eviction=policy))
        (received,) = decode_all(json.loads(encode(submit)))
        assert isinstance(received, Submit) and from_dict(received.eviction) == policy
        node = Replica(Scheduler(Unified(), BlockPool(8, 16), Limits()))
        node.receive(received, 0)
        assert node.scheduler[index].request.eviction == policy


def test_pools_apart_refuse_a_cache_that_evicts():
    """The transfer knows places in the text only: better to say so than to decode from the wrong keys."""
    router = Router(["p"], ["d"], dict.fromkeys("pd", Capacity(64, 16)))
    with pytest.raises(LabError) as refused:
        router.arrive(Request(0, (1, 2), 3, eviction=Window(64)))
    assert refused.value.code == "eviction-between-pools" and router.ended == {0}
    assert router.arrive(Request(1, (1, 2), 3))
