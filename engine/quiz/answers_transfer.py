"""Answers to the quiz of the transfer lesson. How these functions are found and called: answers.py."""

from __future__ import annotations

from engine import profiles
from engine.formulas import transfer

# ---------------------------------------------------------------- a cache in FP8 over a link: tokens, *_ms in milliseconds


def fp8_there_ms(model: str, tokens: int, link: str, quantise_ms: float, dequantise_ms: float) -> float:
    """Milliseconds until a cache in FP8 is there and whole again: quantised, sent at the link's full rate, dequantised, one after
    another."""
    return quantise_ms + _way_ms(model, tokens, link, "fp8") + dequantise_ms


def fp8_there_ms_way_only(model: str, tokens: int, link: str) -> float:
    """Without the work on both sides: as if half the bytes were half the time."""
    return _way_ms(model, tokens, link, "fp8")


def fp8_there_ms_in_16_bits(model: str, tokens: int, link: str) -> float:
    """The way of the cache as it is, in 16 bits."""
    return _way_ms(model, tokens, link, "bf16")


def fp8_there_ms_bits_as_bytes(model: str, tokens: int, link: str, quantise_ms: float, dequantise_ms: float) -> float:
    """As if a link's Gbit/s were GB/s."""
    return quantise_ms + _way_ms(model, tokens, link, "fp8") / 8 + dequantise_ms


def _way_ms(model: str, tokens: int, link: str, dtype: str) -> float:
    return 1000 * transfer.transfer_s(profiles.model(model).kv_bytes(tokens, dtype).total, profiles.link(link).bytes_per_s)


# ---------------------------------------------------------------- layer by layer: seconds


def left_behind_s(transfer_s: float, prefill_s: float, parts: int) -> float:
    """Seconds from the prefill's end until all is there, if the layers go in so many parts of equal work."""
    return transfer.exposed_s(transfer_s, prefill_s, parts)


def left_behind_s_quick_link(transfer_s: float, parts: int) -> float:
    """The last part alone: as if the link kept up with the prefill."""
    return transfer_s / parts


def left_behind_s_from_begin(transfer_s: float, prefill_s: float) -> float:
    """As if the link could be busy from the prefill's first moment on."""
    return max(0.0, transfer_s - prefill_s)


def left_behind_s_after(transfer_s: float) -> float:
    """All of it behind the prefill."""
    return transfer_s


# ---------------------------------------------------------------- the fewest bytes first


def fewest_bytes_first(model: str = "llama-3.1-8b", tokens: int = 131_072) -> tuple[str, ...]:
    """Formats by the bytes of a cache, scales and zeros with it."""
    found = {dtype: profiles.model(model).kv_bytes(tokens, dtype).total for dtype in ("bf16", "fp8", "int8", "int4")}
    return tuple(sorted(found, key=found.__getitem__))


# ---------------------------------------------------------------- read from a measured transfer


def there_first(result: dict) -> str | None:
    """The format that was there and whole again first, of the longest prompt's cache; None if a second one came within 10 %."""
    rows = result["rows"]
    longest = max(row["tokens"] for row in rows)
    taken = {row["format"]: row["quantise_s"] + row["move_s"] + row["dequantise_s"] for row in rows if row["tokens"] == longest}
    first, second = sorted(taken, key=taken.__getitem__)[:2]
    return first if taken[second] > 1.1 * taken[first] else None
