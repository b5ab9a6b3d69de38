"""What one worker does with messages and steps, apart from computing: pure state machines, driven by `loop.py`.

    Replica      unified or chunked: a request stays here from prompt to last token
    PrefillNode  computes prompts and their first token, then holds the KV under a lease until it was fetched
    DecodeNode   takes KV in, decodes; gives a sequence back when its KV is lost

Time comes in as `now_ns`; messages to others collect in `outbox`. Nothing here blocks, and nothing imports torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.errors import LabError
from engine.kv.eviction import Full, from_dict
from engine.serving.messages import Ack, Finished, Message, Noted, Offer, Part, Refused, Return, Submit
from engine.serving.policies import StepPlan
from engine.serving.request import Request, Sequence
from engine.serving.scheduler import Scheduler


@dataclass(frozen=True)
class Fetch:
    """Layers of one request to copy from the source's blocks into ours before the step runs."""

    index: int
    attempt: int
    source: str
    source_blocks: tuple[int, ...]
    tokens: int
    part: Part


class Replica:
    """A whole engine: every sequence is prefilled and decoded here."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.outbox: list[Message] = []
        self.last_kv_blocks = 0

    @property
    def next_deadline_ns(self) -> int | None:
        """When something is due even if no message comes."""
        return None

    def receive(self, message: Message, now_ns: int) -> None:
        if isinstance(message, Submit):
            self._submit(message)

    def next_plan(self, now_ns: int) -> StepPlan:
        plan = self.scheduler.next_plan()
        for index in plan.preempt:
            self.outbox.append(Noted("preempted", index, now_ns))
        for index, _ in plan.admit:
            self.outbox.append(Noted("admitted", index, now_ns))
        return plan

    def complete(self, plan: StepPlan, sampled: Mapping[int, int], now_ns: int) -> None:
        for sequence in self.scheduler.complete(plan, sampled):
            self.outbox.append(Finished(sequence.index))

    def _submit(self, message: Submit | Offer) -> bool:
        try:
            self.scheduler.submit(_sequence(message))
        except LabError as error:
            self.outbox.append(Refused(message.index, error.as_dict()))
            return False
        return True


@dataclass
class _Lease:
    attempt: int
    expires_ns: int


class PrefillNode(Replica):
    """The prefill pool's worker. Blocks stay pinned from prefill to Ack, or until the lease ends.

    The lease is a promise with a time on it: before `expires_ns` the blocks are not reused without an Ack; a reader
    that finishes later must throw away what it read. So a lost Ack costs a wait, never a wrong token.
    """

    def __init__(self, scheduler: Scheduler, *, name: str, layers: int, layerwise: bool, lease_ns: int) -> None:
        super().__init__(scheduler)
        self.name = name
        self.layers = layers
        self.layerwise = layerwise
        self.lease_ns = lease_ns
        self.held: dict[int, _Lease] = {}

    @property
    def next_deadline_ns(self) -> int | None:
        """When the next lease ends; the loop must wake then even without a message."""
        return min((lease.expires_ns for lease in self.held.values()), default=None)

    def receive(self, message: Message, now_ns: int) -> None:
        if isinstance(message, Submit):
            # A request that comes back is no longer being read by anybody, so an old pin on it is void.
            self._release(message.index)
            self._submit(message)
        elif isinstance(message, Ack):
            lease = self.held.get(message.index)
            if lease and lease.attempt == message.attempt:
                self._release(message.index)

    def next_plan(self, now_ns: int) -> StepPlan:
        for index, lease in list(self.held.items()):
            if lease.expires_ns <= now_ns:
                self._release(index)
                self.outbox.append(Noted("lease_expired", index, now_ns))
        plan = super().next_plan(now_ns)
        if self.layerwise:
            for index, _ in plan.admit:
                if not _last_token_is_next(self.scheduler[index]):
                    self._offer(self.scheduler[index])
        return plan

    def publish(self, plan: StepPlan, first_layer: int, end_layer: int, published_ns: tuple[int, int]) -> None:
        """Layers of this step's prompts are readable (layer by layer transfer, called while the step runs)."""
        for piece in plan.slices:
            sequence = self.scheduler[piece.index]
            if not _last_token_is_next(sequence):
                self.outbox.append(Part(piece.index, sequence.preemptions, first_layer, end_layer, published_ns))

    def complete(self, plan: StepPlan, sampled: Mapping[int, int], now_ns: int) -> None:
        """As for a replica; then each unfinished sequence is pinned, and its last part (or all of it) made readable."""
        super().complete(plan, sampled, now_ns)
        for piece in plan.slices:
            if piece.index not in self.scheduler:
                continue
            sequence = self.scheduler.detach(piece.index)
            self.held[sequence.index] = _Lease(sequence.preemptions, now_ns + self.lease_ns)
            if not self.layerwise:
                self._offer(sequence)
            self.outbox.append(
                Part(
                    sequence.index,
                    sequence.preemptions,
                    first_layer=self.layers if self.layerwise else 0,
                    end_layer=self.layers,
                    published_ns=(now_ns, now_ns),
                    token=sequence.tokens[-1],
                    lease_expires_ns=now_ns + self.lease_ns,
                )
            )

    def _offer(self, s: Sequence) -> None:
        prefilled = s.tokens[: s.prefill_end]
        blocks = list(self.scheduler.blocks.table(s.index))
        r = s.request
        self.outbox.append(
            Offer(s.index, len(r.prompt), prefilled, r.output_tokens, r.seed, s.preemptions, self.name, blocks)
        )

    def _release(self, index: int) -> None:
        if self.held.pop(index, None):
            self.scheduler.blocks.free(index)


