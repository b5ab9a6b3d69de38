"""What a result says, as sentences: (key of a text, facts). Computed from the numbers, never canned. Pure.

Every sentence is chosen by what was measured: where a schedule did not stall,
none says that it did.
"""

from __future__ import annotations

from pages._ui import fmt
from pages._ui.board import line

Sentence = tuple[str, dict[str, str]]

# Differences below this are called "about the same".
SAME = 0.03
# A gap this many times the usual one is worth a sentence.
STANDS_OUT = 2.0


def headline(result: dict) -> Sentence:
    """The one sentence above the picture."""
    gaps = {s: e["metrics"]["itl_max_s"] for s, e in result["schedules"].items()}
    facts = {s: fmt.seconds(v) for s, v in gaps.items()}
    tokens = _long_tokens(result)
    complete = len([g for g in gaps.values() if g is not None]) == 3
    if not complete:
        return "story.partial", {}
    if tokens is None:
        return "story.headline_short", facts
    if any(e["metrics"]["ttft_s"] is None for e in result["schedules"].values()):
        return "story.headline_plain", facts  # a long prompt that was not served is no part of the story
    return "story.headline", {"tokens": tokens, **facts}


def costs(result: dict) -> dict[str, list[Sentence]]:
    """Per schedule, what it brought and what it cost, in the order of importance."""
    makers = {"unified": _unified, "chunked": _chunked, "disaggregated": _disaggregated}
    return {s: makers[s](result) + _preempted(result, s) for s in makers if s in result["schedules"]}


def notes(result: dict) -> list[Sentence]:
    """Remarks under the metrics table: what the mean hides, and how sure a single run is."""
    found: list[Sentence] = []
    u = _metrics(result, "unified")
    if u and u.get("tpot_p50_s") and u.get("itl_p50_s") and (u["itl_max_s"] or 0) > 5 * u["itl_p50_s"]:
        found.append(
            (
                "note.tpot",
                {
                    "gap": fmt.seconds(u["itl_max_s"]),
                    "gap_ratio": fmt.ratio(u["itl_max_s"] / u["itl_p50_s"]),
                    "tpot": fmt.seconds(u["tpot_p50_s"]),
                    "tpot_ratio": fmt.ratio(u["tpot_p50_s"] / u["itl_p50_s"]),
                    "usual": fmt.seconds(u["itl_p50_s"]),
                },
            )
        )
        if u.get("itl_p99_s") and u["itl_p99_s"] < u["itl_max_s"] / 5:
            chats = [g["output_tokens"] for g in result["manifest"]["scenario"]["groups"] if g["kind"] != "long"]
            found.append(("note.p99", {"p99": fmt.seconds(u["itl_p99_s"]), "tokens": fmt.count(max(chats))}))
    repeats = result["manifest"]["scenario"]["repeats"]
    found.append(("note.single", {}) if repeats == 1 else ("note.repeats", {"n": fmt.count(repeats)}))
    return found


def _unified(result: dict) -> list[Sentence]:
    m = _metrics(result, "unified")
    found = [_gap_sentence(m, "cost.unified.stall", "cost.calm", prefill=fmt.seconds(m.get("prefill_s")))]
    return found + _ttft(result, "unified")


def _chunked(result: dict) -> list[Sentence]:
    m, u = _metrics(result, "chunked"), _metrics(result, "unified")
    found: list[Sentence] = []
    if _both(m, u, "itl_max_s"):
        facts = _against_unified(m, u) | {"chunk": fmt.count(result["manifest"]["scenario"]["chunk_tokens"])}
        found.append(
            ("cost.chunked.gap" if u["itl_max_s"] > m["itl_max_s"] * (1 + SAME) else "cost.chunked.no_gain", facts)
        )
    found += _ttft(result, "chunked")
    parts = result.get("chunking")
    if parts:
        # A part that comes out negative was drowned in the machine's other work: then no part is named.
        told_apart = parts["kernel_cost_s"] >= 0 and parts["scheduling_cost_s"] >= 0
        found.append(
            (
                "cost.chunked.parts" if told_apart else "cost.chunked.parts_noise",
                {
                    "whole": fmt.seconds(parts["whole_prefill_s"]),
                    "alone": fmt.seconds(parts["chunked_alone_s"]),
                    "served": fmt.seconds(parts["chunked_served_s"]),
                    "kernel": fmt.seconds(parts["kernel_cost_s"]),
                    "scheduling": fmt.seconds(parts["scheduling_cost_s"]),
                },
            )
        )
    if _both(m, u, "throughput_tokens_per_s"):
        change = m["throughput_tokens_per_s"] / u["throughput_tokens_per_s"] - 1
        kind = "same" if abs(change) <= SAME else "less" if change < 0 else "more"
        found.append(
            (
                f"cost.chunked.throughput_{kind}",
                {
                    "rate": fmt.rate(m["throughput_tokens_per_s"]),
                    "unified": fmt.rate(u["throughput_tokens_per_s"]),
                    "change": fmt.percent(change),
                },
            )
        )
    return found


