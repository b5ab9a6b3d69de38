"""What machine this is, found out without torch, so that a page can say it at once."""

import os
import platform
import subprocess
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import psutil

from engine.errors import LabError

# More threads than this do not help a model of some hundred million parameters.
_USEFUL_CORES = 8


@dataclass(frozen=True)
class Device:
    """`device_class` is "cpu" or "gpu"; `num_gpus` counts NVIDIA GPUs; `memory_bytes` is the GPU's or the machine's."""

    device_class: str
    name: str
    cores: int
    memory_bytes: int
    fast_bf16: bool
    num_gpus: int = 0

    def as_dict(self) -> dict:
        record = asdict(self)
        record["class"] = record.pop("device_class")
        return record


@cache
def cpu() -> Device:
    """This machine's processor."""
    return Device("cpu", _cpu_name(), len(usable_cores()), psutil.virtual_memory().total, _fast_bf16())


@cache
def gpu() -> Device | None:
    """The NVIDIA GPU that `nvidia-smi` tells of; None without one."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    try:
        out = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True).stdout
        rows = [line.rsplit(",", 1) for line in out.strip().splitlines()]
        name, mebibytes = rows[0][0].strip(), int(float(rows[0][1]))
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return None
    count = _visible(len(rows))
    return Device("gpu", name, len(usable_cores()), mebibytes * 2**20, True, count) if count else None


def _visible(num_gpus: int) -> int:
    """How many GPUs CUDA_VISIBLE_DEVICES leaves; as CUDA does, all from the first "-1" or empty entry on are dropped."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return num_gpus
    entries = [entry.strip() for entry in chosen.split(",")]
    kept = next((i for i, entry in enumerate(entries) if entry in ("", "-1")), len(entries))
    return min(kept, num_gpus)


def choose(device: str = "auto") -> Device:
    """auto: a GPU where there is one. Raises LabError("device-unknown") for anything that is not here."""
    found = gpu() if device in ("auto", "cuda") else None
    if device == "cuda" and found is None:
        raise LabError("device-unknown", device=device, why="nvidia-smi tells of no GPU", known="cpu")
    if device not in ("auto", "cpu", "cuda"):
        raise LabError("device-unknown", device=device, why="no such kind", known="auto, cpu, cuda")
    return found or cpu()


def choose_dtype(dtype: str, device: Device) -> str:
    """auto: bfloat16 on a GPU and on CPUs that compute in it, float32 elsewhere."""
    if dtype not in ("auto", "float32", "bfloat16"):
        raise LabError("dtype-unknown", dtype=dtype, known="auto, float32, bfloat16")
    return ("bfloat16" if device.fast_bf16 else "float32") if dtype == "auto" else dtype


@cache
def usable_cores() -> tuple[int, ...]:
    """The cores this process may use, one per physical core, no more than the container's quota or what is useful."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))
    siblings: dict[str, int] = {}
    for core in allowed:
        siblings.setdefault(_physical(core), core)
    cores = sorted(siblings.values())
    if not hasattr(os, "sched_getaffinity"):
        cores = cores[: psutil.cpu_count(logical=False) or len(cores)]
    count = int(min(len(cores), _USEFUL_CORES, max(1.0, _quota())))
    return tuple(cores[: count if count == 1 else count - count % 2])


def siblings(core: int) -> tuple[int, ...]:
    """The logical CPUs that share a physical core with this one, itself included; only itself where nothing is known."""
    found: list[int] = []
    for part in _physical(core).split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return (core,)
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def _physical(core: int) -> str:
    try:
        path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        return path.read_text().strip()
    except OSError:
        return str(core)


def _quota() -> float:
    """CPUs that a container's quota leaves (cgroup v2); infinite without one."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return float(limit) / float(period)
    except (OSError, ValueError):
        return float("inf")


def _cpu_name() -> str:
    for key in ("model name", "Model"):
        for line in _cpuinfo():
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    if platform.system() == "Darwin":
        try:
            query = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(query, capture_output=True, text=True, timeout=5).stdout.strip() or platform.machine()
        except (OSError, subprocess.SubprocessError):
            pass
    return platform.processor() or platform.machine()


def _fast_bf16() -> bool:
    """x86 CPUs with AMX-BF16 or AVX512-BF16 multiply bfloat16 in hardware; others only convert, which is slower."""
    flags = next((line for line in _cpuinfo() if line.startswith("flags")), "")
    return "amx_bf16" in flags or "avx512_bf16" in flags


@cache
def _cpuinfo() -> tuple[str, ...]:
    try:
        return tuple(Path("/proc/cpuinfo").read_text().splitlines())
    except OSError:
        return ()
