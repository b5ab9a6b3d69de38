"""Ring Attention at one rank: its queries over everybody's keys and values, which come round on torch.distributed.

Liu, Zaharia, Abbeel 2023, arXiv 2310.01889, section 3: while a rank computes with the K and V that it has, it hands them on to
the next rank and receives those of the one before. What blocks of keys give is merged by the online softmax (Milakov and
Gimelshein 2018, arXiv 1805.02867; in blocks: FlashAttention, Dao et al. 2022, arXiv 2205.14135, section 3.1), here by the log
of each block's sum, which the fused kernels give beside their output. Which tokens a rank has, and so which blocks there are,
is in `engine.formulas.ring`.

    join(rank, ranks, ...)                       the ring, over gloo or NCCL
    RingAttention(link, parts)                   the `attend` of a Transformer that computes one rank's tokens
    block_attention, Merged                      one block; the merge, in fp32 whatever the model computes in

Times are clock ns (`engine.measure.clock`); a communication's end is taken by the thread that waits for it, and is not when the
computation asked for it.
"""

import os
import queue
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import psutil
import torch
import torch.distributed as dist

from engine.errors import LabError
from engine.formulas.ring import Block, Piece, blocks, held, source
from engine.measure.clock import now_ns

# A rank may be late by as long as its slowest round takes; that a neighbour has died is noticed at once.
LIMIT_S = 120
# Rows of the plain path at once: its scores are one number per query, key and head.
_PLAIN_ROWS = 512


def block_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention over one block of keys, and the log of the softmax's sum, by which blocks can be merged.

    q [n, heads, head_dim]; k, v [m, kv_heads, head_dim], any strides; causal: n = m, query i sees keys 0 .. i
    -> output [n, heads, head_dim], log-sum-exp of the scaled scores, float32 [n, heads].
    """
    heads_first = [x.transpose(0, 1)[None] for x in (q, k, v)]
    if q.device.type == "cpu" and hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"):
        out, sums = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*heads_first, 0.0, causal)
    elif q.device.type == "cuda" and q.dtype in (torch.bfloat16, torch.float16) and q.shape[-1] % 8 == 0 and q.shape[-1] <= 256:
        group = q.shape[1] // k.shape[1]
        shared = [x.repeat_interleave(group, dim=1) for x in heads_first[1:]]
        out, sums = torch.ops.aten._scaled_dot_product_flash_attention(heads_first[0], *shared, 0.0, causal)[:2]
    else:
        return plain_block_attention(q, k, v, causal=causal)
    return out[0].transpose(0, 1), sums[0].transpose(0, 1)


def plain_block_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in plain float32 products, for devices and formats without a kernel that tells the sum."""
    n, heads, width = q.shape
    m, kv_heads, _ = k.shape
    keys, values = k.float().permute(1, 2, 0), v.float().transpose(0, 1)
    outs, sums = [], []
    for begin in range(0, n, _PLAIN_ROWS):
        rows = q[begin : begin + _PLAIN_ROWS].float()
        r = len(rows)
        grouped = rows.view(r, kv_heads, -1, width).transpose(0, 1).reshape(kv_heads, -1, width) * width**-0.5
        scores = torch.bmm(grouped, keys).view(kv_heads, r, -1, m)
        if causal:
            seen = torch.arange(m, device=q.device) <= torch.arange(begin, begin + r, device=q.device)[:, None]
            scores.masked_fill_(~seen[None, :, None], float("-inf"))
        sums.append(scores.logsumexp(-1).transpose(0, 1).reshape(r, heads))
        read = torch.bmm(scores.softmax(-1).view(kv_heads, -1, m), values)
        outs.append(read.view(kv_heads, r, -1, width).transpose(0, 1).reshape(r, heads, width))
    return torch.cat(outs).to(q.dtype), torch.cat(sums)


