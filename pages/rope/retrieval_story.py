"""What a retrieval result says: which methods still find a needle, where, and what perplexity beside it hides. Pure.

Rates of several depths together are those of all their trials; the questions of one text share it, so that such an interval
is somewhat too narrow, while a cell's is not. See `engine.experiments.retrieval` for the form of a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from math import log

from engine.formulas.intervals import against, wilson
from pages._ui import fmt, parts
from pages._ui.words import Words, model_title
from pages.rope import lengths_story, methods
from pages.rope.methods import PLAIN, STREAMING

Sentence = tuple[str, dict[str, str]]

ABOVE = "above"


@dataclass(frozen=True)
class Rate:
    """Right answers of some cells together; low, high: the rates of their worst and best depth."""

    right: int
    trials: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.right / self.trials

    @property
    def interval(self) -> tuple[float, float]:
        return wilson(self.right, self.trials)


def cells(result: dict, method: str, length: int) -> list[dict]:
    """Those of a method at a length that have trials, by depth."""
    found = [c for c in result["cells"] if (c["method"], c["length"]) == (method, length) and c["trials"]]
    return sorted(found, key=lambda c: c["depth"])


def together(found: list[dict]) -> Rate | None:
    """Some cells as one rate; None for none."""
    if not found:
        return None
    rates = [c["rate"] for c in found]
    return Rate(sum(c["right"] for c in found), sum(c["trials"] for c in found), min(rates), max(rates))


def at(result: dict, method: str, length: int) -> Rate | None:
    """All depths of a method at a length."""
    return together(cells(result, method, length))


def is_gone(cell: dict) -> bool:
    """Whether nothing of the needle is among what the question still sees."""
    return not cell["in_sinks"] and not cell["in_window"]


def headline(result: dict, words: Words) -> list[Sentence]:
    """Who still finds the needle beyond the trained length; and what sinks and a window have lost."""
    length, guess = methods.spoken_of(result), {"guess": fmt.share(result["guess"])}
    partial = [("retrieval.partial", {**guess, "trained": fmt.count(result["trained"])})]
    if length is None or not any(c["trials"] for c in result["cells"]):
        return partial
    facts = {**guess, "length": fmt.count(length), "of": methods.of_trained(length, result["trained"])}
    return [*_rescue(result, length, facts, words), *_streaming(result, length, facts)] or partial


def best(result: dict, length: int) -> tuple[str, Rate] | None:
    """The stretching that finds most; among equals the first in the order they are told, YaRN before all others."""
    found = [(m, at(result, m, length)) for m in methods.present(result["cells"]) if m not in (PLAIN, STREAMING)]
    found = [(m, rate) for m, rate in found if rate]
    return max(found, key=lambda pair: (pair[1].value, pair[0] == "yarn"), default=None)


def _rescue(result: dict, length: int, facts: dict, words: Words) -> list[Sentence]:
    plain, found = at(result, PLAIN, length), best(result, length)
    if plain is None or found is None:
        return []
    name, rate = found
    rates = {"plain": fmt.share(plain.value), "rate": fmt.share(rate.value), "low": fmt.share(rate.low)}
    facts = {**facts, **rates, "best": methods.title(name, words)}
    inside = at(result, PLAIN, max((n for n in result["lengths"] if n <= result["trained"]), default=0))
    if inside and against(result["guess"], inside.interval) != ABOVE:
        return [("retrieval.blind", {**facts, "inside": fmt.share(inside.value)})]
    if rate.interval[0] > plain.interval[1]:
        return [("retrieval.rescued", facts), *_others(result, length, name, words), *_far(result, length, words)]
    return [("retrieval.not_better", facts), *_far(result, length, words)]


def _others(result: dict, length: int, name: str, words: Words) -> list[Sentence]:
    """The other methods, from the most to the least."""
    listed = _listed(result, length, (PLAIN, STREAMING, name), words)
    return [("retrieval.others", {"list": listed})] if listed else []


def _far(result: dict, length: int, words: Words) -> list[Sentence]:
    """All but sinks + window at the greatest length: methods that are level where they are spoken of may part there."""
    last = max(methods.beyond(result))
    listed = _listed(result, last, (STREAMING,), words)
    if last == length or not listed:
        return []
    return [("retrieval.far", {"length": fmt.count(last), "of": methods.of_trained(last, result["trained"]), "list": listed})]


def _listed(result: dict, length: int, without: tuple[str, ...], words: Words) -> str:
    """Methods with what they find at a length, from the most to the least; empty for none."""
    rates = [(at(result, m, length), m) for m in methods.present(result["cells"]) if m not in without]
    rates = sorted(((r, m) for r, m in rates if r), key=lambda pair: -pair[0].value)
    return ", ".join(f"{methods.title(m, words)} {fmt.share(r.value)}" for r, m in rates)


def _streaming(result: dict, length: int, facts: dict) -> list[Sentence]:
    """Of the needles it still sees and of those it does not."""
    found = cells(result, STREAMING, length)
    gone, seen = together([c for c in found if is_gone(c)]), together([c for c in found if not is_gone(c)])
    if gone is None:
        return []
    rates = {"gone": fmt.share(gone.value), "seen": fmt.share(seen.value) if seen else fmt.DASH}
    facts = {**facts, **rates, "trained": fmt.count(result["trained"])}
    key = "kept" if against(result["guess"], gone.interval) == ABOVE else "lost"
    return [(f"retrieval.streaming_{key}{'' if seen else '_all'}", facts)]


def about(result: dict, words: Words) -> str:
    """How it was asked."""
    trials = max((c["trials"] for c in result["cells"]), default=0)
    facts = {
        "model": model_title(result["manifest"]["model"], words),
        "trained": fmt.count(result["trained"]),
        "trials": fmt.count(trials),
        "depths": fmt.count(len(result["depths"])),
        "values": fmt.count(round(1 / result["guess"])),
        "guess": fmt.share(result["guess"]),
    }
    return words("retrieval.about", **facts)


# ------------------------------------------------------------------ the grids


def grids(result: dict, words: Words) -> dict | None:
    """A grid of depths and lengths for each method (see pages/_ui/grids.py); None without a cell."""
    present = methods.present(result["cells"])
    if not present:
        return None
    lengths, depths = result["lengths"], result["depths"]
    return {
        "across": words("retrieval.axis_length"),
        "down": words("retrieval.axis_depth"),
        "columns": [[fmt.count(n), f"{methods.of_trained(n, result['trained'])}×"] for n in lengths],
        "rows": [depth_name(depth) for depth in depths],
        "grids": [_grid(result, method, words) for method in present],
    }


def _grid(result: dict, method: str, words: Words) -> dict:
    by = {(c["length"], c["depth"]): c for c in result["cells"] if c["method"] == method and c["trials"]}
    rows = [[_shown(by.get((length, depth)), result, words) for length in result["lengths"]] for depth in result["depths"]]
    return {"title": methods.title(method, words), "rows": rows}


def _shown(cell: dict | None, result: dict, words: Words) -> dict | None:
    if cell is None:
        return None
    low = against(result["guess"], cell["interval"]) != ABOVE
    text, shade = f"{cell['rate'] * 100:.0f}", round(cell["rate"], 3)
    return {"text": text, "shade": shade, "low": low, "mark": mark(cell), "told": told(cell, result, words)}


def mark(cell: dict) -> str | None:
    """Where the needle lies, for the method that does not see all: "sinks", "window" or "gone"."""
    if cell["method"] != STREAMING:
        return None
    return "sinks" if cell["in_sinks"] else "window" if cell["in_window"] else "gone"


def told(cell: dict, result: dict, words: Words) -> str:
    """A cell in words, line by line."""
    facts = {
        "method": methods.title(cell["method"], words),
        "length": fmt.count(cell["length"]),
        "of": methods.of_trained(cell["length"], result["trained"]),
        "depth": depth_name(cell["depth"]),
        "right": fmt.count(cell["right"]),
        "trials": fmt.count(cell["trials"]),
        "rate": fmt.share(cell["rate"]),
        "interval": interval(cell),
        "guess": fmt.share(result["guess"]),
    }
    said = [words("retrieval.told_where", **facts), words("retrieval.told_right", **facts), words("retrieval.told_interval", **facts)]
    if where := mark(cell):
        said.append(words(f"retrieval.mark_{where}"))
    return "\n".join(said)


def depth_name(depth: float) -> str:
    """``0.25`` -> ``25 %``: how far into the text."""
    return f"{depth * 100:.3g} %"


def interval(cell: dict) -> str:
    low, high = cell["interval"]
    return f"{low * 100:.0f}–{high * 100:.0f} %"


def keys(result: dict, words: Words) -> str:
    """What the looks of a cell mean. HTML."""
    shown = [("low", words("retrieval.key_low", guess=fmt.share(result["guess"]))), ("shade", words("retrieval.key_shade"))]
    marks = {mark(c) for c in result["cells"]}
    shown += [(name, words(f"retrieval.key_{name}")) for name in ("sinks", "window", "gone") if name in marks]
    made = "".join(f"<li><span class='gd-key gd-key-{name}' aria-hidden='true'></span>{parts.prose(text)}</li>" for name, text in shown)
    return f"<ul class='gd-keys'>{made}</ul>"


def alt(result: dict, words: Words) -> str:
    """All grids in words: each method's rate over all depths, length by length."""
    found = [words("retrieval.alt", guess=fmt.share(result["guess"]))]
    for method in methods.present(result["cells"]):
        rates = [(length, at(result, method, length)) for length in result["lengths"]]
        listed = ", ".join(words("retrieval.alt_at", rate=fmt.share(rate.value), n=fmt.count(length)) for length, rate in rates if rate)
        found.append(f"{methods.title(method, words)}: {listed}.")
    return " ".join(found)


