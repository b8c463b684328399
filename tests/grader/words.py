"""Sentences: numbers in them, and paragraphs that fit the terminal."""

from __future__ import annotations

import shutil
import textwrap


def width() -> int:
    """The columns that there are to write in: those of the terminal, within reason."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 40), 100)


def wrapped(text: str, first: str = "", rest: str | None = None) -> str:
    """A paragraph for this terminal; words are never cut, as they may be paths."""
    return textwrap.fill(
        text,
        width(),
        initial_indent=first,
        subsequent_indent=" " * len(first) if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def plural(count: int, noun: str) -> str:
    """ "1 element", "1,024 elements"."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def are(count: int) -> str:
    """The verb behind it."""
    return "is" if count == 1 else "are"
