"""pytest on a suite, as people type it: bad input, exit codes, the scorecard, planted files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from grader import plugin

PROJECT = Path(__file__).resolve().parents[2]
SUITE = str(PROJECT / "tests" / "test_01_vector_add.py")
KATA = "01_vector_add"
GOLDEN = Path(__file__).parent / "golden"
CHECK = ["id", "concept", "lane", "status", "points", "max_points", "message", "cause", "line"]


def pytest_on(*arguments, cwd=PROJECT, script=False, **environment):
    """Run a suite in a process of its own, as on a machine without a GPU."""
    command = [sys.executable, "-m", "pytest"]
    environment = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""} | environment
    return subprocess.run(
        [*command, *map(str, arguments)],
        cwd=cwd,
        env=clean() | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def clean():
    dropped = ("PYTEST_ADDOPTS", "COLUMNS", "KATAS_CASE_SECONDS", "TRITON_INTERPRET")
    return {k: v for k, v in os.environ.items() if k not in dropped and not k.startswith("PYTEST_")}


def one_line(done, *words):
    """It ended as bad input ends: exit code 2, one line on stderr, nothing else."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("katas: ")
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


# ---- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--lanes=trace,gpus"], ["unknown lane gpus", "trace, compile, gpu"]),
        (["--lanes="], ["unknown lane (none)"]),
        (["--root=nowhere"], ["there is no nowhere/01_vector_add/kernel.py"]),
        (["--root=tests"], ["there is no tests/01_vector_add/kernel.py"]),
        (["--root=README.md"], ["README.md is a file"]),
        (["--scorecard=nowhere/card.json"], ["nowhere/card.json", "No such file or directory"]),
        (["--scorecard=README.md/card.json"], ["README.md/card.json", "Not a directory"]),
        (["--scorecard=/proc/card.json"], ["/proc/card.json"]),
        (["--scorecard=/dev/null"], ["would replace /dev/null", "name another file"]),
        (["--scorecard=README.md"], ["would replace README.md", "name another file"]),
        (["--root="], ["--root is empty"]),
        (["--scorecard="], ["--scorecard is empty"]),
        (
            ["tests/test_03_scale.py", "--scorecard=card.json"],
            ["--scorecard FILE holds one kata; for several give a folder"],
        ),
    ],
)
def test_bad_input(arguments, words):
    one_line(pytest_on(SUITE, *arguments), *words)


def test_a_python_that_lacks_a_package(monkeypatch):
    said = []
    monkeypatch.setattr(plugin, "find_spec", lambda name: None if name == "numpy" else name)
    monkeypatch.setattr(plugin, "stop", said.append)
    plugin.refuse_bare_python()
    assert said == [f"this Python lacks numpy: {sys.executable} -m pip install numpy"]


# ---- exit codes and the scorecard ---------------------------------------------------------------


@pytest.fixture(scope="module")
def odd_root(tmp_path_factory):
    """A root whose path has spaces and umlauts, full of files that must not be imported."""
    root = tmp_path_factory.mktemp("Abgabe von Jürgen") / "größe x"
    (root / KATA).mkdir(parents=True)
    shutil.copy(PROJECT / "solutions" / KATA / "kernel.py", root / KATA)
    plant = f"open({str(root)!r} + '/IMPORTED', 'a').write(__file__ + chr(10))\n"
    for folder in (root, root / KATA):
        for name in "conftest torch triton numpy sitecustomize usercustomize grader".split():
            (folder / f"{name}.py").write_text(plant)
        (folder / "pytest.ini").write_text("[pytest]\naddopts = --version\n")
    return root


