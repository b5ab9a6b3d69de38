"""What a learner's own result has to say to a prediction or a "measure it yourself" item. Pure functions of a result.

Each takes the result of one kind of experiment (what the item draws or gives comes after it, by name) and gives a number in
the unit of who asks, an option's id, or steps' ids in order; None where the result lacks what it takes.
"""

from __future__ import annotations


def wave_ratio(result: dict) -> float | None:
    """Of a measured wall: how many times as many requests were let in at first, paged against reserved."""
    first = [((result.get("schedules") or {}).get(pool) or {}).get("metrics", {}).get("first_wave") for pool in ("paged", "reserved")]
    return first[0] / first[1] if all(first) else None
