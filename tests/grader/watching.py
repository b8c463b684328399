"""`nox -s watch`: check a kata again at every save, in one terminal: `python -m grader.watching [N]`.

Four threads give what they have to one queue, and one loop alone acts and draws: files that were
saved (watchfiles), keys, verdicts (`warm`), and what a command that a key started has said.

The judge is loaded while the first page is already there. A save clears the page and says
"checking..." at once; a verdict that is still growing says so. Without a terminal there is nothing
to watch: one line, exit code 2.
"""

from __future__ import annotations

import contextlib
import os
import queue
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import clues, progress, status
from .judge import Nursery
from .loading import uncollected
from .progress import command, kata_of
from .words import speak, wrapped

STEP_MS, MOST_MS = 20, 100  # a burst of changes is one save: no other within, all in all
GONE_SECONDS = 0.3  # an editor that replaces a file may leave none for a moment
KEYS = {"h": "hint", "n": "next", "s": "show", "r": "run", "q": "quit"}
CLEAR = "\x1b[H\x1b[2J"
LOADING = "loading PyTorch and Triton..."
VERDICT_LINE = re.compile(r"(\x1b\[\d+m)?  (ok\??|--) ")

Event = tuple[str, Any]


class Terminal:
    """The keyboard without Enter and the page; as it was before, at the end."""

    def __init__(self) -> None:
        import termios
        import tty

        self._termios, self._tty = termios, tty
        self.fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self.fd)
        self.ready()

    def ready(self) -> None:
        """Take keys one by one (again, after the shell had the terminal)."""
        self._tty.setcbreak(self.fd)

    def close(self) -> None:
        with contextlib.suppress(OSError, self._termios.error):
            self._termios.tcsetattr(self.fd, self._termios.TCSADRAIN, self._before)

    def draw(self, text: str) -> None:
        """A new page in place of the old one, in one go."""
        clear = "\n\n" if os.environ.get("TERM") == "dumb" else CLEAR
        with contextlib.suppress(OSError):
            sys.stdout.write(clear + text + "\n")
            sys.stdout.flush()


class Watch:
    """What is on the page, and what each event makes of it. All of it in one thread."""

    def __init__(self, kata: str, draw: Callable[[str], None], events: queue.SimpleQueue[Event]):
        self.kata, self._draw, self.events = kata, draw, events
        self.judge: Any = None  # comes as soon as it is loaded
        self.jobs: queue.Queue[tuple[str, int] | None] = queue.Queue()
        self.turn = 0
        self.reading = False  # something that a verdict must not wipe away: a hint, say
        row = next(row for row in status.rows() if row.kata == kata)
        self.state = LOADING
        self.body: str | Callable[[], str] = lambda: "\n".join(status.what_now(row))

    # ---- events --------------------------------------------------------------------------------

    def handle(self, kind: str, what: Any) -> bool:
        """Act on one event; False if that was the last one."""
        if kind == "key":
            return self.key(what)
        if kind == "saved" and (what == self.file or is_exercise(what)):
            self.kata = what.parent.name
            self.check()
        elif kind == "loaded":
            self.judge = what
            if self.reading:
                self.show("r checks it", self.body)
            else:
                self.check()
        elif kind == "verdict" and what[0] == self.turn:
            self.verdict(what[1])
        elif kind == "said" and what[0] == self.turn:
            self.read(what[1])
        elif kind == "again":
            self.draw()
        elif kind == "broken":
            self.show("the judge does not start", what)
        elif kind == "end":
            return False
        return True

    def key(self, key: str) -> bool:
        if key == "q":
            return False
        if key == "r":
            self.check()
        elif key == "h":
            self.hint()
        elif key == "n":
            self.following()
        elif key == "s":
            self.start("making the picture...", "grader.show")
        return True

    @property
    def number(self) -> int:
        return int(self.kata[:2])

    @property
    def file(self) -> Path:
        return progress.EXERCISES / self.kata / "kernel.py"

    def check(self) -> None:
        """Have the file checked, from the beginning."""
        self.reading = False
        if self.judge is None:
            self.show(LOADING, self.body)
            return
        self.turn = self.judge.begin()
        self.show("checking...", "")
        self.jobs.put((self.kata, self.turn))

    def verdict(self, verdict: Any) -> None:
        """Show what is known, and put it on record if that is all."""
        if verdict is None:
            text = f"{progress.shown(self.file)} is gone. Save it again"
            self.show("", wrapped(f"{text}, or {command()} -s reset-{self.number}."))
            return
        if verdict.whole:
            progress.record(verdict.card, verdict.speed)
        if self.reading:
            if verdict.whole:
                card = verdict.card
                points = f"{card.score} of {card.max_score} points"
                self.show(f"checked: {points}; r shows more", self.body)
            return
        failed = any(check.status == "failed" for check in verdict.card.checks)
        state = "checking the rest..." if failed else "right so far, checking the rest..."

        def page() -> str:
            end = verdict.whole and verdict.card.success
            return page_of(verdict, self.file) + (self.congratulations() if end else "")

        self.show("" if verdict.whole else state, page)

    def congratulations(self) -> str:
        row = status.following(status.rows(), self.number)
        more = f" Press n for kata {row.number}, {row.kata[3:]}." if row else ""
        return "\n\n" + wrapped(f"Well done!{more}")

    def hint(self) -> None:
        """Show the next hint, or why there is none."""
        try:
            self.read(clues.show(self.kata, again="h", draw="s"))
        except OSError as error:
            self.read(wrapped(clues.unread(error)))

    def following(self) -> None:
        """Turn to the next unsolved kata."""
        row = status.following(status.rows(), self.number)
        if row is None:
            self.read(status.all_done())
            return
        if self.judge is not None:
            self.turn = self.judge.begin()
        self.kata = row.kata
        self.read(lambda: "\n".join(status.what_now(row)))

    def start(self, state: str, module: str) -> None:
        """Have another command at work on this kata, and show what it says."""
        if self.judge is not None:
            self.turn = self.judge.begin()
        self.show(state, "")
        words, turn = [sys.executable, "-m", module, str(self.number)], self.turn

        def wait() -> None:
            self.events.put(("said", (turn, said_by(words))))

        threading.Thread(target=wait, daemon=True).start()

    # ---- the page ------------------------------------------------------------------------------

    def read(self, body: str | Callable[[], str]) -> None:
        """Show something that stays until the next save or key."""
        self.reading = True
        self.show("" if self.judge is not None else LOADING, body)

    def show(self, state: str, body: str | Callable[[], str]) -> None:
        """A new page. A function gives the body anew when the terminal has changed its size."""
        self.state, self.body = state, body
        self.draw()

    def draw(self) -> None:
        """The page for this terminal: a head, the body as far as there is room, the keys."""
        size = shutil.get_terminal_size((80, 24))
        head = wrapped(f"kata {self.number}, {self.kata[3:]} | {progress.shown(self.file)}")
        lines = head.splitlines() + ([self.state] if self.state else [])
        keys = wrapped("   ".join(f"{key} {what}" for key, what in KEYS.items()))
        room = size.lines - len(lines) - len(keys.splitlines()) - 3
        text = self.body if isinstance(self.body, str) else self.body()
        body = fitted(text.strip("\n").splitlines(), room)
        self._draw("\n".join([*lines, "", *body, "", keys]))


