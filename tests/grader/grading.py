"""One suite on one file, without pytest: what the class grader and selfcheck use, and pytest too."""

from __future__ import annotations

import contextlib
import importlib
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import torch

from .evidence import Collected, Evidence
from .judge import Nursery
from .kata import Kata, Statement
from .reasons import NotJudged, RightOnCard, Stops, Waits, Wrong
from .sandbox import source_of
from .scorecard import PROJECT, SUITE, Check, Scorecard, environment
from .signs import signs
from .talk import Talks

# Lanes and files are judged side by side: threads of a single operation would wait for each other.
torch.set_num_threads(1)

BEYOND_VALUES = ("fusion", "autotune")  # right results on a card prove nothing about these


def check(concept: str, points: int, lane: str = "trace"):
    """Mark a test function as a graded check: its concept, its points, the lane that judges it."""

    def mark(function):
        function.graded = (concept, points, lane)
        return function

    return mark


def katas() -> list[str]:
    """All katas that have a suite, in order: ["01_vector_add", ...]."""
    return sorted(
        m[1] for p in (PROJECT / "tests").glob("test_*.py") if (m := SUITE.search(p.name))
    )


def suite(kata: str) -> ModuleType:
    """The suite's module (tests/ is on sys.path)."""
    return importlib.import_module(f"test_{kata}")


def kernels() -> list[str]:
    """The katas that ask for a kernel: there is something to measure."""
    return [kata for kata in katas() if isinstance(suite(kata).KATA, Kata)]


def collect(statement, *arguments, **named) -> Collected:
    """Set out to collect what there is to know about one file; arguments as for `Collected`."""
    kind = Evidence if isinstance(statement, Kata) else Talks
    return kind(statement, *arguments, **named)


def open_check(function: Callable) -> Check:
    """The verdict of a graded test function before it has run."""
    concept, points, lane = function.graded  # type: ignore[attr-defined]
    title = (function.__doc__ or "").strip().splitlines()
    name = function.__name__.removeprefix("test_")
    return Check(name, concept, lane, points, title=title[0] if title else "")


def settle(
    verdict: Check, error: BaseException | None, evidence_lanes: dict[str, bool], note: str = ""
) -> None:
    """Turn what a check raised (None: nothing) into its verdict; `note`: what a pass has to say."""
    if not evidence_lanes.get(verdict.lane, False):
        gpu = verdict.lane == "gpu"
        verdict.decide("not-judged", "needs a GPU" if gpu else f"the {verdict.lane} lane is off")
    elif error is None:
        verdict.decide("passed", note)
    elif isinstance(error, Wrong):
        verdict.decide("failed", error.message, error.cause, error.line)
        verdict.waits, verdict.stops = isinstance(error, Waits), isinstance(error, Stops)
        verdict.gist = error.gist
    elif isinstance(error, RightOnCard) and verdict.concept not in BEYOND_VALUES:
        verdict.decide("passed", "judged on the card, where every case is right")
    elif isinstance(error, NotJudged):
        verdict.decide("not-judged", str(error))
    else:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(at.filename).name}, line {at.lineno}"
        text = f"the grader itself failed: {type(error).__name__}: {error} ({where})"
        verdict.decide("error", text)


def grade(
    kata: str,
    file: Path,
    nursery: Nursery,
    lanes: dict[str, bool],
    seed: str,
    without: frozenset[str] = frozenset(),
    traced: dict | None = None,
    drawn_sizes: bool | None = None,
    statement: Statement | None = None,
    began: Callable[[Collected], None] | None = None,
) -> Scorecard:
    """Run every check of a kata's suite on one file; `without` and so on as for Evidence.

    By default sizes are drawn where the nursery has limits: where others' files are graded.
    `statement`: in place of the suite's own, with fewer cases. `began` is given the evidence while
    it is still being collected.
    """
    module = suite(kata)
    functions = [f for f in vars(module).values() if hasattr(f, "graded")]
    card = Scorecard(
        kata, str(file), dict(lanes), environment(None), [open_check(f) for f in functions]
    )
    statement = statement or module.KATA
    # A link is followed for a learner; a submission is what lies in its own folder.
    file = file.resolve() if nursery.sandbox is None else file.absolute()
    if drawn_sizes is None:
        drawn_sizes = nursery.limits is not None
    evidence = collect(statement, file, nursery, lanes, seed, without, traced, drawn_sizes)
    if nursery.limits is not None and isinstance(statement, Kata):
        with contextlib.suppress(ValueError):  # which is then said of its import
            for sign in signs(source_of(file)):
                evidence.flag("suspicious source", sign)
    try:
        if began is not None:
            began(evidence)
        for verdict, function in zip(card.checks, functions, strict=True):
            error: BaseException | None = None
            evidence.note = ""
            if lanes.get(verdict.lane, False):
                try:
                    function(evidence)
                except Exception as raised:
                    error = raised
            settle(verdict, error, lanes, evidence.note)
        if nursery.limits is not None and isinstance(evidence, Evidence):
            with contextlib.suppress(Exception):  # whatever is wrong there, checks have said
                if faces := evidence.two_faces():
                    evidence.flag("lanes differ", faces)
    finally:
        evidence.close()
        card.flags = evidence.flags
    return card
