"""Work for the class grader's benchmark, fuzz and SIGKILL scripts: submissions, and runs of the command.

Each script works in a folder of its own (TMPDIR says where) and leaves cards alone unless it is given
`--cards`, so that several can run side by side. Give each cores of its own: `taskset -c 0,1 python ...`.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
TESTS = PROJECT / "tests"
KATAS = {1: "01_vector_add", 3: "03_scale", 7: "07_softmax", 12: "12_matmul"}
# Where there are no hostile files of a kata: what takes down a process, and what tries to.
ROUGH = (
    "import os\nos._exit(0)\n",
    "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n",
    "raise SystemExit(0)\n",
    "import sys\nsys.setrecursionlimit(10**9)\nf = lambda: f()\nf()\n",
)


def variants(kata: str) -> dict[str, list[str]]:
    """Sources of a kata by kind: honest, wrong, hostile."""

    def read(folder: str) -> list[str]:
        files = sorted((TESTS / folder / kata).glob("*.py"))
        return [file.read_text(encoding="utf-8", errors="replace") for file in files]

    honest = [(PROJECT / "solutions" / kata / "kernel.py").read_text(), *read("honest")]
    return {"honest": honest, "wrong": read("mutants"), "hostile": read("hostile") or [*ROUGH]}


def make_class(folder: Path, count: int, numbers=tuple(KATAS), seed: int = 0) -> None:
    """So many submissions of these katas: half honest, a third wrong, the rest hostile; no two alike."""
    draw = random.Random(seed)
    kinds = ["honest"] * 3 + ["wrong"] * 2 + ["hostile"]
    for number in numbers:
        sources = {kind: itertools.cycle(texts) for kind, texts in variants(KATAS[number]).items()}
        for student in range(count):
            text = next(sources[draw.choice(kinds)])
            file = folder / f"student {student:04}" / KATAS[number] / "kernel.py"
            file.parent.mkdir(parents=True)
            file.write_text(f"{text}\n# handed in by student {student}\n", encoding="utf-8")


def add_options(parser: argparse.ArgumentParser, jobs: bool = True) -> None:
    """Options that all scripts have."""
    parser.add_argument("--sandbox", choices=("auto", "bwrap", "off"), default="auto")
    parser.add_argument("--cards", action="store_true", help="use the cards of this machine too")
    if jobs:
        parser.add_argument("--jobs", type=int, help="of the grader (default: all cores)")


def words_of(options: argparse.Namespace) -> list[str]:
    """These options as the grader's. Without `--cards`, no child of this process sees a card."""
    if not options.cards:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    jobs = getattr(options, "jobs", None)
    return [f"--sandbox={options.sandbox}", *([f"--jobs={jobs}"] if jobs else [])]


def command(folder: Path, out: Path, *words: str) -> list[str]:
    return [sys.executable, "-m", "grader.classroom", str(folder), "--out", str(out), *words]


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")]))
    return os.environ | {"PYTHONPATH": path}


def adopt_orphans() -> None:
    """Processes whose parents are gone come to this one, so that their time is counted too."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER


def timed(words: list[str], watch=None) -> tuple[int, float, float]:
    """Run a command to its end: exit code, seconds, seconds of processor time with all its family."""

    def spent() -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    before, started = spent(), time.monotonic()
    process = subprocess.Popen(words, env=environment(), stdin=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(0.2)
        if watch is not None:
            watch(process.pid)
    seconds = time.monotonic() - started
    if process.returncode == 2:  # it has said why
        sys.exit(2)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            break
        if not pid:
            time.sleep(0.1)
    return process.returncode, seconds, spent() - before


def records(out: Path) -> dict[tuple, dict]:
    """All results of an OUT by their keys."""
    database = sqlite3.connect(f"file:{out / 'grades.sqlite'}?mode=ro", uri=True)
    try:
        rows = database.execute("SELECT sha, kata, part, suite, conditions, record FROM results")
        return {row[:-1]: json.loads(row[-1]) for row in rows}
    finally:
        database.close()


def sound(out: Path) -> bool:
    """Whether the database holds together."""
    database = sqlite3.connect(out / "grades.sqlite")
    try:
        return database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        database.close()
