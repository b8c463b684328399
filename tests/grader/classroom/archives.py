"""The files of a folder, a zip or a tar: read without unpacking anything, within limits.

Submissions are not trusted: no link is followed, no path leaves where it belongs, and sizes are
counted while they are read, whatever an archive says about itself. Only what is `wanted` is read.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

MOST_FILES = 10_000  # in one submission; a virtual environment has more, and does not belong there
MOST_DEPTH = 40  # folders inside each other
MOST_PATH = 1_000  # characters
MAX_KERNEL = 1 << 20  # bytes of a kernel.py, as in `worker`
MAX_ARCHIVE = 100 << 20  # bytes of an archive
MAX_UNPACKED = 500 << 20  # bytes that it may hold
ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
# Folders of tools: what lies there is no work of the student's.
SKIPPED = {
    ".git", ".venv", "venv", ".nox", ".katas", "__pycache__", "__MACOSX", "node_modules",
    "site-packages", ".ipynb_checkpoints",
}  # fmt: skip
TOO_LARGE = "it is larger than 1 MiB"

PACKED: dict[bytes, Callable] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}

Path_ = tuple[str, ...]
Wanted = Callable[[str], bool]  # by a file's name: is it to be read?


class Refused(Exception):
    """Why a folder or an archive is not looked into, for the instructor and the student."""


@dataclass(frozen=True)
class Found:
    """One file: where it is, its bytes if it was wanted, or why they are not to be had."""

    path: Path_
    data: bytes | None = None
    problem: str = ""


def is_archive(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def stem(name: str) -> str:
    """An archive's name without its ending."""
    ending = next((e for e in sorted(ENDINGS, key=len)[::-1] if name.lower().endswith(e)), "")
    return name[: len(name) - len(ending)] or name


def skipped(path: Path_) -> bool:
    return any(part in SKIPPED for part in path) or (bool(path) and path[-1].startswith("._"))


# ---- folders ---------------------------------------------------------------------------------


def in_folder(folder: Path, wanted: Wanted) -> list[Found]:
    """All files below a folder, except those of tools. Raises Refused beyond the limits."""
    found: list[Found] = []
    _walk(folder, (), wanted, found)
    return found


def _walk(folder: Path, above: Path_, wanted: Wanted, found: list[Found]) -> None:
    if len(above) > MOST_DEPTH:
        raise Refused(f"it has more than {MOST_DEPTH} folders inside each other")
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        found.append(Found(above, problem=f"it cannot be read: {error.strerror}"))
        return
    for entry in entries:
        path = (*above, entry.name)
        if skipped(path):
            continue
        if len(found) >= MOST_FILES:
            raise Refused(f"it holds more than {MOST_FILES:,} files")
        if entry.is_symlink():
            found.append(Found(path, problem="it is a link, and links are not followed"))
        elif entry.is_dir(follow_symlinks=False):
            _walk(Path(entry.path), path, wanted, found)
        elif wanted(entry.name):
            found.append(of_file(Path(entry.path), path))
        else:
            found.append(Found(path))


def of_file(file: Path, path: Path_) -> Found:
    """One file of the file system, read."""
    try:
        data = read(file, MAX_KERNEL)
    except OSError as error:
        return Found(path, problem=f"it cannot be read: {error.strerror}")
    except Refused as error:
        return Found(path, problem=str(error))
    return Found(path, data)


def read(file: Path, most: int) -> bytes:
    """The bytes of a regular file that is no link. Raises Refused, or OSError."""
    opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(opened, "rb") as stream:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise Refused("it is no regular file")
        data = stream.read(most + 1)
    if len(data) > most:
        raise Refused(TOO_LARGE if most == MAX_KERNEL else f"it is larger than {most >> 20} MiB")
    return data


# ---- archives --------------------------------------------------------------------------------


