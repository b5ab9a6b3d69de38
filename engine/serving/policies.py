"""The scheduling policies: state in, batch plan out. No torch, no clock, nothing changed here.

A policy sees which sequences wait and run and how many KV blocks are free, and says what the next step (one forward
over one batch) computes. `Scheduler` applies the plan. The same objects are driven by the measured clock here and can
be driven by a projected one.

    Unified     whole prompts first, run to completion; decodes wait (early vLLM, Orca-style admission)
    Chunked     every running decode plus at most `chunk_tokens` of prefill per step (Sarathi-Serve: stall-free batching,
                Agrawal et al. 2024, section 4)
    PrefillOnly the prefill pool of disaggregated serving: Unified's prompts, never a decode (DistServe, Splitwise)
    DecodeOnly  the decode pool: decodes, never a prefill; sequences are let in when their KV fits
"""

from collections.abc import Callable, Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass

from engine.formulas.admission import blocks_for, tokens_to_admit
from engine.serving.request import Sequence


@dataclass(frozen=True)
class Limits:
    """What bounds a batch: sequences in it, prompt tokens in one whole-prompt step (a longer prompt goes alone), and the
    KV tokens that every sequence has blocks for from its start to its end (0: it takes blocks as it grows).

    With reserve_tokens nobody ever grows, so nobody is preempted; 1 reserves what each will need, which no server knows.
    The prefill pool of disaggregated serving has no use for it: nothing grows there.
    """

    max_batch_requests: int = 64
    max_prefill_tokens: int = 8192
    reserve_tokens: int = 0


@dataclass(frozen=True)
class Slice:
    """`length` tokens of one sequence from position `start`; `sample` if the step yields its next token."""

    index: int
    start: int
    length: int
    sample: bool
    decode: bool


@dataclass(frozen=True)
class StepPlan:
    """One step: whom to preempt first, whom to admit (with the KV tokens to allocate), and what to compute."""

    slices: tuple[Slice, ...] = ()
    admit: tuple[tuple[int, int], ...] = ()
    preempt: tuple[int, ...] = ()

    @property
    def prefill_tokens(self) -> int:
        return sum(s.length for s in self.slices if not s.decode)

    @property
    def decode_tokens(self) -> int:
        return sum(s.length for s in self.slices if s.decode)


@dataclass(frozen=True)
class View:
    """What a policy may look at. `waiting` is first come first served, `running` in order of arrival.

    `owned_blocks` tells the blocks that each running sequence (by index) holds.
    """

    waiting: SequenceOf[Sequence]
    running: SequenceOf[Sequence]
    owned_blocks: Mapping[int, int]
    free_blocks: int
    block_tokens: int
    limits: Limits

    def blocks_for(self, tokens: int) -> int:
        return blocks_for(tokens, self.block_tokens)


@dataclass(frozen=True)
class Unified:
    """Prefill first: if prompts wait and fit, the step is those whole prompts; else one token for every running one."""

    def plan(self, view: View) -> StepPlan:
        prompts = _whole_prompts(view, lambda sequence: _kv_to_start(view, sequence))
        if prompts.admit:
            return prompts
        decodes, preempted, _ = _decodes_with_room(view, view.running)
        return StepPlan(tuple(map(_decode, decodes)), preempt=tuple(s.index for s in preempted))


@dataclass(frozen=True)
class Chunked:
    """Decodes always go first and are never cut; what is left of the chunk goes to prefills, the begun one first."""

    chunk_tokens: int = 256

    def plan(self, view: View) -> StepPlan:
        decodes, preempted, free = _decodes_with_room(view, view.running)
        slices = [_decode(s) for s in decodes]
        left = self.chunk_tokens
        for sequence in view.running:
            if sequence.in_prefill and sequence not in preempted and left > 0:
                slices.append(_prefill(sequence, left))
                left -= slices[-1].length
        admit: list[tuple[int, int]] = []
        room = view.limits.max_batch_requests - (len(view.running) - len(preempted))
        # Whoever was just thrown out waits for the next step: letting it in again now would undo the preemption.
        for sequence in view.waiting if not preempted else ():
            tokens = _kv_to_start(view, sequence)
            if left <= 0 or len(admit) >= room or view.blocks_for(tokens) > free:
                break
            free -= view.blocks_for(tokens)
            admit.append((sequence.index, tokens))
            slices.append(_prefill(sequence, left))
            left -= slices[-1].length
        return StepPlan(tuple(slices), tuple(admit), tuple(s.index for s in preempted))


