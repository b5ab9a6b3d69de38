"""The real cache, block pool and ring and all, against a naive one that turns the kept keys anew for every token."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.evicting import EvictingAttention, EvictingSpan
from engine.kv.eviction import Sinks
from engine.kv.storage import KVStorage
from engine.model.config import ModelConfig
from engine.model.transformer import Transformer
from tests.kv.streaming import TINY, naive_logits, tiny_ids

pytestmark = pytest.mark.usefixtures("one_thread")


class RealCache:
    """One text in a storage of its own, blocks in any order; `read` takes the next n tokens in one forward.

    Slots that were never written hold huge numbers: whoever reads them is seen at once.
    """

    def __init__(self, model, policy, block_tokens, seed=0, heads_first=None):
        self.model, self.policy = model, policy
        needed = -(-policy.window // block_tokens)
        order = torch.randperm(needed + 2, generator=torch.Generator().manual_seed(seed)).tolist()
        self.storage = KVStorage(model.config, needed + 2, block_tokens, dtype=model.dtype, heads_first=heads_first)
        self.storage.memory.fill_(1e4)
        self.table, self.others = tuple(order[:needed]), order[needed:]
        self.tokens = 0

    def read(self, ids):
        blocks = -(-self.policy.slots(self.tokens + len(ids)) // self.storage.block_tokens)
        span = EvictingSpan(0, len(ids), self.tokens, self.table[:blocks], self.policy)
        attend = EvictingAttention(self.storage, [span], self.model.rope)
        self.tokens += len(ids)
        return self.model(ids, torch.zeros_like(ids), attend)

    def foreign_blocks(self):
        size = self.storage.block_tokens
        return torch.cat([self.storage.keys[0][b * size : (b + 1) * size] for b in self.others])


@pytest.fixture(scope="module")
def model():
    return Transformer.random(TINY, seed=1)


@pytest.fixture(scope="module")
def expected(model):
    """Logits of 50 tokens for (sinks, window)."""
    found = {setting: naive_logits(model, tiny_ids(50), *setting) for setting in ((2, 9), (0, 9), (4, 16), (0, 1), (1, 2))}
    assert min(float(logits.std()) for logits in found.values()) >= 1
    return found


@pytest.mark.parametrize("setting", [(2, 9), (0, 9), (4, 16), (0, 1), (1, 2)], ids=str)
@pytest.mark.parametrize("block_tokens", [1, 4, 16])
@pytest.mark.parametrize("heads_first", [True, False], ids=["heads first", "slots first"])
def test_token_by_token(setting, block_tokens, heads_first, model, expected):
    """The bugs: keys turned before they are stored, places that drift with the text, the ring read in the wrong order, a
    sink overwritten, a query that stands outside the cache."""
    cache = RealCache(model, Sinks(*setting), block_tokens, heads_first=heads_first)
    logits = torch.cat([cache.read(token) for token in tiny_ids(50).split(1)])
    assert (logits - expected[setting]).abs().max() < 1e-3
    assert (cache.foreign_blocks() == 1e4).all()


PIECES = [[50], [20, 1, 29], [9, 1, 1, 39], [8, 42], [10, 40], [3, 4, 5, 6, 7, 1, 8, 9, 7], [49, 1]]


@pytest.mark.parametrize("setting", [(2, 9), (0, 9), (4, 16), (1, 2)], ids=str)
@pytest.mark.parametrize("pieces", PIECES, ids=str)
def test_prompts_and_chunks_longer_than_the_cache(setting, pieces, model, expected):
    """Every token of a prompt sees what it would have seen alone, and what stays behind it is what would have stayed."""
    cache = RealCache(model, Sinks(*setting), 4)
    logits = torch.cat([cache.read(part) for part in tiny_ids(50).split(pieces)])
    assert (logits - expected[setting]).abs().max() < 1e-3
    assert (cache.foreign_blocks() == 1e4).all()


@settings(max_examples=12)
@given(
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 14),
    st.data(),
    st.lists(st.integers(1, 12), min_size=1, max_size=5),
    st.integers(1, 5),
    st.integers(0, 5),
)
def test_any_heads_policy_pieces_and_blocks(kv_heads, group, window, data, pieces, block_tokens, seed):
    """The same for whatever was not thought of."""
    sinks = data.draw(st.integers(0, window - 1))
    config = ModelConfig(
        vocab_size=31,
        hidden_size=16,
        n_layers=2,
        n_heads=kv_heads * group,
        n_kv_heads=kv_heads,
        head_dim=4,
        ffn_size=16,
        rope_theta=50.0,
    )
    model = Transformer.random(config, seed=seed)
    ids = torch.randint(0, 31, (sum(pieces),), generator=torch.Generator().manual_seed(seed))
    cache = RealCache(model, Sinks(sinks, window), block_tokens, seed)
    logits = torch.cat([cache.read(part) for part in ids.split(pieces)])
    assert (logits - naive_logits(model, ids, sinks, window)).abs().max() < 1e-3


def test_two_sequences_in_one_step_do_not_touch(model, expected):
    """Decodes and chunks of sequences with other policies, in one packed step over one storage."""
    ids, storage = tiny_ids(50), KVStorage(TINY, 12, 4)
    tables = {(2, 9): (1, 7, 3), (4, 16): (0, 2, 10, 5)}
    done, logits = dict.fromkeys(tables, 0), {setting: [] for setting in tables}
    for step in [(20, 3), (1, 1), (1, 12), (5, 1), (1, 1), (22, 32)]:
        spans, parts = [], []
        for (setting, table), n in zip(tables.items(), step, strict=True):
            spans.append(EvictingSpan(sum(map(len, parts)), n, done[setting], table, Sinks(*setting)))
            parts.append(ids[done[setting] : done[setting] + n])
            done[setting] += n
        # A block belongs to a sequence only once it needs it: give no more than that.
        spans = [
            EvictingSpan(s.row, s.length, s.start, s.table[: -(-s.policy.slots(s.start + s.length) // 4)], s.policy) for s in spans
        ]
        packed = torch.cat(parts)
        found = model(packed, torch.zeros_like(packed), EvictingAttention(storage, spans, model.rope))
        for setting, rows in zip(tables, found.split(list(step)), strict=True):
            logits[setting].append(rows)
    for setting, rows in logits.items():
        assert (torch.cat(rows) - expected[setting]).abs().max() < 1e-3
