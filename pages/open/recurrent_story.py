"""What a recurrent result says: time and bytes over the length, and what is still known. Pure: a result in, sentences, charts
and tables out. See `engine.experiments.recurrent` for the form of a result."""

from __future__ import annotations

from engine.experiments.recurrent_scenario import DECAY, DELTA, MECHANISMS, SOFTMAX, SUM
from pages._ui import fmt
from pages._ui.charts import log_ticks
from pages._ui.words import Words, model_title

Sentence = tuple[str, dict[str, str]]
STYLES = {SOFTMAX: 0, SUM: 2, DECAY: 3, DELTA: 4}
# From this ratio on two times are called different.
LONGER = 1.25
# From this share of right answers on a mechanism is said to know its pairs.
KNOWS = 0.99
HALF = 0.5
# Differences between shares: less than the first is none, more than the second is spoken of.
LITTLE, CLEARLY = 0.02, 0.1
_WITHIN = 1e-4


def steps(result: dict, mechanism: str) -> dict[int, dict]:
    """The rows of a mechanism by length, the shortest first."""
    return {row["tokens"]: row for row in result["decode"] if row["mechanism"] == mechanism}


def headline(result: dict) -> list[Sentence]:
    """The longest length: how long a step takes with the cache and with a state; the shortest, where the state leads at the
    longest; and what the state costs."""
    cache, state = steps(result, SOFTMAX), steps(result, DECAY)
    shortest, longest = min(cache), max(cache)
    facts = {
        "tokens": fmt.count(longest),
        "cache": ms(cache[longest]),
        "state": ms(state[longest]),
        "ratio": fmt.times(cache[longest]["ms"] / state[longest]["ms"]),
        "short": fmt.count(shortest),
        "cache_short": ms(cache[shortest]),
        "state_short": ms(state[shortest]),
    }
    quicker, slower = cache[longest]["ms"] > LONGER * state[longest]["ms"], state[longest]["ms"] > LONGER * cache[longest]["ms"]
    found: list[Sentence] = [("recurrent.quicker" if quicker else "recurrent.slower" if slower else "recurrent.level", facts)]
    if quicker and longest > shortest:
        found.append(("recurrent.short_alike" if cache[shortest]["ms"] < LONGER * state[shortest]["ms"] else "recurrent.short_too", facts))
    return [*found, *forgotten(result)]


def forgotten(result: dict) -> list[Sentence]:
    """The price: at the usual size of key and the most pairs, what each of them still answers."""
    dim = usual_dim(result)
    last = {m: rows[-1] for m in MECHANISMS if (rows := recalled(result, dim, m))}
    if len(last) < len(MECHANISMS):
        return []
    best = max((last[m]["rate"] for m in MECHANISMS if m != SOFTMAX), default=0.0)
    facts = {
        "pairs": fmt.count(last[SOFTMAX]["pairs"]),
        "dim": fmt.count(dim),
        "softmax": fmt.share(last[SOFTMAX]["rate"]),
        "best": fmt.share(best),
        "worst": fmt.share(min(last[m]["rate"] for m in MECHANISMS if m != SOFTMAX)),
    }
    return [("recurrent.forgets" if best < last[SOFTMAX]["rate"] - LITTLE else "recurrent.forgets_not", facts)]


def about(result: dict, words: Words) -> str:
    shape = result["shape"]
    facts = {
        "model": model_title(result["manifest"]["model"], words),
        "layers": fmt.count(shape["layers"]),
        "of": fmt.count(shape["model_layers"]),
        "heads": fmt.count(shape["heads"]),
        "kv_heads": fmt.count(shape["kv_heads"]),
        "dim": fmt.count(shape["head_dim"]),
        "runs": fmt.count(result["decode"][0]["runs"]),
        "steps": fmt.count(result["decode"][0]["steps"]),
    }
    return words("recurrent.about", **facts)


def ms(row: dict) -> str:
    return seconds(row["ms"] / 1e3)


def seconds(value: float) -> str:
    """With two digits from half a millisecond on, too: steps of 0.55 and 0.64 ms are not the same."""
    return f"{value * 1e3:.2f} ms" if 0.0005 <= value < 0.001 else fmt.seconds(value)


