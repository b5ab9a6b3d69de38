"""The lab model as it is shipped: what the catalog says of it, how it loads, and what it can and cannot do."""

from __future__ import annotations

import json
import random
from dataclasses import asdict

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from transformers import AutoModelForCausalLM

from engine import texts
from engine.formulas.recall import BOS, KEYS, MARK, VALUES
from engine.formulas.rope import scaling_for
from engine.model.card import describe
from engine.model.catalog import CATALOG, is_ready
from engine.model.config import ModelConfig
from engine.model.files import sha256_of
from engine.model.load import load_model
from engine.model.load_tokenizer import load_tokenizer
from engine.model.transformer import causal_attend
from engine.training.recipe import Recipe

FOLDER = CATALOG["lab-1m"].shipped
T = CATALOG["lab-1m"].config.max_context


@pytest.fixture(scope="module")
def model():
    return load_model("lab-1m")


@pytest.fixture(scope="module")
def held_out(kjv) -> list[int]:
    return load_tokenizer("lab-1m").encode(texts.load_text("kjv-held-out").text, add_special=False)


def read(transformer, ids: list[int]) -> torch.Tensor:
    return transformer(torch.tensor(ids), torch.arange(len(ids)), causal_attend)


def test_it_is_there_without_fetching(tmp_path, monkeypatch):
    """Neither the network nor the data folder holds anything of it; its card says what manifests need."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    card = describe("lab-1m")
    assert is_ready("lab-1m") and card.ready and card.kind == "directory" and card.seed is None and card.path == str(FOLDER)
    assert card.as_dict()["random"] is False and card.as_dict()["parameters"] == 1_004_928
    assert describe(str(FOLDER)).sha256 == card.sha256 and load_tokenizer("lab-1m").name == "lab-1m"
    assert load_model("lab-1m", dtype=torch.bfloat16).card == card


def test_the_catalog_tells_of_the_files_shape():
    """The catalog is believed before the file is opened; another width would be a crash in the middle of a run."""
    assert ModelConfig.from_hf(json.loads((FOLDER / "config.json").read_text())) == CATALOG["lab-1m"].config
    assert (FOLDER / "model.safetensors").stat().st_size < 2_100_000


def test_its_papers_are_of_this_model(kjv):
    """Texts, books and recipe in training.json are those of the code that would train it again."""
    facts = json.loads((FOLDER / "training.json").read_text())
    assert facts["recipe"] == json.loads(json.dumps(asdict(Recipe()))), "the recipe has changed: train it again"
    assert facts["corpus"]["sha256"] == texts.KJV_SHA256 and facts["held_out_text"]["sha256"] == texts.HELD_OUT_SHA256
    assert facts["training_text"]["sha256"] == texts.kjv_for_training().sha256
    assert facts["held_out_text"]["books"] == list(texts.HELD_OUT_BOOKS.values())
    card = (FOLDER / "README.md").read_text()
    hashes = [facts[text]["sha256"] for text in ("corpus", "training_text", "held_out_text")]
    stated = [facts["held_out_loss"], *hashes, sha256_of(FOLDER / "model.safetensors")]
    assert all(str(figure) in card for figure in stated), "the card tells of another training"


def test_bos_and_the_words_of_needles_are_tokens(model):
    """In a text of a user's they are characters, where they are meant they are one token each."""
    tokenizer = model.tokenizer
    assert tokenizer.encode("") == [tokenizer.bos_id] and tokenizer.token(tokenizer.bos_id) == BOS
    ids = [tokenizer.encode(word, add_special=False, parse_special=True) for word in (MARK, *KEYS, *VALUES)]
    assert all(len(one) == 1 for one in ids) and len(set(map(tuple, ids))) == 33
    assert len(tokenizer.encode("<fox>", add_special=False)) > 1


def test_logits_are_hugging_faces(model, held_out):
    theirs = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    ids = [model.tokenizer.bos_id, *held_out[:T]]
    with torch.inference_mode():
        reference = theirs(torch.tensor([ids])).logits[0]
    assert (read(model.transformer, ids) - reference).abs().max() < 1e-4 * reference.std()


def perplexity(model, held_out, method: str, times: int) -> float:
    """Of the same last T tokens behind ever more text, six texts."""
    draw, losses = random.Random(5), []
    transformer = model.transformer.scaled(scaling_for(method, times, T))
    for _ in range(6):
        end = draw.randrange(8 * T, len(held_out))
        ids = [model.tokenizer.bos_id, *held_out[end - times * T : end]]
        losses.append(F.cross_entropy(read(transformer, ids)[-T - 1 : -1], torch.tensor(ids[-T:])).item())
    return float(np.exp(np.mean(losses)))


def test_it_breaks_beyond_its_length_and_yarn_mends_it(model, held_out):
    """What the lesson stands on: at 8x at least four times the perplexity; YaRN at 4x within a fifth."""
    within = perplexity(model, held_out, "none", 1)
    assert 8 < within < 22
    assert perplexity(model, held_out, "none", 8) > 4 * within
    assert perplexity(model, held_out, "yarn", 4) < 1.2 * within
    order = [perplexity(model, held_out, method, 4) for method in ("linear", "ntk", "by-parts")]
    assert order[0] > order[1] > 1.3 * order[2], "interpolation alone, NTK-aware, by parts"


def recalled(model, held_out, method: str, length: int) -> float:
    """Share of 60 needles, five in each of twelve texts, that are answered with the likeliest of all tokens."""
    draw, right = random.Random(6), 0
    one = {word: model.tokenizer.encode(word, add_special=False, parse_special=True)[0] for word in (MARK, *KEYS, *VALUES)}
    transformer = model.transformer.scaled(scaling_for(method, length / T, T))
    for _ in range(12):
        keys, values = draw.sample(KEYS, 5), draw.choices(VALUES, k=5)
        size = length - 1 - 3 * 5 - 2
        begin = draw.randrange(len(held_out) - size)
        text = held_out[begin : begin + size]
        for place, key, value in sorted(zip(draw.sample(range(size), 5), keys, values), reverse=True):
            text[place:place] = [one[MARK], one[key], one[value]]
        for key, value in zip(keys, values):
            logits = read(transformer, [model.tokenizer.bos_id, *text, one[MARK], one[key]])[-1]
            right += int(logits.argmax()) == one[value]
    return right / 60


def test_it_recalls_needles_and_beyond_its_length_only_with_yarn(model, held_out):
    assert recalled(model, held_out, "none", T) >= 0.95
    assert recalled(model, held_out, "yarn", 4 * T) >= 0.95
    assert recalled(model, held_out, "none", 4 * T) < 0.6
