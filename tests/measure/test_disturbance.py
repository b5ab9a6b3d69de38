"""Was the machine busy with something else? The judgement on made-up totals, the sampler on real processes."""

import os
import signal
import subprocess
import sys
import time
from collections import namedtuple
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from engine.measure import device, disturbance
from engine.measure.device import usable_cores
from engine.measure.disturbance import LIMITS, Sample, judge, overall, take_sample, verdict, watched_cores

BEGIN = Sample(at_s=100.0, num_cores=2, ran_s=10.0, waited_s=1.0, busy_s=50.0, own_s=30.0)
SPIN = "while True: pass"


def after(seconds=10.0, *, ran=0.0, waited=0.0, busy=0.0, own=0.0):
    b = BEGIN
    return replace(b, at_s=b.at_s + seconds, ran_s=b.ran_s + ran, waited_s=b.waited_s + waited, busy_s=b.busy_s + busy, own_s=b.own_s + own)


def test_a_quiet_machine_is_not_disturbed():
    """Our own work, however much, is no disturbance; nor are the few per cent of any running system."""
    found = judge(BEGIN, after(ran=19.9, waited=0.1, busy=20.0, own=19.8))
    assert found == {"disturbed": False, "waited_share": 0.005, "others_cpu_share": 0.01}


def test_waiting_for_a_core_is_a_share_of_what_could_have_been_computed():
    """Idle workers wait for nothing: a share of the elapsed time would hide a disturbance in a run with pauses."""
    found = judge(BEGIN, after(seconds=1000.0, ran=9.0, waited=1.0, busy=109.0, own=9.0))
    assert found == {"disturbed": True, "waited_share": 0.1, "others_cpu_share": 0.05}


def test_waiting_for_ourselves_is_no_disturbance():
    """Seen on a quiet machine: workers with little to do are woken late by our own coordinator."""
    assert verdict(0.3, 0.03)["disturbed"] is False
    assert verdict(0.3, 0.05)["disturbed"] is True
    assert verdict(0.3, None)["disturbed"] is True


def test_others_are_everything_that_is_not_ours_on_the_workers_cores():
    """Two cores for ten seconds: six core-seconds of somebody else's are 30 %."""
    assert judge(BEGIN, after(ran=14.0, busy=20.0, own=14.0)) == {"disturbed": True, "waited_share": 0.0, "others_cpu_share": 0.3}
    assert judge(BEGIN, after(ran=14.0, busy=13.0, own=14.0))["others_cpu_share"] == 0.0, "ticks are coarse: never negative"


@pytest.mark.parametrize("name", LIMITS)
def test_one_sign_is_enough_and_only_above_its_limit(name):
    """A limit that is named on the page but not the one judged by would be a lie."""
    quiet = {"waited_share": 0.0, "others_cpu_share": 0.05}
    assert verdict(**{**quiet, name: LIMITS[name]})["disturbed"] is False
    assert verdict(**{**quiet, name: LIMITS[name] + 0.001})["disturbed"] is True


def test_what_is_not_known_is_not_called_quiet():
    """On macOS nobody counts waiting; where nothing can be read the page must say unknown."""
    unknown = replace(BEGIN, ran_s=None, waited_s=None, busy_s=None, own_s=None)
    assert judge(unknown, after(busy=99.0)) == judge(BEGIN, replace(unknown, at_s=110.0)) == {"disturbed": None, "waited_share": None, "others_cpu_share": None}
    half = replace(BEGIN, ran_s=None, waited_s=None)
    assert judge(half, after(busy=20.0))["disturbed"] is True and judge(half, after())["disturbed"] is False
    assert judge(BEGIN, after())["waited_share"] is None, "workers that did nothing have no share"
    assert overall({}) == {"disturbed": None, "waited_share": None, "others_cpu_share": None, "limit": LIMITS, "schedules": {}}


def test_a_blink_tells_nothing():
    """Counters tick in hundredths of a second: in a tenth of one, a single tick would be called a disturbance."""
    assert judge(BEGIN, after(seconds=0.1, ran=0.1, waited=0.1, busy=0.2))["disturbed"] is None
    assert judge(BEGIN, after(seconds=0.6, ran=0.1, waited=0.1, busy=0.2))["disturbed"] is True


