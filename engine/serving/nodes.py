"""What one worker does with messages and steps, apart from computing: pure state machines, driven by `loop.py`.

    Replica      unified or chunked: a request stays here from prompt to last token
    PrefillNode  computes prompts and their first token, then holds the KV under a lease until it was fetched
    DecodeNode   takes KV in, decodes; gives a sequence back when its KV is lost, ends it when what came is not what was sent

Time comes in as `now_ns`; messages to others collect in `outbox`. Nothing here blocks, and nothing imports torch.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.errors import LabError
from engine.kv.eviction import Full, from_dict
from engine.serving.link import Link
from engine.serving.messages import Ack, Failed, Finished, Message, Noted, Offer, Part, Refused, Return, Submit
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


@dataclass(frozen=True)
class Sent:
    """What a part says of the bytes that it is about: see `Part`."""

    size: int
    crc32: int
    quantise_s: float
    checksum_s: float


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

    def leaving(self, plan: StepPlan) -> list[int]:
        """Of which sequences of this step the KV will be needed elsewhere."""
        return [piece.index for piece in plan.slices if not _last_token_is_next(self.scheduler[piece.index])]

    def publish(
        self, plan: StepPlan, first_layer: int, end_layer: int, published_ns: tuple[int, int], sent: Mapping[int, Sent] | None = None
    ) -> None:
        """Layers of this step's prompts are readable (layer by layer transfer, called while the step runs)."""
        for index in self.leaving(plan):
            attempt = self.scheduler[index].preemptions
            self.outbox.append(Part(index, attempt, first_layer, end_layer, published_ns, **(asdict(sent[index]) if sent else {})))

    def complete(
        self,
        plan: StepPlan,
        sampled: Mapping[int, int],
        now_ns: int,
        published_ns: tuple[int, int] | None = None,
        sent: Mapping[int, Sent] | None = None,
    ) -> None:
        """As for a replica; then each unfinished sequence is pinned, and its last part (or all of it) made readable.

        published_ns, sent: of all of it, where it goes only now.
        """
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
                    published_ns=published_ns or (now_ns, now_ns),
                    token=sequence.tokens[-1],
                    lease_expires_ns=now_ns + self.lease_ns,
                    **(asdict(sent[piece.index]) if sent else {}),
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
    """KV on its way in: the offer, and the parts that may be read but were not yet.

    admitted_ns: since when there is room for it; waits: whether it was told that there is none; layers: how many came; here_ns:
    when the last one is here, once it was copied; error: what is wrong with it.
    """

    offer: Offer
    parts: list[Part] = field(default_factory=list)
    last: Part | None = None
    admitted_ns: int = 0
    waits: bool = False
    layers: int = 0
    here_ns: int | None = None
    error: dict[str, Any] | None = None


class DecodeNode(Replica):
    """The decode pool's worker: never computes a prompt.

    link: an emulated one, over which all parts come, in the order in which they are fetched; a copy that was quicker is held
    back, while others decode. layers: of the model, all of which must come.
    """

    def __init__(self, scheduler: Scheduler, *, link: Link | None = None, layers: int | None = None) -> None:
        super().__init__(scheduler)
        self.link = link
        self.layers = layers
        self.arrivals: dict[int, _Arrival] = {}

    @property
    def next_deadline_ns(self) -> int | None:
        """When a lease ends before its KV was copied, or a copy is here at last."""
        due = [a.last.lease_expires_ns if a.here_ns is None else a.here_ns for a in self.arrivals.values() if a.last]
        return min(due, default=None)

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
            if arrival.here_ns is not None:
                if arrival.here_ns <= now_ns:
                    self._begin(index)
            elif arrival.last and arrival.last.lease_expires_ns <= now_ns:
                self._give_back(index, "lease_expired")
        plan = super().next_plan(now_ns)
        for index, _ in plan.admit:
            if index in self.arrivals:
                self.arrivals[index].admitted_ns = now_ns
        for index in plan.preempt:
            self._give_back(index, "preempted")
        self._note_who_waits(now_ns)
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

    def fetched(self, fetch: Fetch, now_ns: int, error: dict[str, Any] | None = None) -> tuple[int, int]:
        """A part was copied, or found to be wrong (`error`): from when to when it is on the link.

        After the last one the sequence may decode, if the lease still held when the copy ended; with a part that is wrong,
        without one, or if the link cannot bring it before the lease ends, it ends here.
        """
        arrival, part = self.arrivals[fetch.index], fetch.part
        arrival.parts.remove(part)
        arrival.layers += part.end_layer - part.first_layer
        arrival.error = arrival.error or error
        span = self.link.send(max(part.published_ns[1], arrival.admitted_ns), part.size) if self.link else (now_ns, now_ns)
        if part.token is not None:
            self._all_copied(fetch, now_ns, span[1])
        return span

    def _all_copied(self, fetch: Fetch, now_ns: int, due_ns: int) -> None:
        arrival, lease_ns = self.arrivals[fetch.index], fetch.part.lease_expires_ns
        if self.layers is not None and arrival.layers != self.layers and not arrival.error:
            arrival.error = LabError("transfer-cut", found=arrival.layers, expected=self.layers, unit="layers").as_dict()
        if self.link and due_ns >= lease_ns and not arrival.error:
            late_s = round((due_ns - lease_ns) / 1e9, 3)
            arrival.error = LabError("transfer-late", late_s=late_s, bytes_per_s=round(self.link.bytes_per_s)).as_dict()
        if arrival.error:
            self.scheduler.remove(fetch.index)
            del self.arrivals[fetch.index]
            self.outbox += [Failed(fetch.index, arrival.error), Ack(fetch.index, fetch.attempt)]
        elif now_ns >= lease_ns:
            self._give_back(fetch.index, "lease_expired")
        else:
            arrival.here_ns = max(now_ns, due_ns)
            if due_ns <= now_ns:
                self._begin(fetch.index)

    def _note_who_waits(self, now_ns: int) -> None:
        """Back-pressure: their KV stays with the prefill worker until somebody here has finished."""
        for sequence in self.scheduler.waiting:
            arrival = self.arrivals[sequence.index]
            if not arrival.waits:
                arrival.waits = True
                self.outbox.append(Noted("no_room", sequence.index, now_ns))

    def _begin(self, index: int) -> None:
        """All KV of a sequence is here: it may decode, and the other side forget it."""
        arrival, sequence = self.arrivals.pop(index), self.scheduler[index]
        sequence.computed = sequence.prefill_end
        sequence.tokens.append(arrival.last.token)
        self.outbox.append(Ack(index, arrival.offer.attempt))

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
