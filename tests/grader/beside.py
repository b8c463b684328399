"""`nox -s torch-N`: your kernel beside the Triton code of torch.compile: `python -m grader.beside N`.

Both speeds at the kata's largest size, measured in turns, then both sources. It needs a GPU, and
like a benchmark it is no verdict: the file under test is imported right here (see `bench`).
"""

from __future__ import annotations

import os
import statistics
import sys
from pathlib import Path

from . import progress
from .progress import command, kata_of
from .words import speak

ROUNDS = 30
GROUPS = ("exercise", "torch.compile")


def trouble(kata: str) -> str:
    """Why there is nothing to show, in one line; "" when all is well."""
    n = int(kata[:2])
    if os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes"):
        return "TRITON_INTERPRET is set: unset it, as torch.compile writes for a GPU"
    import torch

    from .grading import kernels

    if kata not in kernels():
        return f"kata {n} asks for no kernel: torch.compile has nothing to write"
    if not torch.cuda.is_available():
        doctor = f"{command()} -s doctor says what PyTorch sees"
        return f"torch-{n} needs a GPU, for which torch.compile writes Triton code; {doctor}"
    return ""


def speeds(stand, sizes: dict) -> dict[str, float | str]:
    """Median seconds of each contender, measured in turns; or why it has none."""
    from .bench import Unfit, one_line

    found: dict[str, float | str] = {}
    ready = {}
    for group in GROUPS[::-1]:  # the exercise last: a crash of it on the card spoils what follows
        try:
            ready[group] = stand.ready(sizes, group)
        except Unfit as reason:
            found[group] = str(reason)
    seconds: dict[str, list[float]] = {group: [] for group in ready}
    try:
        for turn in range(ROUNDS):
            for group in list(ready)[:: 1 if turn % 2 else -1]:
                call, arguments, anew, _ = ready[group]
                anew()
                seconds[group].append(stand.once(call, *arguments))
    except Exception as error:
        return found | {group: f"the card stopped: {one_line(error)}" for group in ready}
    return found | {group: statistics.median(times) for group, times in seconds.items()}


def table(stand, sizes: dict, found: dict[str, float | str]) -> str:
    """Both speeds in words."""
    from .bench import size_text
    from .cost import figure

    lines = [f"{stand.kata} on {stand.report['card']}, at {size_text(sizes)}:"]
    theirs = found["torch.compile"]
    for group in GROUPS:
        taken = found[group]
        name = "yours" if group == "exercise" else group
        if isinstance(taken, str):
            lines.append(f"  {name:<14}{taken}")
            continue
        rate = figure(stand.scaled(stand.work(sizes) / taken))
        line = f"  {name:<14}{rate:>8} {stand.report['unit']}   {taken * 1e3:.3f} ms"
        if group == "exercise" and not isinstance(theirs, str):
            line += f"   {theirs / taken:.2f} of torch.compile's speed"
        lines.append(line)
    return "\n".join(lines)


def main(words: list[str]) -> int:
    if len(words) != 1:
        progress.stop("torch-N takes no further words")
    kata = kata_of(words[0])
    file: Path = progress.EXERCISES / kata / "kernel.py"
    if not file.is_file():
        progress.stop(f"there is no exercises/{kata}/kernel.py; {command()} -s reset-{words[0]}")
    reason = trouble(kata)
    if reason:
        progress.stop(reason)
    from . import bench
    from .speed import card_lock

    with card_lock(alone=True):
        stand = bench.Stand(kata, file)
        sizes = bench.sizes_of(stand.statement)[-1]
        sources = bench.side_by_side(stand)
        print(table(stand, sizes, speeds(stand, sizes)) + f"\n\n{sources}", flush=True)
    return 0


if __name__ == "__main__":
    speak(main, sys.argv[1:])
