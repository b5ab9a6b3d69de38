"""The scheduler: a queue, the running sequences and a block pool, moved forward by a policy. No torch, no clock.

    submit -> waiting -> (policy admits) -> running -> finished
                 ^                             |
                 +------- preempted -----------+

`next_plan` asks the policy and applies what it says to the blocks; `complete` takes in what the runner computed.
"""

from bisect import insort
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from engine.errors import LabError
from engine.formulas.admission import blocks_for
from engine.kv.blocks import BlockPool
from engine.serving.policies import Limits, Policy, StepPlan, View
from engine.serving.request import Request, Sequence


class Scheduler:
    """Owns the sequences of one worker. All methods are cheap bookkeeping."""

    def __init__(self, policy: Policy, blocks: BlockPool, limits: Limits) -> None:
        self.policy = policy
        self.blocks = blocks
        self.limits = limits
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._by_index: dict[int, Sequence] = {}

    def __getitem__(self, index: int) -> Sequence:
        return self._by_index[index]

    def __contains__(self, index: int) -> bool:
        return index in self._by_index

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    def submit(self, sequence: Sequence) -> None:
        """Queue a sequence; one that was running before (its KV is lost) goes to the front, by arrival.

        Raises LabError("request-never-fits") with the numbers if the whole pool could not hold it.
        """
        refuse_what_never_fits(sequence.request, self.blocks, self.limits.reserve_tokens)
        self._by_index[sequence.index] = sequence
        if sequence.preemptions:
            insort(self.waiting, sequence, key=lambda s: (not s.preemptions, s.index))
        else:
            self.waiting.append(sequence)

    def next_plan(self) -> StepPlan:
        """The next step, with blocks freed for the preempted and allocated for admitted and growing sequences."""
        plan = self.policy.plan(self._view())
        for index in plan.preempt:
            self._preempt(self._by_index[index])
        for index, kv_tokens in plan.admit:
            self._admit(self._by_index[index], kv_tokens)
        for piece in plan.slices:
            request = self._by_index[piece.index].request
            self.blocks.allocate(piece.index, request.kv_tokens(piece.start + piece.length))
        return plan

    def complete(self, plan: StepPlan, sampled: Mapping[int, int]) -> list[Sequence]:
        """Book a computed step and its sampled tokens {index: token}; returns (and drops) the finished sequences."""
        finished = []
        for piece in plan.slices:
            sequence = self._by_index[piece.index]
            sequence.computed += piece.length
            if piece.sample:
                sequence.tokens.append(sampled[piece.index])
                if sequence.finished:
                    finished.append(sequence)
        for sequence in finished:
            self.remove(sequence.index)
        return finished

    def remove(self, index: int) -> Sequence | None:
        """Take a sequence out, wherever it is, and free its blocks. None if it is not here."""
        sequence = self.detach(index)
        self.blocks.free(index)
        return sequence

    def detach(self, index: int) -> Sequence | None:
        """Take a sequence out of queue and batch but leave its blocks owned (a prefill waiting to be fetched)."""
        sequence = self._by_index.pop(index, None)
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        return sequence

    def _view(self) -> View:
        owned = {s.index: len(self.blocks.table(s.index)) for s in self.running}
        return View(self.waiting, self.running, owned, self.blocks.num_free, self.blocks.block_tokens, self.limits)

    def _admit(self, sequence: Sequence, kv_tokens: int) -> None:
        self.waiting.remove(sequence)
        self.blocks.allocate(sequence.index, kv_tokens, may_grow_to=sequence.request.max_kv_tokens)
        insort(self.running, sequence, key=lambda s: s.index)

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.blocks.free(sequence.index)
        sequence.restart()
        self.waiting.appendleft(sequence)


class Pool(Protocol):
    """How large a KV pool is, whoever knows it: the pool itself, or a router that has heard of it."""

    num_blocks: int
    block_tokens: int


def refuse_what_never_fits(request: Request, pool: Pool, reserve_tokens: int = 0) -> None:
    """Raises LabError("request-never-fits") if the empty pool could not hold the request to its last token, or
    LabError("reservation-never-fits") if it could not hold what is reserved for it."""
    tokens = max(request.max_kv_tokens, reserve_tokens)
    needed = blocks_for(tokens, pool.block_tokens)
    if needed > pool.num_blocks:
        raise LabError(
            "request-never-fits" if tokens == request.max_kv_tokens else "reservation-never-fits",
            tokens=tokens,
            needed_blocks=needed,
            total_blocks=pool.num_blocks,
            block_tokens=pool.block_tokens,
        )
