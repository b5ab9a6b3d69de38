"""What the lab model learns from: every answer can be known, and nothing else is asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.formulas.recall import BOS, KEYS, MARK, VALUES
from engine.training.recall import ANSWER, NOTHING, TEXT, needles, pairs, prose
from tests.training.small import WORDS, corpus

TEXT_IDS = corpus().ids


def told(ids: np.ndarray) -> list[tuple[int, int, int]]:
    """(place of the value, key, value) of every needle and answered question, in order."""
    marks = np.flatnonzero(ids == WORDS.mark)
    return [(int(at) + 2, int(ids[at + 1]), int(ids[at + 2])) for at in marks if at + 2 < len(ids)]


@pytest.mark.parametrize("make", [prose, pairs, needles])
@given(seed=st.integers(0, 2**32), length=st.integers(50, 140))
def test_samples_are_whole_and_come_again(make, seed, length):
    ids, kinds = make(np.random.default_rng(seed), WORDS, TEXT_IDS, length)
    assert len(ids) == len(kinds) == length and ids[0] == WORDS.bos and kinds[0] == NOTHING
    again = make(np.random.default_rng(seed), WORDS, TEXT_IDS, length)
    assert (again[0] == ids).all() and (again[1] == kinds).all()
    assert (ids[kinds == TEXT] < WORDS.bos).all(), "prose is prose"


@pytest.mark.parametrize("make", [pairs, needles])
@given(seed=st.integers(0, 2**32), length=st.integers(50, 140))
def test_an_answer_was_told_before_and_is_asked_for(make, seed, length):
    """A key with two values, or a question about what was never told, would teach the model to guess."""
    ids, kinds = make(np.random.default_rng(seed), WORDS, TEXT_IDS, length)
    known = {}
    for place, key, value in told(ids):
        assert key in WORDS.keys and value in WORDS.values
        assert (kinds[place] == ANSWER) == (key in known), "told for the first time, or asked for"
        assert known.setdefault(key, value) == value
        assert (kinds[place - 2 : place] == NOTHING).all(), "nobody can foresee marks and keys"
    assert set(np.flatnonzero(kinds == ANSWER)) <= {place for place, *_ in told(ids)}


@given(seed=st.integers(0, 2**32))
def test_needles_keep_the_prose_in_order(seed):
    """All of the text around them is one piece of the corpus, cut nowhere."""
    ids, kinds = needles(np.random.default_rng(seed), WORDS, TEXT_IDS, 129)
    piece = ids[kinds == TEXT]
    windows = np.lib.stride_tricks.sliding_window_view(TEXT_IDS, len(piece))
    assert (windows == piece).all(axis=1).any()


def test_needles_are_anywhere_and_questions_at_the_end():
    """Needles that are never early or late would be learnt by their place; questions are asked in any order."""
    draw, firsts, orders = np.random.default_rng(1), [], set()
    for _ in range(300):
        ids, kinds = needles(draw, WORDS, TEXT_IDS, 129)
        asked = np.flatnonzero(kinds == ANSWER)
        assert list(asked) == list(range(128 - 3 * (len(asked) - 1), 129, 3))
        first = told(ids)
        firsts.append(first[0][0])
        keys = [key for _, key, _ in first]
        if len(asked) == 2 and len(keys) == 4:
            orders.add(keys.index(keys[2]) < keys.index(keys[3]))
    assert min(firsts) == 3 and max(firsts) > 90 and orders == {True, False}


def test_pairs_have_no_fewer_keys_than_asked_for():
    draw = np.random.default_rng(2)
    found = {len({key for _, key, _ in told(pairs(draw, WORDS, TEXT_IDS, 300, fewest_keys=12)[0])}) for _ in range(60)}
    assert min(found) >= 11 and max(found) == 16  # one of them may, rarely, not be drawn


def test_the_words_are_words():
    """Sixteen of each, all different, and readable."""
    assert len({BOS, MARK, *KEYS, *VALUES}) == 34 and len(KEYS) == len(VALUES) == 16
    assert all(word[0] == "<" and word[1:-1].isalpha() and word[-1] == ">" for word in (*KEYS, *VALUES))
