"""A command in a terminal of its own, as a person sees it: what is on the page, and keys.

What test_watching.py and bench_watching.py share.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

CLEAR = "\x1b[H\x1b[2J"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Screen:
    """Starts a command; `wait` for text on the page, `press` keys, and `end` it."""

    def __init__(self, command: list, cwd: Path, env: dict[str, str], columns=80, lines=60):
        self.fd, theirs = pty.openpty()
        self.resize(columns, lines)
        env = {k: v for k, v in env.items() if k not in ("COLUMNS", "LINES")}
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=env | {"TERM": "xterm"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C is a signal
        )
        os.close(theirs)
        self.raw = ""
        self.folder = cwd

    def resize(self, columns: int, lines: int) -> None:
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, size)

    @property
    def page(self) -> str:
        """What has been drawn since the page was cleared, without colours."""
        return ESCAPES.sub("", self.raw.rpartition(CLEAR)[2]).replace("\r\n", "\n")

    def read(self, seconds: float) -> bool:
        """Take in what is drawn within so many seconds; False at the end of the command."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, 1 << 16)
        except OSError:
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    def wait(self, text: str, seconds: float = 120) -> str:
        """The page as soon as it holds this text (a regular expression); raises TimeoutError."""
        until = time.monotonic() + seconds
        while not re.search(text, self.page, flags=re.M):
            if time.monotonic() > until or not self.read(0.05):
                raise TimeoutError(f"no {text!r} on the page:\n{self.page}")
        return self.page

    def forget(self) -> None:
        """Begin with an empty page, so that `wait` does not find what was there before."""
        self.raw = ""

    def press(self, key: str) -> None:
        self.forget()
        os.write(self.fd, key.encode())

    def end(self, seconds: float = 20, close: bool = True) -> int:
        """The exit code, once it has ended; whatever is left of it after that is killed."""
        until = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < until:
            self.read(0.05)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if close:
            os.close(self.fd)
        return self.process.wait()


def watch_in(root: Path, *words: str) -> Screen:
    """`nox -s watch` in such a copy, on a machine without a GPU."""
    environment = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "KATAS_NOX")}
    environment |= {
        "PYTHONPATH": f"{root / 'tests'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "KATAS_PROGRESS": str(root / ".katas" / "progress.json"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    screen = Screen([sys.executable, "-m", "grader.watching", *words], root, environment)
    screen.folder = root / "exercises"
    return screen
