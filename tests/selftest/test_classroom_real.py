"""A class of three with real jobs, from the command line to the marks."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

for _name in ("rich", "junitparser", "yaml", "jinja2"):
    pytest.importorskip(_name)

PROJECT = Path(__file__).resolve().parents[2]
KATA = "01_vector_add"


def test_three_submissions_end_to_end(tmp_path):
    folder, out = tmp_path / "in", tmp_path / "out"
    for name in ("right", "stub", "hostile"):
        (folder / name / KATA).mkdir(parents=True)
    shutil.copy(PROJECT / "solutions" / KATA / "kernel.py", folder / "right" / KATA)
    shutil.copy(PROJECT / "exercises" / KATA / "kernel.py", folder / "stub" / KATA)
    text = "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n"
    (folder / "hostile" / KATA / "kernel.py").write_text(text)
    command = [sys.executable, "-m", "grader.classroom", str(folder), "--out", str(out)]
    path = os.environ | {"PYTHONPATH": str(PROJECT / "tests")}
    done = subprocess.run(
        [*command, "--seed=s", "--jobs=2"], env=path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with (out / "grades.csv").open(newline="") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["hostile", "right", "stub"]
    assert rows["right"]["total"] == rows["right"]["maximum"] == "85"
    assert rows["right"]["not_judged"] == "15"
    assert int(rows["stub"]["total"]) < 85
    assert rows["hostile"]["total"] == "0"
    facts = json.loads((out / "results.json").read_text())
    assert facts["environments"][0]["gpu"] is None
    titles = [check["title"] for check in facts["submissions"][1]["katas"][KATA]["checks"]]
    assert all(titles)
    resumed = subprocess.run(
        [*command, "--resume"], env=path, capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads((out / "results.json").read_text()) == facts
