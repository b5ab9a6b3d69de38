"""What the service tells the app, written by a thread of its own: an app that reads slowly never holds up a measurement."""

import json
import queue
import threading
import time
from collections import deque
from itertools import groupby
from typing import TextIO

_BATCH_S = 0.25
_CLOSE_S = 5


class Outbox:
    """One JSON line per record; trace records in batches, a few a second."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lines: queue.SimpleQueue[dict | None] = queue.SimpleQueue()
        self._records: deque = deque()
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def write(self, record: dict) -> None:
        """Goes out at once."""
        self._lines.put(record)

    def record(self, job_id: str, schedule: str, repeat: int, record: dict) -> None:
        """A trace record of a job: goes out with the next batch, after every line that was written before it."""
        self._records.append((job_id, (schedule, repeat, record)))

    def close(self) -> None:
        """Write what is left."""
        self._lines.put(None)
        self._thread.join(timeout=_CLOSE_S)

    def _write_all(self) -> None:
        due = time.monotonic() + _BATCH_S
        open_ = True
        while open_:
            open_ = self._put_line(max(0.0, due - time.monotonic()))
            if time.monotonic() >= due:
                due = time.monotonic() + _BATCH_S
                count = len(self._records)
                while open_ and not self._lines.empty():  # a job's plan goes before its records
                    open_ = self._put_line()
                self._put_records(count)

    def _put_line(self, wait_s: float = 0.0) -> bool:
        """The next line, if there is one; False at the end."""
        try:
            line = self._lines.get(timeout=wait_s)
        except queue.Empty:
            return True
        return line is not None and self._put(line)

    def _put_records(self, count: int) -> None:
        """The oldest records, a line for each job: the next may have begun since the last batch."""
        batch = [self._records.popleft() for _ in range(count)]
        for job, of_job in groupby(batch, key=lambda record: record[0]):
            self._put({"id": job, "live": {"records": [record for _, record in of_job]}})

    def _put(self, record: dict) -> bool:
        try:
            self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
            self._file.flush()
        except (BrokenPipeError, ValueError):
            return False  # the app is gone; stdin ends as well
        return True
