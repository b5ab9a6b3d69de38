"""Metrics: pure functions of a trace. One definition each, shown wherever the number is shown.

    TTFT        first token - arrival
    TPOT        (last token - first token) / (tokens - 1); none for a single token. A mean: it hides a stall
    ITL         the gaps between a request's tokens, one by one; TTFT is never among them
    throughput  output tokens of all requests / (last token - first arrival)
    goodput     requests per second of this run that met both SLOs, on TTFT and on 99 of 100 of their own gaps (or on all)
"""

import math
from statistics import fmean, median

Trace = dict
LONG = "long"


def ttft_s(request: dict) -> float | None:
    """Time to first token: from arrival to the end of the step that made it."""
    return request["token_s"][0] - request["arrival_s"] if request["token_s"] else None


def tpot_s(request: dict) -> float | None:
    """Time per output token after the first: (last - first) / (n - 1); None for fewer than two tokens."""
    times = request["token_s"]
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None


def itl_s(request: dict) -> list[float]:
    """Inter-token latencies: n - 1 gaps for n tokens."""
    times = request["token_s"]
    return [later - earlier for earlier, later in zip(times, times[1:], strict=False)]


def percentile(values: list[float], share: float) -> float | None:
    """The smallest value that at least `share` of the values do not exceed (nearest rank); None for no values."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)] if values else None


def goodput_rps(trace: Trace, ttft_slo_s: float, itl_slo_s: float, share: float = 0.99) -> float | None:
    """Requests per second of this run that met both SLOs: TTFT, and that share of their own gaps.

    DistServe's goodput is another thing: the highest rate at which 90 % meet the SLOs, which takes a sweep.
    """
    span = _span_s(trace)
    return sum(meets_slos(r, ttft_slo_s, itl_slo_s, share) for r in trace["requests"]) / span if span else None


def meets_slos(request: dict, ttft_slo_s: float, itl_slo_s: float, share: float = 0.99) -> bool:
    """Finished, first token in time, and a share of the gaps in time (1.0: every one)."""
    if request["status"] != "finished":
        return False
    worst = percentile(itl_s(request), share)
    return ttft_s(request) <= ttft_slo_s and (worst is None or worst <= itl_slo_s)


def stalls(trace: Trace, *, factor: float = 3.0) -> list[dict]:
    """Gaps in a user's stream more than `factor` times the run's median gap: {"request", "begin_s", "end_s"}."""
    gaps = [gap for request in trace["requests"] for gap in itl_s(request)]
    if not gaps:
        return []
    limit = factor * median(gaps)
    found = []
    for index, request in enumerate(trace["requests"]):
        times = request["token_s"]
        for earlier, later in zip(times, times[1:], strict=False):
            if later - earlier > limit:
                found.append({"request": index, "begin_s": earlier, "end_s": later})
    return found


def summarize(trace: Trace, *, kv_bytes_per_token: int, kv_capacity_bytes: int) -> dict[str, float | int | None]:
    """All metrics of one run. Times in seconds; None where a metric is not defined for the workload.

    `itl_*` and `tpot_*` are over the chats (all requests but the long ones); `ttft_s` and `prefill_s` are those of the
    long prompt, the worst if there are several. KV is counted in owned blocks, over all workers together.
    """
    requests = trace["requests"]
    longs = [r for r in requests if r["kind"] == LONG]
    chats = [r for r in requests if r["kind"] != LONG]
    gaps = [gap for r in chats for gap in itl_s(r)]
    tpots = [t for r in chats if (t := tpot_s(r)) is not None]
    chat_ttfts = [t for r in chats if (t := ttft_s(r)) is not None]
    decodes = [s["end_s"] - s["begin_s"] for s in trace["steps"] if s["decode_tokens"] and not s["prefill_tokens"]]
    span = _span_s(trace)
    return {
        "itl_max_s": max(gaps, default=None),
        "itl_p99_s": percentile(gaps, 0.99),
        "itl_p50_s": percentile(gaps, 0.5),
        "itl_mean_s": fmean(gaps) if gaps else None,
        "ttft_s": max((t for r in longs if (t := ttft_s(r)) is not None), default=None),
        "prefill_s": max((p for r in longs if (p := _prefill_s(r)) is not None), default=None),
        "chat_ttft_p50_s": percentile(chat_ttfts, 0.5),
        "chat_ttft_max_s": max(chat_ttfts, default=None),
        "tpot_p50_s": percentile(tpots, 0.5),
        "tpot_max_s": max(tpots, default=None),
        "decode_step_p50_s": percentile(decodes, 0.5),
        "throughput_tokens_per_s": sum(len(r["token_s"]) for r in requests) / span if span else None,
        "makespan_s": span,
        "transfer_s": sum(end - begin for t in trace["transfers"] for begin, end, _ in t["parts"]),
        "transfer_bytes": sum(t["bytes"] for t in trace["transfers"]),
        "kv_peak_bytes": peak_kv_tokens(trace) * kv_bytes_per_token,
        "kv_capacity_bytes": kv_capacity_bytes,
        "preemptions": sum(r["preemptions"] for r in requests),
        "requests": len(requests),
        "finished": sum(r["status"] == "finished" for r in requests),
        "refused": sum(r["status"] == "refused" for r in requests),
        "output_tokens": sum(len(r["token_s"]) for r in requests),
    }


def peak_kv_tokens(trace: Trace) -> int:
    """The most KV token slots in owned blocks at one time, over all workers together."""
    now: dict[str, int] = {}
    peak = 0
    for point in trace["kv"]:
        now[point["worker"]] = point["tokens"]
        peak = max(peak, sum(now.values()))
    return peak


def median_of(summaries: list[dict]) -> tuple[dict, dict]:
    """Several runs' metrics -> (median of each, [lowest, highest] of each); None where any run has none."""
    middle, spread = {}, {}
    for name in summaries[0]:
        values = [summary[name] for summary in summaries]
        complete = None not in values
        middle[name] = median(values) if complete else None
        spread[name] = [min(values), max(values)] if complete else None
    return middle, spread


def _prefill_s(request: dict) -> float | None:
    if request["prefill_end_s"] is None:
        return None
    return request["prefill_end_s"] - request["prefill_begin_s"]


def _span_s(trace: Trace) -> float | None:
    """First arrival to last token."""
    arrivals = [r["arrival_s"] for r in trace["requests"] if r["arrival_s"] is not None]
    last = [r["token_s"][-1] for r in trace["requests"] if r["token_s"]]
    return max(last) - min(arrivals) if arrivals and last else None
