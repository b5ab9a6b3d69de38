"""A learner's progress: kept, taken elsewhere with a code, erased; whatever a browser, two of them, or a damaged disk do."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from engine import texts
from engine.errors import LabError
from engine.service import client, files, progress
from engine.service.index import LEARNERS
from engine.service.progress import Learner, Learners, merged
from engine.service.rate import Rate
from engine.service.store import Store, hashed
from tests.service.test_store import RUN_ID, held, home, name_of, result

__all__ = ["home"]

ROOT = Path(__file__).resolve().parents[2]
ME, OTHER, THIRD = (hashed(name) for name in ("me", "another browser", "a third"))


@pytest.fixture
def learners() -> Learners:
    return Store(wait_s=2.0).learners


def refused(code: str, work, *arguments) -> LabError:
    with pytest.raises(LabError) as caught:
        work(*arguments)
    assert caught.value.code == code
    return caught.value


def known(learners: Learners, browser: str) -> dict:
    """What is noted, without the times."""
    found = learners.of(browser).progress
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", record["at"]) for record in found.values())
    return {topic: {name: value for name, value in record.items() if name != "at"} for topic, record in found.items()}


def counted(index, monkeypatch) -> list[int]:
    """For how many each transaction wrote, from now on."""
    written_for, write_for = [], index._write_for

    def counting(together: list) -> None:
        written_for.append(len(together))
        write_for(together)

    monkeypatch.setattr(index, "_write_for", counting)
    return written_for


def wait_until(true) -> None:
    deadline = time.monotonic() + 60
    while not true() and time.monotonic() < deadline:
        time.sleep(0.01)


@contextlib.contextmanager
def waiting_in_line(index, monkeypatch):
    """Somebody writes and does not end. `release(number)`: when so many wait, he ends; for how many each one then wrote."""
    begun, end = threading.Event(), threading.Event()
    writer = threading.Thread(target=index.write, args=(lambda _: (begun.set(), end.wait(60)),))
    writer.start()
    begun.wait(60)
    written_for = counted(index, monkeypatch)

    def release(number: int) -> list[int]:
        wait_until(lambda: len(index._waiting) >= number)
        end.set()
        writer.join(60)
        return written_for

    yield release
    end.set()
    writer.join(60)


class TestNoting:
    def test_what_is_noted_is_there_for_this_browser_and_no_other(self, learners):
        """Also for another process: the next visit is another one. The browser's own name is nowhere in the files."""
        assert learners.of(ME) == Learner()
        learners.note(ME, "lesson:memory", {"opened": True})
        learners.note(ME, "predict:memory-wall", {"option": "더 많이 🙂"})
        expected = {"lesson:memory": {"opened": True}, "predict:memory-wall": {"option": "더 많이 🙂"}}
        assert known(learners, ME) == known(Store().learners, ME) == expected and known(learners, OTHER) == {}
        assert learners.of(ME).browsers == 1 and learners.of(ME).code_made_at is None

    def test_a_record_is_put_over_the_known_one_and_none_takes_away(self, learners):
        learners.note(ME, "quiz:a", {"state": "wrong", "attempts": 1, "hint": 2})
        learners.note(ME, "quiz:a", {"state": "right", "attempts": 2, "hint": None})
        assert known(learners, ME) == {"quiz:a": {"state": "right", "attempts": 2}}

    def test_nothing_new_is_no_write(self, learners, monkeypatch):
        """Pages note at every rerun; thirty of them that write all the time would hold up the runs."""
        learners.note(ME, "lesson:memory", {"opened": True})
        monkeypatch.setattr(learners._index, "write", lambda _: pytest.fail("it wrote"))
        learners.note(ME, "lesson:memory", {"opened": True})

    def test_two_tabs_at_once_lose_nothing(self, learners):
        """Read, change, write back: without a transaction the second tab's write would drop the first's topic."""
        def tab(number: int) -> None:
            own = Store(wait_s=10.0).learners
            for at in range(8):
                own.note(ME, f"quiz:item-{number}-{at}", {"attempts": at})

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(tab, range(4)))
        assert len(known(learners, ME)) == 32

    def test_the_tabs_of_two_servers_lose_nothing(self, learners):
        """Processes, not threads: the lock of one process does not hold the other."""
        script = (
            "import sys\nfrom engine.service.store import Store\nlearners = Store(wait_s=20.0).learners\n"
            "for at in range(8): learners.note(sys.argv[1], f'quiz:{sys.argv[2]}-{at}', {'attempts': 1})"
        )
        command = [sys.executable, "-c", script, ME]
        both = [subprocess.Popen([*command, name], cwd=ROOT, env={**os.environ}) for name in ("one", "two")]
        assert [process.wait(timeout=60) for process in both] == [0, 0]
        assert len(known(learners, ME)) == 16 and learners.of(ME).browsers == 1

    @pytest.mark.parametrize(
        "topic",
        ["", "lesson:", "memory", "lesson:../x", "quiz:A", "quiz:a b", "quiz:a\n", "lesson:" + "a" * 81, "run:x", "quiz:가", None, 5, "quiz:-a", "__proto__"],
    )  # fmt: skip
    def test_a_topic_that_is_none_is_refused(self, learners, topic):
        """A browser may send what it likes; what is kept has one form."""
        refused("progress-refused", learners.note, ME, topic, {"state": "right"})
        assert learners.of(ME) == Learner()

    @pytest.mark.parametrize(
        "record",
        [[], "right", None, 5, {"text": "x" * 3000}, {"x": float("nan")}, {"x": float("inf")}, {"x": object()}, {"x": {1, 2}}],
        ids=lambda record: repr(record)[:20],
    )
    def test_a_record_that_is_none_is_refused(self, learners, record):
        refused("progress-refused", learners.note, ME, "quiz:a", record)

    def test_a_record_that_is_nested_without_end_is_refused(self, learners):
        deep = {}
        for _ in range(100_000):
            deep = {"x": deep}
        refused("progress-refused", learners.note, ME, "quiz:a", deep)

    def test_what_no_database_takes_as_text_is_kept(self, learners):
        """Half a surrogate pair, which a pasted text may end in, must not fail in the database."""
        learners.note(ME, "quiz:a", {"answer": "half \ud83d and \x00 and <b>'; DROP TABLE learners; --"})
        assert known(learners, ME)["quiz:a"]["answer"].startswith("half \ud83d and \x00")

    def test_one_learner_has_a_limit(self, learners, monkeypatch):
        """Else one browser could fill the disk; and what he had stays."""
        monkeypatch.setattr(progress, "MOST_TOPICS", 3)
        for name in "abc":
            learners.note(ME, f"quiz:{name}", {"attempts": 1})
        error = refused("progress-full", learners.note, ME, "quiz:d", {"attempts": 1})
        assert "3" in str(error) and set(known(learners, ME)) == {"quiz:a", "quiz:b", "quiz:c"}
        learners.note(ME, "quiz:a", {"attempts": 2})
        monkeypatch.setattr(progress, "MOST_BYTES", 300)
        refused("progress-full", learners.note, ME, "quiz:a", {"answer": "x" * 400})

    def test_learners_have_a_limit_and_one_with_a_code_stays_longest(self, learners, monkeypatch):
        """Browsers that refuse cookies are a new learner at each visit: those of a term must not push out who made a code."""
        monkeypatch.setattr(progress, "MOST_LEARNERS", 3)
        learners.note(ME, "lesson:memory", {"opened": True})
        code = learners.new_code(ME)
        for number in range(6):
            learners.note(hashed(f"visit {number}"), "lesson:memory", {"opened": True})
        assert [len(known(learners, hashed(f"visit {number}"))) for number in range(6)] == [0, 0, 0, 0, 1, 1]
        learners.resume(OTHER, code)
        assert known(learners, OTHER) == {"lesson:memory": {"opened": True}}

    def test_200_learners_who_note_at_once_keep_all_and_keep_apart(self, home, monkeypatch):
        """A large class presses the same button: a flush of the disk for each note would make most of them wait too long."""
        monkeypatch.setattr(client, "_client", made := client.Client())
        monkeypatch.setattr(made, "_kept_store", Store(wait_s=30.0))
        written_for = counted(made.store._index, monkeypatch)
        client.note_progress("somebody", "lesson:memory", {"opened": True})
        together = threading.Barrier(200)

        def learn(number: int) -> None:
            together.wait(60)
            for at in range(3):
                client.note_progress(f"learner {number}", f"quiz:item-{at}", {"attempts": number})

        with ThreadPoolExecutor(200) as pool:
            list(pool.map(learn, range(200)))
        for number in range(200):
            expected = {f"quiz:item-{at}": {"attempts": number} for at in range(3)}
            assert known(made.store.learners, hashed(f"learner {number}")) == expected
        assert sum(written_for) == 601 and len(written_for) < 300

    def test_a_note_that_is_refused_spoils_no_other_of_its_transaction(self, learners, monkeypatch):
        """It is taken back alone, and only who noted it hears of it."""
        monkeypatch.setattr(progress, "MOST_BYTES", 300)
        browsers = [hashed(f"learner {number}") for number in range(6)]
        sizes = [10, 400, 10, 10, 400, 10]
        with waiting_in_line(learners._index, monkeypatch) as release, ThreadPoolExecutor(6) as pool:
            notes = [pool.submit(learners.note, b, "quiz:a", {"answer": "x" * size}) for b, size in zip(browsers, sizes, strict=True)]
            written_for = release(6)
        assert written_for == [6]
        for browser, size, note in zip(browsers, sizes, notes, strict=True):
            if size == 400:
                refused("progress-full", note.result)
            assert known(learners, browser) == ({"quiz:a": {"answer": "x" * 10}} if size == 10 else {})
        assert rows(learners) == (4, 4), "a learner who could note nothing is none"

    def test_who_waits_too_long_in_line_has_noted_nothing(self, home, monkeypatch):
        """Told "busy", he tries again: what was refused must not be written behind his back."""
        learners = Store(wait_s=0.2).learners
        with waiting_in_line(learners._index, monkeypatch) as release:
            refused("store-busy", learners.note, ME, "quiz:a", {"attempts": 1})
            assert release(0) == []
        learners.note(OTHER, "quiz:a", {"attempts": 1})
        assert learners.of(ME) == Learner()

    def test_a_disk_that_takes_nothing_is_told_to_all_who_wait(self, learners, monkeypatch):
        """Only one of them spoke with the database: the others must not think that their notes are kept."""
        full = OperationalError("COMMIT", None, sqlite3.OperationalError("database or disk is full"))
        with waiting_in_line(learners._index, monkeypatch) as release, ThreadPoolExecutor(4) as pool, monkeypatch.context() as patch:
            notes = [pool.submit(learners.note, hashed(str(number)), "quiz:a", {"attempts": 1}) for number in range(4)]
            wait_until(lambda: len(learners._index._waiting) == 4)
            patch.setattr(learners._index, "_once", Mock(side_effect=full))
            release(4)
            for note in notes:
                refused("store-unwritable", note.result)
        assert rows(learners) == (0, 0)


