"""Results as the class's table: for each student points, the maximum they are measured against, a status.

What could not be judged on this machine is left out of the maximum, and the total says so. Work that
was not handed in, crashed or was not understood counts nothing of a maximum that is the same as for
everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .intake import Submission

# Of a cell, the worst one first; "graded" is what all are meant to be.
STATUSES = (
    "error", "crashed", "timed out", "pending", "partly judged", "not understood", "not handed in",
    "graded",
)  # fmt: skip
SHARED_BY = 3  # students named beside a flag that a file was handed in by several


@dataclass
class Cell:
    """One kata of one student."""

    kata: str
    status: str
    points: int = 0
    maximum: int = 0
    not_judged: int = 0
    message: str = ""
    sha256: str = ""
    checks: list[dict] = field(default_factory=list)
    flags: list[dict] = field(default_factory=list)


@dataclass
class Row:
    """One student."""

    student: str
    ident: str
    email: str
    source: str
    late: bool
    status: str
    notes: list[str]
    cells: list[Cell]

    @property
    def points(self) -> int:
        return sum(cell.points for cell in self.cells)

    @property
    def maximum(self) -> int:
        return sum(cell.maximum for cell in self.cells)

    @property
    def not_judged(self) -> int:
        return sum(cell.not_judged for cell in self.cells)

    @property
    def flags(self) -> list[dict]:
        return [flag | {"kata": cell.kata} for cell in self.cells for flag in cell.flags]

    @property
    def total_text(self) -> str:
        """The total in words, with what it leaves out."""
        left = f" ({self.not_judged} more could not be judged on this machine)"
        return f"{self.points} of {self.maximum} points" + (left if self.not_judged else "")


Find = Callable[[str, str, str], dict | None]  # (hash, kata, part) -> record


def merged(outline: dict, cpu: dict, gpu: dict | None) -> list[dict]:
    """The checks of both parts of a unit: each from the part that judged its lane."""
    found = {check["id"]: check for check in cpu["card"]["checks"]}
    if gpu is not None:
        whole = gpu["card"]["lanes"]["compile"]
        for check in gpu["card"]["checks"]:
            if whole or check["lane"] == "gpu":
                found[check["id"]] = check
    titles = {check["id"]: check["title"] for check in outline["checks"]}
    return [check | {"title": titles.get(check["id"], "")} for check in found.values()]


def cell_of(
    kata: str, outline: dict, sha: str | None, problem: str, find: Find, card: bool
) -> Cell:
    """One kata of one student, from the records of its parts."""
    total = sum(check["max_points"] for check in outline["checks"])
    beyond = sum(c["max_points"] for c in outline["checks"] if c["lane"] == "gpu" and not card)
    nothing: dict = {"maximum": total - beyond, "not_judged": beyond, "sha256": sha or ""}
    if sha is None:
        status = "not understood" if problem else "not handed in"
        return Cell(kata, status, message=problem, **nothing)
    cpu = find(sha, kata, "cpu")
    gpu = find(sha, kata, "gpu") if card else None
    for record in (cpu, gpu):
        if record is not None and record["status"] != "judged":
            return Cell(kata, record["status"], message=record["message"], **nothing)
    if cpu is None or (card and gpu is None):
        return Cell(kata, "pending", message="it is not graded yet", **nothing)
    checks = merged(outline, cpu, gpu)
    flags = [*cpu["card"].get("flags", ()), *(gpu["card"].get("flags", ()) if gpu else ())]
    open_ = sum(check["max_points"] for check in checks if check["status"] == "not-judged")
    broken = [check for check in checks if check["status"] == "error"]
    status, message = "graded", ""
    if open_ > beyond:
        text = (
            f"{open_ - beyond} points of this file can be judged only on a GPU; others' need none"
        )
        if card:
            text = f"{open_} points of this file could not be judged on the card; others' could"
        flags.append({"flag": "not judged whole" if card else "needs a card", "evidence": text})
        # Its maximum is not the others': whoever reads the table alone has to see that.
        status, message = "partly judged", text
    if broken:
        status, message = "error", broken[0]["message"]
    return Cell(
        kata,
        status,
        points=sum(check["points"] for check in checks),
        maximum=sum(check["max_points"] for check in checks) - open_,
        not_judged=open_,
        message=message,
        sha256=sha,
        checks=checks,
        flags=flags,
    )


def row_of(
    submission: Submission, katas: Sequence[str], outlines: dict[str, dict], find: Find, card: bool
) -> Row:
    """One student's row."""
    cells = [
        cell_of(
            kata,
            outlines[kata],
            submission.works.get(kata),
            submission.problems.get(kata, ""),
            find,
            card,
        )
        for kata in katas
    ]
    states = {cell.status for cell in cells}
    worst = next((status for status in STATUSES if status in states), "not understood")
    whole = submission.problems.get("", "")
    notes = [whole] if whole else []
    if not submission.works and submission.problems:
        worst = "not understood"
    elif worst == "not handed in" and "graded" in states:
        worst = "incomplete"
    missing = [cell.kata for cell in cells if cell.status == "not handed in"]
    if missing and submission.works:
        notes.append("not handed in: " + ", ".join(missing))
    notes += [f"{c.kata}: {c.message}" for c in cells if c.message]
    if submission.late:
        notes.append("handed in late")
    return Row(
        submission.student,
        submission.ident,
        submission.email,
        submission.source,
        submission.late,
        worst,
        notes,
        cells,
    )


def table(
    submissions: Sequence[Submission],
    katas: Sequence[str],
    outlines: dict[str, dict],
    find: Find,
    card: bool,
    stubs: set[str],
) -> list[Row]:
    """A row for every student. `stubs`: hashes of the unfinished files that everybody starts from."""
    rows = [row_of(each, katas, outlines, find, card) for each in submissions]
    owners: dict[tuple[str, str], list[int]] = {}
    for number, submission in enumerate(submissions):
        for kata, sha in submission.works.items():
            if sha not in stubs:
                owners.setdefault((kata, sha), []).append(number)
    for (kata, _), numbers in owners.items():
        sources = {submissions[number].source for number in numbers}
        if len(sources) > 1:
            _flag_shared(rows, kata, numbers)
    return rows


def _flag_shared(rows: list[Row], kata: str, numbers: list[int]) -> None:
    """Tell the instructor that several students handed in the very same file."""
    for number in numbers:
        others = [rows[other].student for other in numbers if other != number]
        more = f" and {len(others) - SHARED_BY} more" if len(others) > SHARED_BY else ""
        text = f"the very same file as {', '.join(others[:SHARED_BY])}{more}"
        for cell in rows[number].cells:
            if cell.kata == kata:
                cell.flags.append({"flag": "same file", "evidence": text})
