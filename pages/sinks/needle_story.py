"""What a needle result says: who still knows the word, beside guessing. Pure, no streamlit.

A rate is called above the guess only if its whole 95 % interval is (the result's "against_guess"). See
`engine.experiments.needle` for the form of a result.
"""

from __future__ import annotations

from html import escape

from engine.experiments.needle_scenario import DENSE, SINKS
from pages._ui import fmt, parts
from pages._ui.words import Words
from pages.sinks import policies

Sentence = tuple[str, dict[str, str]]

ABOVE = "above"


def cells(result: dict) -> list[dict]:
    """The cells that have trials, in the order they are told; the control only where the others lie outside the window."""
    found = [cell for cell in result.get("cells") or () if cell.get("trials")]
    if found and all(cell["in_window"] for cell in found):  # nothing to hold a control against: it would be a second row of one name
        return [cell for at, cell in enumerate(found) if cell["policy"] not in {earlier["policy"] for earlier in found[:at]}]
    return found


def is_control(cell: dict, result: dict) -> bool:
    """Whether the needle was put within reach of the window, although it lies outside it for the others."""
    return bool(cell["in_window"]) and any(not other["in_window"] for other in cells(result))


def main(result: dict, policy: str) -> dict | None:
    """The cell of a policy on the texts that all share."""
    found = [cell for cell in cells(result) if cell["policy"] == policy and not is_control(cell, result)]
    return found[0] if found else None


def headline(result: dict) -> list[Sentence]:
    """Whether the model can do it at all; what the window forgets; who chooses better; and the control."""
    dense, sinks = main(result, DENSE), main(result, SINKS)
    guess = {"guess": share(result["guess"]), "slots": fmt.count(result["window"]), "length": fmt.count(result["length"])}
    if dense is None or sinks is None:
        return [("needle.partial", guess), *_choosers(result)]
    facts = {**guess, "dense": rate(dense), "sinks": rate(sinks)}
    if dense["against_guess"] != ABOVE:
        return [("needle.blind", facts)]
    if sinks["in_window"]:
        return [("needle.inside", facts)]
    first = "needle.kept" if sinks["against_guess"] == ABOVE else "needle.lost"
    return [(first, facts), *_control(result), *_choosers(result)]


def _control(result: dict) -> list[Sentence]:
    found = next((cell for cell in cells(result) if is_control(cell, result)), None)
    if found is None:
        return []
    return [("needle.control_above" if found["against_guess"] == ABOVE else "needle.control_level", {"rate": rate(found)})]


def _choosers(result: dict) -> list[Sentence]:
    """The policies that choose what they keep, each with its own word."""
    said = []
    for policy in ("snapkv", "h2o"):
        cell = main(result, policy)
        if cell and not cell["in_window"]:
            verdict = _knows(cell, result) if cell["against_guess"] == ABOVE else "level"
            said.append((f"needle.{policy}_{verdict}", {"rate": rate(cell), "slots": fmt.count(result["window"]), **named(result)}))
    return said


def _knows(cell: dict, result: dict) -> str:
    """"above", or "named" where the rate may also be that of a model which has kept the words of a text and lost whose they are."""
    return "named" if result["needles"] > 1 and cell["interval"][0] <= 1 / result["needles"] else ABOVE


def named(result: dict) -> dict[str, str]:
    """How many words a text names, and what picking one of them gives."""
    return {"needles": fmt.count(result["needles"]), "named": share(1 / result["needles"])}


def rates_note(result: dict, words: Words) -> str:
    """How to read the rates."""
    told = words("needle.rates_note", guess=share(result["guess"]))
    return f"{told} {words('needle.named_note', **named(result))}" if result["needles"] > 1 else told


def rate(cell: dict) -> str:
    """``0.875`` -> ``88 %``."""
    return share(cell["rate"])


def share(value: float | None) -> str:
    """Of a whole, rounded as everywhere."""
    return fmt.share(value)


def interval(cell: dict) -> str:
    low, high = cell["interval"]
    return f"{low * 100:.0f}–{high * 100:.0f} %"