class TestCodes:
    def test_a_code_has_eighty_bits_and_only_its_hash_is_kept(self, learners, home):
        """Who reads the database must not be able to go on as somebody else."""
        codes = {learners.new_code(ME) for _ in range(50)}
        assert len(codes) == 50
        letters = {letter for code in codes for letter in code} - {"-"}
        assert all(re.fullmatch(r"([0-9A-HJKMNP-TV-Z]{4}-){3}[0-9A-HJKMNP-TV-Z]{4}", code) for code in codes)
        assert len(letters) > 28, "letters that never come up are bits that are missing"
        kept = b"".join(path.read_bytes() for path in (home / "runs").glob("runs.db*"))
        for code in codes:
            assert code.encode() not in kept and code.replace("-", "").encode() not in kept

    def test_another_browser_goes_on_and_both_share_from_then_on(self, learners):
        learners.note(ME, "quiz:a", {"state": "right", "attempts": 3})
        code = learners.new_code(ME)
        learners.note(OTHER, "quiz:b", {"state": "wrong", "attempts": 1})
        learners.resume(OTHER, code)
        assert known(learners, OTHER) == known(learners, ME) == {"quiz:a": {"state": "right", "attempts": 3}, "quiz:b": {"state": "wrong", "attempts": 1}}
        learners.note(ME, "quiz:c", {"attempts": 1})
        learners.note(OTHER, "quiz:d", {"attempts": 1})
        assert set(known(learners, ME)) == {"quiz:a", "quiz:b", "quiz:c", "quiz:d"} and learners.of(ME).browsers == 2
        learners.resume(OTHER, code)
        assert learners.of(OTHER).browsers == 2, "once more changes nothing"
        assert rows(learners) == (1, 2), "who is merged and has no code is not left behind"

    @pytest.mark.parametrize(
        "typed",
        [str.lower, lambda c: c.replace("-", " "), lambda c: c.replace("-", ""), lambda c: f"  {c}\n", lambda c: c.replace("0", "o").replace("1", "l"),
         lambda c: "".join(chr(ord(x) + 0xFEE0) if "!" <= x <= "~" else x for x in c), lambda c: c.replace("1", "I").replace("-", "–")],
    )  # fmt: skip
    def test_however_it_is_typed(self, learners, monkeypatch, typed):
        """Written down on paper and typed on a phone with a Korean keyboard."""
        letters = iter("0123456789ABCDEF")
        monkeypatch.setattr(progress.secrets, "choice", lambda _: next(letters))
        code = learners.new_code(ME)
        learners.note(ME, "quiz:a", {"attempts": 1})
        learners.resume(OTHER, typed(code))
        assert known(learners, OTHER) == known(learners, ME)

    @pytest.mark.parametrize("code", ["", " ", "0", "ABCD-EFGH-JKMN-PQRS", "x" * 10_000, "\x00", "'; --", "가" * 16, "None", "🙂" * 16])
    def test_a_code_nobody_made_opens_nothing(self, learners, code):
        """A learner without a code has none that could be guessed as empty."""
        learners.note(ME, "quiz:a", {"attempts": 1})
        learners.note(OTHER, "quiz:b", {"attempts": 1})
        refused("code-unknown", learners.resume, OTHER, code)
        assert set(known(learners, OTHER)) == {"quiz:b"}

    def test_a_new_code_voids_the_old_one(self, learners):
        """It was written down on a board: the old one must be worth nothing."""
        learners.note(ME, "quiz:a", {"attempts": 1})
        old, new = learners.new_code(ME), learners.new_code(ME)
        refused("code-unknown", learners.resume, OTHER, old)
        learners.resume(OTHER, new)
        assert known(learners, OTHER) == known(learners, ME)

    def test_who_had_another_code_can_still_use_it(self, learners):
        """On a shared computer somebody enters his code where somebody else had made one: his is added to, the other's stays."""
        learners.note(ME, "quiz:mine", {"attempts": 1})
        mine = learners.new_code(ME)
        learners.note(OTHER, "quiz:theirs", {"attempts": 1})
        theirs = learners.new_code(OTHER)
        learners.resume(OTHER, mine)
        assert set(known(learners, OTHER)) == {"quiz:mine", "quiz:theirs"}
        learners.resume(THIRD, theirs)
        assert set(known(learners, THIRD)) == {"quiz:theirs"}

    def test_a_code_is_for_one_person(self, learners, monkeypatch):
        """Shown on a projector by mistake, it must not make one learner of a class."""
        monkeypatch.setattr(progress, "MOST_READERS", 2)
        code = learners.new_code(ME)
        learners.resume(OTHER, code)
        refused("code-crowded", learners.resume, THIRD, code)
        assert learners.of(THIRD) == Learner() and learners.of(ME).browsers == 2

    def test_more_than_one_learner_may_have_is_not_merged(self, learners, monkeypatch):
        """Half a merge would have lost the rest."""
        monkeypatch.setattr(progress, "MOST_TOPICS", 2)
        for browser in (ME, OTHER):
            for name in "ab":
                learners.note(browser, f"quiz:{browser[:4]}-{name}", {"attempts": 1})
        refused("progress-full", learners.resume, OTHER, learners.new_code(ME))
        assert len(known(learners, ME)) == len(known(learners, OTHER)) == 2 and not set(known(learners, ME)) & set(known(learners, OTHER))

    def test_leaving_a_shared_computer(self, learners):
        """The next one begins with nothing, and the code leads back; without a code nothing is left behind."""
        learners.note(ME, "quiz:a", {"attempts": 1})
        code = learners.new_code(ME)
        learners.leave(ME)
        assert learners.of(ME) == Learner()
        learners.note(ME, "quiz:next", {"attempts": 1})
        learners.resume(OTHER, code)
        assert set(known(learners, OTHER)) == {"quiz:a"}
        learners.leave(ME)
        assert rows(learners) == (1, 1)