def name(mechanism: str, words: Words) -> str:
    return words(f"mechanism.{mechanism}")


# ------------------------------------------------------------------ time and bytes


def time_spec(result: dict, words: Words) -> dict:
    """Milliseconds of a step by length, both logarithmic. See pages/_ui/plot.py."""
    series = {m: [[n, row["ms"] / 1e3] for n, row in steps(result, m).items()] for m in MECHANISMS}
    return _over_length(result, series, words("recurrent.axis_time"), seconds, fmt.tick, words)


def time_alt(result: dict, words: Words) -> str:
    return words("recurrent.time_alt", list=_ends(result, lambda row: ms(row), MECHANISMS, words))


def bytes_spec(result: dict, words: Words) -> dict:
    """Bytes held by length: the states are equally large, so one line stands for them."""
    series = {m: [[n, row["bytes"]] for n, row in steps(result, m).items()] for m in (SOFTMAX, DECAY)}
    return _over_length(result, series, words("recurrent.axis_bytes"), fmt.bytes_, fmt.bytes_, words, state=words("mechanism.any_state"))


def bytes_alt(result: dict, words: Words) -> str:
    return words("recurrent.bytes_alt", list=_ends(result, lambda row: fmt.bytes_(row["bytes"]), (SOFTMAX, DECAY), words))


def bytes_said(result: dict, words: Words) -> str:
    """Measured bytes, the formula, the crossing, and by how much the process grew for the largest cache."""
    cache, state = steps(result, SOFTMAX), steps(result, DECAY)
    longest, dim = max(cache), result["shape"]["head_dim"]
    equal = all(row["bytes"] == row["computed_bytes"] for row in result["decode"])
    facts = {
        "first": fmt.bytes_(cache[min(cache)]["bytes"]),
        "last": fmt.bytes_(cache[longest]["bytes"]),
        "state": fmt.bytes_(state[longest]["bytes"]),
        "tokens": fmt.count(longest),
        "grown": fmt.bytes_(cache[longest]["rss_bytes"]),
        "crossing": fmt.count(dim / 2),
        "dim": fmt.count(dim),
    }
    return words("recurrent.bytes_said" if equal else "recurrent.bytes_differ", **facts)


def _over_length(result: dict, series: dict, title: str, show, tick, words: Words, state: str | None = None) -> dict:
    lengths = sorted(steps(result, SOFTMAX))
    values = [value for points in series.values() for _, value in points]
    low, high = min(values) / 1.6, max(values) * 1.6
    lines = []
    for mechanism, points in series.items():
        called = state if state and mechanism != SOFTMAX else name(mechanism, words)
        texts = [f"{called}\n{words('recurrent.at', n=fmt.count(n), value=show(value))}" for n, value in points]
        lines.append(_line(mechanism, called, points, texts))
    up = [[v, tick(v)] for v in log_ticks(low, high) if low <= v <= high]
    # A single length has no room to be an axis.
    edges = [lengths[0], lengths[-1]] if len(lengths) > 1 else [lengths[0] / 2, lengths[0] * 2]
    return {
        "height": 330,
        "x": {"title": words("recurrent.axis_tokens"), "log": True, "range": edges, "ticks": [[n, fmt.count(n)] for n in lengths]},
        "y": {"title": title, "log": True, "range": [low, high], "ticks": up},
        "lines": lines,
    }


def _line(mechanism: str, called: str, points: list, texts: list[str]) -> dict:
    look = {"style": STYLES[mechanism], "label": "end", "solid": mechanism == SOFTMAX, "width": 2.6}
    return {"name": called, "points": points, "texts": texts, **look}


def _ends(result: dict, show, mechanisms: tuple[str, ...], words: Words) -> str:
    """Each mechanism from the shortest to the longest."""
    told = []
    for mechanism in mechanisms:
        rows = steps(result, mechanism)
        told.append(words("recurrent.from_to", name=name(mechanism, words), low=show(rows[min(rows)]), high=show(rows[max(rows)])))
    return "; ".join(told)


