"""What the browser draws a timeline from: a result in, compact JSON-ready data out. Pure, no streamlit.

Times are whole units of 10 microseconds. Bars travel as columns (numbers of one
kind beside each other are short and compress well), each begin as the distance
from the end before it. Tokens come at the ends of steps, many requests' at one
moment: a lane names those moments once, and a request says by runs which of them
were its own. The default run takes well under 110 kB, texts included.

    unit_s      seconds in a unit of time
    span, focus [begin, end]; focus may be null
    categories  a bar's category is an index in here
    kv_unit     bytes of one token in the KV columns
    planned     the schedules of the run, also those whose turn comes later
    lanes       schedule, complete, repeat, now (live: how far its clock is), end, gap, first (see lanes.Lane), usual
                (median gap between tokens), tracks [{name, worker} + bars], kv [{worker, at, used, capacity}],
                ends (the moments tokens came), rows [{id, kind, status, arrival, tokens, stalls} + bars]
    texts       {request: {prompt, lanes: {schedule: {text, lengths}}}}; without lengths nobody noted when which part came

bars are {c, gap, long, prefill, decode}; tokens are runs [skipped, length, ...] over ``ends``; ``stalls`` are the
tokens after which the request waited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from pages._ui import lanes
from pages._ui.palette import CATEGORIES

FORMAT = 1
UNIT_S = 1e-5
PROMPT_CHARACTERS = 240
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


def timeline(result: dict) -> dict:
    """The payload of a whole result, or of the part of one that is known so far."""
    view = lanes.view(result)
    token_bytes = result["manifest"]["model"].get("kv_bytes_per_token") or 1
    return {
        "format": FORMAT,
        "unit_s": UNIT_S,
        "span": _span(view.span),
        "focus": _span(view.focus),
        "categories": list(CATEGORIES),
        "kv_unit": token_bytes,
        "planned": result["manifest"]["scenario"].get("schedules") or [lane.schedule for lane in view.lanes],
        "lanes": [_lane(lane, result["schedules"][lane.schedule], token_bytes) for lane in view.lanes],
        "texts": _texts(result, [lane.schedule for lane in view.lanes]),
    }


def units(seconds: float) -> int:
    """Seconds in whole units of time."""
    return round(seconds / UNIT_S)


def columns(bars: Sequence[lanes.Bar]) -> dict:
    """Bars as columns, in the order they begin."""
    ordered = sorted(bars, key=lambda bar: (bar.begin_s, bar.end_s))
    begins, ends = ([units(b.begin_s) for b in ordered], [units(b.end_s) for b in ordered])
    return {
        "c": "".join(str(CATEGORIES.index(b.category)) for b in ordered),
        "gap": [begin - before for begin, before in zip(begins, [0, *ends])],
        "long": [end - begin for begin, end in zip(begins, ends)],
        "prefill": _unless_zero([b.prefill_tokens for b in ordered]),
        "decode": _unless_zero([b.decode_tokens for b in ordered]),
    }


def runs(indices: Iterable[int]) -> list[int]:
    """``5 6 7 9`` -> ``[5, 3, 1, 1]``: skip 5, take 3, skip 1, take 1. An index that comes twice is a skip of -1."""
    found: list[int] = []
    following = 0
    for index in indices:
        if found and index == following:
            found[-1] += 1
        else:
            found += [index - following, 1]
        following = index + 1
    return found


def _lane(lane: lanes.Lane, entry: dict, token_bytes: float) -> dict:
    ends = sorted({units(at) for row in lane.rows for at in row.token_s})
    place = {at: index for index, at in enumerate(ends)}
    gaps = [b - a for row in lane.rows for a, b in zip(row.token_s, row.token_s[1:])]
    return {
        "schedule": lane.schedule,
        "complete": entry.get("complete", True),
        "repeat": entry.get("repeat", 0),
        "now": units(max(lane.end_s, entry.get("now_s") or 0.0)),
        "end": units(lane.end_s),
        "gap": _span(lane.worst_gap),
        "first": _span(lane.first_token),
        "usual": units(median(gaps)) if gaps else None,
        "tracks": [{"name": track.name, "worker": track.worker, **columns(track.bars)} for track in lane.tracks],
        "kv": [_kv(series, token_bytes) for series in lane.kv],
        "ends": _deltas(ends),
        "rows": [_row(row, place) for row in lane.rows],
    }


def _row(row: lanes.Row, place: dict[int, int]) -> dict:
    waited = {bar.begin_s for bar in row.bars if bar.category == "stall"}
    return {
        "id": row.id,
        "kind": row.kind,
        "status": row.status,
        "arrival": None if row.arrival_s is None else units(row.arrival_s),
        "tokens": runs(place[units(at)] for at in row.token_s),
        "stalls": [k for k, at in enumerate(row.token_s) if at in waited],
        **columns([bar for bar in row.bars if bar.category != "stall"]),
    }


def _kv(series: lanes.KvSeries, token_bytes: float) -> dict:
    return {
        "worker": series.worker,
        "at": _deltas([units(at) for at in series.at_s]),
        "used": [round(used / token_bytes) for used in series.used_bytes],
        "capacity": series.capacity_bytes,
    }


def _texts(result: dict, schedules: list[str]) -> dict:
    """What every request was asked and answered, in pieces if the run noted them."""
    pieces, texts = result.get("pieces") or {}, result.get("texts") or {}
    found = {}
    for request in {**texts, **pieces}:
        whole = texts.get(request, {})
        answers = {}
        for schedule in schedules:
            came = _pieces_of(pieces.get(request) or {}, schedule)
            if came is not None:
                answers[schedule] = {"text": "".join(came), "lengths": _lengths(came)}
            elif isinstance(whole.get(schedule), str):
                answers[schedule] = {"text": whole[schedule]}
        if answers:
            found[request] = {"prompt": _cut(whole.get("prompt") or ""), "lanes": answers}
    return found


def _pieces_of(pieces: dict, schedule: str) -> list[str] | None:
    """A schedule's pieces; null stands for those of the first schedule, which may be none at all (a refused request)."""
    if schedule not in pieces:
        return None
    return pieces[schedule] if pieces[schedule] is not None else next(iter(pieces.values())) or []


def _lengths(pieces: list[str]) -> str | list[int]:
    """The length of every piece as JavaScript counts it, a digit of base 36 each if they are all that short."""
    counted = [len(piece.encode("utf-16-le")) // 2 for piece in pieces]
    return "".join(DIGITS[n] for n in counted) if max(counted, default=0) < len(DIGITS) else counted


def _cut(text: str) -> str:
    return text if len(text) <= PROMPT_CHARACTERS else text[:PROMPT_CHARACTERS].rstrip() + " …"


def _span(span: lanes.Span | None) -> list[int] | None:
    return None if span is None else [units(span[0]), units(span[1])]


def _deltas(values: list[int]) -> list[int]:
    return [later - earlier for earlier, later in zip([0, *values], values)]


def _unless_zero(values: list[int]) -> list[int]:
    return values if any(values) else []
