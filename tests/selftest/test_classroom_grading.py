"""A whole class: every row is there whatever happens, nothing is lost, bad input is one line.

Where the engine is not the point, a fake job says at once what it makes of a file.
"""

from __future__ import annotations

import csv
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("rich")
pytest.importorskip("junitparser")
pytest.importorskip("yaml")

from grader.classroom import __main__ as command
from grader.classroom import local, outputs, page, store
from grader.classroom.job import Dead, Job, Late, NoStart
from grader.classroom.units import Unit, next_unit, suite_version

PROJECT = Path(__file__).resolve().parents[2]
CHECKS = [("grid", "trace", 60), ("robust", "compile", 25), ("speed", "gpu", 15)]
TOGETHER = "--seed=s"


def checks(status: str, lanes=("trace", "compile")) -> list[dict]:
    return [
        {
            "id": name, "concept": name, "lane": lane, "max_points": most, "cause": None, "line": 3,
            "status": status if lane in lanes else "not-judged", "title": f"About {name}.",
            "points": most if status == "passed" and lane in lanes else 0, "message": "<b>so & so</b>",
        }
        for name, lane, most in CHECKS
    ]  # fmt: skip


class FakeJob:
    """Judges by the first word of a file: good, bad, crash, hang, broken, open."""

    graded: list[Unit] = []  # noqa: RUF012 (of all jobs, emptied by the fixture)

    def __init__(self, settings, card="", cores=None):
        self.settings = settings
        self.hello = {"environment": {"python": "3.x", "gpu": card or None}, "sandbox": None}

    def outline(self, kata):
        return {"agent": False, "checks": checks("error")}

    def judge(self, unit, content, seed):
        FakeJob.graded.append(unit)
        word = content.decode(errors="replace").split()[0] if content.split() else ""
        if word == "crash":
            raise Dead("gone")
        if word == "hang":
            raise Late
        lanes = ("gpu",) if unit.part == "gpu" else ("trace", "compile")
        lanes = ("trace", "compile", "gpu") if unit.whole else lanes
        known = {"good": "passed", "broken": "error"}
        listed = checks(known.get(word, "failed"), lanes)
        if word == "open" and not unit.whole:
            listed[0] |= {"status": "not-judged", "points": 0}
        card = {
            "lanes": {"compile": unit.part == "cpu" or unit.whole},
            "checks": listed,
            "flags": [],
        }
        return {"status": "judged", "card": card, "seconds": 0.0, "cpu": 0.0}

    def end(self, patience=0.0):
        pass


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    """No real job is started; `fake.graded` is what was judged."""
    FakeJob.graded = []
    monkeypatch.setattr(local, "Job", FakeJob)
    monkeypatch.setattr(page, "plots", lambda rows, titles: {"marks": "", "katas": ""})
    monkeypatch.setattr(local, "count_cards", lambda: 0)
    return FakeJob


@pytest.fixture
def klass(tmp_path):
    """klass(anna="good", ...): a folder with these students' kata 1."""

    def make(kata="01_vector_add", **students: str) -> Path:
        for name, text in students.items():
            folder = tmp_path / "in" / name / kata
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "kernel.py").write_text(text)
        return tmp_path / "in"

    return make


def run(*words) -> int:
    """The exit code of the command line."""
    try:
        return command.main([str(word) for word in words])
    except SystemExit as stopped:
        return int(stopped.code or 0)


def table(out: Path) -> dict[str, dict]:
    with (out / "grades.csv").open(newline="", encoding="utf-8") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


# ---- the table -------------------------------------------------------------------------------


def test_every_student_in_is_a_row_out(klass, tmp_path):
    folder = klass(anna="good 1", ben="bad", cem="crash", dora="hang", emil="broken", fay="good 2")
    klass(kata="03_scale", anna="good 3")
    (folder / "notes.txt").write_text("?")
    out = tmp_path / "out"
    assert run(folder, "--out", out, TOGETHER) == 1
    rows = table(out)
    assert {name: row["status"] for name, row in rows.items()} == {
        "anna": "graded",
        "ben": "incomplete",
        "cem": "crashed",
        "dora": "timed out",
        "emil": "error",
        "fay": "incomplete",
        "notes.txt": "not understood",
    }
    assert rows["anna"] | {"note": ""} == {
        "student": "anna", "id": "anna", "email": "", "01_vector_add": "85", "03_scale": "85",
        "total": "170", "maximum": "170", "not_judged": "30", "status": "graded", "late": "", "note": "",
    }  # fmt: skip
    assert rows["fay"]["03_scale"] == ""
    assert {row["maximum"] for row in rows.values()} == {"170"}
    assert rows["cem"]["total"] == "0"
    facts = json.loads((out / "results.json").read_text())
    totals = {each["student"]: each["total"] for each in facts["submissions"]}
    assert totals["anna"] == "170 of 170 points (30 more could not be judged on this machine)"
    assert facts["settings"]["seed"] == "s"


