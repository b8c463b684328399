"""The page that a learner reads."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from grader import report
from grader.progress import todos
from grader.reasons import Stops
from grader.report import first_line, next_step, paint, render
from grader.scorecard import LEFT_OUT, TO_COME, Check, Scorecard

STUB = """\
import triton

# TODO(grid): enough programs
# for every element.
grid = (1,)
    # TODO(mask): which lanes exist
mask = None
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "01_vector_add" / "kernel.py"
    path.parent.mkdir()
    path.write_text(STUB)
    return path


def card(file, *verdicts):
    """A scorecard of checks given as (concept, points, status, message, line)."""
    checks = []
    for concept, points, status, *rest in verdicts:
        message, line = (*rest, "", None)[:2]
        check = Check(
            f"{concept}{len(checks)}", concept, "trace", points, title=f"About {concept}."
        )
        check.decide(status, message, concept if status == "failed" else None, line)
        checks.append(check)
    return Scorecard("01_vector_add", str(file), {"trace": True}, {}, checks)


LONG = "1,024 of 2,048 elements are never written (n=2048): the grid (1,) starts 1 program " * 4
MIXED = [
    ("speed", 10, "not-judged", "needs a GPU"),
    ("values", 15, "passed"),
    ("mask", 20, "failed", "tl.load reads 24 elements past the end", 28),
    ("grid", 20, "failed", LONG),
    ("robust", 5, "error", "the grader itself failed: KeyError"),
]


def test_what_the_compiler_rejects_is_told_once(file):
    page = card(
        file,
        ("precision", 5, "failed", "the compiler rejects kernel", 5),
        ("fusion", 5, "failed", "one more store"),
        ("robust", 5, "failed", "the compiler rejects kernel", 5),
    )
    for check in page.checks:
        check.lane = "compile"
    text = render(page, file, None)
    assert text.count("the compiler rejects kernel") == 1
    assert "as above, see precision" in text


@pytest.mark.parametrize("code", ["x = range(4)", "x = range(pid * BLOCK_SIZE, BLOCK_SIZE)" * 3])
def test_a_caret_stands_below_its_line_or_nowhere(file, monkeypatch, code):
    monkeypatch.setenv("COLUMNS", "88")
    message = f"range() is for loops\n    {code}\n        ^"
    page = render(card(file, ("grid", 20, "failed", message, 5)), file, None).splitlines()
    at = next(n for n, line in enumerate(page) if "x = range" in line)
    whole = page[at].endswith(code)
    assert whole == (len(code) < 50)
    assert (page[at + 1].strip() == "^") == whole
    assert any(line.strip() == "^" for line in page) == whole


def test_a_mixed_page_in_the_order_of_the_concepts(file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "88")
    page = render(card(file, *MIXED), file, None)
    heads = [line for line in page.splitlines() if "About" in line]
    assert heads == [
        "  FAIL  grid     0/20  About grid.",
        "  FAIL  mask     0/20  About mask.",
        "  ok    values  15/15  About values.",
        "  ERROR robust    0/5  About robust.",
        "  --    speed    -/10  About speed.",
    ]
    assert "line 28: tl.load reads 24 elements past the end" in page
    assert "not judged here: needs a GPU" in page
    assert "01_vector_add: 15 of 70 points (10 not judged on this machine)" in page


@pytest.mark.parametrize(("columns", "width"), [("40", 40), ("20", 40), ("88", 88), ("300", 100)])
def test_no_line_is_wider_than_the_terminal(file, monkeypatch, columns, width):
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.chdir(file.parent.parent)
    one = card(file, *MIXED)
    one.checks[
        0
    ].title = "On a real card, between guard bands: every case is right and stays inside."
    page = render(one, file, None, output="x" * 500 + "\ny")
    assert max(map(len, page.splitlines())) <= width


