"""The judge's side of the worker: nothing that a file does is felt by the next one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from grader.grading import grade
from grader.judge import Child, Ended, Nursery
from grader.processes import is_ending
from grader.tensors import describe_arguments
from grader.wire import WireError

GOLDEN = Path(__file__).parent / "golden"
KATA = "01_vector_add"
TRACE = {"trace": True, "compile": False, "gpu": False}


def golden(name: str) -> Path:
    return GOLDEN / name / KATA / "kernel.py"


@pytest.fixture
def judged(nursery, short_katas, hasty):
    """judged(file): its scorecard, of the trace lane."""
    return lambda file: grade(KATA, file, nursery, TRACE, "judge")


@pytest.fixture
def written(tmp_path, judged):
    """written(code): the scorecard of a right kernel that runs this code first, in every call."""

    def write(code: str, top: str = ""):
        source = golden("right").read_text()
        start = source.index("def add(x, y):\n") + len("def add(x, y):\n")
        head = source[:start].replace("import torch\n", f"import torch\n{top}\n", 1)
        body = "".join(f"    {line}\n" for line in code.splitlines())
        file = tmp_path / "kernel.py"
        file.write_text(head + body + source[start:])
        return judged(file)

    return write


def children_of(pid: int) -> list[int]:
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---- what a file leaves behind ------------------------------------------------------------------


def test_nothing_outlives_a_file(nursery, judged):
    """Not a child in a session of its own, not a thread, not a file in the working directory."""
    for name in ("outlived_by_child", "leaves_threads"):
        judged(golden(name))
        assert children_of(nursery._process.pid) == []
        assert os.listdir(nursery._scratch) == []


def test_temporary_files_go_where_they_are_removed(written, nursery):
    card = written(
        "open('left', 'w').close()\ntempfile.NamedTemporaryFile(delete=False).write(b'x')",
        top="import tempfile",
    )
    assert card.success
    assert os.listdir(nursery._scratch) == []


def test_a_process_that_goes_on_twice_harms_only_itself(written, judged):
    assert not written("os.fork()", top="import os").success
    assert judged(golden("right")).success


def test_a_damaged_heap_harms_only_itself(written, judged):
    """What glibc notes before a block is overwritten, which it sees when the block is freed."""
    code = "block = libc.malloc(4096)\nctypes.memset(block - 16, 65, 16)\nlibc.free(block)"
    declared = "libc.malloc.restype = ctypes.c_void_p\nlibc.free.argtypes = [ctypes.c_void_p]"
    card = written(code, top=f"import ctypes\nlibc = ctypes.CDLL(None)\n{declared}")
    assert card.score == 0
    assert "died" in card.checks[0].message
    assert judged(golden("right")).success


def test_a_file_that_kills_the_nursery_does_not_take_others_with_it(judged):
    names = [
        "right",
        "kills_its_parent",
        "right",
        "view_of_new_memory",
        "stops_its_parent",
        "right",
    ]
    with ThreadPoolExecutor(3) as pool:
        cards = list(pool.map(judged, map(golden, names)))
    for name, card in zip(names, cards, strict=True):
        failed = {c.message for c in card.checks if c.status == "failed"}
        if name == "kills_its_parent":
            assert failed == {"the file ends the process that supervises it"}
            assert card.score == 0
        elif name == "stops_its_parent":  # its kernel subtracts
            assert {c.id for c in card.checks if c.status == "failed"} == {"values", "contract"}
        else:
            assert not failed


def test_a_killed_process_is_ending_before_it_is_gone():
    assert not is_ending(os.getpid())
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as sleeper:
        assert not is_ending(sleeper.pid)
        sleeper.kill()
        assert is_ending(sleeper.pid)
    assert is_ending(sleeper.pid)


def test_files_are_limited(written):
    card = written("open('big', 'wb').truncate(1 << 40)")
    assert card.score == 0
    assert "File too large" in card.checks[0].message or "SIGXFSZ" in card.checks[0].message


# ---- the nursery --------------------------------------------------------------------------------


@pytest.fixture
def child(nursery):
    child = Child(nursery, "trace", {"file": str(golden("right")), "launcher": "add"})
    yield child
    child.stop()


@pytest.fixture
def call(child):
    class Names:
        parameters = ("x", "y")

    specs, blobs = describe_arguments(Names, [torch.ones(10), torch.ones(10)])
    return lambda: child.call({"args": specs, "config": None}, blobs)


def test_a_nursery_that_dies_between_two_calls_is_replaced(nursery, child, call):
    assert call().error is None
    os.kill(nursery._process.pid, signal.SIGKILL)
    assert call().error is None
    assert alive(nursery._process.pid)


def test_a_child_that_dies_between_two_calls_is_replaced(child, call):
    assert call().error is None
    before = child.pid
    os.kill(before, signal.SIGKILL)
    assert call().error["message"] == "it was killed by SIGKILL"
    assert call().error is None
    assert child.pid != before


def test_a_stranger_is_not_ended(nursery):
    """The nursery is asked to end a process that it did not start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "killpg", lambda *args: None)
        assert nursery.end(os.getpid(), nursery.births) == Ended(None, False)
        assert nursery.end(os.getpid(), nursery.births - 1) == Ended(None, True)


