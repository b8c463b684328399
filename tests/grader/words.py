"""Sentences: numbers in them, and paragraphs that fit the terminal."""

from __future__ import annotations

import re
import shutil
import textwrap

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