def test_names_are_no_formulas(klass, tmp_path):
    names = ["=1+1", "+1", "-2", "@x", " =2", "\N{FULLWIDTH EQUALS SIGN}3"]
    folder = klass(**dict.fromkeys(names, "good"))
    assert run(folder, "--out", tmp_path / "out") == 0
    assert {*table(tmp_path / "out")} == {"'" + name for name in names}
    assert outputs.harmless("Anna = B") == "Anna = B"
    assert outputs.harmless("") == ""
    assert outputs.harmless("x;=1+1") == "x;'=1+1"
    assert outputs.harmless("x;\t@y; z = 3; 4") == "x;\t'@y; z = 3; 4"


@pytest.mark.parametrize("jobs", [1, 3])
def test_marks_do_not_depend_on_jobs_or_order(klass, tmp_path, jobs, monkeypatch):
    students = {f"s{number}": random.Random(number).choice(["good", "bad", "crash"]) + f" {number}"
                for number in range(12)}  # fmt: skip
    folder = klass(**students)
    run(folder, "--out", tmp_path / "a", TOGETHER, "--jobs=2")
    monkeypatch.setattr(local.queue, "Queue", local.queue.LifoQueue)
    run(folder, "--out", tmp_path / "b", TOGETHER, "--jobs", jobs)
    texts = [(tmp_path / out / "results.json").read_text() for out in "ab"]
    assert texts[0] == texts[1]


def test_a_victim_of_another_submission_is_tried_again_alone(klass, tmp_path, monkeypatch, fake):
    """What dies beside an attacker may live by itself."""
    folder = klass(anna="good victim", ben="crash attacker")
    judge = fake.judge

    def beside(self, unit, content, seed):
        if b"victim" in content and not any(u == unit for u in fake.graded):
            fake.graded.append(unit)
            raise Dead("killed from outside")
        return judge(self, unit, content, seed)

    monkeypatch.setattr(fake, "judge", beside)
    assert run(folder, "--out", tmp_path / "out") == 0
    rows = table(tmp_path / "out")
    assert rows["anna"]["status"] == "graded"
    assert rows["ben"]["status"] == "crashed"
    assert len(fake.graded) == 4


def test_a_job_is_replaced_after_many_units(klass, tmp_path, monkeypatch, fake):
    started = []
    monkeypatch.setattr(local, "RENEWED", 3)
    start = fake.__init__
    monkeypatch.setattr(fake, "__init__", lambda *words: (started.append(1), start(*words))[1])
    folder = klass(**{f"s{number}": f"good {number}" for number in range(8)})
    assert run(folder, "--out", tmp_path / "out", "--jobs=1") == 0
    assert len(started) == 3
    assert {row["total"] for row in table(tmp_path / "out").values()} == {"85"}


@pytest.mark.parametrize("first", [0, 3])
def test_a_machine_that_starts_no_job_is_nobody_s_crash(
    klass, tmp_path, monkeypatch, fake, capsys, first
):
    """A full disk, say, from the job of number `first` on: what is not graded yet waits for --resume."""
    started: list[int] = []
    start = fake.__init__

    def open_(*words):
        started.append(1)
        if len(started) > first:
            raise NoStart("the process that judges does not start here: No space left on device")
        start(*words)

    folder, out = klass(ann="good 1", ben="good 2", cem="good 3", dan="good 4"), tmp_path / "out"
    monkeypatch.setattr(local, "RENEWED", 1)
    monkeypatch.setattr(local, "PAUSE", 0.01)
    with monkeypatch.context() as patch:
        patch.setattr(fake, "__init__", open_)
        assert run(folder, "--out", out, "--jobs=1") == 1
    assert "No space left on device; what is graded so far" in capsys.readouterr().err
    if first:
        states = [row["status"] for row in table(out).values()]
        assert sorted(states) == ["graded"] * 3 + ["pending"]
    assert run(folder, "--out", out, "--resume") == 0
    assert {row["total"] for row in table(out).values()} == {"85"}


