"""What is made of compute-sanitizer's reports, in the layouts that its versions print."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from grader import sanitize
from grader.sanitize import RAN, Finding, alike, findings, report

PROJECT = Path(__file__).resolve().parents[2]

# The layout of CUDA 12 and 13: the function with an offset, then the line.
MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at add_kernel+0x1b0 in /home/ada/exercises/01_vector_add/kernel.py:35
=========     by thread (104,0,0) in block (3,0,0)
=========     Address 0x7c5838a00fa0 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7c5838a00000 of size 4,000 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: launch [0x1b2c] in __triton_launcher.so
=========
========= Invalid __global__ write of size 4 bytes
=========     at add_kernel+0x1b0 in /home/ada/exercises/01_vector_add/kernel.py:35
=========     by thread (105,0,0) in block (3,0,0)
=========     Address 0x7c5838a00fa4 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7c5838a00000 of size 4,000 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on \
CUDA API call to cudaDeviceSynchronize.
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 3 errors
"""
# Earlier ones: an address, then the line and behind it the function; the line may stand by itself.
EARLIER = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 2 bytes
=========     at 0xd80 in /home/ada/kernel.py:28:add_kernel
=========     by thread (0,0,0) in block (2,7,0)
=========     Address 0x7fcd079ffbff is out of bounds
=========     and is 8 bytes before the nearest allocation at 0x7fcd079ffc00 of size 1024 bytes
=========
========= Invalid __shared__ read of size 16 bytes
=========     at dot_kernel+0x70
=========        in /home/ada/kernel.py:53
=========     by thread (1,0,0) in block (0,0,0)
=========     Address 0x41 is misaligned
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at scan_kernel+0x90 in /home/ada/kernel.py:41
=========     and Read access at scan_kernel+0x100 in /home/ada/kernel.py:51 [508 hazards]
=========
========= Warning: Race reported between Read access at scan_kernel+0x260
=========     and Write access at scan_kernel+0x200 [12 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)
"""
INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at add_kernel+0x70 in /home/ada/kernel.py:41
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= ERROR SUMMARY: 1 error
"""
CLEAN = f"========= COMPUTE-SANITIZER\n{RAN}\n========= ERROR SUMMARY: 0 errors\n"


def said(text):
    return {str(finding): times for finding, times in findings(text).items()}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            MEMCHECK,
            {"line 35: writes 4 bytes past the end of a tensor of 4,000 bytes in program (3,)": 2},
        ),
        (
            EARLIER,
            {
                "line 28: reads 2 bytes 8 bytes before the start of a tensor of 1,024 bytes in "
                "program (2, 7)": 1,
                "line 53: reads 16 bytes of shared memory at an address that is not a multiple of "
                "its size in program (0,)": 1,
            },
        ),
        (
            RACECHECK,
            {
                "line 41: writes shared memory that line 51 reads at the same time": 1,
                "reads shared memory that another thread writes at the same time "
                "(a warning: it may be meant so)": 1,
            },
        ),
        (INITCHECK, {"line 41: reads 4 bytes that nobody has written in program (1,)": 1}),
        (CLEAN, {}),
        ("", {}),
        ("========= Program hit cudaErrorNoKernelImageForDevice (error 209)", None),
    ],
)
def test_findings(text, wanted):
    if wanted is None:
        wanted = {"CUDA says cudaErrorNoKernelImageForDevice": 1}
    assert said(text) == wanted


def test_a_finding_is_one_line_of_the_report():
    fine, text = report("memcheck", MEMCHECK, 99)
    assert not fine
    assert "(2 times, or much like it)" in " ".join(text.split())
    assert text.startswith("  FAIL  memcheck")


def test_threads_that_differ_in_numbers_alone_are_one_finding():
    far = "writes 16 bytes {} bytes past the end of a tensor of 14,340 bytes in program (3,)"
    found = Counter({Finding(19, far.format(f"1,{n}")): 1 for n in range(100, 196)})
    found[Finding(22, far.format("4"))] = 1
    assert alike(found) == [
        (Finding(19, far.format("1,100")), 96),
        (Finding(22, far.format("4")), 1),
    ]


def test_clean_and_only_then_ok():
    assert report("initcheck", CLEAN, 0) == (
        True,
        "  ok    initcheck  nothing is read that nobody wrote",
    )
    assert not report("initcheck", CLEAN.replace(RAN, ""), 0)[0]
    assert not report("initcheck", CLEAN, 1)[0]
    assert "not judged" in report("initcheck", "", None)[1]


def test_a_kernel_that_raises_is_said_in_one_line():
    text = f"Traceback (most recent call last):\nValueError: no\n{CLEAN.replace(RAN, '')}"
    fine, said = report("memcheck", text, 1)
    assert not fine
    assert said == "  --    memcheck   it did not get through: ValueError: no"


def test_a_tool_that_does_not_start_says_why():
    text = "========= COMPUTE-SANITIZER\n========= Unable to find injection library libx.so\n"
    said = report("memcheck", text, 13)[1]
    assert said.split() == (
        "-- memcheck it did not get through: Unable to find injection library libx.so".split()
    )
    assert "exit code 13" in report("memcheck", "========= COMPUTE-SANITIZER\n", 13)[1]


@pytest.mark.parametrize("module", ["sanitize", "beside"])
@pytest.mark.parametrize("words", [["1"], ["1", "2"], ["99"]])
def test_what_is_missing_is_one_line_and_exit_2(module, words):
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "tests"), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [sys.executable, "-m", f"grader.{module}", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


def test_the_sanitizer_is_found_where_cuda_lies(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sanitize, "PLACES", ())
    program = tmp_path / "bin" / "compute-sanitizer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert sanitize.sanitizer() == str(program)