def test_a_nursery_from_beginning_to_end(monkeypatch):
    """TRITON_INTERPRET of the shell does not reach it; closing ends everything, and for good."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    nursery = Nursery()
    child = Child(nursery, "trace", {"file": str(golden("right")), "launcher": "add"})
    assert child._start() is None
    assert b"TRITON_INTERPRET" not in Path(f"/proc/{child.pid}/environ").read_bytes()
    pids, scratch = [nursery._process.pid, child.pid], nursery._scratch
    nursery.close()
    until = time.monotonic() + 5
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(alive, pids))
    assert not os.path.exists(scratch)
    with pytest.raises(WireError, match="finished"):
        nursery.spawn("trace", {})
    nursery.close()  # twice does no harm


# ---- kernels that are launched while the file is imported ----------------------------------------

AT_IMPORT = "\nprint(add(torch.ones(3), torch.ones(3)))\n"


def test_a_launch_at_module_level_is_run_and_forgotten(nursery, short_kata, tmp_path, hasty):
    """As in a notebook: the launcher is called below its definition."""
    file = tmp_path / "kernel.py"
    right = golden("right").read_text()
    lanes = {"trace": True, "compile": True, "gpu": False}
    # This call reads past the end of y: what is graded is the launcher, not how it was called.
    wrong_call = "\nadd_kernel[(1,)](torch.ones(3), torch.ones(1), torch.empty(3), 3, BLOCK_SIZE=4)"
    file.write_text(right + AT_IMPORT + wrong_call)
    card = grade(KATA, file, nursery, lanes, "judge")
    assert [c.message for c in card.checks if c.status == "failed"] == []
    # What it does wrong in every call is seen as ever.
    file.write_text(right.replace("mask = offsets < n_elements", "mask = offsets >= 0") + AT_IMPORT)
    card = grade(KATA, file, nursery, lanes, "judge")
    assert "mask" in {c.concept for c in card.checks if c.status == "failed"}


def test_a_kernel_that_never_ends_at_import(judged, tmp_path):
    file = tmp_path / "kernel.py"
    spin = "@triton.jit\ndef spin(x_ptr):\n    while tl.load(x_ptr) == 1:\n        pass\n"
    file.write_text(golden("right").read_text() + f"\n{spin}\nspin[(1,)](torch.ones(1))\n")
    card = judged(file)
    assert {c.message for c in card.checks if c.status == "failed"} == {
        "the file does not import: its import does not end"
    }


# ---- words ---------------------------------------------------------------------------------------


def messages(card) -> str:
    return "\n".join(c.message for c in card.checks if c.status == "failed")


def test_an_input_that_is_written_instead_of_the_result_is_named(judged, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text(golden("right").read_text().replace("tl.store(out_ptr", "tl.store(y_ptr"))
    assert "The kernel writes to the input y, not to the result" in messages(judged(file))


@pytest.mark.parametrize("code", ["assert x.is_cuda", "out = torch.empty(4, device='cuda')"])
def test_tensors_are_on_the_cpu_here(written, code):
    assert "Here the tensors are on the CPU: write device=x.device" in messages(written(code))
    assert "on the CPU" not in messages(written("assert x.dim() == 99"))
