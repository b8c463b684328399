"""SIGKILL at random moments: nothing is lost, nothing is judged twice, nothing changes.

    python tests/selftest/kill_classroom.py [--kills 50] [--submissions 12] [--seed 0] [--jobs N] [--fake]

Another seed gives other moments: 50 kills may as well be five runs of 10 side by side. `--fake` judges
at once what each file says of itself: the reduced form for the selftests.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import classroom_work as work

FAKE = f"""
import sys, time
sys.path[:0] = [{str(work.TESTS)!r}, {str(work.TESTS / "selftest")!r}]
from grader.classroom import __main__ as command, local, page
from test_classroom_grading import FakeJob
class Slow(FakeJob):
    def judge(self, *words):
        time.sleep(0.03)
        return super().judge(*words)
local.Job, local.count_cards = Slow, lambda: 0
page.plots = lambda rows, titles: {{"marks": "", "katas": ""}}
sys.exit(command.main(sys.argv[1:]))
"""


def run(line: list[str], kill_after: float | None) -> int | None:
    """Run this command line; None if it was killed before it had ended."""
    process = subprocess.Popen(
        line, env=work.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        _, said = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        return None
    if process.returncode not in (0, 1):
        print(said)
        sys.exit(2)
    return process.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--submissions", type=int, default=12)
    parser.add_argument("--fake", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    work.add_options(parser)
    options = parser.parse_args()
    words = ["--resume", "--seed=kill", "--katas=1", *work.words_of(options)]
    draw, faults = random.Random(options.seed), []
    with tempfile.TemporaryDirectory(prefix="katas-kill-") as base:
        folder, want, out = Path(base, "in"), Path(base, "want"), Path(base, "out")
        if options.fake:
            for number in range(options.submissions):
                file = folder / f"s{number}" / work.KATAS[1] / "kernel.py"
                file.parent.mkdir(parents=True)
                file.write_text(f"{draw.choice(('good', 'bad', 'crash'))} {number}")
        else:
            work.make_class(folder, options.submissions, (1,))

        def line(into: Path) -> list[str]:
            command = work.command(folder, into, *words)
            if options.fake:
                command[1:3] = ["-c", FAKE]
            return command

        started = time.monotonic()
        run(line(want), None)
        whole = time.monotonic() - started
        known, rounds, kills = {}, 0, 0
        while kills < options.kills:
            code = run(line(out), draw.uniform(0, 1.1 * whole))
            kills += code is None
            if (out / "grades.sqlite").exists():
                faults += [] if work.sound(out) else ["the database is broken"]
            if code is not None:
                if code:
                    faults.append(f"exit code {code}")
                faults += compare(out, want)
                shutil.rmtree(out)
                known, rounds = {}, rounds + 1
                continue
            known = held(out, known, faults)
        run(line(out), None)
        held(out, known, faults)
        faults += compare(out, want)
    print(f"{kills} kills, {rounds + 1} classes finished all the same")
    print("\n".join(faults) or "as it should be")
    return 1 if faults else 0


def held(out: Path, known: dict, faults: list[str]) -> dict:
    """All results that there are now; what was there before must be among them, unchanged."""
    try:
        now = work.records(out)
    except Exception:  # killed before the tables were made
        now = {}
    if any(now.get(key) != record for key, record in known.items()):
        faults.append("a result was lost or changed")
    return now


def compare(out: Path, want: Path) -> list[str]:
    """What differs from an undisturbed run."""
    names = ("grades.csv", "results.json", "junit.xml")
    return [f"{n} differs" for n in names if (out / n).read_bytes() != (want / n).read_bytes()]


if __name__ == "__main__":
    sys.exit(main())
