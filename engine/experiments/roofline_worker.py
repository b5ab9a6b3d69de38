"""The process that calibrates and times steps, one record at a time: `python -m engine.experiments.roofline_worker`.

    {"type": "load", ...} as a worker's                     ->  {"type": "loaded", "pid", ...}
    {"type": "calibrate"}                                   ->  {"type": "calibrating", "done"} and so on, then
                                                                {"type": "calibrated", "calibration"}
    {"type": "open", "num_blocks", "block_tokens", "seed"}  ->  {"type": "opened"}
    {"type": "step", "batch", "new", "context"}             ->  {"type": "timed", "seconds", "linear", "attention"}
"""

from engine.experiments.child import Desk, serve


class _Bench(Desk):
    def calibrate(self) -> dict:
        from engine.measure.calibration import calibrate

        figures = calibrate(self.worker.device, progress=lambda done: self.tell({"type": "calibrating", "done": done}))
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
    serve(_Bench)
