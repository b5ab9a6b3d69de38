"""Token ids equal llama.cpp's and Hugging Face's on the same file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models

from engine.errors import LabError
from engine.model.tokenizer import Tokenizer, byte_tokenizer, tokenizer_from_directory, tokenizer_from_gguf
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


def _pieces(tokenizer, ids):
    stream = tokenizer.pieces()
    return [*(stream.add(token) for token in ids), stream.rest()]


WORDS = st.lists(st.sampled_from([*"한글뷁값🙂👩‍👩‍👧é\ufffd\n a", "the ", "안녕하세요", "<|im_end|>"]), max_size=30).map("".join)


@given(text=WORDS, cut=st.integers(0, 12))
def test_pieces_are_the_text_token_by_token(default_tokenizer, text, cut):
    """Characters spread over tokens, and an answer that ends within one: no U+FFFD on the way, nothing lost or twice."""
    for tokenizer in (default_tokenizer, byte_tokenizer("x")):
        ids = tokenizer.encode(text)
        whole = _pieces(tokenizer, ids)
        assert "".join(whole) == text and all("\ufffd" not in piece for piece in whole) or "\ufffd" in text
        ids = ids[: max(0, len(ids) - cut)]
        assert "".join(_pieces(tokenizer, ids)) == tokenizer.decode(ids)


@given(data=st.data())
def test_pieces_of_any_tokens(default_tokenizer, data):
    """A random or confused model writes bytes that are no UTF-8, for as long as it likes."""
    for tokenizer in (default_tokenizer, byte_tokenizer("x")):
        some = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), min_size=1, max_size=6))
        ids = data.draw(st.lists(st.sampled_from(some), max_size=60))
        assert "".join(_pieces(tokenizer, ids)) == tokenizer.decode(ids)


def test_a_character_comes_with_its_last_token():
    """Shown too early it is a replacement character on the page; shown too late the reader waits for nothing."""
    tokenizer = byte_tokenizer("x")
    assert _pieces(tokenizer, tokenizer.encode("a한b")) == ["a", "", "", "한", "b", ""]
    assert _pieces(tokenizer, tokenizer.encode("한")[:2]) == ["", "", "\ufffd"]


def test_a_long_answer_costs_no_more_per_token():
    """Decoding all ids again for every token would slow down the coordinator, which shares the cores it measures."""
    tokenizer = byte_tokenizer("x")
    decoded = []
    tokenizer.decode = lambda ids: decoded.append(len(ids)) or "x" * len(ids)
    _pieces(tokenizer, range(1000))
    assert max(decoded) <= 33
    tokenizer.decode = lambda ids: decoded.append(len(ids)) or "\ufffd" * len(ids)
    _pieces(tokenizer, range(1000))
    assert max(decoded) <= 33


@pytest.mark.parametrize("broken", range(25, 45))
def test_a_character_after_many_broken_bytes(broken):
    """However long nothing was whole, half of the character that comes now must not be given up as broken."""
    tokenizer = byte_tokenizer("x")
    ids = [*tokenizer.encode("한")[:1] * broken, *tokenizer.encode("한a")]
    assert "".join(_pieces(tokenizer, ids)) == tokenizer.decode(ids) == "\ufffd" * broken + "한a"


def test_pieces_with_byte_fallback():
    """SentencePiece models drop a space in front and spell rare characters in bytes."""
    vocabulary = {"<unk>": 0, **{f"<0x{byte:02X}>": byte + 1 for byte in range(256)}, "▁the": 257, "▁": 258, "cat": 259}
    core = tokenizers.Tokenizer(models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True))
    core.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer = Tokenizer("llama-like", core)
    ids = [257, 259, *(byte + 1 for byte in "한🙂".encode()), 258, 257, 259] * 5
    assert "".join(_pieces(tokenizer, ids)) == tokenizer.decode(ids) and tokenizer.decode(ids).startswith("thecat한🙂  thecat")
