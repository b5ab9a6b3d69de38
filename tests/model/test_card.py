"""What is said about a model without loading it."""

from __future__ import annotations

import json
import os

import pytest

from engine.model import digests
from engine.model.card import describe, list_models
from engine.model.catalog import CATALOG
from engine.model.config import ModelConfig
from engine.model.digests import file_digest
from engine.model.files import sha256_of
from tests.model.checkpoints import SETTINGS, tensors_of, write_directory, write_gguf


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))


def test_a_card_is_ready_for_a_manifest():
    """Plain JSON, with the sizes of the format it ran in."""
    for card in list_models():
        entry = json.loads(json.dumps(card.as_dict(bytes_per_value=4)))
        assert entry["kv_bytes_per_token"] == card.config.kv_bytes_per_token(4)
        assert entry["parameters"] > 0 and len(entry["sha256"]) == 64 and entry["random"] == (card.seed is not None)


def test_the_label_says_that_the_default_model_was_quantised():
    card = describe("smollm2-135m-instruct")
    assert card.quantization == "Q4_1, dequantised" and card.languages == ("en",) and card.licence == "Apache-2.0"


def test_cards_of_files_and_directories(tmp_path):
    config = ModelConfig.from_hf(SETTINGS)
    directory, file = write_directory(tmp_path / "my model"), write_gguf(tmp_path / "mine.gguf", config, tensors_of(config))
    assert describe(str(directory)).name == "my model" and describe(str(directory)).quantization == "none, F32"
    card = describe(str(file))
    assert card.name == "mine" and card.config == config.__class__(**{**config.__dict__, "norm_eps": card.config.norm_eps})
    assert card.sha256 == sha256_of(file) != describe(str(directory)).sha256


def test_other_weights_are_another_model(tmp_path):
    """The digest of a directory covers its weights and its configuration."""
    one = describe(str(write_directory(tmp_path / "a")))
    same = describe(str(write_directory(tmp_path / "b")))
    weights = describe(str(write_directory(tmp_path / "c", tensors=tensors_of(ModelConfig.from_hf(SETTINGS), seed=1))))
    settings = describe(str(write_directory(tmp_path / "d", settings={"rope_theta": 5000.0})))
    assert one.sha256 == same.sha256 and len({one.sha256, weights.sha256, settings.sha256}) == 3


def test_random_models_differ_by_shape_and_seed():
    assert len({card.sha256 for card in list_models()}) == len(CATALOG)


def test_a_file_is_hashed_once_until_it_changes(tmp_path, monkeypatch):
    path, hashed = tmp_path / "weights", []
    monkeypatch.setattr(digests, "sha256_of", lambda p: hashed.append(p) or sha256_of(p))
    path.write_bytes(b"one")
    first = file_digest(path)
    assert file_digest(path) == first and len(hashed) == 1
    path.write_bytes(b"two")
    os.utime(path, ns=(1, 1))
    assert file_digest(path) == sha256_of(path) != first and len(hashed) == 2
    for note in (tmp_path / "home" / "models" / "digests").iterdir():
        note.write_text("damaged")
    assert file_digest(path) == sha256_of(path) and len(hashed) == 3
