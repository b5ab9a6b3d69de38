"""What the component in pages/static/js/heat draws: every head's share as a table, and one head's map and profile. Pure.

Only the chosen head's map travels: some ten kilobytes, whatever the model.
"""

from __future__ import annotations

import base64
from statistics import median

import numpy as np

from engine.formulas import attention as formulas
from pages._ui.words import Words
from pages.sinks import heatmap_story as story
from pages.sinks.ramp import RAMP
from pages.sinks.shares import share

SPOKEN = "heat."
WINDOW = 64  # tokens


def payload(result: dict, at: tuple[int, int], measure: str, words: Words, window: int | None = None) -> dict:
    """at: (layer, head), one that the result has; measure: of the overview, "first" or "first_k"; window: the first token of
    the part to show token by token, of the head that is kept so; None for the whole map."""
    layer, head = at
    return {
        "words": {key: words(key) for key in words.keys(SPOKEN)},
        "ramp": {mode: list(colors) for mode, colors in RAMP.items()},
        "overview": {
            "rows": story.rows(result, measure),
            "even": story.even(result, measure),
            "measure": measure,
            "k": story.first_k(result),
        },
        "at": [layer, head],
        "map": head_map(result, layer, head, words) if window is None else window_map(result, window, words),
        "profile": profile(result, layer, head, words),
    }


def chosen(found: object, result: dict) -> tuple[int, int]:
    """The head a browser asks for, if the result has it; else the one that its run was
    asked to keep token by token, else one that tells something."""
    layers, heads = result["layers"], result["heads"]
    whole = isinstance(found, list | tuple) and len(found) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in found)
    if whole and 0 <= found[0] < layers and 0 <= found[1] < heads:
        return found[0], found[1]
    exact, wanted = result["exact"], result["manifest"]["scenario"]["exact_layer"]
    return (exact["layer"], exact["head"]) if exact and wanted >= 0 else story.telling(result)


def head_map(result: dict, layer: int, head: int, words: Words) -> dict:
    """One head's map: a byte for each cell up to the diagonal, and the tokens of each row and column."""
    maps, tokens = result["maps"], len(result["tokens"])
    n = maps["size"]
    key = "map.whole" if maps["reduction"] is None else "map.reduced"
    cells = formulas.head_map(maps, number(result, layer, head))[np.tril_indices(n)]
    return {
        "size": n,
        "cells": base64.b64encode(cells.tobytes()).decode(),
        "bins": [[first, last, result["tokens"][first], result["tokens"][last]] for first, last in bins(result)],
        "reduced": maps["reduction"] is not None,
        "note": words(key, n=n, tokens=tokens),
    }


def windows(result: dict, at: tuple[int, int]) -> list[int]:
    """The first tokens of the parts that can be shown token by token; [] if another head, or none, is kept so, or if the whole
    map is."""
    exact = result["exact"]
    if exact is None or (exact["layer"], exact["head"]) != at or result["maps"]["reduction"] is None:
        return []
    return list(range(0, exact["size"], WINDOW))


def window_map(result: dict, first: int, words: Words) -> dict:
    """WINDOW tokens as queries and keys, one by one, in the form of `head_map`."""
    exact, tokens = result["exact"], result["tokens"]
    found = formulas.head_map(exact)[first : first + WINDOW]
    n = len(found)
    square, before = found[:, first : first + n], formulas.as_shares(found[:, :first]).sum(axis=1).mean()
    facts = {"first": first, "last": first + n - 1}
    return {
        "size": n,
        "cells": base64.b64encode(square[np.tril_indices(n)].tobytes()).decode(),
        "bins": [[i, i, tokens[i], tokens[i]] for i in range(first, first + n)],
        "reduced": False,
        "note": words("map.window_later", **facts, share=share(float(before))) if first else words("map.window", **facts),
    }


def bins(result: dict) -> list[tuple[int, int]]:
    """(first, last) token of each row and column of the maps."""
    edges = result["maps"]["edges"]
    return [(first, end - 1) for first, end in zip(edges, edges[1:])]


def number(result: dict, layer: int, head: int) -> int:
    """A head among all."""
    return layer * result["heads"] + head


def profile(result: dict, layer: int, head: int, words: Words) -> dict:
    """What each key gets: of this head (None where a result has too many to keep), of its layer, and if it were spread evenly."""
    found, begin = result["profile"], result["overview"]["queries_from"]
    of_layer = found["by_layer"][layer]
    of_head = formulas.head_profile(found, number(result, layer, head)).tolist() if found["by_head"] else None
    told = of_head or of_layer
    key = "profile.alt" if of_head else "profile.alt_layer"
    return {
        "tokens": len(result["tokens"]),
        "head": of_head and [float(f"{value:.3g}") for value in of_head],
        "layer": of_layer,
        "even": found["uniform"],
        "note": words("profile.note", from_token=begin),
        "alt": words(key, layer=layer, head=head, first=share(told[0]), median=share(median(told))),
    }
