"""The record of where a learner is, what is told from it, hints, and the way back to the stub."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from grader import clues, progress, report, status, stubs, words
from grader.progress import Entry
from grader.scorecard import LEFT_OUT, ORDER, Check, Scorecard
from grader.stubs import as_shipped

PROJECT = Path(__file__).resolve().parents[2]
STUB = "# TODO(mask): which lanes exist\nmask = True\n# TODO(grid): enough\ngrid = (1,)\n"
LESSON = """# Kata 1: a title

## Hints

<details>
<summary>Hint 1: where to look</summary>

Look at the picture.

- **mask**: Which lanes
  exist?
- **grid, offsets**: How many?

</details>

<details>
<summary>Hint 2: the pieces</summary>

- **mask**: `<` compares.

</details>

<details>
<summary>Hint 3: the lines</summary>

**mask**

```python
mask = offsets < n
```

**grid**

Two lines:

```python
a = 1
grid = (a,)
```

</details>

## Common mistakes

- **mask**: none of this.
"""


@pytest.fixture
def house(tmp_path, monkeypatch):
    """A project with two katas, as shipped."""
    for kata in ("01_one", "02_two"):
        for folder in (tmp_path / "exercises", tmp_path / "tests" / "stubs"):
            (folder / kata).mkdir(parents=True)
            (folder / kata / "kernel.py").write_text(STUB)
        (tmp_path / "exercises" / kata / "README.md").write_text(LESSON)
    monkeypatch.setattr(progress, "PROJECT", tmp_path)
    monkeypatch.setattr(progress, "EXERCISES", tmp_path / "exercises")
    monkeypatch.setattr(progress, "FILE", tmp_path / ".katas" / "progress.json")
    monkeypatch.setattr(stubs, "PROJECT", tmp_path)
    monkeypatch.setattr(stubs, "SHIPPED", tmp_path / "tests" / "stubs")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("KATAS_NOX", raising=False)
    return tmp_path


def work(house, kata="01_one", text="mask = 1\n"):
    file = house / "exercises" / kata / "kernel.py"
    file.write_text(text)
    return file


def judged(file, *verdicts, **lanes):
    """A scorecard of checks given as (concept, status, message, lane)."""
    checks = []
    for concept, state, *rest in verdicts:
        message = rest[0] if rest else ""
        lane = rest[1] if len(rest) > 1 else "trace"
        checks.append(Check(f"{concept}{len(checks)}", concept, lane, 10))
        checks[-1].decide(state, message, concept if state == "failed" else None, 7)
    lanes = {"trace": True, "compile": True, "gpu": False} | lanes
    return Scorecard(file.parent.name, str(file), lanes, {}, checks)


HALF = [
    ("grid", "passed"),
    ("values", "failed", "wrong sum"),
    ("mask", "failed", "line 2 reads on"),
]
ALL = [("grid", "passed"), ("mask", "passed"), ("speed", "not-judged", "needs a GPU", "gpu")]


def entry(kata="01_one") -> Entry:
    return progress.load().get(kata, Entry())


# The record


def test_what_a_check_found_is_kept(house):
    file = work(house)
    progress.record(judged(file, *HALF))
    kept = entry()
    assert (kept.score, kept.max_score, kept.not_judged, kept.solved) == (10, 30, 0, False)
    assert kept.wrong == ["mask", "values"]
    assert kept.digest == progress.digest(file)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", kept.when)


def test_what_waits_for_something_else_is_not_named_first(house):
    card = judged(work(house), *HALF)
    card.checks[2].waits = True
    progress.record(card)
    assert entry().wrong == ["values", "mask"]


def test_the_best_speed_stays(house):
    file = work(house)
    for speed in (0.8, 0.95, 0.9, None):
        progress.record(judged(file, *ALL), speed)
    assert entry().speed == 0.95


def test_the_best_score_stays(house):
    file = work(house)
    for verdicts in (HALF, ALL, HALF):
        progress.record(judged(file, *verdicts))
    assert (entry().score, entry().best) == (10, 20)
    stubs.reset("01_one")
    assert (entry().score, entry().best) == (None, 20)


def test_a_todo_that_is_open_says_more_than_a_cause(house):
    file = work(house, text=STUB)
    card = judged(file, ("grid", "failed"), ("values", "failed"))
    for check in card.checks:
        check.cause = "offsets"
    progress.record(card)
    assert entry().wrong == ["grid", "offsets"]


def test_a_todo_whose_code_was_changed_is_not_open(house):
    """Its comment may stay: what it says is missing is there, so the cause says more."""
    file = work(house, text=STUB.replace("(1,)", "(2,)"))
    assert [concept for _, concept, _ in progress.todos(file)] == ["mask"]
    card = judged(file, ("grid", "failed"), ("values", "failed"))
    for check in card.checks:
        check.cause = "offsets"
    progress.record(card)
    assert entry().wrong == ["offsets"]
    said = report.next_step(card, card.checks, file, None)
    assert said.startswith(f"Next: offsets, line 7 of {file}.")


def test_solved_without_a_gpu_but_not_without_a_lane(house):
    file = work(house)
    progress.record(judged(file, *ALL))
    assert entry().solved
    progress.record(judged(file, *ALL, ("robust", "not-judged", "off", "compile"), compile=False))
    assert not entry().solved


def test_other_files_and_partial_checks_are_nobodys_progress(house):
    file = work(house)
    other = house / "submission" / "01_one" / "kernel.py"
    other.parent.mkdir(parents=True)
    other.write_text("")
    progress.record(judged(other, *ALL))
    progress.record(judged(file, *ALL, ("values", "not-judged", LEFT_OUT)))
    assert progress.load() == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"version": 9, "katas": {}}',
        '{"version": 1, "katas": {"01_one": {"score": "many"}}}',
        '{"version": 1, "katas": {"01_one": {"hints": {"mask": "x"}}}}',
        "\0\0",
    ],
)
def test_a_damaged_record_is_kept_aside_and_said_in_one_line(house, capsys, content):
    progress.FILE.parent.mkdir()
    progress.FILE.write_text(content)
    progress.record(judged(work(house), *HALF))
    assert entry().score == 10
    assert progress.FILE.with_name("progress.json.1").read_text() == content
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert ".katas/progress.json.1" in said


def test_a_lost_record_loses_history_alone(house):
    file = work(house)
    progress.record(judged(file, *HALF))
    progress.FILE.unlink()
    assert progress.load() == {}
    assert file.read_text() == "mask = 1\n"


def test_no_record_is_no_reason_to_fail(house):
    (house / ".katas").write_text("a file where the folder should be")
    progress.record(judged(work(house, text=STUB), *HALF))
    assert progress.load() == {}
    said = " ".join(clues.show("01_one").split())
    assert said.startswith("Hint 1 of 3 on grid")
    assert said.endswith("the next ones are in exercises/01_one/README.md.")
    assert "says more" not in said


def test_two_at_once_lose_nothing(house):
    code = (
        "import sys; from pathlib import Path; from grader import progress;"
        "progress.FILE = Path(sys.argv[1]);"
        "[progress.change(sys.argv[2], lambda e: e.hints.update({str(i): 1})) for i in range(40)]"
    )
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "tests")}
    running = [
        subprocess.Popen([sys.executable, "-c", code, progress.FILE, kata], env=environment)
        for kata in ("01_one", "02_two")
    ]
    assert [one.wait(60) for one in running] == [0, 0]
    assert [len(entry(kata).hints) for kata in ("01_one", "02_two")] == [40, 40]
    assert sorted(path.name for path in progress.FILE.parent.iterdir()) == ["progress.json"]


def test_a_check_of_the_learners_file_is_recorded_and_no_other(tmp_path):
    """The real thing: pytest on the suite, in a copy of the project."""
    root = as_shipped(tmp_path)
    record = root / ".katas" / "progress.json"
    environment = {k: v for k, v in os.environ.items() if k != "KATAS_PROGRESS"}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "tests/test_01_vector_add.py", "--lanes=trace"]

    def check(*words):
        return subprocess.run([*command, *words], cwd=root, env=environment, capture_output=True)

    assert check("--root=solutions").returncode == 0
    assert check("-k", "grid").returncode == 1
    assert not record.exists()
    assert check().returncode == 1
    (kata,) = json.loads(record.read_text())["katas"].values()
    assert (kata["score"], kata["solved"], kata["wrong"][0]) == (0, False, "grid")
    (root / "exercises" / "01_vector_add" / "kernel.py").unlink()
    gone = check()
    assert gone.returncode == 2
    assert gone.stderr.decode().splitlines() == [
        "katas: there is no exercises/01_vector_add/kernel.py; nox -s reset-1 brings it back"
    ]


# Where you are


def test_states(house):
    assert [row.state for row in status.rows()] == ["to do", "to do"]
    file = work(house)
    assert status.rows()[0].state == "unchecked"
    progress.record(judged(file, *HALF))
    assert (status.rows()[0].state, status.rows()[0].score) == ("started", "10/30")
    progress.record(judged(file, *ALL))
    assert (status.rows()[0].state, status.rows()[0].edited) == ("solved", False)
    work(house, text="mask = 2\n")
    assert (status.rows()[0].state, status.rows()[0].edited) == ("solved", True)


def test_next_is_the_first_unsolved_kata(house, capsys):
    progress.record(judged(work(house), *ALL))
    status.main(["next"])
    said = capsys.readouterr().out
    assert "kata 2" in said
    assert "exercises/02_two/README.md" in said
    assert "line 3, grid: enough" in said
    assert said.endswith("nox -s check-2\n")
    progress.record(judged(work(house, "02_two"), *ALL))
    status.main(["next"])
    assert "All katas are solved" in capsys.readouterr().out


def test_all_point_to_the_same_todo(house, capsys):
    """`nox`, a hint and the report, before and after a check: the order is that of the concepts."""
    file = house / "exercises" / "01_one" / "kernel.py"

    def told() -> set[str]:
        status.main(["home"])
        here = re.search(r"TODO +line \d+, (\w+)", capsys.readouterr().out)
        hint = re.match(r"Hint \d of 3 on (\w+)", clues.show("01_one"))
        return {here[1], hint[1]}

    assert told() == {"grid"}
    card = judged(file, ("mask", "failed"), ("grid", "failed"))
    progress.record(card)
    assert told() == {"grid"}
    assert "Next: grid, line 3 of" in report.next_step(card, card.checks[::-1], file, None)
    card = judged(file, ("mask", "failed"), ("grid", "passed"))
    progress.record(card)
    assert told() == {"mask"}
    assert "Next: mask, line 1 of" in report.next_step(card, card.checks, file, None)


def test_a_kernel_that_can_be_drawn_is(house, capsys):
    (house / "tests" / "test_01_one.py").write_text("KATA = Kata()")
    assert "nox -s show-1 draws your kernel" in " ".join(clues.show("01_one").split())
    assert "h says more. s draws" in clues.show("01_one", again="h", draw="s")
    status.main(["home"])
    assert "nox -s show-1   a picture" in capsys.readouterr().out
    (house / "tests" / "test_01_one.py").write_text("KATA = Agent()")
    assert "show-1" not in clues.show("01_one")
    status.main(["home"])
    assert "show-1" not in capsys.readouterr().out


def test_a_better_score_of_before_is_told(house, capsys):
    progress.record(judged(work(house), *ALL))
    status.main(["status"])
    assert "once" not in capsys.readouterr().out
    stubs.reset("01_one")
    status.main(["status"])
    assert "Had more points once: kata 1 (20)." in capsys.readouterr().out


@pytest.mark.parametrize("columns", [40, 50, 80])
@pytest.mark.parametrize("rich", [True, False])
def test_the_table_says_the_same_with_and_without_rich(house, capsys, monkeypatch, columns, rich):
    if rich:
        pytest.importorskip("rich")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setenv("COLUMNS", str(columns))
    long = "02_fused_add_rms_norm"
    (house / "exercises" / "02_two").rename(house / "exercises" / long)
    work(house, long)
    progress.record(judged(work(house), *ALL), 0.93)
    status.main(["status"])
    said = capsys.readouterr().out
    first, second = (next(x for x in said.splitlines() if name in x) for name in ("one", "fused"))
    assert first.split()[:5] == ["1", "one", "solved", "20/30"] + ["0.93"] * (columns > 40)
    assert second.split() == ["2", "fused_add_rms_norm", "unchecked"]
    assert ("Speed" in said) == ("speed" in said) == (columns > 40)
    assert "1 of 2 solved  [##########..........]" in said
    assert "Next: nox -s check-2" in said
    assert "\x1b" not in said
    assert max(map(len, said.splitlines())) <= columns


def test_who_has_no_points_yet_is_shown_where_to_begin(house, capsys):
    status.main(["home"])
    assert "New to GPUs? exercises/README.md" in capsys.readouterr().out
    progress.record(judged(work(house), *HALF))
    status.main(["home"])
    assert "New to GPUs" not in capsys.readouterr().out


def test_home_fits_a_narrow_terminal(house, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    status.main(["home"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 50


def test_a_command_stands_in_one_line(monkeypatch):
    text = "Some words before it, then .venv/bin/nox -s show-1 and what it does."
    for columns in range(40, 80):
        monkeypatch.setenv("COLUMNS", str(columns))
        said = words.wrapped(text)
        assert "/nox -s show-1" in said
        assert " ".join(said.split()) == text


@pytest.mark.parametrize("module", ["status", "clues", "stubs", "progress"])
def test_nothing_heavy_is_loaded(module):
    code = f"import grader.{module}, sys; sys.exit(bool({{'torch', 'rich'}} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "tests")}
    assert (
        subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0
    )


# Hints


def test_a_lesson_by_concept():
    (_, one, general), (_, two, _), (_, three, _) = clues.levels(LESSON)
    assert general == "Look at the picture."
    assert one == {"mask": "Which lanes\nexist?", "grid": "How many?", "offsets": "How many?"}
    assert two == {"mask": "`<` compares."}
    assert three["grid"] == "Two lines:\n\n```python\na = 1\ngrid = (a,)\n```"


def test_where_each_row_has_its_program_the_hints_on_the_grid_speak_of_rows():
    lessons = (page.read_text() for page in (PROJECT / "exercises").glob("*/README.md"))
    rows = [text for text in lessons if "\ngrid = (n_rows,)\n" in text]
    assert rows
    for lesson in rows:
        for level in (1, 2):
            assert "row" in clues.hint(lesson, "grid", level)


def test_one_level_more_each_time_on_what_was_wrong(house):
    progress.record(judged(work(house), *HALF))
    told = [clues.show("01_one") for _ in range(4)]
    assert [text.splitlines()[0].split(" (")[0] for text in told] == [
        f"Hint {level} of 3 on mask" for level in (1, 2, 3, 3)
    ]
    assert "Look at the picture." in told[0]
    assert "The picture is in the lesson, exercises/01_one/README.md." in told[0]
    assert "The lesson is exercises/01_one/README.md." in told[1]
    assert "Which lanes exist?" in told[0]
    assert "How many?" not in told[0]
    assert "    mask = offsets < n" in told[2]
    assert "grid = " not in told[2]
    assert "solutions/01_one/kernel.py" in told[2]


def test_another_concept_begins_at_its_first_hint(house):
    file = work(house)
    progress.record(judged(file, *HALF))
    clues.show("01_one")
    progress.record(judged(file, ("grid", "failed", "too few"), *HALF[1:]))
    assert clues.show("01_one").startswith("Hint 1 of 3 on grid")
    progress.record(judged(file, *HALF))
    assert clues.show("01_one").startswith("Hint 2 of 3 on mask")


def test_without_a_check_the_first_todo_is_hinted_at(house):
    said = clues.show("01_one")
    assert said.startswith("Hint 1 of 3 on grid (not checked yet")
    assert "line 3, TODO(grid): enough" in said


def test_a_concept_of_which_the_lesson_says_nothing(house):
    progress.record(judged(work(house), ("precision", "failed", "too coarse"), ("grid", "passed")))
    first, _, third = (clues.show("01_one") for _ in range(3))
    assert " ".join(clues.GENERAL["precision"][0].split()) in " ".join(first.split())
    assert "common mistakes" in third


def test_every_concept_has_a_general_hint():
    assert set(clues.GENERAL) == set(ORDER)


def test_a_file_that_does_not_load_gets_no_hint_on_concepts(house):
    broken = [
        (c, "failed", "the file does not import. SyntaxError") for c in ("grid", "mask", "values")
    ]
    progress.record(judged(work(house), *broken))
    said = " ".join(clues.show("01_one").split())
    assert said.endswith("line 7: the file does not import. SyntaxError")
    assert entry().hints == {}


def stopping(file, line):
    """A scorecard of a file that raises an exception at this line, whatever is asked of it."""
    said = [(c, "failed", f"the kernel raises it (n={c})") for c in ("grid", "mask", "values")]
    card = judged(file, *said)
    for check in card.checks:
        check.stops, check.cause, check.line = True, "robust", line
    return card


def test_next_hint_and_report_agree_on_the_line_where_a_file_stops(house):
    file = work(house, text="grid = 1\nmask = 2\n\n\n\n\nx = tl.load(1, 2, mask=3)\n")
    card = stopping(file, 7)
    progress.record(card)
    said = [report.next_step(card, card.checks, file, None), clues.show("01_one")]
    said += ["\n".join(status.what_now(status.rows()[0]))]
    said = [" ".join(text.split()) for text in said]
    assert "line 7 of" in said[0]
    assert "line 7: the kernel raises it" in said[1]
    assert "line 7: the kernel raises it" in said[2]
    assert not any("grid" in text.replace("(n=grid)", "") for text in said)


def test_a_file_that_stops_in_an_open_todo_gets_that_todos_hint(house):
    file = work(house, text=STUB)
    progress.record(stopping(file, 2))
    assert entry().broken == ""
    assert clues.show("01_one").startswith("Hint 1 of 3 on mask")
    assert any("mask: which lanes exist" in line for line in status.what_now(status.rows()[0]))


def test_a_hint_says_that_the_file_was_changed_since_or_is_gone(house):
    progress.record(judged(work(house), *HALF))
    work(house, text="mask = 2\n")
    said = " ".join(clues.show("01_one").split())
    assert said.startswith("Hint 1 of 3 on mask (wrong in the last check, before your last change)")
    progress.record(judged(work(house), *[(c, "failed", "no") for c in ("grid", "mask", "values")]))
    work(house, text="mask = 2\n")
    assert clues.show("01_one").startswith("The last check, before your last change, could judge")
    (house / "exercises" / "01_one" / "kernel.py").unlink()
    assert clues.show("01_one") == (
        "There is no exercises/01_one/kernel.py; nox -s reset-1 brings it back."
    )


def test_without_the_lesson_there_is_no_hint(house, capsys):
    (house / "exercises" / "01_one" / "README.md").unlink()
    with pytest.raises(SystemExit) as stopped:
        clues.main(["1"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said == "exercises/01_one/README.md cannot be read: No such file or directory\n"


def test_nothing_wrong_nothing_to_hint_at(house):
    progress.record(judged(work(house), *ALL))
    assert "nothing wrong" in clues.show("01_one")


@pytest.mark.parametrize("kata", progress.katas().values())
def test_every_todo_has_three_hints_of_its_own(kata):
    lesson = (PROJECT / "exercises" / kata / "README.md").read_text()
    open_todos = {concept for _, concept, _ in progress.todos(stubs.shipped(kata))}
    found = clues.levels(lesson)
    assert len(found) == clues.LEVELS
    for concept in open_todos:
        assert all(clues.hint(lesson, concept, level) for level in (1, 2, 3)), concept
        assert concept in found[2][1]
    known = set(ORDER)
    assert all(set(texts) <= known for _, texts, _ in found)


# The way back


def test_reset_keeps_every_version_aside(house):
    for number, text in enumerate(["mine\n", "another\n"], 1):
        file = work(house, text=text)
        said = stubs.reset("01_one")
        assert f"exercises/01_one/kernel.py.{number}" in said
        assert file.read_text() == STUB
        assert file.with_name(f"kernel.py.{number}").read_text() == text
    assert "nothing to do" in stubs.reset("01_one")
    assert len(list(file.parent.glob("kernel.py*"))) == 3


def test_reset_speaks_in_lines_that_fit(house, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    work(house)
    stubs.main(["1"])
    stubs.main(["1"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 50


def test_reset_brings_a_deleted_file_back(house, capsys):
    file = work(house)
    file.unlink()
    assert stubs.main(["1"]) == 0
    assert "kept" not in capsys.readouterr().out
    assert file.read_text() == STUB


def test_reset_puts_a_folder_in_the_way_aside(house):
    file = work(house)
    file.unlink()
    file.mkdir()
    (file / "mine.py").touch()
    assert "kept as exercises/01_one/kernel.py.1" in " ".join(stubs.reset("01_one").split())
    assert file.read_text() == STUB
    assert (file.with_name("kernel.py.1") / "mine.py").exists()


def test_reset_starts_the_record_anew_but_for_the_best(house):
    progress.record(judged(work(house), *ALL), 0.9)
    stubs.reset("01_one")
    assert entry() == Entry(best=20, speed=0.9)


def test_a_file_that_cannot_be_kept_is_not_touched(house, monkeypatch):
    file = work(house)
    monkeypatch.setattr(stubs, "free_name", lambda file: house / "no" / "such" / "folder")
    with pytest.raises(SystemExit) as stopped:
        stubs.main(["1"])
    assert stopped.value.code == 2
    assert file.read_text() == "mask = 1\n"


@pytest.mark.parametrize("module", [stubs, clues])
@pytest.mark.parametrize("word", ["99", "two", ""])
def test_no_such_kata(house, capsys, module, word):
    with pytest.raises(SystemExit) as stopped:
        module.main([word])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_second_copies_are_the_stubs():
    assert stubs.stale() == []


def test_a_stub_that_was_changed_is_copied_again(house, capsys):
    work(house, text="another stub\n")
    assert stubs.stale() == ["01_one"]
    stubs.main(["--update"])
    assert stubs.stale() == []
    assert capsys.readouterr().out == "written: tests/stubs/01_one/kernel.py\n"


def test_a_reader_that_leaves_gets_no_traceback(tmp_path):
    """As in `nox -s status | head -3`: what is left unsaid is left unsaid."""
    command = [sys.executable, "-u", "-m", "grader.status", "status"]
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "tests")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as told:
        told.stdout.close()
        assert told.stderr.read() == b""
    assert told.returncode == 1