def test_a_right_kernel_among_planted_files(odd_root, tmp_path):
    """`--root DIR` with a space looks like a test path to pytest, and the place is full of traps."""
    cwd, card = odd_root, tmp_path / "Zeugnis für alle.json"
    done = pytest_on(SUITE, "--root", ".", "--lanes=trace", f"--scorecard={card}", cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert not (odd_root / "IMPORTED").exists()
    assert done.stdout.startswith(f"{KATA}/kernel.py | lanes: trace | no GPU\n")
    seen = json.loads(card.read_text())
    assert list(seen) == [
        *("schema", "kata", "file", "lanes", "environment", "checks", "score", "max_score"),
        "not_judged",
    ]
    assert (seen["schema"], seen["kata"]) == (1, KATA)
    assert Path(cwd, seen["file"]).samefile(odd_root / KATA / "kernel.py")
    assert seen["lanes"] == {"trace": True, "compile": False, "gpu": False}
    assert {"python", "torch", "triton"} <= set(seen["environment"])
    for check in seen["checks"]:
        assert list(check) == CHECK
        assert check["status"] == ("passed" if check["lane"] == "trace" else "not-judged")
        assert check["points"] == (check["max_points"] if check["lane"] == "trace" else 0)
    points = [(c["points"], c["max_points"], c["status"]) for c in seen["checks"]]
    assert seen["score"] == sum(p for p, _, _ in points)
    assert seen["max_score"] == sum(m for _, m, _ in points)
    assert seen["not_judged"] == sum(m for _, m, s in points if s == "not-judged") > 0
    assert f"{seen['score']} of {seen['max_score']} points" in done.stdout
    assert os.listdir(tmp_path) == [card.name]


def test_a_root_ahead_of_the_suite_is_refused(odd_root):
    """pytest takes it for a test path there, before the grader can say a word."""
    done = pytest_on("--root", odd_root / KATA, SUITE, "--lanes=trace")
    one_line(done, "name the suite first, or write --root=DIR")
    (odd_root / "IMPORTED").unlink(missing_ok=True)


def test_a_part_of_the_checks_on_a_file_that_forges_its_scorecard(tmp_path):
    """It finds the path of the scorecard and writes a perfect one there, in vain."""
    card = tmp_path / "katas-golden.json"
    root = GOLDEN / "forged_scorecard"
    done = pytest_on(
        *(SUITE, f"--root={root}", "--lanes=trace", "-k", "values or mask", f"--scorecard={card}")
    )
    assert done.returncode == 1
    verdicts = {c["id"]: c["status"] for c in json.loads(card.read_text())["checks"]}
    assert (verdicts.pop("mask"), verdicts.pop("values")) == ("passed", "failed")
    assert set(verdicts.values()) == {"not-judged"}
    assert len(verdicts) >= 4
    assert "FAIL  values" in done.stdout
    assert "offsets" not in done.stdout
    assert "left out" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_nothing_judged_is_no_success(tmp_path):
    card = tmp_path / "card.json"
    done = pytest_on(SUITE, "--root=solutions", "--lanes=gpu", f"--scorecard={card}")
    assert done.returncode == 1
    assert "Nothing could be judged here" in done.stdout
    seen = json.loads(card.read_text())
    assert {c["status"] for c in seen["checks"]} == {"not-judged"}
    assert seen["not_judged"] == seen["max_score"]


def test_a_judge_that_is_killed_leaves_a_scorecard_of_errors_and_no_process(start, tmp_path):
    card, scratch = tmp_path / "card.json", tmp_path / "scratch"
    scratch.mkdir()
    command = [sys.executable, "-m", "pytest", SUITE, "--lanes=trace"]
    command += [f"--root={GOLDEN / 'hang_in_launcher'}", f"--scorecard={card}"]
    judge = start(
        command,
        cwd=PROJECT,
        env=clean() | {"TMPDIR": str(scratch)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    family = []
    while not card.exists() or len(family) < 2:  # the nursery and its child
        assert time.monotonic() < until
        time.sleep(0.05)
        family = descendants(judge.pid)
    assert list(scratch.glob("katas-*/*"))
    judge.kill()
    judge.wait()
    seen = json.loads(card.read_text())
    trace = [c for c in seen["checks"] if c["lane"] == "trace"]
    assert {c["status"] for c in trace} == {"error"}
    assert {c["message"] for c in trace} == {"this check did not run"}
    assert seen["score"] == 0
    until = time.monotonic() + 10
    while time.monotonic() < until and (any(map(runs, family)) or list(scratch.glob("katas-*"))):
        time.sleep(0.05)
    assert not any(map(runs, family))
    assert list(scratch.glob("katas-*")) == []


@pytest.mark.parametrize(
    "code",
    [
        "raise KeyboardInterrupt",
        "from grader.loading import uncollected\nwith uncollected():\n    interrupt()",
    ],
)
def test_an_interrupt_while_something_loads_ends_it_without_a_word(code):
    """Also one that the module being loaded would swallow."""
    interrupt = (
        "import grader, os, signal\n"
        "def interrupt():\n"
        "    try: os.kill(os.getpid(), signal.SIGINT)\n"
        "    except BaseException: print('swallowed')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", interrupt + code],
        cwd=PROJECT / "tests",
        capture_output=True,
        text=True,
        check=False,
        # A job in the background of a shell is started with Ctrl-C ignored, and so are its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_an_interrupted_run_is_no_verdict(start):
    """Ctrl-C: the prompt comes back at once, with exit code 2 and no word of failure."""
    judge = start(
        [sys.executable, "-m", "pytest", SUITE, f"--root={GOLDEN / 'hang_in_launcher'}"],
        cwd=PROJECT,
        env=clean(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    until = time.monotonic() + 120
    family = []
    while len(family) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)
        family = descendants(judge.pid)
    time.sleep(1.0)
    began = time.monotonic()
    judge.send_signal(signal.SIGINT)
    output = judge.communicate(timeout=60)[0]
    assert judge.returncode == 2, output
    assert time.monotonic() - began < 15
    assert "Interrupted before the verdict." in output
    assert "FAIL" not in output
    assert "ERROR" not in output
    assert not any(map(runs, family))


def descendants(pid):
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [d for p in text.split() for d in (int(p), *descendants(int(p)))]


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
