"""GGUF files: what the converter did is undone, biases and stretched frequencies included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engine.model.card import describe
from engine.model.catalog import CATALOG
from engine.model.config import ModelConfig
from engine.model.gguf import GgufFile
from engine.model.load import load_model
from engine.model.rope import Rope
from tests.model.checkpoints import SETTINGS, tensors_of, write_directory, write_gguf
from tests.model.reference import TOLERANCE, difference, logits_of


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))


@pytest.mark.parametrize("settings", [{}, {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False}], ids=["plain", "biases, untied"])
def test_a_gguf_file_computes_what_the_directory_computes(tmp_path, settings):
    """The rows of q and k, and their biases, come back in the order the rotation needs."""
    config = ModelConfig.from_hf({**SETTINGS, **settings})
    tensors = tensors_of(config)
    directory = load_model(str(write_directory(tmp_path / "model", settings=settings, tensors=tensors)))
    file = load_model(str(write_gguf(tmp_path / "model.gguf", config, tensors)))
    ids = torch.arange(50)
    reference = logits_of(directory.transformer, ids)
    assert file.config.attention_bias == config.attention_bias and file.config.tie_embeddings == config.tie_embeddings
    assert difference(logits_of(file.transformer, ids), reference) < TOLERANCE


def test_frequency_divisors_in_the_file_are_used(tmp_path):
    """Llama 3.1 files store their stretched frequencies as a tensor of divisors; ignoring it would go unnoticed in short texts."""
    config = ModelConfig.from_hf(SETTINGS)
    divisors = np.linspace(1, 8, config.head_dim // 2, dtype=np.float32)
    path = write_gguf(tmp_path / "model.gguf", config, tensors_of(config), extra={"rope_freqs.weight": divisors})
    plain, stretched = (Rope(c).frequencies(torch.device("cpu")) for c in (config, load_model(str(path)).config))
    torch.testing.assert_close(stretched, plain / torch.from_numpy(divisors))


def test_the_default_model_is_what_the_catalog_says(default_model_path, monkeypatch):
    """The catalog describes it before it is fetched; the file must agree."""
    model = CATALOG["smollm2-135m-instruct"]
    file = GgufFile(default_model_path)
    card = describe(str(default_model_path))
    assert card.config == model.config
    assert (card.sha256, card.quantization, card.languages, card.has_chat_template) == (model.file.sha256, model.quantization, model.languages, True)
    assert model.config.parameter_count() == sum(int(np.prod(t.shape)) for t in file.tensors.values()) == 134_515_008


def test_values_are_those_of_the_gguf_package(default_model_path):
    """Several rows are dequantised in one call; the package does them one by one."""
    import gguf

    file = GgufFile(default_model_path)
    info = file.tensors["blk.7.ffn_down.weight"]
    kind = gguf.GGMLQuantizationType(info.ggml_type)
    raw = np.fromfile(default_model_path, np.uint8, info.n_bytes, offset=info.offset).reshape(info.shape[0], -1)
    np.testing.assert_array_equal(np.concatenate(list(file.chunks("blk.7.ffn_down.weight"))), gguf.dequantize(raw, kind))
