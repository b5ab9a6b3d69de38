"""Who runs where: the worker processes of a machine, with the same resources for every schedule.

Two cores serve unified and chunked as one two-thread engine and disaggregated as 1 + 1; two GPUs serve unified as two
replicas and disaggregated as one prefill and one decode GPU. On a single GPU (or a single core) both pools share it:
`shared_device` says so, and so must every page. No torch.
"""

from dataclasses import dataclass


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
    """A model in a number format on a set of workers."""

    model: str
    dtype: str
    workers: tuple[WorkerSpec, ...]
    shared_device: bool

    def entry(self, schedule: str) -> list[WorkerSpec]:
        """Where requests come in under a schedule."""
        return self._group("prefill" if schedule == "disaggregated" else "engine")

    def decode(self, schedule: str) -> list[WorkerSpec]:
        return self._group("decode") if schedule == "disaggregated" else []

    def load(self, worker: WorkerSpec) -> dict:
        """The record at which a worker's process loads the model (`engine.serving.worker`)."""
        of_worker = {"device": worker.device, "threads": worker.threads, "cores": list(worker.cores)}
        return {"type": "load", "model": self.model, "dtype": self.dtype, **of_worker}

    def _group(self, group: str) -> list[WorkerSpec]:
        return [worker for worker in self.workers if worker.group == group]


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
