"""What a streaming result says: its headline, the charts of losses and costs, its tables. Pure, no streamlit.

A sentence is (key of a text, facts) and follows from the numbers. Losses are in nats per token, the logarithm of perplexity;
"after" is behind the first eviction. See `engine.experiments.streaming` for the form of a result.
"""

from __future__ import annotations

from itertools import pairwise
from math import log
from statistics import median

from engine import profiles
from engine.experiments.streaming_scenario import DENSE, H2O, RECOMPUTE, WINDOW
from pages._ui import fmt
from pages._ui.charts import even_ticks
from pages._ui.words import Words
from pages.sinks import policies

Sentence = tuple[str, dict[str, str]]

# Window attention this many times dense, and more, has broken the model; from MUCH on it is in the paper's class.
BREAKS, MUCH = 1.5, 10.0
LOSS, ABOVE = "loss", "above"
VIEWS = (ABOVE, LOSS)
# Two points that lie this many usual steps apart have something unmeasured between them.
GAP = 3


def after(result: dict, name: str | None) -> float | None:
    """The perplexity of a policy behind the first eviction; None where there is none."""
    return ((result.get("curves") or {}).get(name) or {}).get("perplexity_after")


def headline(result: dict) -> list[Sentence]:
    """What eviction does to perplexity, how that compares with the paper, and how heavy hitters do."""
    kept = policies.with_sinks(result["curves"])
    dense, window, sinks = (after(result, name) for name in (DENSE, WINDOW, kept))
    if not (dense and window and sinks):
        return [("streaming.partial", {"dense": fmt.perplexity(dense), "slots": fmt.count(result["window"])})]
    facts = {
        "dense": fmt.perplexity(dense),
        "window": fmt.perplexity(window),
        "sinks": fmt.perplexity(sinks),
        "ratio": fmt.times(window / dense),
        "more": fmt.times(sinks / dense),
        "count": fmt.count(policies.sinks_of(kept)),
        "slots": fmt.count(result["window"]),
    }
    rises = "breaks" if window >= BREAKS * dense else "rises" if policies.against(window, dense) == "higher" else "level"
    return [(f"streaming.{rises}", facts), _beside_paper(window / dense), *_heavy(result, sinks)]


def _beside_paper(ratio: float) -> Sentence:
    """How large that is beside the published figures, which differ from model to model themselves."""
    first, second = profiles.table("streamingllm-table-1"), profiles.table("streamingllm-table-2")
    llama = first.value("perplexity", first_tokens="none") / first.value("perplexity", first_tokens="original")
    falcon = second.value("perplexity", model="Falcon-7B", sinks=0) / second.value("perplexity", model="Falcon-7B", sinks=4)
    facts = {"ratio": fmt.times(ratio), "llama": fmt.times(llama), "falcon": fmt.times(falcon)}
    return ("streaming.as_paper" if ratio >= MUCH else "streaming.not_as_paper"), facts


def _heavy(result: dict, sinks: float) -> list[Sentence]:
    heavy = after(result, H2O)
    if not heavy:
        return []
    return [(f"streaming.heavy_{policies.against(heavy, sinks)}", {"heavy": fmt.perplexity(heavy), "sinks": fmt.perplexity(sinks), "level": fmt.share(policies.LEVEL)})]


def figures(result: dict, words: Words) -> list[tuple[str, str]]:
    """(what, value) of the few numbers under the headline."""
    names = (DENSE, WINDOW, policies.with_sinks(result["curves"]), H2O)
    return [(policies.title(name, words), fmt.perplexity(after(result, name))) for name in names if after(result, name)]


def about(result: dict, words: Words) -> str:
    """Which text was read, and from where on the perplexities count."""
    key = f"run.text_{result['manifest']['scenario']['text']}"
    text = words(key) if key in words else words("streaming.own_text")
    facts = {"tokens": fmt.count(result["tokens"]), "slots": fmt.count(result["window"]), "first": fmt.count(result["first_eviction"])}
    return words("streaming.about", text=text, **facts)


# ------------------------------------------------------------------ the curves


def shown(curves: dict) -> list[str]:
    """The curves that are drawn, in the order of their names' list: of those with sinks only one."""
    wanted = (DENSE, WINDOW, policies.with_sinks(curves), H2O)
    return [name for name in wanted if name in curves and curves[name].get("bins")]


