"""How far a learner is with each lesson. Pure: what was noted in, marks out; no streamlit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pages._ui import course

OPENED, PREDICTED, MEASURED, QUIZ = "opened", "predicted", "measured", "quiz"


@dataclass(frozen=True)
class Mark:
    """One step of a lesson: done of all of them."""

    name: str
    done: int
    all: int

    @property
    def complete(self) -> bool:
        return self.done >= self.all


def of(lesson: str, progress: Mapping[str, Mapping], predictions: tuple[str, ...], solved: int, items: int) -> list[Mark]:
    """The marks of a lesson; what it does not have is left out.

    predictions: the ids of its questions before a run; solved: how many of its quiz items are done, of how many.
    """
    noted = progress.get(f"lesson:{lesson}") or {}
    found = [Mark(OPENED, int(bool(noted.get("opened"))), 1)]
    if predictions:
        given = [name for name in predictions if (progress.get(f"predict:{name}") or {}).get("given") is not None]  # None: to be made anew
        found.append(Mark(PREDICTED, len(given), len(predictions)))
    if course.KINDS.get(lesson):
        found.append(Mark(MEASURED, int(bool(noted.get("measured"))), 1))
    if items:
        found.append(Mark(QUIZ, min(solved, items), items))
    return found


def following(marks: Mapping[str, list[Mark]]) -> str | None:
    """The lesson to go on with: the last one opened while its questions are not done, then the first that was not opened,
    then the first whose questions are not done; None after all that."""
    opened = [lesson for lesson, found in marks.items() if found[0].complete]
    left = [lesson for lesson in opened if not all(mark.complete for mark in marks[lesson] if mark.name == QUIZ)]
    if opened[-1:] == left[-1:] and left:
        return left[-1]
    new = [lesson for lesson in marks if lesson not in opened]
    return next(iter(new + left), None)


def total(marks: Mapping[str, list[Mark]], name: str) -> Mark:
    """A kind of mark over all lessons."""
    found = [mark for marks_of in marks.values() for mark in marks_of if mark.name == name]
    return Mark(name, sum(mark.done for mark in found), sum(mark.all for mark in found))
