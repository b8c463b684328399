"""The README's pictures are there, small, and show what a learner reads today."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from grader import progress, screenshots, stubs
from grader.grading import grade
from grader.report import COST, first_line, render

PROJECT = Path(__file__).resolve().parents[2]
IMAGE = re.compile(r"!\[(.*?)\]\((.*?)\)", flags=re.S)
LANES = {"trace": True, "compile": True, "gpu": False}


def lines_of(svg: Path) -> list[str]:
    """The text of a picture of a terminal, line by line; a line's parts stand at one height."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for node in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text"):
        if "clip-path" in node.attrib:  # the title has none
            part = (float(node.attrib["x"]), (node.text or "").replace("\xa0", " "))
            lines.setdefault(float(node.attrib["y"]), []).append(part)
    return ["".join(text for _, text in sorted(lines[y])).rstrip() for y in sorted(lines)]


def without_cost(lines: list[str]) -> list[str]:
    """A report without its estimate, which depends on the version of the compiler."""
    at = lines.index("  " + COST)
    return lines[:at] + lines[lines.index("", at) + 1 :]


def test_the_pictures_of_the_readme_are_there_and_small():
    found = IMAGE.findall((PROJECT / "README.md").read_text())
    assert {Path(path).name for _, path in found} == {"report.svg", "show.png"}
    for words, path in found:
        assert (PROJECT / path).stat().st_size < 200_000
        assert len(words) > 40, "what is to be seen, for those who do not see it"


def test_the_picture_of_a_report_is_that_of_today(nursery, monkeypatch, tmp_path):
    house = screenshots.unfinished(tmp_path / "house")
    monkeypatch.setattr(progress, "EXERCISES", house / "exercises")
    monkeypatch.setenv("COLUMNS", str(screenshots.COLUMNS))
    monkeypatch.chdir(house)
    file = house / "exercises" / screenshots.KATA / "kernel.py"
    card = grade(screenshots.KATA, file, nursery, LANES, "katas")
    head = first_line(file, LANES, None, {"gpu": "no GPU"})
    today = [head, "", *render(card, file, file.with_name("README.md")).splitlines()]
    drawn = lines_of(screenshots.FOLDER / "report.svg")
    assert without_cost(drawn) == [line.rstrip() for line in today], "nox -s pictures"


def test_the_mask_alone_is_missing(tmp_path):
    file = screenshots.unfinished(tmp_path / "house") / "exercises" / screenshots.KATA / "kernel.py"
    assert [concept for _, concept, _ in progress.todos(file)] == ["mask"]
    assert stubs.shipped(screenshots.KATA).read_text() != file.read_text()


def test_without_a_browser_it_is_one_line_and_exit_2(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit) as stopped:
        screenshots.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_picture_of_a_terminal_asks_for_nothing_from_elsewhere():
    pytest.importorskip("rich")
    text = "\x1b[31m  FAIL\x1b[0m  mask <&>\n\n    next"
    drawn = screenshots.svg(text, "nox")
    assert "@font-face" not in drawn
    assert not re.search(r"(src|href)=|url\((?!#)", drawn)
