"""The process that calibrates and times steps, one record at a time: `python -m engine.experiments.roofline_worker`.

    {"type": "load", ...} as a worker's                     ->  {"type": "loaded", "pid", ...}
    {"type": "calibrate"}                                   ->  {"type": "calibrating", "done"} and so on, then
                                                                {"type": "calibrated", "calibration"}
    {"type": "open", "num_blocks", "block_tokens", "seed"}  ->  {"type": "opened"}
    {"type": "step", "batch", "new", "context"}             ->  {"type": "timed", "seconds", "linear", "attention"}

As every worker it ends when stdin ends, ignores Ctrl-C and yields to others. What fails is told as {"type": "failed"}.
"""

import signal
import traceback

from engine.errors import LabError
from engine.serving.worker import Pipe, Worker


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe = Pipe()
    bench = _Bench(pipe)
    while True:
        record = pipe.inbox.get()
        try:
            pipe.write(getattr(bench, record.pop("type"))(**record))
        except LabError as error:
            pipe.write({"type": "failed", "error": error.as_dict()})
        except Exception as error:  # a bug must reach the user as a failed job, never as a silent worker
            traceback.print_exc()
            why = f"{type(error).__name__}: {error}"
            pipe.write({"type": "failed", "error": LabError("worker-error", why=why).as_dict()})


class _Bench:
    """One method for each type of record."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def load(self, **settings) -> dict:
        self.worker = Worker(settings)
        return {"type": "loaded", **self.worker.describe()}

    def calibrate(self) -> dict:
        from engine.measure.calibration import calibrate

        figures = calibrate(self.worker.device, progress=lambda done: self.pipe.write({"type": "calibrating", "done": done}))
        return {"type": "calibrated", "calibration": figures}

    def open(self, num_blocks: int, block_tokens: int, seed: int) -> dict:
        import torch

        from engine.experiments.step_timer import StepTimer
        from engine.kv.storage import KVStorage

        w = self.worker
        if w.device.startswith("cuda"):
            torch.cuda.empty_cache()  # what the calibration took
        storage = KVStorage(w.loaded.config, num_blocks, block_tokens, device=w.device, dtype=w.dtype)
        self.timer = StepTimer(w.loaded.transformer, storage, seed=seed)
        self.timer.prepare(1, min(64, num_blocks * block_tokens), 0)()  # the first step pays for what all share
        return {"type": "opened"}

    def step(self, batch: int, new: int, context: int) -> dict:
        return {"type": "timed", **self.timer.prepare(batch, new, context)()}


if __name__ == "__main__":
    main()
