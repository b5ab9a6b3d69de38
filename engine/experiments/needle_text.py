"""Texts with needles in them: sentences that say a secret word of a place, hidden in prose, and questions about them. No torch.

A text is filler, with a block of such sentences in it, cut to an exact number of tokens. Questions have one length in
tokens, whatever they ask for, and every answer is one of a few words that differ in their first token, so that one forward
scores all of them.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from engine.errors import LabError
from engine.kv.eviction import Sinks
from engine.model.tokenizer import Tokenizer

SENTENCE = " The secret word of the {place} is {word}."
QUESTION = "\n\nQuestion: What is the secret word of the {place}?\nAnswer:"
LEAD = " The secret word of the {place} is"
PLACES = (
    "harbor", "library", "garden", "castle", "station", "market", "bridge", "tower", "museum", "school", "forest", "village",
    "hotel", "church", "river", "farm", "hospital", "office", "park", "beach", "factory", "kitchen", "airport", "palace",
)  # fmt: skip
WORDS = (
    "dog", "cat", "horse", "lion", "bear", "wolf", "fish", "bird", "mouse", "snake", "tiger", "eagle", "rabbit", "sheep", "goat",
)  # fmt: skip
# Tokens of filler between needles near the end of a text and that end.
NEAR_THE_END = 16
_CHARACTERS_PER_TOKEN = 8
_LONGEST_WORD = 40


@dataclass(frozen=True)
class Needle:
    """One sentence in a text. begin, end: the text positions of its tokens; answer: the number of the right word."""

    place: str
    answer: int
    begin: int
    end: int
    question: tuple[int, ...]
    lead: tuple[int, ...]


@dataclass(frozen=True)
class Haystack:
    """A text with its needles."""

    ids: tuple[int, ...]
    needles: tuple[Needle, ...]


class NeedleWriter:
    """Writes texts for one tokenizer. `words` are the possible answers, `choices` the token that tells each from the others.

    Raises LabError("needle-words") if too few words, or too few places, can be told apart in this vocabulary.
    """

    def __init__(self, tokenizer: Tokenizer, text: str, *, text_name: str = "own", distractors: int, seed: int) -> None:
        self.tokenizer, self.text, self.text_name = tokenizer, text, text_name
        self.needles = 1 + distractors
        self.draw = random.Random(f"needle {seed}")
        self.repeated = False
        self.words, self.choices, self.before_word = _told_apart(tokenizer)
        self.places = _of_one_length(tokenizer)
        if len(self.words) < max(2, self.needles) or len(self.places) < self.needles:
            found = min(len(self.words), len(self.places))
            raise LabError("needle-words", name=tokenizer.name, found=found, needed=max(2, self.needles))
        self._deck = self.draw.sample(range(len(self.words)), len(self.words))
        self._dealt = 0

    def pairs(self) -> list[tuple[str, int]]:
        """The places and answers of the next text: all answers of all texts come equally often, give or take one, so that
        whoever always answers the same is right as often as one who guesses."""
        numbers = [self._deck[(self._dealt + n) % len(self._deck)] for n in range(self.needles)]
        self._dealt += self.needles
        return list(zip(self.draw.sample(self.places, self.needles), self.draw.sample(numbers, self.needles), strict=True))

    def filler(self, tokens: int) -> list[int]:
        """Prose from somewhere in the text; the text again, and `repeated`, where it is too short.

        Raises LabError("text-too-short") if the text has no tokens in this vocabulary.
        """
        begin = self.draw.randrange(len(self.text))
        begin = self.text.find(" ", begin, begin + _LONGEST_WORD) + 1 or begin  # rather at a word's beginning
        wanted = _CHARACTERS_PER_TOKEN * tokens
        ids = self._encode(self.text[begin : begin + wanted] + self.text[:begin][: max(0, begin + wanted - len(self.text))])
        if not ids:
            raise LabError("text-too-short", name=self.text_name, tokens=0, needed=tokens)
        self.repeated = self.repeated or len(ids) < tokens
        return (ids * (tokens // len(ids) + 1))[:tokens]

    def sentences(self, pairs: Sequence[tuple[str, int]]) -> list[list[int]]:
        """The tokens of each sentence."""
        return [self._encode(SENTENCE.format(place=place, word=self.words[answer])) for place, answer in pairs]

    def write(self, filler: Sequence[int], pairs: Sequence[tuple[str, int]], at: int) -> Haystack:
        """The text with its sentences from position `at` on; filler that they push out behind the end is cut off."""
        sentences = self.sentences(pairs)
        block = [token for sentence in sentences for token in sentence]
        edges = pairwise(accumulate(map(len, sentences), initial=at))
        needles = tuple(
            Needle(place, answer, begin, end, *self.ask(place))
            for (place, answer), (begin, end) in zip(pairs, edges, strict=True)
        )
        return Haystack((*filler[:at], *block, *filler[at : len(filler) - len(block)]), needles)

    def ask(self, place: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The question, and the answer up to its word."""
        return _asked(self.tokenizer, place, self.before_word)

    def _encode(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special=False)


def begin_of(length: int, block: int, depth: float, sinks: int) -> int:
    """Where a block of sentences begins in a text of `length` tokens: at a share of what is left, never in a sink slot.

    Raises ValueError if it does not fit.
    """
    if sinks + block > length:
        raise ValueError(f"{block} tokens behind {sinks} sinks do not fit {length}")
    return max(sinks, round(depth * (length - block)))


def in_sinks(needle: Needle, policy: Sinks) -> bool:
    """Whether some of it lies in a slot that is never evicted."""
    return needle.begin < policy.sinks


def in_window(needle: Needle, policy: Sinks, length: int) -> bool:
    """Whether some of it is still there, outside the sinks, when the first token behind a text of `length` tokens comes."""
    return any(needle.begin <= position < needle.end for position in policy.kept(length + 1)[policy.sinks :])


def stays(needle: Needle, policy: Sinks, tokens: int) -> bool:
    """Whether all of it is still in the cache when the last of `tokens` tokens has come."""
    return set(range(needle.begin, needle.end)) <= set(policy.kept(tokens))


def _asked(tokenizer: Tokenizer, place: str, before_word: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    question, lead = (tuple(tokenizer.encode(words.format(place=place), add_special=False)) for words in (QUESTION, LEAD))
    return question, (*lead, *before_word)


def _told_apart(tokenizer: Tokenizer) -> tuple[list[str], list[int], tuple[int, ...]]:
    """Words that differ in one token, behind tokens that are the same for all: words, that token of each, the others.

    In most vocabularies a word is one token with the space before it. One that spells has the space first, and then tells
    the words apart by their first letters.
    """
    spelt = [tokenizer.encode(f" {word}", add_special=False) for word in WORDS]
    same = 0
    while all(len(ids) > same + 1 for ids in spelt) and len({ids[same] for ids in spelt}) == 1:
        same += 1
    words, choices = [], []
    for word, ids in zip(WORDS, spelt, strict=True):
        if len(ids) > same and ids[same] not in choices:
            words.append(word)
            choices.append(ids[same])
    return words, choices, tuple(spelt[0][:same])


def _of_one_length(tokenizer: Tokenizer) -> list[str]:
    """Places whose questions have the same number of tokens, and so do the beginnings of the answers: most of them."""
    lengths = {place: tuple(len(ids) for ids in _asked(tokenizer, place, ())) for place in PLACES}
    (most, _), = Counter(lengths.values()).most_common(1)
    return [place for place in PLACES if lengths[place] == most]
