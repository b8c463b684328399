"""Benchmarks for people: one kata's work done in four ways, over a range of sizes.

    nox -s bench-1                      or    pytest tests/bench.py --kata=1
    nox -s bench-1 -- --show-compiled   also prints the Triton code that torch.compile writes
    python -m grader.bench FILE.json    draws the plot of an earlier run again

tests/bench.py is what pytest collects; the work is done here. A benchmark is no verdict: times are
shown, nothing is passed or failed, and so the file under test is imported right here, in pytest's
own process. Whoever does not trust a file checks it first (see `judge`).
"""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import os
import platform
import re
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

from .cost import figure
from .grading import katas, kernels, suite
from .kata import Cost, Kata, size_text
from .progress import shown
from .scorecard import PROJECT
from .speed import FLUSH_MS, MATRIX, CardDraw, differs, load, parts, unfit

GROUPS = ("exercise", "solution", "PyTorch eager", "torch.compile")
FOLDER = PROJECT / ".katas" / "bench"
SECONDS = 0.2  # of measuring for each contender and size
FEWEST, MOST = 10, 100  # rounds
STEPS = 6  # sizes of a kata that names none
NO_PLOT = "no plot: matplotlib is not installed; {} -m pip install matplotlib"


class Unfit(Exception):
    """A contender cannot be measured at a size, and why."""


# ---- what is to be measured ------------------------------------------------------------------


def named(word: str | None) -> str | None:
    """The kata that a person means by "1", "01" or "01_vector_add"; None for no such kata."""
    return next((k for k in katas() if word in (k, k[:2], str(int(k[:2])))), None)


def trouble(word: str | None, plugins) -> str:
    """Why nothing can be measured, in one line; "" when all is well. `plugins`: pytest's."""
    if named(word) is None:
        numbers = ", ".join(str(int(k[:2])) for k in katas())
        return f"--kata={word or ''} names no kata; there are {numbers}"
    if named(word) not in kernels():
        return f"{named(word)} asks for no kernel: there is nothing to measure"
    if importlib.util.find_spec("pytest_benchmark") is None:
        return f"benchmarks need pytest-benchmark: {sys.executable} -m pip install pytest-benchmark"
    if not (plugins.hasplugin("benchmark") or plugins.hasplugin("pytest_benchmark.plugin")):
        return "pytest-benchmark is switched off: add -p pytest_benchmark.plugin"
    if os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes"):
        return "TRITON_INTERPRET is set: what the interpreter takes says nothing about a GPU"
    if not torch.cuda.is_available():
        return "a benchmark needs a GPU, and there is none here; a check estimates the cost"
    return ""


