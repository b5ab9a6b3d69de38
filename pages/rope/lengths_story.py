"""What a lengths result says: how far each method lies above the trained range, in sentences, a chart and a table. Pure.

A sentence is (key of a text, facts) and follows from the numbers. "In range" is the model as it is at the greatest length that
it was trained for. See `engine.experiments.lengths` for the form of a result; one that is still growing has fewer cells.
"""

from __future__ import annotations

from html import escape

from pages._ui import fmt, parts
from pages._ui.charts import log_ticks
from pages._ui.words import Words, model_title
from pages.rope import methods
from pages.rope.methods import PLAIN, STREAMING

Sentence = tuple[str, dict[str, str]]

# Perplexities that differ by less than this share are called level; from BREAKS times in-range on the model is called broken.
# A stretching that stays below HOLDS times in-range is said to hold.
LEVEL, BREAKS, HOLDS = 0.03, 1.5, 1.2
# Points of several methods at one length stand beside each other, not on each other: so far apart, as a share of the axis.
_BESIDE = 0.0075
# The shape of a style's points, and whether it is filled: with the colour and the dash, what tells eight methods apart.
_SHAPES = ("circle", "square", "diamond", "triangle")


def cell(result: dict, method: str, length: int) -> dict | None:
    """One cell; None if it has not been measured."""
    return next((c for c in result["cells"] if (c["method"], c["length"]) == (method, length)), None)


def in_range(result: dict) -> dict | None:
    """The model as it is at the greatest length that it was trained for."""
    fitting = [c for c in result["cells"] if c["length"] <= result["trained"] and c["scaling"] is None]
    fitting.sort(key=lambda c: (c["method"] == PLAIN, c["method"] != STREAMING, c["length"]))
    return fitting[-1] if fitting else None


def over(result: dict, found: dict | None) -> float | None:
    """How many times in-range a cell's perplexity is."""
    base = in_range(result)
    return found["perplexity"] / base["perplexity"] if found and base else None


def ranked(result: dict, length: int, *, stretched: bool = False) -> list[tuple[float, str]]:
    """(times in-range, method) at a length, the best first. stretched: without the model as it is and without streaming."""
    names = [m for m in methods.present(result["cells"]) if not (stretched and m in (PLAIN, STREAMING))]
    pairs = [(over(result, cell(result, name, length)), name) for name in names]
    return sorted((pair for pair in pairs if pair[0] is not None), key=lambda pair: pair[0])


def headline(result: dict, words: Words) -> list[Sentence]:
    """What becomes of the model as it is, which stretching holds best, what streaming looks like, and how sure that is."""
    base, length = in_range(result), methods.spoken_of(result)
    if base is None or length is None:
        return [("lengths.partial", {"trained": fmt.count(result["trained"])})]
    said = [*_plain(result, base), *_stretched(result, length, words), *_streaming(result, length), *_fixed(result, words)]
    return said or [("lengths.partial", {"trained": fmt.count(result["trained"])})]


def _at(result: dict, length: int) -> dict[str, str]:
    return {"length": fmt.count(length), "of": methods.of_trained(length, result["trained"])}


def _plain(result: dict, base: dict) -> list[Sentence]:
    found = [c for c in result["cells"] if c["method"] == PLAIN and c["length"] > result["trained"]]
    if not found:
        return []
    last = max(found, key=lambda c: c["length"])
    ratio = over(result, last)
    facts = {
        **_at(result, last["length"]),
        "trained": fmt.count(result["trained"]),
        "base": fmt.perplexity(base["perplexity"]),
        "value": fmt.perplexity(last["perplexity"]),
        "ratio": fmt.times(ratio),
    }
    return [(f"lengths.plain_{'breaks' if ratio >= BREAKS else 'rises' if ratio > 1 + LEVEL else 'level'}", facts)]


def _stretched(result: dict, length: int, words: Words) -> list[Sentence]:
    """The best stretching where it is spoken of, the worst beside it, and whether all seeds agree."""
    order, last = ranked(result, length, stretched=True), max(methods.beyond(result))
    if not order:
        return []
    (best, name), (worst, other) = order[0], order[-1]
    plain, far = over(result, cell(result, PLAIN, length)), over(result, cell(result, name, last))
    facts = {**_at(result, length), "best": methods.title(name, words), "more": more(best), "ratio": fmt.times(best)}
    if plain is not None and best > (1 - LEVEL) * plain:
        return [("lengths.stretch_useless", {**facts, "plain": fmt.times(plain)})]
    said = [("lengths.stretch_holds" if best <= HOLDS else "lengths.stretch_best", facts)]
    if last != length and far is not None:
        key = "lengths.stretch_far_holds" if far <= HOLDS else "lengths.stretch_far"
        said.append((key, {**_at(result, last), "best": facts["best"], "ratio": fmt.times(far)}))
    if worst > (1 + LEVEL) * best:
        said.append(("lengths.stretch_worst", {**_at(result, length), "worst": methods.title(other, words), "ratio": fmt.times(worst)}))
    return [*said, *_seeds(result, length, name, words)]


