"""A deployment in one process: the real nodes, router, runner and KV storage, with messages passed by hand.

Tokens can be forced, so that the logits of different schedules can be compared position by position (teacher forcing).
"""

import torch

from engine.kv.blocks import BlockPool
from engine.kv.storage import KVStorage
from engine.serving import runner as runner_module
from engine.serving.loop import step
from engine.serving.nodes import DecodeNode, PrefillNode, Replica
from engine.serving.policies import Chunked, DecodeOnly, Limits, PrefillOnly, Unified
from engine.serving.router import Capacity, Router
from engine.serving.runner import TorchRunner
from engine.serving.scheduler import Scheduler


class _Mailbox:
    def __init__(self):
        self.messages, self.records = [], []

    def send(self, messages, records):
        self.messages += messages
        self.records += records


def serve_in_process(
    model, schedule, requests, *, forced, monkeypatch, tmp_path, chunk=64, blocks=64, block_tokens=16, layerwise=False, mirror=False
):
    """Serve `requests` to the end with the tokens in `forced` {index: [token, ...]}.

    `mirror` publishes through a separate host copy in the other memory order, as a GPU's prefill worker does.
    Returns ({index: [logits row for each output token]}, {index: preemptions}).
    """
    logits_of = {request.index: {} for request in requests}
    preemptions = {request.index: 0 for request in requests}

    def forced_sample(logits, sequences, temperature):
        for row, sequence in zip(logits, sequences, strict=True):
            logits_of[sequence.index][sequence.output_tokens] = row.float().clone()
        return [forced[s.index][s.output_tokens] for s in sequences], [0.0] * len(sequences)

    monkeypatch.setattr(runner_module, "sample", forced_sample)
    limits = Limits()

    device = model.device.type

    def storage(shared_file=None):
        order = False if mirror and shared_file else None
        where = "cpu" if shared_file else device
        return KVStorage(
            model.config, blocks, block_tokens, device=where, dtype=model.dtype, shared_file=shared_file, heads_first=order
        )

    workers = {}
    if schedule == "disaggregated":
        shared = tmp_path / "kv"
        own = storage()
        with shared.open("wb") as file:
            file.truncate(own.memory.numel() * own.memory.element_size())
        source = storage(shared)
        prefill = PrefillNode(
            Scheduler(PrefillOnly(), BlockPool(blocks, block_tokens), limits),
            name="prefill",
            layers=model.config.n_layers,
            layerwise=layerwise,
            lease_ns=10**12,
        )
        decode = DecodeNode(Scheduler(DecodeOnly(), BlockPool(blocks, block_tokens), limits))
        workers["prefill"] = (prefill, TorchRunner(model, storage() if mirror else source, published=source))
        workers["decode"] = (decode, TorchRunner(model, own, sources={"prefill": storage(shared)}))
    else:
        policy = Unified() if schedule == "unified" else Chunked(chunk)
        node = Replica(Scheduler(policy, BlockPool(blocks, block_tokens), limits))
        workers["engine"] = (node, TorchRunner(model, storage()))
    capacity = Capacity(blocks, block_tokens)
    router = Router([n for n in workers if n != "decode"], [n for n in workers if n == "decode"], dict.fromkeys(workers, capacity))

    def deliver(addressed):
        for name, message in addressed:
            workers[name][0].receive(message, 0)

    for request in requests:
        deliver(router.arrive(request))
    for _ in range(10_000):
        if len(router.ended) == len(requests):
            break
        for name, (node, runner) in workers.items():
            mailbox = _Mailbox()
            step(node, runner, mailbox)
            for message in mailbox.messages:
                if getattr(message, "kind", None) == "preempted":
                    preemptions[message.index] += 1
                deliver(router.handle(name, message))
    assert len(router.ended) == len(requests), "the run does not come to an end"
    rows = {i: torch.stack([by_place[k].cpu() for k in sorted(by_place)]) for i, by_place in logits_of.items()}
    return rows, preemptions
