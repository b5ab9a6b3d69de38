"""Results on disk: whole or not at all, found by their id and by nothing else; and an index that can be lost."""

import errno
import gzip
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.errors import LabError
from engine.experiments.scenarios import RequestGroup, SchedulesScenario
from engine.service import client, files, kinds
from engine.service import store as store_module
from engine.service.store import Store, hashed

ROOT = Path(__file__).resolve().parents[2]
RUN_ID = "AbCdEfGh_-01234567890x"
SCENARIO = SchedulesScenario("test", (RequestGroup("chat", 1, 10, 5),), model="random-tiny", text="korean", device="cpu", dtype="float32")


def result(run_id=RUN_ID, scenario=SCENARIO, size=0, **manifest) -> dict:
    """A result as an experiment gives it, in small."""
    about = {
        "scenario": scenario.as_dict(), "scenario_key": scenario.key(), "device": client.device(), "dtype": "float32",
        "versions": {"engine": "1", "torch": "2"}, "started_at": "2026-01-01T00:00:00Z", "duration_s": 2.5,
    }  # fmt: skip
    metrics = {"ttft_s": 1.5, "itl_max_s": None, "kv_peak_bytes": 5}
    noise = "".join(gzip.compress(os.urandom(size)).hex()) if size else ""
    return {
        "run_id": run_id, "kind": "schedules", "manifest": {**about, **manifest}, "schedules": {"unified": {"metrics": metrics}},
        "texts": {"a": "가나다 🙂"}, "noise": noise,
    }  # fmt: skip


RESULT = result()


def name_of(number) -> str:
    return f"run-number-{number:011d}"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAB_HOME", str(tmp_path / "home"))
    yield tmp_path / "home"


@pytest.fixture
def store():
    return Store(wait_s=0.2)


def names(home):
    return sorted(path.name for path in (home / "runs").iterdir() if not path.name.startswith("runs.db"))


