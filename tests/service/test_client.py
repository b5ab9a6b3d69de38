"""Client and service process for real, with a tiny random model: queue, cancel, every kind of kill, the end.

What a fault says, in one place: the table at the top of `test_faults.py`.
"""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from engine.errors import LabError
from engine.experiments.scenarios import RequestGroup, SchedulesScenario
from engine.service import client, fair_queue, files
from engine.service.app_mark import AppMark, is_alive
from engine.service.store import hashed

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
    """A client with a service of this test's own; nothing of it may be left."""
    made = client.Client()
    monkeypatch.setattr(client, "_client", made)
    yield made
    family = processes(made)
    made.stop()
    assert_gone(family)


def processes(service) -> list[psutil.Process]:
    if service._link is None or not service._link.alive:
        return []
    parent = psutil.Process(service._link.process.pid)
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
        assert status.active, (status, states, rest)
        assert time.monotonic() < deadline, (status, states, rest)
        time.sleep(0.02)


def test_a_day_at_the_service(service, home):
    """Queue, turns, places, cancels, live records, answers: in one go, since every start costs seconds."""
    first = client.submit(LONG, browser="a")
    second, third, fourth = client.submit(scenario(), browser="a"), client.submit(scenario(), browser="b"), client.submit(scenario(seed=1), browser="b")
    assert client.status(first).state in ("queued", "running") and client.status(first).active
    wait_for(first, "running", phase="measuring")
    wait_for(third, "queued", place=1)
    wait_for(second, "queued", place=2)
    wait_for(fourth, "queued", place=3)
    assert client.result(first) is None and client.result(second) is None
    assert client.status(first, "a").own and not client.status(first, "b").own and not client.status(first).own

    # Live: it grows, and what it shows is the beginning of the run.
    views = []
    while len(views) < 3:
        view = client.live(first)
        if view and "unified" in view["schedules"] and (not views or view["version"] > views[-1]["version"]):
            views.append(view)
        assert client.status(first).active
        time.sleep(0.02)
    steps = [view["schedules"]["unified"]["trace"]["steps"] for view in views]
    assert 0 < len(steps[0]) < len(steps[1]) < len(steps[2]) and steps[2][: len(steps[0])] == steps[0]
    assert not views[0]["schedules"]["unified"]["complete"] and len(views[2]["pieces"]["chat-0"]["unified"]) > 10
    assert views[0]["schedules"]["unified"]["resources"][0]["worker"] == "engine-0"
    assert client.live(second) is None and client.live("nobody-knows-this-run") is None
    assert client.status(second).expected_s is None, "nothing is known of such a run yet"

    # Cancel: one's own only, waiting or running; the workers stay for the next.
    assert not client.cancel(second, "b") and client.status(second).active
    assert client.cancel(second, "a")
    wait_for(second, "cancelled")
    wait_for(fourth, "queued", place=2)
    workers = {process.pid for process in processes(service)[1:]}
    assert not client.cancel(first) and not client.cancel(first, "b") and client.cancel(first, "a")
    wait_for(first, "cancelled", seconds=5)
    assert client.live(first) is None
    done = wait_for(third, "done")
    assert (done.done, done.result_id, done.answered, done.active) == (1.0, third, False, False)
    wait_for(fourth, "done")
    assert {process.pid for process in processes(service)[1:]} == workers, "the workers stood ready for the next job"
    result = client.result(third)
    assert result["run_id"] == third and result["schedules"]["unified"]["metrics"]["finished"] == 1
    assert client.result(first) is None and client.result(second) is None
    assert not client.cancel(third, "b") and client.status(third).state == "done"

    # Answers: an equal scenario has its result at once, and both have it in their list; again means again.
    assert client.submit(scenario(), browser="a") == third
    assert [run.id for run in client.runs("a")] == [third] and [run.id for run in client.runs("b")] == [fourth, third]
    again = client.submit(scenario(), browser="c", again=True)
    assert again != third
    wait_for(again, "done", result_id=again, answered=False)
    assert client.submit(scenario()) == again, "the newest"

    # An equal one that waits is answered when its turn comes.
    one, two = client.submit(scenario(seed=2)), client.submit(scenario(seed=2))
    assert one != two
    wait_for(one, "done", result_id=one, answered=False)
    wait_for(two, "done", result_id=one, answered=True)

    # Another client (after a restart) is told the same.
    assert client.Client().status(third, "b") == done.__class__("done", done=1.0, result_id=third, own=True)
    assert client.Client().status(two).result_id == one and client.Client().status(first, "a").state == "cancelled"

    # Stopped in the middle of a job: nothing is left, and nobody waits for it.
    last, behind = client.submit(LONG), client.submit(scenario(seed=3))
    wait_for(last, "running", phase="measuring")
    family = processes(service)
    assert len(family) >= 2
    begun = time.monotonic()
    client.stop()
    assert time.monotonic() - begun < 8
    assert_gone(family, seconds=2)
    for run_id in (last, behind):
        for asked in (client.status(run_id), client.Client().status(run_id)):
            assert asked.state == "failed" and asked.error["code"] == "app-stopped"
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
    assert service._link is None, "nothing was started for it"


