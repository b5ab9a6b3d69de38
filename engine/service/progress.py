"""What learners have done of the course: kept in the index, found by their browser, taken to another one with a code.

A learner is one or several browsers and a table {topic: record}. Nobody gives a name. A code of 80 random bits is shown
once; only its hash is kept, so that whoever reads the database cannot go on as somebody else. Nothing here can be made
again from the results: `engine.service.index` saves these tables when the database is damaged. No torch.

    topic   "lesson:<lesson>" | "predict:<id>" | "quiz:<item id>"
    record  what a page notes of it, a small JSON object; "at": when it was noted last, put in here
"""

import hashlib
import json
import re
import secrets
import unicodedata
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, insert, select, update

from engine.errors import LabError
from engine.measure.clock import utc_now
from engine.service.index import LEARNERS, READERS, Index

TOPIC = re.compile(r"(lesson|predict|quiz):[a-z0-9][a-z0-9._-]{0,79}")
MOST_TOPICS = 400
MOST_RECORD_BYTES = 2_000
MOST_BYTES = 80_000
MOST_READERS = 20
MOST_LEARNERS = 5_000

# States of a quiz item (pages/_ui/quiz.py) that another browser's later trial does not undo.
_SOLVED = ("right", "committed")
# Crockford's base 32, without letters that look like digits: 16 of them are 80 bits.
_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_CODE_LENGTH, _GROUP = 16, 4
_LOOKALIKES = str.maketrans("OIL", "011")


@dataclass(frozen=True)
class Learner:
    """progress: {topic: record}; code_made_at: when the code that holds now was made, None without one; browsers: how many
    belong to this learner."""

    progress: dict[str, dict] = field(default_factory=dict)
    code_made_at: str | None = None
    browsers: int = 0


class Learners:
    """The learners of one index. `browser` is always the hash of a browser's name, never "" (see `engine.service.store`)."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def of(self, browser: str) -> Learner:
        """What is known of a browser's learner; an empty one if nothing is. Raises LabError("store-busy")."""

        def look(connection: Connection) -> Learner:
            row = _row(connection, browser)
            if row is None:
                return Learner()
            return Learner(_table(row["progress"]), row["code_made_at"], _browsers(connection, row["id"]))

        return self._index.read(look)

    def note(self, browser: str, topic: str, record: dict) -> None:
        """Put a record's entries over what is known of a topic; an entry that is None goes. No new entry, no write.

        Raises LabError: "progress-refused" for what is no topic or no small JSON object, "progress-full", "store-busy".
        """
        _check(topic, record)
        known = self.of(browser).progress.get(topic)
        if known and _put_over(known, record) == known:
            return

        def put(connection: Connection) -> None:
            row = _row(connection, browser) or _made(connection, browser)
            progress = _table(row["progress"])
            progress[topic] = {**_put_over(progress.get(topic), record), "at": utc_now()}
            _keep(connection, row["id"], progress)

        self._index.write(put)

    def new_code(self, browser: str) -> str:
        """A code with which another browser goes on as this learner; the one before is void. It cannot be shown again."""
        code = "".join(secrets.choice(_LETTERS) for _ in range(_CODE_LENGTH))

        def put(connection: Connection) -> None:
            row = _row(connection, browser) or _made(connection, browser)
            values = {"code_hash": _hashed(code), "code_made_at": utc_now()}
            connection.execute(update(LEARNERS).where(LEARNERS.c.id == row["id"]).values(**values))

        self._index.write(put)
        return "-".join(code[start : start + _GROUP] for start in range(0, _CODE_LENGTH, _GROUP))

    def resume(self, browser: str, code: str) -> None:
        """Make a browser one of the learner's whose code this is. What the browser had noted is merged into it.

        The browser's learner until now stays as it was if it has other browsers or a code, and is gone otherwise.
        Raises LabError: "code-unknown", "code-crowded", "progress-full" (nothing has changed then), "store-busy".
        """
        wanted = select(LEARNERS).where(LEARNERS.c.code_hash == _hashed(_as_written(code)))

        def join(connection: Connection) -> None:
            learner = connection.execute(wanted).mappings().first()
            if learner is None:
                raise LabError("code-unknown")
            before = _row(connection, browser)
            if before and before["id"] == learner["id"]:
                return
            if _browsers(connection, learner["id"]) >= MOST_READERS:
                raise LabError("code-crowded", limit=MOST_READERS)
            if before:
                _keep(connection, learner["id"], merged(_table(learner["progress"]), _table(before["progress"])))
                _leave(connection, browser, before)
            _belongs(connection, browser, learner["id"])

        self._index.write(join)

    def leave(self, browser: str) -> None:
        """This browser belongs to nobody again. A learner whom no browser and no code leads to any more is gone."""

        def part(connection: Connection) -> None:
            if row := _row(connection, browser):
                _leave(connection, browser, row)

        self._index.write(part)

    def erase(self, browser: str) -> None:
        """All that is kept of a browser's learner: what was noted on whichever browser, the code, who belonged to it."""

        def remove(connection: Connection) -> None:
            if row := _row(connection, browser):
                _remove(connection, row["id"])

        self._index.write(remove)
        self._index.overwrite_removed()


