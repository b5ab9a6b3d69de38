"""Small pools results in the form of the engine's: a few requests through one engine and through pools, step by step, by simple rules.

A prompt takes its seconds whoever computes it, a decode step takes DECODE_S, and a copy MOVE_S. Pools have half the machine
each, so their steps take twice as long.
"""

from __future__ import annotations

from engine.experiments.pools_scenario import pools_for
from engine.measure.metrics import summarize
from engine.measure.pools import back_pressure, pool_facts, pool_of
from tests.pages.streaming_small import manifest

PROMPT, OUTPUT, PER_TOKEN, BLOCK = 100, 12, 1_000, 16
DECODE_S, MOVE_S = 0.2, 0.1
ARRIVALS = (0.0, 0.3, 0.6, 0.9)


def pools(
    arrangements: tuple[str, ...] = ("unified", "1:1", "2:1", "1:2"),
    *,
    case: str = "balanced",
    cores: int = 2,
    prompt_s: float = 0.5,
    move_s: float = MOVE_S,
    held: float = 0.0,
    **changes: object,
) -> dict:
    """held: seconds that each request's KV waits for room in the decode pool; changes replace whole entries."""
    made = {name: arrangement(name, cores, prompt_s, move_s, held) for name in arrangements}
    ids = [request["id"] for request in next(iter(made.values()))["trace"]["requests"]]
    first, *others = arrangements
    scenario = pools_for("cpu", case, arrangements=",".join(arrangements))
    return {
        "format": 1,
        "kind": "pools",
        "run_id": "pools-small-of-tests",
        "provenance": "measured",
        "manifest": {**manifest(scenario), "device": {**manifest(scenario)["device"], "cores": cores}},
        "arrangements": made,
        "texts": {},
        "agreement": {name: dict.fromkeys(others) for name in ids},
        "disturbance": {"disturbed": False, "waited_share": 0.0, "others_cpu_share": 0.0},
        **changes,
    }


def arrangement(name: str, cores: int, prompt_s: float, move_s: float, held: float) -> dict:
    prefill, decode = (0, 0) if name == "unified" else map(int, name.split(":"))
    trace = _unified(prompt_s) if name == "unified" else _apart(prefill, decode, prompt_s, move_s, held)
    names = ["engine-0"] if name == "unified" else [f"prefill-{n}" for n in range(prefill)] + [f"decode-{n}" for n in range(decode)]
    capacity = 2_000_000 // len(names)
    resources = [
        {"worker": worker, "role": name if name == "unified" else pool_of(worker), "device": "cpu", "threads": cores if name == "unified" else 1, "cores": [0], "kv_capacity_bytes": capacity}
        for worker in names
    ]
    by_pool: dict[str, list[dict]] = {}
    for worker in resources:
        by_pool.setdefault(pool_of(worker["worker"]), []).append(worker)
    metrics = summarize(trace, kv_bytes_per_token=PER_TOKEN, kv_capacity_bytes=2_000_000)
    return {
        "metrics": metrics,
        "resources": resources,
        "processes": len(names),
        "processes_at_most_cores": len(names) <= cores,
        "pools": {pool: pool_facts(trace, workers, pool, kv_bytes_per_token=PER_TOKEN) for pool, workers in by_pool.items()},
        "back_pressure": back_pressure(trace),
        "transfer": {"bytes": metrics["transfer_bytes"], "seconds": metrics["transfer_s"]},
        "trace": trace,
    }


def _new(name: str) -> dict:
    stamps = dict.fromkeys(("prefill_begin_s", "prefill_end_s", "transfer_begin_s", "transfer_end_s", "decode_begin_s", "decode_end_s"))
    requests = [
        {"id": f"chat-{n}", "kind": "chat", "prompt_tokens": PROMPT, "output_tokens": OUTPUT, "arrival_s": at, "token_s": [], "status": "finished", "preemptions": 0, **stamps}
        for n, at in enumerate(ARRIVALS)
    ]
    return {"schedule": name, "duration_s": 0.0, "requests": requests, "steps": [], "transfers": [], "kv": [], "events": []}


