"""What a ring result says: memory shared, bytes as the formula has them, and where each rank's time went. Pure.

A sentence is (key of a text, facts) and follows from the numbers; see `engine.experiments.ring` for the form of a result.
Bytes are counted from tensors and are the same on every machine; times are of this machine and this moment.
"""

from __future__ import annotations

from html import escape
from statistics import fmean

from engine.formulas import ring
from pages._ui import fmt, parts
from pages._ui.charts import even_ticks
from pages._ui.words import Words, model_title

Sentence = tuple[str, dict[str, str]]

# Seconds that differ by less than this share are level; waiting that is this many times as long is told.
LEVEL, LONGER = 0.05, 1.25
# Logits that differ by less than this share of their spread are called the same, up to the second one near.
SAME, NEAR = 1e-3, 0.05
# Half a lane and the room for it; of one layer's tracks.
_LANE_PX, _BAR_PX = 34, 15
COMPUTE, TRANSFER, WAIT = 0, 3, 4


def shape(result: dict) -> ring.AttentionShape:
    return ring.AttentionShape(**{name: value for name, value in result["shape"].items() if name != "layers"})


def first(result: dict) -> dict:
    """The layout that was asked for."""
    return next(iter(result["layouts"].values()))


def counts(layout: dict) -> list[int]:
    return [rank["tokens"] for rank in layout["ranks"]]


def pairs_of(rank: dict) -> int:
    """(query, key) pairs of one head that a rank computed in all layers."""
    return sum(entry["pairs"] for entry in rank["rounds"])


def lasted(rank: dict) -> float:
    return rank["end_s"] - rank["begin_s"]


def formula_bytes(result: dict, layout: dict) -> list[int]:
    """What each rank should have sent."""
    held, layers = counts(layout), result["shape"]["layers"]
    return [ring.sent_bytes(held, rank, layers, shape(result)) for rank in range(len(held))]


# ------------------------------------------------------------------ the headline


def headline(result: dict) -> list[Sentence]:
    """Whether the ring computed what one process computes, and what each rank had to hold for it."""
    most = max(rank["kv_bytes"] for rank in first(result)["ranks"])
    facts = {"ranks": fmt.count(result["ranks"]), "tokens": fmt.count(result["tokens"]), "kv": fmt.bytes_(most)}
    alone, agreement = result.get("alone"), result.get("agreement")
    if not (alone and agreement):
        return [("measured.head_unchecked", facts)]
    facts |= {
        "share": fmt.share(most / alone["kv_bytes"]),
        "whole": fmt.bytes_(alone["kv_bytes"]),
        "difference": small(agreement["largest_difference"]),
        "std": fmt.number(agreement["std"]),
        "rows": fmt.count(agreement["rows"]),
    }
    if result["ranks"] == 1:
        return [("measured.head_one", facts)]
    apart = agreement["largest_difference"] / agreement["std"]
    return [(f"measured.head_{'same' if apart <= SAME else 'near' if apart <= NEAR else 'apart'}", facts)]


def small(value: float) -> str:
    """``6.5e-5`` -> ``0.00006``; never an exponent."""
    if value == 0:
        return "0"
    return f"{value:.2g}" if value >= 0.001 else f"{value:.6f}".rstrip("0") if value >= 5e-7 else "< 0.000001"


def figures(result: dict, words: Words) -> list[tuple[str, str]]:
    """(what, value) of the few numbers under the headline."""
    ranks = first(result)["ranks"]
    found = [
        (words("measured.figure_kv"), fmt.bytes_(max(rank["kv_bytes"] for rank in ranks))),
        (words("measured.figure_sent"), fmt.bytes_(max(rank["sent_bytes"] for rank in ranks))),
    ]
    if (share := hidden(first(result))) is not None:
        found.append((words("measured.figure_hidden"), fmt.share(share)))
    if agreement := result.get("agreement"):
        found.append((words("measured.figure_difference"), small(agreement["largest_difference"])))
    return found


def hidden(layout: dict) -> float | None:
    """The share of the time of all transfers in which ranks computed, a mean over the ranks; None without transfers."""
    shares = [rank["hidden_share"] for rank in layout["ranks"] if rank["hidden_share"] is not None]
    return fmean(shares) if shares else None


def about(result: dict, words: Words) -> str:
    """What was read, by whom."""
    scenario = result["manifest"]["scenario"]
    key = f"run.text_{scenario['text']}"
    facts = {
        "model": model_title(result["manifest"]["model"], words),
        "tokens": fmt.count(result["tokens"]),
        "text": words(key) if key in words else words("measured.own_text"),
        "ranks": fmt.count(result["ranks"]),
        "threads": fmt.count(result["threads_each"]),
        "backend": result["backend"],
        "layers": fmt.count(result["shape"]["layers"]),
    }
    return words("measured.about", **facts)


