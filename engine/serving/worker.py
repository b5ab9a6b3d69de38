"""A worker process: one model on one device, serving one session after another.

Started as `python -m engine.serving.worker`. JSON lines on stdin and stdout:

    {"type": "load", "model", "device", "dtype", "threads", "cores"}  ->  {"type": "loaded", ...}
    {"type": "ping"}                                                  ->  {"type": "pong", "now_ns"}
    {"type": "open", "role", ...}                                     ->  {"type": "opened"}
    messages of `messages.py`                                         ->  messages and trace records
    {"type": "close"}                                                 ->  {"type": "closed"}

The process ends when stdin ends, even in the middle of a step: whoever started it is gone then. It ignores Ctrl-C,
which reaches the whole foreground group; the parent decides.
"""

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from engine.errors import LabError
from engine.measure.clock import now_ns

# On a busy machine the pages of a class answer at once and the measurement takes longer, which it notices and says. On
# a quiet one it changes nothing.
YIELDING = 5


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Pipe()
    worker: Worker | None = None

    def answer(record: dict) -> None:
        nonlocal worker
        match record["type"]:
            case "load":
                worker = Worker(record)
                pipe.write({"type": "loaded", **worker.describe()})
            case "ping":
                pipe.write({"type": "pong", "now_ns": now_ns()})
            case "open":
                pipe.closing.clear()
                worker.serve(record, pipe)
                pipe.write({"type": "closed"})
            case "close":
                pipe.write({"type": "closed"})
            case other:
                raise ValueError(f"a record of type {other!r} outside a session")

    answer_all(pipe, answer)


def answer_all(pipe: "Pipe", answer: Callable[[dict], None]) -> None:
    """Answer one record after another for good. What fails is told as {"type": "failed", "error"}."""
    while True:
        record = pipe.inbox.get()
        try:
            answer(record)
        except LabError as error:
            pipe.write({"type": "failed", "error": error.as_dict()})
        except Exception as error:  # a bug must reach the user as a failed job, never as a silent worker
            traceback.print_exc()
            why = f"{type(error).__name__}: {error}"
            pipe.write({"type": "failed", "error": LabError("worker-error", why=why).as_dict()})


class Pipe:
    """stdin and stdout as records. A thread reads, so that a close or the parent's end is noticed during a step."""

    def __init__(self) -> None:
        # Libraries print to stdout; keep the real one for records and send theirs to stderr.
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self.inbox: queue.SimpleQueue[dict] = queue.SimpleQueue()
        self.closing = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def write(self, *records: dict) -> None:
        self.write_lines([json.dumps(record, separators=(",", ":")) for record in records])

    def write_lines(self, lines: list[str]) -> None:
        try:
            self._out.write("".join(line + "\n" for line in lines))
            self._out.flush()
        except BrokenPipeError:
            os._exit(1)

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            try:
                record = json.loads(line)
                if record["type"] == "close":
                    self.closing.set()
            except (ValueError, TypeError, KeyError):  # whoever wrote this is broken: better to end than to be deaf
                print(f"not a record: {line[:80]!r}", file=sys.stderr, flush=True)
                os._exit(2)
            self.inbox.put(record)
        os._exit(0)


