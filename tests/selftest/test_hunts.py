"""Bug hunts: what is handed out gives nothing away, and can be mended in a line or two.

cures.json says how each hunt is mended: replacements, by kata and hunt.
"""

from __future__ import annotations

import ast
import json
import os
import re
import tokenize
from pathlib import Path

import pytest
from grader import grading, hunts, progress
from grader.kata import shortened
from grader.progress import Entry
from grader.warm import DECISIVE

CURES = json.loads((Path(__file__).parent / "cures.json").read_text())
ADD = "01_vector_add"
EVERY = [(kata, n) for kata in hunts.HUNTS for n in range(1, len(hunts.names(kata)) + 1)]
TRACE = {"trace": True, "compile": False, "gpu": False}


@pytest.fixture
def house(tmp_path, monkeypatch):
    """Where hunts are handed out to."""
    (tmp_path / "exercises" / ADD).mkdir(parents=True)
    (tmp_path / "exercises" / ADD / "README.md").write_text("# Kata 1: vector_add\n")
    monkeypatch.setattr(progress, "EXERCISES", tmp_path / "exercises")
    monkeypatch.setattr(progress, "FILE", tmp_path / ".katas" / "progress.json")
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "exercises" / "hunts" / ADD / "kernel.py"


@pytest.fixture
def suite_says(monkeypatch):
    """Stands in for the suite: suite_says(code); the files that it was asked about."""
    asked = []

    class Answer:
        code = 0

        @classmethod
        def run(cls, words, **_):
            asked.append(words)
            return type("Done", (), {"returncode": cls.code})

    monkeypatch.setattr(hunts.subprocess, "run", Answer.run)

    def says(code):
        Answer.code = code
        return asked

    return says


def test_every_kata_has_a_few():
    assert list(hunts.HUNTS) == grading.katas()
    assert all(2 <= len(hunts.names(kata)) <= 5 for kata in hunts.HUNTS)


@pytest.mark.parametrize(("kata", "number"), EVERY)
def test_nothing_is_given_away(kata, number):
    text = hunts.text_of(kata, number)
    mistake, symptom = hunts.told(hunts.mutant(kata, number))
    assert mistake
    assert symptom
    assert symptom[1:].rstrip(".") in " ".join(text.split())
    assert mistake.partition(": ")[2] not in text
    with_docstring = [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node)
    ]
    assert with_docstring == []
    lines = iter(text.splitlines(keepends=True))
    tokens = tokenize.generate_tokens(lambda: next(lines, ""))
    assert [t.string for t in tokens if t.type == tokenize.COMMENT] == []
    assert hunts.names(kata)[number - 1] not in text
    code = ast.dump(ast.parse(hunts.silent(hunts.mutant(kata, number))))
    body = ast.parse(text).body[1:]
    assert ast.dump(ast.Module(body, [])) == code  # beyond that it is the mutant


def test_comments_and_docstrings_go_and_strings_stay():
    source = '''"""values: what is wrong."""

import re  # a remark


def kernel():
    """Why."""
    # all of a line
    text = "# no comment"  # one
    return text
'''
    assert hunts.silent(source) == (
        'import re\n\n\ndef kernel():\n    text = "# no comment"\n    return text\n'
    )


def cured(kata: str, number: int) -> str:
    text = hunts.text_of(kata, number)
    for old, new in CURES[kata][number - 1]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("kata", hunts.HUNTS)
def test_a_hunt_can_be_mended(kata, nursery, tmp_path):
    """Also seen once with all cases of the trace and the compile lane; here with a few of them."""
    statement = grading.suite(kata).KATA
    left_out = frozenset()
    if kata in grading.kernels():
        few = shortened(statement, DECISIVE)
        left_out = {c.group for c in statement.cases} - {c.group for c in few.cases}
        statement = few
    for number in range(1, len(hunts.names(kata)) + 1):
        file = tmp_path / str(number) / "kernel.py"
        file.parent.mkdir()
        file.write_text(cured(kata, number))
        card = grading.grade(
            kata, file, nursery, TRACE, "hunts", frozenset(left_out), None, statement
        )
        wrong = [c.message for c in card.checks if c.status in ("failed", "error")]
        assert [text for text in wrong if "states no case for this check" not in text] == []
        assert sum(c.status == "passed" for c in card.checks) >= 1


def test_from_the_first_hunt_to_the_last(house, suite_says, capsys):
    asked = suite_says(1)
    assert hunts.main(["1"]) == 0
    said = capsys.readouterr().out
    assert "Bug hunt 1 of 3, kata 1: vector_add" in said
    assert "on 2500 the last 452 are garbage" in " ".join(said.split())
    assert "debug-1" in said
    assert hunts.main(["1"]) == 0  # nothing was changed: nothing to judge
    assert asked == []
    house.write_text(house.read_text() + "# a guess\n")
    assert hunts.main(["1"]) == 1
    assert asked[0][-1] == f"--root={house.parent.parent}"
    assert "debug-1 -- 2 turns to another one" in " ".join(capsys.readouterr().out.split())
    for number in (1, 2, 3):
        house.write_text(cured(ADD, number))
        suite_says(0)
        assert hunts.main(["1"]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert f"Found it! {hunts.told(hunts.mutant(ADD, number))[0]}." in said
        assert hunts.main(["1"]) == 0
        said = capsys.readouterr().out
        assert (f"Bug hunt {number + 1} of 3" in said) == (number < 3)
    assert "All 3 hunts" in said
    kept = sorted(path.name for path in house.parent.iterdir())
    assert kept == ["kernel.py", "kernel.py.1", "kernel.py.2"]
    assert "cdiv" in house.with_name("kernel.py.1").read_text()
    assert progress.load()[ADD].hunted == [1, 2, 3]


def test_a_hunt_may_be_asked_for_by_number(house, capsys):
    assert hunts.main(["1", "3"]) == 0
    assert "Bug hunt 3 of 3" in capsys.readouterr().out
    assert hunts.under_way(house) == 3


def test_a_lost_record_does_not_lose_the_hunt(house, suite_says):
    hunts.main(["1", "2"])
    progress.FILE.unlink()
    suite_says(0)
    house.write_text(cured(ADD, 2))
    assert hunts.main(["1"]) == 0
    assert progress.load()[ADD].hunted == [2]


def test_a_header_that_was_deleted_does_not_lose_it_either(house, suite_says):
    hunts.main(["1", "2"])
    suite_says(0)
    house.write_text(re.sub(r'""".*?"""', "", cured(ADD, 2), flags=re.S))
    assert hunts.main(["1"]) == 0
    assert progress.load()[ADD].hunted == [2]


@pytest.mark.parametrize("words", [["99"], ["1", "4"], ["1", "0"], ["1", "x"], ["1", "1", "1"], []])
def test_bad_words_are_one_line_and_exit_2(house, capsys, words):
    with pytest.raises(SystemExit) as stopped:
        hunts.main(words)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not house.exists()


def test_hunts_are_no_progress_of_the_kata(house):
    hunts.main(["1"])
    assert progress.load()[ADD] == Entry(hunt=1)
    assert list(progress.katas().values()) == [ADD]
    assert os.path.relpath(house, progress.EXERCISES) == f"hunts/{ADD}/kernel.py"