# ------------------------------------------------------------------ time


def times_note(result: dict) -> Sentence | None:
    """That the times prove nothing, where ranks share cores."""
    if result["processes_at_most_cores"]:
        return None
    return "measured.crowded", {"ranks": fmt.count(result["ranks"]), "cores": fmt.count(result["manifest"]["device"].get("cores"))}


def time_said(result: dict) -> list[Sentence]:
    """Who has how much to do; whether that shows as waiting; what is hidden; and the ring beside one process."""
    return [*_work(result), *_waiting(result), *_hiding(result), *_against_one(result)]


def _work(result: dict) -> list[Sentence]:
    """Counted pairs, not seconds: true on any machine."""
    found: list[Sentence] = []
    for name, layout in result["layouts"].items():
        each = [pairs_of(rank) for rank in layout["ranks"]]
        if len(each) < 2:
            continue
        facts = {
            "balance": fmt.share(layout["balance"]),
            "ratio": fmt.times(max(each) / max(min(each), 1)),
            "most": fmt.count(each.index(max(each))),
            "least": fmt.count(each.index(min(each))),
        }
        found.append((f"measured.{'even' if max(each) <= (1 + LEVEL) * min(each) else 'uneven'}_{name}", facts))
    return found


def waited(layout: dict) -> float:
    """The share of the ranks' time in which they waited for keys and values."""
    return sum(rank["waited_s"] for rank in layout["ranks"]) / sum(map(lasted, layout["ranks"]))


def _waiting(result: dict) -> list[Sentence]:
    layouts = result["layouts"]
    if result["ranks"] < 2 or len(layouts) < 2:
        return []
    even, uneven = (sum(rank["waited_s"] for rank in layouts[name]["ranks"]) for name in (ring.ZIGZAG, ring.CONTIGUOUS))
    shares = {name: fmt.share(waited(layouts[name])) for name in layouts}
    facts = {"zigzag": fmt.seconds(even), "contiguous": fmt.seconds(uneven), "zigzag_share": shares[ring.ZIGZAG], "contiguous_share": shares[ring.CONTIGUOUS]}
    return [("measured.waits_longer" if uneven > LONGER * even else "measured.waits_alike", facts)]


def _hiding(result: dict) -> list[Sentence]:
    share = hidden(first(result))
    if share is None:
        return []
    names = {"layout": next(iter(result["layouts"]))}
    rounds = [entry for rank in first(result)["ranks"] for entry in rank["rounds"] if entry["communication"]]
    compute, moved = (fmean(entry[what][1] - entry[what][0] for entry in rounds) for what in ("compute", "communication"))
    facts = {"hidden": fmt.share(share), "compute": fmt.seconds(compute), "moved": fmt.seconds(moved)}
    return [(f"measured.hidden_{names['layout']}", facts)]


def _against_one(result: dict) -> list[Sentence]:
    alone = result.get("alone")
    if not alone or result["ranks"] < 2:
        return []
    seconds = first(result)["seconds"]
    facts = {
        "ring": fmt.seconds(seconds),
        "alone": fmt.seconds(alone["seconds"]),
        "ratio": fmt.times(seconds / alone["seconds"]),
        "faster": fmt.times(alone["seconds"] / seconds),
        "threads": fmt.count(alone["threads"]),
        "ranks": fmt.count(result["ranks"]),
    }
    if not result["processes_at_most_cores"]:
        return [("measured.one_crowded", facts)]
    if seconds < (1 - LEVEL) * alone["seconds"]:
        return [("measured.one_faster", facts)]
    return [("measured.one_level" if seconds <= (1 + LEVEL) * alone["seconds"] else "measured.one_slower", facts)]


def parts_of(rank: dict) -> list[tuple[str, float]]:
    """(what, seconds) of a rank's time, in the order they are drawn."""
    attention, waits = rank["attention_s"], rank["waited_s"]
    return [("attention", attention), ("rest", max(0.0, lasted(rank) - attention - waits)), ("waited", waits)]


