"""What an attention result says: its headline, what every start becomes, its tables. Pure.

A sentence is (key of a text, facts) and follows from the numbers. Shares are parts of 1: the attention of a head to a key, a
probability after softmax, averaged over the queries from ``queries_from`` on. "Even" is what a head would give that treats
all tokens it can see alike.
"""

from __future__ import annotations

from statistics import fmean

from pages._ui import fmt
from pages._ui.charts import even_ticks
from pages._ui.words import Words
from pages.sinks.shares import share

Sentence = tuple[str, dict[str, str]]

MUCH, MOST = 0.3, 0.5
# So many tokens that the even share is itself this large tell nothing about sinks.
TOO_EVEN = 0.1
# A layer from which on attention to the first token is this many times what it was before is where it begins.
JUMP = 2.0
# A start that keeps this part of the usual attention has become the sink as well.
KEPT = 0.5
SHOWN = 4  # first tokens of a start
STARTS = ("as_is", "special", "newline", "word", "newlines4")
MEASURES = ("first", "first_k")


def rows(result: dict, measure: str = "first") -> list[list[float]]:
    """[layer][head] shares of token 0, or of the first k."""
    return result["overview"][measure]


def even(result: dict, measure: str = "first") -> float:
    """What an even spread would give them."""
    return result["overview"]["uniform" if measure == "first" else "uniform_k"]


def first_k(result: dict) -> int:
    return result["overview"]["first_k_tokens"]


def by_layer(result: dict, measure: str = "first") -> list[float]:
    """Mean over the heads of each layer."""
    return [fmean(heads) for heads in rows(result, measure)]


def onset(values: list[float]) -> int | None:
    """The layer at which the values fall best into a low part before and a high part from there on (least squares); None if
    the high part is not JUMP times the low one, or there are too few layers."""
    best = None
    for at in range(1, len(values)):
        before, after = values[:at], values[at:]
        left = sum((v - fmean(before)) ** 2 for v in before) + sum((v - fmean(after)) ** 2 for v in after)
        if best is None or left < best[0]:
            best = left, at, fmean(before), fmean(after)
    return best[1] if best and best[3] >= JUMP * best[2] and best[3] > best[2] else None


def headline(result: dict) -> Sentence:
    """The one sentence above everything."""
    heads = [value for layer in rows(result) for value in layer]
    layers = by_layer(result)
    many = sum(value > MUCH for value in heads)
    facts = {
        "heads": fmt.count(len(heads)),
        "many": fmt.count(many),
        "most": fmt.count(sum(value > MOST for value in heads)),
        "even": share(even(result)),
        "tokens": fmt.count(len(result["tokens"])),
        "much": share(MUCH),
        "half": share(MOST),
    }
    if even(result) > TOO_EVEN:
        return "story.short", facts
    if not many:
        top = max(heads)
        return "story.none", facts | {"top": share(top)}
    begins = onset(layers)
    if begins is None:
        return "story.throughout", facts | {"mean": share(fmean(layers))}
    return "story.begins", facts | {"layer": str(begins), "before": share(fmean(layers[:begins])), "after": share(fmean(layers[begins:]))}


def figures(result: dict, words: Words) -> list[tuple[str, str]]:
    """(what, value) of the few numbers under the headline."""
    layer, head = strongest(result)
    return [
        (words("figure.mean"), share(fmean(by_layer(result)))),
        (words("figure.mean_k", k=first_k(result)), share(fmean(by_layer(result, "first_k")))),
        (words("figure.even"), share(even(result))),
        (words("figure.top", layer=layer, head=head), share(rows(result)[layer][head])),
    ]


def about(result: dict, words: Words) -> str:
    """Which text was read, and what of it the numbers are of."""
    key = f"run.text_{result['manifest']['scenario']['text']}"
    read = result["text"]
    facts = {"tokens": fmt.count(read["tokens"]), "offset": fmt.count(read["offset"]), "from_token": fmt.count(result["overview"]["queries_from"])}
    told = words("heatmap.about", text=words(key) if key in words else words("heatmap.about_own"), **facts)
    return f"{told} {words('heatmap.shorter', asked=fmt.count(read['asked']))}" if read["tokens"] < read["asked"] else told


def strongest(result: dict) -> tuple[int, int]:
    """(layer, head) that gives token 0 the most."""
    found = rows(result)
    return max(((layer, head) for layer in range(len(found)) for head in range(len(found[layer]))), key=lambda at: found[at[0]][at[1]])


