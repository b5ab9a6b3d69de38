"""A small Result made by hand, with numbers a reader can check in the head.

Two chats decode every 0.1 s from 0.1 s on; a long prompt of 100 tokens arrives at
0.5 s. Unified reads it in one step (1.0 s), chunked in four steps of 0.3 s beside
the decodes, disaggregated on another worker (2.0 s) with a transfer of 0.1 s.
"""

from engine.measure import metrics

KV_BYTES_PER_TOKEN = 1000
CAPACITY = 1_000_000


def result(*, repeats: int = 1, long: bool = True) -> dict:
    """A Result with three schedules; without the long prompt if ``long`` is False."""
    traces = {
        "unified": _trace("unified", [(0.5, 1.5, 100)] if long else [], long=long),
        "chunked": _trace("chunked", [(0.5 + 0.3 * i, 0.8 + 0.3 * i, 25) for i in range(4)] if long else [], long=long),
        "disaggregated": _trace("disaggregated", [(0.5, 2.5, 100)] if long else [], long=long),
    }
    groups = [
        {"kind": "chat", "count": 2, "prompt_tokens": 10, "output_tokens": 30, "arrival_s": 0.0, "spacing_s": 0.0}
    ]
    if long:
        groups.append(
            {"kind": "long", "count": 1, "prompt_tokens": 100, "output_tokens": 2, "arrival_s": 0.5, "spacing_s": 0.0}
        )
    return {
        "format": 1,
        "kind": "schedules",
        "run_id": "abcdefghijklmnopqrstuv",
        "provenance": "measured",
        "manifest": {
            "scenario": {"workload": "quick", "groups": groups, "chunk_tokens": 25, "repeats": repeats},
            "model": {"title": "A model", "quantization": "none", "kv_bytes_per_token": KV_BYTES_PER_TOKEN},
            "device": {"class": "cpu", "name": "A processor", "cores": 2},
            "dtype": "float32",
            "threads": 2,
            "started_at": "2026-01-02T03:04:05Z",
        },
        "schedules": {name: _entry(name, trace) for name, trace in traces.items()},
        "chunking": None,
        "texts": {},
        "agreement": {},
    }


def _entry(name: str, trace: dict) -> dict:
    roles = {"disaggregated": ("prefill", "decode")}.get(name, (name,))
    workers = [f"{role}-0" if len(roles) > 1 else "engine-0" for role in roles]
    resources = [
        {
            "worker": w,
            "role": r,
            "device": "cpu",
            "threads": 1,
            "cores": [i],
            "kv_capacity_bytes": CAPACITY,
            "kv_block_tokens": 16,
        }
        for i, (w, r) in enumerate(zip(workers, roles))
    ]
    summary = metrics.summarize(trace, kv_bytes_per_token=KV_BYTES_PER_TOKEN, kv_capacity_bytes=CAPACITY)
    return {
        "metrics": summary,
        "spread": {k: [v, v] if v is not None else None for k, v in summary.items()},
        "resources": resources,
        "trace": trace,
    }


def _trace(schedule: str, prefills: list[tuple[float, float, int]], *, long: bool) -> dict:
    split = schedule == "disaggregated"
    prefill_worker, decode_worker = ("prefill-0", "decode-0") if split else ("engine-0", "engine-0")
    steps = [_step(prefill_worker, 0.0, 0.1, 20, 0, [[0, 0, 10], [1, 0, 10]])]
    tokens: dict[int, list[float]] = {0: [0.1], 1: [0.1]}
    at = 0.1
    pending = list(prefills)
    while len(tokens[0]) < 30:
        if pending and not split and at >= pending[0][0] - 1e-9:
            begin, end, n = pending.pop(0)
            mixed = 2 if schedule == "chunked" else 0
            start = sum(p[2] for p in prefills) - n - sum(p[2] for p in pending)
            decodes = [[i, 10 + len(tokens[i]) - 1, 1] for i in (0, 1)] if mixed else []
            steps.append(_step("engine-0", begin, end, n, mixed, [[2, start, n], *decodes]))
            at = end
            if not mixed:
                continue
        else:
            steps.append(
                _step(decode_worker, at, round(at + 0.1, 6), 0, 2, [[i, 10 + len(tokens[i]) - 1, 1] for i in (0, 1)])
            )
            at = round(at + 0.1, 6)
        for i in (0, 1):
            tokens[i].append(at)
    transfers = []
    if long:
        first = prefills[-1][1]
        tokens[2] = [first, round(first + 0.3, 6)]
        if split:
            steps.append(_step(prefill_worker, *prefills[0][:2], 100, 0, [[2, 0, 100]]))
            transfers.append(
                {
                    "request": 2,
                    "from": "prefill-0",
                    "to": "decode-0",
                    "begin_s": 2.5,
                    "end_s": 2.6,
                    "bytes": 100_000,
                    "parts": [[2.5, 2.6, 4]],
                }
            )
    steps.sort(key=lambda s: s["begin_s"])
    requests = [_request(f"chat-{i}", "chat", 10, 0.0, tokens[i]) for i in (0, 1)]
    if long:
        requests.append(_request("long-0", "long", 100, 0.5, tokens[2], transfers))
        requests[2]["prefill_begin_s"], requests[2]["prefill_end_s"] = prefills[0][0], prefills[-1][1]
    kv = [{"worker": decode_worker, "at_s": s["end_s"], "tokens": 10 * n} for n, s in enumerate(steps, 1)]
    return {
        "schedule": schedule,
        "duration_s": steps[-1]["end_s"],
        "requests": requests,
        "steps": steps,
        "transfers": transfers,
        "kv": kv,
        "events": [],
    }


def _step(worker: str, begin: float, end: float, prefill: int, decode: int, slices: list) -> dict:
    return {
        "worker": worker,
        "begin_s": begin,
        "end_s": end,
        "prefill_tokens": prefill,
        "decode_tokens": decode,
        "slices": slices,
    }


def _request(
    id: str, kind: str, prompt: int, arrival: float, tokens: list[float], transfers: list | None = None
) -> dict:
    moved = transfers[0] if transfers else {}
    return {
        "id": id,
        "kind": kind,
        "prompt_tokens": prompt,
        "output_tokens": len(tokens),
        "status": "finished",
        "reason": None,
        "arrival_s": arrival,
        "prefill_begin_s": 0.0,
        "prefill_end_s": 0.1,
        "transfer_begin_s": moved.get("begin_s"),
        "transfer_end_s": moved.get("end_s"),
        "decode_begin_s": tokens[0],
        "decode_end_s": tokens[-1],
        "token_s": tokens,
        "preemptions": 0,
    }
