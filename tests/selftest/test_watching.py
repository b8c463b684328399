"""`nox -s watch` in a terminal: saves of every kind, keys, and what is on the page."""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

pytest.importorskip("watchfiles")

from grader import progress, stubs, watching
from grader.stubs import as_shipped
from grader.warm import WarmJudge
from terminal import watch_in

PROJECT = Path(__file__).resolve().parents[2]
ADD, RELU = "01_vector_add", "02_relu"


def solution(kata: str) -> str:
    return (PROJECT / "solutions" / kata / "kernel.py").read_text()


@pytest.fixture(scope="module")
def watch(tmp_path_factory):
    """A watch of kata 1 in a terminal, with the verdict on its stub."""
    screen = watch_in(as_shipped(tmp_path_factory.mktemp("project")))
    screen.wait("Next: kata 1, vector_add[^$]*q quit")  # at once, while the judge is being loaded
    screen.wait("0 of 100 points")
    yield screen
    screen.press("q")
    assert screen.end() == 0


def whole(watch, text: str) -> str:
    """The page that holds this text, down to the keys in its last line: a page comes in pieces."""
    return watch.wait(f"(?s)(?:{text}).*q quit")


def save(watch, text: str, kata: str = ADD) -> None:
    watch.forget()
    (watch.folder / kata / "kernel.py").write_text(text)


def test_a_save_shows_checking_and_then_the_verdict(watch):
    save(watch, solution(ADD).replace("x + y", "x - y"))
    watch.wait("checking")
    page = whole(watch, "These are the numbers of x - y")
    assert page.rstrip().endswith("q quit")
    watch.wait(r"\d+ of 100 points")


def test_a_pass_congratulates_and_points_on(watch):
    save(watch, solution(ADD))
    page = whole(watch, "Well done!")
    assert "solutions/01_vector_add/kernel.py" in page
    assert "Press n for kata 2, relu" in " ".join(page.split())
    assert '"solved": true' in (watch.folder.parent / ".katas" / "progress.json").read_text()


def test_syntax_errors_and_half_saved_files(watch):
    text = solution(ADD)
    save(watch, text[: text.index("mask=mask") + 4])
    watch.wait("SyntaxError")
    save(watch, "")
    watch.wait("has no function add")
    save(watch, text)
    watch.wait("Well done!")


def test_an_editor_that_replaces_the_file(watch):
    file = watch.folder / ADD / "kernel.py"
    part = file.with_name(".kernel.py.swp")
    part.write_text(solution(ADD).replace("x + y", "x * y"))
    watch.forget()
    file.rename(file.with_name("kernel.py~"))
    os.replace(part, file)
    watch.wait(r"These are the numbers of x \* y")


def test_a_deleted_file_is_said_and_comes_back(watch):
    watch.forget()
    (watch.folder / ADD / "kernel.py").unlink()
    assert "reset-1" in whole(watch, "is gone")
    save(watch, solution(ADD))
    watch.wait("Well done!")


def test_a_folder_that_is_gone_is_said_and_comes_back(watch):
    folder, away = watch.folder / ADD, watch.folder.parent / "away"
    watch.forget()
    folder.rename(away)
    assert "reset-1" in whole(watch, "is gone")
    watch.press("h")
    whole(watch, "There is no exercises/01_vector_add/kernel.py")
    watch.forget()
    away.rename(folder)
    watch.wait("of 100 points")


def test_an_endless_loop_does_not_hold_up_the_next_save(watch):
    hanging = solution(ADD).replace("    out = torch.empty_like(x)", "    while True: pass")
    assert "while True" in hanging
    save(watch, hanging)
    watch.wait("checking")
    time.sleep(0.5)
    start = time.monotonic()
    save(watch, solution(ADD).replace("x + y", "x - y"))
    watch.wait("These are the numbers of x - y")
    assert time.monotonic() - start < 15  # a case of the loop alone has 20 s of processor time


def test_a_save_of_another_kata_turns_to_it(watch):
    stub = (watch.folder / RELU / "kernel.py").read_text()
    save(watch, stub, RELU)
    assert "kata 2, relu" in whole(watch, "of 100 points")


