"""The router: which worker gets which request, and who must hear what. Pure: a message in, messages out.

Workers are chosen by least outstanding tokens (prompt tokens still to compute plus output tokens still to make), and among
equals the one that was chosen least often: requests that come one at a time go round.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import LabError
from engine.kv.eviction import Full, as_dict
from engine.serving.messages import Ack, Failed, Finished, Message, Offer, Part, Refused, Return, Submit
from engine.serving.request import Request
from engine.serving.scheduler import refuse_what_never_fits

Addressed = list[tuple[str, Message]]


@dataclass(frozen=True)
class Capacity:
    """A worker's KV pool."""

    num_blocks: int
    block_tokens: int


class Router:
    """`entry` are replicas or prefill workers; `decode` is empty unless serving is disaggregated."""

    def __init__(self, entry: Iterable[str], decode: Iterable[str], capacities: dict[str, Capacity]) -> None:
        self.entry = list(entry)
        self.decode = list(decode)
        self.capacities = capacities
        self.requests: dict[int, Request] = {}
        self.ended: set[int] = set()
        self._left: dict[str, dict[int, int]] = {worker: {} for worker in self.entry + self.decode}
        self._chosen: dict[str, int] = dict.fromkeys(self._left, 0)
        self._entry_of: dict[int, str] = {}
        self._decode_of: dict[int, str] = {}
        self._attempt: dict[int, int] = {}

    def outstanding_tokens(self, worker: str) -> int:
        return sum(self._left[worker].values())

    def arrive(self, request: Request) -> Addressed:
        """A new request.

        Raises LabError("request-never-fits") if some pool could never hold it, and "eviction-between-pools" if prefill
        and decode are apart and its cache evicts: a transfer moves KV by its place in the text, which such a cache
        has given up.
        """
        pools = [self.capacities[worker] for worker in self.entry + self.decode]
        smallest = min(pools, key=lambda pool: pool.num_blocks * pool.block_tokens)
        try:
            if self.decode and request.eviction != Full():
                raise LabError("eviction-between-pools")
            refuse_what_never_fits(request, smallest)
        except LabError:
            self.ended.add(request.index)
            raise
        self.requests[request.index] = request
        self._attempt[request.index] = 0
        return self._enter(request.index, list(request.prompt))

    def computed(self, worker: str, index: int, tokens: int) -> None:
        """A step of `worker` computed `tokens` tokens of a request: that much less is outstanding."""
        if index in self._left[worker]:
            self._left[worker][index] = max(0, self._left[worker][index] - tokens)

    def offered(self, index: int) -> bool:
        """Whether a request's KV was ever offered to a decode worker."""
        return index in self._decode_of

    def handle(self, worker: str, message: Message) -> Addressed:
        """What follows from a worker's message."""
        match message:
            case Offer(index=index):
                target = self._least(self.decode)
                self._decode_of[index] = target
                self._left[target][index] = self.requests[index].output_tokens
                return [(target, message)]
            case Part(index=index, token=token):
                if token is not None:
                    self._left[worker].pop(index, None)
                return [(self._decode_of[index], message)]
            case Ack(index=index):
                return [(self._entry_of[index], message)]
            case Return(index=index, tokens=tokens):
                self._left[worker].pop(index, None)
                self._attempt[index] += 1
                return self._enter(index, tokens)
            case Finished(index=index) | Refused(index=index) | Failed(index=index):
                self.ended.add(index)
                self._left[worker].pop(index, None)
        return []

    def _enter(self, index: int, tokens: list[int]) -> Addressed:
        request = self.requests[index]
        worker = self._least(self.entry)
        self._entry_of[index] = worker
        made = len(tokens) - len(request.prompt)
        stays = not self.decode
        self._left[worker][index] = len(tokens) + (request.output_tokens - made if stays else 1)
        submit = Submit(
            index,
            len(request.prompt),
            tokens,
            request.output_tokens,
            request.seed,
            self._attempt[index],
            as_dict(request.eviction),
        )
        return [(worker, submit)]

    def _least(self, workers: list[str]) -> str:
        worker = min(workers, key=lambda worker: (self.outstanding_tokens(worker), self._chosen[worker]))
        self._chosen[worker] += 1
        return worker