def time_bars(result: dict, words: Words) -> str:
    """Each rank's time in parts, a group for each layout, and one process; all on one scale."""
    groups = [
        (
            words("measured.bars_layout", layout=words(f"policy.{name}"), seconds=fmt.seconds(layout["seconds"])),
            [(words("measured.rank", n=number), parts_of(rank)) for number, rank in enumerate(layout["ranks"])],
        )
        for name, layout in result["layouts"].items()
    ]
    if alone := result.get("alone"):
        rest = max(0.0, alone["seconds"] - alone["attention_s"])
        title = words("measured.bars_alone", seconds=fmt.seconds(alone["seconds"]), threads=fmt.count(alone["threads"]))
        groups.append((title, [(words("measured.process"), [("attention", alone["attention_s"]), ("rest", rest)])]))
    longest = max(sum(value for _, value in pieces) for _, rows in groups for _, pieces in rows)
    body = "".join(f"<h3>{escape(title)}</h3>{''.join(_bar(name, pieces, longest, words) for name, pieces in rows)}" for title, rows in groups)
    legend = "".join(f"<li><span class='rt-part rt-{what}' aria-hidden='true'></span>{escape(words(f'measured.part_{what}'))}</li>" for what in ("attention", "rest", "waited"))
    return f"<ul class='rt-legend'>{legend}</ul><div class='rt'>{body}</div>"


def _bar(name: str, pieces: list[tuple[str, float]], longest: float, words: Words) -> str:
    told = ", ".join(f"{words(f'measured.part_{what}')} {fmt.seconds(value)}" for what, value in pieces)
    inside = "".join(f"<span class='rt-part rt-{what}' style='width:{100 * value / longest:.2f}%'></span>" for what, value in pieces)
    return (
        f"<div class='rt-row' title='{escape(told, quote=True)}'><span>{escape(name)}</span>"
        f"<span class='rt-bar' role='img' aria-label='{escape(told, quote=True)}'>{inside}</span>"
        f"<span class='rt-value'>{escape(fmt.seconds(sum(value for _, value in pieces)))}</span></div>"
    )


def time_table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each rank of each layout: what it computed, and where its time went."""
    head = [words(f"measured.col_{name}") for name in ("rank", "pairs", "attention", "rest", "waited", "hidden")]
    rows = []
    for name, layout in result["layouts"].items():
        for number, rank in enumerate(layout["ranks"]):
            who = words("measured.rank_of", layout=words(f"policy.{name}"), n=number)
            times = [fmt.seconds(value) for _, value in parts_of(rank)]
            rows.append([who, fmt.count(pairs_of(rank)), *times, fmt.share(rank["hidden_share"])])
    return head, rows


# ------------------------------------------------------------------ one layer, two tracks for each rank


def of_layer(result: dict, layout: str, layer: int) -> list[list[dict]]:
    """The rounds of each rank in one layer."""
    return [[entry for entry in rank["rounds"] if entry["layer"] == layer] for rank in result["layouts"][layout]["ranks"]]


def tracks_spec(result: dict, layout: str, layer: int, words: Words) -> dict:
    """Two lanes for each rank, blocks computed above, keys and values received below, over the time since the layer's first
    begin. See pages/_ui/plot.py."""
    ranks = of_layer(result, layout, layer)
    spans = [span for rounds in ranks for entry in rounds for span in (entry["compute"], entry["communication"]) if span]
    begin, end = min(span[0] for span in spans), max(span[1] for span in spans)
    lanes = 2 * len(ranks)
    lines, ticks = [], []
    for number, rounds in enumerate(ranks):
        above, below = lanes - 2 * number - 0.6, lanes - 2 * number - 1.4
        ticks += [[above, words("measured.lane_compute", n=number)], [below, words("measured.lane_transfer", n=number)]]
        for entry in rounds:
            facts = {"n": number, "round": entry["round"], "pairs": fmt.count(entry["pairs"])}
            if entry["pairs"]:
                lines.append(_block(entry["compute"], begin, above, COMPUTE, words("measured.at_compute", **facts)))
            if entry["communication"]:
                lines.append(_block(entry["communication"], begin, below, TRANSFER, words("measured.at_transfer", **facts)))
                late = [entry["compute"][1], entry["communication"][1]]
                if late[1] > late[0]:
                    lines.append(_block(late, begin, above, WAIT, words("measured.at_wait", **facts), thin=True))
    names = {style: words(f"measured.key_{name}") for style, name in ((COMPUTE, "compute"), (TRANSFER, "transfer"), (WAIT, "wait"))}
    seen: set[int] = set()
    for line in lines:
        if line["style"] not in seen:
            seen.add(line["style"])
            line |= {"name": names[line["style"]], "label": "legend"}
    span = max(end - begin, 1e-9)
    return {
        "height": 58 + lanes * _LANE_PX,
        "x": {"title": words("measured.axis_time"), "range": [0, span], "ticks": [[at, fmt.tick(at)] for at in even_ticks(0, span, 6)]},
        "y": {"title": "", "range": [0, lanes], "ticks": ticks},
        "lines": lines,
    }


def _block(span: list[float], begin: float, lane: float, style: int, title: str, *, thin: bool = False) -> dict:
    """A bar from begin to end, which says how long it lasts wherever it is pointed at."""
    a, b = (at - begin for at in span)
    steps = 8
    points = [[a + (b - a) * n / steps, lane] for n in range(steps + 1)]
    text = f"{title}\n{fmt.seconds(b - a)}"
    return {"name": "", "points": points, "texts": [text] * len(points), "style": style, "width": 4 if thin else _BAR_PX, "solid": not thin, "label": "none"}


def tracks_alt(result: dict, layout: str, layer: int, words: Words) -> str:
    """The same in words: each rank's seconds in blocks and in transfers."""
    told = [words("measured.alt_tracks", layout=words(f"policy.{layout}"), layer=layer)]
    for number, rounds in enumerate(of_layer(result, layout, layer)):
        compute = sum(entry["compute"][1] - entry["compute"][0] for entry in rounds)
        moved = sum(entry["communication"][1] - entry["communication"][0] for entry in rounds if entry["communication"])
        told.append(words("measured.alt_rank", n=number, compute=fmt.seconds(compute), moved=fmt.seconds(moved)))
    return " ".join(told)


