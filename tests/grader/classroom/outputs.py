"""The class's table as files in OUT. Each is written beside its place and then moved there.

What an instructor has changed in one of them since is kept beside it, under a number.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ..progress import free_name
from . import page
from .marks import Row
from .store import Store

SCHEMA = 1
MOST_NAME = 150  # bytes of a file's name
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Where Excel separates by semicolons a cell may begin within a text.
BEHIND = re.compile(r"([;\t]\s*)(?=[=+\-@\uff1d\uff0b\uff20])")
FORMULA = (
    "=",
    "+",
    "-",
    "@",
    "\N{FULLWIDTH EQUALS SIGN}",
    "\N{FULLWIDTH PLUS SIGN}",
    "\N{FULLWIDTH COMMERCIAL AT}",
)


def write(out: Path, name: str, text: str, store: Store) -> Path | None:
    """Write a file of OUT in one step, so that a reader never sees half of it.

    If the file there is not as the grader left it, it is put aside; returns where.
    """
    path, data = out / name, text.encode("utf-8", "replace")
    part = path.with_name(f".part-{os.getpid()}")
    kept = None
    try:
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(data)
        there = path.read_bytes() if path.exists() else data
        if there != data and not store.is_ours(name, hashlib.sha256(there).hexdigest()):
            kept = free_name(path)
            os.replace(path, kept)
        store.wrote(name, hashlib.sha256(data).hexdigest())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    return kept


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula, nor what it makes of it at semicolons or tabs."""
    text = BEHIND.sub(r"\1'", text)
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


def file_names(rows: Sequence[Row]) -> list[str]:
    """A file name for each row: the student's name, and the id with it where names are alike."""

    def safe(text: str) -> str:
        text = re.sub(r'[\\/:*?"<>|\x00-\x1f\x7f]', "_", text).strip(". ") or "_"
        return text.encode(errors="replace")[:MOST_NAME].decode(errors="ignore").rstrip(". ")

    alike = Counter(safe(row.student).casefold() for row in rows)
    names: list[str] = []
    taken: set[str] = set()
    for row in rows:
        name = safe(row.student)
        if alike[name.casefold()] > 1:
            name = safe(f"{name} ({row.ident})")
        number, unique = 1, name
        while unique.casefold() in taken:
            number += 1
            unique = f"{name} {number}"
        taken.add(unique.casefold())
        names.append(unique)
    return names


def for_xml(text: str) -> str:
    """A text without the characters that XML cannot hold."""
    return NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)


def junit(rows: Sequence[Row]) -> str:
    """JUnit XML: a suite for each student, a case for each check."""
    from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

    kinds = {"failed": Failure, "error": Error, "not-judged": Skipped}
    document = JUnitXml("class")
    for row in rows:
        suite = TestSuite(for_xml(f"{row.student} ({row.ident})"))
        for cell in row.cells:
            cases = []
            for check in cell.checks:
                case = TestCase(check["id"], classname=cell.kata)
                if check["status"] in kinds:
                    case.result = [kinds[check["status"]](for_xml(check["message"]))]
                cases.append(case)
            if not cell.checks:
                case = TestCase("graded", classname=cell.kata)
                kind = Error if cell.status in ("crashed", "timed out", "pending") else Failure
                case.result = [kind(for_xml(f"{cell.status}: {cell.message}".rstrip(": ")))]
                cases.append(case)
            suite.add_testcases(cases)
        if not row.cells:
            case = TestCase("graded")
            case.result = [Failure(for_xml("; ".join(row.notes)))]
            suite.add_testcase(case)
        document.append(suite)
    document.update_statistics()
    return document.tostring().decode()


def gradescope(row: Row) -> dict:
    """One student's results.json as Gradescope's autograders write it."""
    statuses = {"passed": "passed", "failed": "failed", "error": "failed"}
    tests = []
    for cell in row.cells:
        for check in cell.checks:
            judged = check["status"] != "not-judged"
            test = {
                "name": f"{cell.kata}: {check['title'] or check['id']}",
                "score": check["points"],
                "max_score": check["max_points"] if judged else 0,
                "output": check["message"] if judged else f"not judged here: {check['message']}",
                "tags": [check["concept"]],
                "visibility": "visible",
            }
            if judged:
                test["status"] = statuses[check["status"]]
            tests.append(test)
        if not cell.checks:
            text = f"{cell.status}: {cell.message}".rstrip(": ")
            test = {"name": cell.kata, "score": 0, "max_score": cell.maximum, "output": text}
            tests.append(test | {"status": "failed", "visibility": "visible"})
    notes = "; ".join(row.notes)
    output = row.total_text + (f"\n{notes}" if notes else "")
    return {"score": row.points, "output": output, "tests": tests}


def write_all(
    out: Path,
    rows: Sequence[Row],
    katas: Sequence[str],
    facts: dict,
    ignored: Sequence[str],
    store: Store,
) -> list[Path]:
    """All files of OUT. Returns where those were put that somebody had changed. Raises OSError."""
    titles = {kata: page.title(kata) for kata in katas}
    names = file_names(rows)
    environment = page.templates()
    kept = []

    def put(name: str, text: str) -> None:
        kept.append(write(out, name, text, store))

    put("grades.csv", grades_csv(rows, katas))
    text = json.dumps(results(rows, facts, ignored), indent=1, ensure_ascii=False)
    put("results.json", text + "\n")
    put("junit.xml", junit(rows))
    for row, name in zip(rows, names, strict=True):
        put(f"feedback/{name}.md", page.feedback(environment, row, titles))
        text = json.dumps(gradescope(row), indent=1, ensure_ascii=False)
        put(f"gradescope/{name}/results.json", text + "\n")
    put("report.html", page.report(environment, rows, katas, titles, names, facts, ignored))
    return [path for path in kept if path is not None]
