"""One measurement at a time: the device lock between processes."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from engine.errors import LabError
from engine.lock import device_lock

ROOT = Path(__file__).resolve().parents[1]
HOLD = """
import sys, time
from engine.lock import device_lock
with device_lock("cpu", "a test"):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def holder():
    """Another process that holds the lock."""
    process = subprocess.Popen([sys.executable, "-c", HOLD], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_who_does_not_wait_is_told_who_holds_it(holder):
    """"Busy" without a name leaves the user to search for the process."""
    with pytest.raises(LabError) as caught, device_lock("cpu", "ours", wait=False):
        raise AssertionError("two at once")
    assert caught.value.code == "device-busy"
    assert caught.value.facts == {"device": "cpu", "holder": f"a test (process {holder.pid})"}


def test_devices_are_apart(holder):
    """A run on the GPU must not wait for one on the CPU."""
    with device_lock("cuda", "ours", wait=False):
        pass


def test_a_killed_holder_leaves_no_lock(holder):
    """A lock that outlives its process would stop the lab until somebody deletes a file."""
    waited = []
    threading.Timer(0.3, holder.send_signal, [signal.SIGKILL]).start()
    begun = time.monotonic()
    with device_lock("cpu", "ours", on_wait=waited.append):
        assert time.monotonic() - begun > 0.25
    assert waited == [f"a test (process {holder.pid})"], "told once, and by name"


def test_waiting_can_be_cancelled(holder):
    """A cancelled job that goes on waiting blocks the whole queue."""
    begun = time.monotonic()
    with pytest.raises(LabError) as caught, device_lock("cpu", "ours", cancelled=lambda: time.monotonic() > begun + 0.2):
        raise AssertionError("two at once")
    assert caught.value.code == "device-busy" and time.monotonic() - begun < 3


def test_it_is_held_per_job_and_released_after_an_error(home):
    """An error that keeps the lock would block every later job of the same process."""
    with pytest.raises(RuntimeError), device_lock("cpu", "first"):
        card = json.loads((home / "locks" / "cpu.holder.json").read_text())
        assert card == {"pid": os.getpid(), "purpose": "first"}
        with pytest.raises(LabError), device_lock("cpu", "second", wait=False):
            pass
        raise RuntimeError
    assert not (home / "locks" / "cpu.holder.json").exists()
    with device_lock("cpu", "third", wait=False):
        pass


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"5", b"{}", b"\xff", b'{"pid": 1}', None])
def test_a_damaged_card_still_gives_a_sentence(holder, home, content):
    """It is written by another process, perhaps at this very moment."""
    card = home / "locks" / "cpu.holder.json"
    card.unlink() if content is None else card.write_bytes(content)
    with pytest.raises(LabError) as caught, device_lock("cpu", "ours", wait=False):
        pass
    assert caught.value.code == "device-busy" and "another process" in str(caught.value)


def test_without_room_for_the_card_the_lock_is_held_all_the_same(home, monkeypatch):
    """The card is for the eye: a full disk must not stop a measurement, nor keep the lock."""
    (home / "locks").mkdir()
    (home / "locks" / "cpu.holder.json").mkdir()  # writing it fails
    with device_lock("cpu", "ours", wait=False):
        with pytest.raises(LabError), device_lock("cpu", "second", wait=False):
            pass
    with device_lock("cpu", "third", wait=False):
        pass


def test_a_lock_that_cannot_be_made_is_told(home):
    """A data folder on a broken disk: one sentence."""
    (home / "locks").mkdir()
    (home / "locks" / "cpu.lock").mkdir()
    with pytest.raises(LabError) as caught, device_lock("cpu", "ours", wait=False):
        pass
    assert caught.value.code == "data-folder"