def is_exercise(file: Path) -> bool:
    """Is it a kata's kernel.py, and not one of a bug hunt?"""
    here = file.parent.parent.resolve() == progress.EXERCISES.resolve()
    return here and file.parent.name in progress.katas().values()


def page_of(verdict: Any, file: Path) -> str:
    """The report, as a check prints it."""
    from .report import render

    lesson = file.with_name("README.md")
    return render(verdict.card, file, lesson, verdict.printed, verdict.cost or ())


def fitted(lines: list[str], room: int) -> list[str]:
    """Lines for a page of so many: what is right goes first, then what is in the middle.

    The last paragraph, with the score and what is next, stays whole if it can.
    """
    if len(lines) <= room:
        return lines
    lines = "\n".join(without_passed(lines)).strip("\n").splitlines()
    if len(lines) <= room or room < 4:
        return lines
    paragraph = lines[::-1].index("") if "" in lines else 0
    last = lines[-(paragraph if 0 < paragraph <= room - 3 else room // 3) :]
    first = lines[: room - len(last) - 1]
    return [*first, f"  ... {len(lines) - len(first) - len(last)} lines more ...", *last]


def without_passed(lines: list[str]) -> list[str]:
    """A report without what is right and what cannot be judged here."""
    out, skip = [], False
    for line in lines:
        if VERDICT_LINE.match(line):
            skip = True
        elif not line.startswith(" " * 8):
            skip = False
        if not skip:
            out.append(line)
    return out


def said_by(words: list[str]) -> str:
    """What a command prints; nox's own remarks left out."""
    try:
        done = subprocess.run(
            words, cwd=progress.PROJECT, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
    except OSError as error:
        return f"{shlex.join(words)}: {error.strerror or error}"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return "\n".join([x for x in lines if not x.startswith("nox > ")] or lines)


# ---- the threads -----------------------------------------------------------------------------


def read_keys(fd: int, events: queue.SimpleQueue[Event], over: threading.Event) -> None:
    """Keys, one event each; the end of the input is the end of the watch."""
    while not over.is_set():
        try:
            if not select.select([fd], [], [], 0.5)[0]:
                continue
            data = os.read(fd, 1)
        except OSError:
            data = b""
        if not data:
            events.put(("end", None))
            return
        events.put(("key", data.decode(errors="replace").lower()))


def read_files(events: queue.SimpleQueue[Event], over: threading.Event) -> None:
    """Every kernel.py below exercises/ that was saved, replaced or deleted, alone or with its folder."""
    import watchfiles

    for changes in watchfiles.watch(
        progress.EXERCISES,
        watch_filter=lambda change, path: kernel_at(Path(path), change.name) is not None,
        step=STEP_MS,
        debounce=MOST_MS,
        stop_event=over,
        raise_interrupt=False,
    ):
        for file in {kernel_at(Path(path), change.name) for change, path in changes}:
            events.put(("saved", file))


def kernel_at(path: Path, change: str) -> Path | None:
    """The kernel.py that a change of this path concerns: itself, or that of a folder that came or went."""
    if path.name == "kernel.py":
        return path
    folder = path.parent == progress.EXERCISES and change != "modified"
    return path / "kernel.py" if folder else None


def load(events: queue.SimpleQueue[Event], nursery: Nursery) -> None:
    """The judge, which takes some seconds: torch, triton and the suites."""
    try:
        with uncollected():
            from .plugin import choose_lanes
            from .warm import WarmJudge

        lanes, _, _ = choose_lanes(None)
        events.put(("loaded", WarmJudge(lanes, nursery)))
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        events.put(("broken", wrapped(f"{text}. {command()} -s doctor may know why.")))


def judge_files(watch: Watch) -> None:
    """Take what is to be checked, the latest alone, and tell what comes of it."""
    while (job := watch.jobs.get()) is not None:
        kata, turn = job
        if turn != watch.turn:
            continue
        file = progress.EXERCISES / kata / "kernel.py"
        until = time.monotonic() + GONE_SECONDS
        while not file.is_file() and time.monotonic() < until:
            time.sleep(0.02)
        if not file.is_file():
            watch.events.put(("verdict", (turn, None)))
            continue
        try:
            for verdict in watch.judge.verdicts(kata, file, turn):
                here = file.is_file()  # or it was deleted in the meantime
                watch.events.put(("verdict", (turn, verdict if here else None)))
        except Exception as error:
            if not file.is_file():  # deleted in the meantime
                watch.events.put(("verdict", (turn, None)))
            else:
                text = f"The grader failed: {type(error).__name__}: {error}. Press r to try again."
                watch.events.put(("said", (turn, wrapped(text))))


def watch(kata: str, terminal: Terminal) -> None:
    """Watch until q, Ctrl-C or the end of the terminal."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()  # signals may put, too
    page = Watch(kata, terminal.draw, events)
    over = threading.Event()

    def back(number, frame) -> None:  # the shell had the terminal
        terminal.ready()
        events.put(("again", None))

    signal.signal(signal.SIGCONT, back)
    signal.signal(signal.SIGWINCH, lambda number, frame: events.put(("again", None)))
    for quit_ in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(quit_, lambda number, frame: events.put(("end", None)))
    page.draw()
    nursery = Nursery()  # loads torch while this process does
    work: list[tuple[Callable, tuple]] = [(read_keys, (terminal.fd, events, over))]
    work += [(read_files, (events, over)), (load, (events, nursery)), (judge_files, (page,))]
    threads = [threading.Thread(target=f, args=given, daemon=True) for f, given in work]
    for thread in threads:
        thread.start()
    try:
        while page.handle(*events.get()):
            pass
    finally:
        over.set()
        page.jobs.put(None)
        if page.judge is not None:
            page.judge.close()
        nursery.close()


def first_kata() -> str:
    """The kata to begin with: the next to be solved, or else the first."""
    row = status.following(status.rows())
    return row.kata if row else next(iter(progress.katas().values()))


def main(words: list[str]) -> int:
    if len(words) > 1:
        progress.stop("watch takes one kata at most, such as 3; a save of another one turns to it")
    if not progress.katas():
        progress.stop("There is no kata in exercises/.")
    kata = kata_of(words[0]) if words else first_kata()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        text = f"watch needs a terminal; {command()} -s check-{int(kata[:2])} checks once"
        progress.stop(text)
    try:
        import watchfiles  # noqa: F401
    except ImportError:
        progress.stop(f"watch needs watchfiles: {sys.executable} -m pip install watchfiles")
    terminal = Terminal()
    try:
        watch(kata, terminal)
    finally:
        terminal.close()
    sys.stdout.write("\n")
    sys.stdout.flush()
    os._exit(0)  # what threads still do is over: unloading torch would take a second


if __name__ == "__main__":
    speak(main, sys.argv[1:])