RECORD = st.fixed_dictionaries(
    {"at": st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"])},
    optional={"state": st.sampled_from(["right", "wrong", "committed", "shown"]), "attempts": st.integers(0, 9), "opened": st.just(True)},
)
PROGRESS = st.dictionaries(st.sampled_from(["quiz:a", "quiz:b", "lesson:a"]), RECORD)


@given(PROGRESS, PROGRESS)
def test_merging_forgets_nothing(one, other):
    """No topic, no entry, no solved item and no attempt of either browser may be gone."""
    both = merged(one, other)
    assert both.keys() == one.keys() | other.keys()
    for topic, record in both.items():
        parts = [source[topic] for source in (one, other) if topic in source]
        assert record.keys() == set().union(*parts)
        assert record["at"] == max(part["at"] for part in parts)
        if any(part.get("state") in ("right", "committed") for part in parts):
            assert record["state"] in ("right", "committed")
        assert record.get("attempts", 0) == max(part.get("attempts", 0) for part in parts)
    assert merged(one, one) == one


class TestErasing:
    MARK = "an-answer-that-must-be-gone"

    def test_nothing_of_a_learner_is_left_in_any_file(self, learners, home):
        """A row that is deleted stays readable in the database's free pages and in its log, if nobody overwrites it."""
        learners.note(ME, "quiz:a", {"answer": self.MARK})
        code = learners.new_code(ME)
        learners.resume(OTHER, code)
        learners.note(THIRD, "quiz:b", {"attempts": 1})
        assert self.MARK.encode() in written(home)
        learners.erase(OTHER)
        assert learners.of(ME) == learners.of(OTHER) == Learner() and set(known(learners, THIRD)) == {"quiz:b"}
        refused("code-unknown", learners.resume, OTHER, code)
        assert self.MARK.encode() not in written(home) and ME.encode() not in written(home)
        learners.erase(ME)

    def test_runs_stay_unless_they_are_meant_too(self, home, monkeypatch):
        """With them go pins, jobs and pasted texts; what others measured or also ran stays."""
        monkeypatch.setattr(client, "_client", made := client.Client())
        store = made.store
        mine, both = (texts.keep_own_text(text.encode()) for text in ("only mine " * 50, "of both " * 50))
        for number, (browser, text) in enumerate((("me", mine), ("me", both), ("you", both))):
            changed = result(name_of(number))
            store.save(changed, hashed(browser))
            about = {"browser": hashed(browser), "kind": "schedules", "scenario": {"text": text}, "app": ""}
            store.put_job(name_of(number), **about, state="done", result_id=name_of(number))
        store.pin(name_of(0), True)
        client.note_progress("me", "quiz:a", {"attempts": 1})
        client.erase("me")
        assert client.progress("me") == {} and len(client.runs("me")) == 2 and store.job(name_of(0))
        client.erase("me", runs=True)
        assert client.runs("me") == [] and [run.id for run in client.runs("you")] == [name_of(2)]
        assert store.job(name_of(0)) is None and store.job(name_of(2)) is not None
        assert files.path_of(store.folder, name_of(0)) is None and not (home / "runs" / f"{name_of(0)}.pin").exists()
        assert not texts.is_here(mine) and texts.is_here(both)
        assert hashed("me").encode() not in written(home)
        client.erase("me", runs=True)

    def test_a_file_that_cannot_be_removed_is_told_and_can_be_tried_again(self, home, monkeypatch):
        """"Erased" while a result is still there would be a lie."""
        monkeypatch.setattr(client, "_client", made := client.Client())
        made.store.save(result(), hashed("me"))
        unlink = Path.unlink

        def stuck(path, missing_ok=False):
            if path.name.startswith(RUN_ID):
                raise PermissionError(1, "no")
            unlink(path, missing_ok)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", stuck)
            refused("store-unwritable", client.erase, "me", True)
        client.erase("me", runs=True)
        assert client.runs("me") == [] and client.result(RUN_ID) is None


class TestDamage:
    @pytest.mark.parametrize("damage", ["older", "garbage", "middle", "deleted"])
    def test_progress_outlives_what_the_index_does_not(self, learners, home, damage):
        """Runs are made again from their files; of progress there is no other copy. What can be read is taken over."""
        store = Store()
        for number in range(12):
            store.save(result(name_of(number)))
            learners.note(hashed(f"learner {number}"), "quiz:a", {"attempts": number})
        code = learners.new_code(hashed("learner 7"))
        path = home / "runs" / "runs.db"
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            page = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'runs'").fetchone()[0]
        connection.close()
        if damage == "older":
            connection = sqlite3.connect(path)
            connection.execute("ALTER TABLE runs DROP COLUMN work")
            connection.close()
        elif damage == "middle":
            content = bytearray(path.read_bytes())
            content[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
            path.write_bytes(content)
        elif damage == "garbage":
            path.write_bytes(b"garbage" * 1000)
        else:
            path.unlink()
        again = Store()
        again.runs()
        again.adopt()
        assert len(again.runs(limit=100)) == 12, "the index itself is made again"
        found = [known(again.learners, hashed(f"learner {number}")) for number in range(12)]
        if damage in ("older", "middle"):
            assert found == [{"quiz:a": {"attempts": number}} for number in range(12)]
            again.learners.resume(OTHER, code)
            assert known(again.learners, OTHER) == {"quiz:a": {"attempts": 7}}
        else:
            assert found == [{}] * 12
        again.learners.note(ME, "quiz:b", {"attempts": 1})
        assert set(known(again.learners, ME)) == {"quiz:b"}

    @pytest.mark.parametrize("text", ["", "{", "[]", "5", "null", '{"quiz:a": 5, "quiz:b": {"attempts": 1, "at": "2026-01-01T00:00:00Z"}}', "\x00", "x" * 9999])
    def test_a_record_that_damage_changed_ends_no_page(self, learners, home, text):
        """What is still a record counts, and the learner can go on."""
        learners.note(ME, "quiz:c", {"attempts": 1})
        learners._index.write(lambda connection: connection.execute(LEARNERS.update().values(progress=text)))
        assert set(known(learners, ME)) == ({"quiz:b"} if "quiz:b" in text else set())
        learners.note(ME, "quiz:c", {"attempts": 2})
        assert known(learners, ME)["quiz:c"] == {"attempts": 2}

    def test_a_browser_whose_learner_is_gone_begins_anew(self, learners):
        """One of the two tables may have been cut: the browser must not be locked out by its half of the pair."""
        learners.note(ME, "quiz:a", {"attempts": 1})
        learners._index.write(lambda connection: connection.execute(LEARNERS.delete()))
        assert learners.of(ME) == Learner()
        learners.note(ME, "quiz:b", {"attempts": 1})
        assert set(known(learners, ME)) == {"quiz:b"}
        learners._index.write(lambda connection: connection.execute(LEARNERS.delete()))
        code = learners.new_code(OTHER)
        learners.resume(ME, code)
        assert learners.of(ME).browsers == 2

    def test_an_index_that_is_held_says_so_soon(self, home, monkeypatch):
        """A page that waits for ever is a page that hangs."""
        store = Store(wait_s=0.2)
        monkeypatch.setattr(client, "_client", made := client.Client())
        monkeypatch.setattr(made, "_kept_store", store)
        client.note_progress("me", "quiz:a", {"attempts": 1})
        with held(home / "runs" / "runs.db", "BEGIN EXCLUSIVE"):
            assert set(client.progress("me")) == {"quiz:a"}, "to read it is free"
            for ask in (lambda: client.note_progress("me", "quiz:b", {"attempts": 1}), lambda: client.new_resume_code("me"), lambda: client.erase("me")):
                refused("store-busy", ask)
        assert set(client.progress("me")) == {"quiz:a"}


class TestRate:
    def test_a_bucket_fills_up_again(self):
        now = [0.0]
        rate = Rate(3, 60.0, lambda: now[0])
        for _ in range(3):
            rate.take("me")
        assert refused("too-often", rate.take, "me").facts == {"seconds": 20}
        rate.take("you")
        now[0] = 19.0
        refused("too-often", rate.take, "me")
        now[0] = 20.5
        rate.take("me")
        refused("too-often", rate.take, "me")
        now[0] = 1e6
        for _ in range(3):
            rate.take("me")
        refused("too-often", rate.take, "me")

    def test_who_comes_under_many_names_fills_no_memory(self):
        rate = Rate(1, 60.0, lambda: 0.0)
        for number in range(10_500):
            rate.take(str(number))
        assert len(rate._left) == 10_000
        refused("too-often", rate.take, "10499")

    def test_codes_cannot_be_tried_at_will(self, home, monkeypatch):
        monkeypatch.setattr(client, "_client", client.Client())
        for _ in range(client.TRIES[0]):
            refused("code-unknown", client.resume, "me", "ABCD")
        refused("too-often", client.resume, "me", "ABCD")
        refused("too-often", client.new_resume_code, "me")

    def test_a_browser_without_a_name_has_no_progress(self, home, monkeypatch):
        """All command lines share the empty name: they would share a learner."""
        monkeypatch.setattr(client, "_client", client.Client())
        client.note_progress("", "quiz:a", {"attempts": 1})
        assert client.progress("") == {} and client.learner("") == Learner()


def rows(learners: Learners) -> tuple[int, int]:
    """How many learners and how many browsers the index has."""
    count = "SELECT (SELECT count(*) FROM learners), (SELECT count(*) FROM readers)"
    return tuple(learners._index.read(lambda connection: connection.exec_driver_sql(count).one()))


def written(home: Path) -> bytes:
    """All bytes of the index's files."""
    return b"".join(path.read_bytes() for path in sorted((home / "runs").glob("runs.db*")))


def test_what_is_kept_is_json_that_any_program_reads(learners):
    """A teacher's own script may want to count."""
    learners.note(ME, "quiz:a", {"state": "right"})
    text = learners._index.read(lambda connection: connection.exec_driver_sql("SELECT progress FROM learners").scalar())
    assert json.loads(text)["quiz:a"]["state"] == "right"
