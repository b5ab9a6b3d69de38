"""How large a KV cache is: what every layer keeps of a sequence, in bytes. Pure.

A model's layers fall into groups that keep the same thing:

    Attention   a key and a value per token and KV head     multi-head, grouped-query (Ainslie et al. 2023, arXiv 2305.13245),
                                                            multi-query (Shazeer 2019, arXiv 1911.02150); with a window only
                                                            the last `window` tokens (Beltagy et al. 2020, arXiv 2004.05150)
    Latent      one compressed vector and one rotary key    multi-head latent attention (DeepSeek-V2, arXiv 2405.04434,
                per token, shared by all heads              section 2.1)
    Recurrent   a state of fixed size per sequence          state-space and linear-attention layers (Mamba, arXiv 2312.00752)

What a value takes depends on the layout (KVQuant, arXiv 2401.18079, and KIVI, arXiv 2402.02750, for why keys go per channel
and values per token):

    fp32, bf16, fp8   4, 2, 1 bytes; no scales
    int8              1 byte; a 16-bit scale per token and KV head, for K and for V
    int4              half a byte. Keys per channel over groups of 32 tokens, each with a 16-bit scale and zero; the last
                      tokens that fill no group keep 16-bit keys. Values per token and KV head, each with a scale and a zero
"""

from collections.abc import Iterable
from dataclasses import dataclass

KV_DTYPES = ("fp32", "bf16", "fp8", "int8", "int4")
INT4_GROUP_TOKENS = 32
_BYTES_PER_VALUE = {"fp32": 4, "bf16": 2, "fp8": 1, "int8": 1}
_SCALE = 2  # fp16
_SCALE_AND_ZERO = 4  # fp16 each


@dataclass(frozen=True)
class Attention:
    """Layers that keep K and V of every token, or of the last `window` of them. Dimensions count values per head."""

    layers: int
    kv_heads: int
    key_dim: int
    value_dim: int
    window: int | None = None


@dataclass(frozen=True)
class Latent:
    """Layers that keep rank + rope_dim values per token, whatever the number of heads."""

    layers: int
    rank: int
    rope_dim: int


@dataclass(frozen=True)
class Recurrent:
    """Layers that keep state_values per sequence, whatever its length."""

    layers: int
    state_values: int


Group = Attention | Latent | Recurrent


@dataclass(frozen=True)
class KvBytes:
    """Bytes of keys and values, and of the scales and zeros they need to be read back."""

    payload: int
    scales: int

    @property
    def total(self) -> int:
        return self.payload + self.scales


def kv_bytes(groups: Iterable[Group], tokens: int, dtype: str) -> KvBytes:
    """Of one sequence of so many tokens; recurrent layers add none (see state_bytes).

    Raises ValueError for a dtype that is not one of KV_DTYPES, or fewer tokens than 0.
    """
    if dtype not in KV_DTYPES or tokens < 0:
        raise ValueError(f"no KV cache of {tokens} tokens in {dtype!r}")
    payload = scales = 0
    for group in groups:
        in_one_layer = _of_one_layer(group, tokens, dtype)
        payload += group.layers * in_one_layer.payload
        scales += group.layers * in_one_layer.scales
    return KvBytes(payload, scales)


def held_tokens(group: Group, tokens: int) -> int:
    """How many of a sequence's tokens a layer of the group still holds."""
    if isinstance(group, Recurrent):
        return 0
    window = getattr(group, "window", None)
    return tokens if window is None else min(tokens, window)


def state_bytes(groups: Iterable[Group], dtype: str) -> int:
    """Of one sequence's recurrent states: 2 bytes a value, 4 with fp32. States are not quantised: errors would add up."""
    values = sum(group.layers * group.state_values for group in groups if isinstance(group, Recurrent))
    return values * (4 if dtype == "fp32" else 2)


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, *, bytes_per_value: int) -> int:
    """Bytes of K and V that one token adds to the cache: 2 x layers x KV heads x head_dim x bytes per value.

    KV heads, not query heads: grouped-query attention (Ainslie et al. 2023) keeps fewer of them.
    """
    return 2 * layers * kv_heads * head_dim * bytes_per_value


def _of_one_layer(group: Group, tokens: int, dtype: str) -> KvBytes:
    held = held_tokens(group, tokens)
    if isinstance(group, Recurrent):
        return KvBytes(0, 0)
    if isinstance(group, Latent):  # one head, whose vector is key and value in one
        channels = group.rank + group.rope_dim
        if dtype == "int4":
            return _int4_keys(channels, held)
        return KvBytes(channels * held * _BYTES_PER_VALUE[dtype], 2 * held * _SCALE if dtype == "int8" else 0)
    if dtype == "int4":
        keys, values = _int4_keys(group.key_dim, held), _int4_values(group.value_dim, held)
        return KvBytes(group.kv_heads * (keys.payload + values.payload), group.kv_heads * (keys.scales + values.scales))
    payload = group.kv_heads * (group.key_dim + group.value_dim) * held * _BYTES_PER_VALUE[dtype]
    return KvBytes(payload, 2 * group.kv_heads * held * _SCALE if dtype == "int8" else 0)


def _int4_keys(channels: int, held: int) -> KvBytes:
    """Of one head: whole groups of tokens at half a byte a value, the rest in 16 bits."""
    full_groups, rest = divmod(held, INT4_GROUP_TOKENS)
    packed = full_groups * INT4_GROUP_TOKENS // 2
    return KvBytes(channels * (packed + 2 * rest), channels * full_groups * _SCALE_AND_ZERO)


def _int4_values(channels: int, held: int) -> KvBytes:
    """Of one head: a token's values are packed two to a byte."""
    return KvBytes(held * ((channels + 1) // 2), held * _SCALE_AND_ZERO)
