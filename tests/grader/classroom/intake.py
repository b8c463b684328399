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
# A platform or a browser numbers what has the name of something that is there: kernel-1.py.
NUMBERED = r"(?:[-_ ]?\(?(\d+)\)?)?"
LOOSE = re.compile(rf"kernel{NUMBERED}\.py", re.I)
BEHIND = re.compile(rf"{NUMBERED}(?:\.py)?", re.I)
MOST_REASONS = 3  # that are told of one submission
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
    return lambda name: (
        bool(LOOSE.fullmatch(name))
        or (name.lower().endswith(".py") and named(name, known) is not None)
    )


def named(name: str, known: Sequence[str]) -> tuple[str, int] | None:
    """The kata that a file or a folder is called after, and the number behind it."""
    for kata in known:
        if name.lower().startswith(kata.lower()):
            match = BEHIND.fullmatch(name[len(kata) :])
            if match:
                return kata, int(match[1] or 0)
    return None


def _look(entry: layouts.Entry, known: Sequence[str], submission: Submission) -> list[Found]:
    """Every file of a submission, its archives opened; what cannot be opened is a problem."""
    wanted, left = wanted_of(known), archives.Allowance()
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
                inside = archives.in_folder(path, wanted, left)
                found += inside
                for file in inside:
                    if archives.is_archive(file.path[-1]) and not file.problem:
                        inner = path.joinpath(*file.path)
                        found += _opened(inner, file.path, wanted, reasons, left)
            elif archives.is_archive(name):
                found += _opened(path, (name,), wanted, reasons, left)
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
        more = len(reasons) - MOST_REASONS
        reasons[MOST_REASONS:] = [f"and {more} more like these"] if more > 0 else []
        submission.problems[""] = "; ".join(reasons)
    return found


def _opened(
    file: Path,
    path: archives.Path_,
    wanted: archives.Wanted,
    reasons: list[str],
    left: archives.Allowance,
) -> list[Found]:
    """The files of an archive, below its own name."""
    above = (*path[:-1], archives.stem(path[-1]))
    try:
        return [
            Found((*above, *each.path), each.data, each.problem)
            for each in archives.in_archive(file, path[-1], wanted, left)
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
    candidates: dict[str, list[Found]] = {}
    loose: list[Found] = []
    folders: dict[str, list[str]] = {}  # kata folders, and what lies in them
    strange: set[str] = set()
    for file in found:
        *above, name = file.path
        parent = above[-1] if above else ""
        own = named(name, known)
        called = named(parent, known) or own
        kata = called[0] if called else ""
        if own and file.problem:  # the folder of a kata is a link
            candidates.setdefault(own[0], []).append(file)
        elif kata and (LOOSE.fullmatch(name) or wanted_of([kata])(name)):
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
        files = _best(candidates.get(kata, []), kata)
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


def _best(files: list[Found], kata: str) -> list[Found]:
    """Those files that may be meant: of a cloned repository what lies in exercises/."""
    own = [f for f in files if not any(part in NO_WORK for part in f.path[:-2])] or files
    own = [f for f in own if "exercises" in f.path] or own

    # Of a file that was handed in several times a platform numbers the later ones.
    def turn(file: Found) -> int:
        match = LOOSE.fullmatch(file.path[-1])
        return int(match[1] or 0) if match else (named(file.path[-1], [kata]) or ("", 0))[1]

    last: dict[archives.Path_, int] = {}
    for file in own:
        last[file.path[:-1]] = max(turn(file), last.get(file.path[:-1], 0))
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
        return "there is no file in it"
    inside = [file for file in found if archives.is_archive(file.path[-1])]
    if inside and len(inside[0].path) > 1:
        return f"{shown(inside[0].path)} is inside another archive, which is not opened"
    return f"it holds {shown(found[0].path)}, but no kernel.py in a kata's folder"
