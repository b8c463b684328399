"""The instructor's page and the students' feedback: templates filled from the class's table.

Names, messages and evidence come from submissions: everything is escaped where it is put in.
"""

from __future__ import annotations

import io
import re
import statistics
import textwrap
from collections.abc import Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from ..report import ORDER
from ..scorecard import PROJECT
from .layouts import clean
from .marks import Row

TEMPLATES = Path(__file__).resolve().parent / "templates"
WIDTH = 88  # columns of a message in a feedback page
MOST_MESSAGE = 4_000  # characters of one message in a feedback page
CLEAN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")
MARKS = {"passed": "ok", "failed": "FAIL", "error": "ERROR", "not-judged": "--"}
WORDS = {
    "error": "The grader itself failed in part of this: your instructor will look at it.",
    "crashed": "The process that ran your file ended unexpectedly, so nothing could be judged.",
    "timed out": "Your file was not done within the time for one kata, so nothing could be judged.",
    "pending": "This has not been judged yet.",
    "partly judged": "Part of your file could not be judged here, and counts neither for nor against you.",
    "not understood": "What you handed in could not be judged.",
    "not handed in": "Nothing was handed in for this kata.",
}


def title(kata: str) -> str:
    """A kata's name for people: its number and the heading of its lesson."""
    lesson = PROJECT / "exercises" / kata / "README.md"
    text = lesson.read_text(encoding="utf-8") if lesson.is_file() else ""
    match = re.search(r"^# (?:kata\s*)?(?:\d+\s*[:.\-]?\s*)?(.*)", text, re.M | re.I)
    return f"{int(kata[:2])} {match[1].strip() if match else kata[3:]}"


def in_order(checks: Sequence[dict]) -> list[dict]:
    """Checks in the order in which a learner meets their concepts."""
    return sorted(
        checks, key=lambda check: ORDER.index(check["concept"]) if check["concept"] in ORDER else 99
    )


def markdown(text: str) -> str:
    """A text that Markdown shows as it is."""
    return re.sub(r"([\\`*_\[\]<>|&~])", r"\\\1", " ".join(clean(str(text)).split()))


def code(text: str) -> str:
    """A text as an indented block, in which neither Markdown nor HTML means anything.

    Such a block is not wrapped by whatever shows it.
    """
    lines = CLEAN.sub("\N{REPLACEMENT CHARACTER}", str(text)[:MOST_MESSAGE]).splitlines()
    wrapped = [part for line in lines for part in textwrap.wrap(line, WIDTH) or [""]]
    return "\n".join("    " + line for line in wrapped or [""])


def templates() -> jinja2.Environment:
    """The templates, with escaping for HTML and the filters for Markdown."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=lambda name: name is not None and name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters |= {"md": markdown, "code": code, "in_order": in_order}
    return environment


def feedback(environment: jinja2.Environment, row: Row, titles: dict[str, str]) -> str:
    """One student's page, as Markdown."""
    notes = row.notes if row.status == "not understood" else []
    template = environment.get_template("feedback.md.j2")
    return template.render(row=row, notes=notes, titles=titles, words=WORDS, marks=MARKS)


def failing(rows: Sequence[Row]) -> list[dict]:
    """For each check, of how many files that it judged how many fail; the highest share first."""
    found: dict[tuple[str, str], dict] = {}
    for cell in (cell for row in rows for cell in row.cells):
        for check in cell.checks:
            if check["status"] not in ("passed", "failed"):
                continue
            start = {"kata": cell.kata, "concept": check["concept"], "title": check["title"]}
            entry = found.setdefault((cell.kata, check["id"]), start | {"failed": 0, "judged": 0})
            entry["judged"] += 1
            entry["failed"] += check["status"] == "failed"
    for entry in found.values():
        entry["percent"] = round(100 * entry["failed"] / entry["judged"])
    return sorted(found.values(), key=lambda e: (-e["failed"] / e["judged"], e["kata"]))


def shares(rows: Sequence[Row]) -> list[float]:
    """Each row's points as a percentage of what could be judged of it."""
    return [100 * row.points / row.maximum for row in rows if row.maximum]


def sums(rows: Sequence[Row]) -> dict:
    """The figures at the head of the page."""
    percent = shares(rows)
    return {
        "graded": sum(row.status == "graded" for row in rows),
        "mean": f"{statistics.mean(percent):.0f} %" if percent else "-",
        "median": f"{statistics.median(percent):.0f} %" if percent else "-",
        "attention": sum(row.status not in ("graded", "incomplete") for row in rows),
        "not_judged": min((row.not_judged for row in rows), default=0),
    }


def plots(rows: Sequence[Row], titles: dict[str, str]) -> dict[str, Markup]:
    """The pictures, as SVG to be put into the page."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    marks = Figure(figsize=(4.6, 2.7))
    axes = marks.add_subplot()
    counts = [0] * 10
    for percent in shares(rows):
        counts[min(int(percent // 10), 9)] += 1
    axes.bar([5 + 10 * n for n in range(10)], counts, width=9, color="#2f6db5")
    axes.set(xlim=(0, 100), xlabel="percent of the points", ylabel="submissions")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    by_kata = Figure(figsize=(4.6, max(0.5 + 0.36 * len(titles), 1.6)))
    axes = by_kata.add_subplot()
    means = []
    for number in range(len(titles)):
        done = [row.cells[number] for row in rows if row.cells[number].status == "graded"]
        done = [cell for cell in done if cell.maximum]
        means.append(statistics.mean(100 * c.points / c.maximum for c in done) if done else 0.0)
    names = [
        name if len(name) < 24 else name[:22] + "\N{HORIZONTAL ELLIPSIS}"
        for name in titles.values()
    ]
    axes.barh(range(len(names)), means, color="#2f6db5")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlim=(0, 100), xlabel="percent of the points")
    axes.invert_yaxis()
    return {"marks": svg(marks), "katas": svg(by_kata)}


def svg(figure) -> Markup:
    """A figure as an SVG element: text stays text, and equal figures give equal bytes."""
    import matplotlib

    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    out = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "katas"}):
        figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = out.getvalue()
    return Markup(text[text.index("<svg") :])


def report(
    environment: jinja2.Environment,
    rows: Sequence[Row],
    katas: Sequence[str],
    titles: dict[str, str],
    names: Sequence[str],
    facts: dict,
    ignored: Sequence[str],
) -> str:
    """The instructor's page, as HTML. `names`: of the rows' feedback files."""
    flagged = [(row, cell) for row in rows for cell in row.cells if cell.flags]
    return environment.get_template("report.html.j2").render(
        rows=rows,
        katas=katas,
        titles=titles,
        names=names,
        facts=facts,
        ignored=ignored,
        sums=sums(rows),
        checks=failing(rows),
        flagged=flagged,
        plots=plots(rows, titles),
    )
