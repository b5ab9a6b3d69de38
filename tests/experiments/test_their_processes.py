"""The process of its own that an experiment has: what becomes of it, and of the run, when it is killed or cancelled."""

import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.experiments import attention, lengths, needle, recurrent, retrieval, roofline, streaming
from engine.lock import device_lock
from engine.serving.cluster import Cancelled
from tests.experiments import test_attention, test_lengths, test_needle, test_recurrent, test_retrieval, test_roofline, test_streaming

ROOT = Path(__file__).resolve().parents[2]
# run, scenario (or what makes it in a folder), the process's module, the phase in the middle of which it is hit
CASES = {
    "attention": (attention.run_attention, test_attention.TINY, attention.MODULE, "loading"),
    "lengths": (lengths.run_lengths, test_lengths.SMALL, lengths.MODULE, "measuring"),
    "needle": (needle.run_needle, test_needle.SMALL, needle.MODULE, "measuring"),
    "recurrent": (recurrent.run_recurrent, test_recurrent.SMALL, recurrent.MODULE, "measuring"),
    "retrieval": (retrieval.run_retrieval, test_retrieval.scenario_in, retrieval.MODULE, "measuring"),
    "roofline": (roofline.run_roofline, test_roofline.SMALL, roofline.MODULE, "calibrating"),
    "streaming": (streaming.run_streaming, test_streaming.SMALL, streaming.MODULE, "measuring"),
}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))


def case(name, folder):
    run, scenario, *rest = CASES[name]
    return run, scenario(folder / "model") if callable(scenario) else scenario, *rest


def children(module) -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if module in " ".join(p.cmdline())]


def at(hit_phase, then):
    """A progress that calls `then` once, when that phase has begun."""
    done = []

    def see(phase, share, **facts):
        if phase == hit_phase and not done:
            done.append(phase)
            then()

    return see


def nothing_is_left(module):
    assert children(module) == []
    with device_lock("cpu", "next", wait=False):
        pass


@pytest.mark.parametrize("name", CASES)
def test_a_killed_process_fails_the_run_with_its_reason(name, tmp_path):
    """By the memory killer, in the middle: one sentence, the device free, nothing left."""
    run, scenario, module, phase = case(name, tmp_path)
    with pytest.raises(LabError) as caught:
        run(scenario, progress=at(phase, lambda: children(module)[0].kill()))
    assert caught.value.code == "worker-died" and "signal 9" in str(caught.value)
    nothing_is_left(module)


@pytest.mark.parametrize("name", CASES)
def test_cancelling_ends_the_process_at_once(name, tmp_path):
    """In the middle of what it computes, too: what it started must be gone with it."""
    run, scenario, module, phase = case(name, tmp_path)
    stop, family = threading.Event(), []

    def cancel():
        family.extend(children(module))
        stop.set()

    with pytest.raises(Cancelled):
        run(scenario, progress=at(phase, cancel), cancelled=stop.is_set)
    assert len(family) == 1
    nothing_is_left(module)


def test_they_are_asked_without_torch():
    """The service imports the experiments; with torch in them every app would carry a gigabyte."""
    modules = ", ".join(run.__module__ for run, *_ in CASES.values())
    code = f"import sys, engine.measure.calibration, {modules}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr
