"""Workers, router and an unreliable network under a fake clock, with a KV store that remembers what was written where.

The fake runner computes a token from *all* tokens before it, reading them through the block tables from the fake KV.
A block that was reused too early, a layer that was never copied or a token that was lost therefore changes the output.

`World.records` are what the coordinator of real workers would have noted, for `build_trace`; a tick of the fake clock is
a microsecond there, the trace's finest step.
"""

import heapq
import itertools
import random
from dataclasses import asdict, dataclass, field

from engine.errors import LabError
from engine.kv.blocks import BlockPool
from engine.serving.loop import step
from engine.serving.messages import Ack, Noted, Offer, Part, Return
from engine.serving.nodes import DecodeNode, PrefillNode, Replica, Sent
from engine.serving.policies import Chunked, DecodeOnly, Limits, PrefillOnly, Unified
from engine.serving.request import Request
from engine.serving.router import Capacity, Router
from engine.serving.scheduler import Scheduler

LAYERS = 4
TICK_NS = 1000


def next_token(tokens) -> int:
    """The fake model: depends on every token and its place."""
    value = 7
    for token in tokens:
        value = (value * 31 + token + 1) % 1009
    return value


def expected_output(request: Request) -> list[int]:
    tokens = list(request.prompt)
    for _ in range(request.output_tokens):
        tokens.append(next_token(tokens))
    return tokens[len(request.prompt) :]


