"""Where a model computes, and in which number format.

bf16 keeps fp32's range with 8 bits of precision and moves half the bytes. It
is the format of choice on a GPU; on a CPU only where the CPU multiplies it
natively (AMX or AVX-512 BF16), because elsewhere it is emulated and slower
than fp32.
"""

from __future__ import annotations

import torch

from engine.errors import LabError

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def resolve_device(name: str = "auto") -> str:
    """"auto", "cpu", "cuda" or "cuda:1" -> the device to use ("cuda" if there is one, else "cpu").

    Raises LabError("device-unknown") for one that is not there.
    """
    known = ["cpu"] + [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and torch.cuda.is_available() or name in known:
        return name
    why = "torch finds no CUDA device" if name.startswith("cuda") else "it is neither a CPU nor a CUDA device"
    raise LabError("device-unknown", device=name, why=why, known=", ".join(known))


def resolve_dtype(device: str, name: str = "auto") -> torch.dtype:
    """"auto", "float32", "bfloat16" or "float16" -> the format to compute in on ``device``.

    Raises LabError("dtype-unknown").
    """
    if name == "auto":
        return torch.bfloat16 if device.startswith("cuda") or cpu_has_fast_bf16() else torch.float32
    try:
        return DTYPES[name]
    except KeyError:
        raise LabError("dtype-unknown", dtype=name, known=", ".join(["auto", *DTYPES])) from None


def cpu_has_fast_bf16() -> bool:
    """Whether this CPU multiplies bf16 natively, as far as torch can tell."""
    checks = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, check, lambda: False)() for check in checks)
