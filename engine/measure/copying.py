"""How fast one process gets what another has just written: through memory that both have mapped, as KV moves between pools.

`copy_bytes_per_s` starts the second process, `python -m engine.measure.copying DESCRIPTOR`, which inherits an open file
without a name, so that nothing is left of it however both end. Lines on its stdin ask for a copy of the whole file into
memory of its own, lines on its stdout say how many seconds it took. It ends when its stdin does.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

_BYTES = 128 << 20
_REPEATS = 5
_ROOT = Path(__file__).resolve().parents[2]


def copy_bytes_per_s(size: int = _BYTES, repeats: int = _REPEATS) -> float:
    """The best rate of some copies by one thread of another process, the source written anew before each.

    Memory of the host, also where a GPU computes. Raises OSError if there is no room for the file, or if the other process
    does not do its part.
    """
    with _shared_file(size) as file:
        ours, handle = np.memmap(file, dtype=np.uint8, mode="r+", shape=(size,)), file.fileno()
        command = [sys.executable, "-m", "engine.measure.copying", str(handle)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, cwd=_ROOT, pass_fds=(handle,), **pipes) as other:
            try:
                # The first copy of each side pays for its pages.
                seconds = [_ask(other, ours, number) for number in range(repeats + 1)][1:]
            finally:
                other.kill()
    return size / min(seconds)


def _ask(other: subprocess.Popen, ours: np.ndarray, number: int) -> float:
    ours.fill(number + 1)
    try:
        other.stdin.write("copy\n")
        other.stdin.flush()
        return float(other.stdout.readline())
    except ValueError as error:
        raise OSError("the copying process ended") from error


def _shared_file(size: int):
    """A file of that size without a name, in memory-backed storage where there is room, else where temporary files go."""
    for parent in ("/dev/shm", None):
        try:
            file = tempfile.TemporaryFile(dir=parent)
        except OSError:
            continue
        try:
            # Written, not only sized: a full memory file system would otherwise end this process at its first touch.
            for _ in range(size >> 20):
                file.write(bytes(1 << 20))
            file.flush()
            return file
        except OSError:
            file.close()
    raise OSError("no room for a file to copy in /dev/shm or the temp folder")


def main(handle: int) -> None:
    """Copy on demand until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
    with os.fdopen(handle, "rb") as file:
        theirs = np.memmap(file, dtype=np.uint8, mode="r")
    own = np.empty_like(theirs, subok=False)
    for _ in sys.stdin:
        begin = time.perf_counter()
        np.copyto(own, theirs)
        print(time.perf_counter() - begin, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
