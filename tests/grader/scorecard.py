"""The scorecard: one JSON file per kata, written even when everything crashes.

Schema 1, fixed: tools outside the repository read it. `points` and `max_points` are whole numbers;
`max_score` counts every check, `not_judged` the points of those that this machine could not judge.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SUITE = re.compile(r"test_(\d\d_\w+)\.py$")  # the file name of a kata's suite
ORDER = (
    "grid offsets mask values layout reduction precision accumulate fusion autotune robust speed"
).split()
STATUSES = ("passed", "failed", "error", "not-judged")
LEFT_OUT = "left out: it was not asked for"
TO_COME = "not checked yet"  # while a check of the whole is under way


@dataclass
class Check:
    """One graded check and its verdict. Before it has run its status is error."""

    id: str
    concept: str
    lane: str
    max_points: int
    status: str = "error"
    points: int = 0
    message: str = "this check did not run"
    cause: str | None = None
    line: int | None = None
    title: str = ""
    waits: bool = False  # failed only because what it builds on is not right yet
    stops: bool = False  # failed because the file raises an exception
    gist: str = ""  # of a failure: its message, or what of it is the same in every case

    def decide(self, status: str, message: str = "", cause=None, line=None) -> None:
        """Settle the verdict. Raises ValueError for an unknown status."""
        if status not in STATUSES:
            raise ValueError(status)
        self.status, self.message, self.cause, self.line = status, message, cause, line
        self.points = self.max_points if status == "passed" else 0

    def as_json(self) -> dict:
        keys = (
            "id",
            "concept",
            "lane",
            "status",
            "points",
            "max_points",
            "message",
            "cause",
            "line",
        )
        facts = asdict(self)
        return {key: facts[key] for key in keys}


@dataclass
class Scorecard:
    """All checks of one kata on one file."""

    kata: str
    file: str
    lanes: dict[str, bool]
    environment: dict
    checks: list[Check]
    flags: list[dict] = field(default_factory=list)  # {"flag", "evidence"}: of deceit; no points

    @property
    def score(self) -> int:
        return sum(check.points for check in self.checks)

    @property
    def max_score(self) -> int:
        return sum(check.max_points for check in self.checks)

    @property
    def not_judged(self) -> int:
        return sum(c.max_points for c in self.checks if c.status == "not-judged")

    @property
    def success(self) -> bool:
        """Every check that could be judged passed, and at least one was."""
        judged = [c for c in self.checks if c.status != "not-judged"]
        return bool(judged) and all(c.status == "passed" for c in judged)

    def as_json(self) -> dict:
        return {
            "schema": 1,
            "kata": self.kata,
            "file": self.file,
            "lanes": self.lanes,
            "environment": self.environment,
            "checks": [check.as_json() for check in self.checks],
            "score": self.score,
            "max_score": self.max_score,
            "not_judged": self.not_judged,
        }

    def write(self, path: Path) -> None:
        """Write the file in one step, so that a reader never sees half of it."""
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            part.write_text(json.dumps(self.as_json(), indent=1) + "\n")
            os.replace(part, path)
        finally:
            part.unlink(missing_ok=True)


def something_else(path: Path) -> bool:
    """Whether what stands at this path must not give way to a scorecard: a device, other text."""
    if not path.exists():
        return False
    if not path.is_file():
        return True
    try:
        text = path.read_text()
        found = json.loads(text) if text.strip() else {"schema": None}
    except (ValueError, RecursionError):
        return True
    return not isinstance(found, dict) or "schema" not in found


def environment(card: dict | None) -> dict:
    """Versions and machine, for the scorecard. `card`: the GPU's facts, or None."""
    return {
        "python": platform.python_version(),
        "torch": version("torch"),
        "triton": version("triton"),
        "platform": sys.platform,
        "gpu": card,
    }
