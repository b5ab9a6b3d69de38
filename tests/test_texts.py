"""The texts of the experiments: the same everywhere, or refused with a reason."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engine import texts
from engine.errors import LabError
from engine.paths import texts_dir
from engine.texts import is_here, is_own, keep_own_text, load_text


def test_the_default_text(kjv):
    """Running prose in canonical order: 1,189 chapters, no verse numbers, nothing but printable ASCII."""
    chapters = kjv.text.split("\n\n")
    assert len(chapters) == 1189
    assert kjv.text.startswith("In the beginning God created the heavens and the earth. And the earth was without form")
    assert kjv.text.endswith("The grace of our Lord Jesus Christ be with you all. Amen.")
    assert not any(character.isdigit() for character in kjv.text) and kjv.text.isascii()
    assert kjv.sha256 == texts.KJV_SHA256 == hashlib.sha256(kjv.text.encode()).hexdigest()
    assert len(kjv.text) > 4_000_000 and "  " not in kjv.text


def test_another_default_text_is_noticed(kjv, tmp_path, monkeypatch):
    """A database of the same size with one word changed: results would no longer be comparable."""
    source = texts.present(texts.KJV_FILE, texts.kjv_folder())
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    copy = shutil.copy(source, texts.kjv_folder() if texts.kjv_folder().mkdir() else texts.kjv_folder() / source.name)
    assert load_text("kjv") == kjv
    database = sqlite3.connect(copy)
    database.execute("UPDATE Bible SET Passage1 = replace(Passage1, 'beginning', 'begynning') WHERE BookID = 1 AND ChapterID = 1")
    database.commit()
    database.close()
    with pytest.raises(LabError) as caught:
        load_text("kjv")
    assert caught.value.code == "text-changed"


def test_pythons_own_reference():
    found = load_text("pydoc")
    assert found.version == f"Python {platform.python_version()}" and found.language == "en" and len(found.text) > 300_000


def test_the_korean_text():
    found = load_text("korean")
    assert found.language == "ko" and 1_000 < len(found.text) < 2_000
    hangul = sum("가" <= character <= "힣" for character in found.text)
    assert hangul > 0.6 * len(found.text)


def test_a_file(tmp_path):
    """Line ends and a byte-order mark do not make another text of it."""
    (tmp_path / "a.txt").write_bytes("\ufeffOne.\r\nTwo 안녕.\r\n".encode())
    found = load_text(str(tmp_path / "a.txt"))
    assert found.text == "One.\nTwo 안녕.\n" and found.name == "a.txt" and found.language is None
    assert found.sha256 == hashlib.sha256("One.\nTwo 안녕.\n".encode()).hexdigest()


@pytest.mark.parametrize(
    "content, code",
    [(b"", "text-empty"), (b" \n\t ", "text-empty"), (b"\x89PNG\x00\x00", "text-unreadable"), ("한글".encode("cp949"), "text-unreadable")],
)
def test_files_that_are_no_text(tmp_path, content, code):
    (tmp_path / "a.txt").write_bytes(content)
    with pytest.raises(LabError) as caught:
        load_text(str(tmp_path / "a.txt"))
    assert caught.value.code == code


def test_a_file_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(texts, "MOST_FILE_BYTES", 10)
    (tmp_path / "a.txt").write_text("eleven bytes")
    with pytest.raises(LabError) as caught:
        load_text(str(tmp_path / "a.txt"))
    assert caught.value.code == "text-too-large" and caught.value.facts == {"path": str(tmp_path / "a.txt"), "size_bytes": 12, "limit_bytes": 10}


@pytest.mark.parametrize("name", ["nothing", "", "/dev/zero", "/", "a\0b", "x" * 5000])
def test_names_that_are_no_texts(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError) as caught:
        load_text(name)
    assert caught.value.code in ("text-unknown", "text-unreadable")


@pytest.mark.parametrize("data", [b"", b"  \n", b"a\0b", b"\xff\xfe"])
def test_no_text_is_kept(data):
    """Nothing, white space, binary data, another encoding: refused before anything is written."""
    with pytest.raises(LabError) as caught:
        keep_own_text(data, "mine.txt")
    assert "mine.txt" in str(caught.value)


def test_a_kept_text_is_found_by_its_name(tmp_path, monkeypatch):
    """The name is the hash: the same text is kept once, and nobody can name another file with it."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    name = keep_own_text("한 줄\r\n둘째 줄\n".encode())
    assert name == keep_own_text("한 줄\n둘째 줄\n".encode())
    assert is_here(name) and load_text(name).text == "한 줄\n둘째 줄\n"
    assert not is_here("own:" + "0" * 64)
    assert not is_own("own:../../../etc/passwd")


def test_a_class_hands_in_the_same_text_at_the_same_moment(tmp_path, monkeypatch):
    """The second used to find its unfinished file gone, and was told that the disk cannot be written."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    write, both = Path.write_text, threading.Barrier(2)

    def together(path, *arguments, **named):
        write(path, *arguments, **named)
        both.wait(5)

    monkeypatch.setattr(Path, "write_text", together)
    with ThreadPoolExecutor(2) as pool:
        names = list(pool.map(keep_own_text, [b"the same text"] * 2))
    assert len(set(names)) == 1 and load_text(names[0]).text == "the same text"
    assert [path.suffix for path in (texts_dir() / "own").iterdir()] == [".txt"]


def test_own_texts_do_not_fill_the_disk(tmp_path, monkeypatch):
    """Every edit of the form keeps a text; the longest unused go, never the newest and never one that is used again."""
    monkeypatch.setenv("LAB_HOME", str(tmp_path))
    monkeypatch.setattr(texts, "MOST_OWN_BYTES", 25)
    kept = []
    for number in range(3):
        kept.append(texts.keep_own_text(f"text {number} ...".encode()))
        os.utime(texts._own_path(kept[-1]), (number, number))
    assert [texts.is_here(name) for name in kept] == [False, True, True]
    assert texts.keep_own_text(b"text 1 ...") == kept[1]
    texts.keep_own_text(b"text 3 ...")
    assert [texts.is_here(name) for name in kept] == [False, True, False]
    huge = texts.keep_own_text(b"larger than everything that may be kept")
    assert texts.is_here(huge) and not texts.is_here(kept[1])