def title(cell: dict, result: dict, words: Words) -> str:
    """The policy, and for the control that it is one."""
    name = policies.title(cell["policy"], words)
    return words("needle.control", name=name) if is_control(cell, result) else name


def about(result: dict, words: Words) -> str:
    """How it was asked, and what was left out."""
    shared = main(result, DENSE) or next(iter(cells(result)), None)
    facts = {
        "trials": fmt.count(shared["trials"] if shared else 0),
        "texts": fmt.count(result["texts"]),
        "length": fmt.count(result["length"]),
        "needles": fmt.count(result["needles"]),
        "choices": fmt.count(len(result["choices"])),
        "guess": share(result["guess"]),
    }
    told = words("needle.about", **facts)
    excluded = result.get("excluded") or 0
    return f"{told} {words('needle.excluded' if excluded else 'needle.none_excluded', n=fmt.count(excluded))}"


def rows(result: dict, words: Words) -> str:
    """A row for each cell: a track from 0 to 100 %, its interval, its rate, and the guess through all of them. HTML."""
    guess = f"<i class='nd-guess' style='left:{result['guess'] * 100:.2f}%'></i>"
    made = "".join(_row(cell, result, guess, words) for cell in cells(result))
    ticks = "".join(f"<span style='left:{at}%'>{at} %</span>" for at in (0, 25, 50, 75, 100))
    axis = f"<div class='nd-row nd-axis' aria-hidden='true'><span></span><span class='nd-track'>{ticks}</span><span></span></div>"
    return f"<div class='nd'>{made}{axis}</div>"


def _row(cell: dict, result: dict, guess: str, words: Words) -> str:
    low, high = (edge * 100 for edge in cell["interval"])
    above = " nd-above" if cell["against_guess"] == ABOVE else ""
    where = words(f"needle.{'in' if cell['in_window'] else 'out'}_window") if cell["policy"] in ("sinks", "window") else words(f"needle.sees_{cell['policy']}")
    return (
        f"<div class='nd-row{above}'><span class='nd-name'>{escape(title(cell, result, words))}<small>{escape(where)}</small></span>"
        f"<span class='nd-track' aria-hidden='true'><i class='nd-range' style='left:{low:.2f}%;width:{max(0.0, high - low):.2f}%'></i>{guess}"
        f"<i class='nd-dot' style='left:{(cell['rate'] or 0) * 100:.2f}%'></i></span>"
        f"<span class='nd-value'>{parts.prose(rate(cell))} <small>({parts.prose(interval(cell))})</small></span></div>"
    )


def table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    head = [words(f"needle.col_{name}") for name in ("policy", "right", "rate", "interval", "margin", "guess")]
    return head, [
        [
            title(cell, result, words),
            words("needle.of", right=fmt.count(cell["right"]), trials=fmt.count(cell["trials"])),
            rate(cell),
            interval(cell),
            f"{cell['margin_mean']:+.2f}".replace("-", "−"),
            words(f"needle.against_{cell['against_guess']}"),
        ]
        for cell in cells(result)
    ]


def example(result: dict, words: Words) -> str:
    """The first trial as its model read it: the text around the needle, the question, the words. HTML."""
    found = result.get("example")
    if not found:
        return ""
    text, needle = escape(found["text"]), escape(found["needle"])
    marked = text.replace(needle, f"<mark>{needle}</mark>", 1)
    facts = {"position": fmt.count(found["position"]), "length": fmt.count(found["length"])}
    answers = ", ".join(f"<b>{escape(word)}</b>" if word == found["right"] else escape(word) for word in found["answers"])
    return (
        f"<p class='lab-note'>{escape(words('needle.example_where', **facts))}</p>"
        f"<p class='lab-quoted' lang='en'>{marked}</p>"
        f"<p class='lab-note'>{escape(words('needle.example_question'))}</p><p class='lab-quoted' lang='en'>{escape(found['question'])} …</p>"
        f"<p class='lab-note'>{escape(words('needle.example_answers'))}</p><p class='lab-quoted' lang='en'>{answers}</p>"
    )
