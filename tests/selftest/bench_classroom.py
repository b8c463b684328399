"""How much the class grader costs, by hand on a quiet machine.

    python tests/selftest/bench_classroom.py speed [--submissions 100]      overhead, and two jobs
    python tests/selftest/bench_classroom.py memory [--submissions 1000]    memory as it goes on

Overhead is the processor time of the whole command, children included, beyond that of its units as
their jobs measured it, as a share of the latter.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import classroom_work as work

MOST_OVERHEAD, LEAST_SPEED_UP, MOST_GROWTH = 0.25, 1.8, 0.05
EVERY = 5.0  # seconds between looks at the memory


def speed(folder: Path, count: int, words: list[str]) -> bool:
    """Grade one class with one job and with two."""
    submissions = folder / "in"
    work.make_class(submissions, count)
    work.adopt_orphans()
    good, wall = True, {}
    for jobs in (1, 2):
        out = folder / f"out-{jobs}"
        line = work.command(submissions, out, "--seed=bench", f"--jobs={jobs}", *words)
        code, wall[jobs], spent = work.timed(line)
        own = sum(record.get("cpu", 0.0) for record in work.records(out).values())
        units = len(work.records(out))
        overhead = spent / own - 1
        print(f"jobs {jobs}: exit code {code}, {units} units, {wall[jobs]:.0f} s; processor time "
              f"{spent:.0f} s, of that the checks' own {own:.0f} s: overhead {overhead:.1%}")  # fmt: skip
        good &= code == 0 and overhead <= MOST_OVERHEAD
    ratio = wall[1] / wall[2]
    print(f"two jobs are {ratio:.2f} times as fast as one")
    same = [(folder / f"out-{jobs}" / "grades.csv").read_text() for jobs in (1, 2)]
    print(f"marks are {'the same' if same[0] == same[1] else 'DIFFERENT'}")
    return good and ratio >= LEAST_SPEED_UP and same[0] == same[1]


def memory(folder: Path, count: int, words: list[str]) -> bool:
    """Grade many submissions of kata 1 and look at the memory of the processes that stay."""
    submissions = folder / "in"
    work.make_class(submissions, count, (1,))
    looks: list[tuple[float, dict[str, int]]] = []
    started = last = time.monotonic()

    def watch(pid: int) -> None:
        nonlocal last
        if time.monotonic() - last >= EVERY:
            last = time.monotonic()
            looks.append((last - started, dict(lasting(pid))))

    line = work.command(submissions, folder / "out", "--seed=bench", *words)
    code, seconds, _ = work.timed(line, watch)
    print(f"exit code {code}, {count} submissions in {seconds:.0f} s; MiB by process:")
    names = sorted({name for _, sizes in looks for name in sizes})
    good = code == 0
    for name in names:
        sizes = [size[name] >> 20 for _, size in looks if name in size]
        quarter = max(len(sizes) // 4, 1)
        early = statistics.median(sizes[quarter : 2 * quarter] or sizes)
        late = statistics.median(sizes[-quarter:])
        growth = late / max(early, 1) - 1
        print(f"  {name:<10} second quarter {early:6.0f}, last quarter {late:6.0f}: {growth:+.1%}")
        good &= growth <= MOST_GROWTH
    return good


def lasting(pid: int) -> Iterator[tuple[str, int]]:
    """The grader, its jobs and their nurseries, with the bytes that each holds."""

    def children(of: int) -> list[int]:
        found: list[int] = []
        for listed in Path(f"/proc/{of}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, listed.read_text().split())
        return sorted(found)

    def held(of: int) -> int:
        try:
            return int(Path(f"/proc/{of}/statm").read_text().split()[1]) * 4096
        except (OSError, IndexError):
            return 0

    def nursery(of: int) -> int:
        family = [of]
        for each in family:
            try:
                words = Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"grader.worker" in words and b"bwrap" not in words[0]:
                return each
            family += children(each)
        return 0

    yield "grader", held(pid)
    for number, job in enumerate(children(pid), 1):
        yield f"job {number}", held(job)
        for child in children(job):
            found = nursery(child)
            if found:
                yield f"nursery {number}", held(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("speed", "memory"))
    parser.add_argument("--submissions", type=int)
    work.add_options(parser, jobs=False)
    options = parser.parse_args()
    words = work.words_of(options)
    with tempfile.TemporaryDirectory(prefix="katas-bench-") as folder:
        measure, count = {"speed": (speed, 100), "memory": (memory, 1000)}[options.what]
        good = measure(Path(folder), options.submissions or count, words)
    print("as it should be" if good else "NOT as it should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