@dataclass
class _Arrival:
    """KV on its way in: the offer, and the parts that may be read but were not yet."""

    offer: Offer
    parts: list[Part] = field(default_factory=list)
    last: Part | None = None


class DecodeNode(Replica):
    """The decode pool's worker: never computes a prompt."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.arrivals: dict[int, _Arrival] = {}

    @property
    def next_deadline_ns(self) -> int | None:
        return min((a.last.lease_expires_ns for a in self.arrivals.values() if a.last), default=None)

    def receive(self, message: Message, now_ns: int) -> None:
        if isinstance(message, Offer):
            if self._submit(message):
                self.arrivals[message.index] = _Arrival(message)
        elif isinstance(message, Part):
            arrival = self.arrivals.get(message.index)
            if arrival and arrival.offer.attempt == message.attempt:
                arrival.parts.append(message)
                if message.token is not None:
                    arrival.last = message

    def next_plan(self, now_ns: int) -> StepPlan:
        for index, arrival in list(self.arrivals.items()):
            if arrival.last and arrival.last.lease_expires_ns <= now_ns:
                self._give_back(index, "lease_expired")
        plan = super().next_plan(now_ns)
        for index in plan.preempt:
            self._give_back(index, "preempted")
        return plan

    def fetches(self) -> list[Fetch]:
        """Parts that can be read now: their sequence has its blocks here."""
        ready = []
        for sequence in self.scheduler.running:
            arrival = self.arrivals.get(sequence.index)
            if arrival:
                o = arrival.offer
                ready += [Fetch(o.index, o.attempt, o.source, tuple(o.blocks), len(o.tokens), p) for p in arrival.parts]
        return ready

    def fetched(self, fetch: Fetch, now_ns: int) -> None:
        """A part was copied. After the last one the sequence may decode, if the lease still held when the copy ended."""
        arrival = self.arrivals[fetch.index]
        arrival.parts.remove(fetch.part)
        if fetch.part.token is None:
            return
        if now_ns >= fetch.part.lease_expires_ns:
            self._give_back(fetch.index, "lease_expired")
            return
        del self.arrivals[fetch.index]
        sequence = self.scheduler[fetch.index]
        sequence.computed = sequence.prefill_end
        sequence.tokens.append(fetch.part.token)
        self.outbox.append(Ack(fetch.index, fetch.attempt))

    def _give_back(self, index: int, reason: str) -> None:
        arrival = self.arrivals.pop(index, None)
        tokens = list(self.scheduler.remove(index).tokens)
        if arrival:  # the token that its prefill made is out already: the user has seen it
            tokens.append(arrival.last.token)
        self.outbox.append(Return(index, tokens, reason))


def _sequence(message: Submit | Offer) -> Sequence:
    prompt = tuple(message.tokens[: message.prompt_tokens])
    eviction = from_dict(message.eviction) if isinstance(message, Submit) else Full()  # pools take no other: see the router
    request = Request(message.index, prompt, message.output_tokens, message.seed, eviction)
    return Sequence(request, list(message.tokens), 0, len(message.tokens), message.attempt)


def _last_token_is_next(sequence: Sequence) -> bool:
    """The token after this prefill is the request's last, so its KV will never be needed elsewhere."""
    return sequence.output_tokens + 1 >= sequence.request.output_tokens
