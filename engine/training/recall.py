"""The samples the lab model learns from: prose, pairs to be recalled, and prose with needles in it. Pure, no torch.

A sample is (ids, kinds), both [length]: kinds says of every token what foreseeing it counts as: TEXT, ANSWER (the value of
a key that has been seen), or NOTHING (BOS, and what nobody could know: marks, keys, values told for the first time).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NOTHING, TEXT, ANSWER = 0, 1, 2
NEEDLE = 3  # tokens: mark, key, value

Sample = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Words:
    """Token ids: bos, mark, and those of all keys and all values."""

    bos: int
    mark: int
    keys: tuple[int, ...]
    values: tuple[int, ...]


def prose(draw: np.random.Generator, words: Words, text: np.ndarray, length: int) -> Sample:
    """BOS and a piece of the text from anywhere in it."""
    kinds = np.full(length, TEXT)
    kinds[0] = NOTHING
    return np.concatenate(([words.bos], _piece(draw, text, length - 1))), kinds


def pairs(draw: np.random.Generator, words: Words, text: np.ndarray, length: int, fewest_keys: int = 8) -> Sample:
    """Nothing but marks, keys and values, where a key has one value throughout: known from the second time on.

    What is left over at the end, less than a needle, is prose that counts as nothing.
    """
    count = (length - 1) // NEEDLE
    keys = draw.permutation(len(words.keys))[: draw.integers(fewest_keys, len(words.keys) + 1)]
    values = draw.integers(len(words.values), size=len(words.keys))
    order = keys[draw.integers(len(keys), size=count)]
    again = np.ones(count, dtype=bool)
    again[np.unique(order, return_index=True)[1]] = False
    kinds = np.full(length, NOTHING)
    kinds[NEEDLE : 1 + count * NEEDLE : NEEDLE] = np.where(again, ANSWER, NOTHING)
    rest = _piece(draw, text, length - 1 - count * NEEDLE)
    return np.concatenate(([words.bos], _needles(words, order, values[order]).ravel(), rest)), kinds


def needles(draw: np.random.Generator, words: Words, text: np.ndarray, length: int, most: int = 8) -> Sample:
    """Prose with 1 to `most` needles of different keys anywhere in it; then some of them are asked for, in any order."""
    told = int(draw.integers(1, most + 1))
    asked = int(draw.integers(1, told + 1))
    size = length - 1 - NEEDLE * (told + asked)
    keys = draw.permutation(len(words.keys))[:told]
    values = draw.integers(len(words.values), size=told)
    there = np.repeat(np.sort(draw.integers(size + 1, size=told)), NEEDLE)
    body = np.insert(_piece(draw, text, size), there, _needles(words, keys, values).ravel())
    kinds = np.insert(np.full(size, TEXT), there, NOTHING)
    order = draw.permutation(told)[:asked]
    questions = _needles(words, keys[order], values[order]).ravel()
    return (
        np.concatenate(([words.bos], body, questions)),
        np.concatenate(([NOTHING], kinds, np.tile([NOTHING, NOTHING, ANSWER], asked))),
    )


def _needles(words: Words, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Numbers of keys and values [n] -> ids [n, 3]."""
    marks = np.full(len(keys), words.mark)
    return np.stack((marks, np.asarray(words.keys)[keys], np.asarray(words.values)[values]), axis=1)


def _piece(draw: np.random.Generator, text: np.ndarray, tokens: int) -> np.ndarray:
    begin = draw.integers(len(text) - tokens + 1)
    return text[begin : begin + tokens]