def table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """Every cell with its trials and its interval."""
    head = [words(f"retrieval.col_{name}") for name in ("method", "length", "depth", "right", "rate", "interval", "where")]
    rows = []
    for method in methods.present(result["cells"]):
        for length in result["lengths"]:
            for c in cells(result, method, length):
                where = words(f"retrieval.where_{mark(c) or 'all'}")
                right = words("retrieval.right_of", right=fmt.count(c["right"]), trials=fmt.count(c["trials"]))
                place = [methods.title(method, words), fmt.count(length), depth_name(c["depth"])]
                rows.append([*place, right, fmt.share(c["rate"]), interval(c), where])
    return head, rows


# ------------------------------------------------------------------ perplexity beside retrieval


@dataclass(frozen=True)
class Beside:
    """A method at one length: its perplexity as times in-range, and what it finds."""

    method: str
    ratio: float
    rate: Rate


def beside(lengths: dict, result: dict) -> tuple[int, list[Beside]] | None:
    """(length, the methods by perplexity, the best first) at the length beyond the trained one that both results have and
    sentences are about; None if they are of two models or share none."""
    if lengths["manifest"]["model"]["name"] != result["manifest"]["model"]["name"]:
        return None
    shared = sorted(set(methods.beyond(lengths)) & set(methods.beyond(result)))
    length = methods.spoken_of({"lengths": shared, "trained": result["trained"]})
    if length is None:
        return None
    rates = {method: at(result, method, length) for _, method in lengths_story.ranked(lengths, length)}
    found = [Beside(method, ratio, rates[method]) for ratio, method in lengths_story.ranked(lengths, length) if rates[method]]
    return (length, found) if len(found) > 1 else None


