"""Malformed submissions by the thousand: each must come out as a row, and none with marks it did not earn.

    python tests/selftest/fuzz_classroom.py [--submissions 2000] [--seed 0] [--jobs N]

Marks are earned if the very bytes that were judged get the same points from the suite alone. Another
seed gives other submissions: 2,000 may as well be four runs of 500 side by side.
"""

from __future__ import annotations

import argparse
import ast
import csv
import io
import json
import random
import sqlite3
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import classroom_work as work

sys.path.insert(0, str(work.TESTS))

KATA = work.KATAS[1]
WORDS = (
    "def add(x, y): return x lambda : import torch triton tl @triton.jit kernel [ ] ( ) { } = == + "
    "- * ** ... None \\ ''' \"\"\" # \t for in while True yield await async class print raise 1e999 "
    "0x \N{SNOWMAN} \x00 \x0c"
).split(" ")

NUDGED = b"0123456789+-*/<>%"


def truncated(draw: random.Random, source: bytes) -> bytes:
    return source[: draw.randrange(len(source))]


def mutated(draw: random.Random, source: bytes) -> bytes:
    data = bytearray(source)
    for _ in range(draw.choice((1, 3, 30, 300))):
        data[draw.randrange(len(data))] = draw.randrange(256)
    return bytes(data)


def random_python(draw: random.Random, source: bytes) -> bytes:
    lines = [" ".join(draw.choices(WORDS, k=draw.randrange(8))) for _ in range(draw.randrange(40))]
    return "\n".join(" " * draw.choice((0, 0, 4)) + line for line in lines).encode()


def shuffled(draw: random.Random, source: bytes) -> bytes:
    lines = source.splitlines(keepends=True)
    draw.shuffle(lines)
    return b"".join(lines)


def nudged(draw: random.Random, source: bytes) -> bytes:
    """One digit or operator is another one: Python still, and worth some points now and then."""
    data = bytearray(source)
    place = draw.choice([n for n, byte in enumerate(data) if byte in NUDGED])
    data[place] = draw.choice([byte for byte in NUDGED if byte != data[place]])
    return bytes(data)


SPOIL = (truncated, mutated, random_python, shuffled, nudged)


def archive(draw: random.Random, source: bytes) -> tuple[str, bytes]:
    """An archive's ending and its bytes, with something wrong in it."""
    out, inside = io.BytesIO(), draw.choice((source, draw.choice(SPOIL)(draw, source)))
    name = draw.choice(
        (f"{KATA}/kernel.py", f"../{KATA}/kernel.py", "x" * 300, f"a/{KATA}/kernel.py")
    )
    if draw.random() < 0.5:
        ending = ".zip"
        with zipfile.ZipFile(out, "w", draw.choice((0, 8, 14))) as packed:
            packed.writestr(name, inside)
    else:
        ending, mode = draw.choice(((".tar", "w"), (".tar.gz", "w:gz"), (".tar.xz", "w:xz")))
        with tarfile.open(fileobj=out, mode=mode) as packed:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(inside), draw.choice((b"0", b"0", b"1", b"2", b"3", b"5"))
            packed.addfile(info, io.BytesIO(inside))
    data = out.getvalue()
    spoil = draw.randrange(4)
    if spoil == 1:
        data = truncated(draw, data)
    elif spoil == 2:
        data = mutated(draw, data)
    elif spoil == 3:
        data = draw.randbytes(draw.randrange(2000))
    return ending, data


def make(folder: Path, count: int, seed: int) -> None:
    """So many malformed submissions: files in the right place, and archives."""
    draw = random.Random(seed)
    source = (work.PROJECT / "solutions" / KATA / "kernel.py").read_bytes()
    for number in range(count):
        name = f"s{number:05}"
        if draw.random() < 0.3:
            ending, data = archive(draw, source)
            file = folder / (name + ending)
        else:
            data, file = draw.choice(SPOIL)(draw, source), folder / name / KATA / "kernel.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


def unearned(out: Path, most: int, sandbox: str) -> list[str]:
    """Rows with points that the suite alone does not give, or that no such file can have."""
    from grader.judge import Nursery
    from grader.sandbox import Limits, choose

    facts = json.loads((out / "results.json").read_text(encoding="utf-8"))
    database = sqlite3.connect(out / "grades.sqlite")
    nursery = Nursery(choose(sandbox), Limits())
    found, again = [], 0
    for row in facts["submissions"]:
        if not row["score"]:
            continue
        sha, checks = row["katas"][KATA]["sha256"], row["katas"][KATA]["checks"]
        score = sum(check["points"] for check in checks if check["lane"] != "gpu")
        ((data,),) = database.execute("SELECT content FROM sources WHERE sha = ?", (sha,))
        try:
            names = {getattr(node, "name", "") for node in ast.parse(data).body}
        except (SyntaxError, ValueError):
            names = set()
        if "add" not in names:
            found.append(f"{row['student']}: {row['score']} points without a function add")
        elif again < most:
            again += 1
            points = points_alone(data, facts["settings"]["seed"], nursery)
            if points != score:
                found.append(f"{row['student']}: {score} points, judged again {points}")
    nursery.close()
    print(f"{again} rows with points judged once more, by the suite alone")
    return found


def points_alone(data: bytes, seed: str, nursery) -> int:
    """What the suite gives these bytes, without the class grader around it."""
    from grader.classroom.units import LANES
    from grader.grading import grade

    with tempfile.TemporaryDirectory(prefix="katas-fuzz-") as folder:
        file = Path(folder, "kernel.py")
        file.write_bytes(data)
        return grade(KATA, file, nursery, LANES["cpu"], seed).score


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--submissions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=int, default=10**6, help="rows to judge once more at most")
    work.add_options(parser)
    options = parser.parse_args()
    words = work.words_of(options)
    with tempfile.TemporaryDirectory(prefix="katas-fuzz-") as folder:
        submissions, out = Path(folder, "in"), Path(folder, "out")
        make(submissions, options.submissions, options.seed)
        line = work.command(submissions, out, "--seed=fuzz", "--katas=1", *words)
        code, seconds, _ = work.timed(line)
        with (out / "grades.csv").open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        faults = unearned(out, options.again, options.sandbox)
        states = {row["status"] for row in rows}
        if len(rows) != options.submissions or len({row["id"] for row in rows}) != len(rows):
            faults.append(f"{len(rows)} rows")
        faults += [f"there are rows {state}" for state in {"error", "pending"} & states]
        faults += [f"exit code {code}"] if code else []
    print(f"{len(rows)} rows in {seconds:.0f} s; statuses: {', '.join(sorted(states))}")
    print("\n".join(faults) or "as it should be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
