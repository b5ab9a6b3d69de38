"""What the component in pages/static/js/heat draws: every head's share as a table, and one head's map and profile. Pure.

Only the chosen head's map travels: some ten kilobytes, whatever the model.
"""

from __future__ import annotations

import base64
from functools import lru_cache
from statistics import median

from pages._ui.words import Words
from pages.sinks import heatmap_story as story
from pages.sinks.ramp import RAMP
from pages.sinks.shares import share, visible

SPOKEN = "heat."


def payload(result: dict, at: tuple[int, int], measure: str, words: Words) -> dict:
    """at: (layer, head), one that the result has; measure: of the overview, "first" or "first_k"."""
    layer, head = at
    return {
        "words": {key: words(key) for key in words.keys(SPOKEN)},
        "ramp": {mode: list(colors) for mode, colors in RAMP.items()},
        "overview": {
            "rows": [[round(value, 5) for value in values] for values in story.rows(result, measure)],
            "even": story.even(result, measure),
            "measure": measure,
            "k": story.first_k(result),
        },
        "at": [layer, head],
        "map": head_map(result, layer, head, words),
        "profile": profile(result, layer, head, words),
    }


def chosen(found: object, result: dict) -> tuple[int, int]:
    """The head a browser asks for, if the result has it; else the one that gives token 0 the most."""
    layers, heads = len(story.rows(result)), len(story.rows(result)[0])
    whole = isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in found)
    if whole and 0 <= found[0] < layers and 0 <= found[1] < heads:
        return found[0], found[1]
    return story.strongest(result)


def head_map(result: dict, layer: int, head: int, words: Words) -> dict:
    """One head's map: bytes row by row, how a byte becomes a share, and the tokens of each row and column."""
    maps = result["maps"]
    n, tokens = maps["size"], len(result["tokens"])
    begin = (layer * len(story.rows(result)[0]) + head) * n * n
    cells = _bytes(maps["data"])[begin : begin + n * n]
    reduced = n < tokens
    key = "map.reduced" if reduced else "map.whole"
    return {
        "size": n,
        "power": story.byte_power(maps),
        "top": 1.0,
        "cells": base64.b64encode(cells).decode(),
        "bins": [[first, last, visible(result["tokens"][first]), visible(result["tokens"][last])] for first, last in bins(result)],
        "reduced": reduced,
        "note": words(key, n=n, tokens=tokens),
    }


def bins(result: dict) -> list[tuple[int, int]]:
    """(first, last) token of each row and column of the maps."""
    n, edges = result["maps"]["size"], list(result["maps"]["edges"])
    ends = [*edges[1:], len(result["tokens"])][:n]
    return [(first, end - 1) for first, end in zip(edges, ends)]


def profile(result: dict, layer: int, head: int, words: Words) -> dict:
    """What each key gets, of this head, of its layer, and if it were spread evenly."""
    of_head = story.profile(result, layer, head)
    begin = result["overview"]["queries_from"]
    facts = {"layer": layer, "head": head, "first": share(of_head[0]), "median": share(median(of_head))}
    return {
        "tokens": len(result["tokens"]),
        "head": [_rounded(v) for v in of_head],
        "layer": [_rounded(v) for v in story.layer_profile(result, layer)],
        "even": [_rounded(v) for v in story.even_profile(len(of_head), begin)],
        "note": words("profile.note", from_token=begin),
        "alt": words("profile.alt", **facts),
    }


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


@lru_cache(maxsize=4)
def _bytes(data: str) -> bytes:
    """The maps of a whole result: decoded once for all heads a reader looks at."""
    return base64.b64decode(data)
