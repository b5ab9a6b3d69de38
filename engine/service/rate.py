"""How often somebody may do something: a bucket of tokens each, refilled all the time. No torch."""

import threading
import time
from collections.abc import Callable

from engine.errors import LabError

_REMEMBERED = 10_000


class Rate:
    """most: at once; within_s: the time in which as many come back. Kept in memory: a restart forgets it."""

    def __init__(self, most: int, within_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._most, self._within_s, self._now = most, within_s, now
        self._left: dict[str, tuple[float, float]] = {}
        self._lock = threading.Lock()

    def take(self, who: str) -> None:
        """One more of `who`. Raises LabError("too-often") with the seconds to wait."""
        with self._lock:
            now = self._now()
            left, since = self._left.pop(who, (float(self._most), now))
            left = min(self._most, left + (now - since) * self._most / self._within_s)
            allowed = left >= 1
            self._left[who] = (left - 1 if allowed else left, now)
            if len(self._left) > _REMEMBERED:  # the one who has been still for longest
                del self._left[next(iter(self._left))]
        if not allowed:
            raise LabError("too-often", seconds=max(1, round((1 - left) * self._within_s / self._most)))
