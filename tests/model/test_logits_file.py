"""The command that lets anybody hold the model against another implementation."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from engine.errors import LabError
from engine.model.load import load_model
from engine.model.logits import write_logits
from tests.model.reference import logits_of


def write_ids(tmp_path, ids, name="ids.json"):
    path = tmp_path / name
    path.write_text(ids if isinstance(ids, str) else json.dumps(ids))
    return str(path)


def test_every_position_is_written(tmp_path):
    """More rows than are computed at once, so that the seams are in it."""
    ids = [i % 256 for i in range(600)]
    shape = write_logits("random-tiny", write_ids(tmp_path, ids), str(tmp_path / "out.npy"))
    found = np.load(tmp_path / "out.npy")
    assert found.shape == shape == (600, 256) and found.dtype == np.float32
    wanted = logits_of(load_model("random-tiny").transformer, torch.tensor(ids))
    np.testing.assert_allclose(found, wanted.numpy(), atol=1e-4)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["ids.json", "out.npy"]


def test_half_precision_is_written_as_float32(tmp_path):
    write_logits("random-tiny", write_ids(tmp_path, [1, 2, 3]), str(tmp_path / "out.npy"), dtype="bfloat16")
    assert np.load(tmp_path / "out.npy").dtype == np.float32


@pytest.mark.parametrize("ids", ["", "{", "[]", "{}", "[1, -1]", "[256]", "[1.5]", "[true]", '["a"]', "[[1]]", f"[{10**30}]"])
def test_bad_ids(tmp_path, ids):
    with pytest.raises(LabError) as caught:
        write_logits("random-tiny", write_ids(tmp_path, ids), str(tmp_path / "out.npy"))
    assert caught.value.code == "tokens-bad" and not (tmp_path / "out.npy").exists()


def test_other_refusals(tmp_path):
    good, out = write_ids(tmp_path, [1, 2]), str(tmp_path / "out.npy")
    for code, arguments, options in [
        ("tokens-bad", ("random-tiny", str(tmp_path / "missing.json"), out), {}),
        ("model-unknown", ("nonsense", good, out), {}),
        ("dtype-unknown", ("random-tiny", good, out), {"dtype": "int4"}),
        ("device-unknown", ("random-tiny", good, out), {"device": "tpu"}),
        ("output-unwritable", ("random-tiny", good, str(tmp_path / "no" / "folder" / "out.npy")), {}),
        ("model-too-long", ("random-tiny", write_ids(tmp_path, [1] * 8193, "long.json"), out), {}),
    ]:
        with pytest.raises(LabError) as caught:
            write_logits(*arguments, **options)
        assert caught.value.code == code
