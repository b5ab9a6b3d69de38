"""What a KV pool was used for while requests were served: pure functions of a trace.

    blocks    KV blocks that requests own
    tokens    tokens whose KV is in them, those of the step under way included
    waste     1 - tokens / slots owned, over the time of the run: reserved and never used, reserved for later, and the
              rest of last blocks (Kwon et al. 2023, arXiv 2309.06180, sections 2.3 and 3.1, call them internal
              fragmentation, reserved slots and what is left of a last block)

All of one worker, and of requests that are never moved (unified or chunked).
"""

from engine.measure.trace import Record


def usage(trace: Record, block_tokens: int) -> dict[str, list]:
    """How the pool was used, as columns: at_s, blocks, tokens, running, waiting.

    A row holds from its at_s, when a step begins, to that of the next row. The last row is the end, when all is free; of
    a run that goes on, the end of what is known, as it was before.
    Running: admitted, and neither finished nor preempted since. Waiting: arrived, and neither running nor ended.
    """
    columns: dict[str, list] = {"at_s": [], "blocks": [], "tokens": [], "running": [], "waiting": []}
    held: dict[int, int] = {}
    running: set[int] = set()
    ended = _ends(trace)
    served = {i: r for i, r in enumerate(trace["requests"]) if r["arrival_s"] is not None and r["status"] != "refused"}
    events = [event for event in trace["events"] if event["type"] in ("admitted", "preempted")]
    kv, owned = list(trace["kv"]), 0
    for step in trace["steps"]:
        begin = step["begin_s"]
        while events and events[0]["at_s"] <= begin:
            event = events.pop(0)
            (running.add if event["type"] == "admitted" else running.discard)(event["request"])
            held.pop(event["request"], None)
        while kv and kv[0]["at_s"] <= begin:
            owned = kv.pop(0)["tokens"] // block_tokens
        done = {index for index, at_s in ended.items() if at_s <= begin}
        running -= done
        held = {index: tokens for index, tokens in held.items() if index not in done}
        for index, start, length in step["slices"]:
            held[index] = start + length
        arrived = {i for i, request in served.items() if request["arrival_s"] <= begin}
        row = (begin, owned, sum(held.values()), len(running), len(arrived - running - done))
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    if trace["steps"]:
        over = all(request["status"] != "unfinished" for request in trace["requests"])
        for name, column in columns.items():
            column.append(trace["duration_s"] if name == "at_s" else 0 if over else column[-1])
    return columns


def waste(used: dict[str, list], block_tokens: int) -> dict[str, float | None]:
    """{"mean", "peak"}: the share of owned token slots without a token, over the time of the run, and when most blocks
    were owned (the first such moment). used: as `usage` gives it. None for a run without steps."""
    rows = list(zip(used["at_s"], used["at_s"][1:], used["blocks"], used["tokens"], strict=False))
    slots = sum((end - begin) * blocks * block_tokens for begin, end, blocks, _ in rows)
    if not slots:
        return {"mean": None, "peak": None}
    tokens = sum((end - begin) * tokens for begin, end, _, tokens in rows)
    _, _, most, in_them = max(rows, key=lambda row: row[2])
    return {"mean": 1 - tokens / slots, "peak": 1 - in_them / (most * block_tokens)}


def mean_running(used: dict[str, list]) -> float | None:
    """How many requests were running on average, over the time of the run."""
    spans = [end - begin for begin, end in zip(used["at_s"], used["at_s"][1:], strict=False)]
    whole = sum(spans)
    return sum(span * n for span, n in zip(spans, used["running"], strict=False)) / whole if whole else None


def measured_first_wave(trace: Record) -> int:
    """How many requests were admitted before the first block was given back: by one that finished, or was preempted."""
    given_back = [event["at_s"] for event in trace["events"] if event["type"] == "preempted"]
    given_back += _ends(trace).values()
    until = min(given_back, default=float("inf"))
    return sum(event["type"] == "admitted" and event["at_s"] < until for event in trace["events"])


def computed_again(trace: Record) -> int:
    """Tokens whose KV was computed more than once: the price of preemption by recomputation."""
    found, furthest = 0, {}
    for step in trace["steps"]:
        for index, start, length in step["slices"]:
            new = max(0, start + length - max(start, furthest.get(index, 0)))
            found += length - new
            furthest[index] = max(furthest.get(index, 0), start + length)
    return found


def _ends(trace: Record) -> dict[int, float]:
    """When each finished request gave its blocks back: at its last token."""
    return {i: request["token_s"][-1] for i, request in enumerate(trace["requests"]) if request["status"] == "finished"}