def _disaggregated(result: dict) -> list[Sentence]:
    m, u = _metrics(result, "disaggregated"), _metrics(result, "unified")
    found: list[Sentence] = []
    if _both(m, u, "itl_max_s"):
        facts = _against_unified(m, u)
        found.append(
            (
                "cost.disaggregated.gap"
                if u["itl_max_s"] > m["itl_max_s"] * (1 + SAME)
                else "cost.disaggregated.no_gain",
                facts,
            )
        )
    if _both(m, u, "itl_p50_s") and m["itl_p50_s"] > u["itl_p50_s"] * (1 + SAME):
        found.append(
            (
                "cost.disaggregated.usual",
                {
                    "usual": fmt.seconds(m["itl_p50_s"]),
                    "unified": fmt.seconds(u["itl_p50_s"]),
                    "ratio": fmt.ratio(m["itl_p50_s"] / u["itl_p50_s"]),
                },
            )
        )
    found += _ttft(result, "disaggregated")
    if _both(m, u, "prefill_s") and m["prefill_s"] > u["prefill_s"] * (1 + SAME):
        found.append(
            (
                "cost.disaggregated.prefill",
                {"prefill": fmt.seconds(m["prefill_s"]), "unified": fmt.seconds(u["prefill_s"])},
            )
        )
    if _both(m, u, "throughput_tokens_per_s") and abs(m["throughput_tokens_per_s"] / u["throughput_tokens_per_s"] - 1) > SAME:
        rates = m["throughput_tokens_per_s"], u["throughput_tokens_per_s"]
        facts = {"rate": fmt.rate(rates[0]), "unified": fmt.rate(rates[1]), "change": fmt.percent(rates[0] / rates[1] - 1)}
        found.append(("cost.disaggregated.throughput", facts))
    if m.get("transfer_bytes"):
        found.append(
            (
                "cost.disaggregated.transfer",
                {"seconds": fmt.seconds(m["transfer_s"]), "bytes": fmt.bytes_(m.get("transfer_bytes"))},
            )
        )
    return found


def _against_unified(m: dict, u: dict) -> dict[str, str]:
    """The worst gap of a schedule beside unified's."""
    return {
        "gap": fmt.seconds(m["itl_max_s"]),
        "unified": fmt.seconds(u["itl_max_s"]),
        "ratio": fmt.ratio(u["itl_max_s"] / m["itl_max_s"]),
    }


def _preempted(result: dict, schedule: str) -> list[Sentence]:
    times = _metrics(result, schedule).get("preemptions")
    return [("cost.preempted", {"n": fmt.count(times)})] if times else []


def _gap_sentence(m: dict, stands_out: str, calm: str, **more: str) -> Sentence:
    facts = {"gap": fmt.seconds(m.get("itl_max_s")), "usual": fmt.seconds(m.get("itl_p50_s")), **more}
    if not m.get("itl_max_s") or not m.get("itl_p50_s"):
        return "cost.no_gaps", {}
    ratio = m["itl_max_s"] / m["itl_p50_s"]
    facts["ratio"] = fmt.ratio(ratio)
    return (stands_out if ratio > STANDS_OUT and m.get("prefill_s") is not None else calm), facts


def _ttft(result: dict, schedule: str) -> list[Sentence]:
    """Where this schedule's first token of the long prompt stands among the three."""
    mine = _metrics(result, schedule).get("ttft_s")
    u = _metrics(result, "unified").get("ttft_s")
    if mine is None:
        return []
    found = line(result, "ttft_s")
    best = [c.schedule for c in found.cells if c.best]
    if best == [schedule]:
        return [("cost.ttft_first", {"ttft": fmt.seconds(mine)})]
    if schedule == "unified" or u is None:
        return [("cost.ttft_plain", {"ttft": fmt.seconds(mine)})]
    change = mine / u - 1
    if abs(change) <= SAME:
        return [("cost.ttft_same", {"ttft": fmt.seconds(mine), "unified": fmt.seconds(u)})]
    facts = {
        "ttft": fmt.seconds(mine),
        "delta": fmt.seconds(abs(mine - u)),
        "change": fmt.percent(change),
        "unified": fmt.seconds(u),
    }
    return [("cost.ttft_later" if change > 0 else "cost.ttft_sooner", facts)]


def _metrics(result: dict, schedule: str) -> dict:
    return result["schedules"].get(schedule, {}).get("metrics", {})


def _both(a: dict, b: dict, key: str) -> bool:
    return bool(a.get(key)) and bool(b.get(key))


def _long_tokens(result: dict) -> str | None:
    """The length of the long prompts, for example ``4,096`` or ``2 × 2,048``; None if there are none."""
    longs = [g for g in result["manifest"]["scenario"]["groups"] if g["kind"] == "long" and g["count"]]
    if not longs:
        return None
    times = sum(g["count"] for g in longs)
    tokens = fmt.count(max(g["prompt_tokens"] for g in longs))
    return tokens if times == 1 else f"{times} × {tokens}"
