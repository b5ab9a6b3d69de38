"""kill -9, everywhere and in the middle of a run, with real processes. After each: what is said, nothing orphaned, every
finished result there, and the next run works.

    killed                 the job that ran            those that waited                    in
    a worker               failed, worker-died         run next, with new workers           here
    one of a pool's        failed, worker-died         run next, with new workers           here
    the service            failed, service-gone        run next, in a new service           here
    the service, for ever  failed, service-gone        failed, service-gone, after 3 tries  test_client.py
    the app                failed, app-stopped         failed, app-stopped                  here
    (stopped in order)     failed, app-stopped         failed, app-stopped                  test_client.py
    disk full              failed, store-unwritable    run                                  test_server.py
    disk nearly full       failed, disk-full, at once  run                                  test_server.py
    index held             done; its row comes later   run                                  test_server.py, test_store.py
    index damaged          done                        run                                  test_store.py
"""

import json
import os
import signal
import subprocess
import sys
import time

import psutil

from engine.lock import device_lock
from engine.service import client
from tests.service.test_client import LONG, ROOT, assert_gone, home, processes, scenario, service, wait_for

__all__ = ["home", "service"]


def workers_of(service) -> list[psutil.Process]:
    """Those that measure now."""
    return sorted(processes(service)[1:], key=lambda process: process.pid)


def test_a_worker_or_one_of_a_pool_is_killed(service):
    """Only its job is lost; the others of its pool must not wait for ever for KV that does not come."""
    kept = client.submit(scenario())
    wait_for(kept, "done")
    pools = LONG.changed({"schedules": ["disaggregated"]})
    for number, (victim, running) in enumerate([(0, LONG), (-1, pools)]):
        lost, waiting = client.submit(running, again=True), client.submit(scenario(seed=number + 1))
        wait_for(lost, "running", phase="measuring")
        workers = workers_of(service)
        assert len(workers) >= (1 if running is LONG else 2)
        os.kill(workers[victim].pid, signal.SIGKILL)
        error = wait_for(lost, "failed", seconds=60).error
        assert error["code"] == "worker-died" and error["facts"]["exit"] == "signal 9"
        assert_gone(workers)
        wait_for(waiting, "done")
        assert client.result(lost) is None and client.result(waiting)["run_id"] == waiting
        assert client.result(kept)["run_id"] == kept


def test_the_service_is_killed(service):
    """What ran is lost, what waited is not, and keeps its order."""
    kept = client.submit(scenario(), browser="a")
    wait_for(kept, "done")
    running = client.submit(LONG, browser="a")
    wait_for(running, "running", phase="measuring")
    waiting = [client.submit(scenario(seed=seed), browser=browser) for seed, browser in ((11, "a"), (12, "a"), (13, "b"))]
    wait_for(waiting[1], "queued", place=3)
    family = processes(service)
    os.kill(family[0].pid, signal.SIGKILL)
    error = wait_for(running, "failed", seconds=60).error
    assert error["code"] == "service-gone" and error["facts"]["why"] == "signal 9"
    assert_gone(family)
    order, deadline = [], time.monotonic() + 60
    while len(order) < 3:
        order += [run_id for run_id in waiting if run_id not in order and client.status(run_id).state == "done"]
        assert not any(client.status(run_id).error for run_id in waiting) and time.monotonic() < deadline
        time.sleep(0.005)
    assert [run.id for run in client.runs(None)][:3] == [waiting[1], waiting[0], waiting[2]], "b was next, then a and a"
    assert client.status(kept).state == "done" and client.Client().status(running).error["code"] == "service-gone"


APP = """
import json, sys, time
from engine.service import client
from tests.service.test_client import LONG, scenario
kept = client.submit(scenario(seed=21))
while client.status(kept).active:
    time.sleep(0.02)
running, waiting = client.submit(LONG, browser="a"), client.submit(scenario(seed=22), browser="b")
while client.status(running).phase != "measuring":
    time.sleep(0.02)
print(json.dumps([kept, running, waiting]), flush=True)
time.sleep(600)
"""


def test_the_app_is_killed(service, home):
    """The web server is gone, and with it every pipe: its service must end by itself and let go of the device, and after
    the restart every page must be told the truth about its run."""
    app = subprocess.Popen([sys.executable, "-c", APP], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        kept, running, waiting = json.loads(app.stdout.readline())
        family = [psutil.Process(app.pid), *psutil.Process(app.pid).children(recursive=True)]
        assert len(family) >= 3 and client.status(running).state == "queued", "it lives, and so does its promise"
        client.start()
        assert client.status(waiting, "b").active and client.status(waiting, "b").own
    finally:
        app.kill()
        app.communicate()
    assert_gone(family, seconds=15)
    with device_lock("cpu", "a test", wait=False):
        pass
    for run_id in (running, waiting):
        status = client.status(run_id)
        assert status.state == "failed" and status.error["code"] == "app-stopped" and client.result(run_id) is None
    assert client.status(kept).state == "done" and client.result(kept)["run_id"] == kept
    assert client.submit(scenario(seed=21)) == kept
    wait_for(client.submit(scenario(seed=22)), "done")
    assert client.status(waiting, "b").state == "failed", "another run of the same is not that promise"


def test_the_index_is_damaged_between_two_runs(service, home):
    """The service finds its index broken when it has something to store: both results are there in the end."""
    first = client.submit(scenario(seed=31))
    wait_for(first, "done")
    (home / "runs" / "runs.db").write_bytes(b"garbage" * 1000)
    second = client.submit(scenario(seed=32))
    wait_for(second, "done")
    deadline = time.monotonic() + 60
    while {first, second} - {run.id for run in client.runs(None, limit=100)}:
        assert time.monotonic() < deadline, "adopted as soon as the service has nothing else to do"
        time.sleep(0.02)
