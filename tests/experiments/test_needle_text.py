"""Texts with needles: every sentence stands where it says, questions are alike, and what counts as lost is really lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments.needle_text import NEAR_THE_END, Needle, NeedleWriter, begin_of, in_sinks, in_window, stays
from engine.kv.eviction import Sinks, Window
from engine.model.load_tokenizer import load_tokenizer

PROSE = "It was a bright cold day, and the clocks were striking thirteen. " * 200
TINY = load_tokenizer("random-tiny")


@pytest.fixture(scope="module")
def pretrained(default_model_path):
    return load_tokenizer("smollm2-135m-instruct")


def written(tokenizer, *, length=400, distractors=3, depth=0.1, seed=0, sinks=4):
    writer = NeedleWriter(tokenizer, PROSE, distractors=distractors, seed=seed)
    pairs = writer.pairs()
    block = sum(map(len, writer.sentences(pairs)))
    return writer, pairs, writer.write(writer.filler(length), pairs, begin_of(length, block, depth, sinks))


@given(st.integers(200, 600), st.integers(0, 3), st.floats(0, 1), st.integers(0, 50))
def test_every_needle_stands_where_it_says(length, distractors, depth, seed):
    """At its positions are the tokens of its sentence, with the right word, and the text has exactly its length."""
    writer, pairs, text = written(TINY, length=length, distractors=distractors, depth=depth, seed=seed)
    assert len(text.ids) == length and len(text.needles) == 1 + distractors
    for needle, (place, answer) in zip(text.needles, pairs, strict=True):
        sentence = TINY.decode(text.ids[needle.begin : needle.end])
        assert sentence == f" The secret word of the {place} is {writer.words[answer]}." and (needle.place, needle.answer) == (place, answer)
        assert needle.begin >= 4, "never in a sink slot"
    assert len({place for place, _ in pairs}) == len({answer for _, answer in pairs}) == 1 + distractors


def test_the_words_of_the_default_model(pretrained):
    """Whole words, each one token: the score is that of the word, not of a letter. All questions are equally long."""
    writer, _, text = written(pretrained)
    assert len(writer.words) == 15 and writer.before_word == () and len(writer.places) == 24
    assert [pretrained.decode([choice]) for choice in writer.choices] == [f" {word}" for word in writer.words]
    for needle in text.needles:
        assert pretrained.decode(needle.question) == f"\n\nQuestion: What is the secret word of the {needle.place}?\nAnswer:"
        assert pretrained.decode(needle.lead) == f" The secret word of the {needle.place} is"
    assert len({(len(needle.question), len(needle.lead)) for needle in text.needles}) == 1


def test_a_vocabulary_that_spells():
    """Words are told apart by their first letter, behind the space that all share; two with one letter would be one choice."""
    writer, _, text = written(TINY)
    letters = [TINY.decode([choice]) for choice in writer.choices]
    assert letters == [word[0] for word in writer.words] and len(set(letters)) == len(letters) == 13
    assert TINY.decode(text.needles[0].lead).endswith(" is ") and len({len(needle.question) for needle in text.needles}) == 1


def test_all_words_are_right_equally_often():
    """A model that always says the same word must not do better than guessing."""
    writer = NeedleWriter(TINY, PROSE, distractors=3, seed=1)
    answers = [answer for _ in range(13) for _, answer in writer.pairs()]
    assert sorted(answers) == sorted(list(range(13)) * 4)
    places = {place for _ in range(20) for place, _ in writer.pairs()}
    assert places == set(writer.places), "and every place is asked about"


def test_the_seed_decides():
    """The same scenario is the same text."""
    assert written(TINY, seed=3)[2] == written(TINY, seed=3)[2] != written(TINY, seed=4)[2]


def test_filler_of_a_short_text():
    """Read again from its beginning, which is told; a long one is not."""
    short, long = (NeedleWriter(TINY, text, distractors=0, seed=0) for text in ("Hello there.", PROSE))
    assert len(short.filler(500)) == len(long.filler(500)) == 500 and short.repeated and not long.repeated


class Deaf:
    """A vocabulary in which all words look alike."""

    name = "deaf"

    def encode(self, text, add_special=True):
        return [7]


def test_words_that_cannot_be_told_apart_are_refused():
    """Scored all the same, every answer would be right."""
    with pytest.raises(LabError) as caught:
        NeedleWriter(Deaf(), PROSE, distractors=0, seed=0)
    assert caught.value.code == "needle-words" and "deaf" in str(caught.value)


@given(st.integers(1, 2000), st.integers(1, 100), st.floats(0, 1), st.integers(0, 16))
def test_a_block_begins_behind_the_sinks_and_fits(length, block, depth, sinks):
    """At depth 0 behind the sinks, at 1 flush with the end."""
    if sinks + block > length:
        with pytest.raises(ValueError, match="do not fit"):
            begin_of(length, block, depth, sinks)
        return
    at = begin_of(length, block, depth, sinks)
    assert sinks <= at and at + block <= length
    assert begin_of(length, block, 0, sinks) == sinks and begin_of(length, block, 1, sinks) == length - block


CACHES = st.integers(2, 60).flatmap(lambda window: st.tuples(st.integers(0, window - 1), st.just(window)))


@given(CACHES, st.integers(0, 200), st.integers(1, 20), st.integers(-2, 2) | st.integers(-60, 60))
def test_where_a_needle_is_follows_the_cache_token_by_token(cache, begin, size, off):
    """Against a list from which the oldest that is no sink is dropped as each token comes; most often where the needle's last
    token is just about to leave."""
    sinks, window = cache
    behind = max(0, window - sinks - 1 + off)
    policy = Sinks(sinks, window) if sinks else Window(window)
    needle = Needle("x", 0, begin, begin + size, (), ())
    length = needle.end + behind
    held = []
    for position in range(length + 1):
        if len(held) == window:
            held.pop(sinks)
        held.append(position)
    of_it = [position for position in held if needle.begin <= position < needle.end]
    assert in_sinks(needle, policy) == any(position < sinks for position in range(needle.begin, needle.end))
    assert in_window(needle, policy, length) == any(position >= sinks for position in of_it)
    assert stays(needle, policy, length + 1) == (len(of_it) == size)
    if not in_sinks(needle, policy):
        assert in_window(needle, policy, length) == (needle.end > length + 1 - policy.recent), "outside the window exactly when evicted"


def test_the_control_lies_at_the_end():
    """Some filler stands behind it, or the question would follow the needle at once."""
    writer = NeedleWriter(TINY, PROSE, distractors=1, seed=0)
    pairs = writer.pairs()
    block = sum(map(len, writer.sentences(pairs)))
    text = writer.write(writer.filler(300), pairs, 300 - NEAR_THE_END - block)
    assert text.needles[-1].end == 300 - NEAR_THE_END and len(text.ids) == 300
