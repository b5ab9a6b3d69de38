"""Calibration: what is measured, what is kept, and that a damaged or full disk costs nobody his figures."""

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine import cli
from engine.errors import LabError
from engine.lock import device_lock
from engine.measure import calibration, copying, limits
from engine.measure.calibration import best_flops_per_s, report, run_calibration, store, stored

ROOT = Path(__file__).resolve().parents[2]
FIGURES = {
    "version": calibration.VERSION,
    "device": calibration._device("cpu").as_dict(),
    "threads": 2,
    "matmul": {dtype: [{"n": 64, "flops_per_s": 1e9}, {"n": 128, "flops_per_s": 3e9}] for dtype in calibration.DTYPES},
    "read_bytes_per_s": 2e10,
    "call_overhead_s": 2e-6,
    "copy_bytes_per_s": 1e10,
    "measured_at": "2026-01-01T00:00:00Z",
    "versions": {"python": "3", "torch": "2"},
    "duration_s": 3.0,
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def small(monkeypatch):
    """Sizes that take milliseconds."""
    monkeypatch.setattr(limits, "_MATMUL_SIZES", {"cpu": (16, 64)})
    monkeypatch.setattr(limits, "_READ_BYTES", {"cpu": 1 << 20})
    monkeypatch.setattr(calibration, "_FIGURES", {**calibration._FIGURES, "copy_bytes_per_s": lambda _: copying.copy_bytes_per_s(1 << 20, 2)})


@pytest.fixture
def threads():
    """Set back afterwards: this process is everybody's."""
    import torch

    before, grad = torch.get_num_threads(), torch.is_grad_enabled()
    yield
    torch.set_num_threads(before)
    torch.set_grad_enabled(grad)


def only_file(home) -> Path:
    (path,) = (home / "calibrations").iterdir()
    return path


def test_everything_is_measured_and_found_again(small, threads, home):
    """A figure that is missing, or a NaN, breaks every page that draws a roof."""
    told = []
    figures = run_calibration("cpu", progress=lambda phase, done, **facts: told.append((phase, done)))
    assert set(figures) == set(FIGURES) and figures["version"] == 1 and figures["device"]["class"] == "cpu"
    assert {dtype: [rate["n"] for rate in rates] for dtype, rates in figures["matmul"].items()} == {"float32": [16, 64], "bfloat16": [16, 64]}
    numbers = [figures[name] for name in ("read_bytes_per_s", "call_overhead_s", "copy_bytes_per_s", "threads")]
    assert all(0 < number < 1e15 for number in numbers + [best_flops_per_s(figures, dtype) for dtype in ("float32", "bfloat16")])
    assert told == sorted(told) and told[0] == ("calibrating", 0.0) and told[-1] == ("calibrating", 1.0)
    assert stored("cpu") is None
    store(figures)
    assert stored("cpu") == json.loads(json.dumps(figures, allow_nan=False))
    assert "matmul bfloat16" in report(figures) and "copying" in report({**figures, "copy_bytes_per_s": None})


def test_it_takes_its_turn_at_the_device(small, threads):
    """Beside a measurement both would be wrong."""
    with device_lock("cpu", "somebody"), pytest.raises(LabError) as caught:
        run_calibration("cpu", wait=False)
    assert caught.value.code == "device-busy" and "somebody" in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"version": 1}', json.dumps({**FIGURES, "version": 0}).encode(),
     json.dumps({**FIGURES, "matmul": {"float32": []}}).encode(), json.dumps({**FIGURES, "read_bytes_per_s": None}).encode(),
     json.dumps({**FIGURES, "read_bytes_per_s": "fast"}).encode(), json.dumps({**FIGURES, "call_overhead_s": float("nan")}).encode(),
     json.dumps({name: value for name, value in FIGURES.items() if name != "threads"}).encode()],
    ids=range(13),
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_as_none_and_is_replaced(home, content):
    """Half a file of a power cut, or one of an earlier version, must not stop anybody from measuring."""
    store(FIGURES)
    only_file(home).write_bytes(content)
    assert stored("cpu") is None
    store(FIGURES)
    assert stored("cpu") == FIGURES


def test_another_device_is_not_this_one():
    """Figures of the laptop's other processor would be drawn as this one's roof."""
    store({**FIGURES, "device": {**FIGURES["device"], "cores": 77}})
    assert stored("cpu") is None


def test_a_full_disk_keeps_the_one_before(home, monkeypatch):
    """Neither half a file under the name nor one beside it."""
    store(FIGURES)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(LabError) as caught:
            store({**FIGURES, "threads": 9})
    assert caught.value.code == "store-unwritable" and "No space left" in str(caught.value)
    assert stored("cpu") == FIGURES and only_file(home).suffix == ".json"


def test_a_full_disk_still_gives_the_figures(home, monkeypatch, capsys):
    """Measured is measured: one sentence on stderr, the JSON on stdout."""
    monkeypatch.setattr(calibration, "run_calibration", lambda *_, **__: FIGURES)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")))
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    assert cli.main(["calibrate", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == FIGURES and err.startswith("engine: ") and err.count("\n") == 1
    assert cli.main(["calibrate"]) == 0
    assert "GFLOP/s" in capsys.readouterr().out


def test_a_slow_machine_is_not_measured_for_minutes(monkeypatch):
    """Best of seven of what takes two seconds, over all sizes and formats, is no longer a few seconds."""
    now = [0.0]
    monkeypatch.setattr(limits.time, "perf_counter", lambda: now[0])
    runs = []

    def work(seconds):
        runs.append(seconds)
        now[0] += seconds

    assert limits.best_seconds(lambda: work(2.0), lambda: None) == pytest.approx(2.0) and len(runs) == 3
    runs.clear()
    assert limits.best_seconds(lambda: work(0.001), lambda: None) == pytest.approx(0.001) and len(runs) == 8


def test_sizes_that_take_too_long_are_left_out(monkeypatch):
    """bf16 in software: the largest products alone would take half a minute."""
    monkeypatch.setattr(limits, "_MATMUL_SIZES", {"cpu": (2, 4, 8, 16)})
    for seconds, sizes in ((0.09, [2, 4, 8, 16]), (0.2, [2])):
        monkeypatch.setattr(limits, "best_seconds", lambda *_, seconds=seconds: seconds)
        assert [rate["n"] for rate in limits.matmul_rates("cpu", "float32")] == sizes


def test_no_room_to_copy_is_a_figure_that_lacks(monkeypatch):
    """A container without shared memory can be calibrated in everything else."""
    monkeypatch.setattr(copying, "_shared_file", lambda size: (_ for _ in ()).throw(OSError("no room")))
    assert calibration._copying("cpu") is None


def test_the_copying_process_does_not_outlive_its_parent():
    """Killed in the middle, the parent must leave no process behind, and no file in memory that nobody frees."""
    code = "from engine.measure import copying; copying.copy_bytes_per_s(1 << 26, 100_000)"
    before = set(os.listdir("/dev/shm")) if Path("/dev/shm").is_dir() else set()
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, start_new_session=True)
    try:
        deadline = time.monotonic() + 30
        while not (children := psutil.Process(parent.pid).children()) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert children, "it never started its second process"
    finally:
        parent.kill()
        parent.wait()
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []
    if before:
        assert not [name for name in set(os.listdir("/dev/shm")) - before if name.startswith(("tmp", "long-context"))]


def test_a_copying_process_that_ends_is_told(monkeypatch):
    """Waited for, it would hold the device for ever."""
    monkeypatch.setattr(copying.sys, "executable", shutil.which("false"))
    with pytest.raises(OSError):
        copying.copy_bytes_per_s(1 << 20)
