"""`nox -s sanitize-N`: your kernel under NVIDIA's compute-sanitizer: `python -m grader.sanitize N`.

Three of its tools look at the kernel on the card, each in a process of its own: memcheck (accesses outside
the tensors), racecheck (shared memory that two threads use at once), initcheck (memory that is read
and that nobody wrote). Their reports are long; what is said here is a line for each finding, with the
learner's own line. It is no verdict and earns no points: the lanes of a check see most of it earlier.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from . import progress
from .progress import command, kata_of
from .words import plural, speak, wrapped

TOOLS = {
    "memcheck": "every access stays inside the tensors",
    "racecheck": "no two threads use the same shared memory at once",
    "initcheck": "nothing is read that nobody wrote",
}
PLACES = ("/usr/local/cuda/bin", "/opt/cuda/bin", "/usr/lib/nvidia-cuda-toolkit/bin")
GROUPS = ("full", "ragged")  # what is run: the usual sizes, and such as leave a ragged edge
MOST_CASES = 4
SECONDS = 900  # for one tool: each access is looked at, which takes a hundred times as long
MOST_LINES = 6  # findings that are shown of one tool
RAN = "katas: every case ran"
VERBS = {"Read": "reads", "Write": "writes"}
FOUND = 99  # exit code of compute-sanitizer when it has found something


@dataclass(frozen=True)
class Finding:
    """What a tool found, as often as it was: the line in kernel.py (0: unknown), in words."""

    line: int
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text}" if self.line else self.text


# ---- what compute-sanitizer says --------------------------------------------------------------


def records(text: str) -> list[str]:
    """The report's records: a headline with the indented lines below it, joined."""
    found: list[list[str]] = []
    for line in text.splitlines():
        match = re.match(r"=========( +)(\S.*)", line)
        if not match:
            continue
        if len(match[1]) == 1 and not match[2].startswith(("and ", "in ", "at ", "by ")):
            found.append([match[2]])
        elif found:
            found[-1].append(match[2])
    return [" ".join(lines).split(" Saved host backtrace", 1)[0] for lines in found]


def findings(text: str) -> Counter[Finding]:
    """What a report says about the kernel, and how often; what is said of other code too."""
    return Counter(finding for record in records(text) if (finding := finding_of(record)))


def finding_of(record: str) -> Finding | None:
    """One record in our words; None for one that reports nothing (a headline, a summary)."""
    lines = [int(number) for number in re.findall(r"\bkernel\.py:(\d+)", record)]
    line = lines[0] if lines else 0
    at = where(record)
    access = re.match(r"Invalid __(\w+)__ (read|write|atomic\w*) of size ([\d,]+) byte", record)
    if access:
        verb = VERBS.get(access[2].title(), "updates")
        space = "" if access[1] == "global" else f" of {access[1]} memory"
        return Finding(line, f"{verb} {size(access[3])}{space} {outside(record)}{at}")
    fresh = re.match(r"Uninitialized __(\w+)__ memory read of size ([\d,]+) byte", record)
    if fresh:
        return Finding(line, f"reads {size(fresh[2])} that nobody has written{at}")
    race = re.match(r"(Error|Warning): Race reported between (\w+) access", record)
    if race:
        mine, *others = (VERBS.get(kind, "uses") for kind in re.findall(r"\b(\w+) access", record))
        who = f"line {lines[1]}" if len(lines) > 1 and lines[1] != line else "another thread"
        sure = "" if race[1] == "Error" else " (a warning: it may be meant so)"
        text = f"{mine} shared memory that {who} {(others or ['uses'])[0]} at the same time{sure}"
        return Finding(line, text)
    if re.match(r"(ERROR|WARN).*Potential \w+ hazard", record):
        return Finding(line, "two threads use the same shared memory at once")
    hit = re.match(r"Program hit (\w+)", record)
    if hit and "LaunchFailure" not in hit[1]:  # that follows from what is reported already
        return Finding(0, f"CUDA says {hit[1]}")
    return None


def where(record: str) -> str:
    """The program that did it, as a grid counts it."""
    block = re.search(r"in block \((\d+),\s*(\d+),\s*(\d+)\)", record)
    if not block:
        return ""
    numbers = [int(number) for number in block.groups()]
    while len(numbers) > 1 and not numbers[-1]:
        numbers.pop()
    return f" in program ({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"


def outside(record: str) -> str:
    """How far outside of what."""
    if "is misaligned" in record:
        return "at an address that is not a multiple of its size"
    far = re.search(
        r"is ([\d,]+) bytes (after|before) the nearest allocation.*?size ([\d,]+)", record
    )
    if not far:
        return "outside any tensor"
    # Its count begins at 1 for the first byte behind an allocation.
    by = int(far[1].replace(",", "")) - (far[2] == "after")
    edge = "past the end" if far[2] == "after" else "before the start"
    return f"{f'{size(str(by))} ' if by else ''}{edge} of a tensor of {size(far[3])}"