def beside_said(length: int, found: list[Beside], trained: int, words: Words) -> list[Sentence]:
    """Whether the method with the best perplexity is also the one that finds most, and whether it misleads among the others."""
    first, most = found[0], max(found, key=lambda b: (b.rate.value, -b.ratio))
    facts = {
        "length": fmt.count(length),
        "of": methods.of_trained(length, trained),
        "first": methods.title(first.method, words),
        "first_ratio": fmt.times(first.ratio),
        "first_rate": fmt.share(first.rate.value),
        "most": methods.title(most.method, words),
        "most_ratio": fmt.times(most.ratio),
        "most_rate": fmt.share(most.rate.value),
    }
    if first.method == most.method or most.rate.interval[0] <= first.rate.interval[1]:
        return [("retrieval.beside_agree", facts), *_misled(found, words)]
    place = 1 + sum(b.rate.value > first.rate.value for b in found)
    return [("retrieval.beside_contrast", {**facts, "place": fmt.count(place), "n": fmt.count(len(found))}), *_misled(found, words)]


def _misled(found: list[Beside], words: Words) -> list[Sentence]:
    """Of the methods that see all of the text the two that perplexity puts in the wrong order by most needles."""
    seeing = [b for b in found if b.method != STREAMING]
    pairs = [
        (worse.rate.value - better.rate.value, better, worse)
        for better in seeing
        for worse in seeing
        if better.ratio * (1 + lengths_story.LEVEL) < worse.ratio and better.rate.interval[1] < worse.rate.interval[0]
    ]
    if not pairs:
        return []
    _, better, worse = max(pairs, key=lambda pair: pair[0])
    facts = {f"{name}{kind}": text for name, b in (("better", better), ("worse", worse)) for kind, text in _told(b, words).items()}
    return [("retrieval.beside_pair", facts)]