def sizes_of(kata: Kata) -> list[dict[str, Any]]:
    """The sizes to measure, small ones first: the kata's own, or its speed case and halves."""
    if kata.bench_sizes:
        return list(kata.bench_sizes)
    sizes = [dict(kata.speed_case)]
    while len(sizes) < STEPS:
        last = sizes[-1]
        whole = {k: v for k, v in last.items() if isinstance(v, int) and not isinstance(v, bool)}
        most = max(whole.values(), default=0)
        if most < 128:
            break
        sizes.append(last | {k: most // 2 for k, v in whole.items() if v == most})
    return sizes[::-1]


def least(kata: Kata, sizes: dict[str, Any]) -> Cost:
    """The cost at these sizes; no memory is taken."""
    return kata.cost(*kata.inputs(CardDraw(0, "meta"), **sizes))


def is_matrix(kata: Kata) -> bool:
    """Whether the kata is held against the matrix rate: what its largest size asks for decides."""
    cost = least(kata, sizes_of(kata)[-1])
    return cost.flops > MATRIX * (cost.read + cost.written)


# ---- measuring -------------------------------------------------------------------------------


class Moment:
    """A point in the card's work. The difference of two is in seconds of the card's own time.

    It serves pytest-benchmark as a timer. Nothing is waited for until the difference is taken, so
    the host's part of a launch hides behind what the card is still busy with.
    """

    def __init__(self) -> None:
        self.event = torch.cuda.Event(enable_timing=True)
        self.event.record()

    def __sub__(self, earlier: Moment) -> float:
        self.event.synchronize()
        return earlier.event.elapsed_time(self.event) * 1e-3


class Stand:
    """One kata's contenders on the card of this machine."""

    def __init__(self, kata: str, exercise: Path, device: str = "cuda"):
        self.kata, self.statement, self.device = kata, suite(kata).KATA, device
        self.moment = Moment if device == "cuda" else time.perf_counter  # the tests have no card
        self.files = {
            "exercise": exercise,
            "solution": PROJECT / "solutions" / kata / "kernel.py",
        }
        self.calls: dict[str, Any] = {}
        flush = 1 << 20
        if device == "cuda":
            cache = getattr(torch.cuda.get_device_properties(), "L2_cache_size", 0)
            flush = max(4 * cache, 256 << 20)
        self.flush = torch.empty(flush, dtype=torch.uint8, device=device)
        self.flushes = 1
        self.empty_cache()
        self.flushes = math.ceil(FLUSH_MS * 1e-3 / self.once(self.empty_cache))
        self.matrix = is_matrix(self.statement)
        self.report: dict[str, Any] = {
            "kata": kata,
            "card": torch.cuda.get_device_name() if device == "cuda" else device,
            "versions": versions(),
            "date": time.strftime("%Y-%m-%d"),
            "unit": "TFLOP/s" if self.matrix else "GB/s",
            "ceiling": self.ceiling(),
            "rows": [],
        }

    def empty_cache(self) -> None:
        """Push everything out of the card's cache, and keep the card busy for a moment."""
        for _ in range(self.flushes):
            self.flush.zero_()

    def once(self, call, *arguments) -> float:
        """Seconds of one call."""
        self.empty_cache()
        start: Any = self.moment()
        call(*arguments)
        return self.moment() - start

    def free(self) -> int:
        """Bytes of the card's memory that may be taken."""
        if self.device != "cuda":
            return 1 << 24
        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info()[0]

    def ceiling(self) -> float:
        """What this card does at best, in the report's unit: a copy, or a large matrix product."""
        if self.matrix:
            edge, dtype = 8192, self.arguments(sizes_of(self.statement)[0])[0].dtype
            a, b = (torch.randn((edge, edge), device=self.device).to(dtype) for _ in "ab")
            done, call = 2 * edge**3, lambda: torch.mm(a, b)
        else:
            amount = min(1 << 30, self.free() // 4)
            source = torch.ones(amount, dtype=torch.uint8, device=self.device)
            target = torch.empty_like(source)
            done, call = 2 * amount, lambda: target.copy_(source)
        call()
        return self.scaled(done / statistics.median(self.once(call) for _ in range(30)))

    def scaled(self, rate: float) -> float:
        return rate / (1e12 if self.matrix else 1e9)

    def arguments(self, sizes: dict[str, Any]) -> list:
        return self.statement.inputs(CardDraw(0, self.device), **sizes)

    def call(self, group: str):
        """A contender; raises Unfit for a file that does not give one."""
        if group not in self.calls:
            if group == "PyTorch eager":
                self.calls[group] = self.statement.baseline
            elif group == "torch.compile":
                torch._dynamo.config.recompile_limit = 64  # each size is compiled by itself
                self.calls[group] = torch.compile(self.statement.baseline, dynamic=False)
            else:
                try:
                    module = load(str(self.files[group]), group)
                    self.calls[group] = vars(module)[self.statement.launcher]
                except Exception as error:
                    raise Unfit(f"{self.files[group]}: {one_line(error)}") from None
        return self.calls[group]

    def ready(self, sizes: dict[str, Any], group: str) -> tuple[Any, list, Any, float]:
        """A contender at one size, compiled, tuned and (the exercise) seen to be right.

        Its function, the arguments, what is to be done before every call, and the seconds of one.
        Raises Unfit.
        """
        cost = least(self.statement, sizes)
        if 2 * (cost.read + cost.written) > 0.8 * self.free():
            raise Unfit(f"{size_text(sizes)} does not fit this card's free memory")
        arguments, call = self.arguments(sizes), self.call(group)
        restore = self.statement.restorer(arguments)
        problem = ""

        def anew() -> None:
            restore()
            self.empty_cache()

        try:
            result = call(*arguments)  # compiles and tunes
            if group == "exercise":
                result = [part.clone() for part in parts(result)]  # it may lie in an argument
                restore()
                wanted = self.call("solution")(*arguments)
                if self.statement.choice is None:
                    problem = differs(result, wanted, self.statement.launcher)
                else:
                    problem = unfit(result, arguments, self.statement)
                del wanted
            del result
            once = self.once(call, *arguments)
        except Exception as error:
            raise Unfit(f"{group} at {size_text(sizes)}: {one_line(error)}") from None
        if problem:
            raise Unfit(f"the exercise is wrong at {size_text(sizes)}; its check says why")
        return call, arguments, anew, once

    def work(self, sizes: dict[str, Any]) -> float:
        """What one call has to do at this size, in bytes or operations as the report counts."""
        cost = least(self.statement, sizes)
        return cost.flops if self.matrix else cost.read + cost.written

    def measure(self, benchmark, sizes: dict[str, Any], group: str) -> None:
        """Time one contender at one size with pytest-benchmark. Raises Unfit."""
        call, arguments, anew, once = self.ready(sizes, group)
        work = self.work(sizes)
        benchmark.group = group
        benchmark.extra_info.update(
            kata=self.kata, card=self.report["card"], sizes=size_text(sizes), work=work,
            unit=self.report["unit"], ceiling=self.report["ceiling"],
        )  # fmt: skip
        rounds = min(max(int(SECONDS / (once + FLUSH_MS * 1e-3)), FEWEST), MOST)
        benchmark.pedantic(call, args=arguments, setup=anew, rounds=rounds)
        if benchmark.stats is None:  # --benchmark-disable
            return
        seconds = benchmark.stats.stats.median
        rate = self.scaled(work / seconds)
        benchmark.extra_info["rate"] = rate
        row = {"size": size_text(sizes), "group": group, "seconds": seconds, "rate": rate}
        self.report["rows"].append(row)

    def finish(self) -> str:
        """Keep the report and draw it; what a person reads of it."""
        if not self.report["rows"]:
            return ""
        FOLDER.mkdir(parents=True, exist_ok=True)
        kept = FOLDER / f"{self.kata}.json"
        kept.write_text(json.dumps(self.report, indent=1) + "\n")
        return f"{table(self.report)}\n{plot(self.report, kept.with_suffix('.png'))}"


def one_line(error: BaseException) -> str:
    text = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {text[0]}"[:200]


def versions() -> dict[str, str]:
    """What was measured with."""
    import triton

    return {
        "PyTorch": torch.__version__,
        "Triton": triton.__version__,
        "Python": platform.python_version(),
    }


# ---- showing ---------------------------------------------------------------------------------


def table(report: dict) -> str:
    """Rates by size and contender, as plain text."""
    rates = {(row["size"], row["group"]): row["rate"] for row in report["rows"]}
    sizes = list(dict.fromkeys(row["size"] for row in report["rows"]))
    groups = [g for g in GROUPS if any((s, g) in rates for s in sizes)]
    width = max(len(s) for s in sizes)
    what = "multiplies large matrices at" if report["unit"] == "TFLOP/s" else "copies"
    lines = [
        "",
        f"{report['kata']} on {report['card']}, which {what} {figure(report['ceiling'])} "
        f"{report['unit']}",
        f"{report['unit']:<{width}}" + "".join(f"{group:>15}" for group in groups),
    ]
    for size in sizes:
        cells = [figure(rates[size, g]) if (size, g) in rates else "-" for g in groups]
        lines.append(f"{size:<{width}}" + "".join(f"{cell:>15}" for cell in cells))
    return "\n".join(lines)


def plot(report: dict, path: Path) -> str:
    """Draw rate over size, with the card's ceiling, into a PNG file; one line that says so."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return NO_PLOT.format(sys.executable)
    canvas = Figure(figsize=(8, 5), dpi=120, layout="constrained")
    FigureCanvasAgg(canvas)
    axes = canvas.add_subplot()
    sizes = list(dict.fromkeys(row["size"] for row in report["rows"]))
    for group, style in zip(GROUPS, ("o-", "s--", "^-", "d:"), strict=True):
        rows = [row for row in report["rows"] if row["group"] == group]
        at = [sizes.index(row["size"]) for row in rows]
        if rows:
            axes.plot(at, [row["rate"] for row in rows], style, label=group)
    what = "a large matrix product" if report["unit"] == "TFLOP/s" else "a copy"
    label = f"{what} on this card: {figure(report['ceiling'])} {report['unit']}"
    axes.axhline(report["ceiling"], color="black", linewidth=1, linestyle="-.", label=label)
    axes.set_xticks(range(len(sizes)), sizes, rotation=20)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(report["unit"])
    axes.grid(alpha=0.3)
    axes.legend()
    used = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    axes.set_title(f"{report['kata']} on {report['card']}\n{used}, {report['date']}", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path)
    return f"plot: {shown(path)}"


# ---- the compiler's own kernel ---------------------------------------------------------------


def side_by_side(stand: Stand) -> str:
    """The exercise's kernels, and those that torch.compile writes for the same operation."""
    arguments = stand.arguments(sizes_of(stand.statement)[-1])
    mine = own_kernels(stand.files["exercise"].read_text())
    theirs = compiled_kernels(generated(stand.statement.baseline, arguments))
    width = min(shutil.get_terminal_size((88, 24)).columns, 100)
    parts = []
    for title, text in ((shown(stand.files["exercise"]), mine), ("torch.compile", theirs)):
        parts.append(f"--- {title} ".ljust(width, "-") + f"\n{text}")
    return "\n\n".join(parts)


def generated(function, arguments: list) -> str:
    """All code that torch.compile writes for a call."""
    from torch._inductor.utils import run_and_get_code  # private: there is no public way to ask

    torch._dynamo.reset()
    return "\n".join(run_and_get_code(torch.compile(function, dynamic=False), *arguments)[1])


def own_kernels(source: str) -> str:
    """The functions of a file that a jit decorator stands over, as they are written."""
    lines, found = source.splitlines(), []
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        return f"(this is no Python: {error})"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            "jit" in ast.unparse(decorator) for decorator in node.decorator_list
        ):
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            found.append("\n".join(lines[start - 1 : node.end_lineno]))
    return "\n\n".join(found) or "(no kernel)"


def compiled_kernels(code: str) -> str:
    """The Triton kernels in what torch.compile wrote, or the library calls it makes instead."""
    found = re.findall(r"^@triton\.jit\n.*?(?=^'''|\Z)", code, flags=re.M | re.S)
    if found:
        return "\n\n".join(text.rstrip() for text in found)
    calls = sorted(set(re.findall(r"\bextern_kernels\.\w+", code)))
    return f"(no Triton kernel; it calls {', '.join(calls)})" if calls else "(no Triton kernel)"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        earlier = json.loads(Path(name).read_text())
        print(table(earlier))
        print(plot(earlier, Path(name).with_suffix(".png")))
