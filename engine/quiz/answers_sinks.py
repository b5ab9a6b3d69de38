"""Answers to the quiz of the sinks lesson. How these functions are found and called: answers.py."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

# ---------------------------------------------------------------- softmax without the key that got most


def rest_grows(percent: float) -> float:
    """Times by which every other weight of a head grows when a key with so many percent of its attention is evicted: the other
    scores stay as they are, so all weights are divided by what they add up to."""
    return 1 / (1 - percent / 100)


def rest_grows_by(percent: float) -> float:
    """What is added, in place of how many times as large it becomes."""
    return rest_grows(percent) - 1


def rest_grows_share_added(percent: float) -> float:
    """As if the share were handed on in proportion to the whole of 1, and not to what is left."""
    return 1 + percent / 100


def rest_grows_other_part(percent: float) -> float:
    """Divided by what was evicted, not by what is left."""
    return 100 / percent


# ---------------------------------------------------------------- read from recordings


def layer_of_the_jump(result: dict) -> int:
    """Of an attention map: the layer, from 0, whose heads' mean attention to token 0 is most above that of the layer before."""
    means = _layers(result)
    steps = [after - before for before, after in pairwise(means)]
    return 1 + steps.index(max(steps))


def layer_of_the_jump_from_one(result: dict) -> int:
    """Counted from 1."""
    return layer_of_the_jump(result) + 1


def layer_of_the_most(result: dict) -> int:
    """The layer with the highest mean, in place of the largest step."""
    means = _layers(result)
    return means.index(max(means))


def window_loses(result: dict) -> str | None:
    """Of a stream, how the loss of the window alone goes above dense attention behind the first eviction, by quarters of what
    is read there: "at-once" and stays, "slowly" rising, "recovers", or "never" (less than 0.1 nats)."""
    curves, first = result["curves"], result["first_eviction"]
    dense = {begin: loss for begin, _, loss in curves["dense"]["bins"]}
    above = [loss - dense[begin] for begin, _, loss in curves["window"]["bins"] if begin >= first and begin in dense]
    quarter = len(above) // 4
    if not quarter:
        return None
    begins, ends, usual = fmean(above[: min(3, quarter)]), fmean(above[-quarter:]), fmean(above)
    if usual < 0.1:
        return "never"
    if begins < usual / 2:
        return "slowly"
    return "recovers" if ends < begins / 3 else "at-once"


def sinks_outside(result: dict) -> str | None:
    """Of needles that are neither among the sinks nor in the window: whether sinks + window answer by "guessing", or "little"
    remains of them."""
    found = [c for c in result["cells"] if c["policy"] == "sinks" and not (c["in_sinks"] or c["in_window"])]
    if not found:
        return None
    return "little" if found[0]["against_guess"] == "above" else "guessing"


def _layers(result: dict) -> list[float]:
    return [fmean(heads) for heads in result["overview"]["first"]]
