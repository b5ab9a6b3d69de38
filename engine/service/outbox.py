"""What the service tells the app, written by a thread of its own: an app that reads slowly never holds up a measurement."""

import json
import queue
import threading
import time
from collections import deque
from typing import TextIO

_BATCH_S = 0.25
_CLOSE_S = 5


class Outbox:
    """One JSON line per record; trace records in batches, a few a second."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lines: queue.SimpleQueue[dict | None] = queue.SimpleQueue()
        self._records: deque = deque()
        self._job = ""
        self._thread = threading.Thread(target=self._write_all, daemon=True)
        self._thread.start()

    def write(self, record: dict) -> None:
        """Goes out at once."""
        self._lines.put(record)

    def record(self, job_id: str, schedule: str, repeat: int, record: dict) -> None:
        """A trace record of the running job: goes out with the next batch."""
        self._job = job_id
        self._records.append((schedule, repeat, record))

    def close(self) -> None:
        """Write what is left."""
        self._lines.put(None)
        self._thread.join(timeout=_CLOSE_S)

    def _write_all(self) -> None:
        due = time.monotonic() + _BATCH_S
        open_ = True
        while open_:
            try:
                line = self._lines.get(timeout=max(0.0, due - time.monotonic()))
                open_ = line is not None
                if line:
                    open_ = self._put(line)
            except queue.Empty:
                pass
            if time.monotonic() >= due:
                due = time.monotonic() + _BATCH_S
                if batch := [self._records.popleft() for _ in range(len(self._records))]:
                    open_ = self._put({"id": self._job, "live": {"records": batch}}) and open_

    def _put(self, record: dict) -> bool:
        try:
            self._file.write(json.dumps(record, separators=(",", ":")) + "\n")
            self._file.flush()
        except (BrokenPipeError, ValueError):
            return False  # the app is gone; stdin ends as well
        return True
