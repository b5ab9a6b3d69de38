"""Keys and values as bytes: as many as the formula says, and back within half a step, whatever the shape and the numbers."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from engine.formulas.kv import Attention, kv_bytes
from engine.kv.quantised import EXACT, FORMATS, layer_bytes, pack, unpack

GROUP, LARGEST_FP8, LARGEST_FP16 = 32, 448.0, 65504.0
QUANTISED = ("fp8", "int8", "int4")
SHAPES = st.tuples(st.integers(1, 4), st.integers(0, 100), st.integers(1, 17))  # kv_heads, tokens, head_dim
FLOATS = st.floats(-1e5, 1e5, width=32)


def drawn(shape, seed=0, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=generator) * scale for _ in range(2))


def there_and_back(keys, values, dtype, out_dtype=torch.float32):
    return unpack(pack(keys, values, dtype), keys.shape[1], keys.shape[0], keys.shape[2], dtype, out_dtype)


def fp16_above(x):
    """The step of a scale: x itself may lie just below the next fp16."""
    return x * (1 + 2**-10) + 2**-24


def bounds(numbers, dtype, *, keys):
    """How far each number may be off, counted anew: half a step of its token or channel, or half a digit."""
    if dtype == "fp32":
        return torch.zeros_like(numbers)
    if dtype == "bf16":
        return numbers.abs() * 2**-8 + 1e-30
    if dtype == "fp8":
        return (numbers.abs() * 2**-4).clamp(min=2.0**-10)
    if dtype == "int8":
        return fp16_above(numbers.abs().amax(-1, keepdim=True) / 127).expand_as(numbers) / 2 * (1 + 1e-4) + numbers.abs() * 1e-6
    if not keys:
        return _half_step(numbers, -1)
    whole = numbers.shape[1] // GROUP * GROUP
    grouped = numbers[:, :whole].reshape(numbers.shape[0], -1, GROUP, numbers.shape[2])
    return torch.cat((_half_step(grouped, 2).reshape(numbers[:, :whole].shape), numbers[:, whole:].abs() * 2**-8 + 1e-30), dim=1)


def _half_step(numbers, dim):
    low, high = numbers.amin(dim, keepdim=True), numbers.amax(dim, keepdim=True)
    below = low.abs() * 2**-10 + 2**-24  # by which the zero may lie lower
    return (fp16_above((high - low + below) / 15) / 2 * (1 + 1e-4) + numbers.abs() * 1e-6).expand_as(numbers)


def holds(keys, values, dtype):
    back = there_and_back(keys, values, dtype)
    for is_key, numbers, found in ((True, keys, back[0]), (False, values, back[1])):
        assert found.shape == numbers.shape and found.isfinite().all()
        off = (found - numbers).abs()
        assert (off <= bounds(numbers, dtype, keys=is_key)).all(), f"{dtype}: {off.max()} off"


@pytest.mark.parametrize("dtype", FORMATS)
@examples(max_examples=60, deadline=None)
@given(shape=SHAPES)
def test_the_bytes_are_those_of_the_formula(dtype, shape):
    """The page counts by the formula: one byte of padding or one scale forgotten and it is wrong for every model."""
    kv_heads, tokens, head_dim = shape
    buffer = pack(*drawn(shape), dtype)
    wanted = kv_bytes([Attention(1, kv_heads, head_dim, head_dim)], tokens, dtype)
    assert buffer.dtype == torch.uint8 and buffer.shape == (wanted.total,) and layer_bytes(tokens, kv_heads, head_dim, dtype) == wanted.total


def test_the_default_model_takes_what_is_written_of_it():
    """11,520 + 360 bytes a token in int8, 5,760 + 1,080 in int4: 30 layers, 3 KV heads of 64."""
    shape = (3, 64, 64)
    found = {dtype: 30 * len(pack(*drawn(shape), dtype)) / 64 for dtype in FORMATS}
    assert found == {"fp32": 46080, "bf16": 23040, "fp8": 11520, "int8": 11880, "int4": 6840}


@pytest.mark.parametrize("dtype", FORMATS)
@examples(max_examples=60, deadline=None)
@given(shape=SHAPES, seed=st.integers(0, 999), scale=st.sampled_from([1e-6, 1e-3, 1.0, 30.0]))
def test_numbers_come_back_within_half_a_step(dtype, shape, seed, scale):
    """A scale of another head, nibbles exchanged, a group's border one token off: each is larger than half a step."""
    holds(*drawn(shape, seed, scale), dtype)


@pytest.mark.parametrize("dtype", ["int8", "int4"])
@examples(max_examples=80, deadline=None)
@given(rows=st.lists(st.lists(FLOATS, min_size=3, max_size=3), min_size=GROUP, max_size=GROUP + 2))
def test_any_numbers_come_back_within_half_a_step(dtype, rows):
    """Zeros and scales rounded to nearest instead of outward would leave the ends of the range outside; fp16's own end too."""
    numbers = torch.tensor(rows).clamp(-LARGEST_FP16, LARGEST_FP16)[None]
    holds(numbers, numbers.flip(1), dtype)


@pytest.mark.parametrize("dtype,own", [("fp32", torch.float32), ("fp32", torch.bfloat16), ("bf16", torch.bfloat16)])
def test_exact_formats_come_back_bit_by_bit(dtype, own):
    """Unified's tokens depend on it; NaN's payload and the sign of zero are bits, too."""
    keys, values = (x.to(own) for x in drawn((2, 37, 5), scale=100.0))
    keys[0, 0, 0], values[0, 0, 0], values[1, 1, 1] = -0.0, float("inf"), torch.finfo(own).tiny / 2
    back = there_and_back(keys, values, dtype, own)
    bits = {torch.float32: torch.int32, torch.bfloat16: torch.int16}[own]
    assert all(torch.equal(a.view(bits), b.contiguous().view(bits)) for a, b in zip((keys, values), back, strict=True))
    assert EXACT[torch.bfloat16] == "bf16" and EXACT[torch.float32] == "fp32"


