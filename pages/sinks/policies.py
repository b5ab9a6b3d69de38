"""The names and the looks of eviction policies, the same in every part of the lesson. Pure."""

from __future__ import annotations

from pages._ui.words import Words, policy_name

# Colour and dash of a line (see pages/_ui/plot.py).
STYLES = {"dense": 0, "window": 4, "sinks": 2, "h2o": 3, "recompute": 1}
# Differences between perplexities below this share are called level.
LEVEL = 0.03


def style(name: str) -> int:
    """Of "sinks-4" as of "sinks"."""
    return STYLES.get(kind(name), 5)


def kind(name: str) -> str:
    """``sinks-4`` -> ``sinks``."""
    return name.partition("-")[0]


def sinks_of(name: str) -> int:
    """``sinks-4`` -> 4; 0 for what is not such a name."""
    number = name.removeprefix("sinks-")
    return int(number) if number != name and number.isascii() and number.isdecimal() else 0


def with_sinks(names) -> str | None:
    """The policy with sinks that is spoken of: four if there are, as in the paper, else the most."""
    counts = [count for count in map(sinks_of, names) if count]
    return f"sinks-{4 if 4 in counts else max(counts)}" if counts else None


def title(name: str, words: Words) -> str:
    """As a reader knows it."""
    return policy_name(name, words)


def against(value: float, other: float) -> str:
    """"lower", "level" or "higher": a perplexity beside another."""
    if value > (1 + LEVEL) * other:
        return "higher"
    return "lower" if other > (1 + LEVEL) * value else "level"