@dataclass(frozen=True)
class PrefillOnly:
    """Whole prompts as Unified takes them. Sequences leave after their first token, so nothing ever decodes here."""

    def plan(self, view: View) -> StepPlan:
        return _whole_prompts(view, lambda sequence: sequence.prefill_end)


@dataclass(frozen=True)
class DecodeOnly:
    """One token for every running sequence. Admission here only gives blocks: the KV comes over the link.

    A sequence is "in prefill" here while its KV is still arriving; it is not preempted then, since the other side
    is still sending.
    """

    def plan(self, view: View) -> StepPlan:
        arrived = [s for s in view.running if not s.in_prefill]
        decodes, preempted, free = _decodes_with_room(view, arrived)
        admit: list[tuple[int, int]] = []
        room = view.limits.max_batch_requests - (len(view.running) - len(preempted))
        for sequence in view.waiting if not preempted else ():
            tokens = _kv_to_start(view, sequence)
            if len(admit) >= room or view.blocks_for(tokens) > free:
                break
            free -= view.blocks_for(tokens)
            admit.append((sequence.index, tokens))
        return StepPlan(tuple(map(_decode, decodes)), tuple(admit), tuple(s.index for s in preempted))


Policy = Unified | Chunked | PrefillOnly | DecodeOnly


def _kv_to_start(view: View, sequence: Sequence) -> int:
    """KV tokens to let a sequence in with: its prefill and, if it goes on, room for the first decode; or what is reserved."""
    return tokens_to_admit(sequence.prefill_end, sequence.request.max_kv_tokens, view.limits.reserve_tokens)


def _whole_prompts(view: View, kv_tokens: Callable[[Sequence], int]) -> StepPlan:
    """Waiting prompts that go together into one step: first come first served, no overtaking."""
    slices: list[Slice] = []
    admit: list[tuple[int, int]] = []
    free, prompt_tokens = view.free_blocks, 0
    for sequence in view.waiting:
        needed = view.blocks_for(kv_tokens(sequence))
        too_many = len(view.running) + len(admit) >= view.limits.max_batch_requests
        too_long = admit and prompt_tokens + sequence.prefill_end > view.limits.max_prefill_tokens
        if too_many or too_long or needed > free:
            break
        free -= needed
        prompt_tokens += sequence.prefill_end
        admit.append((sequence.index, kv_tokens(sequence)))
        slices.append(_prefill(sequence, sequence.prefill_end))
    return StepPlan(tuple(slices), tuple(admit))


def _decodes_with_room(
    view: View, candidates: SequenceOf[Sequence]
) -> tuple[list[Sequence], list[Sequence], int]:
    """The decodes of this step, who must be preempted so that they can grow, and the blocks left.

    A decode at position p needs blocks for p + 1 tokens, or for as many of them as its cache keeps. While the decodes
    ask for more blocks than are free, the newest candidate loses all of its own (it may be one that wanted to grow).
    """
    alive = list(candidates)
    preempted: list[Sequence] = []
    free = view.free_blocks
    while True:
        decodes = [s for s in alive if not s.in_prefill]
        growth = sum(max(0, view.blocks_for(s.request.kv_tokens(s.computed + 1)) - view.owned_blocks[s.index]) for s in decodes)
        if growth <= free:
            return decodes, preempted, free - growth
        newest = alive.pop()
        preempted.append(newest)
        free += view.owned_blocks[newest.index]


def _decode(sequence: Sequence) -> Slice:
    return Slice(sequence.index, sequence.computed, 1, sample=True, decode=True)


def _prefill(sequence: Sequence, budget: int) -> Slice:
    length = min(budget, sequence.prefill_end - sequence.computed)
    ends = sequence.computed + length == sequence.prefill_end
    return Slice(sequence.index, sequence.computed, length, sample=ends, decode=False)
