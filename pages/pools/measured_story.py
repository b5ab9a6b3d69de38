"""What a pools result says: who waited where, who was busy, and whether pools won, traded or lost against one engine. Pure.

A sentence is (key of a text, facts) and follows from the numbers; see `engine.experiments.pools` for the form of a result. Times of
an arrangement are compared only where none of its processes shares a core with another: else they say nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from statistics import fmean, median

from engine.experiments.pools_scenario import EXACT, UNIFIED
from engine.measure import metrics
from engine.measure.pools import DECODE, PREFILL, pool_of, queue
from pages._ui import errors, fmt, parts
from pages._ui.charts import even_ticks
from pages._ui.words import Words, model_title, schedule_name

Sentence = tuple[str, dict[str, str]]
# Numbers that differ by less than this share are called level.
LEVEL = 0.1
# Busy shares that differ by this factor are out of balance.
LEANS = 1.5
# Steps of a kind that follow each other this closely (share of the picture) are drawn as one.
JOIN = 0.002


# ------------------------------------------------------------------ numbers


def ttft_p50_s(entry: dict) -> float | None:
    """Of all requests that got a first token."""
    found = [at for request in entry["trace"]["requests"] if (at := metrics.ttft_s(request)) is not None]
    return median(found) if found else None


def busy(entry: dict, pool: str) -> float:
    """The mean of a pool's workers."""
    return fmean(worker["busy_share"] for worker in entry["pools"][pool]["workers"])


def timed(result: dict) -> dict[str, dict]:
    """The arrangements whose times say something of them, in the result's order."""
    return {name: entry for name, entry in result["arrangements"].items() if entry["processes_at_most_cores"]}


def unserved(entry: dict) -> list[dict]:
    """The requests that ended without their answer: whoever drops some is done sooner."""
    return [request for request in entry["trace"]["requests"] if request["status"] != "finished"]


def comparable(result: dict) -> dict[str, dict]:
    """Of those the ones that served everything."""
    return {name: entry for name, entry in timed(result).items() if not unserved(entry)}


def compared(result: dict) -> tuple[dict, str] | None:
    """One engine, and the name of the first arrangement of pools whose times may stand beside it."""
    found = comparable(result)
    name = next((name for name in found if name != UNIFIED), None)
    return (found[UNIFIED], name) if UNIFIED in found and name else None


# ------------------------------------------------------------------ sentences


def headline(result: dict, words: Words) -> list[Sentence]:
    """What failed; pools against one engine; the balance; what the decode pool's room and the link cost; the tokens."""
    failed, verdict = _failed(result, words), _verdict(result, words)
    first = failed if failed and verdict[0] == "measured.no_times" else [verdict, *failed]
    found = [*_balance(result, words), *_back_pressure(result, words), *_given_up(result, words), *_link(result, words)]
    return [*first, *found, *_agreement(result)]


def _failed(result: dict, words: Words) -> list[Sentence]:
    """The arrangement that left most requests without an answer, and why it did one of them."""
    name, found = max(((name, unserved(entry)) for name, entry in result["arrangements"].items()), key=lambda item: len(item[1]))
    if not found:
        return []
    everything = len(result["arrangements"][name]["trace"]["requests"])
    facts = {"name": schedule_name(name, words), "failed": fmt.count(len(found)), "all": fmt.count(everything)}
    return [("measured.failed", {**facts, "why": errors.sentence(found[0]["reason"], words)})]


def outcomes(result: dict) -> dict[str, tuple[float, float]] | None:
    """Of one engine and of the pools that may stand beside it: the longest gap, the median first token, and when all was done,
    in seconds; None without such a pair, or where a request had no gap."""
    pair = compared(result)
    if pair is None:
        return None
    both = pair[0], result["arrangements"][pair[1]]
    gap, end = (tuple(entry["metrics"][name] for entry in both) for name in ("itl_max_s", "makespan_s"))
    found = {"gap": gap, "first": tuple(map(ttft_p50_s, both)), "end": end}
    return None if any(None in values for values in found.values()) else found