class TestFiles:
    def test_a_result_is_read_back_as_it_was(self, store, home):
        """Korean and emoji included; compressed."""
        store.save(RESULT)
        assert store.exists(RUN_ID) and store.load(RUN_ID) == RESULT
        assert json.loads(gzip.decompress((home / "runs" / f"{RUN_ID}.json.gz").read_bytes())) == RESULT

    def test_a_result_of_the_version_before_is_read_too(self, store, home):
        """Links to it were given away."""
        (home / "runs" / f"{RUN_ID}.json").write_text(json.dumps(RESULT))
        assert store.exists(RUN_ID) and store.load(RUN_ID) == RESULT == client.result(RUN_ID)

    def test_a_new_run_id_can_be_stored_and_given_to_a_command_line(self):
        """An id with a dash in front is an option to every command it is given to."""
        from engine.experiments.scenarios import new_run_id

        found = {new_run_id() for _ in range(2000)}
        assert len(found) == 2000 and not any(name.startswith("-") for name in found)
        assert all(len(name) == 22 and files.RUN_ID.fullmatch(name) for name in found)

    @pytest.mark.parametrize("name", ["os.fsync", "os.replace"])
    def test_a_full_disk_leaves_the_old_result_and_nothing_half_written(self, store, home, monkeypatch, name):
        """The result is announced only once it is whole on disk; a cut one would be found by its link and fail there."""
        store.save(RESULT)

        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(f"engine.service.files.{name}", full)
        with pytest.raises(LabError) as caught:
            store.save({**RESULT, "texts": {}})
        assert caught.value.code == "store-unwritable" and "No space left" in str(caught.value)
        assert store.load(RUN_ID) == RESULT and names(home) == [f"{RUN_ID}.json.gz"]

    def test_a_result_that_is_no_json_leaves_nothing(self, store, home):
        """Half a file under a temporary name would stay for ever."""
        with pytest.raises(TypeError):
            store.save({**RESULT, "texts": object()})
        assert names(home) == []

    def test_the_file_is_complete_before_it_has_its_name_and_its_row(self, store, home, monkeypatch):
        """Whoever looks in the meantime sees no result, not half of one."""
        seen = []
        replace = os.replace

        def watched(source, target):
            seen.append((files.read_result(Path(source)), store.exists(RUN_ID), store.runs()))
            replace(source, target)

        monkeypatch.setattr("engine.service.files.os.replace", watched)
        store.save(RESULT)
        assert seen == [(RESULT, False, [])] and [run.id for run in store.runs()] == [RUN_ID]

    @pytest.mark.parametrize(
        "run_id",
        ["../../etc/passwd", "../" * 8 + "etc/passwd", "/etc/passwd", "", ".", "..", "a" * 15, "a" * 65, "a" * 5000, "a/b" * 6, "run id with spaces in it",
         "가" * 20, "\0" * 20, RUN_ID + "\n", RUN_ID + ".json", "%2e%2e%2fetc%2fpasswd", "..\\..\\windows\\win.ini", "x" * 20 + "\ud800", "../runs.db", "runs.db"],
    )  # fmt: skip
    def test_a_hostile_run_id_finds_nothing(self, store, home, run_id):
        """Ids come from links: they must not name other files of the machine, nor make the page fail."""
        store.save(RESULT)
        secret = home / "secret.json"
        secret.write_text(json.dumps(RESULT))
        assert not store.exists(run_id) and store.load(run_id) is None
        assert client.result(run_id) is None and client.status(run_id).state == "unknown"
        with pytest.raises(LabError) as caught:
            client.pin(run_id, True)
        assert caught.value.code == "run-unknown"

    def test_an_id_that_leads_out_of_the_folder_finds_nothing(self, store, home):
        """Long enough to look like an id, and a file is really there."""
        (home / "secretsecretsecret.json").write_text(json.dumps(RESULT))
        assert not store.exists("../secretsecretsecret")

    @pytest.mark.parametrize(
        "content",
        [b"", b"{", json.dumps(RESULT).encode()[:-5], b"[]", b"null", b"5", b'"text"', b"\xff\xfe\x00", b"[" * 200_000, b"\x00" * 100, b"{}",
         json.dumps({**RESULT, "schedules": []}).encode(), json.dumps({**RESULT, "run_id": 5}).encode(), b"\x1f\x8b", gzip.compress(json.dumps(RESULT).encode(), mtime=0)[:-9],
         gzip.compress(json.dumps(RESULT).encode(), mtime=0)[:40] + b"\xff" * 40, gzip.compress(b"no", mtime=0)],
        ids=lambda content: repr(content[:12]),
    )  # fmt: skip
    def test_a_damaged_file_is_told_as_that(self, store, home, content):
        """Cut by a full disk, or another program's file: one sentence with its path."""
        store.save(RESULT)
        path = home / "runs" / f"{RUN_ID}.json.gz"
        path.write_bytes(content)
        client._load.cache_clear()
        for read in (store.load, client.result):
            with pytest.raises(LabError) as caught:
                read(RUN_ID)
            assert caught.value.code == "run-unreadable" and caught.value.facts["path"] == str(path)
        assert client.status(RUN_ID).state == "done", "asking for the state reads no file"
        assert Store().adopt() == 0

    def test_a_folder_in_its_place_is_no_result(self, store, home):
        """Something else by that name must not break the page."""
        (home / "runs" / f"{RUN_ID}.json").mkdir(parents=True)
        assert not store.exists(RUN_ID) and client.status(RUN_ID).state == "unknown" and store.adopt() == 0

    def test_a_file_name_that_is_no_text_can_be_stored(self, store):
        """A path with bytes of another encoding ends up in the manifest: the result used to be lost after the measurement."""
        name = b"mod\xe8le.gguf".decode("utf-8", "surrogateescape")
        store.save({**RESULT, "manifest": {"model": {"name": name}, "scenario": {"workload": name}}})
        assert store.load(RUN_ID)["manifest"]["model"]["name"] == name
        assert store.exists(RUN_ID) and [run.id for run in store.runs()] == [RUN_ID]

    def test_a_data_folder_that_cannot_be_made(self, monkeypatch, tmp_path):
        """One sentence, whichever step fails first."""
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("LAB_HOME", str(tmp_path / "file"))
        with pytest.raises(LabError) as caught:
            Store().save(RESULT)
        assert caught.value.code in ("data-folder", "store-unwritable")


