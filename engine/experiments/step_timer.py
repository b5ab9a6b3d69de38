"""Times single steps of the serving engine, the matrices and the attention apart within the same forward.

A step runs as in serving: a plan of the scheduler, carried out by `TorchRunner` on a paged KV storage, from building the
batch to having the tokens on the host. The same plan can be run again and again, since nothing of it is booked.
"""

import random
from collections.abc import Callable

import torch

from engine.kv.blocks import BlockPool
from engine.kv.storage import KVStorage
from engine.measure.clock import now_ns
from engine.model.linear import Linear
from engine.model.transformer import Attend, Transformer
from engine.serving.policies import DecodeOnly, Limits, StepPlan, Unified
from engine.serving.request import Request, Sequence
from engine.serving.runner import TorchRunner
from engine.serving.scheduler import Scheduler

_PATTERN = 1 << 20


class StepTimer:
    """The steps of one model over one storage. The storage is filled: an untouched cache would be read from nowhere."""

    def __init__(self, model: Transformer, storage: KVStorage, *, seed: int = 0) -> None:
        self.storage = storage
        self.vocab_size = model.config.vocab_size
        self.draw = random.Random(seed)
        self.stamps = _Stamps(storage.memory.device)
        self.runner = TorchRunner(_Watched(model, self.stamps), storage)
        _fill(storage.memory, seed)

    def prepare(self, batch: int, new: int, context: int) -> Callable[[], dict]:
        """What runs the step once: {"seconds", "linear", "attention"}, in seconds.

        batch sequences, each with `new` tokens after `context` cached ones: a whole prompt (context 0), or a decode (new 1).
        Raises LabError("request-never-fits"), or MemoryError if the pool cannot hold the batch.
        """
        plan, scheduler = self._planned(batch, new, context)

        def run() -> dict:
            self.stamps.clear()
            _, record = self.runner.execute(plan, scheduler)
            seconds = (record["end_ns"] - record["begin_ns"]) / 1e9
            return {"seconds": seconds, "linear": self.stamps.seconds("linear"), "attention": self.stamps.seconds("attention")}

        return run

    def _planned(self, batch: int, new: int, context: int) -> tuple[StepPlan, Scheduler]:
        pool = BlockPool(self.storage.num_blocks, self.storage.block_tokens)
        limits = Limits(max_batch_requests=batch, max_prefill_tokens=batch * new)
        scheduler = Scheduler(DecodeOnly() if context else Unified(), pool, limits)
        for index in range(batch):
            scheduler.submit(self._sequence(index, new, context))
        plan = scheduler.next_plan()
        if context:  # it only gave them their blocks: their KV is there already
            plan = scheduler.next_plan()
        if len(plan.slices) < batch:
            raise MemoryError(f"the pool holds {len(plan.slices)} of {batch} sequences")
        return plan, scheduler

    def _sequence(self, index: int, new: int, context: int) -> Sequence:
        tokens = self.draw.choices(range(self.vocab_size), k=context + new)
        if not context:
            return Sequence.begin(Request(index, tuple(tokens), 1))
        return Sequence(Request(index, tuple(tokens[:context]), 2), tokens, computed=context, prefill_end=context)


class _Watched:
    """A transformer whose matrices and attention leave stamps."""

    def __init__(self, model: Transformer, stamps: "_Stamps") -> None:
        self.model, self.stamps, self.rope = model, stamps, model.rope
        for module in model.modules():
            if isinstance(module, Linear):
                # In place of a hook, which costs a short step ten times as much.
                module.forward = stamps.around("linear", module.forward)

    def __call__(self, ids: torch.Tensor, positions: torch.Tensor, attend: Attend, rows: torch.Tensor) -> torch.Tensor:
        return self.model(ids, positions, self.stamps.around("attention", attend), rows)


class _Stamps:
    """When parts of a step began and ended: the clock on the CPU, events in the stream on a GPU."""

    def __init__(self, device: torch.device) -> None:
        self.on_gpu = device.type == "cuda"
        self.pairs: dict[str, list[tuple]] = {}
        self.clear()

    def clear(self) -> None:
        self.pairs = {"linear": [], "attention": []}

    def around(self, part: str, work: Callable) -> Callable:
        """The same, stamped."""

        def stamped(*arguments):
            begin = self._stamp()
            result = work(*arguments)
            self.pairs[part].append((begin, self._stamp()))
            return result

        return stamped

    def seconds(self, part: str) -> float:
        """The sum over a step; on a GPU the step must have ended."""
        if self.on_gpu:
            return sum(begin.elapsed_time(end) for begin, end in self.pairs[part]) / 1e3
        return sum(end - begin for begin, end in self.pairs[part]) / 1e9

    def _stamp(self):
        if not self.on_gpu:
            return now_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event


def _fill(memory: torch.Tensor, seed: int) -> None:
    """Random numbers everywhere: a pattern, repeated, since drawing gigabytes takes longer than measuring."""
    flat = memory.view(-1)
    generator = torch.Generator().manual_seed(seed)
    pattern = torch.randn(min(_PATTERN, flat.numel()), generator=generator).to(memory.device, memory.dtype)
    for start in range(0, flat.numel(), len(pattern)):
        piece = flat[start : start + len(pattern)]
        piece.copy_(pattern[: len(piece)])
