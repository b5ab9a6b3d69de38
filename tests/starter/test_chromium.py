"""A Chromium that really starts is found or installed; no test is passed over for want of one."""

import os
import stat
from pathlib import Path

import lab
import pytest


def browser(path: Path, text: str = "echo Chromium 1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def env(tmp_path):
    """An environment in which no browser is installed yet."""
    return {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path / "home")}


def test_none_is_found_where_there_is_none(env):
    assert lab.find_chromium(env, "Linux") is None


def test_the_systems_own_comes_first_then_playwrights_newest(env, tmp_path):
    cache = tmp_path / "home" / ".cache" / "ms-playwright"
    old = browser(cache / "chromium-999" / "chrome-linux" / "chrome")
    assert lab.find_chromium(env, "Linux") == str(old)
    new = browser(cache / "chromium-1200" / "chrome-linux64" / "chrome")
    assert lab.find_chromium(env, "Linux") == str(new)
    chrome = browser(tmp_path / "bin" / "google-chrome")
    assert lab.find_chromium(env, "Linux") == str(chrome)
    chromium = browser(tmp_path / "bin" / "chromium")
    assert lab.find_chromium(env, "Linux") == str(chromium)


def test_on_a_mac_apps_and_the_library_folder_are_looked_into(env, tmp_path):
    cached = browser(
        tmp_path / "home/Library/Caches/ms-playwright/chromium-1200/chrome-mac/Chromium.app/Contents/MacOS/Chromium"
    )
    app = browser(tmp_path / "Google Chrome.app" / "Contents" / "MacOS" / "Google Chrome")
    assert lab.chromium_candidates(env, "Darwin", [str(app)]) == [str(app), str(cached)]


def test_one_that_does_not_start_is_passed_over(env, tmp_path):
    browser(tmp_path / "bin" / "chromium", "echo 'error while loading shared libraries' >&2; exit 127\n")
    good = browser(tmp_path / "bin" / "google-chrome")
    assert lab.find_chromium(env, "Linux") == str(good)


def test_ubuntus_stub_for_a_snap_is_passed_over(env, tmp_path):
    """It is there, it may even say a version, and it cannot see the tests' temporary folders."""
    stub = browser(tmp_path / "bin" / "chromium-browser", "exec /snap/bin/chromium \"$@\"\n")
    assert lab.is_snap(str(stub))
    assert lab.find_chromium(env, "Linux", works=lambda path: True) is None


def test_the_one_asked_for_is_taken_or_complained_about(env, tmp_path):
    browser(tmp_path / "bin" / "chromium")
    wanted = browser(tmp_path / "elsewhere" / "chrome")
    assert lab.find_chromium(dict(env, LAB_CHROMIUM=str(wanted)), "Linux") == str(wanted)
    with pytest.raises(lab.SetupError, match="LAB_CHROMIUM=/no/such does not start"):
        lab.find_chromium(dict(env, LAB_CHROMIUM="/no/such"), "Linux")


@pytest.fixture
def installers(monkeypatch, env, tmp_path):
    """Records the installers called; the one named in `installers.works` brings a browser."""

    class Installers(list):
        works = ""

    calls = Installers()

    def bring(name, path):
        calls.append(name)
        if name.startswith(calls.works or "nothing"):
            browser(path)
            return True
        return False

    monkeypatch.setattr(lab, "apt_install", lambda name: bring("apt " + name, tmp_path / "bin" / "chromium"))
    monkeypatch.setattr(
        lab,
        "run",
        lambda command, **_: bring(
            " ".join(command[2:]), tmp_path / "home/.cache/ms-playwright/chromium-1/chrome-linux/chrome"
        ),
    )
    monkeypatch.setattr(lab.shutil, "which", _which(lab.shutil.which))
    return calls


def _which(real):
    return lambda name, path=None: "/usr/bin/apt-get" if name == "apt-get" else real(name, path=path)


@pytest.mark.parametrize(
    ("root", "os_fields", "works", "called"),
    [
        (True, {"ID": "debian"}, "apt", ["apt chromium"]),
        (True, {"ID": "debian"}, "playwright", ["apt chromium", "playwright install chromium --with-deps"]),
        (False, {"ID": "debian"}, "playwright", ["playwright install chromium"]),
        (True, {"ID": "ubuntu", "ID_LIKE": "debian"}, "playwright", ["playwright install chromium --with-deps"]),
        (True, {"ID": "fedora"}, "playwright", ["playwright install chromium"]),
    ],
)
def test_how_each_system_gets_one(installers, env, monkeypatch, root, os_fields, works, called):
    monkeypatch.setattr(lab, "is_root", lambda: root)
    installers.works = works
    path = lab.install_chromium("python", env, "Linux", os_fields)
    assert os.path.isfile(path)
    assert installers == called


@pytest.mark.parametrize(
    ("system", "os_fields", "advice"),
    [
        ("Linux", {"ID": "debian"}, "sudo apt-get install -y chromium"),
        ("Linux", {"ID": "ubuntu", "ID_LIKE": "debian"}, "sudo python -m playwright install --with-deps chromium"),
        ("Darwin", {}, "brew install --cask google-chrome"),
    ],
)
def test_when_nothing_works_the_command_to_type_is_named(installers, env, monkeypatch, system, os_fields, advice):
    monkeypatch.setattr(lab, "is_root", lambda: False)
    monkeypatch.setattr(lab, "CHROMIUM_MAC_APPS", ())
    with pytest.raises(lab.SetupError, match=advice):
        lab.install_chromium("python", env, system, os_fields)


@pytest.fixture
def driver(tmp_path):
    """The environment's Python, and Playwright's driver, which lacks a library."""
    folder = tmp_path / "env/lib/python3.12/site-packages/playwright/driver"
    node = browser(folder / "node", "echo 'libatomic.so.1: cannot open shared object file' >&2; exit 127\n")
    return str(tmp_path / "env/bin/python"), node


def test_the_library_playwrights_driver_lacks_on_a_bare_debian_is_installed(driver, monkeypatch):
    python, node = driver
    asked = []
    monkeypatch.setattr(lab, "is_root", lambda: True)
    monkeypatch.setattr(lab.shutil, "which", lambda name: "/usr/bin/" + name)
    monkeypatch.setattr(lab, "apt_install", lambda name: asked.append(name) or bool(browser(node)))
    lab.ensure_playwright_starts(python, {"ID": "debian"})
    lab.ensure_playwright_starts(python, {"ID": "debian"})
    assert asked == ["libatomic1"]


def test_a_driver_that_does_not_start_is_a_command_to_type_for_others(driver, monkeypatch):
    monkeypatch.setattr(lab, "is_root", lambda: False)
    with pytest.raises(lab.SetupError, match="sudo apt-get install -y libatomic1"):
        lab.ensure_playwright_starts(driver[0], {"ID": "ubuntu", "ID_LIKE": "debian"})
    with pytest.raises(lab.SetupError, match="libatomic"):
        lab.ensure_playwright_starts(driver[0], {"ID": "fedora"})
