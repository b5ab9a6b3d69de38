"""Client and service process for real, with a tiny random model: queue, cancel, a killed service, the end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.experiments.scenarios import RequestGroup, SchedulesScenario
from engine.service import client, store

ROOT = Path(__file__).resolve().parents[2]


def scenario(output_tokens=5, **changes) -> SchedulesScenario:
    base = SchedulesScenario(
        "test", (RequestGroup("chat", 1, 60, output_tokens),), model="random-tiny", text="korean", schedules=("unified",),
        kv_bytes=1 << 22, device="cpu", dtype="float32", decompose=False,
    )  # fmt: skip
    return base.changed(changes)


LONG = scenario(7500)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("home")
        patch.setenv("LAB_HOME", str(home))
        yield home


@pytest.fixture
def service(home, monkeypatch):
    """A service of this test's own; nothing of it may be left."""
    made = client._Service()
    monkeypatch.setattr(client, "_service", made)
    yield made
    family = processes(made)
    made.stop()
    assert_gone(family)


def processes(service) -> list[psutil.Process]:
    if service._process is None or service._process.poll() is not None:
        return []
    parent = psutil.Process(service._process.pid)
    return [parent, *parent.children(recursive=True)]


def assert_gone(family, seconds=5):
    _, alive = psutil.wait_procs(family, timeout=seconds)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE], "a process was left behind"


def wait_for(run_id, *states, seconds=60, **rest):
    deadline = time.monotonic() + seconds
    while True:
        status = client.status(run_id)
        if status.state in states and all(getattr(status, name) == value for name, value in rest.items()):
            return status
        assert status.active or not rest, status
        assert time.monotonic() < deadline, (status, states, rest)
        time.sleep(0.02)


def test_a_day_at_the_service(service):
    """Queue, places, cancels, a killed service and the next one: in one go, since every start costs seconds."""
    first, second, third = client.submit(LONG), client.submit(scenario()), client.submit(scenario())
    assert client.status(first).state in ("queued", "running") and client.status(first).active
    wait_for(first, "running", phase="measuring")
    wait_for(second, "queued", place=1)
    wait_for(third, "queued", place=2)
    assert client.result(first) is None and client.result(second) is None

    client.cancel(second)
    wait_for(second, "cancelled")
    wait_for(third, "queued", "running", place=1)
    workers = {process.pid for process in processes(service)[1:]}
    client.cancel(first)
    wait_for(first, "cancelled", seconds=5)
    done = wait_for(third, "done")
    assert done.done == 1.0 and not done.active
    assert {process.pid for process in processes(service)[1:]} == workers, "the workers stood ready for the next job"
    result = client.result(third)
    assert result["run_id"] == third and result["schedules"]["unified"]["metrics"]["finished"] == 1
    assert store.exists(third) and not store.exists(first) and not store.exists(second)
    client.cancel(third)
    assert client.status(third).state == "done"

    # Killed in the middle of a job: it and the waiting one have failed with the reason, and the next one runs.
    running, waiting = client.submit(LONG), client.submit(scenario())
    wait_for(running, "running", phase="measuring")
    family = processes(service)
    os.kill(family[0].pid, signal.SIGKILL)
    for run_id in (running, waiting):
        error = wait_for(run_id, "failed", seconds=5).error
        assert error["code"] == "service-gone" and error["facts"]["why"] == "signal 9"
    assert_gone(family)
    again = client.submit(scenario())
    assert wait_for(again, "done").error is None
    assert client.status(third).state == "done" and client.result(third) == result, "what was stored is still there"

    # Stopped in the middle of a job: nothing is left, and nobody waits for it.
    last, behind = client.submit(LONG), client.submit(scenario())
    wait_for(last, "running", phase="measuring")
    family = processes(service)
    assert len(family) >= 2
    begun = time.monotonic()
    client.stop()
    assert time.monotonic() - begun < 8
    assert_gone(family, seconds=2)
    assert client.status(last).state in ("cancelled", "failed")
    assert client.status(behind).state == "failed" and client.status(behind).error["code"] == "service-gone"
    client.stop()


@pytest.mark.parametrize(
    "changes",
    [{"model": "/etc/passwd"}, {"model": "../model"}, {"model": "model.gguf"}, {"text": "/etc/passwd"}, {"text": "../../etc/passwd"},
     {"text": "profiles/texts/korean.txt"}, {"text": "own:" + "0" * 63}, {"text": "own:../../../etc/passwd"}, {"text": "Korean"}],
)  # fmt: skip
def test_files_of_the_server_cannot_be_named(service, changes):
    """A page that passes a path on would read any file of the machine into a prompt, or load any as a model."""
    with pytest.raises(LabError) as caught:
        client.submit(scenario(**changes))
    assert caught.value.code == "job-not-allowed"
    assert service._process is None, "nothing was started for it"


def test_what_has_to_be_fetched_first_is_told_before_anything_starts(service):
    """Queued, it would fail minutes later; and only what can be fetched is offered."""
    for changes, code in (({"model": "smollm2-135m-instruct"}, "model-missing"), ({"text": "kjv"}, "text-missing"), ({"text": "own:" + "0" * 64}, "text-missing")):
        with pytest.raises(LabError) as caught:
            client.submit(scenario(**changes))
        assert caught.value.code == code
    assert service._process is None
    assert not client.model_ready("smollm2-135m-instruct") and client.model_ready("random-tiny") and not client.model_ready("/etc/passwd")
    assert not client.text_ready("kjv") and client.text_ready("korean")


def test_unknown_ids_are_unknown_and_cancel_is_harmless(service):
    """Links outlive runs; looking one up must not start a service."""
    assert client.status("nobody-knows-this-run").state == "unknown" and client.result("nobody-knows-this-run") is None
    client.cancel("nobody-knows-this-run")
    client.start()
    client.stop()
    assert service._process is None


def test_a_service_that_cannot_start_is_an_error_and_not_a_wait(service, monkeypatch):
    """Its page would show "queued" for ever."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    try:
        run_id = client.submit(scenario())
    except LabError as error:
        assert error.code == "service-gone"
    else:
        assert wait_for(run_id, "failed", seconds=10).error["code"] == "service-gone"


def test_half_a_line_from_a_killed_service_fails_its_jobs(service, monkeypatch, tmp_path):
    """The mirror used to die of it, and the page showed a running job until the next was submitted."""
    script = tmp_path / "service"
    script.write_text('#!/bin/sh\nread line\nprintf \'{"id": "x", "sta\'\nexit 3\n')
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    run_id = client.submit(scenario())
    assert wait_for(run_id, "failed", seconds=10).error["facts"]["why"] == "exit code 3"


@pytest.mark.parametrize("line", [b"", b"garbage\n", b'{"do": "submit", "id"', b"[]\n", b"{}\n"], ids=repr)
def test_the_service_ends_with_its_app(home, line):
    """An app that was killed, maybe in the middle of a line, must not leave a service that holds the device."""
    process = subprocess.Popen([sys.executable, "-m", "engine.service"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.stdin.write(line)
        process.stdin.close()
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
