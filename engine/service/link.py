"""The service process as its client sees it: started at the first need, a line out, lines in, its end."""

import json
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_STOP_S = 10


class Link:
    """One service process. `on_record` gets each record of it, `on_end` the way it ended; both in a thread of its own."""

    def __init__(self, on_record: Callable[[dict], None], on_end: Callable[["Link", str], None]) -> None:
        path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        self._on_record, self._on_end = on_record, on_end
        self._writing = threading.Lock()
        # In the user's folder, since a model or text may be named by a relative path; -P keeps that folder's own
        # modules out.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "engine.service"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": path},
            text=True,
            encoding="utf-8",
        )
        self._thread = threading.Thread(target=self._read, daemon=True)

    def start(self) -> None:
        """Begin to read. Apart from the constructor, so that its owner knows it before the first record comes."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def send(self, record: dict) -> bool:
        """One line to the service; False if it is gone."""
        with self._writing:
            try:
                self.process.stdin.write(json.dumps(record) + "\n")
                self.process.stdin.flush()
            except (OSError, ValueError):
                return False
            return True

    def stop(self) -> None:
        """End the service and its workers; waits for them, and until all that they said was heard."""
        try:
            with self._writing:
                self.process.stdin.close()
            self.process.wait(timeout=_STOP_S)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()  # its workers end when their stdin does
            self.process.wait()
        self._thread.join(timeout=_STOP_S)

    def _read(self) -> None:
        for line in self.process.stdout:
            try:
                record = json.loads(line)
            except ValueError:  # half a line: it was killed while it wrote
                break
            try:
                self._on_record(record)
            except Exception:  # a bug: what one record says is lost, and the rest is heard
                traceback.print_exc()
        self.process.kill()
        code = self.process.wait()
        self._on_end(self, f"signal {-code}" if code < 0 else f"exit code {code}")
