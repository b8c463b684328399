"""Sentences: numbers in them, paragraphs that fit the terminal, and readers that leave."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import NoReturn

COMMAND = re.compile(r"\bnox -s (?=\S)")
GLUED = "nox\xa0-s\xa0"  # what no line ends in: a command is to be read, and copied, in one piece


def width() -> int:
    """The columns that there are to write in: those of the terminal, within reason."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 40), 100)


def lines_of(text: str, columns: int, first: str = "", rest: str = "") -> list[str]:
    """A paragraph as lines; words are never cut, as they may be paths, nor is `nox -s check-1`."""
    lines = textwrap.wrap(
        COMMAND.sub(GLUED, text),
        columns,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(GLUED, "nox -s ") for line in lines]


def wrapped(text: str, first: str = "", rest: str | None = None) -> str:
    """A paragraph for this terminal."""
    return "\n".join(lines_of(text, width(), first, " " * len(first) if rest is None else rest))


def plural(count: int, noun: str) -> str:
    """ "1 element", "1,024 elements"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def are(count: int) -> str:
    """The verb behind it."""
    return "is" if count == 1 else "are"


def place(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]"


def number(value) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def got_and_want(got, want) -> str:
    """Both numbers, with as many digits as it takes to see that they differ."""
    if number(got) == number(want) and not isinstance(got, int):
        return f"got {got:.9g}, want {want:.9g}"
    return f"got {number(got)}, want {number(want)}"


def grid_text(launch: dict) -> str:
    grid = launch["grid"]
    while len(grid) > 1 and grid[-1] == 1:
        grid = grid[:-1]
    return "(" + ", ".join(map(str, grid)) + ("," if len(grid) == 1 else "") + ")"


def outside_text(event: dict) -> str:
    """One out-of-bounds event as a sentence."""
    name = event["buffer"] or "a tensor"
    verb = {"load": "tl.load reads", "store": "tl.store writes", "atomic": "tl.atomic changes"}
    end = "past the end of" if event["side"] == "after" else "before the start of"
    program = event["program"]
    while len(program) > 1 and program[-1] == 0:
        program = program[:-1]
    number_ = program[0] if len(program) == 1 else tuple(program)
    return (
        f"line {event['line']}: {verb[event['op']]} {plural(event['count'], 'element')} {end} "
        f"{name} ({plural(event['elements'], 'element')}) in program {number_}"
    )


def speak(main: Callable[..., int], *arguments: object) -> NoReturn:
    """Run a command to its end; quietly, if its reader leaves before (`nox -s status | head -3`)."""
    try:
        code = main(*arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to come
        code = 1
    sys.exit(code)
