"""What judging costs, recorded by hand: `pytest tests/selftest/bench_engine.py --benchmark-only`.

Needs pytest-benchmark. No figure here fails a run; compare with an earlier one by
--benchmark-save=NAME and --benchmark-compare. Aims, on two cores: recording at most 1.5 times the
bare interpreter, kata 1 from command to verdict 4 s, the four solutions 30 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("pytest_benchmark")

PROJECT = Path(__file__).resolve().parents[2]
INTERPRET = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import torch, triton
triton.knobs.runtime.interpret = True
recorded, programs = sys.argv[2] == "recorded", int(sys.argv[3])
file = sys.argv[4]
if recorded:
    from grader import interpreter, memory, recorder
    record = recorder.Recorder()
    interpreter.install(record, file)
scope = {"__name__": "kernel", "__file__": file}
exec(compile(Path(file).read_text(), file, "exec"), scope)

def call():
    x, y = (torch.rand(programs * 1024) for _ in "xy")
    if recorded:
        room = memory.Memory()
        for at, name in enumerate("xy"):
            tensor = room.place((x.numel(),), (1,), torch.float32, name, "input")
            tensor.copy_((x, y)[at])
            room.of(tensor).resync()
            x, y = (tensor, y) if at == 0 else (x, tensor)
        record.reset(room)
    start = time.perf_counter()
    scope["add"](x, y)
    return time.perf_counter() - start

call()
for _ in range(5):
    print(call())
"""


def interpreted(recorded: bool, programs: int = 512) -> float:
    """Median seconds of a vector add of so many programs, interpreted in a fresh process."""
    kind = "recorded" if recorded else "bare"
    file = str(PROJECT / "solutions" / "01_vector_add" / "kernel.py")
    done = subprocess.run(
        [sys.executable, "-c", INTERPRET, str(PROJECT / "tests"), kind, str(programs), file],
        capture_output=True,
        text=True,
        check=True,
    )
    return sorted(map(float, done.stdout.split()))[2]


def suite(kata: str, *arguments: str) -> float:
    """Seconds from command to verdict."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "pytest", f"tests/test_{kata}.py", "--root=solutions", *arguments],
        cwd=PROJECT,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


def test_recording_against_the_bare_interpreter(benchmark):
    """The ratio stands in extra_info: medians of three pairs, one after the other."""
    ratios = []

    def pair():
        bare, recorded = interpreted(False), interpreted(True)
        ratios.append(recorded / bare)
        benchmark.extra_info |= {"bare": bare, "recorded": recorded}

    benchmark.pedantic(pair, rounds=3, iterations=1)
    benchmark.extra_info["ratio"] = sorted(ratios)[1]
    print(f"\nrecording / bare interpreter at 512 programs: {sorted(ratios)[1]:.2f} (aim: 1.5)")


def test_importing_torch_and_triton(benchmark):
    """What the next figure has to be held against."""
    command = [sys.executable, "-c", "import torch, triton, triton.runtime.interpreter"]
    benchmark.pedantic(lambda: subprocess.run(command, check=True), rounds=3, iterations=1)


def test_kata_1_from_command_to_verdict(benchmark):
    benchmark.pedantic(lambda: suite("01_vector_add"), rounds=3, iterations=1, warmup_rounds=1)


def test_the_four_solutions(benchmark):
    names = ("01_vector_add", "03_scale", "07_softmax", "12_matmul")
    benchmark.pedantic(lambda: [suite(name) for name in names], rounds=1, iterations=1)
    print(f"\nthe four solutions, one after the other: {benchmark.stats['mean']:.1f} s (aim: 30)")