def _seeds(result: dict, length: int, name: str, words: Words) -> list[Sentence]:
    """In how many of the seeds the best stretching is the best."""
    by = {m: cell(result, m, length)["by_seed"] for _, m in ranked(result, length, stretched=True)}
    seeds = min(map(len, by.values()))
    if seeds < 2 or len(by) < 2:
        return []
    wins = sum(by[name][n] <= min(values[n] for values in by.values()) for n in range(seeds))
    facts = {**_at(result, length), "best": methods.title(name, words), "wins": fmt.count(wins), "seeds": fmt.count(seeds)}
    return [("lengths.seeds_all" if wins == seeds else "lengths.seeds_some", facts)]


def _streaming(result: dict, length: int) -> list[Sentence]:
    order = ranked(result, length)
    ratio = {name: value for value, name in order}.get(STREAMING)
    if ratio is None or len(order) < 2:
        return []
    others = min(value for value, name in order if name != STREAMING)
    key = "best" if ratio < (1 - LEVEL) * others else "level" if ratio <= (1 + LEVEL) * others else "behind"
    facts = {**_at(result, length), "ratio": fmt.times(ratio), "other": fmt.times(others), "level": fmt.share(LEVEL)}
    return [(f"lengths.streaming_{key}", facts)]


def _fixed(result: dict, words: Words) -> list[Sentence]:
    """What a factor that does not follow the length costs where none would be needed."""
    base = in_range(result)
    inside = [c for c in result["cells"] if c["length"] == base["length"] and (c["factor"] or 1) > 1 and c["method"] != PLAIN]
    if not inside:
        return []
    ratios = {c["method"]: over(result, c) for c in inside}
    few, many = min(ratios, key=ratios.get), max(ratios, key=ratios.get)
    facts = {"factor": methods.short(inside[0]["factor"]), "length": fmt.count(base["length"])}
    names = {"few": methods.title(few, words), "many": methods.title(many, words)}
    return [("lengths.fixed_costs", {**facts, **names, "by_few": fmt.times(ratios[few]), "by_many": fmt.times(ratios[many])})]


def more(ratio: float) -> str:
    """``1.13`` -> ``13 %``: by how much it lies above."""
    return fmt.share(max(0.0, ratio - 1))


def about(result: dict, words: Words) -> str:
    """What was read, and what counts."""
    scenario = result["manifest"]["scenario"]
    key = f"run.text_{scenario['text']}"
    factor = scenario["factor"]
    facts = {
        "model": model_title(result["manifest"]["model"], words),
        "trained": fmt.count(result["trained"]),
        "text": words(key) if key in words else words("lengths.own_text"),
        "texts": fmt.count(result["texts"]),
        "seeds": fmt.count(len(result["seeds"])),
        "scored": fmt.count(result["scored"]),
    }
    stretch = words("lengths.about_fixed", factor=methods.short(factor)) if factor else words("lengths.about_own")
    ramp = words(f"lengths.about_ramp_{scenario['ramp']}")
    return f"{words('lengths.about', **facts)} {stretch} {ramp}"


# ------------------------------------------------------------------ the chart


def lines(result: dict) -> list[tuple[tuple[str, ...], list[dict]]]:
    """(methods, their cells by length) of each line: dynamic NTK and NTK-aware are one where they are the same."""
    order = sorted(result["cells"], key=lambda c: c["length"])
    found = {m: [c for c in order if c["method"] == m] for m in methods.present(order)}
    same = [[(c["length"], c["perplexity"]) for c in found.get(m, ())] for m in ("ntk", "dynamic")]
    if same[0] and same[0] == same[1]:
        del found["dynamic"]
        return [((name, "dynamic") if name == "ntk" else (name,), cells) for name, cells in found.items()]
    return [((name,), cells) for name, cells in found.items()]


def shares_a_line(result: dict) -> bool:
    """Whether NTK-aware and dynamic NTK are drawn as one."""
    return any(len(names) > 1 for names, _ in lines(result))


