"""What a folder of submissions looks like: whose each entry is, in the layouts that are understood.

plain        NAME/ or NAME.zip, NAME.tar.gz, ...: NAME is the student
Moodle       "Anna Muster_12345_assignsubmission_file_/", or the same in front of each file's name
Canvas       "musteranna_12345_678910_kernel.py", with LATE_ behind the name where it was late
Gradescope   submission_12345/, with names in submission_metadata.yml
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

from .archives import Refused, is_archive, read, stem

MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_[a-z]+(?:_(?P<file>.*))?", re.S)
CANVAS = re.compile(r"(?P<name>.+?)_(?P<late>LATE_)?(?P<id>\d{2,})_\d{2,}_(?P<file>.+)", re.S)
GRADESCOPE = re.compile(r"submission_(?P<id>\d+)")
METADATA = "submission_metadata.yml"
MAX_METADATA = 20 << 20
# What systems put into folders by themselves.
DEBRIS = {".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX", ".git", ".gitignore", ".directory"}


@dataclass
class Entry:
    """What one student handed in: paths, each with the name that the student gave it."""

    student: str
    ident: str  # tells two of one name apart
    parts: list[tuple[Path, str]] = field(default_factory=list)
    late: bool = False
    email: str = ""

    @property
    def source(self) -> str:
        return ", ".join(clean(path.name) for path, _ in self.parts)


def clean(text: str) -> str:
    """A name that can be shown and written anywhere: umlauts and spaces stay."""
    text = unicodedata.normalize("NFC", text)
    return "".join(
        c if unicodedata.category(c)[0] != "C" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def entries(folder: Path) -> tuple[list[Entry], list[str]]:
    """Who handed something in, in order of names; and the debris that is no submission."""
    found: dict[tuple[str, str, str], Entry] = {}
    ignored: list[str] = []
    paths = sorted(folder.iterdir(), key=lambda path: (path.name.casefold(), path.name))
    people = _people(folder / METADATA)
    gradescope = any(GRADESCOPE.fullmatch(path.name) for path in paths)
    for path in paths:
        name = path.name
        if name in DEBRIS or name.startswith("._") or (name == METADATA and gradescope):
            ignored.append(clean(name))
            continue
        entry, inside = _whose(path)
        key = (entry.student, entry.ident, "" if inside else name)
        kept = found.setdefault(key, entry)
        kept.parts.append((path, inside or name))
        kept.late |= entry.late
    listed = []
    names = {path.name for path in paths}
    for folder_name in sorted(people.keys() - names):
        if GRADESCOPE.fullmatch(
            folder_name
        ):  # named, and not there: whose work is it that is lost?
            found["", folder_name, ""] = Entry(folder_name, folder_name)
    for entry in found.values():
        listed += _named(entry, people)
    _tell_apart(listed)
    return listed, ignored


def _tell_apart(listed: list[Entry]) -> None:
    """No two rows alike: names may differ in what `clean` makes equal, as two ways to write an umlaut."""
    taken: set[tuple[str, str]] = set()
    for entry in listed:
        ident, number = entry.ident, 1
        while (entry.student, entry.ident) in taken:
            number += 1
            entry.ident = f"{ident} ({number})"
        taken.add((entry.student, entry.ident))


def _whose(path: Path) -> tuple[Entry, str]:
    """An entry without its parts, and the student's own name of this part ("": one part is all)."""
    name = path.name
    is_file = not path.is_dir() or path.is_symlink()
    match = MOODLE.fullmatch(name)
    if match:
        return Entry(clean(match["name"]), match["id"]), match["file"] or name
    match = CANVAS.fullmatch(name) if is_file else None
    if match:
        return Entry(clean(match["name"]), match["id"], late=bool(match["late"])), match["file"]
    return Entry(clean(stem(name) if is_file and is_archive(name) else name), clean(name)), ""


def _people(file: Path) -> dict[str, list[dict]]:
    """Gradescope's folders and who is in each; nothing where the file is not there or not readable."""
    import yaml

    try:
        known = yaml.safe_load(read(file, MAX_METADATA))
    except (OSError, Refused, yaml.YAMLError, ValueError, RecursionError):
        return {}
    people = {}
    for folder, facts in known.items() if isinstance(known, dict) else ():
        listed = facts.get(":submitters") if isinstance(facts, dict) else None
        people[str(folder)] = (
            [p for p in listed if isinstance(p, dict)] if isinstance(listed, list) else []
        )
    return people


def _named(entry: Entry, people: dict[str, list[dict]]) -> list[Entry]:
    """The entry itself, or one for each person whom Gradescope names for it."""
    match = GRADESCOPE.fullmatch(entry.ident)
    if not match:
        return [entry]
    named = []
    for person in people.get(entry.ident, []):
        name = clean(str(person.get(":name") or entry.student))
        ident = clean(str(person.get(":sid") or match["id"]))
        email = clean(str(person.get(":email") or ""))
        named.append(Entry(name, ident, entry.parts, entry.late, email))
    return named or [entry]
