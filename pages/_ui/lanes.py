"""From a Result to what is drawn: lanes, request rows and KV series. Pure, no streamlit, no plotly.

The grammar of the picture: an engine has two tracks, *prefill* on top and
*decode* below. A step is a bar in the track of the work it did; a step that
did both is a chunk above and, beside it, a *mixed* bar below: the decodes that
rode along and took the chunk's time. In the disaggregated schedule the two
tracks belong to two workers and the transfers lie between them. So the decode
track of all three schedules means the same thing, and where chats wait for
their next token it is empty: that hole, hatched, is the stall.

The browser's picture (see payload) and the one in words (see alt) both start from :class:`View`.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.measure import metrics
from pages._ui.palette import SCHEDULES

Span = tuple[float, float]

# The loop needs a moment between two steps: shorter holes in a decode track are not waiting.
SHORTEST_HOLE_S = 0.002

# How much is seen before and after the long prompt, as a share of the time it took.
FOCUS_MARGIN = 0.22


@dataclass(frozen=True)
class Bar:
    """One step, transfer or stall: seconds from the start of the run, and what a reader may ask about it."""

    category: str
    begin_s: float
    end_s: float
    prefill_tokens: int = 0
    decode_tokens: int = 0


@dataclass(frozen=True)
class Track:
    """One row of bars. ``name`` is "prefill", "transfer" or "decode"; ``worker`` is whose work it is."""

    name: str
    worker: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Row:
    """The life of one request: when it waited, was prefilled, moved, and when each of its tokens came."""

    id: str
    kind: str
    status: str
    arrival_s: float | None  # None if it has not come yet, in a run that still goes on
    bars: tuple[Bar, ...]
    token_s: tuple[float, ...]


@dataclass(frozen=True)
class KvSeries:
    """KV in owned blocks on one worker, in bytes, from each moment it changed."""

    worker: str
    at_s: tuple[float, ...]
    used_bytes: tuple[float, ...]
    capacity_bytes: float


@dataclass(frozen=True)
class Lane:
    """Everything one schedule shows."""

    schedule: str
    tracks: tuple[Track, ...]
    rows: tuple[Row, ...]
    kv: tuple[KvSeries, ...]
    end_s: float
    worst_gap: Span | None  # of the chats
    first_token: Span | None  # of the long prompt that waited longest: its arrival and its first token


@dataclass(frozen=True)
class View:
    """Three lanes on one time axis."""

    lanes: tuple[Lane, ...]
    span: Span  # what is seen of the run
    focus: Span | None  # from just before the first long prompt arrives to just after the last one's first token


def view(result: dict) -> View:
    """The view of a Result (see the Result schema); schedules that failed are left out."""
    per_token = result["manifest"]["model"].get("kv_bytes_per_token") or 0
    lanes = tuple(
        _lane(name, entry, per_token)
        for name in SCHEDULES
        if (entry := result["schedules"].get(name)) and entry.get("trace")
    )
    end = max((lane.end_s for lane in lanes), default=0.0)
    return View(lanes, (0.0, end * 1.012 or 1.0), _focus(lanes, end))


def _focus(lanes: tuple[Lane, ...], end: float) -> Span | None:
    spans = [
        (row.arrival_s, row.token_s[0])
        for lane in lanes
        for row in lane.rows
        if row.kind == metrics.LONG and row.token_s
    ]
    if not spans:
        return None
    begin, last = min(s[0] for s in spans), max(s[1] for s in spans)
    margin = (last - begin) * FOCUS_MARGIN
    window = (max(0.0, begin - margin), min(end, last + margin))
    return window if window[1] - window[0] < end * 0.8 else None


def _lane(schedule: str, entry: dict, bytes_per_token: float) -> Lane:
    entry = {**entry, "trace": _up_to_now(entry)}
    trace = entry["trace"]
    requests = trace["requests"]
    stalls: dict[int, list[Span]] = {}
    for stall in metrics.stalls(trace):
        if requests[stall["request"]]["kind"] != metrics.LONG:
            stalls.setdefault(stall["request"], []).append((stall["begin_s"], stall["end_s"]))
    slices = _slices_by_request(trace["steps"])
    gaps = [gap for r in requests if r["kind"] != metrics.LONG for gap in zip(r["token_s"], r["token_s"][1:])]
    firsts = [(r["arrival_s"], r["token_s"][0]) for r in requests if r["kind"] == metrics.LONG and r["token_s"]]
    return Lane(
        schedule=schedule,
        tracks=_tracks(schedule, entry, stalls),
        rows=tuple(_row(i, r, slices.get(i, []), stalls.get(i, []), schedule) for i, r in _in_reading_order(requests)),
        kv=_kv(trace, entry["resources"], bytes_per_token),
        end_s=trace["duration_s"],
        worst_gap=max(gaps, key=lambda g: g[1] - g[0], default=None),
        first_token=max(firsts, key=lambda f: f[1] - f[0], default=None),
    )


def _up_to_now(entry: dict) -> dict:
    """The trace of a run that goes on, with the steps that are under way as if they ended now; any other as it is."""
    trace = entry["trace"]
    now_s = entry.get("now_s") or trace["duration_s"]
    under_way = [{**step, "end_s": max(now_s, step["begin_s"])} for step in trace.get("under_way", ())]
    return {**trace, "steps": trace["steps"] + under_way}


def _in_reading_order(requests: list[dict]) -> list[tuple[int, dict]]:
    """The long prompts first, then the rest as they arrived; who is still to come stands last."""

    def place(pair: tuple[int, dict]) -> tuple:
        index, request = pair
        arrival = request["arrival_s"]
        return request["kind"] != metrics.LONG, float("inf") if arrival is None else arrival, index

    return sorted(enumerate(requests), key=place)


def _tracks(schedule: str, entry: dict, stalls: dict[int, list[Span]]) -> tuple[Track, ...]:
    """One prefill and one decode track per engine; in the disaggregated schedule each pool has only its own kind."""
    trace = entry["trace"]
    work: dict[tuple[str, str], list[Bar]] = {}
    home: dict[int, str] = {}
    for step in trace["steps"]:
        facts = (step["begin_s"], step["end_s"], step["prefill_tokens"], step["decode_tokens"])
        if step["prefill_tokens"]:
            bar = Bar("chunk" if schedule == "chunked" else "prefill", *facts)
            work.setdefault(("prefill", step["worker"]), []).append(bar)
        if step["decode_tokens"]:
            bar = Bar("mixed" if step["prefill_tokens"] else "decode", *facts)
            work.setdefault(("decode", step["worker"]), []).append(bar)
            home.update({request: step["worker"] for request, _, length in step["slices"] if length == 1})

    def track(name: str, worker: str) -> Track:
        bars = work.get((name, worker), [])
        if name == "decode":
            here = _union([s for request, spans in stalls.items() if home.get(request) == worker for s in spans])
            holes = _minus(here, [(b.begin_s, b.end_s) for b in bars])
            bars = bars + [Bar("stall", begin, end) for begin, end in holes if end - begin > SHORTEST_HOLE_S]
        return Track(name, worker, tuple(bars))

    if schedule == "disaggregated":
        moves = tuple(Bar("transfer", begin, end) for t in trace["transfers"] for begin, end, _ in t["parts"])
        roles = [(r["role"], r["worker"]) for r in entry["resources"]]
        pools = {
            name: [track(name, worker) for role, worker in roles if role == name] for name in ("prefill", "decode")
        }
        return (*pools["prefill"], Track("transfer", "", moves), *pools["decode"])
    return tuple(track(name, r["worker"]) for r in entry["resources"] for name in ("prefill", "decode"))


def _row(index: int, request: dict, slices: list[dict], stalls: list[Span], schedule: str) -> Row:
    bars = [Bar("stall", begin, end) for begin, end in stalls]
    category = "chunk" if schedule == "chunked" else "prefill"
    bars += [Bar(category, s["begin_s"], s["end_s"], s["tokens"]) for s in slices]
    if request["transfer_begin_s"] is not None and request["transfer_end_s"] is not None:
        bars.append(Bar("transfer", request["transfer_begin_s"], request["transfer_end_s"]))
    return Row(
        request["id"], request["kind"], request["status"], request["arrival_s"], tuple(bars), tuple(request["token_s"])
    )


def _slices_by_request(steps: list[dict]) -> dict[int, list[dict]]:
    """Per request, the parts of its prompt that each step computed."""
    found: dict[int, list[dict]] = {}
    for step in steps:
        if step["prefill_tokens"]:
            # A decode is a slice of one token; so may be the last chunk of a prompt, and that one is too short to see.
            for request, _start, length in step["slices"]:
                if length > 1:
                    entry = {"begin_s": step["begin_s"], "end_s": step["end_s"], "tokens": length}
                    found.setdefault(request, []).append(entry)
    return found


def _kv(trace: dict, resources: list[dict], bytes_per_token: float) -> tuple[KvSeries, ...]:
    series = []
    for resource in resources:
        points = [p for p in trace["kv"] if p["worker"] == resource["worker"]]
        series.append(
            KvSeries(
                resource["worker"],
                tuple(p["at_s"] for p in points),
                tuple(p["tokens"] * bytes_per_token for p in points),
                resource.get("kv_capacity_bytes") or 0,
            )
        )
    return tuple(series)


def _union(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _minus(spans: list[Span], holes: list[Span]) -> list[Span]:
    """What is left of ``spans`` when ``holes`` are taken out; both in any order."""
    left: list[Span] = []
    covered = _union(holes)
    for begin, end in spans:
        at = begin
        for hole_begin, hole_end in covered:
            if hole_end <= at:
                continue
            if hole_begin >= end:
                break
            if hole_begin > at:
                left.append((at, hole_begin))
            at = max(at, hole_end)
        if at < end:
            left.append((at, end))
    return left
