"""Stub and solution in step: solving replaces TODO regions and nothing else."""

from __future__ import annotations

import pytest
from grader import selfcheck
from grader.grading import PROJECT, katas
from grader.selfcheck import concept_of, in_step, todo_regions

SOLUTION = '''\
"""The idea behind it."""

BLOCK = 1024


def kernel(x_ptr, n):
    offsets = 1
    mask = offsets < n

    return mask


def launch(x):
    # Rounded up.
    grid = (x + BLOCK - 1) // BLOCK
    return grid
'''
STUB = '''\
"""The task,
in two lines."""

BLOCK = 1024


def kernel(x_ptr, n):
    # TODO(offsets): where this program works.
    # TODO(mask): which lanes exist.
    mask = True

    return mask


def launch(x):
    # TODO(grid): enough.
    grid = 1
    return grid
'''


@pytest.fixture
def step(tmp_path, monkeypatch):
    """step(stub, solution): what in_step says of the two."""
    monkeypatch.setattr(selfcheck, "PROJECT", tmp_path)

    def write(stub, solution):
        for folder, text in (("exercises", stub), ("solutions", solution)):
            path = tmp_path / folder / "01_kata" / "kernel.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return in_step("01_kata")

    return write


def test_regions_reach_to_the_next_empty_line():
    lines = STUB.splitlines()
    regions = [(lines[a].strip(), lines[b - 1].strip()) for a, b in todo_regions(lines)]
    assert regions == [
        ("# TODO(offsets): where this program works.", "mask = True"),
        ("# TODO(grid): enough.", "return grid"),
    ]
    assert todo_regions(["x = 1", ""]) == []
    assert todo_regions(["# TODO(grid): at the very end", "grid = 1"]) == [(0, 2)]


def test_a_pair_in_step(step):
    assert step(STUB, SOLUTION) == ""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("BLOCK = 1024", "BLOCK = 512", "line 4 of the stub differs"),
        ("    return mask", "    return mask  # really", "line 12 of the stub differs"),
        ("def launch(x):", "def launch(x, y=None):", "signatures differ"),
        ("def kernel(", "def another_kernel(", "signatures differ"),
        ("BLOCK = 1024\n", "BLOCK = 1024\nimport os\n", "of the stub differs"),
    ],
)
def test_a_change_outside_the_regions_is_noticed(step, old, new, complaint):
    assert complaint in step(STUB.replace(old, new), SOLUTION)
    assert step(STUB, SOLUTION.replace(old, new)) != ""


def test_a_stub_without_todo_is_noticed(step):
    assert step(SOLUTION, SOLUTION) == "the stub has no TODO"


@pytest.mark.parametrize("kata", katas())
def test_every_kata_is_in_step(kata):
    assert in_step(kata) == ""


@pytest.mark.parametrize("kata", katas())
def test_every_kata_is_in_both_tables(kata):
    number, name = int(kata[:2]), kata[3:]
    assert f"\n| {number} {name} | `" in (PROJECT / "README.md").read_text()
    road = (PROJECT / "exercises" / "README.md").read_text()
    assert f"\n| [{number} {name}]({kata}/README.md) |" in road


def test_the_concept_of_a_mutant(tmp_path):
    file = tmp_path / "mutant.py"
    file.write_text('"""mask: one lane too many.\n\nMore text: here."""\n')
    assert concept_of(file) == "mask"