def _step(trace: dict, worker: str, begin: float, end: float, prompts: list[int], chats: list[int]) -> None:
    slices = [[n, PROMPT, 1] for n in chats] + [[n, 0, PROMPT] for n in prompts]
    trace["steps"].append({"worker": worker, "begin_s": begin, "end_s": end, "prefill_tokens": PROMPT * len(prompts), "decode_tokens": len(chats), "slices": slices})
    for n in (*prompts, *chats):
        trace["requests"][n]["token_s"].append(end)


def _holds(trace: dict, worker: str, at: float, requests: int) -> None:
    trace["kv"].append({"worker": worker, "at_s": at, "tokens": requests * 7 * BLOCK})


def _unified(prompt_s: float) -> dict:
    trace, now = _new("unified"), 0.0
    waiting, running = list(range(len(ARRIVALS))), []
    while waiting or running:
        due = [n for n in waiting if ARRIVALS[n] <= now]
        if not due and not running:
            now = ARRIVALS[waiting[0]]
            continue
        if due:
            waiting = [n for n in waiting if n not in due]
            trace["events"] += [{"type": "admitted", "at_s": now, "request": n, "worker": "engine-0"} for n in due]
            _step(trace, "engine-0", now, now + prompt_s * len(due), due, [])
            now, running = now + prompt_s * len(due), running + due
        else:
            _step(trace, "engine-0", now, now + DECODE_S, [], running)
            now += DECODE_S
        _holds(trace, "engine-0", now, len(running))
        running = [n for n in running if len(trace["requests"][n]["token_s"]) < OUTPUT]
    trace["duration_s"] = now
    return trace


def _apart(prefill: int, decode: int, prompt_s: float, move_s: float, held: float) -> dict:
    trace = _new(f"{prefill}:{decode}")
    free, ready = [0.0] * prefill, []
    for n, at in enumerate(ARRIVALS):
        place = n % prefill
        begin = max(at, free[place])
        end = free[place] = begin + 2 * prompt_s
        worker = f"prefill-{place}"
        trace["events"].append({"type": "admitted", "at_s": begin, "request": n, "worker": worker})
        _step(trace, worker, begin, end, [n], [])
        _holds(trace, worker, begin, 1)
        goes = end + held
        if held:
            trace["events"].append({"type": "no_room", "at_s": end, "request": n, "worker": f"decode-{n % decode}"})
        trace["transfers"].append({"request": n, "begin_s": goes, "end_s": goes + move_s, "bytes": PROMPT * PER_TOKEN, "parts": [[goes, goes + move_s, PROMPT * PER_TOKEN]]})
        trace["requests"][n] |= {"prefill_begin_s": begin, "prefill_end_s": end, "transfer_begin_s": goes, "transfer_end_s": goes + move_s}
        ready.append((goes, goes + move_s, n))
    for place in range(decode):
        _decode(trace, f"decode-{place}", [entry for entry in ready if entry[2] % decode == place])
    trace["steps"].sort(key=lambda step: step["begin_s"])
    trace["kv"].sort(key=lambda point: point["at_s"])
    trace["events"].sort(key=lambda event: event["at_s"])
    trace["duration_s"] = max(step["end_s"] for step in trace["steps"])
    return trace


def _decode(trace: dict, worker: str, ready: list[tuple[float, float, int]]) -> None:
    for goes, _, n in ready:
        trace["events"].append({"type": "admitted", "at_s": goes, "request": n, "worker": worker})
    now, running, coming = 0.0, [], sorted(ready, key=lambda entry: entry[1])
    while coming or running:
        if not running and coming and coming[0][1] > now:
            now = coming[0][1]
        running += [n for _, at, n in coming if at <= now]
        coming = [entry for entry in coming if entry[1] > now]
        _step(trace, worker, now, now + DECODE_S, [], running)
        now += DECODE_S
        _holds(trace, worker, now, len(running))
        running = [n for n in running if len(trace["requests"][n]["token_s"]) < OUTPUT]