@dataclass
class FakeKV:
    """slot -> {layer: (request index, position, token)}"""

    block_tokens: int
    slots: dict[int, dict[int, tuple]] = field(default_factory=dict)

    def slot(self, table, position):
        return table[position // self.block_tokens] * self.block_tokens + position % self.block_tokens

    def write(self, table, position, layers, value):
        cell = self.slots.setdefault(self.slot(table, position), {})
        for layer in layers:
            cell[layer] = value

    def read(self, table, position):
        return self.slots.get(self.slot(table, position), {})


class FakeRunner:
    def __init__(self, worker, rng):
        self.worker, self.rng = worker, rng

    def now_ns(self):
        return self.worker.clock

    def fetch(self, fetch, scheduler):
        world = self.worker.world
        source = world.workers[fetch.source].kv
        mine = scheduler.blocks.table(fetch.index)
        begin = self.worker.clock
        layers = range(fetch.part.first_layer, fetch.part.end_layer)
        for position in range(fetch.tokens):
            cell = source.read(fetch.source_blocks, position)
            for layer in layers:
                self.worker.kv.write(mine, position, [layer], cell.get(layer))
        self.worker.clock += 1 + self.rng.randint(0, world.copy_ns)
        return {
            "type": "fetch",
            "index": fetch.index,
            "source": fetch.source,
            "published_ns": list(fetch.part.published_ns),
            "begin_ns": begin,
            "end_ns": self.worker.clock,
            "layers": len(layers),
            "bytes": fetch.tokens * len(layers),
            "last": fetch.part.token is not None,
        }

    def publish(self, indexes, scheduler, layers):
        sizes = {index: scheduler[index].prefill_end * len(layers) for index in indexes}
        return (self.worker.clock, self.worker.clock), {index: Sent(size, 0, 0.0, 0.0) for index, size in sizes.items()}

    def execute(self, plan, scheduler, on_layers=None):
        begin = self.worker.clock
        sampled = {}
        for half in range(2):
            layers = range(half * LAYERS // 2, (half + 1) * LAYERS // 2)
            for piece in plan.slices:
                sequence, table = scheduler[piece.index], scheduler.blocks.table(piece.index)
                for position in range(piece.start, piece.start + piece.length):
                    value = (piece.index, position, sequence.tokens[position])
                    self.worker.kv.write(table, position, layers, value)
            self.worker.clock += 1 + self.rng.randint(0, self.worker.world.step_ns)
            if on_layers:
                on_layers(layers.start, layers.stop)
        for piece in plan.slices:
            if piece.sample:
                table = scheduler.blocks.table(piece.index)
                sequence = scheduler[piece.index]
                read = []
                for position in range(piece.start + piece.length):
                    cell = self.worker.kv.read(table, position)
                    want = (piece.index, position, sequence.tokens[position])
                    assert cell == {layer: want for layer in range(LAYERS)}, (cell, want)
                    read.append(cell[0][2])
                sampled[piece.index] = next_token(read)
        self.worker.world.on_step(self.worker, plan, sampled)
        return sampled, {
            "type": "step",
            "begin_ns": begin,
            "end_ns": self.worker.clock,
            "slices": [[p.index, p.start, p.length] for p in plan.slices],
            "prefill_tokens": plan.prefill_tokens,
            "decode_tokens": plan.decode_tokens,
            "tokens": [[index, token, 1.0] for index, token in sampled.items()],
        }


class FakeMailbox:
    def __init__(self, worker):
        self.worker = worker

    def send(self, messages, records):
        for record in records:
            self.worker.world.push(self.worker.clock, "record", self.worker.name, record)
        for message in messages:
            self.worker.world.from_worker(self.worker, message)


class Worker:
    def __init__(self, world, name, node, block_tokens):
        self.world, self.name, self.node = world, name, node
        self.kv = FakeKV(block_tokens)
        self.clock = 0
        self.inbox = []
        self.wake_at = None


class World:
    """A discrete-event simulation of one deployment serving a list of (arrival_ns, Request).

    blocks: of each worker; decode_blocks: of each decode worker, if it has others.
    """

    def __init__(
        self,
        schedule,
        arrivals,
        *,
        blocks=16,
        decode_blocks=None,
        block_tokens=4,
        chunk=5,
        workers=(1, 1),
        layerwise=False,
        lease_ns=1000,
        lose_ack=0.0,
        delay_ns=50,
        late_ack_ns=0,
        step_ns=20,
        copy_ns=5,
        seed=0,
        limits=Limits(4, 40),
    ):
        self.rng = random.Random(seed)
        self.copy_ns, self.step_ns = copy_ns, step_ns
        self.lose_ack, self.delay_ns, self.late_ack_ns = lose_ack, delay_ns, late_ack_ns
        self.tokens, self.token_steps, self.refused, self.ended = {}, [], {}, set()
        self.noted = []
        self.records = []
        self.queue, self.count = [], itertools.count()
        self.workers = {}
        self.last_delivery = {}

        def make(name, node_for):
            pool = BlockPool(decode_blocks or blocks if name.startswith("decode") else blocks, block_tokens)
            self.workers[name] = Worker(self, name, node_for(pool), block_tokens)
            return name

        if schedule == "disaggregated":
            entry = [
                make(
                    f"prefill-{i}",
                    lambda pool, i=i: PrefillNode(
                        Scheduler(PrefillOnly(), pool, limits),
                        name=f"prefill-{i}",
                        layers=LAYERS,
                        layerwise=layerwise,
                        lease_ns=lease_ns,
                    ),
                )
                for i in range(workers[0])
            ]
            decode = [
                make(f"decode-{i}", lambda pool: DecodeNode(Scheduler(DecodeOnly(), pool, limits)))
                for i in range(workers[1])
            ]
        else:
            policy = Unified() if schedule == "unified" else Chunked(chunk)
            entry = [
                make(f"engine-{i}", lambda pool: Replica(Scheduler(policy, pool, limits))) for i in range(workers[0])
            ]
            decode = []
        self.router = Router(entry, decode, {name: Capacity(w.node.scheduler.blocks.num_blocks, block_tokens) for name, w in self.workers.items()})
        self.requests = [request for _, request in arrivals]
        self.arrivals = {request.index: at for at, request in arrivals}
        self.block_tokens = block_tokens
        self._note({"type": "start", "at_ns": 0})
        for at, request in arrivals:
            self.push(at, "arrive", None, request)

    def push(self, at, kind, worker, payload=None):
        heapq.heappush(self.queue, (at, next(self.count), kind, worker, payload))

    def run(self, max_events=200_000):
        now = 0
        for _ in range(max_events):
            if not self.queue:
                return self
            now, _, kind, worker, payload = heapq.heappop(self.queue)
            if kind == "arrive":
                self._note({"type": "arrive", "index": payload.index, "at_ns": now})
                try:
                    self._deliver(now, self.router.arrive(payload))
                except LabError as error:
                    self.refused[payload.index] = error.facts
                    self._note({"type": "Refused", "index": payload.index, "error": error.as_dict(), "at_ns": now})
            elif kind == "route":
                self._deliver(now, self.router.handle(worker, payload))
                if not isinstance(payload, (Offer, Part, Ack)):
                    self._note({"type": type(payload).__name__, "at_ns": now, **asdict(payload), "worker": worker})
            elif kind == "record":
                self._note({**payload, "worker": worker})
            elif kind == "message":
                self.workers[worker].inbox.append(payload)
                self._wake(worker, now)
            elif kind == "turn":
                self._turn(self.workers[worker], now)
        raise AssertionError("the simulation does not come to an end")

    def _note(self, record):
        """As the coordinator notes it, with the fake clock's ticks as nanoseconds."""
        for name, value in record.items():
            if name.endswith("_ns"):
                record[name] = [at * TICK_NS for at in value] if isinstance(value, list) else value * TICK_NS
        self.records.append(record)

    def _wake(self, name, now):
        worker = self.workers[name]
        at = max(now, worker.clock)
        if worker.wake_at is None or worker.wake_at > at:
            worker.wake_at = at
            self.push(at, "turn", name)

    def _turn(self, worker, now):
        if worker.wake_at is not None and worker.wake_at > now:
            return
        worker.wake_at = None
        worker.clock = max(worker.clock, now)
        for message in worker.inbox:
            worker.node.receive(message, worker.clock)
        worker.inbox = []
        worked = step(worker.node, FakeRunner(worker, self.rng), FakeMailbox(worker))
        self.check_blocks(worker)
        deadline = worker.node.next_deadline_ns
        if worked:
            self._wake(worker.name, worker.clock)
        elif deadline is not None:
            worker.wake_at = max(deadline, worker.clock)
            self.push(worker.wake_at, "turn", worker.name)

    def _deliver(self, now, addressed):
        """Every worker's messages keep their order (a pipe does), except acknowledgements, which may be late or lost."""
        for name, message in addressed:
            at = now + self.rng.randint(0, self.delay_ns)
            if isinstance(message, Ack):
                if self.rng.random() >= self.lose_ack:
                    self.push(at + self.rng.choice((0, self.late_ack_ns)), "message", name, message)
            else:
                self.last_delivery[name] = at = max(at, self.last_delivery.get(name, 0))
                self.push(at, "message", name, message)

    def from_worker(self, worker, message):
        """Pipes keep order, so messages of one worker are routed in the order sent."""
        if isinstance(message, Noted):
            self.noted.append((worker.name, message))
        elif isinstance(message, Return):
            self.noted.append((worker.name, message))
        self.push(worker.clock, "route", worker.name, message)

    def on_step(self, worker, plan, sampled):
        running = {s.index for s in worker.node.scheduler.running if not s.in_prefill}
        self.token_steps.append((worker.name, running, plan))
        for index, token in sampled.items():
            self.tokens.setdefault(index, []).append((worker.clock, token))

    def check_blocks(self, worker):
        pool = worker.node.scheduler.blocks
        tables = [pool.table(owner) for owner in list(pool._tables)]
        owned = [block for table in tables for block in table]
        assert len(owned) == len(set(owned)), "a block has two owners"
        assert len(owned) + pool.num_free == pool.num_blocks, "blocks leaked"