def merged(one: dict[str, dict], other: dict[str, dict]) -> dict[str, dict]:
    """What two browsers know of the topics, together: of each topic the entries of both, the newer one's where they
    differ; what was solved stays solved, and the larger count of attempts holds."""
    both = {**one, **other}
    for topic in one.keys() & other.keys():
        older, newer = sorted((one[topic], other[topic]), key=lambda record: str(record.get("at", "")))
        both[topic] = {**older, **newer}
        if older.get("state") in _SOLVED and newer.get("state") not in _SOLVED:
            both[topic]["state"] = older["state"]
        if counts := [r["attempts"] for r in (older, newer) if isinstance(r.get("attempts"), int)]:
            both[topic]["attempts"] = max(counts)
    return both


def _check(topic: str, record: dict) -> None:
    """Raises LabError("progress-refused") for what nobody of ours would note."""
    if not isinstance(topic, str) or TOPIC.fullmatch(topic) is None:
        raise LabError("progress-refused", why=f"{ascii(topic)[:60]} is no topic")
    try:
        text = json.dumps(record, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise LabError("progress-refused", why="the record is not JSON") from error
    if not isinstance(record, dict) or len(text) > MOST_RECORD_BYTES:
        raise LabError("progress-refused", why=f"a record is an object of at most {MOST_RECORD_BYTES} bytes")


def _put_over(known: dict | None, record: dict) -> dict:
    return {name: value for name, value in {**(known or {}), **json.loads(json.dumps(record))}.items() if value is not None}


def _keep(connection: Connection, learner: str, progress: dict[str, dict]) -> None:
    text = json.dumps(progress, separators=(",", ":"))
    if len(progress) > MOST_TOPICS or len(text) > MOST_BYTES:
        raise LabError("progress-full", topics=MOST_TOPICS, kilobytes=MOST_BYTES // 1000)
    connection.execute(update(LEARNERS).where(LEARNERS.c.id == learner).values(progress=text, noted_at=utc_now()))


def _row(connection: Connection, browser: str):
    """The learner a browser belongs to."""
    query = select(LEARNERS).join(READERS, READERS.c.learner == LEARNERS.c.id).where(READERS.c.browser == browser)
    return connection.execute(query).mappings().first()


def _made(connection: Connection, browser: str) -> dict:
    """A new learner with one browser. Beyond the limit another goes: one without a code first, the longest silent of them."""
    longest_silent = select(LEARNERS.c.id).order_by(LEARNERS.c.code_hash.is_not(None), LEARNERS.c.noted_at, LEARNERS.c.seq)
    too_many = connection.execute(select(func.count()).select_from(LEARNERS)).scalar() - MOST_LEARNERS + 1
    for learner in connection.execute(longest_silent.limit(max(0, too_many))).scalars().all():
        _remove(connection, learner)
    row = {"id": secrets.token_hex(16), "progress": "{}", "noted_at": utc_now()}
    connection.execute(insert(LEARNERS).values(**row))
    _belongs(connection, browser, row["id"])
    return row


def _belongs(connection: Connection, browser: str, learner: str) -> None:
    connection.execute(delete(READERS).where(READERS.c.browser == browser))  # of a learner that damage took away
    connection.execute(insert(READERS).values(browser=browser, learner=learner))


def _leave(connection: Connection, browser: str, learner) -> None:
    connection.execute(delete(READERS).where(READERS.c.browser == browser))
    if learner["code_hash"] is None and _browsers(connection, learner["id"]) == 0:
        _remove(connection, learner["id"])


def _remove(connection: Connection, learner: str) -> None:
    connection.execute(delete(READERS).where(READERS.c.learner == learner))
    connection.execute(delete(LEARNERS).where(LEARNERS.c.id == learner))


def _browsers(connection: Connection, learner: str) -> int:
    return connection.execute(select(func.count()).select_from(READERS).where(READERS.c.learner == learner)).scalar()


def _table(text: str) -> dict[str, dict]:
    """A learner's progress; what damage made unreadable is left out."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {topic: record for topic, record in found.items() if isinstance(record, dict)} if isinstance(found, dict) else {}


def _as_written(code: str) -> str:
    """A code as it was made, however somebody typed it: small letters, full-width ones, spaces, O for 0, I and L for 1."""
    plain = unicodedata.normalize("NFKC", code[:200]).upper().translate(_LOOKALIKES)
    return "".join(letter for letter in plain if letter in _LETTERS)


def _hashed(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