def spec(result: dict, words: Words) -> dict | None:
    """Perplexity over length, both logarithmic, a line for each method; None without a cell. See pages/_ui/plot.py."""
    drawn = lines(result)
    if not drawn:
        return None
    values = [v for _, cells in drawn for c in cells for v in (c["perplexity"], *c["by_seed"])]
    low, high = min(values), max(values)
    low, high = low / (high / low) ** 0.16 / 1.05, min(1e306, high * (high / low) ** 0.06)  # with room for the words of the marks below
    ticks = log_ticks(low, high)
    if sum(low <= v <= high for v in ticks) < 3:  # within less than a decade round steps say more
        ticks = sorted({*ticks, *(n * 10.0**d for d in range(-1, 4) for n in (1, 1.5, 2, 3, 4, 5, 6, 8))})
    lengths, trained = result["lengths"], result["trained"]
    room = max(1.05, (lengths[-1] / lengths[0]) ** 0.07)
    edges = [lengths[0] / room**1.6, lengths[-1] * room]
    step = (edges[1] / edges[0]) ** _BESIDE
    base = in_range(result)
    marks = [{"across": "x", "at": trained, "text": words("lengths.mark_trained", n=fmt.count(trained))}]
    if base:
        marks.append({"across": "y", "at": base["perplexity"], "text": ""})
    found = {"height": 430, "lines": [], "points": [], "marks": marks}
    for number, (names, cells) in enumerate(drawn):
        beside = step ** (number - (len(drawn) - 1) / 2)
        called, style = words("lengths.and").join(methods.title(name, words) for name in names), methods.style(names[0])
        looks = {"style": style, "width": 2.2}
        points = [[c["length"] * beside, c["perplexity"]] for c in cells]
        found["lines"].append({"name": called, "points": points, "label": "end", **looks})
        for c in cells:
            at = c["length"] * beside
            if len(c["by_seed"]) > 1:
                spread = [[at, min(c["by_seed"])], [at, max(c["by_seed"])]]
                found["lines"].append({"name": "", "points": spread, "label": "none", "solid": True, "style": style, "width": 1.3})
            found["points"].append(
                {
                    "id": f"{c['method']}-{c['length']}",
                    "x": at,
                    "y": c["perplexity"],
                    "style": style,
                    "shape": _SHAPES[style % 4],
                    "filled": style < 4,
                    "text": told(result, c, called, words),
                }
            )
    across, up = [[n, _tick(n, trained)] for n in lengths], [[v, _round(v)] for v in ticks if low <= v <= high]
    return found | {
        "x": {"title": words("lengths.axis_length"), "log": True, "range": edges, "ticks": across},
        "y": {"title": words("lengths.axis_perplexity"), "log": True, "range": [low, high], "ticks": up},
    }


def _tick(length: int, trained: int) -> str:
    return f"{fmt.count(length)} ({methods.of_trained(length, trained)}×)"


def _round(value: float) -> str:
    if value >= 1e6:
        return fmt.power(value)
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def told(result: dict, c: dict, called: str, words: Words) -> str:
    """A point in words, line by line."""
    facts = {**_at(result, c["length"]), "value": fmt.perplexity(c["perplexity"])}
    said = [called, words("lengths.told", **facts)]
    if ratio := over(result, c):
        said.append(words("lengths.told_ratio", ratio=fmt.times(ratio)))
    if len(c["by_seed"]) > 1:
        said.append(words("lengths.told_seeds", list=", ".join(map(fmt.perplexity, c["by_seed"]))))
    if (c["factor"] or 1) > 1:
        said.append(words("lengths.told_factor", factor=methods.short(c["factor"])))
    return "\n".join(said)


def alt(result: dict, words: Words) -> str:
    """The chart in words: where each line begins and ends."""
    first, last, trained = (fmt.count(n) for n in (result["lengths"][0], result["lengths"][-1], result["trained"]))
    found = [words("lengths.alt", first=first, last=last, trained=trained)]
    for names, cells in lines(result):
        called = words("lengths.and").join(methods.title(name, words) for name in names)
        values = ", ".join(words("lengths.alt_at", value=fmt.perplexity(c["perplexity"]), n=fmt.count(c["length"])) for c in cells)
        found.append(f"{called}: {values}.")
    return " ".join(found)


# ------------------------------------------------------------------ the table


def table(result: dict, words: Words) -> str:
    """A row for each method, a column for each length: perplexity, times in-range, and both by seed. HTML."""
    trained = result["trained"]
    head = "".join(f"<th scope='col'>{escape(_tick(n, trained))}</th>" for n in result["lengths"])
    body = ""
    for method in methods.present(result["cells"]):
        cells = "".join(f"<td>{_entry(result, cell(result, method, length), words)}</td>" for length in result["lengths"])
        body += f"<tr><th scope='row'>{escape(methods.title(method, words))}</th>{cells}</tr>"
    label = escape(words("lengths.section_table"), quote=True)
    return (
        f"<div class='lab-scroll' tabindex='0' role='region' aria-label='{label}'><table class='lab-table rl-table'><thead><tr>"
        f"<th scope='col'>{escape(words('lengths.col_method'))}</th>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _entry(result: dict, found: dict | None, words: Words) -> str:
    if found is None:
        return fmt.DASH
    ratio, base = over(result, found), in_range(result)
    said = f"<b>{escape(fmt.perplexity(found['perplexity']))}</b>"
    if ratio is None:
        return said
    said += f"<small>{escape(words('lengths.ratio', ratio=fmt.times(ratio)))}"
    by = [value / of for value, of in zip(found["by_seed"], base["by_seed"], strict=False)]
    if len(by) > 1 and found is not base:
        said += f" ({escape(fmt.times(min(by)))}–{escape(fmt.times(max(by)))})"
    return said + "</small>"


def seconds(result: dict) -> float:
    """How long all cells together took."""
    return sum(c["seconds"] for c in result["cells"])


def paragraphs(sentences: list[Sentence], words: Words) -> str:
    """The first sentence large, the others below it. HTML."""
    first, *rest = [words(key, **facts) for key, facts in sentences]
    more_ = "".join(f"<p class='lab-said'>{parts.prose(text)}</p>" for text in rest)
    return f"<p class='lab-headline'>{parts.prose(first)}</p>{more_}"
