"""Where the learner is: one file, `.katas/progress.json`, that every check of exercises/ updates.

Only history is lost with it: what a kernel is worth is asked of its suite, never of this file. It is
written in one step, and one that cannot be read is kept aside. Imports nothing but Python's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from .scorecard import LEFT_OUT, ORDER, PROJECT, Check, Scorecard

EXERCISES = PROJECT / "exercises"
# The tests name another one: what they check is nobody's progress.
FILE = Path(os.environ.get("KATAS_PROGRESS") or PROJECT / ".katas" / "progress.json")
VERSION = 1
PICTURED = ("grid", "offsets", "mask", "layout")  # what a picture of show-N shows at a glance
MOST_READ = 1 << 20  # characters of a file that are looked through for TODOs
TODO = re.compile(r"#\s*TODO\((\w+)\):\s*(.*)")


@dataclass
class Entry:
    """What is known of one kata.

    score, max_score, not_judged, solved, wrong   of the last check; `wrong`: the concepts at fault,
                   the first to look at first; score is None if there was none
    broken         what keeps the file from being judged at all, such as a syntax error
    digest, when   of the file that it judged, and the day
    best           the highest score of any check, whatever became of the file since
    speed          the best share of the reference solution's speed that a GPU was seen to give
    hints          the level of the last hint shown, by concept
    hunt, hunted   the number of the bug hunt that was handed out last, and of those solved
    """

    score: int | None = None
    max_score: int = 0
    not_judged: int = 0
    solved: bool = False
    wrong: list[str] = field(default_factory=list)
    broken: str = ""
    digest: str = ""
    when: str = ""
    best: int | None = None
    speed: float | None = None
    hints: dict[str, int] = field(default_factory=dict)
    hunt: int = 0
    hunted: list[int] = field(default_factory=list)


def katas() -> dict[int, str]:
    """Every kata by its number: {1: "01_vector_add", ...}, found by its folder.

    The lesson will do: a learner may have deleted the file.
    """
    files = [*EXERCISES.glob("[0-9][0-9]_*/kernel.py"), *EXERCISES.glob("[0-9][0-9]_*/README.md")]
    return {int(name[:2]): name for name in sorted({path.parent.name for path in files})}


def kata_of(word: str) -> str:
    """The kata that "1", "01" or "01_vector_add" means; any other word ends the run."""
    found = katas()
    named = [n for number, n in found.items() if word in (n, f"{number:02}", str(number))]
    if not named:
        stop(f"there is no kata {word} here; katas: {', '.join(map(str, found)) or 'none'}")
    return named[0]


def title(kata: str) -> str:
    """A kata's name for people: the heading of its lesson, or else its folder's name."""
    with contextlib.suppress(OSError):
        for line in (EXERCISES / kata / "README.md").read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                return re.sub(r"^(kata\s*)?\d+\s*[:.\-]?\s*", "", line[2:].strip(), flags=re.I)
    return kata[3:]


def command() -> str:
    """How nox is called here, to be repeated in advice."""
    return os.environ.get("KATAS_NOX") or "nox"


def stop(text: str) -> NoReturn:
    """Give up with one line and exit code 2."""
    print(text, file=sys.stderr, flush=True)
    raise SystemExit(2)


def is_own(file: Path, kata: str) -> bool:
    """Whether this is the learner's own file of a kata, and no submission or solution."""
    return file.resolve() == (EXERCISES / kata / "kernel.py").resolve()


def solution(kata: str) -> Path:
    """The reference solution of a kata."""
    return PROJECT / "solutions" / kata / "kernel.py"


def picture(kata: str, concept: str = "grid") -> str:
    """What to type to see a kernel at work; "" where a picture does not show this concept.

    A kata that asks for an agent has no kernel; its suite is not loaded to know, as that takes torch.
    """
    try:
        suite = (PROJECT / "tests" / f"test_{kata}.py").read_text(encoding="utf-8")
    except OSError:
        suite = ""
    drawn = concept in PICTURED and "KATA = Agent(" not in suite
    return f"{command()} -s show-{int(kata[:2])}" if drawn else ""


