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
MAX_KERNELS = 64 << 20  # of all files of a submission that may be one
MAX_ARCHIVE = 100 << 20  # bytes of an archive
MAX_UNPACKED = 500 << 20  # bytes that all archives of a submission may hold
MOST_ARCHIVES = 50  # in one submission
MOST_AT_ONCE = 4 << 20  # bytes of what an archive says about itself: it is held in memory
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


class Allowance:
    """What is left of the limits of one submission, with all its archives. Raises Refused beyond them."""

    def __init__(self) -> None:
        self.archives, self.unpacked, self.kernels = MOST_ARCHIVES, MAX_UNPACKED, MAX_KERNELS

    def open(self) -> None:
        self.archives -= 1
        if self.archives < 0:
            raise Refused(f"it holds more than {MOST_ARCHIVES} archives")

    def unpack(self, size: int) -> None:
        self.unpacked -= size
        if self.unpacked < 0:
            raise Refused(f"its archives would unpack to more than {MAX_UNPACKED >> 20} MiB")

    def take(self, data: bytes) -> bytes:
        self.kernels -= len(data)
        if self.kernels < 0:
            raise Refused(f"its Python files are larger than {MAX_KERNELS >> 20} MiB together")
        return data


def is_archive(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def stem(name: str) -> str:
    """An archive's name without its ending."""
    ending = next((e for e in sorted(ENDINGS, key=len)[::-1] if name.lower().endswith(e)), "")
    return name[: len(name) - len(ending)] or name


def skipped(path: Path_) -> bool:
    return any(part in SKIPPED for part in path) or (bool(path) and path[-1].startswith("._"))


# ---- folders ---------------------------------------------------------------------------------


def in_folder(folder: Path, wanted: Wanted, left: Allowance) -> list[Found]:
    """All files below a folder, except those of tools. Raises Refused beyond the limits."""
    found: list[Found] = []
    _walk(folder, (), wanted, found, left)
    return found


def _walk(folder: Path, above: Path_, wanted: Wanted, found: list[Found], left: Allowance) -> None:
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
            _walk(Path(entry.path), path, wanted, found, left)
        elif wanted(entry.name):
            found.append(of_file(Path(entry.path), path))
            left.take(found[-1].data or b"")
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


def in_archive(file: Path, name: str, wanted: Wanted, left: Allowance) -> list[Found]:
    """All files of an archive, except those of tools. Raises Refused, and nothing else.

    `name`: what the student called it, which tells a zip from a tar.
    """
    try:
        left.open()
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(opened, "rb") as stream:
            facts = os.fstat(opened)
            if not stat.S_ISREG(facts.st_mode):
                raise Refused("it is no regular file")
            if facts.st_size > MAX_ARCHIVE:
                raise Refused(f"the archive is larger than {MAX_ARCHIVE >> 20} MiB")
            look = _zip if name.lower().endswith(".zip") else _tar
            return look(stream, wanted, left)
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


def _zip(stream: IO[bytes], wanted: Wanted, left: Allowance) -> list[Found]:
    found: list[Found] = []
    careful: Any = _Careful(stream)
    with zipfile.ZipFile(careful) as archive:
        members = archive.infolist()
        if len(members) > MOST_FILES:
            raise Refused(f"the archive holds more than {MOST_FILES:,} files")
        left.unpack(sum(member.file_size for member in members))
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
                    found.append(_bounded(path, opened, left))
    return found


def _tar(stream: IO[bytes], wanted: Wanted, left: Allowance) -> list[Found]:
    found: list[Found] = []
    start = stream.read(6)
    stream.seek(0)
    unpack = next((opener for magic, opener in PACKED.items() if start.startswith(magic)), None)
    # What is unpacked in passing is counted as it comes out.
    counter: Any = _Counter(unpack(stream) if unpack else stream, left)
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
            found.append(Found(path) if opened is None else _bounded(path, opened, left))
            counter.check(member.offset_data + member.size)
    return found


def _bounded(path: Path_, opened: IO[bytes], left: Allowance) -> Found:
    data = left.take(opened.read(MAX_KERNEL + 1))
    return Found(path, problem=TOO_LARGE) if len(data) > MAX_KERNEL else Found(path, data)


class _Careful:
    """A stream that gives no more at once than can be held in memory."""

    def __init__(self, stream):
        self.stream = stream

    def read(self, size: int = -1) -> bytes:
        data = self.stream.read(min(size, MOST_AT_ONCE + 1) if size >= 0 else MOST_AT_ONCE + 1)
        if len(data) > MOST_AT_ONCE:
            raise Refused("the archive is broken, or made to fill the memory")
        return data

    def __getattr__(self, name):
        return getattr(self.stream, name)


class _Counter(_Careful):
    """One that also refuses to be read or wound beyond what archives may hold."""

    def __init__(self, stream, left: Allowance):
        super().__init__(stream)
        self.left, self.furthest = left, 0

    def check(self, place: int) -> None:
        self.left.unpack(max(place - self.furthest, 0))
        self.furthest = max(place, self.furthest)

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > MOST_AT_ONCE:
            raise Refused("the archive is broken, or made to fill the memory")
        self.check(self.stream.tell() + size)
        return super().read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        if whence == 0:
            self.check(place)
        return self.stream.seek(place, whence)
