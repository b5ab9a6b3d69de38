"""One measurement at a time per device: a lock file that the CLI, the benchmark and the app take in turns.

The lock is held per job. Who holds it writes its name beside it, so that the others can say for whom they wait. The
operating system drops the lock of a process that dies.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from engine.errors import LabError
from engine.paths import locks_dir


@contextmanager
def device_lock(
    device: str,
    purpose: str,
    *,
    wait: bool = True,
    on_wait: Callable[[str], None] = lambda holder: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[None]:
    """Hold the device ("cpu", "cuda") while the block runs.

    `on_wait(holder)` is called once if somebody else has it. With `wait=False`, or once `cancelled`, raises
    LabError("device-busy") instead of waiting on; LabError("data-folder") where no lock can be made.
    """
    folder = locks_dir()
    lock, card = FileLock(folder / f"{device}.lock"), folder / f"{device}.holder.json"
    told = False
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout as error:
            holder = _holder(card)
            if not wait or cancelled():
                raise LabError("device-busy", device=device, holder=holder) from error
            if not told:
                on_wait(holder)
                told = True
            time.sleep(0.1)
        except (OSError, NotImplementedError) as error:
            raise LabError("data-folder", path=str(folder), why=getattr(error, "strerror", None) or str(error)) from error
    try:
        with suppress(OSError):  # the card is for the eye, the lock holds without it
            card.write_text(json.dumps({"pid": os.getpid(), "purpose": purpose}))
        yield
    finally:
        with suppress(OSError):
            card.unlink(missing_ok=True)
        lock.release()


def _holder(card: Path) -> str:
    try:
        facts = json.loads(card.read_text())
        return f"{facts['purpose']} (process {facts['pid']})"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"
