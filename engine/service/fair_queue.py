"""Whose turn it is: browsers take turns, and within one it is first come, first served. Pure; no clock, no threads.

The browsers that wait stand in a ring. Whoever is served steps out of it and, with more jobs waiting, comes back at
its end when the next turn is taken: one who came in the meantime is before him.
"""

from collections import deque

from engine.errors import LabError

MOST_PER_BROWSER = 20
MOST_IN_ALL = 300


class FairQueue:
    """Jobs by id, each with the browser it came from ("" is a browser like any other)."""

    def __init__(self) -> None:
        self._jobs: dict[str, deque[str]] = {}
        self._ring: deque[str] = deque()
        self._served: str | None = None

    def __len__(self) -> int:
        return sum(len(jobs) for jobs in self._jobs.values())

    def push(self, job_id: str, browser: str) -> None:
        """Put a job last in its browser's line. Raises LabError("queue-full")."""
        check_room(len(self), len(self._jobs.get(browser, ())))
        jobs = self._jobs.setdefault(browser, deque())
        if not jobs and browser != self._served:
            self._ring.append(browser)
        jobs.append(job_id)

    def pop(self) -> str | None:
        """Take the job whose turn it is; None if nobody waits."""
        self._come_back()
        if not self._ring:
            return None
        self._served = self._ring.popleft()
        job = self._jobs[self._served].popleft()
        if not self._jobs[self._served]:
            del self._jobs[self._served]
        return job

    def remove(self, job_id: str) -> bool:
        """Take a job out of the queue; False if it is not in it."""
        for browser, jobs in self._jobs.items():
            if job_id in jobs:
                jobs.remove(job_id)
                if not jobs:
                    del self._jobs[browser]
                    if browser in self._ring:
                        self._ring.remove(browser)
                return True
        return False

    def order(self) -> list[str]:
        """The jobs in the order in which they are served if nobody else comes: a job's index is its place."""
        ring = list(self._ring)
        if self._served in self._jobs and self._served not in ring:
            ring.append(self._served)
        lines = [list(self._jobs[browser]) for browser in ring]
        longest = max((len(line) for line in lines), default=0)
        return [line[turn] for turn in range(longest) for line in lines if turn < len(line)]

    def _come_back(self) -> None:
        if self._served in self._jobs and self._served not in self._ring:
            self._ring.append(self._served)


def check_room(waiting: int, waiting_of_browser: int) -> None:
    """Whether one more may wait. Raises LabError("queue-full")."""
    if waiting_of_browser >= MOST_PER_BROWSER:
        raise LabError("queue-full", waiting=waiting_of_browser, limit=MOST_PER_BROWSER)
    if waiting >= MOST_IN_ALL:
        raise LabError("queue-full", waiting=waiting, limit=MOST_IN_ALL)
