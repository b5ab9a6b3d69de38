"""Where a model computes and in which format: what the machine has, unless somebody says otherwise."""

from __future__ import annotations

import pytest
import torch

from engine.errors import LabError
from engine.model import placement
from engine.model.placement import resolve_device, resolve_dtype


def test_the_machine_decides(monkeypatch):
    """bf16 on a GPU and on CPUs that multiply it natively; fp32 where it would be emulated."""
    assert resolve_dtype("cuda", "auto") == torch.bfloat16
    for fast, wanted in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr(placement, "cpu_has_fast_bf16", lambda fast=fast: fast)
        assert resolve_dtype("cpu", "auto") == wanted


def test_what_is_asked_for_is_what_one_gets():
    assert resolve_dtype("cpu", "float32") == torch.float32 and resolve_dtype("cuda", "float16") == torch.float16
    assert resolve_device("cpu") == "cpu"
    assert resolve_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")


def test_a_torch_that_cannot_tell_means_fp32(monkeypatch):
    """Other builds lack the private checks."""
    for check in ("_is_amx_tile_supported", "_is_avx512_bf16_supported"):
        monkeypatch.delattr(torch.cpu, check, raising=False)
    assert resolve_dtype("cpu", "auto") == torch.float32


@pytest.mark.parametrize("name", ["tpu", "cuda:99", "", "CPU", "mps"])
def test_devices_that_are_not_there(name):
    with pytest.raises(LabError) as caught:
        resolve_device(name)
    assert caught.value.code == "device-unknown" and "cpu" in str(caught.value)


def test_unknown_formats():
    with pytest.raises(LabError) as caught:
        resolve_dtype("cpu", "int4")
    assert caught.value.code == "dtype-unknown" and "bfloat16" in str(caught.value)