class Worker:
    """The loaded model and what a session needs.

    settings: of the record "load"; "once" is for a process that computes a few long steps and ends: it neither lays the
    weights out for decoding nor warms up, which take longer than they save it. on_import: called when torch is there and the
    model is about to be loaded.
    """

    def __init__(self, settings: dict, on_import: Callable[[], None] = lambda: None) -> None:
        cores = settings.get("cores")
        if cores and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, cores)  # before torch starts its threads, which inherit it
        os.nice(YIELDING)  # for good: a worker has no other work
        import torch

        from engine.model.load import load_model

        on_import()
        once = settings.get("once", False)
        torch.set_num_threads(settings["threads"])
        torch.set_grad_enabled(False)
        self.device = settings["device"]
        if self.device.startswith("cuda") and not torch.cuda.is_available():
            raise LabError("torch-without-cuda", version=torch.__version__)
        self.dtype = getattr(torch, settings["dtype"])
        begin = now_ns()
        self.loaded = load_model(settings["model"], device=self.device, dtype=self.dtype, pack=not once)
        self.load_s = (now_ns() - begin) / 1e9
        if not once:
            self._warm_up()

    def describe(self) -> dict:
        import torch

        return {
            "pid": os.getpid(),
            "load_s": round(self.load_s, 3),
            "threads": torch.get_num_threads(),
            "torch": torch.__version__,
            "device_name": torch.cuda.get_device_name() if self.device.startswith("cuda") else None,
        }

    def serve(self, settings: dict, pipe: Pipe) -> None:
        """One session: build pool and node, run the loop until closed."""
        import torch

        from engine.serving.loop import serve
        from engine.serving.runner import StepCancelled

        node, runner = self._session(settings, pipe.closing.is_set)
        pipe.write({"type": "opened"})
        try:
            serve(node, runner, _Mailbox(pipe))
        except StepCancelled:
            while pipe.inbox.get()["type"] != "close":
                pass
        finally:
            del node, runner
            if self.device.startswith("cuda"):
                torch.cuda.empty_cache()  # the next schedule's workers share this GPU

    def _session(self, settings: dict, cancelled: Callable[[], bool]):
        from engine.kv.blocks import BlockPool
        from engine.kv.storage import KVStorage
        from engine.serving.link import Link
        from engine.serving.nodes import DecodeNode, PrefillNode, Replica
        from engine.serving.policies import Chunked, DecodeOnly, Limits, PrefillOnly, Unified
        from engine.serving.runner import TorchRunner
        from engine.serving.scheduler import Scheduler
        from engine.serving.staging import Staging

        self._compute_on(settings["cores"], settings["threads"])
        num_blocks, block_tokens = settings["num_blocks"], settings["block_tokens"]
        limits = Limits(settings["max_batch_requests"], settings["max_prefill_tokens"], settings["reserve_tokens"])
        config = self.loaded.config
        on_cpu = self.device == "cpu"

        def storage(device: str, num_blocks: int, shared_file: str | None = None) -> KVStorage:
            path = Path(shared_file) if shared_file else None
            return KVStorage(
                config,
                num_blocks,
                block_tokens,
                device=device,
                dtype=self.dtype,
                shared_file=path,
                heads_first=on_cpu,
            )

        def between(num_blocks: int, shared_file: str) -> KVStorage | Staging:
            if kv_format:
                return Staging(Path(shared_file), num_blocks, settings["shared_bytes_per_block"])
            return storage("cpu", num_blocks, shared_file)

        published, sources = None, {}
        shared_file, kv_format = settings.get("shared_file"), settings["kv_format"]
        in_place = on_cpu and not kv_format
        own = storage(self.device, num_blocks, shared_file if in_place else None)
        blocks = BlockPool(num_blocks, block_tokens)  # after the tensors: it is they that tell when a budget is absurd
        match settings["role"]:
            case "unified":
                node = Replica(Scheduler(Unified(), blocks, limits))
            case "chunked":
                node = Replica(Scheduler(Chunked(settings["chunk_tokens"]), blocks, limits))
            case "prefill":
                published = own if in_place else between(num_blocks, shared_file)
                node = PrefillNode(
                    Scheduler(PrefillOnly(), blocks, limits),
                    name=settings["name"],
                    layers=config.n_layers,
                    layerwise=settings["layerwise"],
                    lease_ns=settings["lease_ns"],
                )
            case "decode":
                for name, source in settings["sources"].items():
                    sources[name] = between(source["num_blocks"], source["shared_file"])
                rate = settings["link_bytes_per_s"]
                link = Link(rate) if rate else None
                node = DecodeNode(Scheduler(DecodeOnly(), blocks, limits), link=link, layers=config.n_layers)
        runner = TorchRunner(
            self.loaded.transformer,
            own,
            published=published,
            sources=sources,
            kv_format=kv_format,
            temperature=settings["temperature"],
            cancelled=cancelled,
        )
        return node, runner

    def _compute_on(self, cores: list[int], threads: int) -> None:
        """What this session has of the machine: another arrangement of the pools gives this process another share."""
        import torch

        torch.set_num_threads(threads)
        if cores and hasattr(os, "sched_setaffinity"):
            for thread in Path("/proc/self/task").iterdir():  # those of earlier sessions, too
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), cores)

    def _warm_up(self) -> None:
        """First calls pay for code paths and thread pools: a prompt, a chunk and a batch of decodes, thrown away."""
        from engine.kv.blocks import BlockPool
        from engine.kv.storage import KVStorage
        from engine.serving.policies import Chunked, Limits
        from engine.serving.request import Request, Sequence
        from engine.serving.runner import TorchRunner
        from engine.serving.scheduler import Scheduler

        pool = BlockPool(2, 256)
        storage = KVStorage(self.loaded.config, 2, 256, device=self.device, dtype=self.dtype)
        runner = TorchRunner(self.loaded.transformer, storage)
        scheduler = Scheduler(Chunked(96), pool, Limits())
        for index, length in enumerate((150, 8)):
            scheduler.submit(Sequence.begin(Request(index, tuple(range(length)), 4)))
        while not scheduler.idle:
            plan = scheduler.next_plan()
            sampled, _ = runner.execute(plan, scheduler)
            scheduler.complete(plan, sampled)


class _Mailbox:
    """Messages of the session that runs now."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def receive(self, timeout_s: float | None) -> list | None:
        from engine.serving.messages import decode_all

        messages = []
        try:
            record = self.pipe.inbox.get(block=timeout_s != 0.0, timeout=timeout_s or None)
            while True:
                if record["type"] == "close":
                    return None
                if record["type"] == "ping":
                    self.pipe.write({"type": "pong", "now_ns": now_ns()})
                messages += decode_all(record)
                record = self.pipe.inbox.get_nowait()
        except queue.Empty:
            return messages

    def send(self, messages: list, records: list[dict]) -> None:
        from engine.serving.messages import encode

        lines = [json.dumps(record, separators=(",", ":")) for record in records]
        self.pipe.write_lines(lines + [encode(message) for message in messages])


if __name__ == "__main__":
    main()
