"""Who runs where: the worker processes of a machine, with the same resources for every schedule.

Two cores serve unified and chunked as one two-thread engine and disaggregated as 1 + 1; two GPUs serve unified as two
replicas and disaggregated as one prefill and one decode GPU. On a single GPU (or a single core) both pools share it:
`shared_device` says so, and so must every page. Pools of several workers take turns on the same processes: each *arrangement*
"p:d" uses the first p prefill and the first d decode workers, and gives each of them its share of the cores. No torch.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

LARGEST_POOL = 4


@dataclass(frozen=True)
class WorkerSpec:
    """One process: `group` is engine, prefill or decode; `cores` are the CPU cores it may run on (empty: any)."""

    name: str
    group: str
    device: str
    threads: int
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Deployment:
    """A model in a number format on a set of workers.

    arrangements: by the name of each ("2:1"), the workers that it uses, with the cores and threads that they have in it.
    """

    model: str
    dtype: str
    workers: tuple[WorkerSpec, ...]
    shared_device: bool
    arrangements: tuple[tuple[str, tuple[WorkerSpec, ...]], ...] = ()

    def entry(self, schedule: str) -> list[WorkerSpec]:
        """Where requests come in under a schedule, or in an arrangement."""
        return self._group("prefill" if has_pools(schedule) else "engine", schedule)

    def decode(self, schedule: str) -> list[WorkerSpec]:
        return self._group("decode", schedule) if has_pools(schedule) else []

    def load(self, worker: WorkerSpec) -> dict:
        """The record at which a worker's process loads the model (`engine.serving.worker`)."""
        of_worker = {"device": worker.device, "threads": worker.threads, "cores": list(worker.cores)}
        return {"type": "load", "model": self.model, "dtype": self.dtype, **of_worker}

    def _group(self, group: str, schedule: str) -> list[WorkerSpec]:
        workers = dict(self.arrangements).get(schedule, self.workers)
        return [worker for worker in workers if worker.group == group]


def ratio_of(arrangement: object) -> tuple[int, int] | None:
    """How many prefill and decode workers "p:d" means, from 1 to LARGEST_POOL each; None for what does not say it."""
    found = re.fullmatch(f"([1-{LARGEST_POOL}]):([1-{LARGEST_POOL}])", arrangement) if isinstance(arrangement, str) else None
    return (int(found[1]), int(found[2])) if found else None


def has_pools(schedule: str) -> bool:
    """Whether prefill and decode are apart under a schedule or in an arrangement."""
    return schedule == "disaggregated" or ratio_of(schedule) is not None


def cpu_deployment(model: str, dtype: str, cores: tuple[int, ...]) -> Deployment:
    """All given cores as one engine, and split in two halves as the pools (the prefill pool takes an odd one)."""
    half = -(-len(cores) // 2)
    prefill, decode = cores[:half], cores[half:] or cores
    return Deployment(
        model,
        dtype,
        (
            WorkerSpec("engine-0", "engine", "cpu", len(cores), cores),
            WorkerSpec("prefill-0", "prefill", "cpu", len(prefill), prefill),
            WorkerSpec("decode-0", "decode", "cpu", len(decode), decode),
        ),
        shared_device=len(cores) == 1,
    )


def cuda_deployment(model: str, dtype: str, num_gpus: int) -> Deployment:
    """One GPU: an engine, and both pools sharing it. Two or more: two replicas, and a pool on each of the first two."""
    gpus = ["cuda:0"] if num_gpus == 1 else ["cuda:0", "cuda:1"]
    engines = [WorkerSpec(f"engine-{i}", "engine", gpu, 1) for i, gpu in enumerate(gpus)]
    pools = [WorkerSpec("prefill-0", "prefill", gpus[0], 1), WorkerSpec("decode-0", "decode", gpus[-1], 1)]
    return Deployment(model, dtype, (*engines, *pools), shared_device=num_gpus == 1)


def pools_deployment(model: str, dtype: str, cores: tuple[int, ...], pools: Iterable[tuple[int, int]]) -> Deployment:
    """The cores as one engine, and as each of some pairs of pools (prefill workers, decode workers).

    Where there is a core for every worker, each has cores of its own, as many as the others or one more. Where there is
    not, they all share all cores, with a thread each: the tokens are as right as ever, and no time says anything.
    """
    arrangements = tuple((f"{p}:{d}", _arranged(p, d, cores)) for p, d in pools)
    # A process starts with all cores and a thread; what it has in an arrangement it is told when that is opened.
    started = {w.name: replace(w, cores=cores, threads=1) for _, workers in arrangements for w in workers}
    engine = WorkerSpec("engine-0", "engine", "cpu", len(cores), cores)
    return Deployment(model, dtype, (engine, *started.values()), len(cores) == 1, arrangements)


def gpu_pools_deployment(model: str, dtype: str, num_gpus: int, pools: Iterable[tuple[int, int]]) -> Deployment:
    """The same with a GPU for each worker, in turn where there are fewer: arrangements with more workers have more GPUs then.

    Unified has a replica on each GPU of the smallest arrangement.
    """
    arrangements = tuple((f"{p}:{d}", tuple(_on_gpu(*name, num_gpus) for name in _names(p, d))) for p, d in pools)
    started = {worker.name: worker for _, workers in arrangements for worker in workers}
    fewest = min((len(workers) for _, workers in arrangements), default=1)
    engines = [WorkerSpec(f"engine-{n}", "engine", f"cuda:{n}", 1) for n in range(min(num_gpus, fewest))]
    return Deployment(model, dtype, (*engines, *started.values()), num_gpus == 1, arrangements)


def _names(prefill: int, decode: int) -> list[tuple[str, int]]:
    return [("prefill", n) for n in range(prefill)] + [("decode", n) for n in range(decode)]


def _arranged(prefill: int, decode: int, cores: tuple[int, ...]) -> tuple[WorkerSpec, ...]:
    names = _names(prefill, decode)
    each, more = divmod(len(cores), len(names))
    workers, begun = [], 0
    for place, (group, number) in enumerate(names):
        size = each + (place < more)
        own = cores[begun : begun + size] if each else cores
        begun += size
        workers.append(WorkerSpec(f"{group}-{number}", group, "cpu", len(own) if each else 1, own))
    return tuple(workers)


def _on_gpu(group: str, number: int, num_gpus: int) -> WorkerSpec:
    """Where a worker is, whatever the arrangement: its process keeps its GPU. Prefill takes them from the first on, decode from
    the last: so no two workers share one in an arrangement that has no more workers than there are GPUs."""
    place = -1 - number if group == "decode" else number
    return WorkerSpec(f"{group}-{number}", group, f"cuda:{place % num_gpus}", 1)