def test_the_whole_is_as_disturbed_as_its_worst_run():
    """A median of three hides which of them was disturbed; the result must not."""
    runs = {"unified": [verdict(0.01, 0.02), verdict(0.2, None)], "chunked": [verdict(None, 0.03), verdict(None, None)]}
    assert overall(runs) == {"disturbed": True, "waited_share": 0.2, "others_cpu_share": 0.03, "limit": LIMITS, "schedules": runs}


def test_a_sibling_of_a_workers_core_is_watched_too(monkeypatch):
    """A stranger on the second thread of a physical core takes a third of its speed without anybody waiting."""
    lists = {0: "0,4", 1: "1,5", 2: "2-3", 6: "6", 7: "", 8: "nonsense"}
    monkeypatch.setattr(device, "_physical", lists.__getitem__)
    assert watched_cores([0, 1]) == {0, 4, 1, 5} and watched_cores([2]) == {2, 3}
    assert watched_cores([6, 7, 8]) == {6, 7, 8} and watched_cores([]) == set()


def test_stolen_time_counts_and_nothing_counts_twice(monkeypatch):
    """Another machine on the same host takes the core without running here; a guest's time is in user already."""
    times = namedtuple("times", "user nice system idle iowait irq softirq steal guest guest_nice")
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: [times(1, 2, 4, 1000, 1000, 8, 16, 32, 1000, 1000), times(*[100] * 10)])
    assert take_sample([], [0]).busy_s - take_sample([], []).busy_s == 63 - (63 + 600)
    monkeypatch.setattr(disturbance, "siblings", lambda core: (0,))
    assert take_sample([], [0]).busy_s == 63


def test_processes_that_are_gone_or_hidden_cost_no_run(monkeypatch):
    """A worker that has just died fails its run with its own reason, not with a KeyError of the sampler."""
    gone = take_sample([2**22 + 1], [0])
    assert gone.ran_s is None and gone.waited_s is None and gone.own_s is None
    monkeypatch.setattr(psutil, "cpu_times", lambda percpu: 1 / 0 if not percpu else [])
    assert take_sample([], []).busy_s is None
    monkeypatch.setattr(psutil.Process, "cpu_times", lambda self: (_ for _ in ()).throw(psutil.AccessDenied(1)))
    assert take_sample([], []).own_s is None


@pytest.fixture
def spinning():
    """Starts processes that compute on one core: workers are our children, strangers belong to nobody."""
    pids = []

    def start(core: int, *, stranger: bool) -> int:
        if stranger:  # its parent ends at once
            told = subprocess.run(["sh", "-c", f"'{sys.executable}' -c '{SPIN}' >/dev/null 2>&1 & echo $!"], capture_output=True, text=True)
            pids.append(int(told.stdout))
        else:
            pids.append(subprocess.Popen([sys.executable, "-c", SPIN]).pid)
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(pids[-1], [core])
        return pids[-1]

    yield start
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def test_a_real_stranger_on_the_core_is_seen(spinning):
    """The sampler itself: files, units, and who belongs to us. A stranger takes half of the core."""
    core = usable_cores()[-1]
    worker = spinning(core, stranger=False)

    def share(seconds=0.5):
        begin = take_sample([worker], [core])
        time.sleep(seconds)
        return judge(begin, take_sample([worker], [core]))

    quiet = [share() for _ in range(5)]
    spinning(core, stranger=True)
    time.sleep(0.1)
    busy = share(1.0)
    assert busy["disturbed"] is True
    assert busy["others_cpu_share"] > LIMITS["others_cpu_share"] and busy["others_cpu_share"] > min(q["others_cpu_share"] for q in quiet)
    if Path("/proc/self/schedstat").exists():
        assert busy["waited_share"] > 2 * LIMITS["waited_share"] and busy["waited_share"] > min(q["waited_share"] for q in quiet)
    else:
        assert busy["waited_share"] is None


def test_our_own_children_are_not_strangers(spinning):
    """The service starts the workers: counted as others they would make every run disturbed. One that ends stays ours."""
    core = usable_cores()[-1]
    begin = take_sample([], [core])
    child = spinning(core, stranger=False)
    time.sleep(0.5)
    ran_s = sum(psutil.Process(child).cpu_times()[:2])
    end = take_sample([], [core])
    assert ran_s > 0 and end.own_s - begin.own_s > ran_s - 0.005  # sums of hundredths
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    if psutil.LINUX:  # macOS does not tell of children that have ended
        assert take_sample([], [core]).own_s - begin.own_s > ran_s - 0.005