def telling(result: dict) -> tuple[int, int]:
    """(layer, head) to begin with: a sink that leaves something for other tokens, so that both are seen."""
    found = rows(result)
    return min(((layer, head) for layer in range(len(found)) for head in range(len(found[layer]))), key=lambda at: abs(found[at[0]][at[1]] - MOST))


def starts(result: dict) -> list[dict]:
    """What was put first, in the order they are told."""
    found = {entry.get("name"): entry for entry in result.get("starts") or ()}
    return [found[name] for name in STARTS if name in found]


def starts_even(result: dict) -> float:
    """What an even spread would give the first token of each: they are shorter than the text."""
    return result["starts_on"]["uniform"]


def starts_said(result: dict) -> list[Sentence]:
    """Whether whatever comes first becomes the sink."""
    found = {entry["name"]: entry for entry in starts(result)}
    usual = found.get("as_is")
    if usual is None or starts_even(result) > TOO_EVEN:
        return []
    others = [entry for name, entry in found.items() if name != "as_is"]
    said: list[Sentence] = []
    if single := [entry for entry in others if entry["name"] != "newlines4"]:
        values = [entry["first"] for entry in single]
        facts = {"usual": share(usual["first"]), "low": share(min(values)), "high": share(max(values)), "even": share(starts_even(result))}
        said.append(("starts.any" if min(values) >= KEPT * usual["first"] else "starts.not_any", facts))
    if four := found.get("newlines4"):
        facts = {"k": fmt.count(first_k(result)), "first": share(four["first"]), "all": share(four["first_k"]), "usual": share(usual["first"])}
        said.append(("starts.split" if four["first_k"] >= KEPT * usual["first"] > four["first"] else "starts.four", facts))
    return said


def starts_facts(result: dict) -> dict[str, str]:
    """On how much of the text the starts were read."""
    return {name: fmt.count(result["starts_on"][name]) for name in ("tokens", "queries_from")}


def starts_table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    head = [words(f"starts.{name}") for name in ("start", "tokens")] + [words("starts.to_first"), words("starts.to_first_k", k=first_k(result))]
    return head, [
        [
            _name(entry, words),
            " ".join(f"“{label}”" for label in entry["labels"][:SHOWN]),
            share(entry["first"]),
            share(entry["first_k"]),
        ]
        for entry in starts(result)
    ]


def starts_spec(result: dict, words: Words) -> dict | None:
    """A chart (see pages/_ui/plot.py) of attention to token 0 by layer, a line for each start; None if there are none."""
    found = starts(result)
    if not found:
        return None
    layers = len(found[0]["by_layer"])
    top = max(max(entry["by_layer"]) for entry in found)
    high = min(1.0, max(0.1, top * 1.1))
    line_even = {"name": words("heat.line_even"), "points": [[0, starts_even(result)], [layers - 1, starts_even(result)]], "style": 5, "width": 1.4, "label": "legend"}
    return {
        "height": 320,
        "x": {"title": words("heat.layer_axis"), "range": [0, max(1, layers - 1)], "ticks": [[n, str(n)] for n in range(0, layers, 2 if layers > 12 else 1)]},
        "y": {"title": words("starts.axis"), "range": [0, high], "ticks": [[value, share(value)] for value in even_ticks(0.0, high, 5)]},
        "lines": [
            {
                "name": _name(entry, words),
                "points": [[layer, value] for layer, value in enumerate(entry["by_layer"])],
                "texts": [_at(entry, layer, words) for layer in range(len(entry["by_layer"]))],
                "style": STARTS.index(entry["name"]),
                "width": 3 if entry["name"] == "as_is" else 2,
                "label": "legend",
            }
            for entry in found
        ]
        + [line_even],
    }


def _at(entry: dict, layer: int, words: Words) -> str:
    where = words("starts.at", layer=layer, share=share(entry["by_layer"][layer]))
    return f"{_name(entry, words)}\n{where}"


def _name(entry: dict, words: Words) -> str:
    return words(f"start.{entry['name']}")


def starts_alt(result: dict, words: Words) -> str:
    found = [words("alt.start", start=_name(e, words), first=share(e["first"]), top=share(max(e["by_layer"]))) for e in starts(result)]
    return " ".join([words("alt.starts"), *found])


def overview_table(result: dict, measure: str, words: Words) -> tuple[list[str], list[list[str]]]:
    """The overview as numbers: a row for each layer, a column for each head, and the mean."""
    found = rows(result, measure)
    head = [words("table.layer"), *(words("table.head", head=head) for head in range(len(found[0]))), words("heat.mean")]
    return head, [[str(layer), *map(share, values), share(fmean(values))] for layer, values in enumerate(found)]
