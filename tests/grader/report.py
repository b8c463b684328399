"""What a learner reads: the report of one file, as plain text that fits a terminal.

Colour never carries meaning alone, and NO_COLOR is respected.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from .progress import command
from .scorecard import LEFT_OUT, ORDER, TO_COME, Scorecard

WORDS = {"passed": "ok", "failed": "FAIL", "error": "ERROR", "not-judged": "--"}
COLOURS = {"passed": "32", "failed": "31", "error": "35", "not-judged": "2"}
MOST_READ = 1 << 20  # characters of a file that are looked through for TODOs
COST = "cost (an estimate, earns no points)"
TODO = re.compile(r"#\s*TODO\((\w+)\):\s*(.*)")


def first_line(file: Path, lanes: dict[str, bool], gpu: str | None, off: dict[str, str]) -> str:
    """What is under test: path, lanes, card."""
    on = ", ".join(lane for lane, used in lanes.items() if used) or "none"
    return f"{shown(file)} | lanes: {on} | {gpu or off.get('gpu', 'no GPU')}" + "".join(
        f" | {lane} off: {why}" for lane, why in off.items() if lane != "gpu" or gpu
    )


def shown(path: Path) -> str:
    """A path as a person would type it here."""
    try:
        return str(path.resolve().relative_to(Path.cwd().resolve()))
    except ValueError:
        return str(path)


def todos(file: Path) -> list[tuple[int, str, str]]:
    """The open TODOs of a file: (line, concept, text)."""
    lines = lines_of(file)
    found = []
    for number, line in enumerate(lines, 1):
        match = TODO.search(line)
        if match:
            text = match[2]
            for more in lines[number:]:
                extra = re.match(r"\s*#\s?(.*)", more)
                if not extra or TODO.search(more):
                    break
                text += " " + extra[1].strip()
            found.append((number, match[1], " ".join(text.split())))
    return found


def lines_of(file: Path) -> list[str]:
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
    for text in reversed(lines_of(file)[:line]):
        match = TODO.search(text)
        if match or not text.strip():
            return match[1] if match else ""
    return ""


def render(
    card: Scorecard,
    file: Path,
    lesson: Path | None,
    output: str = "",
    cost: Sequence[tuple[str, str]] = (),
) -> str:
    """The whole report of one kata; `cost`: what `cost.section` has to say.

    While some of it is still to come, what is known of it, without points.
    """
    width = min(max(shutil.get_terminal_size((88, 24)).columns, 40), 100)
    lines = [""]
    checks = sorted(card.checks, key=lambda c: ORDER.index(c.concept))
    left_out = sum(c.max_points for c in checks if c.message == LEFT_OUT)
    so_far = any(c.message == TO_COME for c in checks)
    checks = [c for c in checks if c.message not in (LEFT_OUT, TO_COME)]
    name = max((len(c.concept) for c in checks), default=0)
    same = {c.message for c in checks if c.status == "failed"}
    last = ""  # what the failure before said
    whole = len(same) == 1 and sum(c.status == "failed" for c in checks) > 2
    for check in checks:
        points = f"{check.points}/{check.max_points}"
        if check.status == "not-judged":
            points = f"-/{check.max_points}"
        head = f"  {WORDS[check.status]:<5} {check.concept:<{name}} {points:>6}  "
        title = textwrap.wrap(check.title, max(width - len(head), 12)) or [""]
        lines.append(paint(head, check.status) + title[0])
        lines += [" " * len(head) + more for more in title[1:]]
        text = check.message
        if whole and check.status == "failed":
            text = ""
        elif text and check.status == "failed":
            text, last = ("as above" if text == last else text), text
        if text:
            if check.line and f"line {check.line}" not in text and text != "as above":
                text = f"line {check.line}: {text}"
            if check.status == "not-judged":
                text = "not judged here: " + text
            indent = " " * (min(len(head), 24) if width >= 60 else 8)
            for paragraph in text.splitlines():
                lines += textwrap.wrap(
                    paragraph, width, initial_indent=indent, subsequent_indent=indent
                )
    if whole:
        failed = next(c for c in checks if c.status == "failed")
        where = f"line {failed.line}: " if failed.line else ""
        lines += ["", *textwrap.wrap(f"{where}{failed.message}", width)]
    if cost:
        lines += ["", *textwrap.wrap(COST, width, initial_indent="  ", subsequent_indent="  ")]
        for label, text in cost:
            head = f"    {label:<8} "
            indent = " " * len(head)
            lines += textwrap.wrap(text, width, initial_indent=head, subsequent_indent=indent)
    if output.strip():
        lines += ["", "It printed:", *("  | " + x[: width - 4] for x in output.splitlines()[:6])]
    if so_far:
        if any(c.status == "failed" for c in checks):
            text = next_step(card, checks, file, lesson)
            lines += ["", *textwrap.wrap(text, width, subsequent_indent="      ")]
        return "\n".join(lines)
    beyond = card.not_judged - left_out
    notes = [f"{beyond} not judged on this machine"] if beyond else []
    notes += [f"{left_out} left out"] if left_out else []
    points = f"{card.score} of {card.max_score} points" + (
        f" ({', '.join(notes)})" if notes else ""
    )
    lines += ["", *textwrap.wrap(f"{card.kata}: {points}", width)]
    lines += textwrap.wrap(next_step(card, checks, file, lesson), width, subsequent_indent="      ")
    return "\n".join(lines)


def next_step(card: Scorecard, checks: list, file: Path, lesson: Path | None) -> str:
    """One sentence: what to do now."""
    failed = [c for c in checks if c.status == "failed"]
    broken = [c for c in checks if c.status == "error"]
    if broken:
        return (
            "Next: an ERROR is a fault of the grader, not yours; please report it with this text."
        )
    if not failed:
        if not card.success:
            return (
                f"Next: type {command()} -s doctor. Nothing could be judged here, and it says why."
            )
        if len(checks) < len(card.checks):
            return "All that was asked for is right."
        if any(c.status == "not-judged" and c.lane == "trace" for c in card.checks):
            return (
                "What could be judged here is right. Next: check it on a machine with a GPU, which "
                "much of this kernel needs."
            )
        return "All that can be judged here is right. Compare with the reference in solutions/."
    first = next((c for c in failed if not c.waits), failed[0])
    if len(failed) > 2 and len({c.message for c in failed}) == 1 and first.line:
        return f"Next: line {first.line} of {shown(file)}. Nothing can be judged until it is put right."
    asked = [c for c in failed if c.lane == "trace" and not c.waits]
    everywhere = len(asked) > 2 and all(c.stops and c.line == first.line for c in asked)
    if first.line and everywhere and first.cause != "grid":
        concept = todo_around(file, first.line)
        at = f"line {first.line} of {shown(file)}" + f", in TODO({concept})" * bool(concept)
        return f"Next: {at}. It stops there, and little can be judged until that is put right."
    open_todos = todos(file)
    for line, concept, text in open_todos:
        if concept == first.concept:
            return f"Next: {first.concept}, line {line} of {shown(file)}: {text}"
    at = f", line {first.line} of" if first.line else ", in"
    hints = f" Hints are folded away in {shown(lesson)}." if lesson and lesson.exists() else ""
    return f"Next: {first.cause or first.concept}{at} {shown(file)}.{hints}"


def paint(text: str, status: str) -> str:
    """Colour for terminals that want it; the words say the same."""
    if os.environ.get("NO_COLOR") or not sys.stdout.isatty():
        return text
    return f"\x1b[{COLOURS[status]}m{text}\x1b[0m"
