"""KV of one host's cache to the same places of another's mirror, through bytes."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from engine.kv.storage import KVStorage
from engine.model.config import ModelConfig
from engine.serving.mirror import gather, scatter
from engine.serving.staging import Staging

CONFIG = ModelConfig(vocab_size=11, hidden_size=16, n_layers=3, n_heads=4, n_kv_heads=2, head_dim=4, ffn_size=8, max_context=64)
BLOCKS, BLOCK_TOKENS = 6, 4


def storage(heads_first, dtype=torch.float32, filled=False):
    made = KVStorage(CONFIG, BLOCKS, BLOCK_TOKENS, dtype=dtype, heads_first=heads_first)
    if filled:
        made.memory.copy_(torch.randn(made.memory.shape))
    return made


@given(
    blocks=st.permutations(range(BLOCKS)).flatmap(lambda order: st.integers(1, BLOCKS).map(lambda n: order[:n])),
    short=st.integers(0, BLOCK_TOKENS - 1),
    layers=st.sampled_from([range(0, 3), range(0, 1), range(1, 3)]),
    orders=st.tuples(st.booleans(), st.booleans()),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_what_is_gathered_lands_in_the_same_places(blocks, short, layers, orders, dtype):
    """Any block table, either memory order on either side (a GPU host and a CPU host), a last block that is not full; and
    nothing else of the mirror is touched, where another request's KV may already be."""
    source, mirror = storage(orders[0], dtype, filled=True), storage(orders[1], dtype)
    tokens = len(blocks) * BLOCK_TOKENS - short
    size = tokens * source.bytes_per_token // 3 * len(layers)
    scatter(mirror, gather(source, layers, blocks, tokens, size), layers, blocks, tokens)
    assert mirror.checksum(layers, blocks, tokens) == source.checksum(layers, blocks, tokens)
    untouched = torch.ones(BLOCKS * BLOCK_TOKENS, dtype=torch.bool)
    for place in range(tokens):
        untouched[blocks[place // BLOCK_TOKENS] * BLOCK_TOKENS + place % BLOCK_TOKENS] = False
    for layer in range(3):
        kept = slice(None) if layer not in layers else untouched
        assert not mirror.keys[layer][kept].any() and not mirror.values[layer][kept].any()


def test_bytes_in_another_format_go_as_they_are(tmp_path):
    """Quantised KV lies at its layer's place among the request's blocks; a mirror that has it elsewhere reads other layers."""
    stagings = []
    for name in ("published", "mirror"):
        (tmp_path / name).write_bytes(bytes(BLOCKS * 16))
        stagings.append(Staging(tmp_path / name, BLOCKS, 16))
    published, mirror = stagings
    published.write([4, 1], 0, torch.arange(30, dtype=torch.uint8))  # 3 layers of 10 bytes
    scatter(mirror, gather(published, range(1, 3), [4, 1], 5, 20), range(1, 3), [4, 1], 5)
    assert mirror.read([4, 1], 0, 30).tolist() == [0] * 10 + list(range(10, 30))


@pytest.mark.parametrize(
    "layers, blocks, tokens, size",
    [(range(0, 3), [6], 4, 768), (range(0, 3), [-1], 4, 768), (range(0, 4), [0], 4, 1024), (range(0, 3), [0], 5, 960), (range(0, 3), [0], 4, 760)],
    ids=["no such block", "one before the first", "no such layer", "more tokens than the blocks hold", "another size"],
)
def test_what_another_host_asks_for_must_be_there(layers, blocks, tokens, size):
    """The question comes over the network: memory outside of the cache is nobody's business."""
    with pytest.raises(ValueError):
        gather(storage(True, filled=True), layers, blocks, tokens, size)
    with pytest.raises(ValueError):
        scatter(storage(True), torch.zeros(size, dtype=torch.uint8), layers, blocks, tokens)
