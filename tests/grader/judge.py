"""The judge's side of the worker: start it, send cases, take answers, survive everything.

The judge never imports the file under test. It keeps one nursery process (torch and triton loaded)
and asks it for a child per lane. A child that dies or hangs costs the case it was running; the
next case gets a fresh child.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import wire

TESTS = Path(__file__).resolve().parent.parent
CASE_SECONDS = 20.0  # wall time of one case; a right kernel needs well under a second
HASTY_SECONDS = 3.0  # the same, after the file has shown that it hangs
CARD_SECONDS = 60.0  # wall time of one case on a card, where kernels are compiled and tuned
HASTY_CARD_SECONDS = 20.0  # the same, after a hang; a fresh child opens the card anew
MOST_HANGS = 3  # after so many the remaining cases of a lane are not tried


class Nursery:
    """The process that forks children. Started once, early, so that it loads while pytest does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.scratch = Path(tempfile.mkdtemp(prefix="katas-"))
        self._process: subprocess.Popen | None = None
        atexit.register(self.close)
        self.start()

    def start(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {
            k: v
            for k, v in os.environ.items()
            if k not in ("TRITON_INTERPRET", "PYTHONSTARTUP", "PYTEST_ADDOPTS")
        }
        environment.update(
            PYTHONPATH=os.pathsep.join(
                filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")])
            ),
            OPENBLAS_NUM_THREADS="1",
            OMP_NUM_THREADS="1",
            MKL_NUM_THREADS="1",
            PYTHONDONTWRITEBYTECODE=os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
        )
        self._process = subprocess.Popen(
            [sys.executable, "-m", "grader.worker", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=TESTS,
            start_new_session=True,
        )
        theirs.close()
        self._control = ours

    def spawn(self, lane: str, request: dict) -> tuple[int, socket.socket, int]:
        """A fresh child for a lane: (pid, line to it, file descriptor of its output)."""
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        directory = tempfile.mkdtemp(dir=self.scratch)
        message = json.dumps(request | {"spawn": lane, "directory": directory}).encode()
        with self._lock:
            for attempt in (1, 2):
                try:
                    socket.send_fds(self._control, [message], [theirs.fileno(), out_write])
                    pid = self._answer()["pid"]
                    break
                except (OSError, wire.WireError):
                    if attempt == 2:
                        raise
                    self._control.close()
                    self.start()
        theirs.close()
        os.close(out_write)
        return pid, ours, out_read

    def end(self, pid: int) -> int | None:
        """End a child and everything it started; its wait status, None if the nursery is gone."""
        with self._lock:
            try:
                self._control.sendall(json.dumps({"end": pid}).encode())
                return self._answer()["status"]
            except (OSError, wire.WireError):
                self._control.close()
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
                self.start()
                return None

    def _answer(self) -> dict:
        data = self._control.recv(1 << 16)
        if not data:
            raise wire.WireError("the nursery is gone")
        return json.loads(data)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._control.close()
        if self._process is not None:
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
        shutil.rmtree(self.scratch, ignore_errors=True)


@dataclass
class Answer:
    """What came back for one case: `facts` and raw blobs, or how the child came to its end."""

    facts: dict
    blobs: list = field(default_factory=list)
    output: str = ""

    @property
    def error(self) -> dict | None:
        return self.facts.get("error")


class Child:
    """One lane's child for one file, replaced whenever it dies."""

    def __init__(self, nursery: Nursery, lane: str, request: dict[str, Any]):
        self.nursery, self.lane, self.request = nursery, lane, request
        self.pid: int | None = None
        self.hangs = 0
        self.load_error: dict | None = None
        self.parameters: list[str] | None = None

    def _start(self) -> None:
        self.pid, self.line, self.output_fd = self.nursery.spawn(self.lane, self.request)
        self.output = _Drain(self.output_fd)
        try:
            loaded, _ = self._receive(self._patience(60.0))
        except (TimeoutError, wire.WireError) as error:
            self.load_error = self._died(error)
            return
        self.load_error = loaded.get("error")
        self.parameters = loaded.get("parameters")
        if self.load_error is not None:
            self.stop()

    def call(self, message: dict, blobs: list, seconds: float = CASE_SECONDS) -> Answer:
        """Run one case. Whatever the file under test does, an Answer comes back."""
        if self.load_error is not None:
            return Answer({"error": self.load_error})
        if self.hangs >= MOST_HANGS:
            return Answer({"error": {"where": "hang", "type": "Hang", "message": "", "line": None}})
        if self.pid is None:
            self._start()
            if self.load_error is not None:
                return Answer({"error": self.load_error})
        try:
            wire.send(self.line, message, blobs)
            facts, data = self._receive(self._patience(seconds))
            error = facts.get("error")
            if isinstance(error, dict) and error.get("fatal"):
                self.stop()  # its link to the card is broken: the next case gets a fresh child
            return Answer(facts, data, self.output.text())
        except (TimeoutError, wire.WireError, OSError) as error:
            return Answer({"error": self._died(error)}, output=self.output.text())

    def _patience(self, seconds: float) -> float:
        hasty = HASTY_CARD_SECONDS if self.lane in ("gpu", "speed") else HASTY_SECONDS
        return min(seconds, hasty) if self.hangs else seconds

    def _receive(self, seconds: float) -> tuple[dict, list]:
        """One message within `seconds` in all (not per packet); raises TimeoutError."""
        deadline = time.monotonic() + seconds

        class Timed:
            def recv_into(inner, view):
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self.line.settimeout(left)
                return self.line.recv_into(view)

        return wire.receive(Timed())  # type: ignore[arg-type]

    def _died(self, error: Exception) -> dict:
        """The child is ended; how it came to that, as an error description."""
        hang = isinstance(error, TimeoutError)
        status = self.stop()
        if hang:
            self.hangs += 1
            return {"where": "hang", "type": "Hang", "message": "", "line": None}
        fact = {"where": "crash", "type": "Crash", "message": "", "line": None}
        if status is None:
            return fact | {"message": "the supervising process was killed"}
        if os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            return fact | {"message": f"killed by {name}"}
        return fact | {"message": f"left with exit code {os.WEXITSTATUS(status)}"}

    def stop(self) -> int | None:
        """End the child; the wait status if there was one."""
        if self.pid is None:
            return None
        with contextlib.suppress(OSError):
            self.line.close()
        status = self.nursery.end(self.pid)
        self.output.close()
        self.pid = None
        return status


class _Drain:
    """Reads a child's output so that it never blocks, and keeps the first 4,000 bytes."""

    def __init__(self, fd: int):
        self.fd, self.kept, self.total = fd, bytearray(), 0
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        while True:
            try:
                ready, _, _ = select.select([self.fd], [], [], 1.0)
                if not ready:
                    continue
                data = os.read(self.fd, 1 << 16)
            except (OSError, ValueError):
                return
            if not data:
                return
            self.total += len(data)
            if len(self.kept) < 4000:
                self.kept += data[: 4000 - len(self.kept)]

    def text(self) -> str:
        return self.kept.decode(errors="replace")

    def close(self) -> None:
        self._thread.join(0.5)
        with contextlib.suppress(OSError):
            os.close(self.fd)
