"""KV storage: what is written is read back, in either memory order, through any block table, from another process's file."""

import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import LabError
from engine.kv.blocks import slot_runs
from engine.kv.storage import KVStorage
from engine.model.config import ModelConfig

CONFIG = ModelConfig(
    vocab_size=32, hidden_size=12, n_layers=3, n_heads=6, n_kv_heads=2, head_dim=4, ffn_size=8, max_context=64
)
HEADS_FIRST, SLOTS_FIRST = True, False


def storage(order=HEADS_FIRST, blocks=6, block_tokens=4, **options) -> KVStorage:
    return KVStorage(CONFIG, blocks, block_tokens, heads_first=order, **options)


def slots_of(table, block_tokens, tokens) -> torch.Tensor:
    return torch.tensor([table[p // block_tokens] * block_tokens + p % block_tokens for p in range(tokens)])


def fill(store: KVStorage, table, tokens, seed=0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random K and V [layers, tokens, kv_heads, head_dim], written through the table."""
    generator = torch.Generator().manual_seed(seed)
    shape = (CONFIG.n_layers, tokens, CONFIG.n_kv_heads, CONFIG.head_dim)
    k, v = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
    for layer in range(CONFIG.n_layers):
        store.write(layer, slots_of(table, store.block_tokens, tokens), k[layer], v[layer])
    return k, v


def seen(store: KVStorage, table, tokens) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [store.read(layer, slot_runs(table, store.block_tokens, tokens)) for layer in range(CONFIG.n_layers)]
    keys, values = (torch.stack(part).transpose(1, 2) for part in zip(*pairs, strict=True))
    return keys, values


@pytest.mark.parametrize("order", [HEADS_FIRST, SLOTS_FIRST], ids=["heads first", "slots first"])
@pytest.mark.parametrize("table", [(1, 2, 3), (4, 0, 5), (5, 4, 3)])
def test_read_gives_what_was_written(order, table):
    """Heads and slots swapped, or a gather in the wrong order, would still have the right shape."""
    store = storage(order)
    k, v = fill(store, table, tokens=10)
    keys, values = seen(store, table, 10)
    torch.testing.assert_close(keys, k, rtol=0, atol=0)
    torch.testing.assert_close(values, v, rtol=0, atol=0)


def test_a_checksum_is_of_the_tokens_and_not_of_where_they_lie():
    """Sender and receiver have other blocks, and a GPU's host copy another order; one number or layer exchanged is damage."""
    stores = [storage(HEADS_FIRST), storage(SLOTS_FIRST), storage(HEADS_FIRST)]
    tables = [(1, 2, 3), (1, 2, 3), (5, 0, 4)]
    for store, table in zip(stores, tables, strict=True):
        fill(store, table, tokens=10)
    found = {store.checksum(range(1, 3), list(table), 10) for store, table in zip(stores, tables, strict=True)}
    assert len(found) == 1
    store, table = stores[0], list(tables[0])
    (whole,) = found
    assert store.checksum(range(2), table, 10) != whole != store.checksum(range(1, 3), table, 9)
    store.values[1][slots_of(table, 4, 10)[7], 1, 3] += 1e-6
    damaged = store.checksum(range(1, 3), table, 10)
    store.keys[0][slots_of(table, 4, 10)[0]] = 9.0
    assert damaged != whole and store.checksum(range(1, 3), table, 10) == damaged, "another layer is another part"


@given(st.sampled_from([HEADS_FIRST, SLOTS_FIRST]), st.permutations(range(6)), st.integers(1, 24))
def test_a_checksum_is_that_of_the_numbers_one_after_another(order, table, tokens):
    """Gathered whole, a last block that is only half full would bring its neighbours' numbers, or leave its own out."""
    store = storage(order)
    k, v = fill(store, table, tokens)
    store.memory[store.memory == 0] = 5.0  # what is not the sequence's is not nothing
    expected = b"".join(part[layer].transpose(0, 1).contiguous().numpy().tobytes() for layer in range(3) for part in (k, v))
    assert store.checksum(range(3), list(table), tokens) == zlib.crc32(expected)


@pytest.mark.parametrize("order", [HEADS_FIRST, SLOTS_FIRST], ids=["heads first", "slots first"])
def test_writing_one_sequence_leaves_the_others_alone(order):
    """A write by wrong slots would corrupt the neighbour in the pool."""
    store = storage(order)
    k, v = fill(store, (0, 2, 4), tokens=12, seed=1)
    fill(store, (1, 3, 5), tokens=12, seed=2)
    keys, values = seen(store, (0, 2, 4), 12)
    torch.testing.assert_close(keys, k, rtol=0, atol=0)
    torch.testing.assert_close(values, v, rtol=0, atol=0)


def test_one_run_is_read_in_place_and_several_are_gathered():
    """A copy of the whole cache at every decode is what head-first memory is there to avoid."""
    store = storage()
    keys, _ = store.read(1, slot_runs((1, 2), 4, 8))
    assert keys.data_ptr() == store.memory[0, 1, 0, 4].data_ptr()
    assert keys.stride(-1) == 1
    gathered, _ = store.read(1, slot_runs((1, 3), 4, 8))
    assert gathered.shape == keys.shape == (CONFIG.n_kv_heads, 8, CONFIG.head_dim)


def test_pages_are_the_slots_seen_block_by_block():
    """CUDA's paged kernel is given these; a wrong stride would mix tokens of different requests."""
    store = storage(SLOTS_FIRST)
    k, v = fill(store, (3, 1), tokens=8)
    keys, values = store.pages(2)
    assert keys.shape == (6, 4, CONFIG.n_kv_heads, CONFIG.head_dim)
    torch.testing.assert_close(torch.cat([keys[3], keys[1]]), k[2], rtol=0, atol=0)
    torch.testing.assert_close(torch.cat([values[3], values[1]]), v[2], rtol=0, atol=0)
    assert keys.data_ptr() == store.memory[0, 2].data_ptr(), "pages must be the cache itself"


tables = st.permutations(range(6)).map(tuple)


@settings(max_examples=40)
@given(
    st.sampled_from([HEADS_FIRST, SLOTS_FIRST]),
    st.sampled_from([HEADS_FIRST, SLOTS_FIRST]),
    tables,
    tables,
    st.sampled_from([(4, 4), (4, 3), (2, 5)]),
    st.data(),
)
def test_copy_moves_exactly_the_tokens_and_layers_asked_for(source_order, order, theirs, mine, sizes, data):
    """The KV transfer: between memory orders, block sizes and fragmented tables; nothing else is touched."""
    source, target = storage(source_order, block_tokens=sizes[0]), storage(order, block_tokens=sizes[1])
    most = min(6 * sizes[0], 6 * sizes[1])
    tokens = data.draw(st.integers(1, most))
    first = data.draw(st.integers(0, CONFIG.n_layers - 1))
    end = data.draw(st.integers(first + 1, CONFIG.n_layers))
    k, v = fill(source, theirs, most, seed=1)
    old_k, old_v = fill(target, mine, most, seed=2)
    moved = target.copy_from(source, range(first, end), list(theirs), list(mine), tokens)
    assert moved == tokens * (end - first) * 2 * CONFIG.n_kv_heads * CONFIG.head_dim * 4
    keys, values = seen(target, mine, most)
    for layer in range(CONFIG.n_layers):
        copied = tokens if first <= layer < end else 0
        for got, new, old in ((keys, k, old_k), (values, v, old_v)):
            torch.testing.assert_close(got[layer, :copied], new[layer, :copied], rtol=0, atol=0)
            torch.testing.assert_close(got[layer, copied:], old[layer, copied:], rtol=0, atol=0)


def test_two_storages_over_one_file_see_the_same_memory(tmp_path):
    """The prefill pool's cache is read in place by the decode process; a private mapping would read zeros."""
    path = tmp_path / "kv"
    path.write_bytes(bytes(6 * 4 * CONFIG.n_layers * 2 * CONFIG.n_kv_heads * CONFIG.head_dim * 4))
    ours, theirs = storage(shared_file=path), storage(shared_file=path)
    path.unlink()  # as the coordinator does once both have it mapped
    k, v = fill(ours, (5, 0, 2), tokens=12)
    keys, values = seen(theirs, (5, 0, 2), 12)
    torch.testing.assert_close(keys, k, rtol=0, atol=0)
    torch.testing.assert_close(values, v, rtol=0, atol=0)


def test_bytes_per_token_follow_the_number_format():
    """Bytes from the query heads, or a format taken for another, would give a wrong budget and transfer size."""
    assert storage().bytes_per_token == 2 * 3 * 2 * 4 * 4
    assert storage(dtype=torch.bfloat16).bytes_per_token == 2 * 3 * 2 * 4 * 2


def test_memory_that_is_not_there_is_a_lab_error():
    """A KV budget beyond the machine must end in one sentence, not in an allocator's traceback."""
    with pytest.raises(LabError) as caught:
        KVStorage(CONFIG, 2**40, 16)
    assert caught.value.code == "kv-memory"
    assert caught.value.facts["bytes"] == 2**44 * storage().bytes_per_token
    assert caught.value.facts["why"]


def test_a_shared_file_that_cannot_be_mapped_is_a_lab_error(tmp_path):
    """A full or vanished temporary folder: the same."""
    with pytest.raises(LabError) as caught:
        storage(shared_file=tmp_path / "no" / "folder" / "kv")
    assert caught.value.code == "kv-memory"