def judged(found: dict[str, tuple[float, float]]) -> str:
    """wins: shorter gaps at no price; trades: shorter gaps, but the first token or the end comes later; loses: later, or longer
    gaps, with nothing gained; level."""
    shorter = found["gap"][1] < found["gap"][0] * (1 - LEVEL)
    longer = found["gap"][1] > found["gap"][0] * (1 + LEVEL)
    later = any(found[name][1] > found[name][0] * (1 + LEVEL) for name in ("first", "end"))
    return "trades" if shorter and later else "wins" if shorter else "loses" if later or longer else "level"


def _verdict(result: dict, words: Words) -> Sentence:
    pair = compared(result)
    if pair is None:
        return "measured.no_times", {}
    found = outcomes(result)
    if found is None:
        return "measured.unfinished", {"name": schedule_name(pair[1], words)}
    facts = {"name": schedule_name(pair[1], words)}
    for name, (unified, pools) in found.items():
        facts |= {f"{name}_unified": fmt.seconds(unified), name: fmt.seconds(pools)}
    return f"measured.{judged(found)}", facts


def _balance(result: dict, words: Words) -> list[Sentence]:
    """Which pool worked and which waited, of the first arrangement of pools whose times count."""
    pair = compared(result)
    name = pair[1] if pair else next((name for name in comparable(result) if name != UNIFIED), None)
    if name is None:
        return []
    entry = result["arrangements"][name]
    shares = busy(entry, PREFILL), busy(entry, DECODE)
    facts = {"name": schedule_name(name, words), "prefill": fmt.share(shares[0]), "decode": fmt.share(shares[1])}
    if max(shares) >= LEANS * min(shares):
        return [("measured.leans_prefill" if shares[0] > shares[1] else "measured.leans_decode", facts)]
    return [("measured.even", facts)]


def _back_pressure(result: dict, words: Words) -> list[Sentence]:
    """The arrangement whose decode pool turned most requests away for a while."""
    held = {name: entry["back_pressure"] for name, entry in result["arrangements"].items() if entry["back_pressure"]["requests"]}
    if not held:
        return []
    name, found = max(held.items(), key=lambda item: item[1]["requests"])
    trace = result["arrangements"][name]["trace"]
    lost = _returns(trace) or unserved(result["arrangements"][name])
    kept = words("measured.stayed" if lost else "measured.kept")
    facts = {"name": schedule_name(name, words), "requests": fmt.count(found["requests"]), "all": fmt.count(len(trace["requests"])), "kept": kept}
    if result["arrangements"][name]["processes_at_most_cores"]:
        return [("measured.held", {**facts, "longest": fmt.seconds(found["waited_s_max"])})]
    return [("measured.held_crowded", facts)]


def _returns(trace: dict) -> int:
    """How often the decode pool gave KV up, to be prefilled again."""
    return sum(event["type"] == "returned" for event in trace["events"])


def _given_up(result: dict, words: Words) -> list[Sentence]:
    """The arrangement that did some prefills twice most often."""
    name, times = max(((name, _returns(entry["trace"])) for name, entry in result["arrangements"].items()), key=lambda item: item[1])
    return [("measured.given_up", {"name": schedule_name(name, words), "times": fmt.count(times)})] if times else []


def _link(result: dict, words: Words) -> list[Sentence]:
    """How many bytes went between the pools, and how much of a request's wait that was."""
    pair = compared(result)
    if pair is None:
        return []
    name = pair[1]
    entry = result["arrangements"][name]
    requests = [r for r in entry["trace"]["requests"] if r["transfer_end_s"] is not None and r["prefill_end_s"] is not None]
    if not requests:
        return []
    rate = result["manifest"]["scenario"]["link_bytes_per_s"]
    facts = {
        "bytes": fmt.bytes_(entry["transfer"]["bytes"]),
        "each": fmt.seconds(median(r["transfer_end_s"] - r["prefill_end_s"] for r in requests)),
        "prefill": fmt.seconds(median(r["prefill_end_s"] - r["prefill_begin_s"] for r in requests)),
        "rate": fmt.bytes_per_s(rate),
        "room": words("measured.link_room") if entry["back_pressure"]["requests"] else "",
    }
    kind = "slow" if rate else "network" if hosts(result) else "memory"
    return [(f"measured.link_{kind}", facts)]


