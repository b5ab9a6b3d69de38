"""Training from the command line: threads, lines of progress on stderr, and an interrupt that loses nothing."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from engine.measure.device import usable_cores
from engine.measure.threads import OPENMP_SETTINGS

EVERY_S = 5.0
INTERRUPTED = 130  # as every command that was


def train_lab(folder: Path, seed: int, steps: int | None, threads: int, resume: bool, force: bool) -> dict[str, object]:
    """Train the lab model into a folder; returns what its training.json says.

    Raises LabError, and SystemExit once what was done is saved after an interrupt.
    """
    for setting, value in OPENMP_SETTINGS.items():
        os.environ.setdefault(setting, value)  # before torch is imported
    import torch

    from engine.training import lab
    from engine.training.recipe import Recipe
    from engine.training.train import Stopped

    torch.set_num_threads(threads or len(usable_cores()))
    recipe = replace(Recipe(), steps=steps) if steps else Recipe()
    with _interrupts() as stopped:
        try:
            return lab.train_lab(folder, recipe, seed, resume=resume, force=force, progress=Lines(), stopped=stopped)
        except Stopped:
            kept = f"what was done is kept in {folder}, and the same command with --resume goes on"
            print(f"engine: interrupted; {kept}", file=sys.stderr)
            raise SystemExit(INTERRUPTED) from None


class Lines:
    """A line every few seconds, and one whenever something happened. Called with a `train.Report` after every step."""

    def __init__(self, write: Callable[[str], object] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.write = write or (lambda line: print(line, file=sys.stderr, flush=True))
        self.clock = clock
        self.last = float("-inf")

    def __call__(self, report) -> None:
        if report.event == "recall-formed":
            self.write("recall has formed; prose joins in")
        elif report.event == "recall-failed":
            self.write(f"seed {report.seed} does not recall; the next one is tried")
        elif self.clock() - self.last >= EVERY_S or report.step == report.steps:
            self.last = self.clock()
            self.write(self._line(report))

    @staticmethod
    def _line(report) -> str:
        losses = [("text", report.text_loss), ("recall", report.recall_loss)]
        told = ", ".join(f"{name} loss {loss:.3f}" for name, loss in losses if loss is not None)
        most = "at most " if report.stage == 0 else ""
        left = "" if report.left_s is None else f", {most}{_duration(report.left_s)} left"
        return f"stage {report.stage + 1} of 2, step {report.step} of {report.steps}: {told}{left}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C (or a request to end) came: the step is finished first. A second one does not wait for it."""
    came = []

    def note(number: int, frame: object) -> None:
        came.append(number)
        for each in before:
            signal.signal(each, before[each])

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, note)
    try:
        yield lambda: bool(came)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
