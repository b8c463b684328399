"""Proof that the suites have teeth: `python -m grader.selfcheck [KATA ...] [--only NAME]`.

For every kata the reference solution and each honest variant must pass whole, the stub must fail,
and each mutant must fail in a check of its own concept. Stub and solution must be in step. It also
counts how often the cause that a learner is told first is the mutant's own.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import functools
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .grading import PROJECT, grade, katas, suite
from .judge import Nursery
from .kata import shortened
from .progress import TODO
from .scorecard import ORDER, Scorecard, environment
from .stubs import untouched
from .words import speak

LEAST_MUTANTS, LEAST_HONEST = 15, 5
PLAIN = frozenset({"probe", "full", "ragged", "widened"})  # groups that catch most mutants
SLOW = frozenset({"many", "sample"})  # groups that only a few need
# How many cases of each group (of others one) show most of what all of them show.
FEW = {"full": 2, "ragged": 3, "edge": 5, "tuned": 2, "deep": 2, "lifted": 2} | dict.fromkeys(
    SLOW, 0
)
KINDS = ("solution", "stub", "honest", "mutant")
LANES = {"trace": True, "compile": True, "gpu": False}


@dataclass
class Finding:
    """One file and what is not as it should be ("" when all is well)."""

    kata: str
    kind: str  # one of KINDS
    file: Path
    problem: str
    told: str = ""  # mutants: the cause that the report names first


def first_cause(card: Scorecard) -> str | None:
    """The cause that the report names first."""
    failed = [c for c in card.checks if c.status == "failed"]
    failed.sort(key=lambda c: (c.waits, ORDER.index(c.concept)))
    return (failed[0].cause or failed[0].concept) if failed else None


@functools.cache
def concept_of(file: Path) -> str:
    """The concept that a mutant's docstring names first.

    Looked up before the files are graded side by side: in Python 3.11 `ast.parse` may fail when two
    threads are in it (CPython's issue 106905).
    """
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return text.split(":")[0].strip()


def examine(kata: str, kind: str, file: Path, nursery: Nursery, lanes: dict) -> Finding:
    """Grade one file and say what is wrong with the verdict.

    Most mutants are caught by the plain cases of the trace lane, most others by a few of each group
    and nearly all without the slow ones; only the rest is asked everything, which costs most of the
    time. What one of these looks has seen, the next need not ask again.
    """
    statement = suite(kata).KATA
    look = functools.partial(judged, kata, kind, file, nursery, traced={})
    if kind == "mutant":
        plain = frozenset(case.group for case in statement.cases) - PLAIN
        few = shortened(statement, FEW, others=1)
        for fewer in ({"without": plain}, {"without": SLOW, "statement": few}, {"without": SLOW}):
            finding = look(lanes | {"compile": False}, **fewer)
            if not finding.problem:
                return finding
    return look(lanes)


def judged(
    kata: str, kind: str, file: Path, nursery: Nursery, lanes: dict, **fewer: Any
) -> Finding:
    """What grading one file says against what it should say; `fewer`: cases, as for `grade`."""
    card = grade(kata, file, nursery, lanes, "selfcheck", **fewer)
    broken = [c for c in card.checks if c.status == "error"]
    failed = [c for c in card.checks if c.status == "failed"]
    if broken:
        return Finding(
            kata, kind, file, f"the grader failed in {broken[0].id}: {broken[0].message}"
        )
    if kind in ("solution", "honest"):
        if card.success:
            return Finding(kata, kind, file, "")
        text = "; ".join(f"{c.id}: {c.message}" for c in failed) or "nothing was judged"
        return Finding(kata, kind, file, text)
    if kind == "stub":
        return Finding(kata, kind, file, "" if failed else "the stub passes")
    concept = concept_of(file)
    caught = [c for c in failed if concept in (c.concept, c.cause)]
    if not failed:
        return Finding(kata, kind, file, f"passes, but is wrong in {concept}")
    told = first_cause(card) or ""
    if not caught:
        text = f"is wrong in {concept}, caught only as " + "; ".join(
            f"{c.concept} ({c.cause}): {c.message}" for c in failed
        )
        return Finding(kata, kind, file, text, told)
    return Finding(kata, kind, file, "", told)


def in_step(kata: str) -> str:
    """What keeps stub and solution from being in step ("" when they are)."""
    stub = PROJECT / "exercises" / kata / "kernel.py"
    solution = PROJECT / "solutions" / kata / "kernel.py"
    names = [public_names(p) for p in (stub, solution)]
    if names[0] != names[1]:
        return f"public names or signatures differ: {names[0]} and {names[1]}"
    old, new = stub.read_text().splitlines(), solution.read_text().splitlines()
    regions = todo_regions(old)
    if not regions:
        return "the stub has no TODO"
    for tag, a, b, _, _ in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal" and not any(start <= a and b <= end for start, end in regions):
            if a < len(old) and docstring_end(stub) > a:
                continue
            return f"line {a + 1} of the stub differs outside a TODO region"
    return ""


def docstring_end(file: Path) -> int:
    """Lines that the module's docstring takes: the task in one file, the idea in the other."""
    first = ast.parse(file.read_text()).body[0]
    return (first.end_lineno or 0) if isinstance(first, ast.Expr) else 0


def public_names(file: Path) -> dict[str, str]:
    """Top-level functions and their parameters."""
    tree = ast.parse(file.read_text())
    return {
        node.name: ast.unparse(node.args)
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
    }


def todo_regions(lines: list[str]) -> list[tuple[int, int]]:
    """[start, end) of each region: the TODO comment and the lines up to the next empty line."""
    regions, number = [], 0
    while number < len(lines):
        if TODO.search(lines[number]):
            start = number
            while number < len(lines) and lines[number].strip():
                number += 1
            regions.append((start, number))
        number += 1
    return regions


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s selfcheck --", description=__doc__)
    parser.add_argument("katas", nargs="*", help="kata numbers or names (default: all)")
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument(
        "--skip", action="append", default=[], choices=KINDS, help="leave out a kind of file"
    )
    parser.add_argument("--verbose", action="store_true", help="name the causes told wrong")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--lanes", default="trace,compile")
    args = parser.parse_args()
    started = time.monotonic()
    print(
        "Triton {triton}, PyTorch {torch}, Python {python}".format_map(environment(None)),
        flush=True,
    )
    wanted = [k for k in katas() if not args.katas or chosen(k, args.katas)]
    lanes = {lane: lane in args.lanes.split(",") for lane in LANES}
    nursery = Nursery()
    work = []
    problems: list[str] = []
    for kata in wanted:
        files = {
            "solution": [PROJECT / "solutions" / kata / "kernel.py"],
            "stub": [PROJECT / "exercises" / kata / "kernel.py"],
            "honest": sorted((PROJECT / "tests" / "honest" / kata).glob("*.py")),
            "mutant": sorted((PROJECT / "tests" / "mutants" / kata).glob("*.py")),
        }
        if len(files["mutant"]) < LEAST_MUTANTS or len(files["honest"]) < LEAST_HONEST:
            problems.append(
                f"{kata}: {len(files['mutant'])} mutants, {len(files['honest'])} honest"
            )
        step = in_step(kata)
        if step:
            problems.append(f"{kata}: stub and solution are out of step: {step}")
        if not untouched(kata):
            text = "holds another stub: python -m grader.stubs --update copies it anew"
            problems.append(f"{kata}: tests/stubs {text}")
        for kind, paths in files.items():
            if kind not in args.skip:
                wanted_here = [p for p in paths if args.only in str(p.relative_to(PROJECT))]
                work += [(kata, kind, path) for path in wanted_here]
    for _, kind, path in work:
        if kind == "mutant":
            concept_of(path)
    with ThreadPoolExecutor(args.jobs) as pool:
        findings = []
        for finding in pool.map(lambda w: examine(w[0], w[1], w[2], nursery, lanes), work):
            findings.append(finding)
            if finding.problem:
                print(f"  ! {finding.kata} {finding.kind} {finding.file.name}", flush=True)
    nursery.close()
    for finding in findings:
        if finding.problem:
            name = finding.file.name if finding.kind in ("mutant", "honest") else ""
            problems.append(f"{finding.kata} {finding.kind} {name}: {finding.problem}")
    for kata in wanted:
        mine = [f for f in findings if f.kata == kata]
        print(summary(kata, mine), flush=True)
        misled = [f for f in mine if f.kind == "mutant" and f.told != concept_of(f.file)]
        for finding in misled if args.verbose else []:
            print(f"    {finding.file.stem} is {concept_of(finding.file)}, told {finding.told}")
    for problem in problems:
        print("  - " + re.sub(r"\s+", " ", problem)[:600])
    failed = len(problems)
    print(f"selfcheck took {time.monotonic() - started:.0f} s")
    print(f"{len(findings) - min(failed, len(findings))} passed, {failed} failed")
    return 1 if problems or not findings else 0


def summary(kata: str, findings: list[Finding]) -> str:
    """One line for a kata: of each kind of file, how many gave the verdict that they should."""
    parts = []
    for kind, text in (("solution", "solution"), ("stub", "stub"), ("honest", "honest variants")):
        verdicts = [not f.problem for f in findings if f.kind == kind]
        if verdicts:
            parts.append(f"{text} {sum(verdicts)}/{len(verdicts)}")
    mutants = [f for f in findings if f.kind == "mutant"]
    if mutants:
        caught = sum(not f.problem for f in mutants)
        first = sum(f.told == concept_of(f.file) for f in mutants)
        parts.append(f"mutants {caught}/{len(mutants)}, their concept named first {first}")
    return f"{kata:<21} " + ("; ".join(parts) or "nothing to check")


def chosen(kata: str, wanted: list[str]) -> bool:
    return any(w == kata or (w.isdigit() and int(w) == int(kata[:2])) for w in wanted)


if __name__ == "__main__":
    speak(main)