def test_what_has_to_be_fetched_first_is_told_before_anything_starts(service):
    """Queued, it would fail minutes later; and only what can be fetched is offered."""
    for changes, code in (({"model": "smollm2-135m-instruct"}, "model-missing"), ({"text": "kjv"}, "text-missing"), ({"text": "own:" + "0" * 64}, "text-missing")):
        with pytest.raises(LabError) as caught:
            client.submit(scenario(**changes))
        assert caught.value.code == code
    assert service._link is None
    assert not client.model_ready("smollm2-135m-instruct") and client.model_ready("random-tiny") and not client.model_ready("/etc/passwd")
    assert not client.text_ready("kjv") and client.text_ready("korean")


def test_unknown_ids_are_unknown_and_cancel_is_harmless(service):
    """Links outlive runs; looking one up must not start a service."""
    assert client.status("nobody-knows-this-run").state == "unknown" and client.result("nobody-knows-this-run") is None
    assert client.cancel("nobody-knows-this-run") is False
    client.start()
    client.stop()
    assert service._link is None


def test_a_full_queue_is_told_at_once(service, monkeypatch, tmp_path):
    """Queued anyway, it would be refused by the service, and the page would have shown a place in between."""
    monkeypatch.setattr(fair_queue, "MOST_PER_BROWSER", 2)
    silent = tmp_path / "service"
    silent.write_text("#!/bin/sh\nwhile read line; do :; done\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    for browser in ("a", "a", "b"):
        client.submit(scenario(9), browser=browser)
    with pytest.raises(LabError) as caught:
        client.submit(scenario(9), browser="a")
    assert caught.value.code == "queue-full"


def test_a_service_that_cannot_start_is_an_error_and_not_a_wait(service, monkeypatch):
    """Its page would show "queued" for ever; and it must not be started without end."""
    started = []
    link = client.Link.__init__
    monkeypatch.setattr(client.Link, "__init__", lambda self, *rest: started.append(1) or link(self, *rest))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    try:
        error = wait_for(client.submit(scenario(10)), "failed", seconds=60).error
    except LabError as refused:
        error = refused.as_dict()
    assert error["code"] == "service-gone" and 1 <= len(started) <= client.MOST_DEATHS


def test_a_service_that_dies_while_jobs_come_loses_none(service, monkeypatch, tmp_path):
    """A job that came between its death and the news of it used to be taken from all others' new service, or sent twice."""
    script, taken = tmp_path / "service", tmp_path / "taken"
    again = f"while read -r line; do printf '%s\\n' \"$line\" >>{taken}; done; exit"
    script.write_text(f"#!/bin/sh\nif [ -e {taken} ]; then {again}; fi\n: >{taken}\nread line\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    ended, heard = service._ended, threading.Event()
    monkeypatch.setattr(service, "_ended", lambda *how: heard.wait(10) and ended(*how))
    first = client.submit(scenario(20))
    while service._link.alive:
        time.sleep(0.01)
    second = client.submit(scenario(21))
    heard.set()
    deadline = time.monotonic() + 60
    while len(taken.read_text().splitlines()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert [json.loads(line)["id"] for line in taken.read_text().splitlines()] == [first, second]
    assert client.status(first).active and client.status(second).active


def test_a_job_that_was_not_handed_over_yet_is_not_handed_over_twice(service, monkeypatch, tmp_path):
    """The service dies while a job is being noted: both that job's own page and the restart would send it."""
    script, taken = tmp_path / "service", tmp_path / "taken"
    script.write_text(f"#!/bin/sh\nwhile read -r line; do printf '%s\\n' \"$line\" >>{taken}; done\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    first = client.submit(scenario(22))
    put = service.store.put_job

    def slowly(*arguments, **named):
        put(*arguments, **named)
        before = service._link
        before.process.kill()
        while service._link in (before, None):
            time.sleep(0.01)

    monkeypatch.setattr(service.store, "put_job", slowly)
    second = client.submit(scenario(23))
    deadline = time.monotonic() + 60
    while second not in taken.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    time.sleep(0.1)
    ids = [json.loads(line)["id"] for line in taken.read_text().splitlines()]
    assert ids.count(second) == 1 and set(ids) == {first, second}


def test_half_a_line_from_a_killed_service_fails_its_job(service, monkeypatch, tmp_path):
    """The mirror used to die of it, and the page showed a running job until the next was submitted."""
    script = tmp_path / "service"
    script.write_text(
        '#!/bin/sh\nread line\nid=$(printf "%s" "$line" | sed \'s/.*"id": "\\([^"]*\\)".*/\\1/\')\n'
        'printf \'{"id": "%s", "state": "running", "phase": "measuring", "done": 0.5, "facts": {}}\\n{"id": "%s", "sta\' $id $id\nexit 3\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    run_id = client.submit(scenario(11))
    assert wait_for(run_id, "failed", seconds=60).error["facts"]["why"] in ("exit code 3", "signal 9")
    deadline = time.monotonic() + 10  # whoever watches is told first, then the store
    while (remembered := client.Client().status(run_id)).error is None:
        assert time.monotonic() < deadline, remembered
        time.sleep(0.02)
    assert remembered.error["code"] == "service-gone"


def test_a_record_that_cannot_be_understood_loses_nothing_else(service, monkeypatch, tmp_path):
    """The mirror used to end with it, and every job from then on waited for ever."""
    script = tmp_path / "service"
    lines = (
        '"state": "running", "phase": "measuring", "done": 0.5, "facts": {}',
        '"live": {"records": [["unified", 0, {"type": "step", "pieces": [[0, "a word without a plan"]]}]]}',
        '"state": "done", "done": 1.0',
    )
    said = "".join(f"printf '{{\"id\": \"%s\", {line}}}\\n' $id\n" for line in lines)
    script.write_text(f"#!/bin/sh\nread line\nid=$(printf \"%s\" \"$line\" | sed 's/.*\"id\": \"\\([^\"]*\\)\".*/\\1/')\n{said}read line\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    wait_for(client.submit(scenario(12)), "done", seconds=60)


def test_a_result_that_was_stored_just_before_the_service_was_killed_is_done(service):
    """Its file is there, and only the news of it was lost."""
    name = "job-number-00000000042"
    service._jobs[name] = client._Job({"id": name, "browser": hashed("a"), "kind": "schedules", "scenario": {}})
    files.write_result(service.store.folder, {"run_id": name, "kind": "schedules", "manifest": {}, "schedules": {}})
    service._fail([service._jobs[name]], LabError("service-gone", why="signal 9"))
    assert client.status(name).state == "done" and client.status(name).result_id == name
    files.path_of(service.store.folder, name).unlink()


def test_how_long_until_it_starts_and_ends(service, monkeypatch):
    """The rest of what runs, and all that is ahead; nothing where anything of it is unknown."""
    now = [1000.0]
    monkeypatch.setattr(client.time, "monotonic", lambda: now[0])
    for name in ("a", "b", "c"):
        service._jobs[name] = client._Job({"id": name, "browser": "", "kind": "schedules", "scenario": {}})
    service._hear({"id": "a", "state": "queued", "place": 0, "estimate_s": 20.0, "ahead_s": 0.0})
    service._hear({"id": "b", "state": "queued", "place": 1, "estimate_s": 30.0, "ahead_s": 0.0})
    service._hear({"id": "c", "state": "queued", "place": 2, "estimate_s": None, "ahead_s": 30.0})
    assert [client.status(name).expected_s for name in "abc"] == [0.0, 0.0, 30.0]
    service._hear({"id": "a", "state": "running", "phase": "starting-workers", "done": 0.0})
    now[0] += 5
    assert [client.status(name).expected_s for name in "abc"] == [15.0, 15.0, 45.0]
    service._hear({"id": "a", "state": "running", "phase": "measuring", "done": 0.0})
    now[0] += 6
    service._hear({"id": "a", "state": "running", "phase": "measuring", "done": 0.6})
    assert [round(client.status(name).expected_s, 6) for name in "abc"] == [9.0, 9.0, 39.0], "another phase may follow"
    service._hear({"id": "c", "state": "queued", "place": 2, "estimate_s": None, "ahead_s": None})
    assert client.status("c").expected_s is None
    service._hear({"id": "a", "state": "done", "result_id": "a"})
    assert client.status("a").expected_s is None and client.status("b").expected_s == 0.0


def test_only_the_newest_ended_jobs_are_kept_in_memory(service, monkeypatch):
    """A server that runs for a term would keep every job of it; the older ones are read from the store."""
    monkeypatch.setattr(client, "ENDED_KEPT", 3)
    names = [f"job-number-{number:011d}" for number in range(6)]
    for name in names:
        service._jobs[name] = client._Job({"id": name, "browser": hashed("a"), "kind": "schedules", "scenario": {}})
        service.store.put_job(name, browser=hashed("a"), kind="schedules", scenario={}, app="")
    for name in names:
        service._fail([service._jobs[name]], LabError("app-stopped"))
    assert list(service._jobs) == names[3:]
    assert all(client.status(name, "a").error["code"] == "app-stopped" and client.status(name, "a").own for name in names)


def test_an_app_is_alive_as_long_as_it_holds_its_mark(home):
    """By process id and time, a restart after a clock jump would let the jobs of a dead app wait for ever."""
    mark = AppMark()
    assert is_alive(mark.token) and is_alive(mark.token)
    mark.release()
    assert not is_alive(mark.token) and not is_alive("0123456789abcdef") and not is_alive("")
    script = "from engine.service.app_mark import AppMark\nmark = AppMark()\nprint(mark.token, flush=True)\ninput()"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    token = process.stdout.readline().strip()
    assert is_alive(token)
    process.kill()
    process.communicate()
    assert not is_alive(token) and not list((home / "locks").glob(f"app-{token}*"))


@pytest.mark.parametrize("line", [b"", b"garbage\n", b'{"do": "submit", "id"', b"[]\n", b"{}\n", b"[" * 100_000], ids=lambda line: repr(line[:30]))
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


def test_a_request_that_hits_a_bug_fails_alone(home):
    """Its page must not wait for ever, and nobody else's job may be lost with it."""
    process = subprocess.Popen([sys.executable, "-m", "engine.service"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        process.stdin.write(b'{"do": "submit", "id": "odd", "browser": []}\n')
        process.stdin.flush()
        told = json.loads(process.stdout.readline())
        assert told["id"] == "odd" and told["state"] == "failed" and told["error"]["code"] == "worker-error"
        assert process.poll() is None
        process.stdin.close()
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.wait()
