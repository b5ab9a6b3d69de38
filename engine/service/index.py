"""The index of the runs and the jobs: an SQLite database beside the result files, through SQLAlchemy. No torch.

Everything in it about results can be made again from the files; a damaged database is put aside for that, and what can
still be read of the learners' progress, which is nowhere else, is taken over. Every transaction opens a connection of its
own, so that a database which was deleted or replaced is noticed at once.
"""

import contextlib
import os
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock
from sqlalchemy import (
    JSON,
    URL,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    create_engine,
    event,
    insert,
    text,
)
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.pool import NullPool

from engine.errors import LabError
from engine.paths import locks_dir

Found = TypeVar("Found")
NAME = "runs.db"
_ENDINGS = ("", "-wal", "-shm")

_TABLES = MetaData()

# `seq` is the order in which runs were stored, whatever the clock said; it is never used twice.
RUNS = Table(
    "runs",
    _TABLES,
    Column("seq", Integer, primary_key=True),
    Column("id", String, unique=True, nullable=False),
    Column("kind", String, nullable=False),
    Column("scenario_key", String, index=True),
    Column("device_key", String, nullable=False),
    Column("private", Boolean, nullable=False),
    Column("browser", String, nullable=False, index=True),
    Column("title", String, nullable=False),
    Column("started_at", String, nullable=False),
    Column("stored_at", String, nullable=False),
    Column("bytes", Integer, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("duration_s", Float),
    Column("work", Integer),
    Column("summary", JSON, nullable=False),
    sqlite_autoincrement=True,
)

# What was promised to somebody under an id; `app` is whose process has to keep the promise.
JOBS = Table(
    "jobs",
    _TABLES,
    Column("seq", Integer, primary_key=True),
    Column("id", String, unique=True, nullable=False),
    Column("browser", String, nullable=False, index=True),
    Column("kind", String, nullable=False),
    Column("scenario", JSON, nullable=False),
    Column("submitted_at", String, nullable=False),
    Column("state", String, nullable=False, index=True),
    Column("error", JSON(none_as_null=True)),
    Column("result_id", String),
    Column("answered", Boolean, nullable=False),
    Column("app", String, nullable=False),
    sqlite_autoincrement=True,
)

# Who learns here, by a random id; progress: JSON text (see engine.service.progress).
LEARNERS = Table(
    "learners",
    _TABLES,
    Column("seq", Integer, primary_key=True),
    Column("id", String, unique=True, nullable=False),
    Column("code_hash", String, unique=True),
    Column("code_made_at", String),
    Column("progress", String, nullable=False),
    Column("noted_at", String, nullable=False),
)

# The browsers (their hashes) of a learner.
READERS = Table(
    "readers",
    _TABLES,
    Column("browser", String, primary_key=True),
    Column("learner", String, nullable=False, index=True),
)

# What no file could tell again.
_NOWHERE_ELSE = (LEARNERS, READERS)


@dataclass(eq=False)
class _Change:
    """What a thread wants written, and what became of it."""

    work: Callable[[Connection], Any]
    found: Any = None
    error: BaseException | None = None
    ended: bool = False


class Index:
    """wait_s: how long a transaction waits for another process that holds the database."""

    def __init__(self, folder: Path, wait_s: float) -> None:
        self.path = folder / NAME
        self._engine = _engine(self.path, wait_s)
        self._prepared: tuple[int, int] | None = None
        self._wait_s = wait_s
        self._preparing = threading.Lock()
        # Of the threads that write: one of them writes for all that wait.
        self._turns, self._writing, self._waiting = threading.Condition(), False, list[_Change]()
        self._kept_open: sqlite3.Connection | None = None

    def read(self, work: Callable[[Connection], Found]) -> Found:
        """What `work` makes of the database. Raises LabError: "store-busy", "store-unwritable"."""
        return self._run(work, "BEGIN")

    def write(self, work: Callable[[Connection], Found]) -> Found:
        """The same for `work` that changes it; all of its changes or none, and they are on disk then. It may run in another
        thread, together with what others wait for, and is called again after a repair."""
        mine = _Change(work)
        with self._turns:
            self._waiting.append(mine)
            self._turns.wait_for(lambda: mine.ended or not self._writing, self._wait_s)
            if self._writing and mine in self._waiting:
                self._waiting.remove(mine)
                raise LabError("store-busy", path=str(self.path))
            self._turns.wait_for(lambda: mine.ended or not self._writing)  # it is being written: soon it is known
            if not mine.ended:
                self._writing = True
                together, self._waiting = self._waiting, []
        if not mine.ended:
            self._write_for(together)
        if mine.error:
            raise mine.error
        return mine.found

    def _write_for(self, together: list[_Change]) -> None:
        """One transaction for all: a flush of the disk takes longer than what a page notes. One's own error spoils no other's
        change; what fails for all is told to all."""

        def changes(connection: Connection) -> None:
            for change in together:
                change.error = None
                try:
                    with connection.begin_nested():
                        change.found = change.work(connection)
                except DatabaseError as error:
                    if not isinstance(error, IntegrityError):
                        raise
                    change.error = self._told(error)
                except Exception as error:
                    change.error = error

        try:
            self._run(changes, "BEGIN IMMEDIATE")
        except BaseException as error:
            for change in together:
                change.error = error
        finally:
            with self._turns:
                for change in together:
                    change.ended = True
                self._writing = False
                self._turns.notify_all()

    def _run(self, work: Callable[[Connection], Found], begin: str) -> Found:
        before = _identity(self.path)
        try:
            try:
                return self._once(work, begin)
            except DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._put_aside(before, error)
                return self._once(work, begin)
        except DatabaseError as error:
            raise self._told(error) from error

    def _once(self, work: Callable[[Connection], Found], begin: str) -> Found:
        with self._turn(self._preparing):
            if self._prepared is None or self._prepared != _identity(self.path):
                self._prepare()
        with self._engine.connect().execution_options(lab_begin=begin) as connection, connection.begin():
            return work(connection)

    @contextlib.contextmanager
    def _turn(self, lock: threading.Lock) -> Iterator[None]:
        if not lock.acquire(timeout=self._wait_s):
            raise LabError("store-busy", path=str(self.path))
        try:
            yield
        finally:
            lock.release()

    def _prepare(self) -> None:
        """Make what is missing, and look whether the file is whole."""
        self.close()
        with self._engine.connect().execution_options(lab_begin="BEGIN") as connection:
            verdict = connection.execute(text("PRAGMA quick_check(1)")).scalar()
            if verdict != "ok":
                raise DatabaseError("quick_check", None, sqlite3.DatabaseError(f"malformed: {verdict}"))
            there = set(connection.execute(text("SELECT name FROM sqlite_master")).scalars())
        if not there >= set(_TABLES.tables):  # else no write: somebody may hold the database for one
            with self._engine.connect().execution_options(lab_begin="BEGIN IMMEDIATE") as made, made.begin():
                _TABLES.create_all(made)
        self._keep_open()
        self._prepared = _identity(self.path)

    def _keep_open(self) -> None:
        """An idle connection: whenever the last one closes, the log is written back, which costs some disk flushes."""
        with contextlib.suppress(sqlite3.Error):  # it only saves time
            self._kept_open = sqlite3.connect(self.path, timeout=0, check_same_thread=False)
            self._kept_open.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def close(self) -> None:
        """Let go of the database; the next transaction opens it again."""
        kept, self._kept_open, self._prepared = self._kept_open, None, None
        if kept:
            kept.close()

    def overwrite_removed(self) -> None:
        """What was removed is to be nowhere in the files any more: not in the log, not in a damaged database put aside."""
        with contextlib.suppress(DatabaseError), self._engine.connect() as connection:  # while somebody reads, later will do
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        for ending in _ENDINGS:
            with contextlib.suppress(OSError):
                os.unlink(f"{self._damaged}{ending}")

    @property
    def _damaged(self) -> Path:
        return self.path.with_name(f"{self.path.name}.damaged")

    def _put_aside(self, damaged: tuple[int, int] | None, error: DatabaseError) -> None:
        with FileLock(locks_dir() / "store.lock"):
            if _identity(self.path) != damaged:
                return  # another process was quicker
            self.close()
            kept = self._damaged
            for ending in _ENDINGS:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{ending}", f"{kept}{ending}")
            rows = {table.name: _readable(kept, table) for table in _NOWHERE_ELSE}
            if any(rows.values()):
                self._once(lambda connection: _take_over(connection, rows), "BEGIN IMMEDIATE")
            why = f"the index of the runs was damaged ({error.orig}); it is now {kept.name} and is made again from the files"
            print(f"engine: {why}", file=sys.stderr, flush=True)

    def _told(self, error: DatabaseError) -> LabError:
        why = str(error.orig)
        if "locked" in why or "busy" in why:
            return LabError("store-busy", path=str(self.path))
        return LabError("store-unwritable", path=str(self.path), why=why)


def _readable(path: Path, table: Table) -> list[dict]:
    """The rows of a damaged database that can still be read, from both ends of the table."""
    names = [column.name for column in table.columns]
    found: dict[int, dict] = {}
    for order in ("", "DESC"):
        # Text, or a number where a column is one: nothing else was ever written.
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path, timeout=0)) as damaged:
            for rowid, *values in damaged.execute(f"SELECT rowid, {', '.join(names)} FROM {table.name} ORDER BY rowid {order}"):
                found[rowid] = dict(zip(names, values, strict=True))
    return list(found.values())


def _take_over(connection: Connection, rows: dict[str, list[dict]]) -> None:
    """Rows that break a rule (one of two with the same id, a value that is missing) are left out."""
    for table in _NOWHERE_ELSE:
        for row in rows[table.name]:
            connection.execute(insert(table).prefix_with("OR IGNORE").values(**row))


def _engine(path: Path, wait_s: float) -> Engine:
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool, connect_args={"timeout": wait_s})

    @event.listens_for(engine, "connect")
    def connected(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # transactions begin where we say so, below
        connection.execute("PRAGMA journal_mode=WAL").close()
        connection.execute("PRAGMA synchronous=FULL").close()
        connection.execute("PRAGMA secure_delete=ON").close()  # who has his data erased finds it erased

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get("lab_begin", "BEGIN"))

    return engine


def _is_damage(error: DatabaseError) -> bool:
    why = str(error.orig)
    return any(words in why for words in ("malformed", "not a database", "no such table", "no such column", "no column"))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found.st_size else None
