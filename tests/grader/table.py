"""The figures in solutions/README.md: measured by one command, typed by nobody.

    nox -s bench-table                   measures on this machine's card and writes the table
    python -m grader.table FILE.json     writes the table of an earlier run

Each row is measured as the speed check measures (see `speed`): solution, PyTorch and the card's own
ceiling once a round on fresh inputs, interleaved, with ratios taken round by round.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .grading import kernels, suite
from .scorecard import PROJECT

README = PROJECT / "solutions" / "README.md"
KEPT = PROJECT / ".katas" / "bench" / "table.json"
BEGIN, END = "<!-- figures: made by `nox -s bench-table` -->", "<!-- end of figures -->"
ROUNDS = 100


def measure(kata: str, sizes: dict[str, Any]) -> dict:
    """One row: a reference solution at one size. Raises RuntimeError where that goes wrong."""
    import torch

    from .guard import Guard
    from .kata import size_text
    from .speed import Bench, Times, interval, load

    statement = suite(kata).KATA
    solution = PROJECT / "solutions" / kata / "kernel.py"
    suite_file = PROJECT / f"tests/test_{kata}.py"
    bench = Bench({"suite": str(suite_file), "reference": str(solution), "sizes": sizes})
    if bench.failure is not None:
        raise RuntimeError(bench.failure["message"])
    lane = SimpleNamespace(
        launcher=vars(load(str(solution), "solution"))[statement.launcher],
        file=str(solution),
        allowed=statement.allowed,
        guard=Guard(),
        describe=lambda error: {"message": f"{type(error).__name__}: {error}", "line": None},
    )
    facts = bench.run(lane, {"rounds": ROUNDS, "seed": "table"})
    if "error" in facts or "refused" in facts:
        raise RuntimeError(f"{kata}: {facts.get('refused') or facts['error']['message']}")
    times = Times.empty(facts)
    times.add(facts)
    torch.cuda.empty_cache()
    torch_ratios = times.ratios("torch")
    by_ceiling = times.work / times.ceiling_work
    shares = [ratio * by_ceiling for ratio in times.ratios("ceiling")]
    return {
        "kata": kata,
        "size": size_text(bench.sizes),
        "kind": times.kind,
        "work": times.work,
        "ms": statistics.median(times.ms["launcher"]),
        "rate": times.rate("launcher"),
        "ceiling": times.rate("ceiling"),
        "share": statistics.median(shares),
        "torch": statistics.median(torch_ratios),
        "torch_interval": interval(torch_ratios),
        "itself": statistics.median(times.ratios("reference")),
        "rounds": times.rounds,
    }


def run() -> dict:
    """All rows, and what they were measured with."""
    import torch

    from .bench import versions

    rows = []
    for kata in kernels():
        statement = suite(kata).KATA
        for sizes in statement.figures or (statement.speed_case,):
            rows.append(measure(kata, sizes))
            print(row_text(rows[-1]), flush=True)
    return {
        "card": torch.cuda.get_device_name(),
        "versions": versions(),
        "date": time.strftime("%Y-%m-%d"),
        "rows": rows,
    }


def row_text(row: dict) -> str:
    """One row of the table, in Markdown."""
    if row["kind"] == "matrix":
        rate, own = f"{row['rate'] / 1e12:,.0f} TFLOP/s", "its matrix rate"
    else:
        rate, own = f"{row['rate'] / 1e9:,.0f} GB/s", "its copy"
    low, high = row["torch_interval"]
    return (
        f"| {row['kata']} | {row['size']} | {row['ms']:.3f} ms | {rate} | "
        f"{row['share']:.3f} of {own} | {row['torch']:.3f} ({low:.3f} to {high:.3f}) | "
        f"{row['itself']:.3f} |"
    )


def render(figures: dict) -> str:
    """The part of solutions/README.md between its two marks, marks included."""
    used = ", ".join(f"{name} {version}" for name, version in figures["versions"].items())
    lines = [
        BEGIN,
        "",
        f"Measured on one {figures['card']} with {used}, on {figures['date']}.",
        "",
        "| kata | size | time | rate | share of what the card does | PyTorch time / our time | "
        "itself |",
        "|---|---|---|---|---|---|---|",
        *(row_text(row) for row in figures["rows"]),
        "",
        END,
    ]
    return "\n".join(lines)


def insert(page: str, part: str) -> str:
    """The page with the part in place of what stood between its marks. Raises ValueError."""
    start, end = page.find(BEGIN), page.find(END)
    if start < 0 or end < start:
        raise ValueError(f"{README} has lost its marks: {BEGIN} and {END}")
    return page[:start] + part + page[end + len(END) :]


def main(arguments: list[str]) -> int:
    """Measure, or take the figures of a file, and write them into solutions/README.md."""
    if arguments:
        figures = json.loads(Path(arguments[0]).read_text())
    else:
        import torch

        if not torch.cuda.is_available():
            print("katas: figures need a GPU, and there is none here", file=sys.stderr)
            return 2
        try:
            figures = run()
        except RuntimeError as error:
            print(f"katas: {error}", file=sys.stderr)
            return 1
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        KEPT.write_text(json.dumps(figures, indent=1) + "\n")
    README.write_text(insert(README.read_text(), render(figures)))
    print(f"written: {README.relative_to(PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
