"""The unit of work: one kata of one file, in the lanes that need no card or in those that do.

A result is known by what it depends on: the file's content, the kata, the version of its suite, the
seed, the limits and the part. Whoever else handed in the same file shares it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from ..scorecard import PROJECT, SUITE

PARTS = ("cpu", "gpu")  # trace and compile lanes; gpu lane
LANES = {
    "cpu": {"trace": True, "compile": True, "gpu": False},
    "gpu": {"trace": True, "compile": False, "gpu": True},
    "whole": {"trace": True, "compile": True, "gpu": True},
}


@dataclass(frozen=True)
class Unit:
    """One thing to judge. `whole`: on a card, with the other lanes again.

    What the gpu lane runs follows from a look of the trace lane at the kernel, so that look is part
    of it. Where the trace lane cannot judge, the card may: then the lanes have to run together.
    """

    sha: str
    kata: str
    part: str
    whole: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        return self.sha, self.kata, self.part


def known_katas() -> list[str]:
    """All katas that have a suite, without importing one."""
    files = (PROJECT / "tests").glob("test_*.py")
    return sorted(match[1] for file in files if (match := SUITE.search(file.name)))


def next_unit(unit: Unit, record: dict, agents: set[str]) -> Unit | None:
    """What a machine with a card does after a unit without one."""
    if unit.part != "cpu" or record["status"] != "judged":
        return None
    checks = record["card"]["checks"]
    open_ = any(c["status"] == "not-judged" and c["lane"] == "trace" for c in checks)
    return Unit(unit.sha, unit.kata, "gpu", whole=open_ or unit.kata in agents)


@functools.cache
def suite_version(kata: str) -> str:
    """A hash of all that a verdict comes from, apart from the file: suite, engine, torch, Triton."""
    tests = PROJECT / "tests"
    files = [tests / f"test_{kata}.py", PROJECT / "solutions" / kata / "kernel.py"]
    files += sorted((tests / "grader").glob("*.py"))
    text = hashlib.sha256()
    for file in files:
        if file.is_file():
            text.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    for package in ("torch", "triton"):
        with contextlib.suppress(PackageNotFoundError):
            text.update(f"{package} {version(package)}".encode())
    return text.hexdigest()[:16]
