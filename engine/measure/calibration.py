"""Calibration: what a device can do at most, in a few seconds, kept per device.

    matmul              operations per second of square products, per number format and size
    read_bytes_per_s    memory read once, front to back
    call_overhead_s     what every operation costs beside its work
    copy_bytes_per_s    from process to process through shared memory of the host, one thread

Whoever measures holds the device (`engine.lock`). Torch is imported inside; `stored` needs none.
"""

import hashlib
import json
import os
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from engine.errors import LabError
from engine.lock import device_lock
from engine.measure.clock import utc_now
from engine.measure.copying import copy_bytes_per_s
from engine.measure.device import Device, choose, usable_cores
from engine.measure.limits import call_overhead_s, matmul_rates, read_bytes_per_s
from engine.measure.threads import OPENMP_SETTINGS
from engine.paths import calibrations_dir

VERSION = 1
DTYPES = ("float32", "bfloat16")


def calibrate(device: str, *, progress: Callable[[float], None] = lambda done: None) -> dict:
    """Measure "cpu" or "cuda:0" with the threads that torch has in this process.

    progress(done): the share of the figures that is there. copy_bytes_per_s is None where there is no room for it.
    """
    import torch

    begun = time.perf_counter()
    figures: dict = {"version": VERSION, "device": _device(device).as_dict(), "threads": torch.get_num_threads()}
    figures["matmul"] = {}
    for number, dtype in enumerate(DTYPES):
        progress(number / 5)
        figures["matmul"][dtype] = matmul_rates(device, dtype)
    for number, (name, measure) in enumerate(_FIGURES.items(), start=2):
        progress(number / 5)
        figures[name] = measure(device)
    return {
        **figures,
        "measured_at": utc_now(),
        "versions": {"python": platform.python_version(), "torch": version("torch")},
        "duration_s": round(time.perf_counter() - begun, 3),
    }


def run_calibration(
    device: str = "auto",
    *,
    progress: Callable[..., None] = lambda phase, done, **facts: None,
    wait: bool = True,
) -> dict:
    """Calibrate in this process, with the device to itself: "auto", "cpu" or "cuda".

    progress(phase, done, **facts): phases are waiting and calibrating. Raises LabError("device-unknown", "device-busy",
    "torch-without-cuda").
    """
    chosen = choose(device)
    name = "cpu" if chosen.device_class == "cpu" else "cuda"
    os.environ.update(OPENMP_SETTINGS)
    with device_lock(name, "calibrate", wait=wait, on_wait=lambda holder: progress("waiting", 0.0, holder=holder)):
        import torch

        if name == "cuda" and not torch.cuda.is_available():
            raise LabError("torch-without-cuda", version=torch.__version__)
        torch.set_num_threads(len(usable_cores()) if name == "cpu" else 1)
        torch.set_grad_enabled(False)
        figures = calibrate("cpu" if name == "cpu" else "cuda:0", progress=lambda done: progress("calibrating", done))
        progress("calibrating", 1.0)
        return figures


def report(calibration: dict) -> str:
    """The figures as lines a person reads."""
    device, copied = calibration["device"], calibration["copy_bytes_per_s"]
    lines = [f"{device['name']}, {calibration['threads']} threads, measured in {calibration['duration_s']:.1f} s"]
    for dtype, rates in calibration["matmul"].items():
        sizes = ", ".join(f"{rate['flops_per_s'] / 1e9:.0f} at {rate['n']}" for rate in rates)
        lines.append(f"matmul {dtype}: {best_flops_per_s(calibration, dtype) / 1e9:.0f} GFLOP/s ({sizes})")
    lines.append(f"reading: {calibration['read_bytes_per_s'] / 1e9:.1f} GB/s")
    lines.append(f"a call: {calibration['call_overhead_s'] * 1e6:.2f} us")
    lines.append(f"copying from process to process: {'no room' if copied is None else f'{copied / 1e9:.1f} GB/s'}")
    return "\n".join(lines)


def best_flops_per_s(calibration: dict, dtype: str) -> float:
    """The flat part of the roof for a number format."""
    return max(rate["flops_per_s"] for rate in calibration["matmul"][dtype])


def store(calibration: dict) -> None:
    """Keep it as the device's newest. Raises LabError("store-unwritable" or "data-folder"); the one before stays then."""
    path = _path(calibration["device"])
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        try:
            with unfinished.open("w", encoding="utf-8") as file:
                json.dump(calibration, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise LabError("store-unwritable", path=str(path.parent), why=error.strerror or str(error)) from error


def stored(device: str) -> dict | None:
    """The newest of "cpu" or "cuda:0" on this machine; None without one, or if it is broken or of another version.

    Raises LabError("device-unknown") for a GPU where there is none.
    """
    try:
        found = json.loads(_path(_device(device).as_dict()).read_text(encoding="utf-8"))
        usable = found["version"] == VERSION and _is_whole(found)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if usable else None


def _is_whole(found: dict) -> bool:
    """Whether the numbers that others compute with are all there."""
    numbers = [found[name] for name in ("threads", "read_bytes_per_s", "call_overhead_s")]
    numbers += [best_flops_per_s(found, dtype) for dtype in DTYPES]
    return all(isinstance(number, int | float) and 0 < number < float("inf") for number in numbers)


def _copying(_device: str) -> float | None:
    with suppress(OSError):
        return copy_bytes_per_s()
    return None


_FIGURES = {"read_bytes_per_s": read_bytes_per_s, "call_overhead_s": call_overhead_s, "copy_bytes_per_s": _copying}


def _device(device: str) -> Device:
    return choose("cpu" if device == "cpu" else "cuda")


def _path(device: dict) -> Path:
    """One file for each kind of device; a machine that got another processor or other cores is another one."""
    key = hashlib.sha256(json.dumps(device, sort_keys=True).encode()).hexdigest()[:16]
    return calibrations_dir() / f"{key}.json"
