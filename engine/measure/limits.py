"""What this machine can do at most, measured: the ceilings that speeds are compared with.

Torch is imported inside, so that importing this costs a page nothing.
"""

import time
from collections.abc import Callable

_MATMUL_SIZES = (512, 1024, 2048)
_READ_BYTES = {"cpu": 512 << 20, "cuda": 2 << 30}


def best_seconds(work: Callable[[], object], synchronise: Callable[[], None], repeats: int = 7) -> float:
    """The shortest of some runs after a warm-up: what the machine can do when nothing disturbs it."""
    work()
    synchronise()
    best = float("inf")
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        synchronise()
        best = min(best, time.perf_counter() - begin)
    return best


def matmul_flops_per_s(device: str, dtype: str) -> float:
    """The best rate of square matrix products over several sizes, 2 n^3 operations each."""
    import torch

    rates = []
    for n in _MATMUL_SIZES if device == "cpu" else (4096, 8192):
        a, b = (torch.randn(n, n, device=device).to(getattr(torch, dtype)) for _ in range(2))
        rates.append(2 * n**3 / best_seconds(lambda a=a, b=b: a @ b, synchroniser(device)))
    return max(rates)


def read_bytes_per_s(device: str) -> float:
    """The best rate of reading a tensor far larger than the caches once, front to back (a sum in fp32)."""
    import torch

    kind = "cpu" if device == "cpu" else "cuda"
    values = torch.ones(_READ_BYTES[kind] // 4, device=device)
    return values.numel() * 4 / best_seconds(values.sum, synchroniser(device), repeats=5)


def synchroniser(device: str) -> Callable[[], None]:
    """What to call before reading the clock: nothing on the CPU, a device barrier on a GPU."""
    import torch

    return (lambda: torch.cuda.synchronize(device)) if device != "cpu" else (lambda: None)
