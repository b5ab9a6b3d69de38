"""Who holds what on a ring, what it computes and sends: against counting by hand, token by token."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formulas import ring
from engine.formulas.ring import CONTIGUOUS, LAYOUTS, ZIGZAG, AttentionShape

SMOL = AttentionShape(heads=9, kv_heads=3, head_dim=64, bytes_per_value=4)
RINGS = {"tokens": st.integers(0, 70), "ranks": st.integers(1, 5), "layout": st.sampled_from(LAYOUTS)}


def tokens_of(part) -> list[int]:
    return [token for begin, end in part for token in range(begin, end)]


@given(**RINGS)
def test_every_token_is_held_once_and_about_as_many_by_each(tokens, ranks, layout):
    """A token that nobody has is silently not attended to; lengths that do not divide are where that happens."""
    parts = ring.pieces(tokens, ranks, layout)
    assert sorted(token for part in parts for token in tokens_of(part)) == list(range(tokens))
    counts = [ring.held(part) for part in parts]
    assert max(counts) - min(counts) <= (2 if layout == ZIGZAG else 1)
    assert all(tokens_of(part) == sorted(tokens_of(part)) for part in parts)


@given(**RINGS, causal=st.booleans())
def test_the_blocks_of_all_rounds_are_the_mask(tokens, ranks, layout, causal):
    """Pair by pair: a block too many would let a query see the future, one too few would hide keys from it."""
    parts = ring.pieces(tokens, ranks, layout)
    seen = []
    for rank in range(ranks):
        mine = tokens_of(parts[rank])
        for round_ in range(ranks):
            other = parts[ring.source(rank, round_, ranks)]
            theirs = tokens_of(other)
            some = ring.blocks(parts[rank], other, causal=causal)
            found = [
                (mine[q], theirs[k])
                for b in some
                for q in range(b.q_begin, b.q_end)
                for k in range(min(b.k_end, q - b.q_begin + 1) if b.diagonal else b.k_end)
            ]
            assert len(found) == sum(b.pairs for b in some) == ring.pairs(tokens, ranks, layout, causal=causal)[rank][round_]
            seen += found
    wanted = [(q, k) for q in range(tokens) for k in range(tokens) if k <= q or not causal]
    assert sorted(seen) == wanted


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_zigzag_is_one_block_a_round_and_in_balance(ranks):
    """In balance in every round, not only in all; contiguous wastes up to nearly half."""
    tokens = 16 * ranks
    work = ring.pairs(tokens, ranks, ZIGZAG)
    n = tokens // ranks
    assert work == [[n * (n + 1) // 2] + [n * n // 2] * (ranks - 1)] * ranks and ring.balance(work) == 1.0
    parts = ring.pieces(tokens, ranks, ZIGZAG)
    assert all(len(ring.blocks(a, b, causal=True)) == 1 for a in parts for b in parts)
    slow = ring.pairs(tokens, ranks, CONTIGUOUS)
    assert [sum(row) for row in slow] == sorted(sum(row) for row in slow)
    # Every round but the first lasts as long as a full block, and all work is N N / 2 of those: N / 2 over N - 1 / 2.
    assert ring.balance(slow) == pytest.approx(ranks / 2 / (ranks - 0.5), rel=0.04)


@given(tokens=RINGS["tokens"], ranks=RINGS["ranks"], layout=RINGS["layout"])
def test_what_is_sent_is_what_is_received(tokens, ranks, layout):
    """Followed message by message: what rank r has in round s goes to r + 1, in every layer."""
    counts = [ring.held(part) for part in ring.pieces(tokens, ranks, layout)]
    sent, received, has = [0] * ranks, [0] * ranks, list(range(ranks))
    for _ in range(ranks - 1):
        for rank in range(ranks):
            sent[rank] += 7 * counts[has[rank]] * 2 * 3 * 64 * 4
            received[(rank + 1) % ranks] += 7 * counts[has[rank]] * 2 * 3 * 64 * 4
        has = [has[rank - 1] for rank in range(ranks)]
    assert [ring.sent_bytes(counts, rank, 7, SMOL) for rank in range(ranks)] == sent
    assert [ring.received_bytes(counts, rank, 7, SMOL) for rank in range(ranks)] == received


def test_the_default_model_on_two_ranks_in_numbers():
    """Worked out by hand: 4,096 tokens, 30 layers, fp32; KV heads count, not query heads."""
    counts = [2048, 2048]
    assert ring.kv_bytes(2048, 30, SMOL) == 30 * 2048 * 2 * 3 * 64 * 4 == 94_371_840
    assert ring.sent_bytes(counts, 0, 30, SMOL) == 94_371_840
    assert ring.buffer_bytes(counts, SMOL) == 2048 * 1536 and ring.buffer_bytes([1024] * 4, SMOL) == 2 * 1024 * 1536
    assert ring.buffer_bytes([4096], SMOL) == 0
    assert ring.activation_bytes(2048, SMOL) == 23_740_416 and ring.alone_activation_bytes(4096, SMOL) == 37_748_736


def test_hiding_needs_a_rank_with_enough_tokens():
    """B9's condition: with a NVLink-like 450 GB/s, 989 TFLOP/s, bf16 and 8 of 64 KV heads; half the pairs, twice the tokens."""
    shape = AttentionShape(heads=64, kv_heads=8, head_dim=128, bytes_per_value=2)
    least = ring.least_tokens_to_hide(shape, 989e12, 450e9, causal=False)
    assert least == pytest.approx(989e12 * 2 * 8 / (2 * 64 * 450e9)) == pytest.approx(274.7, abs=0.1)
    for causal in (True, False):
        n = ring.least_tokens_to_hide(shape, 989e12, 450e9, causal=causal)
        assert ring.round_compute_s(n, 64, 128, 989e12, causal=causal) == pytest.approx(ring.round_transfer_s(n, shape, 450e9))
    assert ring.least_tokens_to_hide(shape, 989e12, 450e9) == pytest.approx(2 * least)


def test_hidden_share_is_of_transfers_that_run_beside_blocks():
    """A transfer that ends before the block begins, or outlasts it, is not hidden there."""
    rounds = [
        {"compute": [1.0, 3.0], "communication": [0.0, 2.0]},
        {"compute": [3.0, 4.0], "communication": [3.0, 5.0]},
        {"compute": [6.0, 7.0], "communication": [5.0, 6.0]},
        {"compute": [7.0, 9.0], "communication": None},
    ]
    assert ring.hidden_share(rounds) == pytest.approx(2 / 5)
    assert ring.hidden_share(rounds[-1:]) is None


@pytest.mark.parametrize("given_", [(5, 2, "striped"), (-1, 2, ZIGZAG), (5, 0, ZIGZAG)])
def test_what_is_no_ring_is_refused(given_):
    with pytest.raises(ValueError):
        ring.pieces(*given_)
