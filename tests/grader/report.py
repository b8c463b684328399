"""What a learner reads: the report of one file, as plain text that fits a terminal.

Colour never carries meaning alone, and NO_COLOR is respected.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from . import progress, status
from .outline import Outline
from .progress import command
from .scorecard import LEFT_OUT, ORDER, TO_COME, Scorecard
from .words import lines_of

WORDS = {"passed": "ok", "failed": "FAIL", "error": "ERROR", "not-judged": "--"}
COLOURS = {"passed": "32", "failed": "31", "error": "35", "not-judged": "2"}
AS_ABOVE = "as above"
COST = "cost (an estimate, earns no points)"


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


def render(
    card: Scorecard,
    file: Path,
    lesson: Path | None,
    output: str = "",
    cost: Sequence[tuple[str, str]] = (),
) -> str:
    """The whole report of one kata; `cost`: what `cost.section` has to say.

    While some of it is still to come, what is known of it, without points: what failed on a few
    sizes fails, what passed on them ("ok?") may yet fail, so nobody is sent on to anything.
    """
    width = min(max(shutil.get_terminal_size((88, 24)).columns, 40), 100)
    lines: list[str] = []
    checks = sorted(card.checks, key=lambda c: ORDER.index(c.concept))
    left_out = sum(c.max_points for c in checks if c.message == LEFT_OUT)
    so_far = any(c.message == TO_COME for c in checks)
    checks = [c for c in checks if c.message not in (LEFT_OUT, TO_COME)]
    name = max((len(c.concept) for c in checks), default=0)
    same = {c.gist or c.message for c in checks if c.status == "failed"}
    last = ""  # what the failure before said
    told: dict[str, str] = {}  # what was said: the concept that it was first said of
    whole = len(same) == 1 and sum(c.status == "failed" for c in checks) > 2
    for check in checks:
        points = f"{check.points}/{check.max_points}"
        word = WORDS[check.status]
        if check.status == "not-judged":
            points = f"-/{check.max_points}"
        if check.status == "passed" and so_far:
            word, points = f"{word}?", f"?/{check.max_points}"
        head = f"  {word:<5} {check.concept:<{name}} {points:>6}  "
        title = textwrap.wrap(check.title, max(width - len(head), 12)) or [""]
        lines.append(paint(head, check.status) + title[0])
        lines += [" " * len(head) + more for more in title[1:]]
        text = check.message
        if whole and check.status == "failed":
            text = ""
        elif text and check.status == "failed":
            gist = check.gist or text
            if gist == last:
                text = AS_ABOVE
            elif gist in told and (check.stops or check.lane == "compile"):
                text = f"{AS_ABOVE}, see {told[gist]}"
            told.setdefault(gist, check.concept)
            last = gist
        if text:
            if check.line and f"line {check.line}" not in text and not text.startswith(AS_ABOVE):
                text = f"line {check.line}: {text}"
            if check.status == "not-judged":
                text = "not judged here: " + text
            indent = " " * (min(len(head), 24) if width >= 60 else 8)
            above: list[str] = []
            for paragraph in text.splitlines():
                if len(above) > 1 and paragraph.strip() == "^":
                    continue  # it would point into another line than its own
                above = textwrap.wrap(
                    paragraph, width, initial_indent=indent, subsequent_indent=indent
                )
                lines += above
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
        return "\n".join(lines)
    beyond = card.not_judged - left_out
    notes = [f"{beyond} not judged on this machine"] if beyond else []
    notes += [f"{left_out} left out"] if left_out else []
    points = f"{card.score} of {card.max_score} points" + (
        f" ({', '.join(notes)})" if notes else ""
    )
    lines += ["", *textwrap.wrap(f"{card.kata}: {points}", width)]
    for sentence in next_step(card, checks, file, lesson).splitlines():
        lines += lines_of(sentence, width, rest=" " * 6)
    return "\n".join(lines)


def next_step(card: Scorecard, checks: list, file: Path, lesson: Path | None) -> str:
    """What to do now: a line, or two where there is something to say before it."""
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
        return all_right(card.kata, file)
    first = next((c for c in failed if not c.waits), failed[0])
    if len(failed) > 2 and len({c.message for c in failed}) == 1 and first.line:
        return f"Next: line {first.line} of {shown(file)}. Nothing can be judged until it is put right."
    own = progress.is_own(file, card.kata)
    if progress.broken(card, file) and not first.line:
        reset = f"{command()} -s reset-{int(card.kata[:2])}"
        back = f" {reset} brings the stub back and keeps your file." if own else ""
        return f"Next: {shown(file)}. Nothing can be judged until it is put right.{back}"
    stop = progress.stopped(failed)
    if stop:
        concept = progress.todo_around(file, stop.line or 0)
        at = f"line {stop.line} of {shown(file)}" + f", in TODO({concept})" * bool(concept)
        return f"Next: {at}. It stops there, and little can be judged until that is put right."
    todo = progress.first_todo(file, [first.concept])
    concept = first.concept if todo else first.cause or first.concept
    picture = progress.picture(card.kata, concept) if own else ""
    draws = f" {picture} draws your kernel at work." if picture else ""
    if todo:
        return f"Next: {concept}, line {todo[0]} of {shown(file)}: {todo[2]}{draws}"
    if first.stops and first.line and not todo and first.cause == "robust":
        return (
            f"Next: line {first.line} of {shown(file)}. It stops there, though not at every size."
        )
    line = first.line or (Outline.of(file).only_launch() if concept == "grid" else None)
    at = f", line {line} of" if line else ", in"
    inside = progress.todo_around(file, line or 0)
    within = f", in TODO({inside})" if inside else ""
    several = sum(c.concept == concept for c in card.checks) > 1 and concept == first.concept
    which = f" ({first.title.rstrip('.')})" if several and first.title else ""
    hints = f" Hints are folded away in {shown(lesson)}." if lesson and lesson.exists() else ""
    hints = f" For a hint: {command()} -s hint-{int(card.kata[:2])}." if own else hints
    return f"Next: {concept}{which}{at} {shown(file)}{within}.{draws}{hints}"


def all_right(kata: str, file: Path) -> str:
    """What to say at the end of a kata, and which is the next one."""
    text, solution = "All that can be judged here is right.", progress.solution(kata)
    if file.resolve() == solution.resolve():
        return text
    text = f"{text} Compare your kernel with {shown(solution)}."
    if not progress.is_own(file, kata):
        return text
    row = status.following(status.rows(), int(kata[:2]))
    if row is None or row.kata == kata:
        return f"{text} That was the last kata."
    lesson = shown(progress.EXERCISES / row.kata / "README.md")
    then = f"{lesson}, then {command()} -s check-{row.number}"
    return f"{text}\nNext: kata {row.number}, {row.kata[3:]}: {then}."


def paint(text: str, status: str) -> str:
    """Colour for terminals that want it; the words say the same."""
    wanted = sys.stdout.isatty() or os.environ.get("FORCE_COLOR")
    if os.environ.get("NO_COLOR") or not wanted:
        return text
    return f"\x1b[{COLOURS[status]}m{text}\x1b[0m"
