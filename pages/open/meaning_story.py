"""What is left of a text when a cache keeps a part of it: perplexity and needles of the sinks lesson side by side. Pure.

Both results are of the same policies on different texts: perplexity asks whether the next word is foreseen, the needle whether
one sentence far back is still known. See `engine.experiments.streaming` and `engine.experiments.needle` for their form.
"""

from __future__ import annotations

from engine import profiles
from engine.experiments.needle_scenario import DENSE, SNAPKV
from pages._ui import fmt
from pages._ui.words import Words
from pages.sinks import needle_story
from pages.sinks.policies import with_sinks

Sentence = tuple[str, dict[str, str]]
POLICIES = ("dense", "window", "sinks", "h2o", "snapkv")
# Of a ratio of perplexities or of a difference of rates: less is not spoken of.
LITTLE = 0.1
ABOVE = "above"
_TABLE = "streamingllm-table-7"
_DISTANCES = (460, 1840, 2300, 4600, 9200, 18400)


def perplexities(streaming: dict | None) -> dict[str, float]:
    """Of each policy, over that of the whole cache."""
    curves = (streaming or {}).get("curves") or {}
    dense = (curves.get("dense") or {}).get("perplexity_after")
    names = {"dense": "dense", "window": "window", "sinks": with_sinks(curves), "h2o": "h2o"}
    return {policy: curves[name]["perplexity_after"] / dense for policy, name in names.items() if dense and name in curves}


def needles(needle: dict | None) -> dict[str, dict]:
    """The cell of each policy, on the texts that all share."""
    if not needle:
        return {}
    found = {policy: needle_story.main(needle, policy) for policy in POLICIES}
    return {policy: cell for policy, cell in found.items() if cell}


def said(streaming: dict | None, needle: dict | None) -> list[Sentence]:
    """Perplexity first, which says that little is lost; then the needle, which says what; then who chose with the question in view."""
    ratios, cells, found = perplexities(streaming), needles(needle), []
    if {"sinks", "h2o"} <= set(ratios):
        facts = {"slots": fmt.count(streaming["window"]), "tokens": fmt.count(streaming["tokens"]), "share": fmt.share(streaming["window"] / streaming["tokens"])}
        facts |= {"sinks": fmt.percent(ratios["sinks"] - 1), "h2o": fmt.percent(ratios["h2o"] - 1)}
        found.append(("meaning.perplexity_little" if max(ratios["sinks"], ratios["h2o"]) < 1 + LITTLE else "meaning.perplexity_more", facts))
    if {"dense", "sinks"} <= set(cells):
        facts = {"dense": needle_story.rate(cells["dense"]), "sinks": needle_story.rate(cells["sinks"]), "guess": fmt.share(needle["guess"])}
        facts |= {"slots": fmt.count(needle["window"]), "length": fmt.count(needle["length"])}
        lost = cells["sinks"]["against_guess"] != ABOVE
        knows = cells["dense"]["against_guess"] == ABOVE
        found.append(("meaning.needle_lost" if lost and knows else "meaning.needle_kept" if knows else "meaning.needle_blind", facts))
    if {"h2o", "snapkv"} <= set(cells):
        facts = {"h2o": needle_story.rate(cells["h2o"]), "snapkv": needle_story.rate(cells["snapkv"])}
        further = cells["snapkv"]["rate"] > cells["h2o"]["rate"] + LITTLE
        found.append(("meaning.question_helps" if further else "meaning.question_level", facts))
    return found or [("meaning.partial", {})]


def table(streaming: dict | None, needle: dict | None, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each policy: what it goes by, and both measures."""
    ratios, cells = perplexities(streaming), needles(needle)
    head = [words(f"meaning.col_{name}") for name in ("policy", "by", "question", "perplexity", "needle")]
    rows = []
    for policy in POLICIES:
        if policy not in ratios and policy not in cells:
            continue
        cell = cells.get(policy)
        rate = f"{needle_story.rate(cell)} ({needle_story.interval(cell)})" if cell else fmt.DASH
        ratio = f"{fmt.times(ratios[policy])}×" if policy in ratios else fmt.DASH
        sees = fmt.DASH if policy == DENSE else words(f"meaning.question_{'yes' if policy == SNAPKV else 'no'}")
        rows.append([words(f"meaning.policy_{policy}"), words(f"meaning.by_{policy}"), sees, ratio, rate])
    return head, rows


def about(streaming: dict | None, needle: dict | None, words: Words) -> str:
    told = []
    if streaming:
        told.append(words("meaning.about_streaming", window=fmt.count(streaming["window"]), tokens=fmt.count(streaming["tokens"])))
    if needle:
        told.append(words("meaning.about_needle", window=fmt.count(needle["window"]), length=fmt.count(needle["length"]), guess=fmt.share(needle["guess"])))
    return " ".join(told)


def published(words: Words) -> tuple[list[str], list[list[str]]]:
    """StreamingLLM, Table 7: a row for each cache, how often a line that many tokens back is answered."""
    found = profiles.table(_TABLE)
    caches = sorted({(row["sinks"], row["recent"]) for row in found.rows})
    head = [words("meaning.col_cache"), *(words("meaning.back", n=fmt.count(n)) for n in _DISTANCES)]
    rows = [
        [words("meaning.cache", n=fmt.count(sinks + recent)), *(fmt.share(found.value("accuracy", distance=n, recent=recent)) for n in _DISTANCES)]
        for sinks, recent in caches
    ]
    return head, rows
