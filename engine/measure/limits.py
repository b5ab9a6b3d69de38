"""What this machine can do at most, measured: the ceilings that speeds are compared with.

Torch is imported inside, so that importing this costs a page nothing.
"""

import time
from collections.abc import Callable

_MATMUL_SIZES = {"cpu": (256, 512, 1024, 2048), "cuda": (1024, 2048, 4096, 8192)}
_READ_BYTES = {"cpu": 512 << 20, "cuda": 2 << 30}
_CALLS = {"cpu": 2000, "cuda": 500}
# Enough for a best of seven on what measures quickly; a slow machine still gets through in seconds.
_ENOUGH_S = 0.4
# A product that would take longer is left out: the smaller ones have reached the machine's rate by then.
_LONGEST_PRODUCT_S = 0.8


def best_seconds(work: Callable[[], object], synchronise: Callable[[], None], repeats: int = 7) -> float:
    """The shortest of some runs after a warm-up: what the machine can do when nothing disturbs it.

    At least two runs; no more than `repeats`, and no more once they took long enough together.
    """
    work()
    synchronise()
    best, begun = float("inf"), time.perf_counter()
    for number in range(repeats):
        begin = time.perf_counter()
        if number >= 2 and begin - begun > _ENOUGH_S:
            break
        work()
        synchronise()
        best = min(best, time.perf_counter() - begin)
    return best


def matmul_rates(device: str, dtype: str) -> list[dict]:
    """[{"n", "flops_per_s"}]: the rate of square matrix products by size, 2 n^3 operations each; sizes that this device
    takes too long for are left out.

    By the quicker of torch's own product and the engine's (`engine.model.linear`): on a CPU they are different libraries,
    and either may be ahead.
    """
    import torch

    from engine.model.linear import Linear

    rates = []
    for n in _MATMUL_SIZES[_kind(device)]:
        a, b = (torch.randn(n, n, device=device).to(getattr(torch, dtype)) for _ in range(2))
        products = [lambda a=a, b=b: a @ b]
        if device == "cpu":
            matrix = Linear(b)
            matrix.pack()
            products.append(lambda a=a, matrix=matrix: matrix(a))
        seconds = min(best_seconds(product, synchroniser(device)) for product in products)
        rates.append({"n": n, "flops_per_s": 2 * n**3 / seconds})
        if 2**3 * seconds > _LONGEST_PRODUCT_S:  # the next one is twice as wide
            break
    return rates


def matmul_flops_per_s(device: str, dtype: str) -> float:
    """The best of these rates."""
    return max(rate["flops_per_s"] for rate in matmul_rates(device, dtype))


def read_bytes_per_s(device: str) -> float:
    """The best rate of reading a tensor far larger than the caches once, front to back (a sum in fp32)."""
    import torch

    values = torch.ones(_READ_BYTES[_kind(device)] // 4, device=device)
    return values.numel() * 4 / best_seconds(values.sum, synchroniser(device), repeats=5)


def call_overhead_s(device: str) -> float:
    """Seconds per call of an operation that has next to nothing to do, in a row of calls: what a step pays for each."""
    import torch

    values, calls = torch.zeros(8, device=device), _CALLS[_kind(device)]

    def call() -> None:
        for _ in range(calls):
            values.add_(1.0)

    return best_seconds(call, synchroniser(device), repeats=5) / calls


def synchroniser(device: str) -> Callable[[], None]:
    """What to call before reading the clock: nothing on the CPU, a device barrier on a GPU."""
    import torch

    return (lambda: torch.cuda.synchronize(device)) if device != "cpu" else (lambda: None)


def _kind(device: str) -> str:
    return "cpu" if device == "cpu" else "cuda"
