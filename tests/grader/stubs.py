"""The stubs as shipped, and the way back to them: `python -m grader.stubs N [N ...]`.

tests/stubs holds a second copy of every stub, since exercises/ holds the learner's work and a copy of
this project need not have git. `--update` makes it anew from exercises/, for whoever changes a stub;
selfcheck says so if the two differ.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from . import progress
from .progress import Entry, free_name, kata_of
from .scorecard import PROJECT
from .words import speak, wrapped

SHIPPED = PROJECT / "tests" / "stubs"


def shipped(kata: str) -> Path:
    """The stub of a kata as it was handed out."""
    return SHIPPED / kata / "kernel.py"


def untouched(kata: str) -> bool:
    """Whether the learner's file is still the stub."""
    mine = progress.digest(progress.EXERCISES / kata / "kernel.py")
    return bool(mine) and mine == progress.digest(shipped(kata))


def reset(kata: str) -> str:
    """Put the stub back, after keeping the learner's file aside; what was done, in words.

    Raises OSError; the learner's file is then as it was.
    """
    file = progress.EXERCISES / kata / "kernel.py"
    where = file.relative_to(PROJECT)
    if untouched(kata):
        return f"{where} is the stub as shipped already: nothing to do."
    kept = keep_aside(file)
    replace(file, shipped(kata).read_bytes())

    def alter(entry: Entry) -> None:
        new = Entry(best=entry.best, speed=entry.speed, hunt=entry.hunt, hunted=entry.hunted)
        for name, value in vars(new).items():
            setattr(entry, name, value)

    progress.change(kata, alter)
    text = f"{where} is the stub as shipped again."
    return f"{text} Your file is kept as {kept.relative_to(PROJECT)}." if kept else text


def keep_aside(file: Path) -> Path | None:
    """Copy a file to the next free name beside it; None if there is no file. Raises OSError.

    A folder of that name, which nothing can replace, is moved there.
    """
    if file.is_dir() and not file.is_symlink():
        return file.rename(free_name(file))
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    while True:
        kept = free_name(file)
        with contextlib.suppress(FileExistsError):
            with kept.open("xb") as opened:
                opened.write(content)
            return kept


def replace(file: Path, content: bytes) -> None:
    """Write a file in one step, so that an editor never sees half of it. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=file.parent, prefix=".stub.")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(content)
        os.chmod(part, 0o644)
        os.replace(part, file)
    except BaseException:
        os.unlink(part)
        raise


def as_shipped(root: Path) -> Path:
    """Make a copy of the project as it is handed out, without git and without its own tests."""
    leave_out = shutil.ignore_patterns("__pycache__", "mutants", "honest", "selftest")
    for name in ("exercises", "solutions", "tests"):
        shutil.copytree(PROJECT / name, root / name, ignore=leave_out)
    shutil.copy(PROJECT / "pyproject.toml", root)
    for stub in SHIPPED.iterdir():
        shutil.copy(stub / "kernel.py", root / "exercises" / stub.name / "kernel.py")
    return root


def stale() -> list[str]:
    """The katas whose second copy is not the stub in exercises/."""
    return [kata for kata in progress.katas().values() if not untouched(kata)]


def update() -> None:
    """Make the second copies anew from exercises/."""
    for kata in stale():
        replace(shipped(kata), (progress.EXERCISES / kata / "kernel.py").read_bytes())
        print(f"written: {shipped(kata).relative_to(PROJECT)}")


def main(words: list[str]) -> int:
    if words == ["--update"]:
        update()
        return 0
    for kata in [kata_of(word) for word in words]:
        try:
            print(wrapped(reset(kata)))
        except OSError as error:
            text = f"exercises/{kata}/kernel.py is as it was: {error.strerror or error}"
            progress.stop(f"{text} ({error.filename})")
    return 0


if __name__ == "__main__":
    speak(main, sys.argv[1:])
