"""A fitting Python and a whole virtual environment, or words that help."""

import ast
import os
import stat
import sys
from pathlib import Path

import lab
import pytest


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_an_old_python_can_read_the_starter_far_enough_to_say_it_is_old():
    ast.parse(Path(lab.__file__).read_text(encoding="utf-8"), feature_version=(3, 7))


@pytest.mark.parametrize(
    ("version", "fits"), [((3, 10), False), ((3, 11), True), ((3, 14), True), ((3, 15), False), ((4, 0), False)]
)
def test_which_pythons_fit(version, fits):
    assert lab.is_supported(version) is fits


def test_another_python_is_found_on_the_path_past_names_that_only_print_an_error(tmp_path):
    executable(tmp_path / "python3.13", "echo 'not installed' >&2; exit 127\n")
    good = executable(tmp_path / "python3.12", "exit 0\n")
    executable(tmp_path / "python3.14", "exit 0\n")
    assert lab.find_python(str(tmp_path)) == str(good)
    good.unlink()
    assert lab.find_python(str(tmp_path)) == str(tmp_path / "python3.14")


def test_no_fitting_python_is_an_error_that_names_the_versions(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(lab, "find_python", lambda: None)
    with pytest.raises(lab.SetupError, match=r"3\.11 to 3\.14 is needed, and this is 3\.9"):
        lab.ensure_python(["app"])


def test_it_goes_on_under_another_python_but_never_in_a_circle(monkeypatch):
    calls = []
    monkeypatch.setattr(sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(lab, "find_python", lambda: "/opt/python3.12")
    monkeypatch.setattr(os, "execve", lambda *arguments: calls.append(arguments))
    lab.ensure_python(["test", "-k", "x y"])
    path, command, env = calls[0]
    assert path == "/opt/python3.12"
    assert command[1:] == [lab.os.path.join(lab.ROOT, "lab.py"), "test", "-k", "x y"]
    monkeypatch.setenv("LAB_REENTERED", env["LAB_REENTERED"])
    with pytest.raises(lab.SetupError):
        lab.ensure_python(["test"])


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Darwin", "x86_64")])
def test_systems_without_a_build_are_told_so(system, machine):
    with pytest.raises(lab.SetupError, match="WSL2|Intel"):
        lab.check_platform(system, machine)


@pytest.mark.parametrize(("system", "machine"), [("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64")])
def test_systems_with_a_build_pass(system, machine):
    lab.check_platform(system, machine)


def test_the_environment_is_beside_the_starter_unless_told_otherwise(tmp_path):
    assert lab.venv_dir({}) == os.path.join(lab.ROOT, ".venv")
    assert lab.venv_dir({"LAB_VENV": str(tmp_path / "e")}) == str(tmp_path / "e")


def test_an_environment_is_whole_only_with_its_interpreter(tmp_path):
    assert lab.venv_version(str(tmp_path)) is None
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.2\n")
    assert lab.venv_version(str(tmp_path)) is None
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").symlink_to(tmp_path / "uninstalled")
    assert lab.venv_version(str(tmp_path)) is None
    (tmp_path / "uninstalled").touch()
    assert lab.venv_version(str(tmp_path)) == (3, 11)


def test_an_environment_is_made_once_and_made_anew_when_broken(tmp_path):
    venv = str(tmp_path / "with space" / "env")
    with lab.only_one(venv):
        assert lab.ensure_venv(venv)
        assert not lab.ensure_venv(venv)
        os.unlink(lab.venv_python(venv))
        assert lab.ensure_venv(venv)
    assert lab.output_of([lab.venv_python(venv), "-m", "pip", "--version"])


def test_a_folder_of_something_else_is_never_emptied(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(lab.SetupError, match="not a virtual environment"):
        lab.ensure_venv(str(tmp_path))
    assert (tmp_path / "thesis.tex").exists()


@pytest.fixture
def without_ensurepip(monkeypatch):
    monkeypatch.setattr(lab.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else object())
    monkeypatch.setattr(lab.shutil, "which", lambda name: "/usr/bin/" + name)


def test_debians_missing_venv_is_installed_by_root(without_ensurepip, monkeypatch):
    asked = []

    def apt_install(package):
        asked.append(package)
        monkeypatch.setattr(lab.importlib.util, "find_spec", lambda name: object())
        return True

    monkeypatch.setattr(lab, "is_root", lambda: True)
    monkeypatch.setattr(lab, "apt_install", apt_install)
    lab.ensure_venv_module((3, 13), {"ID": "debian"})
    assert asked == ["python3.13-venv"]


def test_debians_missing_venv_is_a_command_to_type_for_others(without_ensurepip, monkeypatch):
    monkeypatch.setattr(lab, "is_root", lambda: False)
    with pytest.raises(lab.SetupError, match="sudo apt-get install -y python3.12-venv"):
        lab.ensure_venv_module((3, 12), {"ID": "ubuntu", "ID_LIKE": "debian"})


def test_a_missing_venv_elsewhere_names_the_python(without_ensurepip):
    with pytest.raises(lab.SetupError, match="comes without venv"):
        lab.ensure_venv_module((3, 12), {"ID": "fedora"})


def test_os_release_is_read_with_and_without_quotes(tmp_path):
    (tmp_path / "os-release").write_text('ID=ubuntu\nID_LIKE="debian"\n# none\n\nNAME=\'Ubuntu\'\n')
    fields = lab.os_release(str(tmp_path / "os-release"))
    assert fields["ID"] == "ubuntu"
    assert fields["ID_LIKE"] == "debian"
    assert fields["NAME"] == "Ubuntu"
    assert lab.os_release(str(tmp_path / "none")) == {}