def _agreement(result: dict) -> list[Sentence]:
    """Whether every arrangement made the same tokens, of the requests that all of them served."""
    if len(result["arrangements"]) == 1:
        return [("measured.tokens_one", {})]
    failed = {request["id"] for entry in result["arrangements"].values() for request in unserved(entry)}
    found = [[place for place in by_name.values() if place] for name, by_name in result["agreement"].items() if name not in failed]
    apart = [places for places in found if places]
    facts = {"n": fmt.count(len(found)), "apart": fmt.count(len(apart))}
    if not found:
        return []
    if not apart:
        return [("measured.tokens_rest" if failed else "measured.tokens_same", facts)]
    if all(place["near_tie"] for places in apart for place in places):
        return [("measured.tokens_ties", facts)]
    return [("measured.tokens_wrong" if result["manifest"]["scenario"]["kv_format"] == EXACT else "measured.tokens_differ", facts)]


def hosts(result: dict) -> list[str]:
    """Names of the other hosts on which there were workers."""
    resources = [worker for entry in result["arrangements"].values() for worker in entry["resources"]]
    return sorted({worker["host"]["name"] for worker in resources if "host" in worker})


def crowded(result: dict, words: Words) -> Sentence | None:
    """Which arrangements have more processes than cores, so that their times say nothing."""
    names = [name for name, entry in result["arrangements"].items() if not entry["processes_at_most_cores"]]
    if not names:
        return None
    most = max(result["arrangements"][name]["processes"] for name in names)
    cores = len({core for entry in result["arrangements"].values() for worker in entry["resources"] for core in worker["cores"]})
    facts = {"names": ", ".join(schedule_name(name, words) for name in names), "processes": fmt.count(most), "cores": fmt.count(cores)}
    kind = "crowded_hosts" if hosts(result) else "crowded" if cores else "crowded_gpu"
    return f"measured.{kind}", facts


def about(result: dict, title: str, words: Words) -> str:
    """What was served, on what."""
    scenario = result["manifest"]["scenario"]
    groups = [
        words("measured.group", n=fmt.count(group["count"]), prompt=fmt.count(group["prompt_tokens"]), output=fmt.count(group["output_tokens"]))
        for group in scenario["groups"]
        if group["count"]
    ]
    far, rate = hosts(result), scenario["link_bytes_per_s"]
    link = words("measured.about_link", rate=fmt.bytes_per_s(rate)) if rate else "" if far else words("measured.about_memory")
    if far:
        link = f"{words('measured.about_hosts', hosts=', '.join(far))} {link}".strip()
    facts = {
        "case": title,
        "requests": " + ".join(groups),
        "model": model_title(result["manifest"]["model"], words),
        "kv": fmt.binary_bytes(scenario["kv_bytes"]),
        "share": fmt.share(scenario["decode_kv_share"]),
        "link": link,
    }
    return words("measured.about", **facts)


# ------------------------------------------------------------------ pictures


def pictures(arrangements: dict[str, dict], words: Words) -> str:
    """Every arrangement as lanes on one scale of seconds: who waits for each pool above what its workers do. HTML.

    arrangements: {"trace", "resources"} by name; of a run that goes on the steps so far.
    """
    known = {name: entry for name, entry in arrangements.items() if entry["trace"]["steps"]}
    if not known:
        return ""
    end = max(entry["trace"]["duration_s"] for entry in known.values())
    most = max((waiting for entry in known.values() for pool in _pools(entry) for _, waiting in queue(entry["trace"], pool)), default=0)
    legend = "".join(f"<li><i class='po-{kind}' aria-hidden='true'></i>{escape(words(f'measured.legend_{kind}'))}</li>" for kind in ("prefill", "decode", "transfer", "waits"))
    return f"<ul class='lab-legend po-legend'>{legend}</ul>" + "".join(_picture(name, entry, end, max(most, 1), words) for name, entry in known.items())


