"""Answers to the quiz of the schedules lesson. How these functions are found and called: answers.py."""

from __future__ import annotations

from engine.formulas.queueing import wait_growth_s

WHOLE = 0  # a chunk sweep's value for the prompt that is not cut

# ---------------------------------------------------------------- the price of cutting: whole_s in seconds, *_ms in milliseconds


def chunked_ttft_s(whole_s: float, chunks: int, reread_ms: float, decode_ms: float) -> float:
    """Seconds to the first token of a prompt that waits for nobody: the uncut prefill, weights and earlier KV read once more
    for each chunk but the first, and decodes that ride along in every chunk."""
    return whole_s + ((chunks - 1) * reread_ms + chunks * decode_ms) / 1000


def chunked_ttft_s_decodes_only(whole_s: float, chunks: int, decode_ms: float) -> float:
    """Without what is read again: as the chapter explains it."""
    return chunked_ttft_s(whole_s, chunks, 0, decode_ms)


def chunked_ttft_s_rereads_only(whole_s: float, chunks: int, reread_ms: float) -> float:
    """Without the decodes: as if the prompt were alone."""
    return chunked_ttft_s(whole_s, chunks, reread_ms, 0)


def chunked_ttft_s_in_proportion(whole_s: float, chunks: int) -> float:
    """As if all of it grew with the number of chunks."""
    return whole_s * chunks


# ---------------------------------------------------------------- a stall in an answer of so many tokens


def tpot_ms(tokens: int, gap_ms: float, stall_ms: float) -> float:
    """Mean gap in milliseconds: n tokens have n - 1 gaps, one of them the stall."""
    return ((tokens - 2) * gap_ms + stall_ms) / (tokens - 1)


def tpot_ms_by_tokens(tokens: int, gap_ms: float, stall_ms: float) -> float:
    """Divided by the tokens in place of the gaps."""
    return tpot_ms(tokens, gap_ms, stall_ms) * (tokens - 1) / tokens


def longest_gap_ms(stall_ms: float) -> float:
    return stall_ms


# ---------------------------------------------------------------- a queue of prompts


def nth_wait_s(nth: int, spacing_s: float, prefill_s: float) -> float:
    """Seconds that the n-th of equal prompts waits before one engine begins with it; the first waits for nobody."""
    return (nth - 1) * wait_growth_s(spacing_s, prefill_s)


def nth_wait_s_counting_first(nth: int, spacing_s: float, prefill_s: float) -> float:
    """As if the first one waited too."""
    return nth * wait_growth_s(spacing_s, prefill_s)


def nth_wait_s_all_at_once(nth: int, prefill_s: float) -> float:
    """As if all had come with the first."""
    return (nth - 1) * prefill_s


def nth_wait_s_of_one(spacing_s: float, prefill_s: float) -> float:
    """What a single arrival adds."""
    return wait_growth_s(spacing_s, prefill_s)


# ---------------------------------------------------------------- read from a chunk sweep, or from an own run


def largest_chunk_within(result: dict, promise_ms: float) -> int | None:
    """Tokens of the largest chunk in whose run no chat waited longer than promised; None if there is none."""
    return max((p["value"] for p in _cut(result) if p["metrics"]["itl_max_s"] * 1000 <= promise_ms), default=None)


def largest_chunk_by_usual_gap(result: dict, promise_ms: float) -> int | None:
    """By the line of the usual gap in place of that of the worst."""
    return max((p["value"] for p in _cut(result) if p["metrics"]["itl_p50_s"] * 1000 <= promise_ms), default=None)


def smallest_chunk(result: dict) -> int | None:
    """Tokens."""
    return min((p["value"] for p in _cut(result)), default=None)


def _cut(result: dict) -> list[dict]:
    return [p for p in result["points"] if p["value"] != WHOLE]
