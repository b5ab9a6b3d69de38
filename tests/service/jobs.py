"""What tests of jobs share: the processes of a service, and waiting for a state of a run."""

import time

import psutil

from engine.service import client


def processes(service) -> list[psutil.Process]:
    """The service's own and all that it started."""
    parent = psutil.Process(service._link.process.pid)
    return [parent, *parent.children(recursive=True)]


def wait_for(run_id, state, phase=None):
    """Its status as soon as it is in that state, and phase; fails if it ends in another one or takes minutes."""
    deadline = time.monotonic() + 120
    while (status := client.status(run_id)).state != state or phase not in (None, status.phase):
        assert status.active and time.monotonic() < deadline, status
        time.sleep(0.02)
    return status


def wait_for_view(run_id, part):
    """The partial result of a running job as soon as there is something in that part of it."""
    deadline = time.monotonic() + 60
    while not (view := client.live(run_id)) or not view[part]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return view
