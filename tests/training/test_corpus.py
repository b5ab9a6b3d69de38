"""The training text, what is kept from it, and the vocabulary made of it."""

from __future__ import annotations

import pytest

from engine import texts
from engine.formulas.recall import BOS, KEYS, MARK, VALUES
from engine.model.load_tokenizer import load_tokenizer
from engine.texts import kjv_for_training, load_text
from engine.training.corpus import PIECES, make_tokenizer


def test_held_out_and_training_text_are_the_whole_and_share_nothing(kjv):
    """A book in both, or chapters lost between them, would make the model's perplexity a memory."""
    held_out, kept = load_text("kjv-held-out"), kjv_for_training()
    parts = [text.text.split("\n\n") for text in (held_out, kept)]
    assert sorted(parts[0] + parts[1]) == sorted(kjv.text.split("\n\n"))
    assert len(parts[0]) == 21 + 48 + 28, "the chapters of Judges, Ezekiel and Acts"
    assert not set(parts[0]) & set(parts[1])
    begins = ("Now after the death of Joshua", "Now it came to pass in the thirtieth year", "The former treatise have I made, O Theophilus")
    assert [part[: len(begin)] for part, begin in zip((parts[0][0], parts[0][21], parts[0][69]), begins)] == list(begins)
    assert held_out.sha256 == texts.HELD_OUT_SHA256 and texts.is_here("kjv-held-out")


def test_the_held_out_text_needs_the_whole_one(tmp_path, monkeypatch):
    """What is missing is called by the name that can be fetched."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    assert not texts.is_here("kjv-held-out")
    with pytest.raises(texts.LabError) as caught:
        load_text("kjv-held-out")
    assert caught.value.code == "text-missing" and caught.value.facts["name"] == "kjv"


def test_a_vocabulary_of_any_text():
    """Added words have the last ids in order, every byte can be written, and BOS begins what is encoded."""
    core = make_tokenizer("to be or not to be\n\nthat is the question " * 50)
    size = core.get_vocab_size()
    assert size <= PIECES + 34
    assert [core.token_to_id(word) for word in (BOS, MARK, *KEYS, *VALUES)] == list(range(size - 34, size))
    ids = core.encode("안녕 <mark><fox><red>").ids
    assert ids[0] == core.token_to_id(BOS) and core.token_to_id("<fox>") in ids
    assert core.decode(ids, skip_special_tokens=True).startswith("안녕")


def test_the_shipped_vocabulary_is_that_of_the_training_text(kjv):
    """Training again would otherwise make a model that reads other tokens than the shipped one."""
    ours, again = load_tokenizer("lab-1m"), make_tokenizer(kjv_for_training().text)
    sample = load_text("kjv-held-out").text[:20_000]
    assert ours.encode(sample) == again.encode(sample).ids and ours.vocab_size == again.get_vocab_size() == PIECES + 34
