"""Ring Attention equals the attention of one process: the merge and the blocks alone, then real ranks over gloo."""

import os
import random
import signal

import psutil
import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments.ranks import started_ranks
from engine.formulas import ring as formulas
from engine.formulas.ring import LAYOUTS, AttentionShape, blocks, pieces, source
from engine.serving.cluster import Cancelled
from engine.serving.deployment import WorkerSpec
from engine.serving.ring import Merged, block_attention, plain_block_attention
from tests.serving.ring_desk import plain

MODULE = "tests.serving.ring_desk"
TOLERANCE = 1e-4
pytestmark = pytest.mark.usefixtures("one_thread")


def drawn(seed, n, m, heads, kv_heads, width, scale=3.0):
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(t, h, width, generator=generator) for t, h in ((n, heads), (m, kv_heads), (m, kv_heads)))
    return q * scale, k, v


SHAPES = {
    "kv_heads": st.integers(1, 3),
    "group": st.integers(1, 4),
    "width": st.sampled_from((1, 3, 8, 17, 64)),
    "seed": st.integers(0, 2**16),
}


@given(tokens=st.integers(1, 90), ranks=st.integers(1, 4), layout=st.sampled_from(LAYOUTS), causal=st.booleans(), **SHAPES)
@examples(max_examples=60)
def test_blocks_merged_in_the_order_of_the_ring_are_the_attention_of_one(tokens, ranks, layout, causal, kv_heads, group, width, seed):
    """Without any communication: a wrong weight in the merge, a block missing, its keys or its triangle one off."""
    q, k, v = drawn(seed, tokens, tokens, kv_heads * group, kv_heads, width)
    wanted, parts = plain(q, k, v, causal), pieces(tokens, ranks, layout)
    held = [torch.tensor([at for begin, end in part for at in range(begin, end)], dtype=torch.int64) for part in parts]
    for rank in range(ranks):
        mine = q[held[rank]]
        merged = Merged(*mine.shape)
        for round_ in range(ranks):
            other = source(rank, round_, ranks)
            for b in blocks(parts[rank], parts[other], causal=causal):
                keys = held[other][: b.k_end]
                merged.add(b.q_begin, b.q_end, *block_attention(mine[b.q_begin : b.q_end], k[keys], v[keys], causal=b.diagonal))
        assert not len(mine) or (merged.out - wanted[held[rank]]).abs().max() < TOLERANCE


@given(n=st.integers(1, 40), m=st.integers(1, 40), square=st.booleans(), **SHAPES)
def test_a_block_tells_its_output_and_the_log_of_its_sum(n, m, square, kv_heads, group, width, seed):
    """The kernel's sum is not public API: another unit (base 2), order or alignment would merge blocks by wrong weights."""
    m = n if square else m
    q, k, v = drawn(seed, n, m, kv_heads * group, kv_heads, width)
    scores = torch.einsum("qhd,khd->qhk", q, k.repeat_interleave(group, dim=1)) / width**0.5
    if square:
        scores.masked_fill_(torch.ones(n, m).triu(1).bool()[:, None], float("-inf"))
    for attention in (block_attention, plain_block_attention):
        out, log_sum = attention(q, k, v, causal=square)
        assert out.shape == q.shape and log_sum.shape == q.shape[:2] and log_sum.dtype == torch.float32
        assert (log_sum - scores.logsumexp(-1)).abs().max() < TOLERANCE
        read = torch.einsum("qhk,khd->qhd", scores.softmax(-1), v.repeat_interleave(group, dim=1))
        assert (out - read).abs().max() < TOLERANCE


def test_the_plain_path_is_right_beyond_its_rows_at_once():
    """The second group of rows has its triangle further to the right."""
    q, k, v = drawn(3, 1100, 1100, 2, 1, 8)
    for mine, theirs in zip(plain_block_attention(q, k, v, causal=True), block_attention(q, k, v, causal=True), strict=True):
        assert (mine - theirs).abs().max() < TOLERANCE


@pytest.mark.parametrize("level", [-3e4, 0.0, 3e4])
def test_the_merge_does_not_overflow(level):
    """exp(89) is beyond fp32: sums must never be kept as they are. And a block that weighs nothing changes nothing."""
    merged = Merged(1, 1, 2)
    merged.add(0, 1, torch.tensor([[[1.0, 0.0]]]), torch.tensor([[level]]))
    assert torch.equal(merged.out[0, 0], torch.tensor([1.0, 0.0]))
    merged.add(0, 1, torch.tensor([[[0.0, 1.0]]]), torch.tensor([[level + 1.0]]))
    assert merged.out[0, 0].tolist() == pytest.approx([1 / (1 + torch.e), torch.e / (1 + torch.e)], abs=2e-3)
    merged.add(0, 1, torch.tensor([[[99.0, 99.0]]]), torch.tensor([[level - 3e3]]))
    assert merged.out.max() < 1 and torch.isfinite(merged.log_sum).all()


