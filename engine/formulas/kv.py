"""How large a KV cache is."""


def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, *, bytes_per_value: int) -> int:
    """Bytes of K and V that one token adds to the cache: 2 x layers x KV heads x head_dim x bytes per value.

    KV heads, not query heads: grouped-query attention (Ainslie et al. 2023) keeps fewer of them.
    """
    return 2 * layers * kv_heads * head_dim * bytes_per_value
