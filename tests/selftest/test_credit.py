"""A half-finished kernel earns what it deserves.

Each stub is solved region by region, by the rule that CONTRIBUTING.md gives: a region is a TODO
comment with the lines up to the next empty one, and solving replaces it by what stands there in
the solution.
"""

from __future__ import annotations

import difflib
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import chain
from pathlib import Path

import pytest
from grader.grading import grade, katas
from grader.progress import TODO
from grader.scorecard import ORDER, Scorecard
from grader.selfcheck import SLOW, todo_regions

PROJECT = Path(__file__).resolve().parents[2]
TRACE = {"trace": True, "compile": False, "gpu": False}


class Pair:
    """A stub and its solution, and everything in between."""

    def __init__(self, kata: str):
        self.kata = kata
        self.stub, self.solution = (
            (PROJECT / folder / kata / "kernel.py").read_text().splitlines()
            for folder in ("exercises", "solutions")
        )
        self.regions = todo_regions(self.stub)
        self.tags = [TODO.search(self.stub[start])[1] for start, _ in self.regions]
        self.concepts = sorted(set(self.tags), key=ORDER.index)

    @property
    def ways(self) -> dict[str, list[list[int]]]:
        """Ways to go about it, step by step: the regions that each step solves, by number.

        A region at a time as they stand in the stub, or a concept at a time.
        """
        numbers = range(len(self.regions))
        by_concept = [[n for n in numbers if self.tags[n] == c] for c in self.concepts]
        return {"region by region": [[n] for n in numbers], "concept by concept": by_concept}

    @cached_property
    def answers(self) -> list[list[str]]:
        """What stands in the solution in place of each region."""
        there = {}
        matcher = difflib.SequenceMatcher(None, self.stub, self.solution, autojunk=False)
        for here, other, size in matcher.get_matching_blocks():
            there |= {here + i: other + i for i in range(size)}
        there[len(self.stub)] = len(self.solution)
        return [self.solution[there[a - 1] + 1 : there[b]] for a, b in self.regions]

    def solved(self, regions: set[int]) -> str:
        """The stub with these regions solved."""
        lines, at = [], 0
        for number, (start, end) in enumerate(self.regions):
            lines += self.stub[at:start]
            lines += self.answers[number] if number in regions else self.stub[start:end]
            at = end
        return "\n".join([*lines, *self.stub[at:]]) + "\n"


@pytest.fixture(scope="module", params=katas())
def pair(request):
    return Pair(request.param)


@pytest.fixture(scope="module")
def card(pair, nursery, short_katas, tmp_path_factory):
    """card(regions): the scorecard of the stub with these regions solved."""
    folder = tmp_path_factory.mktemp(pair.kata)

    def judged(regions):
        file = folder / ("_".join(map(str, sorted(regions))) + ".py")
        file.write_text(pair.solved(regions))
        return grade(pair.kata, file, nursery, TRACE, "credit", SLOW)

    wanted = {frozenset(n for n, tag in enumerate(pair.tags) if tag != c) for c in pair.concepts}
    for steps in pair.ways.values():
        wanted |= {frozenset(chain(*steps[:n])) for n in range(len(steps) + 1)}
    with ThreadPoolExecutor(2) as pool:
        cards = dict(zip(wanted, pool.map(judged, wanted), strict=True))
    return lambda regions: cards[frozenset(regions)]


def earned(card: Scorecard) -> set[str]:
    """The concepts with points."""
    return {check.concept for check in card.checks if check.points}


def lost(card: Scorecard) -> set[str]:
    """The concepts with a check that fails."""
    return {check.concept for check in card.checks if check.status == "failed"}


def told(card: Scorecard) -> str:
    return "\n".join(f"{c.id}: {c.message}" for c in card.checks if c.status == "failed")


def test_solving_everything_gives_the_solution(pair):
    everything = pair.solved(set(range(len(pair.regions)))).splitlines()
    start = next(n for n, line in enumerate(everything) if line.startswith("import"))
    assert everything[start:] == pair.solution[-len(everything[start:]) :]
    assert pair.solved(set()).splitlines() == pair.stub


def test_one_concept_open_costs_that_concept_alone(pair, card):
    """All other concepts that the stub has a TODO for keep points, and grid to values keep all."""
    for concept in pair.concepts:
        one = card({n for n, tag in enumerate(pair.tags) if tag != concept})
        assert concept in lost(one), f"{concept} is open and costs nothing"
        others = set(pair.concepts) - {concept}
        assert others <= earned(one), f"{concept} is open: {told(one)}"
        plain = others & {"grid", "offsets", "mask", "values"}
        assert not plain & lost(one), f"{concept} is open: {told(one)}"


@pytest.mark.parametrize("way", ["region by region", "concept by concept"])
def test_every_solved_concept_raises_the_score(pair, card, way):
    done: set[int] = set()
    before = card(done)
    for step in pair.ways[way]:
        done.update(step)
        after = card(done)
        concept = pair.tags[step[0]]
        complete = all(n in done for n, tag in enumerate(pair.tags) if tag == concept)
        text = f"{concept}: {before.score} to {after.score}\n{told(after)}"
        assert after.score > before.score if complete else after.score >= before.score, text
        before = after
    assert before.success, told(before)


def test_a_stub_earns_nothing_for_what_it_leaves_open(pair, card):
    assert not set(pair.concepts) & earned(card(set()))
