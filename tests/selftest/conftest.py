"""What the grader's own tests share: one nursery, and the project's folders."""

import dataclasses
from pathlib import Path

import pytest
from grader import grading, judge
from grader.judge import Nursery

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def project():
    return PROJECT


@pytest.fixture(scope="session")
def nursery():
    """The process that forks children, for all tests of a session."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def hasty(monkeypatch):
    """A case may take 0.6 seconds: enough for a right kernel, and soon over for an endless loop."""
    monkeypatch.setattr(judge, "CASE_SECONDS", 0.6)


@pytest.fixture(scope="session")
def short_kata():
    """Kata 1 with fewer cases and one chip: the same checks in a fraction of the time."""
    suite = grading.suite("01_vector_add")
    whole = suite.KATA
    left = {"probe": 1, "full": 2, "ragged": 2, "edge": 5, "again": 1, "tuned": 1, "compile": 1}
    cases = []
    for case in whole.cases:
        if left.get(case.group, 0):
            left[case.group] -= 1
            cases.append(case)
    suite.KATA = dataclasses.replace(whole, cases=tuple(cases), targets=("sm_80",))
    yield suite.KATA
    suite.KATA = whole
