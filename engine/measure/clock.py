"""The one clock: nanoseconds of `perf_counter_ns`, which on Linux and macOS is the same for all processes of a host.

`clock_offset_ns` checks that at start-up instead of believing it.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime

now_ns = time.perf_counter_ns


def utc_now() -> str:
    """The date and time for people, as "2026-01-02T03:04:05Z". Nothing is measured with it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def clock_offset_ns(ask: Callable[[], int], tries: int = 5) -> tuple[int, int]:
    """How far another process's clock is ahead of ours, and the round trip it was measured in (best of `tries`).

    `ask` returns the other side's `now_ns`. The offset is known to within half the round trip (Cristian 1989).
    """
    best: tuple[int, int] | None = None
    for _ in range(tries):
        before = now_ns()
        theirs = ask()
        after = now_ns()
        trip = after - before
        if best is None or trip < best[1]:
            best = (theirs - (before + after) // 2, trip)
    return best
