"""The numbers that go into the claims' formulas, each with where it is from."""

from __future__ import annotations

from engine.claims.claim import Input, Source
from engine.profiles import DeviceProfile, LinkProfile, ModelProfile, PublishedTable

BF16_BYTES = 2
FP32_BYTES = 4
RESERVE = 0.1
GB = 10**9
# "128K" is this in text A and that in text B; we always write the number of tokens.
TOKENS_A = 128_000
TOKENS_B = 131_072


def said(text: str, symbol: str, value: float, unit: str = "") -> Input:
    """A number that the source text itself gives."""
    return Input(symbol, value, unit, Source("text", text))


def chosen(reason: str, symbol: str, value: float, unit: str = "") -> Input:
    """A number of ours; reason: its key in the pages' words."""
    return Input(symbol, value, unit, Source("chosen", reason))


def bf16() -> Input:
    return chosen("bf16", "b", BF16_BYTES, "B")


def reserve(share: float) -> Input:
    """What is kept free for activations, buffers and fragmentation."""
    return chosen("reserve" if share else "no_reserve", "r", share, "share")


def tokens(text: str, count: int) -> Input:
    return said(text, "L", count, "tokens")


def of_model(model: ModelProfile, symbol: str, value: float, figure: str, unit: str = "") -> Input:
    """figure: the name of the profile's figure that the value is, or comes from."""
    return Input(symbol, value, unit, Source("published", model.sources[figure], model.title))


def layers(model: ModelProfile) -> Input:
    return of_model(model, "n_layers", model.layers, "layers")


def heads(model: ModelProfile) -> Input:
    return of_model(model, "n_heads", model.heads, "heads")


def kv_heads(model: ModelProfile) -> Input:
    return of_model(model, "n_kv", model.kv_heads, "layers")


def head_dim(model: ModelProfile) -> Input:
    return of_model(model, "d_head", model.head_dim, "layers")


def width(model: ModelProfile) -> Input:
    return of_model(model, "d", model.hidden_size, "hidden_size")


def parameters(model: ModelProfile) -> Input:
    return of_model(model, "P", model.parameters, "parameters")


def matrices(model: ModelProfile) -> Input:
    """The parameters that every token is multiplied with."""
    return of_model(model, "N", model.matrix_parameters, "ffn_size")


def kv_shape(model: ModelProfile) -> tuple[Input, ...]:
    """What the KV of one token is computed from."""
    return layers(model), kv_heads(model), head_dim(model), bf16()


def of_device(device: DeviceProfile, symbol: str, value: float, figure: str, unit: str) -> Input:
    return Input(symbol, value, unit, Source("published", device.sources[figure], device.title))


def flops_per_s(device: DeviceProfile) -> Input:
    return of_device(device, "F", device.bf16_flops_per_s, "bf16_flops_per_s", "FLOP/s")


def bytes_per_s(device: DeviceProfile) -> Input:
    return of_device(device, "W", device.memory_bytes_per_s, "memory_bytes_per_s", "B/s")


def nominal_bytes(device: DeviceProfile) -> Input:
    return of_device(device, "M", device.nominal_bytes, "nominal_bytes", "B")


def capacity_bytes(device: DeviceProfile) -> Input:
    """What the driver reports; what the device is sold as where nobody wrote that down."""
    figure = "usable_bytes" if device.usable_bytes else "nominal_bytes"
    return of_device(device, "M", device.capacity_bytes, figure, "B")


def of_link(link: LinkProfile) -> Input:
    """What goes over it in one direction."""
    return Input("W_link", link.bytes_per_s, "B/s", Source("published", link.sources["bytes_per_s"], link.title))


def of_table(table: PublishedTable, symbol: str, value: float, unit: str, model: str = "") -> Input:
    """A figure that a paper's table prints, or that comes from one; model: whose it is, where the table has several."""
    title = f"{table.title}, {model}" if model else table.title
    return Input(symbol, value, unit, Source("published", table.source, title))