def _pools(entry: dict) -> list[str]:
    return list(dict.fromkeys(pool_of(worker["worker"]) for worker in entry["resources"]))


def _picture(name: str, entry: dict, end: float, most: int, words: Words) -> str:
    trace, made = entry["trace"], ""
    for pool in _pools(entry):
        points = queue(trace, pool)
        if pool == DECODE:
            moves = [(begin, finish) for transfer in trace["transfers"] for begin, finish, _ in transfer["parts"]]
            made += _lane(words("track.transfer"), _bars("transfer", moves, end))
        peak = max(waiting for _, waiting in points)
        label = words("measured.lane_waits", pool=words(f"measured.pool_{pool}"))
        made += _lane(label, _area(points, trace["duration_s"], end, most), "po-waits", words("measured.lane_most", n=fmt.count(peak)))
        for worker in entry["resources"]:
            if pool_of(worker["worker"]) == pool:
                made += _lane(_worker_name(worker["worker"], words), _work(trace, worker["worker"], end))
    ticks = "".join(f"<span style='left:{100 * at / end:.2f}%'>{escape(fmt.tick(at))}</span>" for at in even_ticks(0, end, 6) if at <= 0.97 * end)
    made += f"<div class='po-lane po-ticks'><span></span><span class='po-axis'>{ticks}</span><em></em></div>"
    apart = entry.get("processes_at_most_cores", True)
    quiet = words("measured.done", end=fmt.seconds(trace["duration_s"])) if apart else words("measured.shared_cores")
    label = words("measured.alt", name=schedule_name(name, words), workers=fmt.count(len(entry["resources"])), requests=fmt.count(len(trace["requests"])))
    return (
        f"<section class='po-picture{'' if apart else ' po-crowded'}'><h3>{escape(schedule_name(name, words))} <span class='lab-quiet'>{parts.prose(quiet)}</span></h3>"
        f"<div role='img' aria-label='{escape(f'{label} {quiet}', quote=True)}'>{made}</div></section>"
    )


def _lane(title: str, inside: str, kind: str = "", end: str = "") -> str:
    return f"<div class='po-lane {kind}'><span>{escape(title)}</span><span class='po-axis'>{inside}</span><em>{escape(end)}</em></div>"


def _worker_name(worker: str, words: Words) -> str:
    pool, _, number = worker.rpartition("-")
    return words(f"measured.worker_{pool}", n=int(number) + 1)


def _work(trace: dict, worker: str, end: float) -> str:
    """A worker's steps: prompts, or tokens. (Nothing is chunked here, so none does both.)"""
    by_kind: dict[str, list[tuple[float, float]]] = {}
    for step in trace["steps"]:
        if step["worker"] == worker:
            kind = PREFILL if step["prefill_tokens"] else DECODE
            by_kind.setdefault(kind, []).append((step["begin_s"], step["end_s"]))
    return "".join(_bars(kind, spans, end) for kind, spans in by_kind.items())


def joined(spans: Iterable[tuple[float, float]], close: float) -> list[list[float]]:
    """Spans that follow each other within so much as one: hundreds of steps are a few bars."""
    found: list[list[float]] = []
    for begin, finish in sorted(spans):
        if found and begin - found[-1][1] <= close:
            found[-1][1] = max(found[-1][1], finish)
        else:
            found.append([begin, finish])
    return found


def _bars(kind: str, spans: Iterable[tuple[float, float]], end: float) -> str:
    return "".join(
        f"<i class='po-{kind}' style='left:{100 * begin / end:.2f}%;width:{max(100 * (finish - begin) / end, 0.15):.2f}%'></i>" for begin, finish in joined(spans, JOIN * end)
    )


def _area(points: list[list], last: float, end: float, most: int) -> str:
    """How many wait, as steps of a height; all pictures have one scale."""
    made = ""
    for (begin, waiting), (finish, _) in zip(points, [*points[1:], [last, 0]], strict=True):
        if waiting and finish > begin:
            made += f"<i class='po-wait' style='left:{100 * begin / end:.2f}%;width:{100 * (finish - begin) / end:.2f}%;height:{100 * waiting / most:.0f}%'></i>"
    return made