def digest(file: Path) -> str:
    """What tells one version of a file from another."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:16]
    except OSError:
        return ""


# ---- what is left to do ----------------------------------------------------------------------


def todos(file: Path) -> list[tuple[int, str, str]]:
    """The open TODOs of a file: (line, concept, text).

    One whose code is no longer the stub's is not open, though its comment may have been left there.
    """
    stub = PROJECT / "tests" / "stubs" / file.parent.name / "kernel.py"
    shipped = {(concept, text): code for _, concept, text, code in regions(read_lines(stub))}
    return [
        (line, concept, text)
        for line, concept, text, code in regions(read_lines(file))
        if shipped.get((concept, text), code) == code
    ]


def regions(lines: list[str]) -> list[tuple[int, str, str, list[str]]]:
    """What a file's TODOs say and are about: (line, concept, text, code down to the next empty line)."""
    found = []
    for number, line in enumerate(lines, 1):
        match = TODO.search(line)
        if match:
            text = match[2]
            code: list[str] = []
            for more in lines[number:]:
                extra = re.match(r"\s*#\s?(.*)", more)
                if not more.strip() or TODO.search(more):
                    break
                if extra and not code:
                    text += " " + extra[1].strip()
                else:
                    code.append(more.rstrip())
            found.append((number, match[1], " ".join(text.split()), code))
    return found


def read_lines(file: Path) -> list[str]:
    """The lines of a file, as far as they are looked through; none where it cannot be read."""
    try:
        with file.open(errors="replace") as opened:
            return opened.read(MOST_READ).splitlines()
    except OSError:
        return []


def todo_around(file: Path, line: int) -> str:
    """The concept of the TODO in whose region a line lies, "" for none.

    A region is the TODO's comment with the lines up to the next empty one.
    """
    lines = read_lines(file)
    for text in reversed(lines[:line] if line <= len(lines) else []):
        match = TODO.search(text)
        if match or not text.strip():
            return match[1] if match else ""
    return ""


def first_todo(file: Path, wrong: Sequence[str] = ()) -> tuple[int, str, str] | None:
    """The TODO to do first, for all who point to one: (line, concept, text), or None.

    After a check it is that of the concept that is at fault first, if that one is open; without one
    (`wrong` is empty) the first in the order of concepts, in which a report names them too.
    """
    left = todos(file)
    if wrong:
        return next((todo for todo in left if todo[1] == wrong[0]), None)
    return min(
        left, key=lambda todo: ORDER.index(todo[1]) if todo[1] in ORDER else 99, default=None
    )


# ---- the file --------------------------------------------------------------------------------


