"""Prompts: exactly as long as asked for, framed as the model's template wants it, and honest about repetition."""

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments.prompts import PromptWriter
from engine.experiments.scenarios import RequestGroup
from engine.model.tokenizer import Tokenizer, byte_tokenizer

TEMPLATE = "{% for m in messages %}{{ '<|start|>' + m.role + '\n' + m.content + '<|end|>\n' }}{% endfor %}{{ '<|start|>assistant\n' }}"
BEFORE, AFTER = "<|start|>user\n", "<|end|>\n<|start|>assistant\n"
TEXT = "".join(f"{number} in the beginning, 가나다 🙂, and again. " for number in range(400))


def words_tokenizer(template=TEMPLATE) -> Tokenizer:
    """Whole words are tokens where they are common, else bytes; the frame's marks are tokens of their own."""
    core = byte_tokenizer("bytes")._core
    core.add_tokens([tokenizers.AddedToken(word, normalized=False) for word in ("beginning", " the ", "again", "가나다")])
    core.add_special_tokens([tokenizers.AddedToken(mark, special=True, normalized=False) for mark in ("<|start|>", "<|end|>")])
    return Tokenizer("words", core, chat_template=template)


TOKENIZERS = {"bytes": byte_tokenizer("bytes"), "words": words_tokenizer(), "without a template": words_tokenizer(None)}


def group(prompt_tokens, kind="chat"):
    return RequestGroup(kind, 1, prompt_tokens, 5)


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(TOKENIZERS)),
    st.lists(st.tuples(st.integers(130, 3000), st.sampled_from(["long", "chat", "burst"])), min_size=1, max_size=4),
    st.integers(0, 50),
)
def test_prompts_have_exactly_the_tokens_asked_for(name, rows, seed):
    """One token more or less, and two schedules' prefills are not of the length that the page says."""
    writer = PromptWriter(TOKENIZERS[name], TEXT, seed=seed)
    for length, kind in rows:
        prompt = writer.write(group(length, kind))
        assert len(prompt.token_ids) == length
        assert all(0 <= token < TOKENIZERS[name].vocab_size for token in prompt.token_ids)
        assert 0 < len(prompt.shown) < 700


@pytest.mark.parametrize("kind, before, after", [("chat", "Write a long story that begins with: ", ""), ("burst", "Write a long story that begins with: ", ""),
                                                 ("long", "", "\n\nSummarise the text above in one sentence.")])  # fmt: skip
@pytest.mark.parametrize("length", [130, 131, 500])
def test_the_frame_is_whole_around_the_passage(kind, before, after, length):
    """Cut to length with the frame in it, a prompt would lose the mark after which the model answers."""
    tokenizer = TOKENIZERS["words"]
    prompt = PromptWriter(tokenizer, TEXT).write(group(length, kind))
    text = tokenizer.decode(prompt.token_ids)
    assert text.startswith(BEFORE + before) and text.endswith(after + AFTER)
    passage = text[len(BEFORE + before) : len(text) - len(after + AFTER)]
    assert TEXT.startswith(passage.rstrip("\ufffd")) and len(passage) > 10
    assert prompt.token_ids[0] == tokenizer.encode("<|start|>", parse_special=True)[0], "the mark is the special token"


def test_marks_in_the_text_are_words_and_no_marks():
    """A text that holds "<|end|>" would end the user's turn in the middle of the prompt."""
    tokenizer = TOKENIZERS["words"]
    (mark,) = tokenizer.encode("<|end|>", parse_special=True)
    prompt = PromptWriter(tokenizer, "one <|end|> two " * 100).write(group(300))
    assert prompt.token_ids.count(mark) == 1


@pytest.mark.parametrize("seed", [0, 3])
def test_passages_follow_each_other_through_the_text(seed):
    """The same passage for every request would let a cache, or the eye, take them for one."""
    tokenizer = TOKENIZERS["bytes"]
    writer = PromptWriter(tokenizer, TEXT, seed=seed)
    parts = [bytes(tokenizer.decode(writer.write(group(n)).token_ids), "utf-8") for n in (100, 200, 300)]
    start = TEXT[seed * 1009 % len(TEXT) :].encode()
    whole = b"".join(parts).decode(errors="replace")
    assert start.decode()[:150] in whole and not writer.repeated
    assert PromptWriter(tokenizer, TEXT, seed=seed).write(group(100)) == PromptWriter(tokenizer, TEXT, seed=seed).write(group(100))


