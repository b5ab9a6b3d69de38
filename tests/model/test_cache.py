"""The dequantised copy: made once, whole or not at all, and never trusted blindly."""

from __future__ import annotations

import os
from collections import namedtuple

import pytest
import torch

from engine.errors import LabError
from engine.model import cache as cache_module
from engine.model import load as load_module
from engine.model.config import ModelConfig
from engine.model.load import load_model
from tests.model.checkpoints import SETTINGS, tensors_of, write_gguf
from tests.model.reference import logits_of

CONFIG = ModelConfig.from_hf(SETTINGS)


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))


@pytest.fixture
def path(tmp_path):
    return write_gguf(tmp_path / "model.gguf", CONFIG, tensors_of(CONFIG))


def caches(tmp_path):
    return sorted((tmp_path / "home" / "models" / "model").iterdir())


def logits(path, dtype=torch.float32):
    return logits_of(load_model(str(path), dtype=dtype).transformer, torch.arange(40))


def test_the_second_load_does_not_dequantise(path, tmp_path, monkeypatch):
    first = logits(path)
    assert [file.name.split(".", 1)[1] for file in caches(tmp_path)] == ["float32.safetensors"]
    monkeypatch.setattr(load_module, "fused_tensors", lambda *_: pytest.fail("the cache was not used"))
    assert torch.equal(logits(path), first)


def test_each_number_format_has_its_own(path, tmp_path):
    full, half = logits(path), logits(path, torch.bfloat16)
    assert len(caches(tmp_path)) == 2
    assert half.dtype == torch.bfloat16 and (half.float() - full).abs().max() < 0.3


@pytest.mark.parametrize("damage", ["cut off", "empty", "no safetensors", "of an older layout", "of another file"])
def test_a_cache_that_is_not_right_is_made_anew(path, tmp_path, damage, monkeypatch):
    first = logits(path)
    (file,) = caches(tmp_path)
    content = file.read_bytes()
    if damage == "of an older layout":
        monkeypatch.setattr(cache_module, "LAYOUT_VERSION", "2")
    else:
        digest = content[content.index(b"source_sha256") + 16 :][:64]
        file.write_bytes({"cut off": content[:-100], "empty": b"", "no safetensors": b"x" * 500, "of another file": content.replace(digest, b"0" * 64)}[damage])
    assert torch.equal(logits(path), first)
    assert len(caches(tmp_path)[0].read_bytes()) == len(content)


def test_killed_while_writing(path, tmp_path, monkeypatch):
    """What a killed process left is not mistaken for a cache, and is cleared away."""
    first = logits(path)
    (file,) = caches(tmp_path)
    left = file.with_suffix(".99999.part")
    file.rename(left)
    os.truncate(left, 5000)
    assert torch.equal(logits(path), first)
    assert caches(tmp_path) == [file]


def test_an_error_while_writing_leaves_nothing(path, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module.os, "fsync", full)
    with pytest.raises(LabError) as caught:
        load_model(str(path))
    assert caught.value.code == "disk-full" and caches(tmp_path) == []


def test_no_space(path, monkeypatch):
    monkeypatch.setattr(cache_module.shutil, "disk_usage", lambda _: namedtuple("usage", "total used free")(10, 9, 1))
    with pytest.raises(LabError) as caught:
        load_model(str(path))
    assert caught.value.code == "disk-full" and caught.value.facts["free_bytes"] == 1


def test_more_than_the_memory(path, monkeypatch):
    monkeypatch.setattr(load_module.psutil, "virtual_memory", lambda: namedtuple("memory", "available")(1000))
    with pytest.raises(LabError) as caught:
        load_model(str(path))
    assert caught.value.code == "model-out-of-memory"


def test_data_begins_on_a_cache_line(path, tmp_path):
    """Mapped matrices that straddle cache lines are slower to read."""
    load_model(str(path))
    (file,) = caches(tmp_path)
    assert (8 + int.from_bytes(file.read_bytes()[:8], "little")) % 64 == 0
