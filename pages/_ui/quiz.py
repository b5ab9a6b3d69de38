"""What pages know of the quizzes: the items of each lesson, and how far a learner is with them. No streamlit here.

Progress is a record for each item, under the topic ``quiz:<id>`` of `engine.service.client`:

    {"attempts": how often an answer was judged, "state": one of STATES, "seed_attempt": which draw of numbers was judged last,
     "answered_at": when, ISO 8601 in UTC}
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from engine.quiz import Item, load
from pages._ui import course
from pages._ui.words import PAGES

TOPIC = "quiz:"
RIGHT, WRONG, COMMITTED = "right", "wrong", "committed"
# "shown" is a draw whose solution was looked at before it was answered.
SHOWN = "shown"
STATES = (RIGHT, WRONG, COMMITTED, SHOWN)
DONE = (RIGHT, COMMITTED)


def lessons() -> tuple[str, ...]:
    """The lessons that have questions, in the order of the course."""
    return tuple(name for name in course.LESSONS if _path(name).is_file())


def items(lesson: str) -> tuple[Item, ...]:
    """The questions of a lesson; () if it has none. Raises LabError("quiz-file")."""
    path = _path(lesson)
    return _load(path, path.stat().st_mtime_ns) if lesson in course.LESSONS and path.is_file() else ()


def state(item: Item, progress: Mapping[str, Mapping]) -> str | None:
    """How far a learner is with a question; None if it was never answered. progress: by topic, which a browser may have filled."""
    found = (progress.get(TOPIC + item.id) or {}).get("state")
    return found if found in STATES else None


def done(lesson: str, progress: Mapping[str, Mapping]) -> int:
    """How many of a lesson's questions were answered rightly, or in one's own words. Raises LabError("quiz-file")."""
    return sum(state(item, progress) in DONE for item in items(lesson))


def judged(before: Mapping, verdict: str, draw: int) -> dict:
    """The record after an answer. Once right a question stays so, whatever other numbers bring.

    verdict: one of STATES; draw: which draw of numbers it was about.
    """
    kept = before.get("state") in DONE and verdict not in DONE
    attempts = count(before.get("attempts")) + (verdict != SHOWN)
    if kept:
        return {**before, "attempts": attempts}
    return {"attempts": attempts, "state": verdict, "seed_attempt": draw, "answered_at": datetime.now(UTC).isoformat(timespec="seconds")}


def count(value: object) -> int:
    """A count in a record; 0 for what is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6 else 0


def learner(browser: str) -> int:
    """The seed from which a learner's numbers are drawn: the same for a browser at every visit, and no way back to its name."""
    return int.from_bytes(hashlib.sha256(f"quiz {browser}".encode()).digest()[:6], "big")


def _path(lesson: str) -> Path:
    return PAGES / lesson / "quiz.toml"


@lru_cache(maxsize=32)
def _load(path: Path, _version: int) -> tuple[Item, ...]:
    return load(path)
