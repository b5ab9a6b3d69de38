"""Texts with several needles in them, each at a depth of its own, in the form that the lab model learnt to recall. No torch.

A needle is three tokens: a mark, a key and a value. Asked with the mark and the key, a model that finds the needle answers
with its value. Marks, keys and values are tokens of their own, and stand for nothing in the prose around them.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from engine.errors import LabError
from engine.experiments.settings import wrong
from engine.kv.eviction import Sinks
from engine.model.tokenizer import Tokenizer

NEEDLE_TOKENS, QUESTION_TOKENS = 3, 2
# What an example shows around a needle.
_SHOWN_TOKENS = 24


@dataclass(frozen=True)
class Words:
    """The tokens of needles in a vocabulary: the mark, every key, every value."""

    mark: int
    keys: tuple[int, ...]
    values: tuple[int, ...]


@dataclass(frozen=True)
class Trial:
    """One text, whatever its length: the prose that fills it, and of each depth the number of its key and of its value."""

    filler: tuple[int, ...]
    keys: tuple[int, ...]
    answers: tuple[int, ...]


def words_of(tokenizer: Tokenizer, mark: str, keys: Sequence[str], values: Sequence[str]) -> Words:
    """Raises LabError("recall-words") for a vocabulary in which one of them is not a token of its own."""
    ids = [tokenizer.encode(word, add_special=False, parse_special=True) for word in (mark, *keys, *values)]
    found = {tokens[0] for tokens in ids if len(tokens) == 1}
    if len(found) < len(ids):
        raise LabError("recall-words", name=tokenizer.name, found=len(found), needed=len(ids))
    numbers = [tokens[0] for tokens in ids]
    return Words(numbers[0], tuple(numbers[1 : 1 + len(keys)]), tuple(numbers[1 + len(keys) :]))


def spots(length: int, depths: Sequence[float], bos: int) -> list[int]:
    """Where the needles begin in a text of `length` tokens, the question at its end and `bos` tokens before it included.

    Depth 0 is right behind those, 1 right before the question. Raises LabError("scenario-value") for depths, rising, at
    which needles would overlap.
    """
    room = length - QUESTION_TOKENS - NEEDLE_TOKENS - bos
    found = [bos + round(depth * room) for depth in depths]
    if room < 0 or any(later - begin < NEEDLE_TOKENS for begin, later in pairwise(found)):
        raise wrong("depths", tuple(depths), f"so far apart that needles of {NEEDLE_TOKENS} tokens fit side by side in {length}")
    return found


def trials_of(ids: Sequence[int], words: Words, trials: int, depths: int, tokens: int, seed: int) -> list[Trial]:
    """`trials` texts with `tokens` tokens of prose each, from places that the seed draws.

    At each depth all values are right equally often, give or take one, so that whoever always answers the same is right
    as often as one who guesses.
    """
    draw = random.Random(f"retrieval {seed}")
    decks = [_deck(draw, len(words.values), trials) for _ in range(depths)]
    found = []
    for number in range(trials):
        begin = draw.randrange(len(ids) - tokens + 1)
        keys = tuple(draw.sample(range(len(words.keys)), depths))
        found.append(Trial(tuple(ids[begin : begin + tokens]), keys, tuple(deck[number] for deck in decks)))
    return found


def write(trial: Trial, words: Words, length: int, places: Sequence[int], bos: Sequence[int]) -> list[int]:
    """The text, without its question: `length` - QUESTION_TOKENS tokens, with needles at `places`, rising.

    Its prose is the end of the trial's, so that a longer text only begins earlier.
    """
    prose = length - QUESTION_TOKENS - len(bos) - NEEDLE_TOKENS * len(places)
    text = [*bos, *trial.filler[len(trial.filler) - prose :]]
    for place, key, answer in zip(places, trial.keys, trial.answers, strict=True):
        text[place:place] = (words.mark, words.keys[key], words.values[answer])
    return text


def questions(trial: Trial, words: Words) -> list[tuple[int, int]]:
    """What is asked behind the text: one question for each depth."""
    return [(words.mark, words.keys[key]) for key in trial.keys]


def seen_where(place: int, policy: object, length: int) -> tuple[bool, bool]:
    """Whether some of the needle at a place lies in a sink slot, and whether some of it is seen, outside of those, by the last
    token of the question. Without an eviction there are no sink slots and all is seen."""
    if not isinstance(policy, Sinks):
        return False, True
    needle = range(place, place + NEEDLE_TOKENS)
    kept = set(policy.kept(length)) - set(range(policy.sinks))
    return place < policy.sinks, any(position in kept for position in needle)


def example_of(trial: Trial, words: Words, tokenizer: Tokenizer, length: int, places: Sequence[int], bos: Sequence[int]) -> dict:
    """A trial in words, of its middle depth: what stands around the needle, the question, and what may be answered."""
    number = len(places) // 2
    text, place = write(trial, words, length, places, bos), places[number]
    begin, end = max(len(bos), place - _SHOWN_TOKENS), min(len(text), place + NEEDLE_TOKENS + _SHOWN_TOKENS)
    before, after = ("… " if begin > len(bos) else ""), (" …" if end < len(text) else "")
    return {
        "text": before + tokenizer.decode(text[begin:end]).strip() + after,
        "needle": tokenizer.decode(text[place : place + NEEDLE_TOKENS]).strip(),
        "question": tokenizer.decode(questions(trial, words)[number]).strip(),
        "answers": [tokenizer.decode([value]).strip() for value in words.values],
        "right": tokenizer.decode([words.values[trial.answers[number]]]).strip(),
        "position": place,
        "length": length,
    }


def _deck(draw: random.Random, values: int, trials: int) -> list[int]:
    order = draw.sample(range(values), values)
    dealt = [order[number % values] for number in range(trials)]
    draw.shuffle(dealt)
    return dealt
