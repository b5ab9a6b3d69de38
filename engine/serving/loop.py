"""The serving loop of one worker: messages in, a plan, a step, messages out; until it is told to stop.

The loop knows neither torch nor time: the runner computes and stamps, the mailbox talks. With a fake runner and a
fake clock the same loop runs in tests; with a projected runner it is the simulator.
"""

from typing import Protocol

from engine.serving.messages import Message
from engine.serving.nodes import DecodeNode, Fetch, PrefillNode, Replica, Sent
from engine.serving.policies import StepPlan
from engine.serving.scheduler import Scheduler


class Runner(Protocol):
    """Carries out what the node decides. Times are nanoseconds of one clock for all workers of a host."""

    def now_ns(self) -> int: ...

    def publish(self, indexes: list[int], scheduler: Scheduler, layers: range) -> tuple[tuple[int, int], dict[int, Sent]]:
        """Make layers of some sequences readable for others; from when to when, and what of each."""

    def fetch(self, fetch: Fetch, scheduler: Scheduler) -> dict:
        """Copy KV from the source's pool into ours; returns the trace record, with an "error" if it is not what was sent."""

    def execute(self, plan: StepPlan, scheduler: Scheduler, on_layers=None) -> tuple[dict[int, int], dict]:
        """Compute a step; returns the sampled tokens {index: token} and the trace record.

        on_layers(first_layer, end_layer): called whenever these layers are computed.
        """


class Mailbox(Protocol):
    def receive(self, timeout_s: float | None) -> list[Message] | None:
        """Messages that came; waits up to `timeout_s` (None: until one comes) if there is none. None: stop."""

    def send(self, messages: list[Message], records: list[dict]) -> None: ...


def serve(node: Replica, runner: Runner, mailbox: Mailbox) -> None:
    """Run until the mailbox says stop."""
    timeout_s: float | None = 0.0
    while (messages := mailbox.receive(timeout_s)) is not None:
        for message in messages:
            node.receive(message, runner.now_ns())
        worked = step(node, runner, mailbox)
        timeout_s = 0.0 if worked else _until(node.next_deadline_ns, runner.now_ns())


def step(node: Replica, runner: Runner, mailbox: Mailbox) -> bool:
    """One turn: plan, fetch what arrived, compute, tell. False if there was nothing to do."""
    plan = node.next_plan(runner.now_ns())
    records = []
    if isinstance(node, DecodeNode):
        records += [_fetched(node, runner, fetch) for fetch in node.fetches()]
    if plan.slices:
        held = _kv_in_use(node, runner.now_ns())  # before the step: when it ends, those who are done give their blocks back
        records += _begun(plan, runner.now_ns())
        _tell(node, mailbox, records)  # offers and acknowledgements must not wait for a long step
        on_layers = _publisher(node, runner, plan, mailbox) if isinstance(node, PrefillNode) and node.layerwise else None
        sampled, record = runner.execute(plan, node.scheduler, on_layers)
        records = [*held, record]
        whole = isinstance(node, PrefillNode) and not node.layerwise
        sent = runner.publish(node.leaving(plan), node.scheduler, range(node.layers)) if whole else ()
        node.complete(plan, sampled, runner.now_ns(), *sent)
    worked = bool(plan.slices or plan.admit or plan.preempt or records)
    records += _kv_in_use(node, runner.now_ns())
    _tell(node, mailbox, records)
    return worked


def _fetched(node: DecodeNode, runner: Runner, fetch: Fetch) -> dict:
    """Copy a part; its record, in which a link takes as long as it takes."""
    record = runner.fetch(fetch, node.scheduler)
    begin_ns, end_ns = node.fetched(fetch, runner.now_ns(), record.pop("error", None))
    if node.link:
        record["move_s"] = max(record["move_s"], round((end_ns - begin_ns) / 1e9, 6))
        record["end_ns"] = max(record["end_ns"], end_ns)
    return record


def _begun(plan: StepPlan, now_ns: int) -> list[dict]:
    """A record that a step with a prompt in it begins: whoever watches sees it while it lasts, which may be long."""
    if not plan.prefill_tokens:
        return []
    facts = {"prefill_tokens": plan.prefill_tokens, "decode_tokens": plan.decode_tokens}
    return [{"type": "begun", "at_ns": now_ns, **facts, "slices": [[s.index, s.start, s.length] for s in plan.slices]}]


def _kv_in_use(node: Replica, now_ns: int) -> list[dict]:
    """A record if the blocks in use changed since the last one."""
    in_use = node.scheduler.blocks.num_used
    if in_use == node.last_kv_blocks:
        return []
    node.last_kv_blocks = in_use
    return [{"type": "kv", "at_ns": now_ns, "blocks": in_use}]


def _publisher(node: PrefillNode, runner: Runner, plan: StepPlan, mailbox: Mailbox):
    def on_layers(first_layer: int, end_layer: int) -> None:
        published_ns, sent = runner.publish(node.leaving(plan), node.scheduler, range(first_layer, end_layer))
        node.publish(plan, first_layer, end_layer, published_ns, sent)
        _tell(node, mailbox, [])

    return on_layers


def _tell(node: Replica, mailbox: Mailbox, records: list[dict]) -> None:
    if node.outbox or records:
        mailbox.send(node.outbox, records)
        node.outbox = []


def _until(deadline_ns: int | None, now_ns: int) -> float | None:
    return None if deadline_ns is None else max(0.0, (deadline_ns - now_ns) / 1e9)