def load() -> dict[str, Entry]:
    """Everything that is on record, by kata. A file that cannot be read is put aside, and said."""
    try:
        state = json.loads(FILE.read_text(encoding="utf-8"))
        if state["version"] != VERSION:
            raise ValueError("version")
        return {str(kata): entry_of(facts) for kata, facts in state["katas"].items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        put_aside()
        return {}


def entry_of(facts: dict[str, Any]) -> Entry:
    """An entry as it was written; raises TypeError for what was not written here."""
    entry = Entry(**{f.name: facts[f.name] for f in fields(Entry) if f.name in facts})
    kinds: dict[str, Any] = {
        "score": (int, type(None)),
        "best": (int, type(None)),
        "speed": (int, float, type(None)),
        "wrong": list,
    }
    kinds |= {"max_score": int, "not_judged": int, "solved": bool, "hints": dict}
    kinds |= {"hunt": int, "hunted": list}
    for name, kind in (kinds | {"broken": str, "digest": str, "when": str}).items():
        if not isinstance(getattr(entry, name), kind):
            raise TypeError(name)
    entry.wrong = [str(concept) for concept in entry.wrong]
    entry.hunted = [int(number) for number in entry.hunted]
    entry.hints = {str(concept): int(level) for concept, level in entry.hints.items()}
    return entry


def put_aside() -> None:
    """Keep a file that cannot be read under another name, so that nothing is lost by writing."""
    with contextlib.suppress(OSError):
        kept = free_name(FILE)
        os.replace(FILE, kept)
        text = (
            f"The record of your progress could not be read; it is kept as {shown(kept)}, and a new"
        )
        print(f"{text} one begins. Your kernels are untouched.", file=sys.stderr, flush=True)


def shown(file: Path) -> str:
    """A file in a message: as it is called within the project, if it is there."""
    return str(file.relative_to(PROJECT) if file.is_relative_to(PROJECT) else file)


def free_name(file: Path) -> Path:
    """`file` with the first number behind it that is not taken: kernel.py.1, kernel.py.2, ..."""
    number = 1
    while file.with_name(f"{file.name}.{number}").exists():
        number += 1
    return file.with_name(f"{file.name}.{number}")


def save(entries: dict[str, Entry]) -> None:
    """Write the file in one step. Raises OSError."""
    state = {"version": VERSION, "katas": {kata: asdict(entries[kata]) for kata in sorted(entries)}}
    FILE.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=FILE.parent, prefix=".progress.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as opened:
            opened.write(json.dumps(state, indent=1) + "\n")
        os.replace(part, FILE)
    except BaseException:
        os.unlink(part)
        raise


def change(kata: str, alter: Callable[[Entry], None]) -> bool:
    """Alter the entry of a kata and write it; whether that was possible.

    Two checks may end at the same time: the second waits for the first. Where nothing can be
    written, nothing is: a record is a comfort and never a reason to fail.
    """
    with contextlib.suppress(OSError), locked():
        entries = load()
        alter(entries.setdefault(kata, Entry()))
        save(entries)
        return True
    return False


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Hold the folder of the file, where that is possible. Raises OSError if there can be none."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):
            import fcntl

            folder = os.open(FILE.parent, os.O_RDONLY)
            stack.callback(os.close, folder)
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield


# ---- what is written -------------------------------------------------------------------------


def record(card: Scorecard, speed: float | None = None) -> None:
    """Keep what a check of the learner's own file found; anything else is nobody's progress."""
    file = EXERCISES / card.kata / "kernel.py"
    if not is_own(Path(card.file), card.kata):
        return
    if any(check.message == LEFT_OUT for check in card.checks):
        return

    def alter(entry: Entry) -> None:
        entry.score, entry.max_score, entry.not_judged = card.score, card.max_score, card.not_judged
        entry.solved, entry.wrong, entry.broken = (
            solved(card),
            wrong(card, file),
            broken(card, file),
        )
        entry.best = max(card.score, entry.best or 0)
        entry.digest, entry.when = digest(file), time.strftime("%Y-%m-%d")
        if speed is not None:
            entry.speed = max(speed, entry.speed or 0.0)
        if entry.solved:
            entry.hints = {}

    change(card.kata, alter)


def solved(card: Scorecard) -> bool:
    """All that this machine can judge is right, and no lane but the GPU's was switched off."""
    off = [c for c in card.checks if c.status == "not-judged" and c.lane != "gpu"]
    return card.success and not any(not card.lanes.get(check.lane) for check in off)


def wrong(card: Scorecard, file: Path) -> list[str]:
    """The concepts at fault, in the order in which to look at them.

    An open TODO says by itself what is missing; the cause that was worked out is for what is done.
    """
    left = {concept for _, concept, _ in todos(file)}
    failed = [check for check in card.checks if check.status == "failed"]
    failed.sort(key=lambda check: (check.waits, ORDER.index(check.concept)))
    at_fault = [c.concept if c.concept in left else c.cause or c.concept for c in failed]
    stop = stopped(card.checks)
    inside = todo_around(file, stop.line or 0) if stop else ""
    return list(dict.fromkeys([inside, *at_fault] if inside else at_fault))


def stopped(checks: Sequence[Check]) -> Check | None:
    """The first of the checks, if an exception at one line keeps the trace lane from all answers."""
    asked = [c for c in checks if c.status == "failed" and c.lane == "trace" and not c.waits]
    everywhere = len(asked) > 2 and all(c.stops and c.line == asked[0].line for c in asked)
    return asked[0] if everywhere and asked[0].line and asked[0].cause != "grid" else None


def broken(card: Scorecard, file: Path) -> str:
    """What every judged check fails for, if it is one thing for all of them; else "".

    Where that is a line of an open TODO, its hints are what is needed.
    """
    stop = stopped(card.checks)
    if stop and not todo_around(file, stop.line or 0):
        return f"line {stop.line}: {stop.message}"
    judged = [check for check in card.checks if check.status != "not-judged"]
    messages = {check.message for check in judged if check.status == "failed"}
    if len(judged) < 3 or len(messages) != 1 or any(c.status == "passed" for c in judged):
        return ""
    line = judged[0].line
    return (f"line {line}: " if line else "") + messages.pop()