def decode_table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each length: the time of each mechanism with its spread, and both sizes."""
    head = [words("recurrent.col_tokens"), *(name(m, words) for m in MECHANISMS), words("recurrent.col_cache"), words("recurrent.col_state")]
    by = {m: steps(result, m) for m in MECHANISMS}
    rows = []
    for n in sorted(by[SOFTMAX]):
        times = [f"{ms(by[m][n])} ({' – '.join(seconds(edge / 1e3) for edge in by[m][n]['spread'])})" for m in MECHANISMS]
        rows.append([fmt.count(n), *times, fmt.bytes_(by[SOFTMAX][n]["bytes"]), fmt.bytes_(by[DECAY][n]["bytes"])])
    return head, rows


def forms_said(result: dict, words: Words) -> str:
    """Whether decode and prefill computed the same."""
    found = [value for forms in result["forms"]["differences"].values() for value in forms.values()]
    facts = {"tokens": fmt.count(result["forms"]["tokens"]), "worst": fmt.power(max(found)) if max(found) >= 1 else f"{max(found):.6f}"}
    return words("recurrent.forms_same" if max(found) <= _WITHIN else "recurrent.forms_apart", **facts)


# ------------------------------------------------------------------ recall


def key_dims(result: dict) -> list[int]:
    return sorted({row["key_dim"] for row in result["recall"]})


def usual_dim(result: dict) -> int:
    """The size of key that is nearest to a model's 64."""
    return min(key_dims(result), key=lambda dim: (abs(dim - 64), dim))


def recalled(result: dict, dim: int, mechanism: str) -> list[dict]:
    """The rows of a mechanism at a size of key, the fewest pairs first."""
    found = [row for row in result["recall"] if (row["key_dim"], row["mechanism"]) == (dim, mechanism)]
    return sorted(found, key=lambda row: row["pairs"])


def known_up_to(result: dict, dim: int, mechanism: str, share: float = KNOWS) -> int | None:
    """The most pairs of which this share is answered rightly, with all fewer ones, too; None if not even of the fewest."""
    most = None
    for row in recalled(result, dim, mechanism):
        if row["rate"] < share:
            break
        most = row["pairs"]
    return most


def recall_said(result: dict, dim: int) -> list[Sentence]:
    """Up to how many pairs a state knows them, beside softmax; and who forgets what."""
    limits = {m: known_up_to(result, dim, m) for m in MECHANISMS}
    facts = {"dim": fmt.count(dim), **{m: fmt.count(limits[m] or 0) for m in MECHANISMS}}
    facts |= {"most": fmt.count(recalled(result, dim, SOFTMAX)[-1]["pairs"]), "values": fmt.count(dim * result["values"])}
    everything = limits[SOFTMAX] == recalled(result, dim, SOFTMAX)[-1]["pairs"]
    found: list[Sentence] = [("recall.all" if everything else "recall.some", facts)]
    ages = {m: _aged(result, dim, m) for m in MECHANISMS}
    if ages[DECAY] and ages[DELTA] and ages[SUM]:
        told = {f"{m}_{when}": fmt.share(ages[m]["by_age"][at]) for m in (SUM, DECAY, DELTA) for when, at in (("old", 0), ("new", -1))}
        newer = {m: ages[m]["by_age"][-1] - ages[m]["by_age"][0] for m in (SUM, DECAY, DELTA)}
        if newer[DECAY] > CLEARLY and newer[DELTA] > CLEARLY and abs(newer[SUM]) <= CLEARLY:
            key = "recall.old_first"
        else:
            nothing = all(rate > 1 - CLEARLY for m in (SUM, DECAY, DELTA) for rate in ages[m]["by_age"])
            key = "recall.not_yet" if nothing else "recall.unsorted"
        found.append((key, {**told, "pairs": fmt.count(ages[DECAY]["pairs"])}))
    rewritten = {row["mechanism"]: row for row in result["rewrites"] if row["key_dim"] == dim}
    if rewritten:
        rates = {m: fmt.share(rewritten[m]["rate"]) for m in MECHANISMS}
        found.append(("recall.replaced", rates))
    return found