def test_bf16_blocks_lose_no_more_on_a_longer_ring():
    """Merged in bf16 the error would grow with every block; in fp32 it stays that of one rounding."""
    q, k, v = (x.bfloat16() for x in drawn(5, 64, 1024, 2, 2, 16, scale=1.0))
    wanted = plain(q.float(), k.float(), v.float(), causal=False)

    def apart(ranks):
        merged = Merged(64, 2, 16)
        for begin in range(0, 1024, 1024 // ranks):
            keys = slice(begin, begin + 1024 // ranks)
            merged.add(0, 64, *block_attention(q, k[keys], v[keys], causal=False))
        return float((merged.out - wanted).abs().max())

    assert apart(64) < 2 * apart(1) + 1e-3


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_blocks_on_a_gpu(dtype):
    q, k, v = (x.to("cuda", dtype) for x in drawn(1, 300, 300, 8, 2, 64, scale=1.0))
    for causal in (True, False):
        out, log_sum = block_attention(q, k, v, causal=causal)
        wanted, wanted_sum = plain_block_attention(q, k, v, causal=causal)
        assert (out.float() - wanted.float()).abs().max() < 0.05 and (log_sum - wanted_sum).abs().max() < 0.05


@pytest.fixture(scope="module")
def four():
    """Four real processes, which join rings of any size, and answer one case after another: starting them takes longest."""
    specs = [WorkerSpec(f"rank-{rank}", "ring", "cpu", 1) for rank in range(4)]
    with started_ranks(MODULE, specs, lambda: False) as ranks:
        ranks.ask([{"type": "load"}] * 4, "loaded")
        yield ranks


def join(ranks, size, folder) -> None:
    """The first so many make a ring; its store may go afterwards."""
    joined = {"type": "join", "ranks": size, "store": str(folder / "store"), "backend": "gloo"}
    ranks.ask([{**joined, "rank": rank} for rank in range(size)], "joined")
    (folder / "store").unlink(missing_ok=True)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_real_ranks_equal_one_process_and_send_what_the_formula_says(four, size, tmp_path):
    """Over gloo, random shapes and lengths (shorter than the ring, too): output, cache, bytes, pairs, order of the stamps."""
    join(four, size, tmp_path)
    rng = random.Random(size)
    for case in range(24):
        heads_of_kv, kv_heads, width = rng.choice((1, 2, 3)), rng.choice((1, 2, 3)), rng.choice((2, 5, 16, 64))
        tokens, layout, causal = rng.choice((1, 2, 3, 7, 50, 131, 260)), LAYOUTS[case % 2], case % 3 > 0
        shape = AttentionShape(heads_of_kv * kv_heads, kv_heads, width, 4)
        parts = pieces(tokens, size, layout)
        counts = [formulas.held(part) for part in parts]
        question = {
            "type": "attend", "seed": case, "parts": parts, "heads": shape.heads, "kv_heads": kv_heads, "head_dim": width,
            "causal": causal, "layers": 2,
        }  # fmt: skip
        for rank, told in enumerate(four.ask([question] * size, "attended")):
            assert told["difference"] < TOLERANCE, (question, rank)
            assert told["sent"] == formulas.sent_bytes(counts, rank, 2, shape)
            assert told["received"] == formulas.received_bytes(counts, rank, 2, shape)
            assert told["kv"] == formulas.kv_bytes(counts[rank], 2, shape)
            assert told["buffers"] == formulas.buffer_bytes(counts, shape)
            assert told["pairs"] == 2 * formulas.pairs(tokens, size, layout, causal=causal)[rank] and told["in_order"]


MODEL = {
    "vocab_size": 120, "hidden_size": 40, "n_layers": 3, "n_heads": 6, "n_kv_heads": 2, "head_dim": 8, "ffn_size": 72,
    "max_context": 256, "attention_bias": True,
}  # fmt: skip


@pytest.mark.parametrize("size", [2, 3, 4])
def test_whole_models_give_the_same_logits(four, size, tmp_path):
    """A rank that numbers its tokens from 0, or forgets where it is in the text, is right in attention and wrong here."""
    join(four, size, tmp_path)
    for seed, tokens, layout in ((1, 61, LAYOUTS[0]), (2, 97, LAYOUTS[0]), (3, 97, LAYOUTS[1])):
        question = {"type": "model", "seed": seed, "config": MODEL, "tokens": tokens, "layout": layout}
        for told in four.ask([question] * size, "computed"):
            assert told["std"] >= 1 and told["difference"] < TOLERANCE


@pytest.fixture
def pair(tmp_path):
    """A ring of two of this test's own, and what cancels it."""
    stop = []
    specs = [WorkerSpec(f"rank-{rank}", "ring", "cpu", 1) for rank in range(2)]
    with started_ranks(MODULE, specs, lambda: bool(stop)) as ranks:
        ranks.ask([{"type": "load"}] * 2, "loaded")
        join(ranks, 2, tmp_path)
        ranks.stop = stop
        yield ranks
    assert all(process.process.poll() is not None for process in ranks.processes)


HANG = [{"type": "wait_for_nothing"}, {"type": "sleep"}]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_is_named_at_once_whoever_notices_first(pair, victim):
    """The other one sits in gloo, which throws or waits: neither may be the answer, nor what keeps the question open."""

    def kill(rank, told):
        if rank == victim:
            os.kill(pair.processes[victim].process.pid, signal.SIGKILL)

    with pytest.raises(LabError) as caught:
        pair.ask(HANG, "never", kill)
    assert caught.value.code == "worker-died"
    assert caught.value.facts["worker"] == f"rank-{victim}" and caught.value.facts["exit"] == "signal 9"


def test_cancelling_does_not_wait_for_a_rank_that_waits(pair):
    with pytest.raises(Cancelled):
        pair.ask(HANG, "never", lambda rank, told: pair.stop.append(rank))


def test_ranks_that_say_nothing_are_named(pair):
    """A rank that is stopped, not dead: nobody would ever hear of it."""
    os.kill(pair.processes[1].process.pid, signal.SIGSTOP)
    with pytest.raises(LabError) as caught:
        pair.ask(HANG, "never", silence_s=1.0)
    assert caught.value.code == "worker-silent" and "rank-1" in caught.value.facts["workers"]


def test_nothing_is_open_to_others(four, tmp_path):
    """Sockets on all addresses would let the whole class write into a rank's memory."""
    join(four, 4, tmp_path)
    for process in four.processes:
        found = [c.laddr.ip for c in psutil.Process(process.process.pid).net_connections() if c.laddr]
        assert found and set(found) <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}


