"""Texts with needles at every depth: exactly as long as said, nothing overlaps, every answer equally often."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import LabError
from engine.experiments.retrieval_text import Words, questions, seen_where, spots, trials_of, words_of, write
from engine.formulas.recall import KEYS, MARK, VALUES
from engine.kv.eviction import Full, Sinks
from engine.model.load_tokenizer import load_tokenizer
from tests.experiments.lab_small import BOS, lab_model

WORDS = Words(1000, tuple(range(1001, 1017)), tuple(range(1017, 1033)))
PROSE = list(range(900))
DEPTHS = st.lists(st.integers(0, 20), min_size=1, max_size=5, unique=True).map(lambda tenths: sorted(n / 20 for n in tenths))


@given(DEPTHS, st.integers(128, 600), st.integers(0, 1))
def test_a_text_is_as_long_as_it_says_with_its_needles_where_they_are_said_to_be(depths, length, bos):
    """One token too many, and the trained length is none any more; a needle that cuts another in two cannot be found."""
    (trial,) = trials_of(PROSE, WORDS, 1, len(depths), length, 0)
    places = spots(length, depths, bos)
    text = write(trial, WORDS, length, places, [999] * bos)
    assert len(text) + 2 == length and text[:bos] == [999] * bos
    for place, key, answer, question in zip(places, trial.keys, trial.answers, questions(trial, WORDS), strict=True):
        assert text[place : place + 3] == [WORDS.mark, WORDS.keys[key], WORDS.values[answer]] and question == (WORDS.mark, WORDS.keys[key])
    prose = [token for token in text[bos:] if token < 900]
    assert len(prose) == length - 2 - bos - 3 * len(depths) and prose == list(trial.filler[len(trial.filler) - len(prose) :])
    assert len(set(trial.keys)) == len(depths), "two values of one key have no right answer"


def test_depths_are_shares_of_the_text():
    """0 right behind the BOS, where the sinks are; 1 right before the question."""
    assert spots(128, [0.0, 0.5, 1.0], 1) == [1, 62, 123] and spots(128, [0.0, 1.0], 0) == [0, 123]


@pytest.mark.parametrize("length, depths", [(128, [0.5, 0.51]), (16, [0.0, 0.2, 0.4, 0.6]), (4, [0.5])])
def test_needles_that_overlap_are_told(length, depths):
    """Before anything is started."""
    with pytest.raises(LabError) as caught:
        spots(length, depths, 1)
    assert caught.value.code == "scenario-value" and caught.value.facts["field"] == "depths"


@pytest.mark.parametrize("trials", [1, 100, 37])
def test_every_value_is_right_equally_often_at_every_depth(trials):
    """A model that always says the same would else look as if it had found something, or as if guessing were harder."""
    drawn = trials_of(PROSE, WORDS, trials, 3, 200, 5)
    for depth in range(3):
        counts = Counter(trial.answers[depth] for trial in drawn)
        assert max(counts.values()) - min([counts[value] for value in range(16)]) <= 1
    assert drawn == trials_of(PROSE, WORDS, trials, 3, 200, 5) != trials_of(PROSE, WORDS, trials, 3, 200, 6)


@pytest.mark.parametrize("place, expected", [(0, (True, False)), (3, (True, False)), (4, (False, False)), (65, (False, False)), (66, (False, True)), (70, (False, True)), (123, (False, True))])
def test_where_a_needle_is_seen_from(place, expected):
    """128 tokens, 4 sinks and a window of 64: the question's last token sees positions 0-3 and 68-127, itself among them."""
    policy = Sinks(4, 64)
    assert set(policy.kept(128)) == {*range(4), *range(68, 128)}
    assert seen_where(place, policy, 128) == expected and seen_where(place, Full(), 128) == (False, True)


def test_words_are_single_tokens_or_told(tmp_path):
    """In another vocabulary a value is several tokens, and its first one is that of every other value."""
    small = words_of(load_tokenizer(lab_model(tmp_path / "lab")), MARK, KEYS, VALUES)
    assert [small.mark, *small.keys, *small.values] == list(range(BOS + 1, BOS + 34))
    with pytest.raises(LabError) as caught:
        words_of(load_tokenizer("random-tiny"), MARK, KEYS, VALUES)
    assert caught.value.code == "recall-words" and (caught.value.facts["found"], caught.value.facts["needed"]) == (0, 33)