class Merged:
    """What n queries have read so far: out float32 [n, heads, head_dim], log_sum float32 [n, heads], -inf before any key.

    The new block's share of all weight is exp(s) / (exp(log_sum) + exp(s)), a sigmoid of the difference: nothing can overflow,
    however large the scores are.
    """

    def __init__(self, n: int, heads: int, head_dim: int, device: torch.device | str = "cpu") -> None:
        self.out = torch.zeros(n, heads, head_dim, dtype=torch.float32, device=device)
        self.log_sum = torch.full((n, heads), float("-inf"), dtype=torch.float32, device=device)

    def add(self, begin: int, end: int, out: torch.Tensor, log_sum: torch.Tensor) -> None:
        """What queries begin .. end read in another block of keys (at least one), and the log of its sum."""
        before = self.log_sum[begin:end]
        self.out[begin:end].lerp_(out.float(), torch.sigmoid(log_sum - before)[..., None])
        before.copy_(torch.logaddexp(before, log_sum))


@dataclass(frozen=True)
class Round:
    """One round of one layer: when its blocks were computed, when the next K and V came (None in the last round), and until
    when the computation waited for them behind its own end."""

    layer: int
    round: int
    pairs: int
    compute_ns: tuple[int, int]
    communication_ns: tuple[int, int] | None
    waited_until_ns: int


@dataclass
class Passed:
    """What one rank has passed on and received so far."""

    sent_bytes: int = 0
    received_bytes: int = 0


class Link:
    """A rank's two neighbours. One exchange at a time: `begin`, then `end`."""

    def __init__(self, rank: int, ranks: int, device: torch.device | str = "cpu", backend: str = "gloo") -> None:
        self.rank, self.ranks, self.device = rank, ranks, torch.device(device)
        self.on_host = backend == "gloo" and self.device.type == "cuda"  # gloo takes no GPU memory
        self.passed = Passed()
        self._under_way: queue.SimpleQueue[tuple[torch.Tensor, torch.Tensor, int]] = queue.SimpleQueue()
        self._ended: queue.SimpleQueue[int | Exception] = queue.SimpleQueue()
        threading.Thread(target=self._exchange_each, daemon=True).start()

    def begin(self, send: torch.Tensor, into: torch.Tensor, tag: int) -> int:
        """Begin to hand `send` on to the next rank and to receive from the one before; returns when. Both are contiguous;
        empty ones are left out, since everybody knows how many tokens the others have."""
        _finish(self.device)  # what is to be sent is really there
        begun = now_ns()
        self.passed.sent_bytes += send.nbytes
        self.passed.received_bytes += into.nbytes
        self._under_way.put((send, into, tag))
        return begun

    def end(self) -> int:
        """Wait until what was begun has ended; returns when it did. Raises LabError("ring-broken")."""
        ended = self._ended.get()
        if isinstance(ended, Exception):
            raise self._broken(ended) from ended
        return ended

    @torch.inference_mode()
    def _exchange_each(self) -> None:
        """The thread that sends and receives: even to begin a transfer takes a while, in which blocks can be computed."""
        stream = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None
        while True:
            some = self._under_way.get()
            try:
                with torch.cuda.stream(stream) if stream else nullcontext():
                    self._exchange(*some)
                    if stream:
                        stream.synchronize()
                self._ended.put(now_ns())
            except Exception as error:  # it is raised where the computation asks
                self._ended.put(error)

    def _exchange(self, send: torch.Tensor, into: torch.Tensor, tag: int) -> None:
        out, landing = (send.cpu(), torch.empty_like(into, device="cpu")) if self.on_host else (send, into)
        following, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
        steps = [dist.P2POp(dist.isend, out, following, tag=tag)] if out.numel() else []
        steps += [dist.P2POp(dist.irecv, landing, before, tag=tag)] if landing.numel() else []
        for work in dist.batch_isend_irecv(steps) if steps else ():
            work.wait()
        if self.on_host:
            into.copy_(landing)

    def _broken(self, error: Exception) -> LabError:
        return LabError("ring-broken", rank=self.rank, why=str(error).splitlines()[0][:200])


def join(rank: int, ranks: int, store: Path, *, device: torch.device | str = "cpu", backend: str = "gloo") -> Link:
    """Meet the other ranks of this host through a file, which may go once all have joined; sockets are on loopback only.

    One ring in a process. Raises LabError("ring-broken") if they do not come.
    """
    loopback = next(name for name, found in psutil.net_if_addrs().items() if any(a.address == "127.0.0.1" for a in found))
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = loopback
    link = Link(rank, ranks, device, backend)
    if link.device.type == "cuda":
        torch.cuda.set_device(link.device)
    try:
        where = dist.FileStore(str(store), ranks)
        dist.init_process_group(backend, store=where, rank=rank, world_size=ranks, timeout=timedelta(seconds=LIMIT_S))
    except RuntimeError as error:
        raise link._broken(error) from error
    meet(link)
    return link


