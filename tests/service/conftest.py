"""A service of a test's own."""

import psutil
import pytest

from engine.service import client
from tests.service.jobs import processes


@pytest.fixture
def service(tmp_path, monkeypatch):
    """A client with a service of this test's own; nothing of it may be left. It may read files, as a command line's may."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    made = client.Client(own_files=True)
    monkeypatch.setattr(client, "_client", made)
    yield made
    family = processes(made)
    made.stop()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE], "a process was left behind"
