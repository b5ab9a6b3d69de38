"""Whether an app still lives: while it does, it holds a lock on a file of its own. No clock and no process id is trusted."""

import contextlib
import secrets
from pathlib import Path

from filelock import FileLock, Timeout

from engine.errors import LabError
from engine.paths import locks_dir


class AppMark:
    """Held from now until `release`, or until the process ends in whatever way."""

    def __init__(self) -> None:
        self.token = secrets.token_hex(8)
        self._lock = _lock(self.token)
        try:
            self._lock.acquire(timeout=0)
        except (OSError, NotImplementedError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise LabError("data-folder", path=str(locks_dir()), why=why) from error

    def release(self) -> None:
        self._lock.release()
        _path(self.token).unlink(missing_ok=True)


def is_alive(token: str) -> bool:
    """Whether somebody holds this mark."""
    if not _path(token).exists():
        return False
    lock = _lock(token)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except (OSError, NotImplementedError):
        return False
    lock.release()
    with contextlib.suppress(OSError):
        _path(token).unlink(missing_ok=True)
    return False


def _path(token: str) -> Path:
    return locks_dir() / f"app-{token}.lock"


def _lock(token: str) -> FileLock:
    return FileLock(_path(token), thread_local=False)