def in_archive(file: Path, name: str, wanted: Wanted) -> list[Found]:
    """All files of an archive, except those of tools. Raises Refused, and nothing else.

    `name`: what the student called it, which tells a zip from a tar.
    """
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(opened, "rb") as stream:
            facts = os.fstat(opened)
            if not stat.S_ISREG(facts.st_mode):
                raise Refused("it is no regular file")
            if facts.st_size > MAX_ARCHIVE:
                raise Refused(f"the archive is larger than {MAX_ARCHIVE >> 20} MiB")
            look = _zip if name.lower().endswith(".zip") else _tar
            return look(stream, wanted)
    except Refused:
        raise
    except Exception as error:  # what broken archives raise is no closed list
        text = " ".join(str(error).split())[:120]
        raise Refused(f"the archive cannot be read: {text or type(error).__name__}") from None


def _parts(name: str) -> Path_:
    """A member's path. Raises Refused if it leads out of the archive."""
    name = name.replace("\\", "/")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if name.startswith("/") or ".." in parts or re.match(r"[A-Za-z]:", name) or "\0" in name:
        raise Refused(f"the archive holds a path that leads out of it: {name[:80]!r}")
    if len(name) > MOST_PATH or len(parts) > MOST_DEPTH:
        raise Refused("the archive holds a path that is too long")
    return parts


def _zip(stream: IO[bytes], wanted: Wanted) -> list[Found]:
    found: list[Found] = []
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        if len(members) > MOST_FILES:
            raise Refused(f"the archive holds more than {MOST_FILES:,} files")
        if sum(member.file_size for member in members) > MAX_UNPACKED:
            raise Refused(f"the archive would unpack to more than {MAX_UNPACKED >> 20} MiB")
        for member in members:
            path, mode = _parts(member.filename), member.external_attr >> 16
            if skipped(path) or member.is_dir() or not path:
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise Refused(f"the archive holds a link or device: {'/'.join(path)[:80]!r}")
            if not wanted(path[-1]):
                found.append(Found(path))
            elif member.flag_bits & 1:
                found.append(Found(path, problem="the archive is locked with a password"))
            else:
                with archive.open(member) as opened:
                    found.append(_bounded(path, opened))
    return found


def _tar(stream: IO[bytes], wanted: Wanted) -> list[Found]:
    found: list[Found] = []
    start = stream.read(6)
    stream.seek(0)
    unpack = next((opener for magic, opener in PACKED.items() if start.startswith(magic)), None)
    # What is unpacked in passing is counted as it comes out.
    counter: Any = _Counter(unpack(stream) if unpack else stream)
    with tarfile.open(fileobj=counter, mode="r:") as archive:
        for count, member in enumerate(archive):
            if count >= MOST_FILES:
                raise Refused(f"the archive holds more than {MOST_FILES:,} files")
            path = _parts(member.name)
            if skipped(path) or member.isdir() or not path:
                continue
            if not member.isreg():
                raise Refused(f"the archive holds a link or device: {'/'.join(path)[:80]!r}")
            opened = archive.extractfile(member) if wanted(path[-1]) else None
            found.append(Found(path) if opened is None else _bounded(path, opened))
            counter.check(member.offset_data + member.size)
    return found


def _bounded(path: Path_, opened: IO[bytes]) -> Found:
    data = opened.read(MAX_KERNEL + 1)
    return Found(path, problem=TOO_LARGE) if len(data) > MAX_KERNEL else Found(path, data)


class _Counter:
    """A stream that refuses to be read or wound beyond what an archive may hold."""

    def __init__(self, stream):
        self.stream = stream

    def check(self, place: int) -> None:
        if place > MAX_UNPACKED:
            raise Refused(f"the archive would unpack to more than {MAX_UNPACKED >> 20} MiB")

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > 4 * MAX_KERNEL:  # of a header: it would be held in memory
            raise Refused("the archive is broken, or made to fill the memory")
        self.check(self.stream.tell() + size)
        return self.stream.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == 0:
            self.check(place)
        return self.stream.seek(place, whence)

    def __getattr__(self, name):
        return getattr(self.stream, name)