def meet(link: Link) -> None:
    """Return once all ranks have called it: a word goes round the whole ring."""
    word = torch.zeros(1, device=link.device)
    for step in range(link.ranks - 1):
        link.begin(word, heard := torch.empty_like(word), tag=step)
        link.end()
        word = heard
    link.passed = Passed()


@dataclass
class RingAttention:
    """`attend` for the transformer of one rank, whose batch is the tokens of parts[rank], in that order.

    parts: of all ranks, as `formulas.ring.pieces` gives them; causal: else every token sees every other. Afterwards `kv` has the
    rank's share of the cache, one tensor [2, n, kv_heads, head_dim] (keys turned, values) for each layer, and `rounds` what was
    done when. The calls of a layer must meet: every rank makes the same ones in the same order.
    """

    link: Link
    parts: list[tuple[Piece, ...]]
    causal: bool = True
    on_layer: Callable[[int], None] = lambda layer: None
    kv: list[torch.Tensor] = field(default_factory=list)
    rounds: list[Round] = field(default_factory=list)
    buffers: list[torch.Tensor] = field(default_factory=list)
    activation_bytes: int = 0

    def __post_init__(self) -> None:
        self.counts = [held(part) for part in self.parts]
        self.sources = [source(self.link.rank, s, self.link.ranks) for s in range(self.link.ranks)]
        mine = self.parts[self.link.rank]
        self.blocks = [blocks(mine, self.parts[other], causal=self.causal) for other in self.sources]

    def __call__(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q [n, heads, head_dim], k and v [n, kv_heads, head_dim] of this rank's tokens -> [n, heads, head_dim]."""
        link, last = self.link, self.link.ranks - 1
        present = torch.stack((k, v))
        self.kv.append(present)
        merged = Merged(*q.shape, device=q.device)
        for round_, some in enumerate(self.blocks):
            if round_ < last:
                coming = self._landing(present, round_)
                begun = link.begin(present, coming, tag=layer * link.ranks + round_)
            compute_begin = now_ns()
            for block in some:
                self._compute(block, q, k, v, present, merged)
            _finish(q.device)
            compute_end = now_ns()
            moved = (begun, link.end()) if round_ < last else None
            pairs = sum(block.pairs for block in some)
            self.rounds.append(Round(layer, round_, pairs, (compute_begin, compute_end), moved, now_ns()))
            present = coming if round_ < last else present
        self.on_layer(layer)
        return merged.out.to(q.dtype)

    def _compute(self, block: Block, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, present: torch.Tensor, merged: Merged) -> None:
        keys, values = present[:, : block.k_end]
        out, log_sum = block_attention(q[block.q_begin : block.q_end], keys, values, causal=block.diagonal)
        merged.add(block.q_begin, block.q_end, out, log_sum)
        self.activation_bytes = max(self.activation_bytes, bytes_of(q, k, v, out, log_sum, merged.out, merged.log_sum))

    def _landing(self, like: torch.Tensor, round_: int) -> torch.Tensor:
        """Where the K and V of the next round arrive: two buffers by turns, of one size, for all layers."""
        _, _, kv_heads, width = like.shape
        if not self.buffers:
            values = 2 * max(self.counts) * kv_heads * width
            self.buffers = [torch.empty(values, dtype=like.dtype, device=like.device) for _ in range(min(self.link.ranks - 1, 2))]
        n = self.counts[self.sources[round_ + 1]]
        return self.buffers[round_ % 2][: 2 * n * kv_heads * width].view(2, n, kv_heads, width)


def bytes_of(*tensors: torch.Tensor) -> int:
    """The memory behind some tensors, that of views of the same counted once."""
    storages = {storage.data_ptr(): storage.nbytes() for storage in (tensor.untyped_storage() for tensor in tensors)}
    return sum(storages.values())


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
