"""Hints on what the last check found wrong: `python -m grader.clues N [N ...]`.

The hints are those of the lesson, the three that are folded there; each of their items names the
concepts that it is about (`- **mask, grid**: ...`, or a line `**mask**` above code), and what names
none is for all. Where a lesson has nothing on a concept, GENERAL has.

One call shows one level, the next call the next one. Which were shown is on record (see `progress`).
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from . import progress
from .progress import Entry, command, kata_of
from .words import speak, wrapped

LEVELS = 3
# The first two levels on each concept, whatever the kata.
GENERAL = {
    "grid": (
        "What is the share of one program: a block, a tile, a whole row? How many shares are there "
        "at the size that the report names, and how many programs does your grid start?",
        "A grid is a tuple with a number for each axis, and `tl.program_id(axis)` counts along it. "
        "If each row has its program, there are as many as rows; if an axis is cut into blocks, "
        "`triton.cdiv(a, b)` divides and rounds up, for a last block that is not full.",
    ),
    "offsets": (
        "Write down, for program 2, the first element that it should have, and the first that it "
        "has by your lines.",
        "A program's block starts at its number times the block size; `tl.arange` counts inside "
        "the block.",
    ),
    "mask": (
        "Which lanes of the last block have no element? What do they read, and where do they write?",
        "A mask compares the very offsets that the pointers are made of with the size of that axis. "
        "`other=` says what a lane holds that is off: something that changes neither a sum nor a "
        "maximum.",
    ),
    "values": (
        "Take a single element and work it out by hand: once by the lesson's formula, once by your "
        "lines. At which step do they part?",
        "Operators and functions of `tl` work lane by lane; a number or a block of one column is "
        "spread over the others.",
    ),
    "layout": (
        "How far apart do two neighbours of a row lie in memory, and two of a column? `x.stride()` "
        "knows, `x.shape` does not.",
        "Every index is multiplied by the stride of its own dimension, for the inputs and for the "
        "result. Neighbouring lanes should touch neighbouring addresses.",
    ),
    "reduction": (
        "Which lanes take part in the sum or the maximum, along which axis, and by what is it "
        "divided?",
        "`tl.sum` and `tl.max` see every lane, those that a mask switched off too: what do these "
        "hold?",
    ),
    "precision": (
        "In which dtype is each step computed? Follow one number from its load to its store.",
        "`.to(tl.float32)` right behind the load makes all that follows fp32, and the store rounds "
        "once, at the end. For fp32 inputs, `tl.dot` is told by `input_precision` how to multiply.",
    ),
    "accumulate": (
        "Follow the running value through two rounds of the loop: what does it start with, what "
        "comes in, what must be kept?",
        "A sum starts at 0 and in fp32; every round adds to what is there; pointers or offsets move "
        "on by a block; the loop ends where the axis does.",
    ),
    "fusion": (
        "Which numbers travel to memory and back, though the same program needs them again?",
        "What a program has loaded it may keep: one load of each input, one store of each result, "
        "and no tensor in between.",
    ),
    "autotune": (
        "What depends on the config that the tuner chooses, and what do its trial runs leave behind?",
        "A grid may be a function of the config; `key` names the arguments that decide which config "
        "is best; `restore_value` names the tensors that a trial overwrites.",
    ),
    "robust": (
        "The report names the case: its shape, its dtype, its values. What do your lines do with "
        "just that one?",
        "Sizes of 0 and 1, every dtype of the task, infinities and NaN: the result has the shape and "
        "dtype that the lesson states, inputs stay as they are, no call depends on the one before.",
    ),
    "speed": (
        "How much work has one program, and which addresses do neighbouring lanes touch?",
        "The block size, `num_warps` and what the launcher does in Python decide most. The cost "
        "section of the report says what the kernel moves against the least that would do.",
    ),
}
FOLDED = re.compile(r"<summary>Hint (\d): (.*?)</summary>\n(.*?)</details>", flags=re.S)
ITEM = re.compile(r"^- \*\*([a-z, ]+)\*\*: |^\*\*([a-z, ]+)\*\*\n", flags=re.M)


def levels(lesson: str) -> list[tuple[str, dict[str, str], str]]:
    """The hints of a lesson, level by level: (heading, text by concept, text for all)."""
    at = lesson.find("## Hints")
    return [(m[2], *by_concept(m[3])) for m in FOLDED.finditer(lesson, max(at, 0))]


def by_concept(text: str) -> tuple[dict[str, str], str]:
    """One level's text by concept, in the lesson's order, and what is said to all of them."""
    found: dict[str, list[str]] = {}
    marks = list(ITEM.finditer(text))
    general = text[: marks[0].start() if marks else len(text)]
    ends = [*(mark.start() for mark in marks), len(text)][1:]
    for mark, end in zip(marks, ends, strict=True):
        part = text[mark.end() : end]
        if mark[1]:  # an item of a list: its lines are indented
            part = re.sub(r"\n  ", "\n", part)
        for concept in (mark[1] or mark[2]).split(", "):
            found.setdefault(concept, []).append(part.strip())
    return {concept: "\n\n".join(parts) for concept, parts in found.items()}, general.strip()


def hint(lesson: str, concept: str, level: int) -> str:
    """The text of a level from 1 to 3 on a concept; "" where there are no lines of code for it."""
    found = levels(lesson)
    if not 1 <= level <= len(found):
        return ""
    _, texts, general = found[level - 1]
    if concept in texts:
        return "\n\n".join(filter(None, [general, texts[concept]]))
    return "" if level == LEVELS else GENERAL.get(concept, (general, general))[level - 1]


def chosen(kata: str, entry: Entry) -> tuple[str, str]:
    """The concept to hint at, and why that one; ("", why) if there is nothing to hint at."""
    file = progress.EXERCISES / kata / "kernel.py"
    left = progress.first_todo(file)
    n = int(kata[:2])
    if not file.is_file():
        where = file.relative_to(progress.PROJECT)
        return "", f"There is no {where}; {command()} -s reset-{n} brings it back."
    if entry.solved and progress.digest(file) == entry.digest:
        return "", "The last check found nothing wrong that can be judged here."
    since = "" if progress.digest(file) == entry.digest else ", before your last change"
    if entry.broken:
        last = f"The last check{since and since + ','}"
        return "", f"{last} could judge nothing, as long as this holds: {entry.broken}"
    if entry.score is not None and entry.wrong:
        return entry.wrong[0], f"wrong in the last check{since}"
    if left:
        return left[1], "not checked yet; this TODO comes first"
    return "", f"There is no check to go by. First type {command()} -s check-{n}"


def show(kata: str, again: str = "", draw: str = "") -> str:
    """The next hint for a kata, as text; what was shown goes on record. OSError without a lesson.

    `again`, `draw`: how to get another one, and a picture, if not by the sessions hint-N and show-N.
    """
    entry = progress.load().get(kata, Entry())
    concept, why = chosen(kata, entry)
    if not concept:
        return wrapped(why)
    page = progress.EXERCISES / kata / "README.md"
    lesson = page.read_text(encoding="utf-8")
    level = min(entry.hints.get(concept, 0) + 1, LEVELS)

    def alter(changed: Entry) -> None:
        changed.hints[concept] = level

    kept = progress.change(kata, alter)
    lines = [wrapped(f"Hint {level} of {LEVELS} on {concept} ({why})"), ""]
    lines += todo(progress.EXERCISES / kata / "kernel.py", concept) if level == 1 else []
    text = hint(lesson, concept, level)
    lines.append(for_terminal(text) or missing(kata))
    lines.append("")
    if level < LEVELS and not kept:
        more = "Nothing can be written into .katas, so which hints were shown is not known here:"
        lines.append(wrapped(f"{more} the next ones are in {page.relative_to(progress.PROJECT)}."))
    elif level < LEVELS:
        again = again or f"{command()} -s hint-{int(kata[:2])}"
        picture = progress.picture(kata, concept)
        draws = f" {draw or picture} draws your kernel at work." if picture else ""
        more = f"Still stuck? {again} says more.{draws}"
        lesson_is = "The picture is in the lesson," if "picture" in text else "The lesson is"
        lines.append(wrapped(f"{more} {lesson_is} {page.relative_to(progress.PROJECT)}."))
    else:
        solution = f"solutions/{kata}/kernel.py"
        lines.append(wrapped(f"That was the last one. The solution is {solution}."))
    return "\n".join(lines)


def unread(error: OSError) -> str:
    """Why there is no hint."""
    page = Path(error.filename).relative_to(progress.PROJECT)
    return f"{page} cannot be read: {error.strerror}"


def todo(file: Path, concept: str) -> list[str]:
    """The TODO of a concept, if one is open: it says most of what there is to know."""
    return [
        wrapped(f"line {line}, TODO({concept}): {text}") + "\n"
        for line, tag, text in progress.todos(file)
        if tag == concept
    ][:1]


def missing(kata: str) -> str:
    return wrapped(
        f"The lesson has no line ready for this one; its common mistakes may be yours: "
        f"exercises/{kata}/README.md."
    )


def for_terminal(text: str) -> str:
    """Markdown of a lesson as plain text of this width: paragraphs filled, code indented."""
    out = []
    for part in re.split(r"(^```\w*\n.*?^```$)", text, flags=re.M | re.S):
        code = re.fullmatch(r"```\w*\n(.*?)\n?```", part, flags=re.S)
        if code:
            out.append("\n".join("    " + line for line in code[1].splitlines()))
            continue
        out += [wrapped(" ".join(p.split())) for p in part.split("\n\n") if p.strip()]
    return "\n\n".join(out)


def main(words: list[str]) -> int:
    try:
        print("\n\n".join(show(kata_of(word)) for word in words))
    except OSError as error:
        progress.stop(unread(error))
    return 0


if __name__ == "__main__":
    speak(main, sys.argv[1:])
