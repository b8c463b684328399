"""What comes out: files that other programs read, and pages that show what a student wrote as it is."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest

pytest.importorskip("jinja2")
pytest.importorskip("junitparser")
pytest.importorskip("matplotlib")

from grader.classroom import marks, outputs, page
from grader.classroom.intake import Submission
from grader.classroom.store import Store

KATA = "01_vector_add"
EVIL = "</td><script>alert(1)</script> [x](javascript:1) `*_|\x1b[31m \ud800 {{ 7*7 }}"


def check(name: str, status: str, most: int, lane: str = "trace", message: str = "") -> dict:
    points = most if status == "passed" else 0
    return {
        "id": name, "concept": name, "lane": lane, "status": status, "points": points, "line": 7,
        "max_points": most, "message": message, "cause": None, "title": f"About {name}.",
    }  # fmt: skip


CHECKS = [
    check("grid", "passed", 60),
    check("mask", "failed", 25, message=f"line 7: it reads past the end\n# {EVIL}"),
    check("speed", "not-judged", 15, "gpu", "needs a GPU"),
]


@pytest.fixture
def rows():
    """Five students: graded, evil, twice the same name, not understood; one crashed."""
    submissions = [
        Submission("Anna", "1", "anna", works={KATA: "a"}),
        Submission(EVIL, "../../x", "evil", works={KATA: "a"}, late=True),
        Submission("Bo", "17", "bo-17", works={KATA: "c"}),
        Submission("bo", "18", "bo-18", problems={"": f"it is {EVIL}"}),
        Submission("..", "..", "..", works={}),
    ]
    card = {
        "lanes": {"compile": True},
        "checks": CHECKS,
        "flags": [{"flag": "x", "evidence": EVIL}],
    }
    records = {
        ("a", "cpu"): {"status": "judged", "card": card},
        ("c", "cpu"): {"status": "crashed", "message": "it took down"},
    }
    outline = {KATA: {"agent": False, "checks": CHECKS}}
    return marks.table(
        submissions, [KATA], outline, lambda sha, _, part: records.get((sha, part)), False, set()
    )


@pytest.fixture
def store(tmp_path_factory):
    """The database, out of the way."""
    opened = Store(tmp_path_factory.mktemp("store"))
    yield opened
    opened.close()


@pytest.fixture
def out(rows, tmp_path, store):
    facts = {
        "settings": {"seed": "s", "seconds": 600.0, "memory": 3 << 30},
        "lanes": {"trace": True, "compile": True, "gpu": False},
        "sandboxes": [None],
        "environments": [{"python": "3.x", "gpu": {"name": "a card"}}],
        "suites": {KATA: "v"},
    }
    outputs.write_all(tmp_path, rows, [KATA], facts, [".DS_Store"], store)
    return tmp_path


class Tags(HTMLParser):
    """The tags and attributes of a page, and its text."""

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.links, self.words = [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        assert not [name for name, _ in attributes if name.startswith("on")]

    def handle_data(self, data):
        self.words += data


def test_statuses(rows):
    assert [row.status for row in rows] == [
        "graded", "graded", "crashed", "not understood", "not handed in",
    ]  # fmt: skip
    assert [(row.points, row.maximum, row.not_judged) for row in rows][:3] == [
        (60, 85, 15), (60, 85, 15), (0, 85, 15),
    ]  # fmt: skip
    assert rows[0].total_text == "60 of 85 points (15 more could not be judged on this machine)"


def test_the_page_is_self_contained_and_runs_nothing(out):
    text = (out / "report.html").read_text(encoding="utf-8")
    seen = Tags(text)
    assert "script" not in seen.tags
    assert not {"img", "iframe", "object", "link"} & {*seen.tags}
    assert all(link.startswith(("feedback/", "#")) for link in seen.links)
    assert "<script>alert(1)</script>" in seen.words
    assert "{{ 7*7 }}" in seen.words
    assert seen.tags.count("svg") == 2
    for said in (
        "15 points of each",
        "a card",
        "none: submissions ran with your rights",
        ".DS_Store",
    ):
        assert said in seen.words
    assert text.count("<table>") == text.count("</table>")


def test_what_to_teach_again(rows):
    found = page.failing(rows)
    assert [(e["concept"], e["failed"], e["judged"]) for e in found] == [
        ("mask", 2, 2),
        ("grid", 0, 2),
    ]


def test_feedback_shows_text_as_it_is(out, rows):
    names = outputs.file_names(rows)
    assert len({name.casefold() for name in names}) == len(names)
    files = sorted(file.stem for file in (out / "feedback").iterdir())
    assert files == sorted(names)
    assert {"Anna", "Bo (17)", "bo (18)"} <= {*names}
    text = (out / "feedback" / "Anna.md").read_text(encoding="utf-8")
    assert text.startswith("# Feedback for Anna\n\n**60 of 85 points** (15 more")
    assert "| FAIL | mask | 0/25 | About mask. |" in text
    assert "\nmask, line 7 (About mask):\n" in text
    block = [line for line in text.splitlines() if "<script>" in line]
    assert block
    assert all(line.startswith("    ") for line in block)
    assert "\x1b" not in text
    evil = (out / "feedback" / f"{names[1]}.md").read_text(encoding="utf-8")
    assert "\\<script\\>" in evil.splitlines()[0]
    assert "handed in late" in evil
    assert "evidence" not in text
    assert "took down" in (out / "feedback" / "Bo (17).md").read_text(encoding="utf-8")


def test_a_message_fits_a_page():
    """An indented block is shown as it is, however wide; and every check is told by name."""
    shown = page.code("word " * 100 + "\n  x = 1\n" + "y" * 300).splitlines()
    assert max(map(len, shown)) <= page.WIDTH + 4
    assert "      x = 1" in shown


def test_flags_are_told_file_by_file(out, rows):
    """One file may raise thirty: the others must still be found beside it."""
    text = (out / "report.html").read_text(encoding="utf-8")
    flagged = [cell for row in rows for cell in row.cells if cell.flags]
    assert flagged
    assert f"<b>{len(flagged)}</b>flagged file" in text
    assert text.count('<td class="name">') == len(flagged) + len(rows)


def test_junit_is_sound_xml(out):
    root = ET.parse(out / "junit.xml").getroot()
    suites = list(root)
    assert len(suites) == 5
    assert root.get("tests") == "9"
    assert [case.get("name") for case in suites[0]] == ["grid", "mask", "speed"]
    assert [child.tag for case in suites[0] for child in case] == ["failure", "skipped"]
    assert [child.tag for case in suites[2] for child in case] == ["error"]
    assert [child.tag for case in suites[3] for child in case] == ["failure"]


def test_gradescope_leaves_out_what_was_not_judged(out):
    facts = json.loads((out / "gradescope" / "Anna" / "results.json").read_text(encoding="utf-8"))
    assert facts["score"] == sum(test["score"] for test in facts["tests"]) == 60
    assert sum(test["max_score"] for test in facts["tests"]) == 85
    assert {test.get("status") for test in facts["tests"]} == {"passed", "failed", None}
    assert "15 more could not be judged" in facts["output"]


def test_the_same_table_gives_the_same_bytes(out, rows, store):
    before = {f: f.read_bytes() for f in out.rglob("*") if f.is_file()}
    facts = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert outputs.write_all(out, rows, [KATA], facts, [".DS_Store"], store) == []
    assert before == {f: f.read_bytes() for f in out.rglob("*") if f.is_file()}


def test_what_an_instructor_has_changed_is_kept(out, rows, store):
    facts = json.loads((out / "results.json").read_text(encoding="utf-8"))
    changed = [out / "grades.csv", out / "feedback" / "Anna.md"]
    for file in changed:
        with file.open("a") as opened:
            opened.write("a word of mine\n")
    mine = [file.read_text() for file in changed]
    for number in (1, 2):
        kept = outputs.write_all(out, rows[:2], [KATA], facts, [], store)
        if number == 1:  # afterwards all files are the grader's own again
            assert kept == [file.with_name(f"{file.name}.1") for file in changed]
        else:
            assert kept == []
        assert [file.with_name(f"{file.name}.1").read_text() for file in changed] == mine
        assert "a word of mine" not in changed[0].read_text()


def test_no_file_leads_out(out):
    for file in out.rglob("*"):
        assert not re.search(r"[\x00-\x1f]", file.name)
    assert not (out.parent / "x").exists()


def test_titles_are_those_of_the_lessons():
    assert page.title(KATA).startswith("1 ")
    assert page.title("99_nothing") == "99 nothing"


def test_no_rows_and_no_katas(tmp_path, store):
    facts = {
        "settings": {"seed": "s", "seconds": 600.0, "memory": 3 << 30}, "lanes": {}, "sandboxes": [None],
        "environments": [], "suites": {},
    }  # fmt: skip
    row = marks.row_of(
        Submission("a", "a", "a", problems={"": "empty"}), [], {}, lambda *_: None, False
    )
    outputs.write_all(tmp_path, [row], [], facts, [], store)
    assert "no kata was handed in" in (tmp_path / "report.html").read_text()
    assert (
        (tmp_path / "grades.csv")
        .read_text()
        .splitlines()[1]
        .startswith("a,a,,0,0,0,not understood")
    )
