"""Tokens as labels: whole characters, nothing lost, nothing invisible, never a box."""

import unicodedata

import pytest
import regex  # comes with transformers; it knows all of Unicode's grapheme rules
from hypothesis import example, given
from hypothesis import strategies as st

from engine.experiments.labels import MOST_CHARACTERS, grapheme_borders, label, parts_of, token_labels
from engine.model.load_tokenizer import load_tokenizer
from engine.model.tokenizer import byte_tokenizer

BYTES = byte_tokenizer("bytes")
FAMILY, FLAG, LETTER = "👩\u200d👩\u200d👧", "🇰🇷", "e\u0301"
# What graphemes are made of; letters that need the rules left out (Indic conjuncts, prepended marks) are not among them.
CHARACTERS = "a1 \n\r\t.한글가각한éе\u0301\u0308\u20dd👩👧🏽❤☂\ufe0f\u200d🇰🇷🇺é漢مر\u0651\u064bא\u05b0\u0903\u093e\u202e\u2066\u00ad\u0007\x7f\u0085\u2028\u00a0\u200b\U000e0067\ue000\ufffd"
texts = st.text(st.sampled_from(CHARACTERS), max_size=30) | st.text(max_size=20)


@given(st.text(st.sampled_from(CHARACTERS), max_size=30))
@example("☂\u200d\ufffd")
@example("a\u200d👩")
@example(FAMILY + FLAG * 2 + LETTER + "\r\n" + "한" + "간" + "각ᆫ" + "👩🏽\u200d❤\ufe0f\u200d👩" + "\u200d👩")
def test_borders_are_those_of_unicode(text):
    """A family cut in four, an accent without its letter, half a flag."""
    ends, end = [], 0
    for cluster in regex.findall(r"\X", text):
        end += len(cluster)
        ends.append(end)
    assert list(grapheme_borders(text)) == ends


def check(text: str, ids: list[int], tokenizer) -> None:
    stream = tokenizer.pieces()
    pieces = [stream.add(token) for token in ids]
    parts = parts_of(pieces)
    assert len(parts) == len(ids)
    covered = "".join(part.text for part in parts if part.part == 1)
    assert covered == "".join(pieces) and covered + stream.rest() == tokenizer.decode(ids)
    number = 0
    while number < len(parts):  # those that stand together are numbered from 1 to all of them, side by side
        together = parts[number : number + parts[number].parts]
        assert [(p.part, p.parts, p.text) for p in together] == [(i + 1, len(together), together[0].text) for i in range(len(together))]
        number += len(together)
    borders, end = {0, *grapheme_borders(covered)}, 0
    for part in parts:
        if part.part == part.parts:
            end += len(part.text)
            assert end in borders, "a grapheme is cut"
    for shown in token_labels(tokenizer, ids):
        assert shown and len(shown) <= MOST_CHARACTERS + len(" (000/000)") and "\ufffd" not in shown
        hidden = [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") or c in "\u202e\u2066\u00ad\u200b\u00a0"]
        assert hidden == [] and shown.strip() == shown


@given(texts, st.data())
@example("\ufffd" * 40, None)
@example("x" + "\u0301" * 60, None)
def test_labels_cover_the_text_and_cut_nothing(text, data):
    """One byte a token, the hardest case, and cut anywhere; whatever the text."""
    ids = BYTES.encode(text)
    if data is not None and ids:
        ids = ids[: data.draw(st.integers(1, len(ids)))]
    check(text, ids, BYTES)


@pytest.fixture(scope="module")
def default(default_model_path):
    return load_tokenizer("smollm2-135m-instruct")


@pytest.mark.parametrize("text", [f"한글 {FAMILY} {FLAG}🇺🇸 {LETTER}\tمرحبا \u202eabc\r\n\x07", "In the beginning God", "x" * 300, "        a\n\n\n\n", CHARACTERS])
def test_with_the_default_tokenizer(default, text):
    """Its tokens are parts of Korean characters, and several spaces at once."""
    ids = default.encode(text, add_special=False)
    for end in range(1, len(ids) + 1):
        check(text, ids[:end], default)


def test_how_they_look(default):
    """What a class reads on the axes."""

    def labels(text, tokens=None):
        return token_labels(default, default.encode(text, add_special=False)[:tokens])

    assert labels("In the\n\n\tend") == ["In", "␣the", "⏎⏎", "⇥", "end"]
    assert labels("한글") == ["한 (1/2)", "한 (2/2)", "글 (1/3)", "글 (2/3)", "글 (3/3)"]
    assert labels("한글", 4) == ["한 (1/2)", "한 (2/2)", "⟨EA⟩", "⟨B8⟩"]
    assert set(labels(FAMILY)) == {f"{FAMILY} ({n}/13)" for n in range(1, 14)}
    assert labels("\x07") == ["U+0007"] and labels("\u202e")[0].startswith("U+202E (1/")
    assert labels("\u0301")[0].startswith("◌\u0301 (1/")
    assert token_labels(default, [default.bos_id]) == ["<|im_start|>"]
    assert token_labels(default, []) == []


def test_a_long_grapheme_is_cut_short():
    """A letter with a hundred accents would be higher than the page."""
    (shown,) = {label(part).split(" ")[0] for part in parts_of(["x" + "\u0301" * 100])}
    assert len(shown) == MOST_CHARACTERS and shown.endswith("…")
    (shown,) = [label(part) for part in parts_of(["ab" * 50])]
    assert len(shown) == MOST_CHARACTERS and shown == "ab" * 11 + "a" + "…"
