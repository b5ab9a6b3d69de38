"""Keys and values of one layer as the bytes that go from one pool to another, and back.

What is kept of them, by format (sizes: `engine.formulas.kv`, which these bytes equal to the last one):

    fp32, bf16  as they are; what has no more digits than the format comes back bit by bit
    fp8         e4m3 (Micikevicius et al. 2022, arXiv 2209.05433, table 1), without scales: beyond 448 it saturates
    int8        symmetric, one fp16 scale per token and head, for K and for V: q = round(x / s), s = max |x| / 127
    int4        asymmetric, q = round((x - z) / s), z = min x, s = (max x - z) / 15, both fp16. Keys per channel over groups of
                32 tokens, for a few channels of them are much larger than the others at every token; the last tokens, which
                fill no group, stay in bf16. Values per token and head (KIVI, Liu et al. 2024, arXiv 2402.02750, sections 3.1
                and 3.2; the same channels: KVQuant, Hooper et al. 2024, arXiv 2401.18079, section 3.1)

Scales are rounded up and zeros down to fp16, so that every number lies on the grid's range and is off by half a step at most.
Beyond 65,504, fp16's largest, zeros and scales saturate, and with them the numbers.

The bytes of a layer: scales of K, zeros of K, scales of V, zeros of V, keys in bf16, keys, values; what a format lacks is not
there. Two numbers of 4 bits share a byte, the first in its lower half: neighbouring tokens of a key's channel, neighbouring
channels of a value, whose last byte is half empty if the head's dimension is odd. Little-endian, as the machines are.
"""

import math
from collections.abc import Iterator

import torch

from engine.formulas.kv import INT4_GROUP_TOKENS, KV_DTYPES, Attention, kv_bytes

FORMATS = KV_DTYPES
# Which format a cache of this type has itself.
EXACT = {torch.float32: "fp32", torch.bfloat16: "bf16"}

_PLAIN = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}
_LARGEST_FP8 = torch.finfo(torch.float8_e4m3fn).max
_LARGEST_FP16 = torch.finfo(torch.float16).max
_INT8_STEPS, _INT4_STEPS = 127, 15


def layer_bytes(tokens: int, kv_heads: int, head_dim: int, dtype: str) -> int:
    """How many bytes `pack` makes. Raises ValueError as `kv_bytes` does."""
    return kv_bytes([Attention(1, kv_heads, head_dim, head_dim)], tokens, dtype).total


def pack(keys: torch.Tensor, values: torch.Tensor, dtype: str, out: torch.Tensor | None = None) -> torch.Tensor:
    """keys and values [kv_heads, tokens, head_dim], any strides -> uint8 [bytes] on their device.

    out: where the bytes are to be, if that is somewhere already: uint8, as many. Raises ValueError for a format that there
    is not, or an `out` of another size.
    """
    kv_heads, tokens, head_dim = keys.shape
    size = layer_bytes(tokens, kv_heads, head_dim, dtype)
    if out is not None and len(out) != size:
        raise ValueError(f"{size} bytes do not go into {len(out)}")
    direct = out is not None and out.device == keys.device and _is_aligned(out)
    buffer = out if direct else torch.empty(size, dtype=torch.uint8, device=keys.device)
    _PACK[dtype](keys, values, _parts(buffer, tokens, kv_heads, head_dim, dtype))
    return buffer if direct or out is None else out.copy_(buffer)