def recall_spec(result: dict, dim: int, words: Words) -> dict:
    """The share of right answers by number of pairs."""
    lines, most = [], 1
    for mechanism in MECHANISMS:
        rows = recalled(result, dim, mechanism)
        most = max(most, *(row["pairs"] for row in rows))
        texts = [f"{name(mechanism, words)}\n{words('recall.at', n=fmt.count(row['pairs']), value=fmt.share(row['rate']))}" for row in rows]
        points = [[row["pairs"], row["rate"]] for row in rows]
        lines.append(_line(mechanism, name(mechanism, words), points, texts))
    pairs = [row["pairs"] for row in recalled(result, dim, SOFTMAX)]
    edges = [pairs[0], most] if len(pairs) > 1 else [pairs[0] / 2, pairs[0] * 2]
    spec = {
        "height": 360,
        "x": {"title": words("recall.axis_pairs"), "log": True, "range": edges, "ticks": [[n, fmt.count(n)] for n in pairs]},
        "y": {"title": words("recall.axis_rate"), "log": False, "range": [0, 1.04], "ticks": [[v / 4, fmt.share(v / 4)] for v in range(5)]},
        "lines": lines,
    }
    if edges[0] <= dim <= edges[1]:
        spec["marks"] = [{"across": "x", "at": dim, "text": words("recall.mark", n=fmt.count(dim))}]
    return spec


def recall_alt(result: dict, dim: int, words: Words) -> str:
    rows = {m: recalled(result, dim, m) for m in MECHANISMS}
    ends = {m: {"low": fmt.share(found[0]["rate"]), "high": fmt.share(found[-1]["rate"])} for m, found in rows.items()}
    told = "; ".join(words("recurrent.from_to", name=name(m, words), **shares) for m, shares in ends.items())
    return words("recall.alt", dim=dim, low=fmt.count(rows[SOFTMAX][0]["pairs"]), high=fmt.count(rows[SOFTMAX][-1]["pairs"]), list=told)


def recall_table(result: dict, dim: int, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each mechanism: what it keeps, up to where it knows all and half, and the last rate with its interval."""
    head = [words(f"recall.col_{column}") for column in ("mechanism", "keeps", "all", "half", "last")]
    rows = []
    for mechanism in MECHANISMS:
        found = recalled(result, dim, mechanism)[-1]
        low, high = found["interval"]
        keeps = words("recall.keeps_cache", n=dim + result["values"]) if mechanism == SOFTMAX else words("recall.keeps_state", n=fmt.count(dim * result["values"]))
        last = f"{fmt.share(found['rate'])} ({low * 100:.0f}–{high * 100:.0f} %)"
        limits = [fmt.count(known_up_to(result, dim, mechanism, share)) for share in (KNOWS, HALF)]
        rows.append([name(mechanism, words), keeps, *limits, words("recall.last", pairs=fmt.count(found["pairs"]), rate=last)])
    return head, rows


def _aged(result: dict, dim: int, mechanism: str) -> dict | None:
    """The row whose ages are shown: where about half is forgotten, the same for all mechanisms."""
    wanted = aged_number(result, dim)
    return next((row for row in recalled(result, dim, mechanism) if row["pairs"] == wanted and row["by_age"]), None)


def aged_number(result: dict, dim: int) -> int | None:
    """The number of pairs at which the decaying state is nearest to knowing half; None where no row has ages."""
    rows = [row for row in recalled(result, dim, DECAY) if row["by_age"]]
    return min(rows, key=lambda row: abs(row["rate"] - HALF))["pairs"] if rows else None


def aged_pairs(result: dict, dim: int) -> str:
    return fmt.count(aged_number(result, dim))


def ages_table(result: dict, dim: int, words: Words) -> tuple[list[str], list[list[str]]]:
    """Right answers from the oldest quarter of the pairs to the newest."""
    head = [words("recall.col_mechanism"), *(words(f"recall.age_{n}") for n in range(4))]
    rows = [(m, _aged(result, dim, m)) for m in MECHANISMS]
    return head, [[name(m, words), *(map(fmt.share, row["by_age"]))] for m, row in rows if row]


def rewritten_pairs(result: dict, dim: int) -> str:
    return fmt.count(next((row["pairs"] for row in result["rewrites"] if row["key_dim"] == dim), None))


def rewrites_table(result: dict, dim: int, words: Words) -> tuple[list[str], list[list[str]]]:
    head = [words("recall.col_mechanism"), words("recall.col_newer")]
    return head, [[name(row["mechanism"], words), fmt.share(row["rate"])] for row in result["rewrites"] if row["key_dim"] == dim]
