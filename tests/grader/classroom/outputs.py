"""The class's table as files in OUT. Each is written beside its place and then moved there."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .marks import Row

SCHEMA = 1
FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\N{FULLWIDTH EQUALS SIGN}",
    "\N{FULLWIDTH PLUS SIGN}",
    "\N{FULLWIDTH COMMERCIAL AT}",
)


def write(path: Path, text: str) -> None:
    """Write a file in one step, so that a reader never sees half of it."""
    part = path.with_name(f".{path.name[:60]}.part")
    try:
        part.parent.mkdir(exist_ok=True)
        part.write_text(text, encoding="utf-8", errors="replace", newline="")
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula."""
    if text.lstrip().startswith(FORMULA) or text.startswith(("\t", "\r", "\n")):
        return "'" + text
    return text


def grades_csv(rows: Sequence[Row], katas: Sequence[str]) -> str:
    """One row a student, a column a kata, the total, what it is measured against, and a status.

    `not_judged` are points beyond `maximum` that this machine could not judge.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    head = ["student", "id", "email", *katas, "total", "maximum", "not_judged"]
    writer.writerow([*head, "status", "late", "note"])
    for row in rows:
        who = [harmless(word) for word in (row.student, row.ident, row.email)]
        numbers = [row.points, row.maximum, row.not_judged]
        note = harmless("; ".join(row.notes))
        late = "late" if row.late else ""
        marks = ["" if c.status == "not handed in" else c.points for c in row.cells]
        writer.writerow([*who, *marks, *numbers, row.status, late, note])
    return text.getvalue()


def results(rows: Sequence[Row], facts: dict, ignored: Sequence[str]) -> dict:
    """Everything as one JSON object. The same work graded in the same way gives the same object."""
    return {
        "schema": SCHEMA,
        **facts,
        "submissions": [
            {
                "student": row.student,
                "id": row.ident,
                "email": row.email,
                "source": row.source,
                "late": row.late,
                "status": row.status,
                "notes": row.notes,
                "score": row.points,
                "max_score": row.maximum,
                "not_judged": row.not_judged,
                "total": row.total_text,
                "katas": {cell.kata: asdict(cell) for cell in row.cells},
            }
            for row in rows
        ],
        "ignored": [*ignored],
    }


def write_all(out: Path, rows: Sequence[Row], katas: Sequence[str], facts: dict, ignored) -> None:
    """All files of OUT. Raises OSError."""
    write(out / "grades.csv", grades_csv(rows, katas))
    text = json.dumps(results(rows, facts, ignored), indent=1, ensure_ascii=False)
    write(out / "results.json", text + "\n")
