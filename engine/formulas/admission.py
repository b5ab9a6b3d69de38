"""How many requests a pool of KV blocks lets in at once, from their lengths alone.

Two ways to let a request in:

    paged     blocks for its prompt and its first decode; it takes more as it grows (PagedAttention: Kwon et al. 2023,
              arXiv 2309.06180, section 4)
    reserved  blocks for the longest request there may be, kept to its end, as servers did before (ibid., sections 2.3
              and 3.1; "Orca (Max)" in its section 6.1)
"""

from collections.abc import Sequence


def blocks_for(tokens: int, block_tokens: int) -> int:
    """Blocks of `block_tokens` tokens that hold `tokens` tokens (rounded up)."""
    return -(-tokens // block_tokens)


def tokens_to_admit(prefill_tokens: int, max_kv_tokens: int, reserve_tokens: int = 0) -> int:
    """KV tokens that must have blocks before a request may start.

    prefill_tokens: what it has to compute first (its prompt); max_kv_tokens: the most KV it will ever have.
    reserve_tokens: 0 for paged; else every request gets room for so many, or for all of its own if these are more.
    """
    return max(reserve_tokens, max_kv_tokens) if reserve_tokens else min(prefill_tokens + 1, max_kv_tokens)


def first_wave(
    prompt_tokens: Sequence[int],
    output_tokens: Sequence[int],
    blocks: int,
    block_tokens: int,
    max_requests: int,
    reserve_tokens: int = 0,
    max_prefill_tokens: int | None = None,
) -> int:
    """Of requests that all come at once: how many are let in before the first block is given back.

    prompt_tokens, output_tokens: of each request, in order of arrival; nobody overtakes. The last output token's KV is
    never computed. max_requests: the most in one batch. reserve_tokens: see `tokens_to_admit`.

    Prompts are read first (the unified schedule), so nobody grows while others can still be let in, and where it stops
    follows from the prompts alone. Only a request of a single output token gives its blocks back earlier, at the end of
    the step that reads it: then the wave ends with that step. max_prefill_tokens: how many prompt tokens go into one
    step (a longer prompt goes alone); it matters for such requests only. None: all that fit go into one.
    """
    free, admitted, step_tokens, ends_with_step = blocks, 0, 0, False
    for prompt, output in zip(prompt_tokens, output_tokens, strict=True):
        needed = blocks_for(tokens_to_admit(prompt, prompt + output - 1, reserve_tokens), block_tokens)
        if needed > free or admitted >= max_requests:
            break
        if step_tokens and max_prefill_tokens is not None and step_tokens + prompt > max_prefill_tokens:
            if ends_with_step:
                break
            step_tokens = 0
        free -= needed
        admitted += 1
        step_tokens += prompt
        ends_with_step |= output == 1
    return admitted