# ------------------------------------------------------------------ bytes


def bytes_said(result: dict) -> list[Sentence]:
    """Bytes sent against the formula, and memory beside one process."""
    layout, alone = first(result), result.get("alone")
    said: list[Sentence] = []
    if result["ranks"] > 1:
        expected = [formula_bytes(result, one) for one in result["layouts"].values()]
        sent = [[rank["sent_bytes"] for rank in one["ranks"]] for one in result["layouts"].values()]
        facts = {
            "sent": fmt.bytes_(max(map(max, sent))),
            "formula": fmt.bytes_(max(map(max, expected))),
            "round": fmt.bytes_(max(counts(layout)) * shape(result).kv_bytes_per_token),
            "rounds": fmt.count((result["ranks"] - 1) * result["shape"]["layers"]),
        }
        said.append(("measured.sent_exact" if sent == expected else "measured.sent_differs", facts))
    if alone:
        rank = max(layout["ranks"], key=held)
        facts = {
            "held": fmt.bytes_(held(rank)),
            "alone": fmt.bytes_(alone["kv_bytes"] + alone["activation_bytes"]),
            "share": fmt.share(held(rank) / (alone["kv_bytes"] + alone["activation_bytes"])),
            "even": fmt.share(1 / result["ranks"]),
            "buffers": fmt.bytes_(rank["buffer_bytes"]),
        }
        said.append(("measured.held" if result["ranks"] > 1 else "measured.held_one", facts))
    return said


def held(rank: dict) -> int:
    """KV, what one layer's attention works on, and receive buffers."""
    return rank["kv_bytes"] + rank["activation_bytes"] + rank["buffer_bytes"]


def bytes_table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each rank of the layout asked for, and one process."""
    names = ("process", "tokens", "kv", "activations", "buffers", "together", "sent", "formula", "rss")
    rows = []
    for number, (rank, expected) in enumerate(zip(first(result)["ranks"], formula_bytes(result, first(result)), strict=True)):
        sizes = [rank[f"{name}_bytes"] for name in ("kv", "activation", "buffer")] + [held(rank), rank["sent_bytes"], expected, rank["rss_peak_bytes"]]
        rows.append([words("measured.rank", n=number), fmt.count(rank["tokens"]), *map(fmt.bytes_, sizes)])
    if alone := result.get("alone"):
        sizes = [alone["kv_bytes"], alone["activation_bytes"], 0, alone["kv_bytes"] + alone["activation_bytes"], None, None, alone["rss_peak_bytes"]]
        rows.append([words("measured.process"), fmt.count(result["tokens"]), *map(fmt.bytes_, sizes)])
    return [words(f"measured.col_{name}") for name in names], rows


# ------------------------------------------------------------------ as HTML


def paragraphs(found: list[Sentence], words: Words) -> str:
    """Sentences, the first of them large."""
    (key, facts), *rest = found
    return f"<p class='lab-headline'>{parts.prose(words(key, **facts))}</p>{sentences(rest, words)}"


def sentences(found: list[Sentence], words: Words) -> str:
    return "".join(f"<p class='lab-said'>{parts.prose(words(key, **facts))}</p>" for key, facts in found)
