"""Where the learner is and what to do next: `python -m grader.status [home | status | next]`.

home     what `nox` alone prints: a few lines, with the next thing to type
status   a table of all katas (with rich, where that is installed; the same words without it)
next     the first kata that is not solved, its lesson, its first TODO

Everything comes from the record (see `progress`) and the files; no kernel is run.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from . import progress, stubs
from .progress import Entry, command, katas
from .words import speak, width, wrapped

BAR = 20  # characters of the progress line
WIDE = 72  # columns from which on the table has room for all that is known
NARROW = 50  # and below which it has none for speed, nor for more than one space between columns


COLUMNS = ("kata", "state", "score", "speed")


@dataclass
class Row:
    """One kata in the table."""

    number: int
    kata: str
    entry: Entry
    state: str  # solved | started | unchecked | to do
    edited: bool  # since the last check

    @property
    def score(self) -> str:
        return "" if self.entry.score is None else f"{self.entry.score}/{self.entry.max_score}"

    @property
    def speed(self) -> str:
        return "" if self.entry.speed is None else f"{self.entry.speed:.2f}"


def rows() -> list[Row]:
    """Every kata and where it stands."""
    entries = progress.load()
    out = []
    for number, kata in katas().items():
        entry = entries.get(kata, Entry())
        now = progress.digest(progress.EXERCISES / kata / "kernel.py")
        if stubs.untouched(kata):
            state = "to do"
        elif entry.solved:
            state = "solved"
        else:
            state = "unchecked" if entry.score is None else "started"
        edited = entry.score is not None and now != entry.digest and state != "to do"
        out.append(Row(number, kata, entry, state, edited))
    return out


def following(found: list[Row], after: int = 0) -> Row | None:
    """The next kata to do: the first unsolved one, or the first of those behind number `after`."""
    unsolved = [row for row in found if row.state != "solved"]
    return next((row for row in unsolved if row.number > after), unsolved[0] if unsolved else None)


# ---- words -----------------------------------------------------------------------------------


def progress_line(found: list[Row]) -> str:
    """How many are solved, in words and as a bar."""
    done = sum(row.state == "solved" for row in found)
    full = max(done * BAR // len(found), min(done, 1))  # one solved kata already shows
    return f"{done} of {len(found)} solved  [{'#' * full}{'.' * (BAR - full)}]"


def what_now(row: Row) -> list[str]:
    """The next kata: its lesson, its file, its first TODO, and what to type."""
    file = progress.EXERCISES / row.kata / "kernel.py"
    score = f", {row.entry.score} of {row.entry.max_score} points so far" if row.score else ""
    lines = [f"Next: kata {row.number}, {progress.title(row.kata)}{score}"]
    lines.append(f"  lesson  exercises/{row.kata}/README.md")
    lines.append(f"  file    exercises/{row.kata}/kernel.py")
    current = row.entry.score is not None and not row.edited
    todo = progress.first_todo(file, row.entry.wrong if current else ())
    if current and row.entry.broken:
        lines.append(wrapped(f"last check: {row.entry.broken}", " " * 10))
    elif todo:
        line, concept, text = todo
        lines.append(wrapped(f"line {line}, {concept}: {text}", "  TODO    "))
    elif not file.is_file():
        lines.append(
            wrapped(f"it is gone; {command()} -s reset-{row.number} brings it back", " " * 10)
        )
    elif row.entry.wrong and current:
        lines.append(wrapped(f"last check: wrong in {', '.join(row.entry.wrong)}", " " * 10))
    lines.append(f"  check   {command()} -s check-{row.number}")
    return lines


def all_done() -> str:
    return wrapped(
        f"All katas are solved: well done. {command()} -s bench-1 measures a kernel on a GPU, "
        f"{command()} -s debug-1 hands you one that is broken."
    )


def home() -> None:
    """What `nox` alone says."""
    found = rows()
    row = following(found)
    print(wrapped("Triton katas: fill in a kernel, check it, read what holds and what does not."))
    print(f"\n{progress_line(found)}\n")
    if row is None:
        print(all_done())
        return
    print("\n".join(what_now(row)))
    print()
    if not any(other.entry.best for other in found):
        begin = "exercises/README.md begins with the smallest kernel there is, and a glossary."
        print(wrapped(f"New to GPUs? {begin}") + "\n")
    say = {
        "watch": "check again at every save",
        f"hint-{row.number}": "a hint on what the last check found wrong",
        f"show-{row.number}": "a picture of your kernel at work",
        "status": "all katas",
        "doctor": "what this machine can judge",
    }
    if not progress.picture(row.kata):
        del say[f"show-{row.number}"]
    for session, text in say.items():
        print(wrapped(text, f"  {command()} -s {session:<9}"))
    print(wrapped("everything else", f"  {command() + ' -l':<{len(command()) + 13}}"))


def following_kata() -> None:
    """What `nox -s next` says."""
    row = following(rows())
    print("\n".join(what_now(row)) if row else all_done())


# ---- the table -------------------------------------------------------------------------------


def status() -> None:
    """What `nox -s status` says."""
    found = rows()
    try:
        with_rich(found)
    except ImportError:
        print(plain(found))
    print()
    notes = []
    edited = [str(row.number) for row in found if row.edited]
    if edited:
        notes.append(f"Edited since the last check: {', '.join(edited)}.")
    if any(row.entry.not_judged and row.state == "solved" for row in found):
        notes.append("A full score needs a GPU; solved means that all is right that can be judged.")
    better = [
        f"{r.number} ({r.entry.best})" for r in found if (r.entry.best or 0) > (r.entry.score or 0)
    ]
    if better:
        notes.append(f"Had more points once: kata {', '.join(better)}.")
    if width() >= NARROW and any(row.speed for row in found):
        notes.append("Speed: the best seen on a GPU, as a share of the reference solution's.")
    for note in notes:
        print(wrapped(note))
    row = following(found)
    print(f"{progress_line(found)}")
    print(f"Next: {command()} -s check-{row.number}" if row else all_done())


def plain(found: list[Row]) -> str:
    """The table without rich: no wider than 40 columns on a narrow terminal, and than 50 on others."""
    narrow = width() < NARROW
    lines = []
    for cells in (("", *COLUMNS), *((str(r.number), *cells_of(r)) for r in found)):
        columns = [f"{cells[0]:>2}", f"{cells[1]:<18}", f"{cells[2]:<9}", f"{cells[3]:>7}"]
        columns += [] if narrow else [f"{cells[4]:>5}"]
        lines.append((" " if narrow else "  ").join(columns).rstrip())
    return "\n".join(lines)


def cells_of(row: Row) -> tuple[str, str, str, str]:
    return row.kata[3:], row.state, row.score, row.speed


def with_rich(found: list[Row]) -> None:
    """The table with rich; raises ImportError without it. Colour repeats what the words say."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    wide, narrow = console.width >= WIDE, console.width < NARROW
    table = Table(box=None, pad_edge=False, collapse_padding=narrow, header_style="bold")
    columns = ["", *COLUMNS[: 3 if narrow else 4]] + (["not judged", "checked"] if wide else [])
    for column in columns:
        right = column in ("", "score", "speed", "not judged")
        table.add_column(column, justify="right" if right else "left", no_wrap=True)
    styles = {"solved": "green", "started": "yellow", "unchecked": "yellow", "to do": "dim"}
    for row in found:
        cells = [str(row.number), *cells_of(row)][: len(columns)]
        if wide:
            left = str(row.entry.not_judged) if row.entry.not_judged and row.score else ""
            cells += [left, row.entry.when]
        table.add_row(*cells, style=styles[row.state])
    console.print(table)


def main(words: list[str]) -> int:
    does = {"home": home, "status": status, "next": following_kata}
    if len(words) != 1 or words[0] not in does:
        progress.stop(f"grader.status takes one of {', '.join(does)}")
    if not katas():
        progress.stop("There is no kata in exercises/.")
    does[words[0]]()
    return 0


if __name__ == "__main__":
    speak(main, sys.argv[1:])
