"""The fuzz and the SIGKILL script in short; what they do in full is said in them."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("junitparser")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")
pytest.importorskip("yaml")

import fuzz_classroom
import test_classroom_grading
from grader.classroom import __main__ as command
from grader.classroom import local, page

HERE = Path(__file__).resolve().parent


def test_killed_at_random_moments_nothing_is_lost_or_changed():
    script = HERE / "kill_classroom.py"
    done = subprocess.run(
        [sys.executable, str(script), "--fake", "--kills=5", "--submissions=20"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_malformed_submissions_are_rows_without_marks(tmp_path, monkeypatch):
    source = (fuzz_classroom.work.PROJECT / "solutions/01_vector_add/kernel.py").read_bytes()

    class Exact(test_classroom_grading.FakeJob):
        """Gives points to the solution alone."""

        def judge(self, unit, content, seed):
            return super().judge(unit, b"good" if content == source else b"bad", seed)

    monkeypatch.setattr(local, "Job", Exact)
    monkeypatch.setattr(local, "count_cards", lambda: 0)
    monkeypatch.setattr(page, "plots", lambda rows, titles: {"marks": "", "katas": ""})
    fuzz_classroom.make(tmp_path / "in", 300, seed=1)
    words = [str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--katas=1"]
    assert command.main(words) == 0
    with (tmp_path / "out/grades.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len({row["id"] for row in rows}) == 300
    paid = [row for row in rows if row["total"] != "0"]
    assert paid
    for row in paid:  # an archive that was left whole, with the solution in it
        assert row["id"].endswith((".zip", ".tar", ".gz", ".xz")), row
    assert {row["status"] for row in rows} == {"graded", "not understood"}
