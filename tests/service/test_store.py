"""Results on disk: whole or not at all, found by their id and by nothing else."""

import errno
import json
import os

import pytest

from engine.errors import LabError
from engine.service import client, store

RUN_ID = "AbCdEfGh_-01234567890x"
RESULT = {"run_id": RUN_ID, "kind": "schedules", "manifest": {}, "schedules": {}, "texts": {"a": "가나다 🙂"}}


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    client._load.cache_clear()
    yield tmp_path / "home"
    client._load.cache_clear()


def files(home):
    return sorted(path.name for path in (home / "runs").iterdir())


def test_a_result_is_read_back_as_it_was():
    """Korean and emoji included."""
    path = store.save(RESULT)
    assert store.exists(RUN_ID) and store.load(RUN_ID) == RESULT
    assert json.loads(path.read_text(encoding="utf-8")) == RESULT


def test_a_new_run_id_can_be_stored_and_given_to_a_command_line():
    """An id with a dash in front is an option to every command it is given to."""
    from engine.experiments.scenarios import new_run_id

    names = {new_run_id() for _ in range(2000)}
    assert len(names) == 2000 and not any(name.startswith("-") for name in names)
    assert all(len(name) == 22 and store._RUN_ID.fullmatch(name) for name in names)


@pytest.mark.parametrize("name", ["os.fsync", "os.replace"])
def test_a_full_disk_leaves_the_old_result_and_nothing_half_written(home, monkeypatch, name):
    """The result is announced only once it is whole on disk; a cut one would be found by its link and fail there."""
    store.save(RESULT)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(f"engine.service.store.{name}", full)
    with pytest.raises(LabError) as caught:
        store.save({**RESULT, "texts": {}})
    assert caught.value.code == "store-unwritable" and "No space left" in str(caught.value)
    assert store.load(RUN_ID) == RESULT and files(home) == [f"{RUN_ID}.json"]


def test_a_result_that_is_no_json_leaves_nothing(home):
    """Half a file under a temporary name would stay for ever."""
    with pytest.raises(TypeError):
        store.save({**RESULT, "texts": object()})
    assert files(home) == []


def test_the_file_is_complete_before_it_has_its_name(home, monkeypatch):
    """Whoever looks in the meantime sees no result, not half of one."""
    seen = []
    replace = os.replace

    def watched(source, target):
        seen.append((json.loads(open(source, encoding="utf-8").read()), store.exists(RUN_ID)))
        replace(source, target)

    monkeypatch.setattr("engine.service.store.os.replace", watched)
    store.save(RESULT)
    assert seen == [(RESULT, False)]


@pytest.mark.parametrize(
    "run_id",
    ["../../etc/passwd", "../" * 8 + "etc/passwd", "/etc/passwd", "", ".", "..", "a" * 15, "a" * 65, "a" * 5000, "a/b" * 6, "run id with spaces in it",
     "가" * 20, "\0" * 20, RUN_ID + "\n", RUN_ID + ".json", "%2e%2e%2fetc%2fpasswd", "..\\..\\windows\\win.ini", "x" * 20 + "\ud800"],
)  # fmt: skip
def test_a_hostile_run_id_finds_nothing(home, run_id):
    """Ids come from links: they must not name other files of the machine, nor make the page fail."""
    store.save(RESULT)
    secret = home / "secret.json"
    secret.write_text(json.dumps(RESULT))
    assert not store.exists(run_id) and store.load(run_id) is None
    assert client.result(run_id) is None and client.status(run_id).state == "unknown"


def test_an_id_that_leads_out_of_the_folder_finds_nothing(home):
    """Long enough to look like an id, and a file is really there."""
    store.save(RESULT)
    (home / "secretsecretsecret.json").write_text(json.dumps(RESULT))
    assert not store.exists("../secretsecretsecret")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", json.dumps(RESULT).encode()[:-5], b"[]", b"null", b"5", b'"text"', b"\xff\xfe\x00", b"[" * 200_000, b"\x00" * 100, b"{}",
     json.dumps({**RESULT, "schedules": []}).encode(), json.dumps({**RESULT, "run_id": 5}).encode()],
    ids=lambda content: repr(content[:12]),
)  # fmt: skip
def test_a_damaged_file_is_told_as_that(home, content):
    """Cut by a full disk, or another program's file: one sentence with its path."""
    path = store.save(RESULT)
    path.write_bytes(content)
    for read in (store.load, client.result):
        with pytest.raises(LabError) as caught:
            read(RUN_ID)
        assert caught.value.code == "run-unreadable" and caught.value.facts["path"] == str(path)
    assert client.status(RUN_ID).state == "done", "asking for the state reads no file"


def test_a_folder_in_its_place_is_no_result(home):
    """Something else by that name must not break the page."""
    (home / "runs" / f"{RUN_ID}.json").mkdir(parents=True)
    assert not store.exists(RUN_ID) and client.status(RUN_ID).state == "unknown"


def test_a_file_name_that_is_no_text_can_be_stored():
    """A path with bytes of another encoding ends up in the manifest: the result used to be lost after the measurement."""
    name = b"mod\xe8le.gguf".decode("utf-8", "surrogateescape")
    store.save({**RESULT, "manifest": {"model": {"name": name}}})
    assert store.load(RUN_ID)["manifest"]["model"]["name"] == name


def test_a_data_folder_that_cannot_be_made(monkeypatch, tmp_path):
    """One sentence, whichever step fails first."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "file"))
    with pytest.raises(LabError) as caught:
        store.save(RESULT)
    assert caught.value.code in ("data-folder", "store-unwritable")
