"""What the commands end in: a server on a free port, or pytest with all it needs."""

import os
import socket
import subprocess
import sys

import lab
import pytest

STARTER = os.path.join(lab.ROOT, "lab.py")


@pytest.fixture
def listening():
    """A port somebody listens on."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(1)
        yield server.getsockname()[1]


@pytest.fixture
def ready(monkeypatch):
    """A machine that is set up; returns the (command, env) this process would become."""
    became = []
    monkeypatch.setattr(lab, "set_up", lambda name: "python")
    monkeypatch.setattr(lab, "fetch_data", lambda python: [])
    monkeypatch.setattr(lab, "become", lambda command, env: became.append((command, env)))
    return became


def test_a_taken_port_is_seen_and_a_free_one_is_free(listening):
    assert lab.is_taken(listening, "127.0.0.1")
    assert lab.is_taken(listening, "0.0.0.0")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    assert not lab.is_taken(free, "127.0.0.1")


def test_the_next_free_port_is_taken():
    assert lab.free_port(8501, "127.0.0.1", taken=lambda port, _: port < 8504) == 8504


@pytest.mark.parametrize("wanted", [8501, 65535])
def test_no_free_port_is_an_error_not_an_endless_search(wanted):
    with pytest.raises(lab.SetupError, match="No free port"):
        lab.free_port(wanted, "127.0.0.1", taken=lambda *_: True)


def test_a_port_taken_is_said_and_another_used(ready, listening, capsys):
    lab.app(["--port", str(listening), "--no-browser"])
    command, _ = ready[0]
    port = int(command[command.index("--server.port") + 1])
    assert port > listening
    said = capsys.readouterr().out
    assert "port %d is taken" % listening in said
    assert "http://localhost:%d" % port in said


def test_the_app_is_for_this_machine_only_unless_a_class_is_let_in(ready, monkeypatch):
    """Naming the address also keeps Streamlit from asking an outside service for it."""
    monkeypatch.setattr(lab, "lan_address", lambda: "192.168.1.20")
    lab.app(["--no-browser"])
    lab.app(["--no-browser", "--address", "0.0.0.0"])
    option = [[c[c.index(name) + 1] for name in ("--server.address", "--browser.serverAddress")] for c, _ in ready]
    assert option == [["127.0.0.1", "localhost"], ["0.0.0.0", "192.168.1.20"]]


def test_unknown_options_go_to_streamlit_and_win_over_ours(ready):
    lab.app(["--no-browser", "--browser.serverAddress", "lab.example"])
    assert ready[0][0][-2:] == ["--browser.serverAddress", "lab.example"]


@pytest.mark.parametrize("port", ["0", "-1", "65536", "http"])
def test_a_port_that_is_none_is_refused(port, capsys):
    with pytest.raises(SystemExit):
        lab.app_options(["--port", port])
    assert "--port" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "system", "screen"),
    [
        ({}, "Linux", False),
        ({"DISPLAY": ":0"}, "Linux", True),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "Linux", True),
        ({}, "Darwin", True),
        ({"SSH_CONNECTION": "1 2 3 4"}, "Darwin", False),
    ],
)
def test_a_browser_opens_only_where_there_is_a_screen(env, system, screen):
    assert lab.has_screen(env, system) is screen


def test_this_machines_address_is_found_without_sending_anything():
    assert lab.lan_address()


def test_the_app_starts_without_the_model_and_says_so(ready, monkeypatch, capsys):
    monkeypatch.setattr(lab, "fetch_data", lambda python: ["kjv"])
    lab.app(["--no-browser"])
    assert "not fetched: kjv. The app starts all the same" in capsys.readouterr().out
    assert ready


def test_the_tests_do_not_start_without_the_model(ready, monkeypatch):
    monkeypatch.setattr(lab, "fetch_data", lambda python: ["kjv"])
    with pytest.raises(lab.SetupError, match="not fetched: kjv"):
        lab.test([])
    assert not ready


def test_arguments_of_test_go_to_pytest_with_the_browser_in_the_environment(ready, monkeypatch):
    monkeypatch.setattr(lab, "find_chromium", lambda env, system: "/usr/bin/chromium")
    lab.test(["-k", "foo or bar", "-x"])
    command, env = ready[0]
    assert command == ["python", "-m", "pytest", *lab.TEST_WORKERS, "-k", "foo or bar", "-x"]  # theirs last, so -n 0 counts
    assert env["LAB_CHROMIUM"] == "/usr/bin/chromium"


def test_a_missing_browser_is_installed_before_the_tests(ready, monkeypatch):
    monkeypatch.setattr(lab, "find_chromium", lambda env, system: None)
    monkeypatch.setattr(lab, "install_chromium", lambda *_: "/installed/chromium")
    lab.test([])
    assert ready[0][1]["LAB_CHROMIUM"] == "/installed/chromium"


def test_two_set_ups_of_one_environment_take_turns(tmp_path):
    venv = str(tmp_path / "env")
    waiter = "import lab, sys\nwith lab.only_one(sys.argv[1]): print('my turn')"
    with lab.only_one(venv):
        other = subprocess.Popen(
            [sys.executable, "-c", waiter, venv], stdout=subprocess.PIPE, text=True, cwd=lab.ROOT
        )
        assert "waiting" in other.stdout.readline()
    assert "my turn" in other.communicate(timeout=20)[0]


@pytest.mark.parametrize(
    ("arguments", "status"), [([], 2), (["frobnicate"], 2), (["--help"], 0), (["app", "--help"], 0)]
)
def test_usage(arguments, status):
    done = subprocess.run([sys.executable, STARTER, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == status
    assert "lab.py" in (done.stderr if status else done.stdout)


def test_a_set_up_that_fails_is_one_message_without_a_traceback(tmp_path):
    (tmp_path / "full").write_text("")
    env = dict(os.environ, LAB_VENV=str(tmp_path / "full" / "env"))
    done = subprocess.run([sys.executable, STARTER, "app"], capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 1
    assert done.stderr.startswith("lab: ")
    assert "Traceback" not in done.stderr
