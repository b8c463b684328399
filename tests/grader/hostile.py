"""Attacks on the grader, and the proof that each is caught: `python -m grader.hostile [NAME ...]`.

tests/hostile/NN_slug/NAME.py (or NAME/kernel.py, with what lies beside it) is a submission that wants
marks which it did not earn, or to do harm. The first line of its docstring states what catches it:

    check ID "WORDS": ...    that check of the suite fails, with these words in its message
    flag NAME "WORDS": ...   the instructor sees this flag, with these words as evidence

(WORDS may be one of several: "this|that"), and its last lines an honest twin that does something that
looks like it and must pass whole, without any flag: NN_slug/honest/NAME.py. Several attacks may share
a twin. What git cannot keep is made here. All of it runs in the sandbox, with tight limits.

What only a card can show is in tests/selftest/on_card, and is run there by tests/selftest/gpu_round.py.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .cell import Limits
from .grading import grade
from .judge import TESTS, Nursery
from .sandbox import choose
from .scorecard import Scorecard

FOLDER = TESTS / "hostile"
FIRST = "01_vector_add"
LIMITS = Limits(
    seconds=60, memory=512 << 20, processes=8, file_size=1 << 20, output=20_000, disk=8 << 20
)
LANES = {"trace": True, "compile": False, "gpu": False}
STATED = re.compile(r'(check|flag) (\S+) "([^"]+)": ')
TWIN = re.compile(r"\nTwin: (\w+)\.py")


@dataclass(frozen=True)
class Attack:
    """A hostile submission, what must catch it, and its honest twin."""

    name: str
    kata: str
    file: Path
    kind: str  # check | flag
    which: str
    words: str
    twin: Path


def stated(name: str, kata: str, file: Path, doc: str) -> Attack:
    """An attack from its docstring. Raises ValueError if that does not state what catches it."""
    caught, twin = STATED.match(doc), TWIN.search(doc)
    if caught is None or twin is None:
        raise ValueError(f"{name} does not state what catches it, or which twin it has")
    honest = FOLDER / kata / "honest" / f"{twin[1]}.py"
    return Attack(name, kata, file, caught[1], caught[2].replace("-", " "), caught[3], honest)


def kept() -> list[Attack]:
    """The attacks that lie in tests/hostile."""
    files = sorted([*FOLDER.glob("*/*.py"), *FOLDER.glob("*/*/kernel.py")])
    out = []
    for file in files:
        whole = file.name == "kernel.py"
        name = file.parent.name if whole else file.stem
        kata = file.parent.parent.name if whole else file.parent.name
        out.append(stated(name, kata, file, file.read_text().split('"""')[1]))
    return out


# ---- what git cannot keep --------------------------------------------------------------------


def _link(file: Path) -> None:
    file.symlink_to(FOLDER / FIRST / "honest" / "plain.py")


def _huge(file: Path) -> None:
    plain = (FOLDER / FIRST / "honest" / "plain.py").read_bytes()
    with file.open("wb") as opened:
        opened.write(plain)
        opened.truncate(100 << 20)


def _walks(change: Callable[[str], str]) -> Callable[[Path], None]:
    """The one that walks the frames, with its text changed."""

    def make(file: Path) -> None:
        text = (FOLDER / FIRST / "walks_the_frames.py").read_text(encoding="utf-8")
        file.write_bytes(change(text).encode())

    return make


def _holds(content: bytes) -> Callable[[Path], None]:
    def make(file: Path) -> None:
        file.write_bytes(content)

    return make