def test_why_a_job_does_not_start_is_told(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so is missing')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    settings = {"sandbox": "off", "hidden": [], "seconds": 60, "limits": {}}
    with pytest.raises(NoStart, match=r"does not start here: OSError: libtorch.so is missing"):
        Job(settings)


def test_a_file_that_two_hand_in_is_judged_once_and_flagged(klass, tmp_path, fake):
    stub = (PROJECT / "exercises/01_vector_add/kernel.py").read_text()
    folder = klass(anna="good same", ben="good same", cem=stub, dora=stub)
    run(folder, "--out", tmp_path / "out")
    assert len(fake.graded) == 2
    facts = json.loads((tmp_path / "out/results.json").read_text())["submissions"]
    flags = {each["student"]: each["katas"]["01_vector_add"]["flags"] for each in facts}
    assert [flag["evidence"] for flag in flags["anna"]] == ["the very same file as ben"]
    assert flags["cem"] == []


# ---- cards -----------------------------------------------------------------------------------


def test_with_cards_the_gpu_lane_is_judged_and_counts(klass, tmp_path, monkeypatch, fake):
    monkeypatch.setattr(local, "count_cards", lambda: 2)
    folder = klass(anna="good", ben="open")
    assert run(folder, "--out", tmp_path / "out") == 0
    rows = table(tmp_path / "out")
    assert (rows["anna"]["total"], rows["anna"]["maximum"]) == ("100", "100")
    assert (rows["ben"]["total"], rows["ben"]["maximum"]) == ("0", "100")
    assert [unit.whole for unit in fake.graded if unit.part == "gpu"].count(True) == 1


def test_results_without_a_card_are_kept_when_there_is_one(klass, tmp_path, monkeypatch, fake):
    folder = klass(anna="good")
    run(folder, "--out", tmp_path / "out")
    monkeypatch.setattr(local, "count_cards", lambda: 1)
    run(folder, "--out", tmp_path / "out", "--resume")
    assert [unit.part for unit in fake.graded] == ["cpu", "gpu"]
    assert table(tmp_path / "out")["anna"]["total"] == "100"


def test_what_only_a_card_can_judge_is_left_out_and_flagged(klass, tmp_path):
    run(klass(anna="open"), "--out", tmp_path / "out")
    (facts,) = json.loads((tmp_path / "out/results.json").read_text())["submissions"]
    assert (facts["score"], facts["max_score"], facts["not_judged"]) == (0, 25, 75)
    (flag,) = facts["katas"]["01_vector_add"]["flags"]
    assert flag["flag"] == "needs a card"
    row = table(tmp_path / "out")["anna"]
    assert row["status"] == "partly judged"  # its maximum is not the others'
    assert "75 points of this file" not in row["note"]
    assert "60 points of this file can be judged only on a GPU" in row["note"]


def test_no_card_unit_follows_a_crash():
    unit = Unit("a", "01_vector_add", "cpu")
    assert next_unit(unit, local.crashed(), set()) is None
    judged = {"status": "judged", "card": {"checks": checks("passed")}}
    assert next_unit(unit, judged, set()) == Unit("a", "01_vector_add", "gpu")
    assert next_unit(unit, judged, {"01_vector_add"}).whole


def test_cores_are_dealt_without_sharing(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert local.deal_cores(2, 0) == [{0}, {1}]
    shares = local.deal_cores(4, 2)
    assert [len(share) for share in shares] == [1, 1, 1, 1, 2, 2]
    assert len(set().union(*shares)) == 8
    assert [len(share) for share in local.deal_cores(8, 1)] == [1] * 9


# ---- resuming --------------------------------------------------------------------------------


def test_resuming_grades_what_is_new_and_nothing_else(klass, tmp_path, fake):
    out = tmp_path / "out"
    folder = klass(anna="good", ben="bad", cem="crash", dora="hang")
    run(folder, "--out", out)
    before = (out / "results.json").read_text()
    count = len(fake.graded)
    assert run(folder, "--out", out, "--resume") == 0
    assert len(fake.graded) == count
    assert (out / "results.json").read_text() == before
    klass(ben="good now", emil="good too")
    run(folder, "--out", out, "--resume")
    assert len(fake.graded) == count + 2
    assert table(out)["ben"]["total"] == "85"


def test_a_fault_of_the_grader_is_a_row_and_tried_again(klass, tmp_path, fake, monkeypatch):
    folder, out = klass(anna="good"), tmp_path / "out"
    judge, fault = fake.judge, {"status": "error", "message": "the grader itself failed: no space"}
    monkeypatch.setattr(fake, "judge", lambda *words: fault)
    assert run(folder, "--out", out) == 1
    assert table(out)["anna"]["status"] == "error"
    assert "no space" in table(out)["anna"]["note"]
    monkeypatch.setattr(fake, "judge", judge)
    assert run(folder, "--out", out, "--resume") == 0
    assert table(out)["anna"]["total"] == "85"


def test_a_changed_suite_is_graded_again(klass, tmp_path, fake, monkeypatch):
    folder = klass(anna="good")
    run(folder, "--out", tmp_path / "out")
    monkeypatch.setattr(command, "suite_version", lambda kata: "another")
    run(folder, "--out", tmp_path / "out", "--resume")
    assert len(fake.graded) == 2


def test_the_seed_is_secret_and_kept(klass, tmp_path):
    folder = klass(anna="good")
    seeds = []
    for words in (["--out", tmp_path / "a"], ["--out", tmp_path / "b"]):
        run(folder, *words)
        run(folder, *words, "--resume")
        facts = json.loads((words[1] / "results.json").read_text())
        seeds.append(facts["settings"]["seed"])
    assert len({*seeds}) == 2
    assert min(map(len, seeds)) >= 32


def test_every_sandbox_that_was_used_is_told(klass, tmp_path, monkeypatch, fake):
    """Marks that came about without one do not become safer by going on with one."""
    folder, out = klass(anna="good"), tmp_path / "out"
    run(folder, "--out", out)
    start = fake.__init__

    def safe(self, *words):
        start(self, *words)
        self.hello["sandbox"] = {"name": "bwrap", "text": "bubblewrap"}

    monkeypatch.setattr(fake, "__init__", safe)
    klass(ben="bad")
    run(folder, "--out", out, "--resume")
    used = json.loads((out / "results.json").read_text())["sandboxes"]
    assert used == [None, {"name": "bwrap", "text": "bubblewrap"}]
    page = (out / "report.html").read_text()
    assert "for some of them none" in page
    assert "for some of them bubblewrap" in page


def test_no_more_jobs_than_cores(klass, tmp_path, capsys, monkeypatch, fake):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    cores = []
    start = fake.__init__
    monkeypatch.setattr(
        fake, "__init__", lambda *words: (cores.append(words[-1]), start(*words))[1]
    )
    folder = klass(**{f"s{number}": f"good {number}" for number in range(8)})
    assert run(folder, "--out", tmp_path / "out", "--jobs=1000") == 0
    # The first may have done all of the work before there is a second.
    assert sorted(cores, key=min) in ([{0}], [{1}], [{0}, {1}])
    assert "--jobs 1000: there are 2 cores" in capsys.readouterr().err


def test_other_settings_need_resume(klass, tmp_path, capsys):
    folder, out = klass(anna="good"), tmp_path / "out"
    assert run(folder, "--out", out, TOGETHER) == 0
    assert run(folder, "--out", out, TOGETHER) == 0
    for words in ([], ["--seed=other"], [TOGETHER, "--timeout=50"], [TOGETHER, "--katas=3"]):
        assert run(folder, "--out", out, *words) == 2
        assert "add --resume" in capsys.readouterr().err
    assert run(folder, "--out", out, "--resume", "--timeout=50") == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "place", ["take_in", "suite_version", "start", "outlines", "write_all", "judge"]
)
def test_an_interruption_is_one_line_at_any_moment(
    klass, tmp_path, capsys, monkeypatch, request, fake, place, number
):
    def interrupt(*words):
        os.kill(os.getpid(), number)
        time.sleep(10)

    # What Python does of itself, unless it was started in the background of a script.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    folder, out = klass(anna="good", ben="bad"), tmp_path / "out"
    where = {"take_in": command.intake, "write_all": outputs, "suite_version": command}
    where |= {"start": local.Local, "outlines": local.Local}
    with monkeypatch.context() as patch:
        if place == "judge":
            judge = fake.judge
            patch.setattr(
                fake, "judge", lambda *words: (os.kill(os.getpid(), number), judge(*words))[1]
            )
        else:
            patch.setattr(where[place], place, interrupt)
        assert run(folder, "--out", out) == 1
    assert "interrupted" in capsys.readouterr().err.splitlines()[-1]
    assert run(folder, "--out", out, "--resume") == 0


# ---- the store -------------------------------------------------------------------------------


def test_a_second_grader_says_so_and_stops(klass, tmp_path, capsys):
    folder = klass(anna="good")
    first = store.Store(tmp_path / "out")
    assert run(folder, "--out", tmp_path / "out") == 2
    assert "another grader is at work" in capsys.readouterr().err
    first.close()
    assert run(folder, "--out", tmp_path / "out") == 0


def test_a_full_disk_is_said_and_the_database_stays_sound(klass, tmp_path, capsys, monkeypatch):
    folder = klass(**{f"s{number}": f"good {number} " + "x" * 3000 for number in range(30)})
    opened = store.Store.__init__

    def small(self, out):
        opened(self, out)
        self._db.execute("PRAGMA max_page_count = 35")

    monkeypatch.setattr(store.Store, "__init__", small)
    assert run(folder, "--out", tmp_path / "out", TOGETHER) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert "is full" in message
    assert "--resume" in message
    database = sqlite3.connect(tmp_path / "out" / store.NAME)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    monkeypatch.setattr(store.Store, "__init__", opened)
    assert run(folder, "--out", tmp_path / "out", "--resume") == 0
    assert len(table(tmp_path / "out")) == 30


def test_outputs_on_a_full_disk_are_one_line(klass, tmp_path, capsys, monkeypatch):
    def full(*words):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs, "write", full)
    assert run(klass(anna="good"), "--out", tmp_path / "out") == 1
    assert "No space left on device" in capsys.readouterr().err


