"""A part of a prefill worker's KV as bytes for the network, and back into a mirror of it on the decode worker's host.

Both sides have what is read there, a `KVStorage` or, for KV in another format, a `Staging`: the prefill worker's own, mapped, and
the mirror, a file of the same places. The decode worker reads the mirror as it reads a neighbour's memory, and notices nothing.
"""

import torch

from engine.kv.blocks import slot_runs
from engine.kv.storage import KVStorage
from engine.serving.staging import Staging


def gather(published: KVStorage | Staging, layers: range, blocks: list[int], tokens: int, size: int) -> torch.Tensor:
    """uint8 [size]: `tokens` tokens of some layers that lie in these blocks; of each layer K, then V, head by head.

    Raises ValueError if that is not what lies there.
    """
    _check(published, layers, blocks, tokens, size)
    if isinstance(published, Staging):
        return published.read(blocks, _offset(layers, size), size)
    out = torch.empty(size, dtype=torch.uint8)
    runs = slot_runs(blocks, published.block_tokens, tokens)
    for layer, rows in zip(layers, _by_layer(out, published, layers, tokens), strict=True):
        for into, found in zip(rows, published.read(layer, runs), strict=True):
            into.copy_(found)
    return out


def scatter(mirror: KVStorage | Staging, data: torch.Tensor, layers: range, blocks: list[int], tokens: int) -> None:
    """What was gathered, uint8 [size], to the same places of the mirror. Raises ValueError if there is no such place."""
    size = len(data)
    _check(mirror, layers, blocks, tokens, size)
    if isinstance(mirror, Staging):
        return mirror.write(blocks, _offset(layers, size), data)
    runs = slot_runs(blocks, mirror.block_tokens, tokens)
    for layer, rows in zip(layers, _by_layer(data, mirror, layers, tokens), strict=True):
        for found, into in zip(rows, (mirror.keys[layer], mirror.values[layer]), strict=True):
            seen = 0
            for start, length in runs:
                into[start : start + length].copy_(found[:, seen : seen + length].transpose(0, 1))
                seen += length


def _by_layer(data: torch.Tensor, storage: KVStorage, layers: range, tokens: int) -> torch.Tensor:
    """The bytes as [layers, K and V, kv_heads, tokens, head_dim]."""
    _, heads, width = storage.keys[0].shape
    return data.view(storage.memory.dtype).view(len(layers), 2, heads, tokens, width)


def _offset(layers: range, size: int) -> int:
    """Where the first of these layers begins in a request's places: all layers are of one size."""
    return layers.start * (size // len(layers))


def _check(place: KVStorage | Staging, layers: range, blocks: list[int], tokens: int, size: int) -> None:
    """It came from another host: what it asks for must be there."""
    if isinstance(place, Staging):
        num_blocks, fits = len(place.memory) // place.block_bytes, layers.stop * (size // max(1, len(layers))) <= len(blocks) * place.block_bytes
    else:
        num_blocks = place.num_blocks
        expected = tokens * place.bytes_per_token // place.num_layers * len(layers)
        fits = size == expected and tokens <= len(blocks) * place.block_tokens and layers.stop <= place.num_layers
    known = all(0 <= block < num_blocks for block in blocks)
    if not (known and fits and layers.start >= 0 and len(layers) > 0 and size > 0 and tokens > 0):
        raise ValueError(f"no layers {layers} of {tokens} tokens ({size} bytes) lie in {len(blocks)} of {num_blocks} blocks")