MADE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "symlink": (
        'check values "it is a link": kernel.py points to a file that belongs to somebody else.\n\n'
        "Twin: plain.py, the file that it points to, handed in as a file.",
        _link,
    ),
    "hundred_megabytes": (
        'check values "larger than 1 MiB": 100 MB to read, decode and compile.\n\nTwin: plain.py.',
        _huge,
    ),
    "binary_rubbish": (
        'check values "not a text": random bytes.\n\nTwin: plain.py.',
        _holds(random.Random(0).randbytes(5000)),
    ),
    "zero_bytes": (
        'check values "zero bytes": a text that ends for some before it ends for others.\n\n'
        "Twin: plain.py.",
        _holds(b"add = print\n\0\nadd = 3\n"),
    ),
    "endless_pipe": (
        'check values "no plain file": a pipe that never says anything.\n\nTwin: plain.py.',
        os.mkfifo,
    ),
    "device": (
        'check values "it is a link": kernel.py is /dev/zero.\n\nTwin: plain.py.',
        lambda file: file.symlink_to("/dev/zero"),
    ),
    "folder": ('check values "no plain file": kernel.py is a folder.\n\nTwin: plain.py.', os.mkdir),
    "in_a_comment_that_ends": (
        'flag suspicious-source "frames": a carriage return ends a comment.\n\nTwin: plain.py.',
        _walks(lambda text: text.replace("    frame = sys", "    # notes\r    frame = sys")),
    ),
    "spelt_out": (
        'flag suspicious-source "spells its letters out": its comment is code once it is decoded.\n\n'
        "Twin: plain.py.",
        _walks(
            lambda text: (
                "# coding: unicode_escape\n"
                + text.replace("    frame = sys", "    # notes \\u000a    frame = sys")
            )
        ),
    ),
    "leaves_no_memory": (
        'check values "raises MemoryError|allocate memory": takes what the grader needs.\n\n'
        "Twin: plain.py.",
        _walks(
            lambda text: (
                "import mmap\nkept, piece = [], 1 << 28\n"
                "while piece > 1 << 10:\n"
                "    try:\n        kept.append(mmap.mmap(-1, piece, flags=mmap.MAP_PRIVATE))\n"
                "    except (OSError, MemoryError):\n        piece >>= 1\n" + text
            )
        ),
    ),
    "nested_without_end": (
        'check values "does not import": brings a parser to its knees.\n\nTwin: plain.py.',
        _holds(b"x = " + b"-" * 200_000 + b"1\n"),
    ),
}


def made(folder: Path) -> list[Attack]:
    """The other attacks, written into this folder."""
    out = []
    for name, (doc, make) in MADE.items():
        file = folder / name / "kernel.py"
        file.parent.mkdir(parents=True)
        make(file)
        out.append(stated(name, FIRST, file, doc))
    return out


# ---- running them ----------------------------------------------------------------------------


def attempt(kata: str, file: Path, nursery: Nursery) -> Scorecard:
    """Grade a file as a class is graded."""
    return grade(kata, file, nursery, LANES, "hostile")


def uncaught(attack: Attack, card: Scorecard) -> str:
    """What should have caught an attack and did not, "" if all is well."""
    broken = [c for c in card.checks if c.status == "error"]
    if broken:
        return f"the grader itself fails: {broken[0].message}"
    told = {c.id: c.message for c in card.checks if c.status == "failed"}
    if attack.kind == "check":
        seen = told.get(attack.which, "(passed)")
    else:
        seen = "; ".join(f["evidence"] for f in card.flags if f["flag"] == attack.which)
    if any(words in seen for words in attack.words.split("|")):
        return ""
    return f"{attack.kind} {attack.which} says: {seen or card.flags}; the checks: {told}"[:600]


def suspected(card: Scorecard) -> str:
    """What is held against an honest twin, "" if nothing is."""
    failed = [f"{c.id}: {c.message}" for c in card.checks if c.status in ("failed", "error")]
    return "; ".join(failed + [str(flag) for flag in card.flags])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m grader.hostile", description=__doc__)
    parser.add_argument("names", nargs="*", help="attacks to try (default: all)")
    names = parser.parse_args().names
    try:
        nursery = Nursery(choose("bwrap"), LIMITS)
    except ValueError as error:
        parser.error(str(error))
    problems = 0
    with tempfile.TemporaryDirectory() as folder:
        attacks = [a for a in kept() + made(Path(folder)) if not names or a.name in names]
        if not attacks:
            parser.error(f"no attack is called {' or '.join(names)}")
        files: list[tuple[str, str, Path, Attack | None]]
        files = [(a.name, a.kata, a.file, a) for a in attacks]
        files += [(t.stem, k, t, None) for k, t in sorted({(a.kata, a.twin) for a in attacks})]
        for name, kata, file, attack in files:
            card = attempt(kata, file, nursery)
            problem = uncaught(attack, card) if attack else suspected(card)
            problems += bool(problem)
            print(f"{'  !' if problem else 'ok '} {name}  {problem}", flush=True)
    nursery.close()
    print(f"{len(files) - problems} as they should be, {problems} not")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
