"""A run as it looks while it goes on: a whole result, cut off at a moment. For tests."""

from __future__ import annotations

NOTHING = ("prefill_begin_s", "prefill_end_s", "transfer_begin_s", "transfer_end_s", "decode_begin_s", "decode_end_s")


def cut(result: dict, known_s: dict[str, float | None]) -> dict:
    """What is known of ``result`` when each schedule named has got to a moment (None: it is complete), as client.live gives it."""
    schedules = {}
    for name, until in known_s.items():
        entry = result["schedules"][name]
        schedules[name] = {"resources": entry["resources"], "repeat": entry.get("repeat", 0)} | (
            {"trace": entry["trace"], "complete": True, "now_s": entry["trace"]["duration_s"]}
            if until is None
            else {"trace": _cut_trace(entry["trace"], until), "complete": False, "now_s": until}
        )
    pieces = {
        request: {
            name: (by[name] if by[name] is not None else next(iter(by.values())))[
                : len(_request(schedules[name]["trace"], request)["token_s"])
            ]
            for name in known_s
        }
        for request, by in (result.get("pieces") or {}).items()
    }
    model = {"kv_bytes_per_token": result["manifest"]["model"]["kv_bytes_per_token"]}
    manifest = {"model": model, "scenario": result["manifest"]["scenario"]}
    return {
        "run_id": "x",
        "kind": "schedules",
        "version": 1,
        "manifest": manifest,
        "schedules": schedules,
        "pieces": pieces,
    }


def _cut_trace(trace: dict, until: float) -> dict:
    requests = []
    for request in trace["requests"]:
        came = request["arrival_s"] is not None and request["arrival_s"] <= until
        tokens = [at for at in request["token_s"] if at <= until]
        done = len(tokens) == len(request["token_s"])
        stamps = {k: request[k] if request[k] is not None and request[k] <= until else None for k in NOTHING}
        requests.append(
            {**request, **stamps, "arrival_s": request["arrival_s"] if came else None, "token_s": tokens}
            | {"status": "finished" if done else "unfinished"}
        )
    steps = [step for step in trace["steps"] if step["end_s"] <= until]
    begun = [step for step in trace["steps"] if step["prefill_tokens"] and step["begin_s"] <= until < step["end_s"]]
    return {
        **trace,
        "requests": requests,
        "steps": steps,
        "under_way": [{name: value for name, value in step.items() if name != "end_s"} for step in begun],
        "transfers": [t for t in trace["transfers"] if t["end_s"] <= until],
        "kv": [point for point in trace["kv"] if point["at_s"] <= until],
        "duration_s": max((step["end_s"] for step in steps), default=0.0),
    }


def _request(trace: dict, request: str) -> dict:
    return next(r for r in trace["requests"] if r["id"] == request)