def unpack(
    buffer: torch.Tensor, tokens: int, kv_heads: int, head_dim: int, dtype: str, out_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """The keys and values [kv_heads, tokens, head_dim] that `pack` made these bytes of; they may lie in the buffer itself.

    Raises ValueError for a format that there is not, or another number of bytes than it takes.
    """
    size = layer_bytes(tokens, kv_heads, head_dim, dtype)
    if len(buffer) != size:
        raise ValueError(f"{tokens} tokens in {dtype} take {size} bytes, and these are {len(buffer)}")
    parts = _parts(buffer if _is_aligned(buffer) else buffer.clone(), tokens, kv_heads, head_dim, dtype)
    keys, values = _UNPACK[dtype](parts, head_dim)
    return keys.to(out_dtype), values.to(out_dtype)


def _is_aligned(buffer: torch.Tensor) -> bool:
    """Whether numbers of several bytes can be looked at in place."""
    return buffer.storage_offset() % 4 == 0


def _parts(buffer: torch.Tensor, tokens: int, kv_heads: int, head_dim: int, dtype: str) -> list[torch.Tensor]:
    """Views of the buffer, in the order in which they lie in it."""
    groups, rest = divmod(tokens, INT4_GROUP_TOKENS)
    whole, per_token = (kv_heads, tokens, head_dim), (kv_heads, tokens, 1)
    half = torch.float16
    if dtype == "int8":
        shapes = [(half, per_token), (half, per_token), (torch.int8, whole), (torch.int8, whole)]
    elif dtype == "int4":
        per_group = (kv_heads, groups, 1, head_dim)
        shapes = [(half, per_group), (half, per_group), (half, per_token), (half, per_token)]
        shapes += [(torch.bfloat16, (kv_heads, rest, head_dim))]
        shapes += [(torch.uint8, (kv_heads, groups, INT4_GROUP_TOKENS // 2, head_dim))]
        shapes += [(torch.uint8, (kv_heads, tokens, -(-head_dim // 2)))]
    else:
        shapes = [(_PLAIN[dtype], whole), (_PLAIN[dtype], whole)]
    return list(_cut(buffer, shapes))


def _cut(buffer: torch.Tensor, shapes: list[tuple[torch.dtype, tuple[int, ...]]]) -> Iterator[torch.Tensor]:
    begin = 0
    for dtype, shape in shapes:
        end = begin + math.prod(shape) * dtype.itemsize
        yield buffer[begin:end].view(dtype).view(shape)
        begin = end


def _pack_plain(keys: torch.Tensor, values: torch.Tensor, parts: list[torch.Tensor]) -> None:
    for part, numbers in zip(parts, (keys, values), strict=True):
        part.copy_(numbers)


def _pack_fp8(keys: torch.Tensor, values: torch.Tensor, parts: list[torch.Tensor]) -> None:
    for part, numbers in zip(parts, (keys, values), strict=True):
        part.copy_(numbers.float().clamp(-_LARGEST_FP8, _LARGEST_FP8))  # the cast alone makes NaN of what is larger


def _unpack_plain(parts: list[torch.Tensor], _head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    keys, values = parts
    return keys, values


def _pack_int8(keys: torch.Tensor, values: torch.Tensor, parts: list[torch.Tensor]) -> None:
    for scales, steps, numbers in ((parts[0], parts[2], keys), (parts[1], parts[3], values)):
        numbers = numbers.float()
        scales.copy_(_up(numbers.abs().amax(-1, keepdim=True) / _INT8_STEPS))
        steps.copy_(_steps(numbers, scales).clamp_(-_INT8_STEPS, _INT8_STEPS))


def _unpack_int8(parts: list[torch.Tensor], _head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    key_scales, value_scales, keys, values = parts
    return keys * key_scales.float(), values * value_scales.float()


def _pack_int4(keys: torch.Tensor, values: torch.Tensor, parts: list[torch.Tensor]) -> None:
    key_scales, key_zeros, value_scales, value_zeros, rest, packed_keys, packed_values = parts
    kv_heads, tokens, head_dim = keys.shape
    in_groups = tokens - rest.shape[1]
    rest.copy_(keys[:, in_groups:])
    grouped = keys[:, :in_groups].reshape(kv_heads, -1, INT4_GROUP_TOKENS, head_dim).float()
    steps = _asymmetric(grouped, 2, key_scales, key_zeros)
    packed_keys.copy_(steps[:, :, 0::2] | steps[:, :, 1::2] << 4)
    steps = _asymmetric(values.float(), 2, value_scales, value_zeros)
    packed_values.copy_(steps[..., 0::2])
    packed_values[..., : head_dim // 2] |= steps[..., 1::2] << 4


def _unpack_int4(parts: list[torch.Tensor], head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    key_scales, key_zeros, value_scales, value_zeros, rest, packed_keys, packed_values = parts
    kv_heads = len(packed_keys)
    steps = torch.stack((packed_keys & 15, packed_keys >> 4), dim=3).view(kv_heads, -1, INT4_GROUP_TOKENS, head_dim)
    grouped = torch.addcmul(key_zeros.float(), steps.float(), key_scales.float())
    keys = torch.cat((grouped.view(kv_heads, -1, head_dim), rest.float()), dim=1)
    steps = torch.stack((packed_values & 15, packed_values >> 4), dim=3).flatten(2)[..., :head_dim]
    return keys, torch.addcmul(value_zeros.float(), steps.float(), value_scales.float())


def _asymmetric(numbers: torch.Tensor, dim: int, scales: torch.Tensor, zeros: torch.Tensor) -> torch.Tensor:
    """Steps 0 to 15 above a zero, uint8, of float32; scales and zeros along `dim` are written where they belong."""
    numbers = numbers.clamp(-_LARGEST_FP16, _LARGEST_FP16)
    zeros.copy_(_down(numbers.amin(dim, keepdim=True)))
    scales.copy_(_up((numbers.amax(dim, keepdim=True) - zeros.float()) / _INT4_STEPS))
    return _steps(numbers - zeros.float(), scales).clamp_(0, _INT4_STEPS).to(torch.uint8)


def _steps(numbers: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """To the nearest step; where all are equal to the zero there are no steps."""
    return (numbers / scales.float().masked_fill(scales == 0, 1.0)).round_()


def _up(numbers: torch.Tensor) -> torch.Tensor:
    """The smallest fp16 numbers that are not below these, which are not below zero."""
    nearest = numbers.clamp(max=_LARGEST_FP16).half()
    bits = nearest.view(torch.int16)
    return torch.where((nearest < numbers) & (nearest < _LARGEST_FP16), bits + 1, bits).view(torch.float16)


def _down(numbers: torch.Tensor) -> torch.Tensor:
    """The largest fp16 numbers that are not above these, which are in its range."""
    nearest = numbers.half()
    bits = nearest.view(torch.int16)
    # The order of the bits is that of the numbers above zero, and the other way round below; below zero itself it is 0x8001.
    lower = torch.where(nearest > 0, bits - 1, torch.where(nearest < 0, bits + 1, torch.full_like(bits, -32767)))
    return torch.where(nearest.float() > numbers, lower, bits).view(torch.float16)


_PACK = {"fp32": _pack_plain, "bf16": _pack_plain, "fp8": _pack_fp8, "int8": _pack_int8, "int4": _pack_int4}
_UNPACK = {"fp32": _unpack_plain, "bf16": _unpack_plain, "fp8": _unpack_plain, "int8": _unpack_int8, "int4": _unpack_int4}