def _told(b: Beside, words: Words) -> dict[str, str]:
    return {"": methods.title(b.method, words), "_ratio": fmt.times(b.ratio), "_rate": fmt.share(b.rate.value)}


def beside_rows(length: int, found: list[Beside], guess: float, words: Words) -> str:
    """A row for each method: its perplexity as a bar from in-range on (logarithmic), and its rate on a track from 0 to 100 %. HTML."""
    most = max(max(b.ratio for b in found), 1.25)
    head = (
        f"<div class='rb-row rb-head' aria-hidden='true'><span></span><span>{escape(words('retrieval.beside_perplexity'))}</span>"
        f"<span>{escape(words('retrieval.beside_rate'))}</span></div>"
    )
    best_rate, best_ratio = max(b.rate.value for b in found), min(b.ratio for b in found)
    return f"<div class='rb'>{head}{''.join(_row(b, most, guess, best_ratio, best_rate, words) for b in found)}</div>"


def _row(b: Beside, most: float, guess: float, best_ratio: float, best_rate: float, words: Words) -> str:
    low, high = b.rate.low * 100, b.rate.high * 100
    spread = words("retrieval.by_depth", low=f"{low:.0f}", high=fmt.share(b.rate.high))
    bar = f"<i class='rb-bar' style='width:{max(0.8, 100 * log(max(b.ratio, 1)) / log(most)):.2f}%'></i>"
    dot = (
        f"<i class='rb-range' style='left:{low:.2f}%;width:{high - low:.2f}%'></i><i class='rb-guess' style='left:{guess * 100:.2f}%'></i>"
        f"<i class='rb-dot' style='left:{b.rate.value * 100:.2f}%'></i>"
    )
    ratio, rate = escape(words("lengths.ratio", ratio=fmt.times(b.ratio))), parts.prose(fmt.share(b.rate.value))
    return (
        f"<div class='rb-row rb-style-{methods.style(b.method)}'><span class='rb-name'>{escape(methods.title(b.method, words))}</span>"
        f"{_half(words('retrieval.label_perplexity'), bar, ratio, best=b.ratio == best_ratio)}"
        f"{_half(words('retrieval.label_rate'), dot, f'{rate}<small>{parts.prose(spread)}</small>', best=b.rate.value == best_rate)}</div>"
    )


def _half(label: str, drawn: str, value: str, *, best: bool) -> str:
    return (
        f"<span class='rb-one'><span class='rb-label'>{escape(label)}</span><span class='rb-track' aria-hidden='true'>{drawn}</span>"
        f"<span class='rb-value{' rb-best' if best else ''}'>{value}</span></span>"
    )


def example(result: dict, words: Words) -> str:
    """A trial as its model read it: the text around the needle, the question, the values. HTML."""
    found = result.get("example")
    if not found:
        return ""
    text, needle = escape(found["text"]), escape(found["needle"])
    marked = text.replace(needle, f"<mark>{needle}</mark>", 1)
    facts = {"position": fmt.count(found["position"]), "length": fmt.count(found["length"])}
    answers = ", ".join(f"<b>{escape(word)}</b>" if word == found.get("right") else escape(word) for word in found["answers"])
    return (
        f"<p class='lab-note'>{escape(words('retrieval.example_where', **facts))}</p><p class='lab-quoted' lang='en'>{marked}</p>"
        f"<p class='lab-note'>{escape(words('retrieval.example_question'))}</p><p class='lab-quoted' lang='en'>… {escape(found['question'])} …</p>"
        f"<p class='lab-note'>{escape(words('retrieval.example_answers'))}</p><p class='lab-quoted' lang='en'>{answers}</p>"
    )