def size(count: str) -> str:
    """Bytes, as a report counts them, in words."""
    return plural(int(count.replace(",", "")), "byte")


# ---- running it -------------------------------------------------------------------------------


def sanitizer() -> str | None:
    """The program, from PATH or where CUDA's toolkit usually lies."""
    places = [*PLACES, *(str(path) for path in sorted(Path("/usr/local").glob("cuda-*/bin")))]
    home = os.environ.get("CUDA_HOME")
    places = [f"{home}/bin", *places] if home else places
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(places)
    )


def trouble(kata: str, program: str | None) -> str:
    """Why nothing can be run, in one line; "" when all is well."""
    n = int(kata[:2])
    import torch

    from .grading import kernels

    if kata not in kernels():
        return f"kata {n} asks for no kernel: nothing runs on the card"
    if program is None:
        return f"sanitize-{n} needs compute-sanitizer, a part of NVIDIA's CUDA toolkit, on PATH"
    if not torch.cuda.is_available() or torch.version.hip:
        return f"sanitize-{n} needs an NVIDIA GPU; {command()} -s doctor says what PyTorch sees"
    return ""


def run_tool(program: str, tool: str, kata: str) -> tuple[str, int | None]:
    """What a tool says of the kata's cases, and its exit code (None: it took too long)."""
    words = [program, "--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "1000"]
    words += [sys.executable, "-m", "grader.sanitize", "--run", kata]
    # PyTorch would cut its tensors from large pieces, whose ends are not those of the tensors.
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    try:
        done = subprocess.run(
            words,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", None
    return done.stdout, done.returncode


def alike(found: Counter[Finding]) -> list[tuple[Finding, int]]:
    """One finding for all of a line that differ in numbers alone, as each thread has its own."""
    kinds: dict[tuple[int, str], tuple[Finding, int]] = {}
    for finding, times in found.items():
        kind = finding.line, re.sub(r"[\d,]+", "#", finding.text)
        first, before = kinds.get(kind, (finding, 0))
        kinds[kind] = first, before + times
    return sorted(kinds.values(), key=lambda item: -item[1])


def report(tool: str, text: str, code: int | None) -> tuple[bool, str]:
    """Whether a tool found the kernel in order, and what to say about it."""
    found = findings(text)
    if found:
        lines = [f"  FAIL  {tool:<10} {TOOLS[tool]}"]
        kinds = alike(found)
        for finding, times in kinds[:MOST_LINES]:
            often = f" ({times:,} times, or much like it)" if times > 1 else ""
            lines.append(wrapped(f"{finding}{often}", " " * 19))
        if len(kinds) > MOST_LINES:
            more = len(kinds) - MOST_LINES
            lines.append(" " * 19 + f"and {plural(more, 'more finding')}")
        return False, "\n".join(lines)
    if code is None:
        return False, f"  --    {tool:<10} " + f"took more than {SECONDS} seconds: not judged"
    if code or RAN not in text:
        return False, wrapped(f"it did not get through: {why(text, code)}", f"  --    {tool:<10} ")
    return True, f"  ok    {tool:<10} {TOOLS[tool]}"


def why(text: str, code: int) -> str:
    """What ended a tool: the last thing that the kernel said, or else that the tool said of itself."""
    said = [line.strip() for line in text.splitlines()]
    kernels = [line for line in said if line and line[:9] != "=" * 9]
    tools = [record for record in records(text) if record != "COMPUTE-SANITIZER"]
    return (kernels or tools or [f"exit code {code}"])[-1]


def run_cases(kata: str) -> None:
    """What the tools watch: some cases of the kata on the card, in this process."""
    import torch

    from .grading import suite
    from .kata import Draw
    from .speed import load

    statement = suite(kata).KATA
    module = load(str(progress.EXERCISES / kata / "kernel.py"), "exercise")
    cases = [case for case in statement.cases if case.group in GROUPS][:MOST_CASES]
    for case in cases:
        case = case.settled(statement.usual_block)
        inputs = statement.inputs(Draw("sanitize", case.name), **case.sizes)
        arguments = [a.cuda() if isinstance(a, torch.Tensor) else a for a in inputs]
        vars(module)[statement.of(case.launcher).launcher](*arguments)
        torch.cuda.synchronize()
    print(RAN, flush=True)


def main(words: list[str]) -> int:
    if words[:1] == ["--run"]:
        run_cases(words[1])
        return 0
    if len(words) != 1:
        progress.stop("sanitize-N takes no further words")
    kata, program = kata_of(words[0]), sanitizer()
    reason = trouble(kata, program)
    if reason or program is None:
        progress.stop(reason)
    print(f"exercises/{kata}/kernel.py under compute-sanitizer\n", flush=True)
    good = True
    for tool in TOOLS:
        fine, text = report(tool, *run_tool(program, tool, kata))
        print(text, flush=True)
        good = good and fine
    return 0 if good else 1


if __name__ == "__main__":
    speak(main, sys.argv[1:])
