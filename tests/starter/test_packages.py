"""The starter installs what is pinned, once, and notices when that is no longer so."""

import http.server
import json
import threading

import lab
import pytest


@pytest.fixture
def requirements(tmp_path, monkeypatch):
    """Two requirements files, the tests' holding the app's; returns their folder."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "app.txt").write_text("# why\ntorch==2.0.0\n\nstreamlit==1.0  # the pages\n")
    (tmp_path / "tests" / "test.txt").write_text("-r ../app.txt\npytest==9.0\n")
    files = {"app": str(tmp_path / "app.txt"), "test": str(tmp_path / "tests" / "test.txt")}
    monkeypatch.setattr(lab, "REQUIREMENTS", files)
    return tmp_path


@pytest.fixture
def venv(tmp_path):
    (tmp_path / "venv").mkdir()
    return str(tmp_path / "venv")


@pytest.fixture
def installs(monkeypatch):
    """Records what pip would be asked for; pip succeeds unless `installs.fail` is set."""

    class Installs(list):
        fail = False

    calls = Installs()

    def pip_install(_python, *arguments):
        calls.append(arguments[-1].rpartition("/")[2])
        return not calls.fail

    monkeypatch.setattr(lab, "pip_install", pip_install)
    monkeypatch.setattr(lab, "run", lambda command, **_: calls.append(" ".join(command[3:])) or True)
    return calls


def test_lines_of_included_files_stand_where_they_are_included(requirements):
    lines = lab.requirement_lines(lab.REQUIREMENTS["test"])
    assert lines == ["torch==2.0.0", "streamlit==1.0", "pytest==9.0"]
    assert lab.pinned_version(lines, "torch") == "2.0.0"
    assert lab.pinned_version(lines, "numpy") is None


def test_our_own_files_pin_every_package_exactly():
    app = lab.requirement_lines(lab.REQUIREMENTS["app"])
    test = lab.requirement_lines(lab.REQUIREMENTS["test"])
    assert set(app) < set(test)
    assert all("==" in line for line in test)
    assert lab.pinned_version(app, "torch")


def test_a_stamp_changes_with_the_packages_and_the_torch_build_but_not_with_comments(requirements):
    lines = lab.requirement_lines(lab.REQUIREMENTS["app"])
    stamp = lab.stamp_of(lines, "cpu")
    assert stamp == lab.stamp_of(lines[::-1], "cpu")
    assert stamp != lab.stamp_of(lines, "default")
    assert stamp != lab.stamp_of([*lines, "numpy==1"], "cpu")


def test_the_second_time_pip_is_not_called(requirements, venv, installs):
    lab.ensure_packages(venv, "app", "default")
    assert installs == ["app.txt"]
    lab.ensure_packages(venv, "app", "default")
    assert installs == ["app.txt"]


def test_the_tests_packages_finish_the_apps_too_but_not_the_other_way_round(requirements, venv, installs):
    lab.ensure_packages(venv, "test", "default")
    lab.ensure_packages(venv, "app", "default")
    assert installs == ["test.txt"]
    (requirements / "app.txt").write_text("torch==2.0.0\nstreamlit==1.1\n")
    lab.ensure_packages(venv, "app", "default")
    lab.ensure_packages(venv, "test", "default")
    assert installs == ["test.txt", "app.txt", "test.txt"]


def test_a_failed_install_is_tried_again_and_says_how_much_room_it_needs(requirements, venv, installs):
    installs.fail = True
    with pytest.raises(lab.SetupError, match="GB are free here"):
        lab.ensure_packages(venv, "app", "default")
    installs.fail = False
    lab.ensure_packages(venv, "app", "default")
    assert installs == ["app.txt", "app.txt"]


def test_another_torch_build_replaces_the_one_there(requirements, venv, installs):
    """pip takes 2.0.0+cpu for 2.0.0, so a GPU added later would never be used."""
    lab.ensure_packages(venv, "app", "default")
    lab.ensure_packages(venv, "app", "https://wheels.example/cu")
    assert installs == ["app.txt", "uninstall -y -q torch", "torch==2.0.0", "app.txt"]


def test_a_replacement_cut_short_is_not_taken_for_finished(requirements, venv, installs):
    lab.ensure_packages(venv, "app", "default")
    installs.fail = True
    with pytest.raises(lab.SetupError, match="LAB_TORCH_INDEX"):
        lab.ensure_packages(venv, "app", "https://wheels.example/cu")
    installs.fail = False
    del installs[:]
    lab.ensure_packages(venv, "app", "default")
    assert installs == ["app.txt"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"stamps": 1}', '{"torch": "x"}', "\0"])
def test_a_broken_note_of_earlier_set_ups_means_starting_over(venv, text):
    with open(lab.os.path.join(venv, "lab-state.json"), "w") as file:
        file.write(text)
    assert lab.read_state(venv)["stamps"] == {}
    lab.write_state(venv, {"stamps": {"app": "1"}, "torch": "2 from cpu"})
    assert json.dumps(lab.read_state(venv)["stamps"]) == '{"app": "1"}'


@pytest.mark.parametrize(
    ("env", "system", "gpu", "source"),
    [
        ({}, "Linux", False, "cpu"),
        ({}, "Linux", True, "default"),
        ({}, "Darwin", False, "default"),
        ({"LAB_TORCH_INDEX": ""}, "Linux", False, "cpu"),
        ({"LAB_TORCH_INDEX": "default"}, "Linux", False, "default"),
        ({"LAB_TORCH_INDEX": "https://wheels.example/cu"}, "Linux", True, "https://wheels.example/cu"),
    ],
)
def test_which_torch_build_is_taken(env, system, gpu, source):
    assert lab.torch_source(env, system, lambda: gpu) == source


@pytest.mark.parametrize(
    ("offline", "reachable", "asked"),
    [(True, True, []), (False, True, ["torch==2.0.0"]), (False, False, [])],
)
def test_the_cpu_build_comes_from_this_machine_then_its_index_then_is_given_up(
    installs, monkeypatch, offline, reachable, asked
):
    """A network that never answers must not hold the set-up: the index is probed, pip is not left waiting."""
    monkeypatch.setattr(lab, "output_of", lambda *_, **__: "" if offline else None)
    monkeypatch.setattr(lab, "is_reachable", lambda _address: reachable)
    lab.install_torch("python", "2.0.0", "cpu")
    assert installs == asked


class _Answer(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(200 if self.path == "/there" else 404)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_an_index_is_reachable_only_if_it_answers():
    server = http.server.HTTPServer(("127.0.0.1", 0), _Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = "http://127.0.0.1:%d" % server.server_port
    try:
        assert lab.is_reachable(address + "/there")
        assert not lab.is_reachable(address + "/gone")
    finally:
        server.shutdown()
        server.server_close()
    assert not lab.is_reachable(address + "/there", timeout_s=1)
    assert not lab.is_reachable("no address at all")


def test_an_index_that_takes_the_call_and_says_nothing_is_given_up_in_time():
    with lab.socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(1)
        assert not lab.is_reachable("http://127.0.0.1:%d/" % silent.getsockname()[1], timeout_s=0.2)