def spec(result: dict, view: str, words: Words) -> dict | None:
    """A chart (see pages/_ui/plot.py) along the stream: losses, or how much they lie above dense; None without a curve.

    result may also be what is known of a run that goes on: "tokens", "first_eviction", "curves".
    """
    curves = result.get("curves") or {}
    series = {name: points(curves[name]["bins"]) for name in shown(curves)}
    if view == ABOVE:
        zero = dict(series.pop(DENSE, []))
        series = {name: [(x, y - zero[x]) for x, y in points if x in zero] for name, points in series.items()}
    values = [y for points in series.values() for _, y in points]
    if not values:
        return None
    low, high = min(0.0, *values), max(0.1, *values)
    pad = 0.06 * (high - low)
    low, high = (low - pad if low < 0 else 0.0), high + pad
    at, tokens = result["first_eviction"], result["tokens"]
    found = {
        "height": 360,
        "x": {"title": words("streaming.axis_tokens"), "range": [0, tokens], "ticks": [[n, fmt.count(n)] for n in even_ticks(0, tokens, 8)]},
        "y": {"title": words(f"streaming.axis_{view}"), "range": [low, high], "ticks": [[n, _nats(n)] for n in even_ticks(low, high, 6)]},
        "lines": [_line(name, points, view, words) for name, points in series.items() if points],
        "marks": [{"across": "x", "at": at, "text": words("streaming.first_eviction", n=fmt.count(at))}],
    }
    if places := result.get("sampled_at"):
        ticks, looks = 0.045 * (high - low), {"style": policies.style(RECOMPUTE), "width": 2.2, "solid": True, "label": "none"}
        found["lines"] += [{"name": "", "points": [[x, high - ticks], [x, high]], **looks} for x in places]
        found["legend"] = [{"name": words("streaming.sampled_here", n=fmt.count(len(places))), "style": policies.style(RECOMPUTE), "shape": "square"}]
    if view == ABOVE:
        found["lines"].append({"name": policies.title(DENSE, words), "points": [[0, 0], [tokens, 0]], "style": policies.style(DENSE), "width": 1.6, "label": "legend"})
    return found


def points(bins: list) -> list[tuple[float, float]]:
    """The middle of each bin and its loss. What is left over at an end, less than half a bin, goes into its neighbour: the
    mean of a few tokens would stand out as if something had happened there."""
    merged = [list(entry) for entry in bins]
    widest = max((end - begin for begin, end, _ in merged), default=0)
    for at, into in ((0, 1), (-1, -2)):
        if len(merged) > 1 and merged[at][1] - merged[at][0] < widest / 2:
            few, many = merged[at], merged[into]
            counts = [end - begin for begin, end, _ in (few, many)]
            loss = (counts[0] * few[2] + counts[1] * many[2]) / sum(counts)
            merged[into] = [min(few[0], many[0]), max(few[1], many[1]), loss]
            del merged[at]
    return [((begin + end) / 2, loss) for begin, end, loss in merged]


def _line(name: str, points: list, view: str, words: Words) -> dict:
    called = policies.title(name, words)
    texts = [f"{called}\n{words(f'streaming.at_{view}', n=fmt.count(round(x)), value=_nats(y))}" for x, y in points]
    return {"name": called, "points": [list(p) for p in points], "texts": texts, "style": policies.style(name), "width": 2.2, "solid": True, "label": "legend"}


def _nats(value: float) -> str:
    return f"{value:.2f}".replace("-", "−")


def alt(result: dict, words: Words) -> str:
    """The chart in words."""
    found = [words("streaming.alt_one", name=policies.title(name, words), perplexity=fmt.perplexity(after(result, name))) for name in shown(result["curves"])]
    return " ".join([words("streaming.alt", first=fmt.count(result["first_eviction"]), tokens=fmt.count(result["tokens"])), *found])


# ------------------------------------------------------------------ tables


