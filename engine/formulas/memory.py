"""How many requests a device's memory holds, and what limits their decode then. Pure.

    capacity = weights + reserve + requests x (KV of one + recurrent state of one)

The reserve is what a server leaves for activations, the runtime and fragmentation: a share of the capacity, as vLLM's
gpu_memory_utilization (0.9 by default) leaves 10 %. A decode step reads the weights once and every request's KV once, so

    tokens/s <= requests x bandwidth / (weights read + requests x KV of one)     bandwidth limits the speed
    requests <= (capacity - weights - reserve) / bytes of one                    capacity limits the batch

(Pope et al. 2022, arXiv 2211.05102, section 2). Several devices share weights, KV and reading evenly.
"""

from collections.abc import Iterable

from engine.formulas.kv import INT4_GROUP_TOKENS, Attention, Group, Latent, kv_bytes, state_bytes

# A token takes a byte at least, so no memory of less than 35 TB is reached; exact in JavaScript, too.
MOST_TOKENS = 1 << 45


def request_bytes(groups: Iterable[Group], tokens: int, dtype: str) -> int:
    """Everything one sequence of so many tokens keeps: KV with its scales, and recurrent state."""
    groups = tuple(groups)
    return kv_bytes(groups, tokens, dtype).total + state_bytes(groups, dtype)


def room_bytes(capacity_bytes: int, weight_bytes: int, reserve_share: float) -> int:
    """What is left for requests; negative if not even the weights fit."""
    return capacity_bytes - weight_bytes - round(capacity_bytes * reserve_share)


def requests_that_fit(room: int, bytes_per_request: int) -> int:
    """Whole requests in so many bytes of room. bytes_per_request: above 0."""
    return max(0, room) // bytes_per_request


def longest_context(groups: Iterable[Group], dtype: str, room: int, requests: int = 1) -> int | None:
    """The most tokens that so many equal requests may have; 0 if none; None if memory sets no limit.

    None: past every window nothing grows any more. With int4 a request is smallest just when a group of keys is full, so a
    length that fits may have shorter ones below it that do not.
    """
    groups = tuple(groups)

    def fits(tokens: int) -> bool:
        return request_bytes(groups, tokens, dtype) * requests <= room

    if not any(isinstance(g, Latent) or (isinstance(g, Attention) and g.window is None) for g in groups):
        longest_window = max((g.window for g in groups if isinstance(g, Attention)), default=1)
        if fits(longest_window):
            return None
    low, high = 0, MOST_TOKENS // INT4_GROUP_TOKENS  # in whole groups: between these it only grows
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * INT4_GROUP_TOKENS) else (low, middle - 1)
    whole = low * INT4_GROUP_TOKENS
    return next((whole + more for more in range(INT4_GROUP_TOKENS - 1, 0, -1) if fits(whole + more)), whole)


def decode_tokens_per_s(requests: int, weight_bytes_read: int, bytes_per_request: int, bytes_per_s: float) -> float:
    """The most that bandwidth allows: a step makes one token for each request."""
    return requests * bytes_per_s / (weight_bytes_read + requests * bytes_per_request)