def test_hints_stay_on_the_page(watch):
    watch.press("r")
    watch.wait("checking")
    watch.press("h")
    watch.wait("Hint 1 of 3")
    page = whole(watch, "checked: .* r shows more|Hint 1 of 3")
    watch.press("h")
    watch.wait("Hint 2 of 3")
    assert "q quit" in page


def test_next_names_the_lesson(watch):
    watch.press("n")
    page = whole(watch, "Next: kata 3")
    assert "exercises/03_scale/README.md" in page
    save(watch, solution(ADD).replace("x + y", "x - y"))
    watch.wait("of 100 points")


def test_show_draws_the_picture_and_says_where_it_is(watch):
    watch.press("s")
    watch.wait(r"01_vector_add\.html")
    assert (watch.folder.parent / ".katas" / "show" / "01_vector_add.html").is_file()


@pytest.mark.parametrize("solved_but_for", ["the sum", "everything"])
def test_a_narrow_and_short_terminal(watch, solved_but_for):
    watch.resize(50, 24)
    wrong = solution(ADD).replace("x + y", "x - y")
    save(watch, wrong if solved_but_for == "the sum" else stubs.shipped(ADD).read_text())
    page = whole(watch, "of 100 points")
    lines = page.rstrip("\n").splitlines()
    assert max(map(len, lines)) <= 50
    assert len(lines) < 24
    assert lines[-1].rstrip().endswith("q quit")
    assert "Next:" in page


def test_ctrl_c_ends_it_at_once_and_the_terminal_is_as_before(watch):
    other = watch_in(watch.folder.parent, "2")
    before = termios.tcgetattr(other.fd)
    other.wait("loading PyTorch")
    other.press("\x03")
    assert other.end(close=False) == 0
    assert "Traceback" not in other.raw
    assert termios.tcgetattr(other.fd) == before
    os.close(other.fd)


def test_what_fails_at_first_fails_for_the_same_reason_in_the_end(nursery):
    """What passes at first may fail yet, so nothing is said of it: offsets, in this stub."""
    judge = WarmJudge({"trace": True, "compile": False, "gpu": False}, nursery)
    file = stubs.shipped("04_bias_gelu")
    first, whole = judge.verdicts("04_bias_gelu", file, judge.begin())
    assert (first.whole, whole.whole) == (False, True)
    at_first, at_last = ({c.id: c for c in verdict.card.checks} for verdict in (first, whole))
    failed = [check for check in at_first.values() if check.status == "failed"]
    assert failed
    for check in failed:
        assert not check.waits
        assert check.as_json() == at_last[check.id].as_json()
    assert at_first["offsets"].status == "passed"
    assert at_last["offsets"].status == "failed"
    page = watching.page_of(first, file)
    assert re.search(r"^  ok\?   offsets", page, flags=re.M)
    assert "Next" not in page


def test_without_a_terminal_it_is_one_line_and_exit_2():
    environment = os.environ | {"PYTHONPATH": str(PROJECT / "tests")}
    done = subprocess.run(
        [sys.executable, "-m", "grader.watching", "3"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"watch needs a terminal; .*check-3 checks once\n", done.stderr)


def test_a_lesson_that_is_gone_does_not_end_the_watch(monkeypatch):
    page = progress.EXERCISES / ADD / "README.md"

    def show(*_, **__):
        raise FileNotFoundError(2, "No such file or directory", str(page))

    monkeypatch.setattr(watching.clues, "show", show)
    drawn: list[str] = []
    assert watching.Watch(ADD, drawn.append, queue.SimpleQueue()).key("h")
    assert "exercises/01_vector_add/README.md cannot be read" in drawn[-1]


@pytest.mark.parametrize("words", [["99"], ["1", "2"]])
def test_bad_words_are_one_line_and_exit_2(capsys, words):
    with pytest.raises(SystemExit) as stopped:
        watching.main(words)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_long_page_keeps_what_is_wrong():
    report = [
        "  ok    grid  20/20  Enough.",
        "  ok?   robust ?/5  Any size.",
        "  FAIL  mask  0/20  Stays inside.",
    ]
    report += [" " * 24 + f"line {n}" for n in range(6)] + ["", "1: 20 of 40", "Next: mask"]
    assert watching.fitted(report, 20) == report
    assert watching.fitted(report, 10) == report[2:]
    short = watching.fitted(report, 6)
    assert len(short) == 6
    assert short[0] == report[2]
    assert short[-1] == "Next: mask"
