"""From a folder of submissions to rows of work: who handed in which kernel.py for which kata.

Whatever is not understood stays a row, with the reason. Nothing of a submission is run here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import archives, layouts
from .archives import Found, Refused

KATA = re.compile(r"\d\d_\w+")
LOOSE = re.compile(r"kernel(?:[-_ ]?\(?(\d+)\)?)?\.py", re.I)  # kernel-1.py: handed in once more
NO_WORK = ("solutions", "tests", "mutants", "honest", "golden", "hostile")  # of a cloned repository

Keep = Callable[[bytes], object]


@dataclass
class Submission:
    """One student's work: for each kata the hash of its kernel.py, or why there is none."""

    student: str
    ident: str
    source: str
    email: str = ""
    late: bool = False
    works: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)  # by kata; "": of all of it


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def take_in(
    folder: Path, known: Sequence[str], asked: Sequence[str] | None, keep: Keep
) -> tuple[list[Submission], list[str]]:
    """All submissions in order of names, and the names of what is no submission at all.

    `known`: every kata there is; `asked`: those that count (None: any); `keep`: takes the bytes of
    each kernel.py.
    """
    listed, ignored = layouts.entries(folder)
    submissions = []
    for entry in listed:
        submission = Submission(entry.student, entry.ident, entry.source, entry.email, entry.late)
        found = _look(entry, known, submission)
        if found or not submission.problems:
            _sort(found, known, asked, submission, keep)
        submissions.append(submission)
    return submissions, ignored


def wanted_of(known: Sequence[str]) -> archives.Wanted:
    """By its name: may this file be a kernel?"""
    names = {f"{kata}.py" for kata in known}
    return lambda name: bool(LOOSE.fullmatch(name)) or name.lower() in names


def _look(entry: layouts.Entry, known: Sequence[str], submission: Submission) -> list[Found]:
    """Every file of a submission, its archives opened; what cannot be opened is a problem."""
    wanted = wanted_of(known)
    found: list[Found] = []
    reasons: list[str] = (
        [] if entry.parts else [f"{layouts.METADATA} names a folder that is not there"]
    )
    for path, name in entry.parts:
        try:
            if path.is_symlink():
                raise Refused("it is a link, and links are not followed")
            if path.is_dir():
                if KATA.fullmatch(path.name) and path.name in known:
                    text = "it is a kata's folder, not a student's; name the folder above it"
                    raise Refused(text)
                inside = archives.in_folder(path, wanted)
                found += inside
                for file in inside:
                    if archives.is_archive(file.path[-1]) and not file.problem:
                        found += _opened(path.joinpath(*file.path), file.path, wanted, reasons)
            elif archives.is_archive(name):
                found += _opened(path, (name,), wanted, reasons)
            elif wanted(name) and name != path.name:  # a learning platform's file of one student
                found.append(archives.of_file(path, (name,)))
            elif not path.is_file():
                raise Refused("it is neither a folder nor a file")
            elif name == path.name:
                raise Refused("it is neither a student's folder nor a zip or tar")
            else:
                found.append(Found((name,)))
        except Refused as error:
            reasons.append(f"{layouts.clean(path.name)}: {error}")
        except OSError as error:
            reasons.append(f"{layouts.clean(path.name)}: it cannot be read: {error.strerror}")
    if reasons:
        submission.problems[""] = "; ".join(reasons)
    return found


def _opened(
    file: Path, path: archives.Path_, wanted: archives.Wanted, reasons: list[str]
) -> list[Found]:
    """The files of an archive, below its own name."""
    above = (*path[:-1], archives.stem(path[-1]))
    try:
        return [
            Found((*above, *each.path), each.data, each.problem)
            for each in archives.in_archive(file, path[-1], wanted)
        ]
    except Refused as error:
        reasons.append(f"{shown(path)}: {error}")
        return []


def shown(path: archives.Path_) -> str:
    return layouts.clean("/".join(path))


def _sort(
    found: list[Found],
    known: Sequence[str],
    asked: Sequence[str] | None,
    submission: Submission,
    keep: Keep,
) -> None:
    """Which file is the work for which kata."""
    wanted = known if asked is None else asked
    names = {kata.lower(): kata for kata in known}
    candidates: dict[str, list[Found]] = {}
    loose: list[Found] = []
    folders: dict[str, list[str]] = {}  # kata folders, and what lies in them
    strange: set[str] = set()
    for file in found:
        *above, name = file.path
        parent = above[-1] if above else ""
        kata = names.get(parent.lower()) or names.get(name.lower().removesuffix(".py"))
        if name.lower() in names and file.problem:  # the folder of a kata is a link
            candidates.setdefault(names[name.lower()], []).append(file)
        elif kata and (LOOSE.fullmatch(name) or name.lower() == f"{kata}.py"):
            candidates.setdefault(kata, []).append(file)
        elif LOOSE.fullmatch(name):
            loose.append(file)
            if KATA.fullmatch(parent):
                strange.add(parent)
        elif kata:
            folders.setdefault(kata, []).append(name)
    if asked is not None and len(asked) == 1 and not candidates:
        only = [file for file in loose if not strange.intersection(file.path)]
        if only:
            candidates[asked[0]] = only
    for kata in wanted:
        files = _best(candidates.get(kata, []))
        if len({file.data for file in files if not file.problem}) == 1:
            data = next(file.data for file in files if not file.problem) or b""
            submission.works[kata] = digest(data)
            keep(data)
        elif files and files[0].problem:
            submission.problems[kata] = f"{shown(files[0].path)}: {files[0].problem}"
        elif files:
            several = " and ".join(shown(file.path) for file in files[:3])
            submission.problems[kata] = f"several different files for one kata, keep one: {several}"
        elif kata in folders:
            inside = ", ".join(layouts.clean(name) for name in sorted(folders[kata])[:3])
            submission.problems[kata] = f"its folder holds {inside}, but no kernel.py"
    if not submission.works and not submission.problems:
        submission.problems[""] = _nothing(found, loose, strange, candidates)


def _best(files: list[Found]) -> list[Found]:
    """Those files that may be meant: of a cloned repository what lies in exercises/."""
    own = [f for f in files if not any(part in NO_WORK for part in f.path[:-2])] or files
    own = [f for f in own if "exercises" in f.path] or own

    # Of a file that was handed in several times a platform numbers the later ones.
    def turn(file: Found) -> int:
        match = LOOSE.fullmatch(file.path[-1])
        return int(match[1] or 0) if match else 0

    places = {file.path[:-1] for file in own}
    last = {place: max(turn(f) for f in own if f.path[:-1] == place) for place in places}
    return [file for file in own if turn(file) == last[file.path[:-1]]]


def _nothing(found, loose, strange, candidates) -> str:
    """Why a submission without any work has none."""
    if candidates:
        return f"it holds nothing for the katas that count, but for {', '.join(sorted(candidates))}"
    if strange:
        return f"there is no kata {', '.join(map(layouts.clean, sorted(strange)))}"
    if loose:
        return (
            f"{shown(loose[0].path)} lies in no kata's folder: put it into one, as 01_vector_add/"
        )
    if not found:
        return "it is empty"
    inside = [file for file in found if archives.is_archive(file.path[-1])]
    if inside and len(inside[0].path) > 1:
        return f"{shown(inside[0].path)} is inside another archive, which is not opened"
    return f"it holds {shown(found[0].path)}, but no kernel.py in a kata's folder"