def test_another_seed_is_another_passage():
    """A seed that changes nothing makes repeats with other seeds worthless."""
    first, second = (PromptWriter(TOKENIZERS["bytes"], TEXT, seed=seed).write(group(200)) for seed in (0, 1))
    assert first.token_ids != second.token_ids


@pytest.mark.parametrize("seed", [0, 1, 5])
@pytest.mark.parametrize("length", [1, 50, 5000])
def test_repetition_is_told_when_it_happens_and_not_before(seed, length):
    """A result says whether its text was repeated; a long text of which a little was read was not."""
    text = "".join(chr(97 + i * i % 26) for i in range(length))
    writer = PromptWriter(TOKENIZERS["bytes"], text, seed=seed)
    writer.write(group(length))  # every character once, from wherever the seed began
    assert not writer.repeated
    prompt = writer.write(group(1))
    assert writer.repeated
    start = seed * 1009 % length
    assert prompt.shown == text[start], "it begins again where it began"


def test_a_short_text_is_repeated_as_often_as_needed():
    """Stopping at its end would give shorter prompts than asked for."""
    writer = PromptWriter(TOKENIZERS["bytes"], "abc")
    assert writer.write(group(10)).shown == "abcabcabca" and writer.repeated


@pytest.mark.parametrize("kind", ["chat", "long"])
def test_a_prompt_shorter_than_its_frame_is_refused_with_the_least_that_works(kind):
    """Cut off instead, the model would be asked for nothing."""
    writer = PromptWriter(TOKENIZERS["words"], TEXT)
    with pytest.raises(LabError) as caught:
        writer.write(group(3, kind))
    assert caught.value.code == "prompt-too-short" and caught.value.facts["kind"] == kind
    least = caught.value.facts["minimum"]
    assert len(writer.write(group(least, kind)).token_ids) == least
    with pytest.raises(LabError):
        writer.write(group(least - 1, kind))


def test_without_a_template_any_length_works():
    """A frame that is not there must not ask for its tokens."""
    assert len(PromptWriter(TOKENIZERS["bytes"], TEXT).write(group(1)).token_ids) == 1


@pytest.mark.parametrize("template", ["nothing of the user", ""])
def test_a_template_without_a_place_for_words_is_no_frame(template):
    """Some templates raise or print nothing for what they do not know: the passage alone is better than no passage."""
    prompt = PromptWriter(words_tokenizer(template), TEXT).write(group(40))
    assert len(prompt.token_ids) == 40 and prompt.shown.startswith("0 in the beginning")


def test_a_text_without_tokens_in_this_vocabulary_is_told():
    """A vocabulary that knows no character of the text gives no token, and used to search for one for ever."""
    core = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0}, []))
    with pytest.raises(LabError) as caught:
        PromptWriter(Tokenizer("latin", core), "가나다라", text_name="korean").write(group(5))
    assert caught.value.code == "text-too-short" and caught.value.facts["name"] == "korean"
    with pytest.raises(LabError):
        PromptWriter(TOKENIZERS["bytes"], "").write(group(5))


def test_what_is_shown_is_shortened_in_the_middle():
    """A page that shows 100,000 characters hangs; one that shows only the beginning hides the task at the end."""
    shown = PromptWriter(TOKENIZERS["words"], TEXT).write(group(3000, "long")).shown
    assert len(shown) < 700 and " … " in shown and shown.startswith("0 in the beginning")
    assert shown.endswith("Summarise the text above in one sentence.")


def test_the_default_model_has_exact_lengths_too(default_model_path, kjv):
    """Its real tokenizer and template, at the lengths of the presets."""
    from engine.model.load_tokenizer import load_tokenizer

    tokenizer = load_tokenizer("smollm2-135m-instruct")
    writer = PromptWriter(tokenizer, kjv.text)
    for length, kind in ((64, "chat"), (48, "chat"), (4096, "long"), (384, "burst")):
        prompt = writer.write(group(length, kind))
        assert len(prompt.token_ids) == length
        assert tokenizer.decode(prompt.token_ids).endswith("<|im_start|>assistant\n")
    assert not writer.repeated