class TestIndex:
    def test_what_a_row_says(self, store):
        """The list of runs is drawn from it alone."""
        store.save(RESULT, hashed("a browser"))
        (run,) = store.runs()
        assert (run.id, run.kind, run.title, run.started_at, run.pinned) == (RUN_ID, "schedules", "test", "2026-01-01T00:00:00Z", False)
        assert run.summary == {"unified": {"ttft_s": 1.5, "itl_max_s": None}} and run.browser == hashed("a browser") != "a browser"
        (past,) = store.past("schedules", kinds.device_key(RESULT["manifest"]))
        assert (past.key, past.work, past.duration_s) == (SCENARIO.key(), 15 * 3, 2.5)

    @pytest.mark.parametrize("changes", [{"manifest": {}}, {"manifest": {"scenario": 5, "versions": [], "duration_s": "x"}}, {"schedules": {"a": 5}}, {"kind": "another"}])
    def test_a_result_in_an_odd_shape_is_listed_all_the_same(self, store, changes):
        """Of another version, perhaps: it must not end the adoption of all others."""
        store.save({**RESULT, **changes})
        assert [run.id for run in store.runs()] == [RUN_ID]

    def test_a_file_that_cannot_be_removed_fails_no_run(self, store, monkeypatch):
        """What was stored is stored, whatever the clean-up meets."""
        monkeypatch.setattr(store_module, "limit_bytes", lambda: 1)
        store.save(result(name_of(0)))
        unlink = Path.unlink

        def stuck(path, missing_ok=False):
            if path.name.startswith(name_of(0)):
                raise PermissionError(errno.EPERM, "no")
            unlink(path, missing_ok)

        monkeypatch.setattr(Path, "unlink", stuck)
        store.save(result(name_of(1)))
        assert [run.id for run in store.runs()] == [name_of(1), name_of(0)]

    def test_a_browser_sees_its_own_runs_and_those_it_was_answered_with(self, store):
        """The list of everybody's runs would be a list of links to them."""
        for number, browser in enumerate(("a", "b", "a")):
            store.save(result(name_of(number)), hashed(browser))
        assert [run.id for run in store.runs(hashed("a"))] == [name_of(2), name_of(0)]
        store.put_job("x" * 22, browser=hashed("a"), kind="schedules", scenario={}, app="", state="done", result_id=name_of(1), answered=True)
        assert [run.id for run in store.runs(hashed("a"))] == [name_of(2), name_of(1), name_of(0)]
        assert [run.id for run in store.runs(hashed("a"), limit=1)] == [name_of(2)] and store.runs(hashed("c")) == []
        store.save({**result(name_of(9)), "kind": "backlog"}, hashed("a"))
        assert [run.id for run in store.runs(hashed("a"), 1, "schedules")] == [name_of(2)], "many sweeps hide no other run"

    def test_an_answer_is_the_newest_equal_run_that_is_nobodys_own(self, store, home):
        """Another device's times would be a lie; somebody's own text must never come out again."""
        key, here = SCENARIO.key(), kinds.device_key(RESULT["manifest"])
        assert store.find(key, here) is None
        store.save(result(name_of(1)))
        store.save(result(name_of(2)))
        own = SCENARIO.changed({"text": "own:" + "0" * 64})
        store.save(result(name_of(3), own))
        store.save(result(name_of(4), SCENARIO.changed({"model": "/home/me/model"})))
        store.save(result(name_of(5), dtype="bfloat16"))
        assert store.find(key, here) == name_of(2)
        assert store.find(own.key(), here) is None and store.find(SCENARIO.changed({"seed": 1}).key(), here) is None
        for other in ({"versions": {"engine": "1", "torch": "3"}}, {"versions": {"engine": "2", "torch": "2"}}, {"device": {"name": "another"}}):
            assert store.find(key, kinds.device_key({**RESULT["manifest"], **other})) is None
        (home / "runs" / f"{name_of(2)}.json.gz").unlink()
        assert store.find(key, here) == name_of(1), "a row without its file is no answer"

    def test_the_device_key_is_that_of_a_run_made_here(self):
        """Two ways to the same key: if they differ nothing is ever answered from the store."""
        import engine
        from importlib.metadata import version

        manifest = {"device": client.device(), "dtype": "float32", "versions": {"engine": engine.__version__, "torch": version("torch")}}
        assert kinds.device_key(manifest) == kinds.device_key_here(SCENARIO.changed({"device": "auto"}))

    def test_files_without_a_row_are_adopted_and_rows_without_a_file_go(self, store, home):
        """Between the file and its row the machine may lose its power; and a user may delete files."""
        store.save(result(name_of(1)))
        files.write_result(store.folder, result(name_of(2)))
        (home / "runs" / f"{name_of(3)}.json").write_text(json.dumps(result(name_of(3))))
        (home / "runs" / f"{name_of(4)}.json").write_text("{")
        (home / "runs" / "notes.json").write_text("{}")
        (home / "runs" / f"{name_of(5)}.json.gz.999999999.tmp").write_text("half")
        assert store.unindexed() and store.adopt() == 2
        assert {run.id for run in store.runs()} == {name_of(1), name_of(2), name_of(3)}
        assert "half" not in [path.read_text() for path in (home / "runs").glob("*.tmp")]
        (home / "runs" / f"{name_of(4)}.json").unlink()
        assert not store.unindexed() and store.adopt() == 0
        (home / "runs" / f"{name_of(1)}.json.gz").unlink()
        store.adopt()
        assert {run.id for run in store.runs()} == {name_of(2), name_of(3)}

    @pytest.mark.parametrize(
        "odd",
        [{"manifest": {"versions": [1]}}, {"run_id": "\x00"}, {"schedules": [1], "points": [{}]}, {"manifest": {"duration_s": 10**400}}],
        ids=["versions", "name", "points", "time"],
    )
    def test_whatever_lies_in_the_folder_does_not_stop_the_adoption(self, store, home, odd):
        """The service used to end with it, at every start: nothing could be measured any more."""
        (home / "runs" / f"{name_of(1)}.json").write_text(json.dumps({**RESULT, **odd}))
        files.write_result(store.folder, result(name_of(2)))
        store.adopt()
        assert name_of(2) in {run.id for run in store.runs()}

    def test_an_adopted_run_is_still_its_browsers(self, store):
        """The service was killed between file and row: the reader's own list must have the run."""
        store.put_job(name_of(1), browser=hashed("a"), kind="schedules", scenario={}, app="")
        files.write_result(store.folder, result(name_of(1)))
        assert store.adopt() == 1 and [run.id for run in store.runs(hashed("a"))] == [name_of(1)]

    @pytest.mark.parametrize("damage", ["deleted", "cut", "garbage", "middle", "empty", "older"])
    def test_a_damaged_index_is_put_aside_and_made_again(self, store, home, capfd, damage):
        """It used to hold nothing that the files do not tell; losing it must not lose a result, nor a pin."""
        for number in range(40):
            store.save(result(name_of(number)))
        store.pin(name_of(7), True)
        path = home / "runs" / "runs.db"
        whole = path.read_bytes()
        if damage == "deleted":
            path.unlink()
        elif damage == "older":
            connection = sqlite3.connect(path)
            connection.execute("ALTER TABLE runs DROP COLUMN work")
            connection.close()
        else:
            content = {"cut": whole[: len(whole) // 2], "garbage": b"garbage" * 1000, "empty": b""}
            path.write_bytes(content.get(damage, whole[:4096] + b"\xff" * (len(whole) - 4096)))
        store.save(result(name_of(40)))  # in whatever state it is
        again = Store()
        again.adopt()
        runs = again.runs(limit=100)
        assert {run.id for run in runs} == {name_of(number) for number in range(41)}
        assert [run.id for run in runs if run.pinned] == [name_of(7)]
        if damage not in ("deleted", "empty"):
            assert (home / "runs" / "runs.db.damaged").exists() and "runs.db.damaged" in capfd.readouterr().err

    def test_only_one_of_two_processes_puts_a_damaged_index_aside(self, store, home):
        """The second used to be about to put the new one aside, with the rows that the first had just written."""
        store.save(RESULT)
        damaged = (1, 1)  # what the second saw; meanwhile another file has its place
        store._index._put_aside(damaged, None)
        assert [run.id for run in store.runs()] == [RUN_ID] and not (home / "runs" / "runs.db.damaged").exists()

    def test_the_oldest_go_first_but_never_a_pinned_one_nor_the_newest(self, store, home, monkeypatch):
        """A run that a teacher pinned for his lecture must be there in the lecture."""
        monkeypatch.setenv("LAB_STORE_MB", "1")
        store.save(result(name_of(0), size=100_000))
        store.pin(name_of(0), True)
        for number in range(1, 12):
            store.save(result(name_of(number), size=100_000))
        kept = {run.id for run in store.runs(limit=100)}
        total = sum(path.stat().st_size for path in (home / "runs").glob("*.gz"))
        assert kept == {path.name.removesuffix(".json.gz") for path in (home / "runs").glob("*.gz")}
        assert name_of(0) in kept and name_of(11) in kept and name_of(1) not in kept and total <= 1_000_000 < total + 150_000
        others = sorted(kept - {name_of(0)})
        assert others == [name_of(number) for number in range(12 - len(others), 12)], "the newest, without a gap"
        store.save(result(name_of(99), size=2_000_000))
        assert {run.id for run in store.runs(limit=100)} == {name_of(0), name_of(99)}, "larger than all the room, it stays: it was asked for"

    @pytest.mark.parametrize("now", ["1999-01-01T00:00:00Z", "2099-01-01T00:00:00Z"])
    def test_a_clock_that_jumps_does_not_change_what_is_oldest(self, store, home, monkeypatch, now):
        """Set back by a year, the run just measured would be the oldest of all, and gone."""
        monkeypatch.setenv("LAB_STORE_MB", "1")
        for number in range(12):
            if number == 6:
                monkeypatch.setattr(store_module, "utc_now", lambda: now)
            path = result(name_of(number), size=100_000, started_at=store_module.utc_now())
            store.save(path)
            when = 0 if now < "2000" and number >= 6 else time.time()
            os.utime(home / "runs" / f"{name_of(number)}.json.gz", (when, when))
        newest = [run.id for run in store.runs(limit=3)]
        assert newest == [name_of(11), name_of(10), name_of(9)] and not store.exists(name_of(0))

    def test_pins_take_half_of_the_room_at_most(self, store, home, monkeypatch):
        """With everything pinned no run could be stored without going over the limit."""
        monkeypatch.setenv("LAB_STORE_MB", "1")
        for number in range(4):
            store.save(result(name_of(number), size=180_000))
        for number in range(2):
            store.pin(name_of(number), True)
        with pytest.raises(LabError) as caught:
            store.pin(name_of(2), True)
        assert caught.value.code == "pins-full" and caught.value.facts == {"limit_mb": "0.5"} and "unpin" in str(caught.value)
        store.pin(name_of(0), True)
        store.pin(name_of(0), False)
        store.pin(name_of(2), True)
        assert {run.id for run in store.runs() if run.pinned} == {name_of(1), name_of(2)}
        assert not (home / "runs" / f"{name_of(0)}.pin").exists()

    @pytest.mark.parametrize("value, megabytes", [("", 2000), ("500", 500), ("0", 1), ("-5", 2000), ("nonsense", 2000), ("1e9", 2000), (" 7 ", 7)])
    def test_a_limit_that_is_none(self, monkeypatch, value, megabytes):
        """A typing error in a setting must not delete results."""
        monkeypatch.setenv("LAB_STORE_MB", value)
        assert store_module.limit_bytes() == megabytes * 1_000_000


class TestJobs:
    def put(self, store, name, app="app", **rest):
        store.put_job(name, browser=hashed("b"), kind="schedules", scenario=SCENARIO.as_dict(), app=app, **rest)

    def test_the_first_word_on_a_job_stands(self, store):
        """A cancel that comes too late must not take a result back."""
        self.put(store, "a" * 22)
        assert store.job("a" * 22).state == "queued" and store.job("b" * 22) is None
        store.end_jobs(["a" * 22], "done", result_id="x", answered=True)
        store.end_jobs(["a" * 22, "nobody"], "failed", error=LabError("app-stopped").as_dict())
        job = store.job("a" * 22)
        assert (job.state, job.error, job.result_id, job.answered, job.browser) == ("done", None, "x", True, hashed("b"))

    def test_the_jobs_of_an_app_that_is_gone_have_failed_and_no_others(self, store):
        """Its pages ask for them after the restart: they must not wait for ever."""
        self.put(store, "a" * 22, "gone")
        self.put(store, "b" * 22, "alive")
        self.put(store, "c" * 22, "gone", state="done", result_id="x")
        assert sorted(store.waiting_apps()) == ["alive", "gone"]
        store.fail_jobs_of("gone")
        assert [store.job(name * 22).state for name in "abc"] == ["failed", "queued", "done"]
        assert store.job("a" * 22).error["code"] == "app-stopped" and store.waiting_apps() == ["alive"]

    def test_old_jobs_are_forgotten_but_none_that_waits(self, store, monkeypatch):
        """A term of lectures must not make the index large."""
        monkeypatch.setattr(store_module, "_JOBS_KEPT", 5)
        self.put(store, "w" * 22)
        for number in range(10):
            self.put(store, f"job-{number}", state="failed")
        found = [number for number in range(10) if store.job(f"job-{number}")]
        assert found == [5, 6, 7, 8, 9] and store.job("w" * 22).state == "queued"


@contextmanager
def held(path, *statements):
    """Another process that does not let go of the database."""
    script = "import sqlite3, sys\nc = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
    script += "".join(f"c.execute({statement!r}).fetchall()\n" for statement in statements)
    script += "print('held', flush=True)\nsys.stdin.read()\n"
    process = subprocess.Popen([sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "held\n"
        yield
    finally:
        process.communicate()


class TestLocked:
    def test_a_result_outlives_an_index_that_is_held(self, store, home):
        """A backup program that holds the index for a minute must not cost a measurement."""
        store.save(result(name_of(1)))
        with held(home / "runs" / "runs.db", "BEGIN EXCLUSIVE"):
            begun = time.monotonic()
            store.save(result(name_of(2)), hashed("b"))
            assert 0.15 < time.monotonic() - begun, "it waited for its turn"
            assert store.load(name_of(2)) and [run.id for run in store.runs()] == [name_of(1)]
            assert client.status(name_of(2)).state == "done" and not store.settle()
            with pytest.raises(LabError) as caught:
                store.pin(name_of(1), True)
            assert caught.value.code == "store-busy" and not (home / "runs" / f"{name_of(1)}.pin").exists()
        assert store.settle() and [(run.id, run.browser) for run in store.runs()] == [(name_of(2), hashed("b")), (name_of(1), "")]

    def test_a_page_gives_up_soon_and_says_why(self, store, home, monkeypatch):
        """Thirty pages that wait for ever are a server that hangs; "unknown" would be a lie."""
        store.save(RESULT)
        monkeypatch.setattr(client, "_client", made := client.Client())
        monkeypatch.setattr(made, "_kept_store", store)
        store._index.close()
        with held(home / "runs" / "runs.db", "PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE", "CREATE TABLE x (y)", "COMMIT"):
            for ask in (lambda: client.runs("b"), lambda: client.status("x" * 22), store.waiting_apps):
                with pytest.raises(LabError) as caught:
                    ask()
                assert caught.value.code == "store-busy" and "nothing is lost" in str(caught.value)
            assert client.status(RUN_ID).state == "done" and client.result(RUN_ID) == RESULT, "the file is there"
            client.start()
        assert [run.id for run in client.runs("")] == [RUN_ID]