def test_a_file_in_place_of_the_database(klass, tmp_path, capsys):
    out = tmp_path / "out"
    out.mkdir()
    (out / store.NAME).write_text("no database at all, but long enough to be looked at" * 40)
    assert run(klass(anna="good"), "--out", out) == 2
    assert "no database of this grader" in capsys.readouterr().err


@pytest.mark.parametrize("version", [0, 1])
def test_somebody_else_s_database_is_left_as_it_is(klass, tmp_path, capsys, version):
    out = tmp_path / "out"
    out.mkdir()
    other = sqlite3.connect(out / store.NAME)
    other.execute("CREATE TABLE results (name TEXT)")
    other.execute(f"PRAGMA user_version = {version}")  # many programs count from 1
    other.commit()
    other.close()
    before = (out / store.NAME).read_bytes()
    assert run(klass(anna="good"), "--out", out) == 2
    assert "no database of this grader" in capsys.readouterr().err
    assert (out / store.NAME).read_bytes() == before


def test_a_damaged_database_is_one_line(klass, tmp_path, capsys):
    folder, out = klass(anna="good", ben="bad"), tmp_path / "out"
    assert run(folder, "--out", out) == 0
    file = out / store.NAME
    file.write_bytes(file.read_bytes()[:4096] + b"x" * 8000)
    capsys.readouterr()
    assert run(folder, "--out", out, "--resume") in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert "name another --out" in line


