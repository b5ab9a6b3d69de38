"""A result in other people's formats: CSV rows, and the Chrome trace format that Perfetto opens."""

import csv
import io

Result = dict

_STAMPS = (
    "arrival_s",
    "prefill_begin_s",
    "prefill_end_s",
    "transfer_begin_s",
    "transfer_end_s",
    "decode_begin_s",
    "decode_end_s",
)


def to_csv(result: Result) -> str:
    """One row per schedule, request and output token (a refused request has one row without a token)."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        ("run_id", "schedule", "request", "kind", "status", "prompt_tokens", "output_tokens", *_STAMPS, "token", "token_s")
    )
    for schedule, entry in result["schedules"].items():
        for request in entry["trace"]["requests"]:
            head = [result["run_id"], schedule, request["id"], request["kind"], request["status"]]
            head += [request["prompt_tokens"], request["output_tokens"], *(request[stamp] for stamp in _STAMPS)]
            for number, at_s in enumerate(request["token_s"] or [None]):
                writer.writerow([*head, number if at_s is not None else None, at_s])
    return out.getvalue()


def to_chrome(result: Result) -> dict:
    """Trace Event Format (JSON object form): a process per schedule and worker, one per schedule for the requests.

    Steps and copies are complete events, KV in use is a counter, a transfer is a flow from one pool to the other, and
    each request is a thread with its waiting, prefill, transfer and decode phases and its tokens as instants.
    """
    events: list[dict] = []
    pid = 0
    for schedule, entry in result["schedules"].items():
        trace = entry["trace"]
        names = [resource["worker"] for resource in entry["resources"]]
        pids = {name: pid + number for number, name in enumerate(names, start=1)}
        for name, worker_pid in pids.items():
            events += _named_process(worker_pid, f"{schedule}: {name}")
        events += _steps(schedule, trace, pids) + _copies(trace, pids) + _kv(trace, pids)
        pid += len(names) + 1
        events += _named_process(pid, f"{schedule}: requests") + _requests(trace, pid)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"run_id": result["run_id"]}}


def _steps(schedule: str, trace: dict, pids: dict[str, int]) -> list[dict]:
    return [
        _complete(
            pids[step["worker"]],
            1,
            step_kind(step, schedule),
            step["begin_s"],
            step["end_s"],
            prefill_tokens=step["prefill_tokens"],
            decode_tokens=step["decode_tokens"],
        )
        for step in trace["steps"]
    ]


def step_kind(step: dict, schedule: str) -> str:
    """prefill, chunk, mixed (a chunk with decodes) or decode."""
    if step["prefill_tokens"] and step["decode_tokens"]:
        return "mixed"
    if step["prefill_tokens"]:
        return "chunk" if schedule == "chunked" else "prefill"
    return "decode"


def _copies(trace: dict, pids: dict[str, int]) -> list[dict]:
    events = []
    for number, transfer in enumerate(trace["transfers"]):
        request = trace["requests"][transfer["request"]]["id"]
        for begin, end, layers in transfer["parts"]:
            events.append(_complete(pids[transfer["to"]], 2, f"copy {request}", begin, end, layers=layers))
        flow = {"name": "KV transfer", "cat": "transfer", "id": f"{trace['schedule']}-{number}"}
        longest = max(transfer["parts"], key=lambda part: part[1] - part[0])
        events.append({**flow, "ph": "s", "pid": pids[transfer["from"]], "tid": 1, "ts": _leaves(trace, transfer)})
        events.append({**flow, "ph": "f", "bp": "e", "pid": pids[transfer["to"]], "tid": 2, "ts": _us(longest[0])})
    return events


def _leaves(trace: dict, transfer: dict) -> float:
    """When a transfer's arrow leaves its prefill: within the step, as viewers drop an arrow that is tied to no slice."""
    ends = [
        step["end_s"]
        for step in trace["steps"]
        if step["worker"] == transfer["from"]
        and step["begin_s"] <= transfer["begin_s"]
        and any(index == transfer["request"] for index, _, _ in step["slices"])
    ]
    return min(_us(transfer["begin_s"]), _us(ends[-1]) - 0.001) if ends else _us(transfer["begin_s"])


def _kv(trace: dict, pids: dict[str, int]) -> list[dict]:
    return [
        {
            "name": "KV token slots",
            "ph": "C",
            "pid": pids[point["worker"]],
            "ts": _us(point["at_s"]),
            "args": {"in use": point["tokens"]},
        }
        for point in trace["kv"]
    ]


def _requests(trace: dict, pid: int) -> list[dict]:
    events = []
    for tid, request in enumerate(trace["requests"], start=1):
        events.append({"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": request["id"]}})
        transfer_begin_s = request["transfer_begin_s"]
        if transfer_begin_s is not None:  # layer by layer it begins during the prefill, but a thread's slices may not cross
            transfer_begin_s = max(transfer_begin_s, request["prefill_end_s"])
        phases = (
            ("waiting", request["arrival_s"], request["prefill_begin_s"]),
            ("prefill", request["prefill_begin_s"], request["prefill_end_s"]),
            ("transfer", transfer_begin_s, request["transfer_end_s"]),
            ("decode", request["decode_begin_s"], request["decode_end_s"]),
        )
        events += [_complete(pid, tid, name, b, e) for name, b, e in phases if b is not None and e is not None]
        events += [
            {"name": "token", "ph": "i", "s": "t", "pid": pid, "tid": tid, "ts": _us(at_s)} for at_s in request["token_s"]
        ]
    return events


def _complete(pid: int, tid: int, name: str, begin_s: float, end_s: float, **args: object) -> dict:
    return {
        "name": name,
        "ph": "X",
        "pid": pid,
        "tid": tid,
        "ts": _us(begin_s),
        "dur": _us(end_s - begin_s),
        "args": args,
    }


def _named_process(pid: int, name: str) -> list[dict]:
    return [{"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}}]


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)
