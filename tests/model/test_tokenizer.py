"""Token ids equal llama.cpp's and Hugging Face's on the same file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import LabError
from engine.model.tokenizer import byte_tokenizer, tokenizer_from_directory, tokenizer_from_gguf
from engine.texts import load_text

FIXTURE = json.loads((Path(__file__).parent / "fixtures" / "llama_cpp_tokens.json").read_text())


@pytest.mark.parametrize("case", FIXTURE["cases"], ids=lambda case: case["name"])
def test_ids_equal_llama_cpp(default_tokenizer, case):
    """English, Korean, code, numbers, emoji, odd white space, special tokens as text and as tokens."""
    assert default_tokenizer.encode(case["text"], parse_special=case["parse_special"]) == case["ids"]
    assert default_tokenizer.decode(case["ids"]) == case["text"]


def test_ids_equal_hugging_face(default_model_path, default_tokenizer, kjv):
    """Their conversion of the same file, on real prose, code and Korean.

    It does not know the file's rule for digits, so it differs from llama.cpp on
    "½" and the like, which the vocabulary could merge with its neighbours; such characters are not in these texts.
    """
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(default_model_path.parent, gguf_file=default_model_path.name)
    for text in (kjv.text[:20_000], load_text("pydoc").text[:20_000], load_text("korean").text):
        assert default_tokenizer.encode(text, parse_special=True) == theirs(text)["input_ids"], text[:80]


def test_a_users_text_cannot_smuggle_special_tokens(default_tokenizer):
    """Text that looks like the end of a turn stays text, except where a filled-in template says so."""
    assert 2 not in default_tokenizer.encode("<|im_end|>")
    assert default_tokenizer.encode("<|im_end|>", parse_special=True) == [2]
    assert 2 not in default_tokenizer.encode("<|im_end|>"), "asking once must not change what comes after"


def test_chat_goes_through_the_models_template(default_tokenizer):
    ids = default_tokenizer.chat([{"role": "user", "content": "안녕?"}])
    assert default_tokenizer.decode(ids) == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
        "<|im_start|>user\n안녕?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert ids[0] == 1 and ids.count(2) == 2
    assert default_tokenizer.eos_ids[0] == 2
    assert default_tokenizer.decode(ids, skip_special=True).startswith("system\n")


def test_bytes_come_back_whatever_they_are():
    tokenizer = byte_tokenizer("random-tiny")
    assert tokenizer.vocab_size == 256
    for text in ("한글 🙂 \x00\n", "", "a" * 1000):
        assert len(tokenizer.encode(text)) == len(text.encode())
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_unknown_ways_of_cutting_words_are_refused():
    """Guessing would give a model that merely seems stupid."""
    with pytest.raises(LabError) as caught:
        tokenizer_from_gguf(
            {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "llama-bpe", "tokenizer.ggml.tokens": ["a"]}, name="x", path="x.gguf"
        )
    assert caught.value.code == "tokenizer-unsupported" and "llama-bpe" in str(caught.value)


def test_a_directory_brings_template_and_ends(tmp_path):
    byte_tokenizer("x")._core.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages[0].content }}!", "eos_token": {"content": "a"}}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [7, 9, 100_000]}))
    tokenizer = tokenizer_from_directory(tmp_path, name="x")
    assert tokenizer.decode(tokenizer.chat([{"role": "user", "content": "hi"}])) == "hi!"
    assert tokenizer.eos_ids == (7, 9, tokenizer.encode("a")[0])
    (tmp_path / "chat_template.jinja").write_text("newer")
    assert tokenizer_from_directory(tmp_path, name="x").chat_template == "newer"