def test_every_word_of_a_message_survives_a_narrow_terminal(file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    page = render(card(file, *MIXED), file, None)
    assert " ".join(LONG.split()) in " ".join(page.split())


def test_one_reason_for_all_failures_is_told_once(file):
    reason = "the file does not import. SyntaxError: invalid syntax"
    verdicts = [(c, 10, "failed", reason, 3) for c in ("grid", "offsets", "mask", "values")]
    page = render(card(file, *verdicts), file, None)
    assert page.count("SyntaxError") == 1
    assert "line 3: the file does not import." in page


def test_a_message_that_comes_again_is_not_repeated(file):
    verdicts = [(c, 10, "failed", "add returns nothing", 3) for c in ("grid", "offsets")]
    page = render(card(file, *verdicts, ("mask", 10, "failed", "another one")), file, None)
    assert page.count("add returns nothing") == 1
    assert "\n                        as above\n" in page


def test_as_above_means_the_message_right_above(file):
    said = [("grid", "one"), ("offsets", "another"), ("mask", "one")]
    page = render(card(file, *((c, 10, "failed", text) for c, text in said)), file, None)
    assert page.count("one\n") == 2
    assert "as above" not in page


def test_an_exception_is_told_once_whatever_the_case(file):
    said = [
        ("grid", "n=1"),
        ("offsets", "n=2"),
        ("mask", ""),
        ("values", "n=3"),
        ("autotune", "n=4"),
    ]
    one = card(file, *((c, 10, "failed", "this waits") for c, _ in said))
    for check, (_, case) in zip(one.checks, said, strict=True):
        if case:
            error = Stops("add(x, y) raises TypeError: no", "robust", 3, case)
            check.stops, check.gist, check.message = True, error.gist, error.message
    page = render(one, file, None)
    assert page.count("raises TypeError") == 1
    assert "TypeError: no (n=1)" in page
    assert page.count("as above\n") == 2  # right below
    assert page.count("as above, see grid\n") == 1  # with something else in between


def test_what_fails_everything_comes_before_any_todo(file):
    verdicts = [
        (c, 10, "failed", "the file does not import", 3) for c in ("grid", "mask", "values")
    ]
    text = step(card(file, *verdicts), file, None)
    assert text.startswith("Next: line 3 of ")


def test_checks_that_were_not_asked_for_are_not_shown(file):
    page = render(
        card(file, ("grid", 20, "not-judged", LEFT_OUT), ("mask", 20, "passed")), file, None
    )
    assert "About grid" not in page
    assert "20 of 40 points (20 left out)" in page
    assert "All that was asked for is right." in page


def test_what_the_file_printed_is_shown_in_short(file):
    output = "\n".join(f"line {n}" for n in range(20))
    page = render(card(file, ("grid", 20, "passed")), file, None, output)
    assert "It printed:\n  | line 0\n" in page
    assert "line 7" not in page


# ---- the next step ------------------------------------------------------------------------------


def step(one, file, lesson=None):
    checks = sorted(one.checks, key=lambda c: report.ORDER.index(c.concept))
    return next_step(one, checks, file, lesson)


def test_the_next_step_points_to_the_todo_of_the_first_failure(file, monkeypatch):
    monkeypatch.chdir(file.parent.parent)
    text = step(card(file, ("mask", 20, "failed", "m", 28), ("grid", 20, "failed", "g")), file)
    assert text == (
        "Next: grid, line 3 of 01_vector_add/kernel.py: enough programs for every element."
    )
    text = step(card(file, ("mask", 20, "failed", "m", 28), ("grid", 20, "passed")), file)
    assert text == "Next: mask, line 6 of 01_vector_add/kernel.py: which lanes exist"


def test_without_a_todo_it_points_to_the_line_and_the_lesson(file, monkeypatch):
    monkeypatch.chdir(file.parent.parent)
    lesson = file.parent / "README.md"
    lesson.write_text("")
    text = step(card(file, ("values", 20, "failed", "v", 34)), file, lesson)
    assert text.startswith("Next: values, line 34 of 01_vector_add/kernel.py. Hints")
    assert "01_vector_add/README.md" in text


@pytest.mark.parametrize(
    ("launches", "said"), [(1, "Next: grid, line 6 of"), (2, "Next: grid, in")]
)
def test_a_grid_at_fault_points_to_the_one_launch(file, monkeypatch, launches, said):
    monkeypatch.chdir(file.parent.parent)
    kernel = "@triton.jit\ndef kernel(x):\n    pass\n\n"
    file.write_text(f"{kernel}def add(x):\n" + "    kernel[(1,)](x)\n" * launches)
    assert step(card(file, ("grid", 20, "failed", "g")), file).startswith(said)


def test_one_of_several_checks_of_a_concept_is_told_from_the_others(file, monkeypatch):
    monkeypatch.chdir(file.parent.parent)
    one = card(file, ("robust", 5, "passed"), ("robust", 5, "failed", "r", 34))
    assert step(one, file).startswith("Next: robust (About robust), line 34 of")


def test_the_learners_own_file_leads_on(file, monkeypatch):
    """To the picture and a hint; once it is right, to the next kata that is not."""
    monkeypatch.chdir(file.parent.parent)
    monkeypatch.setattr(report.progress, "EXERCISES", file.parent.parent)
    kata = file.parent.name
    text = step(card(file, ("grid", 20, "failed", "g")), file)
    assert text.endswith("nox -s show-1 draws your kernel at work.")
    text = step(card(file, ("mask", 20, "passed"), ("values", 20, "failed", "v", 34)), file)
    assert text.endswith("For a hint: nox -s hint-1.")
    broken = [(c, 20, "failed", "it has no add(...)") for c in ("grid", "mask", "values")]
    assert step(card(file, *broken), file) == (
        f"Next: {kata}/kernel.py. Nothing can be judged until it is put right. nox -s reset-1 "
        "brings the stub back and keeps your file."
    )
    second = file.parent.parent / "02_relu"
    second.mkdir()
    (second / "kernel.py").write_text("")
    text = step(card(file, ("grid", 20, "passed")), file)
    assert f"solutions/{kata}/kernel.py" in text
    assert text.endswith("\nNext: kata 2, relu: 02_relu/README.md, then nox -s check-2.")


def test_a_solution_is_not_compared_with_itself(file):
    own = report.progress.solution("01_vector_add")
    assert step(card(file, ("grid", 20, "passed")), own) == "All that can be judged here is right."


def test_what_passed_on_a_few_sizes_is_no_verdict_yet(file):
    few = [("grid", 20, "passed"), ("mask", 20, "failed", "line 6 reads on", 6)]
    page = render(card(file, *few, ("robust", 5, "not-judged", TO_COME)), file, None)
    assert "  ok?   grid   ?/20" in page
    assert "  FAIL  mask   0/20" in page
    assert "robust" not in page
    assert "Next" not in page
    assert "points" not in page


def test_the_end_and_faults_of_the_grader(file):
    assert "is right" in step(card(file, ("grid", 20, "passed")), file)
    assert "doctor" in step(card(file, ("grid", 20, "not-judged", "off")), file)
    assert "fault of the grader" in step(card(file, ("grid", 20, "error", "oops")), file)


def test_todos_of_a_file(file):
    assert todos(file) == [
        (3, "grid", "enough programs for every element."),
        (6, "mask", "which lanes exist"),
    ]
    file.write_bytes(b"\xff\xfe\0# TODO(grid): still found\n")
    assert todos(file) == [(1, "grid", "still found")]
    assert todos(file.parent / "nowhere.py") == []


# ---- colour, first line -------------------------------------------------------------------------


def test_colour_only_for_a_terminal_that_wants_it(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert paint("ok", "passed") == "\x1b[32mok\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("ok", "passed") == "ok"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False, raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    assert paint("ok", "passed") == "ok"
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert paint("ok", "passed") == "\x1b[32mok\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("ok", "passed") == "ok"


def test_the_first_line_names_file_lanes_and_card(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    lanes = {"trace": True, "compile": True, "gpu": False}
    file = tmp_path / "exercises" / "kernel.py"
    line = first_line(file, lanes, None, {"gpu": "no GPU"})
    assert line == "exercises/kernel.py | lanes: trace, compile | no GPU"
    line = first_line(Path("/elsewhere/kernel.py"), lanes | {"gpu": True}, "NVIDIA H200", {})
    assert line == "/elsewhere/kernel.py | lanes: trace, compile, gpu | NVIDIA H200"
    assert "lanes: none" in first_line(file, dict.fromkeys(lanes, False), None, {})


def stopped(file, line, cause="robust"):
    """A scorecard of a file that raises an exception at this line, in whatever is asked of it."""
    names = ("grid", "mask", "values")
    verdicts = card(
        file, *((name, 20, "failed", f"raises NameError (n={name})", line) for name in names)
    )
    for check in verdicts.checks:
        check.stops, check.cause = True, cause
    return verdicts


def test_an_exception_everywhere_is_looked_for_at_its_line(file):
    both = stopped(file, 7)
    told = next_step(both, both.checks, file, None)
    assert told.startswith(f"Next: line 7 of {report.shown(file)}, in TODO(mask).")
    elsewhere = stopped(file, 1)
    told = next_step(elsewhere, elsewhere.checks, file, None)
    assert told.startswith(f"Next: line 1 of {report.shown(file)}. It stops there")


def test_an_exception_about_the_grid_leads_to_the_grid(file):
    about = stopped(file, 9, "grid")
    assert next_step(about, about.checks, file, None).startswith("Next: grid, line 3 of")


def test_an_exception_in_one_check_leaves_the_order_as_it_is(file):
    mixed = stopped(file, 7)
    mixed.checks[0].stops = False
    assert next_step(mixed, mixed.checks, file, None).startswith("Next: grid, line 3 of")
    first = card(file, ("offsets", 20, "failed", "o", 7), ("values", 20, "failed", "v", 8))
    first.checks[0].stops, first.checks[0].cause = True, "robust"
    assert step(first, file).endswith("It stops there, though not at every size.")