@pytest.mark.parametrize("dtype", QUANTISED)
def test_zeros_stay_zeros(dtype):
    """A division by a scale of zero makes NaN of them."""
    keys, values = torch.zeros(2, 40, 7), torch.zeros(2, 40, 7)
    back = there_and_back(keys, values, dtype)
    assert torch.equal(back[0], keys) and torch.equal(back[1], values)


def test_constant_channels_come_back_exactly():
    """Nothing lies between the least and the largest: no step, no division by zero, no drift."""
    keys = torch.tensor([-3.5, 0.0, 0.25, 1000.0, -65504.0]).expand(2, 64, 5)
    back = there_and_back(keys, keys.mT.contiguous().mT, "int4")
    assert torch.equal(back[0], keys)
    values = torch.tensor([[2.0], [-7.25], [0.0]]).expand(3, 3, 6)
    assert torch.equal(there_and_back(values, values, "int4")[1], values)


def test_an_outlier_channel_spoils_only_itself():
    """Keys quantised per token would lose all channels beside the large one: that is what going per channel is for."""
    keys, values = drawn((1, 64, 9), seed=3)
    keys[:, :, 4] *= 300.0
    off = (there_and_back(keys, values, "int4")[0] - keys).abs().amax((0, 1))
    others = torch.cat((off[:4], off[5:]))
    assert others.max() < 0.25 and off[4] > 1.0
    per_token = there_and_back(keys, keys, "int4")[1]
    assert (per_token - keys)[:, :, :4].abs().max() > 1.0, "else this test could not tell"


def test_the_tokens_that_fill_no_group_keep_16_bits():
    """The newest tokens matter most; and a group that is not full has no scale of its own."""
    keys, values = drawn((2, GROUP + 5, 6), seed=1)
    back = there_and_back(keys, values, "int4")[0]
    assert torch.equal(back[:, GROUP:], keys[:, GROUP:].bfloat16().float()) and not torch.equal(back[:, :GROUP], keys[:, :GROUP].bfloat16().float())


@pytest.mark.parametrize("dtype", QUANTISED)
def test_huge_numbers_saturate(dtype):
    """A cast alone makes NaN (e4m3 has no infinity) or infinity (fp16 scales), and one of them poisons every token after it."""
    huge = torch.tensor([[3e38, -3e38, 1.0, 449.0, -464.0, float("inf")]]).expand(GROUP, 6)[None]
    keys, values = there_and_back(huge, huge, dtype)
    assert keys.isfinite().all() and values.isfinite().all()
    largest = {"fp8": LARGEST_FP8, "int8": 127 * LARGEST_FP16, "int4": LARGEST_FP16}[dtype]
    for found in (keys[0, 0], values[0, 0]):
        assert found[0] == found[5] == pytest.approx(largest, rel=1e-2) and found[1] == pytest.approx(-largest, rel=1e-2)
    if dtype == "fp8":
        assert keys[0, 0, 2:5].tolist() == [1.0, 448.0, -448.0]


@pytest.mark.parametrize("dtype", FORMATS)
def test_into_a_place_that_is_given(dtype):
    """Layers lie behind each other in memory that others read, at odd addresses too; other strides are how a cache lies."""
    keys, values = (x.transpose(0, 1).contiguous().transpose(0, 1) for x in drawn((3, 45, 5), seed=2))
    wanted = pack(keys, values, dtype)
    size = len(wanted)
    for begin in (0, 3, 8):
        room = torch.full((size + 16,), 7, dtype=torch.uint8)
        place = room[begin : begin + size]
        pack(keys, values, dtype, out=place)
        assert torch.equal(place, wanted) and (room[:begin] == 7).all() and (room[begin + size :] == 7).all()
        back = unpack(place, 45, 3, 5, dtype, torch.float32)
        assert all(torch.equal(a, b) for a, b in zip(back, unpack(wanted, 45, 3, 5, dtype, torch.float32), strict=True))


def test_the_type_that_is_wanted():
    """A bf16 cache must not silently become a float32 one."""
    keys, values = drawn((1, 33, 4))
    for dtype in FORMATS:
        assert {x.dtype for x in there_and_back(keys.bfloat16(), values.bfloat16(), dtype, torch.bfloat16)} == {torch.bfloat16}


def test_what_does_not_fit_is_refused():
    """Read as another length or format the bytes would make numbers, all of them wrong."""
    keys, values = drawn((2, 10, 4))
    buffer = pack(keys, values, "int8")
    for wrong in (lambda: unpack(buffer, 9, 2, 4, "int8", torch.float32), lambda: unpack(buffer[:-1], 10, 2, 4, "int8", torch.float32),
                  lambda: pack(keys, values, "int3"), lambda: pack(keys, values, "fp8", out=buffer)):  # fmt: skip
        with pytest.raises(ValueError):
            wrong()


def test_errors_are_as_small_as_the_format_allows():
    """Within bounds and yet twice as bad as need be: random numbers have the error of a uniform step, s / sqrt(12)."""
    keys, values = drawn((2, 320, 64), seed=9)
    for dtype, steps in (("int8", 254), ("int4", 15)):
        back = there_and_back(keys, values, dtype)[1]
        low, high = values.amin(-1), values.amax(-1)
        span = 2 * values.abs().amax(-1) if dtype == "int8" else high - low
        wanted = math.sqrt(float((span / steps).square().mean()) / 12)
        assert float((back - values).square().mean().sqrt()) == pytest.approx(wanted, rel=0.05)
