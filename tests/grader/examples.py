"""Put real reports into the lessons: `python -m grader.examples [--check] [N ...]`.

The fenced block below the heading "What you see while unsolved" of each lesson holds the report of
the stub as shipped. Nobody types these by hand. With --check nothing is written, and stale blocks
make the exit code 1. (The README's report is a picture, see `screenshots`.)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from .grading import PROJECT, katas
from .progress import kata_of
from .selfcheck import todo_regions

HEADING = "## What you see while unsolved"


def report(kata: str, root: Path) -> str:
    """The report of a kernel without a GPU, 88 columns wide, as it is printed."""
    environment = os.environ | {"COLUMNS": "88", "NO_COLOR": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "pytest", f"tests/test_{kata}.py", f"--root={root}"]
    command += ["--lanes=trace,compile", "-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True)
    return without_closing_line(done.stdout.replace(f"{root}/", "exercises/"))


def without_closing_line(text: str) -> str:
    """A report without pytest's last line, which says how long it took."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(text.rstrip().splitlines()[:-1]).rstrip())


def partly_solved(kata: str, concepts: tuple[str, ...], folder: Path) -> Path:
    """A root whose kernel.py is the stub with the TODOs of these concepts solved."""
    stub = (PROJECT / "exercises" / kata / "kernel.py").read_text().splitlines()
    solution = (PROJECT / "solutions" / kata / "kernel.py").read_text().splitlines()
    # Between two regions both files hold the same lines, so the parts in between correspond.
    out, at = [], 0
    regions = todo_regions(stub)
    for number, (start, end) in enumerate(regions):
        same = stub[end : regions[number + 1][0] if number + 1 < len(regions) else len(stub)]
        before = stub[(regions[number - 1][1] if number else 0) : start]
        at += len(before)
        stop = next(i for i in range(at, len(solution)) if solution[i : i + len(same)] == same)
        solved = solution[at:stop]
        wanted = any(f"TODO({concept})" in stub[start] for concept in concepts)
        out += before + (solved if wanted else stub[start:end])
        at = stop
    out += stub[regions[-1][1] :]
    (folder / kata).mkdir(parents=True)
    (folder / kata / "kernel.py").write_text("\n".join(out) + "\n")
    return folder


def replaced(text: str, mark: str, block: str) -> str:
    """The text with the first fenced block after `mark` replaced. Raises ValueError without one."""
    at = text.index(mark)
    match = re.compile(r"^```\w*\n.*?^```$", re.M | re.S).search(text, at)
    if match is None:
        raise ValueError(f"no fenced block after {mark!r}")
    return f"{text[: match.start()]}```text\n{block}\n```{text[match.end() :]}"


def main() -> int:
    stale = []
    words = [word for word in sys.argv[1:] if word != "--check"]
    for kata in [kata_of(word) for word in words] or katas():
        page = PROJECT / "exercises" / kata / "README.md"
        old = page.read_text()
        new = replaced(old, HEADING, report(kata, PROJECT / "exercises"))
        if new != old:
            stale.append(page)
            if "--check" not in sys.argv:
                page.write_text(new)
    for page in stale:
        print(f"{'stale' if '--check' in sys.argv else 'written'}: {page.relative_to(PROJECT)}")
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