# ------------------------------------------------------------------ tables


def table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each arrangement; seconds only where they say something of it."""
    names = ("name", "processes", "gap", "first", "end", "rate", "transfer", "held")
    rows = []
    for name, entry in result["arrangements"].items():
        found = entry["metrics"]
        times = [found["itl_max_s"], ttft_p50_s(entry), found["makespan_s"]]
        clear = name in comparable(result)
        shown = [fmt.seconds(value) if clear else fmt.DASH for value in times] + [fmt.rate(found["throughput_tokens_per_s"]) if clear else fmt.DASH]
        moved = fmt.bytes_(entry["transfer"]["bytes"]) if entry["transfer"]["bytes"] else fmt.DASH
        held = fmt.count(entry["back_pressure"]["requests"]) if DECODE in entry["pools"] else fmt.DASH
        rows.append([schedule_name(name, words), fmt.count(entry["processes"]), *shown, moved, held])
    return [words(f"measured.col_{name}") for name in names], rows


def cases_table(results: dict[str, dict], words: Words) -> tuple[list[str], list[list[str]]]:
    """Head and rows: a row for each case (its title), one engine against pools; results without such a pair are left out."""
    rows = []
    for title, result in results.items():
        if found := outcomes(result):
            shown = [words("measured.from_to", unified=fmt.seconds(a), pools=fmt.seconds(b)) for a, b in found.values()]
            rows.append([title, *shown, words(f"measured.word_{judged(found)}")])
    return [words(f"measured.col_{name}") for name in ("case", "gap", "first", "end", "verdict")], rows


def workers_table(result: dict, words: Words) -> tuple[list[str], list[list[str]]]:
    """A row for each worker of each arrangement: how many requests, how busy, how full."""
    names = ("name", "worker", "requests", "busy", "kv", "queue", "waited")
    rows = []
    for name, entry in result["arrangements"].items():
        clear = entry["processes_at_most_cores"]
        for pool, facts in entry["pools"].items():
            for place, worker in enumerate(facts["workers"]):
                kv = words("measured.of", used=fmt.bytes_(worker["kv_peak_bytes"]), all=fmt.bytes_(worker["kv_capacity_bytes"]))
                waited = fmt.seconds(facts["waited_s_mean"]) if clear else fmt.DASH
                of_pool = [fmt.count(facts["queue_max"]), waited] if place == 0 else ["", ""]
                share = fmt.share(worker["busy_share"]) if clear else fmt.DASH
                rows.append([schedule_name(name, words), _worker_name(worker["worker"], words), fmt.count(worker["requests"]), share, kv, *of_pool])
    return [words(f"measured.col_{name}") for name in names], rows


def busy_bars(result: dict, words: Words) -> str:
    """How much of the time each worker computed, and what, of arrangements whose times count. HTML."""
    made = ""
    for name, entry in timed(result).items():
        for facts in entry["pools"].values():
            for worker in facts["workers"]:
                spent = "".join(f"<i class='po-{kind}' style='width:{100 * share:.1f}%'></i>" for kind, share in _spent(entry["trace"], worker["worker"]))
                made += (
                    f"<div class='po-busy'><span>{escape(schedule_name(name, words))}</span><b>{escape(_worker_name(worker['worker'], words))}</b>"
                    f"<span class='po-bar' aria-hidden='true'>{spent}</span><em>{escape(fmt.share(worker['busy_share']))}</em></div>"
                )
    return f"<div class='po-busies'>{made}</div>"


def _spent(trace: dict, worker: str) -> list[tuple[str, float]]:
    """The shares of the time that went into prompts and into tokens; no step does both here."""
    seconds = {PREFILL: 0.0, DECODE: 0.0}
    for step in trace["steps"]:
        if step["worker"] == worker:
            seconds[PREFILL if step["prefill_tokens"] else DECODE] += step["end_s"] - step["begin_s"]
    return [(kind, value / trace["duration_s"]) for kind, value in seconds.items() if value]