def test_a_damaged_record_is_one_line(klass, tmp_path, capsys):
    folder, out = klass(anna="good"), tmp_path / "out"
    run(folder, "--out", out)
    with sqlite3.connect(out / store.NAME) as db:
        db.execute("UPDATE results SET record = substr(record, 1, 20)")
    db.close()
    capsys.readouterr()
    assert run(folder, "--out", out, "--resume") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "is damaged" in line


def test_names_that_the_terminal_cannot_show(klass, tmp_path):
    """A locale of a few letters costs the look of a name, not the marks."""
    folder = klass(**{"Łukasz 力": "good"})
    words = [sys.executable, "-m", "grader.classroom", folder, "--dry-run"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        words, cwd=PROJECT / "tests", env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert b"\\u0141ukasz" in done.stdout


def test_the_first_result_for_a_key_stays(tmp_path):
    opened, unit = store.Store(tmp_path / "out"), Unit("a", "k", "cpu")
    opened.put(unit, "v", "c", {"n": 1})
    opened.put(unit, "v", "c", {"n": 2})
    assert opened.get(unit, "v", "c") == {"n": 1}
    assert opened.get(unit, "w", "c") is None
    opened.close()


def test_the_suite_s_version_follows_suite_engine_and_reference():
    assert suite_version("01_vector_add") != suite_version("03_scale")
    assert len(suite_version("01_vector_add")) == 16


# ---- bad input -------------------------------------------------------------------------------


def test_bad_input_is_one_line_and_exit_code_2(klass, tmp_path, capsys):
    folder = klass(anna="good")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    out = ("--out", tmp_path / "out")
    for words, said in [
        ((tmp_path / "nowhere", *out), "there is no folder"),
        ((tmp_path / "file", *out), "is a file"),
        ((tmp_path / "empty", *out), "is empty"),
        ((folder, "--out", folder / "marks"), "inside the submissions"),
        ((folder, "--out", folder), "inside the submissions"),
        ((folder, "--out", tmp_path / "file"), "is a file"),
        ((folder, *out, "--katas", "1,99"), "there is no kata 99"),
        ((folder, *out, "--katas", ","), "names no kata"),
        ((folder, *out, "--jobs", "0"), "no whole number above 0"),
        ((folder, *out, "--timeout", "-3"), "30 or more"),
        ((folder, *out, "--memory", "much"), "is no size"),
        ((folder, *out, "--memory", "64M"), "give 256M or more"),
        ((folder, *out, "--memory", "9" * 400 + "T"), "more than any machine has"),
        ((folder, *out, "--memory", "99999999T"), "more than any machine has"),
        ((folder, *out, "--jobs", "\N{SUPERSCRIPT TWO}"), "no whole number above 0"),
        ((folder, *out, "--katas", "\N{SUPERSCRIPT TWO}"), "there is no kata"),
        ((folder, *out, "--seed", "\udcff"), "cannot be printed"),
        ((folder, *out, "--address", "head:6379"), "add --engine ray"),
        ((folder, *out, "--engine", "abacus"), "invalid choice"),
        ((folder, "--out", ""), "--out: nothing is given"),
        (("", *out), "SUBMISSIONS: nothing is given"),
        ((folder, *out, "--seed", " "), "--seed: nothing is given"),
        ((folder,), "name a folder"),
        (out, "SUBMISSIONS"),
    ]:
        assert run(*words) == 2, words
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1, lines
        assert said in lines[0]
    assert not (tmp_path / "out").exists()


def test_a_sandbox_that_is_demanded_and_absent(klass, tmp_path, capsys, monkeypatch):
    def absent(wanted):
        raise ValueError("bubblewrap is not installed: apt install bubblewrap")

    monkeypatch.setattr(command, "choose", absent)
    assert run(klass(anna="good"), "--out", tmp_path / "out", "--sandbox=bwrap") == 2
    assert capsys.readouterr().err == "grade: bubblewrap is not installed: apt install bubblewrap\n"


def test_missing_packages_are_said_first(klass, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "NEEDS", {"no_such_module": "NoSuchPackage"})
    assert run(klass(anna="good"), "--out", tmp_path / "out") == 2
    assert "pip install NoSuchPackage" in capsys.readouterr().err


def test_dry_run_grades_nothing(klass, tmp_path, capsys, fake):
    folder = klass(anna="good")
    (folder / "notes.txt").write_text("")
    assert run(folder, "--dry-run") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "anna: 01_vector_add"
    assert "neither" in said[1]
    assert said[2] == "2 submissions, 1 kata, 1 different kernel"
    assert not fake.graded
    assert [*tmp_path.iterdir()] == [folder]


@pytest.mark.parametrize(
    ("text", "bytes_"), [("4G", 4 << 30), ("500M", 500 << 20), ("1.5GiB", 3 << 29)]
)
def test_sizes(text, bytes_):
    assert command.size(text) == bytes_


def test_torch_and_ray_stay_out_of_the_grader_s_own_process():
    code = (
        "import sys, grader.classroom.__main__; sys.exit(bool({'torch', 'ray'} & {*sys.modules}))"
    )
    import subprocess

    path = os.environ | {"PYTHONPATH": str(PROJECT / "tests")}
    assert subprocess.run([sys.executable, "-c", code], env=path, check=False).returncode == 0
