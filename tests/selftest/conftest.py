"""What the grader's own tests share: one nursery, and a way to run a kernel as the trace lane does."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import tempfile
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import triton

# Before the grader is loaded, here and in what the tests start: no progress of anybody is touched.
os.environ["KATAS_PROGRESS"] = os.path.join(tempfile.mkdtemp(prefix="katas-progress-"), "p.json")

os.environ.pop("KATAS_NOX", None)  # how nox was called for the tests themselves

from grader import grading, judge
from grader.judge import Child, Nursery
from grader.kata import shortened
from grader.selfcheck import FEW
from grader.tensors import decode, describe_arguments

PROJECT = Path(__file__).resolve().parents[2]
HEADER = """\
import torch
import triton
import triton.language as tl
"""


@pytest.fixture
def start():
    """Starts processes. What still runs at the test's end, however that comes, is killed."""
    running = []

    def begin(command, **settings) -> subprocess.Popen:
        running.append(subprocess.Popen(command, **settings))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def nursery():
    """The process that forks children, for all tests of a session."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def hasty():
    """A case may take 0.6 seconds: enough for a right kernel, and soon over for an endless loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(judge, "CASE_SECONDS", 0.6)
        patch.setattr(judge, "MOST_HANGS", 1)
        patch.setattr(judge, "MOST_CRASHES", 2)
        yield


@pytest.fixture(scope="session")
def short_katas():
    """The katas with fewer cases and one chip: the same checks in a fraction of the time."""
    suites = {kata: grading.suite(kata) for kata in grading.katas()}
    whole = {kata: suite.KATA for kata, suite in suites.items()}
    for kata, suite in suites.items():
        suite.KATA = shortened(whole[kata], FEW, others=1)
        if kata in grading.kernels():
            suite.KATA = dataclasses.replace(suite.KATA, targets=("sm_80",))
    yield {kata: suite.KATA for kata, suite in suites.items()}
    for kata, suite in suites.items():
        suite.KATA = whole[kata]


@pytest.fixture(scope="session")
def short_kata(short_katas):
    """Kata 1 in short."""
    return short_katas["01_vector_add"]


class Traced:
    """A file in the trace lane: call it as its launcher is called, and look at what was recorded."""

    def __init__(self, file: Path, nursery: Nursery, launcher: str, names: tuple[str, ...]):
        self.names = SimpleNamespace(parameters=names)
        self.lines = file.read_text().splitlines()
        request = {"file": str(file), "launcher": launcher, "allowed": []}
        self.child = Child(nursery, "trace", request)

    def __call__(self, *arguments, **message) -> SimpleNamespace:
        specs, blobs = describe_arguments(self.names, list(arguments))
        answer = self.child.call({"args": specs, "config": None} | message, blobs)
        seen = SimpleNamespace(**{"error": None, "facts": answer.facts} | answer.facts)
        for fact in answer.facts.get("result", []):
            if "data" in fact:
                shape = tuple(fact["shape"])
                seen.out = decode(answer.blobs[fact["data"]], fact["dtype"], shape)
                if "coverage" in fact:
                    seen.coverage = decode(answer.blobs[fact["coverage"]], "uint8", shape)
        return seen

    def line(self, text: str) -> int:
        """The number of the first line that holds this text."""
        return next(n for n, line in enumerate(self.lines, 1) if text in line)


@pytest.fixture(scope="module")
def traced(nursery, tmp_path_factory):
    """traced(source): the file with this source in the trace lane, its launcher being `run`."""
    folder = tmp_path_factory.mktemp("traced")
    made: list[Traced] = []

    def make(source: str, *names: str, launcher: str = "run") -> Traced:
        file = folder / f"kernel_{len(made)}.py"
        file.write_text(HEADER + textwrap.dedent(source))
        made.append(Traced(file, nursery, launcher, names))
        return made[-1]

    yield make
    for one in made:
        one.child.stop()


@pytest.fixture(scope="session")
def triton_version() -> tuple[int, int]:
    """What differs from one Triton to the next is expected of each as it is."""
    major, minor = triton.__version__.split(".")[:2]
    return int(major), int(minor)


def bf16(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.bfloat16)