def policy_table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """Every policy: perplexity behind the first eviction, over dense, and at the places where re-computation was sampled."""
    curves, sampled = result["curves"], bool(result.get("sampled_at"))
    dense = after(result, DENSE)
    head = [words(f"streaming.col_{name}") for name in ("policy", "after", "over_dense", *(["sampled"] if sampled else []))]
    rows = []
    for name in [n for n in (DENSE, WINDOW, policies.with_sinks(curves), H2O, RECOMPUTE) if n in curves]:
        curve, value = curves[name], after(result, name)
        whole = not curve.get("sampled")
        row = [policies.title(name, words), fmt.perplexity(value) if whole else fmt.DASH, _over(value, dense) if whole else fmt.DASH]
        rows.append(row + ([fmt.perplexity(curve.get("perplexity_at_sampled"))] if sampled else []))
    return head, rows


def sinks_table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each number of sinks."""
    dense, window = result["dense"], result["window"]
    head = [words(f"streaming.col_{name}") for name in ("sinks", "recent", "after", "over_dense")]
    return head, [
        [fmt.count(row["sinks"]), fmt.count(window - row["sinks"]), fmt.perplexity(row["perplexity_after"]), _over(row["perplexity_after"], dense)]
        for row in result["table"]
    ]


def _over(value: float | None, dense: float | None) -> str:
    return f"{fmt.times(value / dense)}×" if value and dense else fmt.DASH


def sinks_said(result: dict) -> list[Sentence]:
    """How much of what the window alone loses each number of sinks takes back, in nats."""
    by = {row["sinks"]: row["perplexity_after"] for row in result["table"]}
    dense, window, counts = result["dense"], by.get(0), sorted(n for n in by if n)
    if not (window and counts) or policies.against(window, dense) != "higher":
        return []
    lost = log(window) - log(dense)
    few, many = counts[0], counts[-1]
    back = {n: (log(window) - log(by[n])) / lost for n in (few, many)}
    facts = {"few": fmt.count(few), "many": fmt.count(many), "by_few": fmt.share(back[few]), "by_many": fmt.share(back[many]), "level": fmt.share(policies.LEVEL)}
    if few == many:
        return [("streaming.sinks_one", facts)]
    return [("streaming.sinks_enough" if policies.against(by[few], by[many]) == "level" else "streaming.sinks_more", facts)]


def sampled_note(result: dict) -> Sentence | None:
    """How re-computation was sampled."""
    sampled = ((result["curves"].get(RECOMPUTE) or {}).get("sampled")) or None
    if not sampled:
        return None
    return "streaming.sampled_note", {"points": fmt.count(sampled["points"]), "every": fmt.count(sampled["every"]), "slots": fmt.count(result["window"])}


def agreement(result: dict) -> Sentence | None:
    """That the curve and the cache that really evicts say the same."""
    found = result.get("agreement")
    if not found:
        return None
    return "streaming.agreement", {"tokens": fmt.count(found["tokens"]), "mean": _small(found["mean_difference"]), "most": _small(found["largest_difference"])}


def _small(value: float) -> str:
    """``0.00041`` -> ``0.0004``; less than that can show says so."""
    return f"{value:.4f}" if value >= 0.00005 else "< 0.0001"


# ------------------------------------------------------------------ what a token costs


def cost_names(result: dict) -> list[str]:
    """The caches that really are as large as they say, the one that keeps everything first."""
    cost = result.get("cost") or {}
    return [name for name in (DENSE, policies.with_sinks(cost)) if name and (cost.get(name) or {}).get("ms_per_token")]


def spans(points: list) -> list[list]:
    """Points in stretches without a gap: what lies between them was not measured."""
    if not points:
        return []
    steps = [b[0] - a[0] for a, b in pairwise(points)]
    usual = median(steps) if steps else 0
    found = [[points[0]]]
    for step, point in zip(steps, points[1:], strict=True):
        if step > GAP * usual:
            found.append([])
        found[-1].append(point)
    return found


def cost_spec(result: dict, what: str, words: Words) -> dict | None:
    """A chart of "ms_per_token" or "kv_bytes" over the tokens so far; None without such points."""
    series = {name: result["cost"][name].get(what) or [] for name in cost_names(result)}
    high = max((value for points in series.values() for _, value in points), default=0)
    if not high:
        return None
    show = _ms if what == "ms_per_token" else fmt.bytes_
    tokens, at, lines = result["tokens"], result["first_eviction"], []
    for name, points in series.items():
        for number, part in enumerate(spans(points)):
            texts = [f"{policies.title(name, words)}\n{words('streaming.at_cost', n=fmt.count(n), value=show(value))}" for n, value in part]
            looks = {"style": policies.style(name), "width": 3.4, "solid": True, "label": "none" if number else "legend"}
            lines.append({"name": policies.title(name, words), "points": part, "texts": texts, **looks})
    high *= 1.12
    return {
        "height": 280,
        "x": {"title": words("streaming.axis_tokens"), "range": [0, tokens], "ticks": [[n, fmt.count(n)] for n in even_ticks(0, tokens, 5)]},
        "y": {"title": words(f"streaming.axis_{what}"), "range": [0, high], "ticks": [[n, show(n)] for n in even_ticks(0, high, 5)]},
        "lines": lines,
        "marks": [{"across": "x", "at": at, "text": words("streaming.first_eviction_short")}],
    }


def _ms(value: float) -> str:
    return fmt.tick(value / 1e3)


def late(result: dict, name: str) -> tuple[int, float, float] | None:
    """(tokens so far, median ms of a token, bytes of KV) over the last stretch of a cache."""
    found = result["cost"][name]
    times_ms, held = found.get("ms_per_token") or [], found.get("kv_bytes") or []
    if not (times_ms and held):
        return None
    return times_ms[-1][0], median(ms for _, ms in spans(times_ms)[-1]), held[-1][1]


def cost_said(result: dict) -> list[Sentence]:
    """What a late token costs, with everything kept and with sinks and window; what reading the window anew would."""
    names = cost_names(result)
    found = [late(result, name) for name in names]
    if len(names) < 2 or None in found:
        return []
    (tokens, ms_dense, held_dense), (_, ms_sinks, held_sinks) = found
    said = [
        (
            "streaming.cost",
            {
                "tokens": fmt.count(tokens),
                "ms_dense": fmt.seconds(ms_dense / 1e3),
                "ms_sinks": fmt.seconds(ms_sinks / 1e3),
                "kv_dense": fmt.bytes_(held_dense),
                "kv_sinks": fmt.bytes_(held_sinks),
            },
        )
    ]
    again = (result["cost"].get(RECOMPUTE) or {}).get("ms_per_token")
    if again and ms_sinks:
        facts = {"ms": fmt.seconds(again[-1][1] / 1e3), "ratio": fmt.times(again[-1][1] / ms_sinks), "slots": fmt.count(result["window"])}
        said.append(("streaming.cost_again", facts))
    return said


def cost_table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each cache, and for reading the window anew: a token before, right behind and long after the first eviction."""
    head = [words(f"streaming.col_{name}") for name in ("policy", "ms_before", "ms_behind", "ms_late", "kv_late")]
    rows = []
    for name in cost_names(result):
        points, at = result["cost"][name]["ms_per_token"], result["first_eviction"]
        first, *later = spans(points)
        stages = ([ms for n, ms in first if n <= at], [ms for n, ms in first if n > at], [ms for _, ms in later[-1]] if later else [])
        held = result["cost"][name].get("kv_bytes") or [[0, None]]
        rows.append([policies.title(name, words), *(fmt.seconds(median(ms) / 1e3 if ms else None) for ms in stages), fmt.bytes_(held[-1][1])])
    if again := (result["cost"].get(RECOMPUTE) or {}).get("ms_per_token"):
        held = result["cost"][RECOMPUTE].get("kv_bytes") or [[0, None]]
        one = fmt.seconds(again[-1][1] / 1e3)
        rows.append([policies.title(RECOMPUTE, words), fmt.DASH, one, one, fmt.bytes_(held[-1][1])])
    return head, rows


def cost_alt(result: dict, what: str, words: Words) -> str:
    """A cost chart in words: where each line begins and ends."""
    show = _ms if what == "ms_per_token" else fmt.bytes_
    found = [words(f"streaming.alt_{what}")]
    for name in cost_names(result):
        points = result["cost"][name].get(what) or [[0, 0]]
        facts = {"from": fmt.count(points[0][0]), "to": fmt.count(points[-1][0]), "low": show(points[0][1]), "high": show(points[-1][1])}
        found.append(words("streaming.alt_cost", name=policies.title(name, words), **facts))
    return " ".join(found)
