"""What pools did, from a trace: who waited where and for how long, how busy each worker was. Pure.

A worker's pool is its name without the number: engine, prefill or decode. A request waits

    for an engine or the prefill pool   from its arrival (its return from the decode pool, its preemption) until it is admitted
    for the decode pool                 from the end of its prefill, when its KV is ready, until there are blocks for it, or
                                        until it is given back because its lease ended. Sent layer by layer they may be there
                                        before: then it did not wait

Only what waits since the decode worker had no blocks for it (the event no_room) is back-pressure: the rest is a step that was
under way, and the messages.
"""

from statistics import fmean

Trace = dict
ENGINE, PREFILL, DECODE = "engine", "prefill", "decode"
_ENTERS_AGAIN = {ENGINE: "preempted", PREFILL: "returned"}


def pool_of(worker: str) -> str:
    """ "prefill" of "prefill-1"."""
    return worker.rpartition("-")[0]


def waits(trace: Trace) -> list[dict]:
    """[{"pool", "request", "from_s", "to_s", "no_room_s"}] in order of their ends, the one without an end last.

    to_s: None if it still waits. no_room_s: since when there was no room for its KV, which was ready; None if there was.
    """
    entry = PREFILL if any(pool_of(step["worker"]) == PREFILL for step in trace["steps"]) else ENGINE
    found: list[dict] = []
    open_: dict[int, dict] = {}
    full: dict[int, float] = {}
    placed: set[int] = set()

    def end(request: int, at_s: float) -> None:
        since = full.pop(request, None)
        if wait := open_.pop(request, None):
            found.append({**wait, "to_s": at_s, "no_room_s": None if since is None else max(since, wait["from_s"])})

    for at_s, _, kind, request, pool in _happenings(trace, entry):
        if kind == "entered" or (kind == "prefilled" and request not in placed):
            if kind == "entered":
                placed.discard(request)
                end(request, at_s)  # given back while it waited for the decode pool: nobody waited longer
            open_[request] = {"pool": pool, "request": request, "from_s": at_s, "to_s": None, "no_room_s": None}
        elif kind == "no_room":
            full[request] = at_s
        elif kind == "admitted":
            if pool == DECODE:
                placed.add(request)
            end(request, at_s)
        elif kind == "over":
            open_.pop(request, None)
    return found + [{**wait, "no_room_s": full.get(request)} for request, wait in open_.items()]


def queue(trace: Trace, pool: str) -> list[list]:
    """[[seconds, how many wait for a pool from then on], ...], from 0 on, at each change."""
    changes = []
    for wait in waits(trace):
        if wait["pool"] == pool:
            changes.append((wait["from_s"], 1))
            changes += [(wait["to_s"], -1)] if wait["to_s"] is not None else []
    points, waiting = [[0.0, 0]], 0
    for at_s, change in sorted(changes, key=lambda change: change[0]):
        waiting += change
        if at_s == points[-1][0]:
            points[-1][1] = waiting
        elif waiting != points[-1][1]:
            points.append([at_s, waiting])
    return points


def pool_facts(trace: Trace, workers: list[dict], pool: str, *, kv_bytes_per_token: int) -> dict:
    """{"workers", "queue", "queue_max", "waited_s_mean" (None if nobody came)} of a pool.

    workers: {"worker", "kv_capacity_bytes"} of all that serve in it. Of each: {"worker", "requests" that it computed anything
    of, "busy_share": the time of its steps / the trace's duration, "kv_peak_bytes" in owned blocks, "kv_capacity_bytes"}.
    """
    waited = [wait["to_s"] - wait["from_s"] for wait in waits(trace) if wait["pool"] == pool and wait["to_s"] is not None]
    points = queue(trace, pool)
    return {
        "workers": [_worker(trace, w["worker"], w["kv_capacity_bytes"], kv_bytes_per_token) for w in workers],
        "queue": points,
        "queue_max": max(waiting for _, waiting in points),
        "waited_s_mean": round(fmean(waited), 6) if waited else None,
    }


def back_pressure(trace: Trace) -> dict:
    """{"requests" whose KV was ready and had no room in the decode pool, "waited_s_max", "waited_s_total"} for it."""
    held = [w for w in waits(trace) if w["no_room_s"] is not None and w["pool"] == DECODE]
    seconds = [(trace["duration_s"] if w["to_s"] is None else w["to_s"]) - w["no_room_s"] for w in held]
    return {
        "requests": len({wait["request"] for wait in held}),
        "waited_s_max": round(max(seconds, default=0.0), 6),
        "waited_s_total": round(sum(seconds), 6),
    }


def _worker(trace: Trace, name: str, kv_capacity_bytes: int, kv_bytes_per_token: int) -> dict:
    steps = [step for step in trace["steps"] if step["worker"] == name]
    busy_s = sum(step["end_s"] - step["begin_s"] for step in steps)
    return {
        "worker": name,
        "requests": len({index for step in steps for index, _, _ in step["slices"]}),
        "busy_share": round(busy_s / trace["duration_s"], 4) if trace["duration_s"] else 0.0,
        "kv_peak_bytes": max((p["tokens"] for p in trace["kv"] if p["worker"] == name), default=0) * kv_bytes_per_token,
        "kv_capacity_bytes": kv_capacity_bytes,
    }


def _happenings(trace: Trace, entry: str) -> list[tuple[float, int, str, int, str]]:
    """(seconds, order among equals, what, request, pool): entered, prefilled, no_room, admitted or over, in order of time."""
    requests = trace["requests"]
    found = [(r["arrival_s"], 0, "entered", index, entry) for index, r in enumerate(requests) if r["arrival_s"] is not None]
    for step in trace["steps"]:
        if pool_of(step["worker"]) == PREFILL:
            goes_on = [index for index, _, _ in step["slices"] if not _ended_by(requests[index], step["end_s"])]
            found += [(step["end_s"], 1, "prefilled", index, DECODE) for index in goes_on]
    for event in trace["events"]:
        at_s, kind, request = event["at_s"], event["type"], event["request"]
        if kind == _ENTERS_AGAIN[entry]:
            found.append((at_s, 2, "entered", request, entry))
        elif kind in ("refused", "failed"):
            found.append((at_s, 2, "over", request, ""))
        elif kind in ("admitted", "no_room"):
            found.append((at_s, 2, kind, request, pool_of(event["worker"])))
    return sorted(found, key=lambda happening: happening[:2])


def _ended_by(request: dict, at_s: float) -> bool:
    """Its last token came with this step or before."""
    return request["status"] == "finished" and bool(request["token_s"]) and request["token_s"][-1] <= at_s
