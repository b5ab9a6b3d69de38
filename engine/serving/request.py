"""A request as the user sent it, and a sequence as the scheduler sees it. No torch."""

from dataclasses import dataclass

from engine.kv.eviction import Eviction, Full


@dataclass(frozen=True)
class Request:
    """What a user asked for. Output length is fixed (end-of-text is ignored) so that schedules can be compared.

    `eviction` says which tokens' KV is kept, and so how much the request ever owns.
    """

    index: int
    prompt: tuple[int, ...]
    output_tokens: int
    seed: int = 0
    eviction: Eviction = Full()

    @property
    def max_kv_tokens(self) -> int:
        """KV entries when the last token comes out; that last token's own KV is never computed."""
        return self.kv_tokens(len(self.prompt) + self.output_tokens - 1)

    def kv_tokens(self, tokens: int) -> int:
        """KV entries that stand in the cache for the first `tokens` tokens."""
        return self.eviction.slots(tokens)


@dataclass(eq=False)
class Sequence:
    """A request on its way: all tokens so far and how many of them have their KV in the pool.

    `prefill_end` is the number of tokens that must be computed before the next token can be sampled; it is the prompt
    at first, and prompt + tokens so far after a preemption (recompute). While `computed < prefill_end` the sequence is
    in prefill, afterwards it decodes: one token a step, at position `computed`.
    """

    request: Request
    tokens: list[int]
    computed: int = 0
    prefill_end: int = 0
    preemptions: int = 0

    @classmethod
    def begin(cls, request: Request) -> "Sequence":
        return cls(request, list(request.prompt), 0, len(request.prompt))

    @property
    def index(self) -> int:
        return self.request.index

    @property
    def in_prefill(self) -> bool:
        return self.computed < self.prefill_end

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def finished(self) -> bool:
        return self.output_tokens >= self.request.output_tokens

    def restart(self) -> None:
        """Forget the KV: everything so far has to be prefilled again."""
        self.computed = 0
        self.prefill_end = len(self.tokens)
        self.preemptions += 1
