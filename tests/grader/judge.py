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
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import wire
from .answers import error_of, plain, sound

TESTS = Path(__file__).resolve().parent.parent
# Time for one case; a right kernel needs well under a second. The environment can change it.
CASE_SECONDS = max(float(os.environ.get("KATAS_CASE_SECONDS") or 20), 0.1)
HASTE = 0.15  # the share of it that is left once the file has shown that it hangs
HARD = 1.5  # times that much processor time, and a child that has not stopped itself is stopped
LOAD_CASES = 3  # loading the file may take as long as so many cases
COMPILE_SECONDS = 90.0  # for all that one call of a launcher compiles, once it has come back
NURSERY_SECONDS = 20.0  # for an answer of the nursery, which has nothing to do but to answer
START_SECONDS = 300.0  # for its first one: torch and triton on a slow disk
CARD_SECONDS = 60.0  # wall time of one case on a card, where kernels are compiled and tuned
SET_UP_SECONDS = 240.0  # for the first rounds of timing: inputs, compiling and tuning included
HASTY_CARD_SECONDS = 20.0  # the same, after a hang; a fresh child opens the card anew
MOST_REMARKS = 10_000  # of a child, ahead of one answer
MOST_HANGS = 3  # after so many the remaining cases of a lane are not tried
MOST_CRASHES = 5  # the same, if not one case got through


class Nursery:
    """The process that forks children. Started once, early, so that it loads while pytest does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.alone = threading.Lock()  # held by a child that is tried again by itself
        self.attackers: set[tuple] = set()  # files that have killed this process
        self.births = 0
        self._process: subprocess.Popen | None = None
        self._scratch: str | None = None
        self._closed = False
        atexit.register(self.close)
        self.start()

    def start(self) -> None:
        """Start the process, for the first time or anew."""
        self._remove()
        self.births += 1
        self._scratch = tempfile.mkdtemp(prefix="katas-")
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
            [sys.executable, "-m", "grader.worker", str(theirs.fileno()), self._scratch],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=TESTS,
            start_new_session=True,
        )
        theirs.close()
        ours.settimeout(1)
        self._control, self._ready = ours, False

    def spawn(self, lane: str, request: dict) -> tuple[int, socket.socket, int]:
        """A fresh child for a lane: (pid, line to it, file descriptor of its output).

        Raises OSError or WireError when no process can be started.
        """
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        try:
            with self._lock:
                for attempt in (1, 2):
                    if self._closed:
                        raise wire.WireError("the judge has finished")
                    try:
                        message = json.dumps(request | {"spawn": lane}).encode()
                        socket.send_fds(self._control, [message], [theirs.fileno(), out_write])
                        return self._answer()["pid"], ours, out_read
                    except (OSError, wire.WireError):
                        if attempt == 2:
                            raise
                        self.start()
                raise AssertionError
        except BaseException:
            ours.close()
            os.close(out_read)
            raise
        finally:
            theirs.close()
            os.close(out_write)

    def end(self, pid: int, births: int) -> tuple[int | None, bool]:
        """End a child and everything it started: its wait status, and whether it still ran.

        `births`: how often the nursery had been started when it forked the child. The status is
        None for a child whose nursery is gone.
        """
        with self._lock:
            if births == self.births and not self._closed:
                try:
                    self._control.sendall(json.dumps({"end": pid}).encode())
                    answer = self._answer()
                    return answer["status"], answer["alive"]
                except (OSError, wire.WireError):
                    self.start()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)
            return None, True

    def _answer(self) -> dict:
        until = time.monotonic() + (NURSERY_SECONDS if self._ready else START_SECONDS)
        while True:
            try:
                data = self._control.recv(1 << 16)
                break
            except TimeoutError:
                # A file can stop this process, if not for long.
                if self._process is not None:
                    self._process.send_signal(signal.SIGCONT)
                if time.monotonic() > until:
                    raise
        if not data:
            raise wire.WireError("the process that runs kernels is gone")
        self._ready = True
        return json.loads(data)

    def _remove(self, patience: float = 0) -> None:
        """End the process, with all its children, and remove what they wrote."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                self._control.close()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def close(self) -> None:
        """The end: nothing is started any more."""
        self._closed = True
        self._remove(patience=5)


@dataclass
class Answer:
    """What came back for one case: `facts` and raw blobs, or how the child came to its end."""

    facts: dict
    blobs: list = field(default_factory=list)
    output: str = ""

    @property
    def error(self) -> dict | None:
        return self.facts.get("error")


class Cancelled(Exception):
    """Nobody waits for this answer any more."""


class Child:
    """One lane's child for one file, replaced whenever it dies."""

    def __init__(self, nursery: Nursery, lane: str, request: dict[str, Any]):
        self.nursery, self.lane, self.request = nursery, lane, request
        self.pid: int | None = None
        self.hangs = self.births = self.crashes = self.answers = 0
        self.file = request["file"], os.stat(request["file"]).st_mtime_ns
        self.crash: dict = {}
        self.hang: dict = {"where": "hang", "type": "Hang", "message": "", "line": None}
        self.printed = ""  # the first thing that the file printed, if anything
        self.load_error: dict | None = None
        self.parameters: list[str] | None = None
        self.cancelled = False

    def _start(self) -> dict | None:
        """Get a fresh child that has loaded the file; an error description if it cannot."""
        self.births = self.nursery.births
        patience = SET_UP_SECONDS if self.lane == "speed" else LOAD_CASES * CASE_SECONDS
        request = self.request | {"seconds": patience}
        self.pid, self.line, self.output_fd = self.nursery.spawn(self.lane, request)
        self.births = self.nursery.births
        self.output = _Drain(self.output_fd)
        try:
            loaded, _ = self._receive(patience)
        except (TimeoutError, wire.WireError) as error:
            died = self._died(error) | {"loading": True}
            self.load_error = None if died["where"] == "orphan" else died
            return died
        self.load_error = error_of(loaded)
        if self.load_error is not None and self.load_error["where"] == "hang":
            self.load_error["loading"] = True
        parameters = loaded.get("parameters")
        self.parameters = parameters if isinstance(parameters, list) else None
        if self.load_error is not None:
            self.stop()
        return self.load_error

    def call(self, message: dict, blobs: list, seconds: float | None = None) -> Answer:
        """Run one case. Whatever the file under test does, an Answer comes back.

        Raises Cancelled once `cancel` was called, from another thread.
        """
        if self.cancelled:
            raise Cancelled
        seconds = CASE_SECONDS if seconds is None else seconds
        answer = self._try(message, blobs, seconds)
        if self.cancelled:
            raise Cancelled
        if (answer.error or {}).get("where") != "orphan":
            return answer
        # The nursery was killed, by this file or by another one beside it. Alone, it shows which.
        with self.nursery.alone:
            if self.file not in self.nursery.attackers:
                answer = self._try(message, blobs, seconds)
                if (answer.error or {}).get("where") != "orphan":
                    return answer
                self.nursery.attackers.add(self.file)
        text = "ends the process that supervises it"
        self.load_error = {"where": "crash", "message": text, "line": None, "attack": True}
        return Answer({"error": self.load_error}, output=answer.output)

    def _try(self, message: dict, blobs: list, seconds: float) -> Answer:
        if self.load_error is not None:
            return Answer({"error": self.load_error})
        if self.hangs >= MOST_HANGS:
            return Answer({"error": self.hang})
        if self.crashes >= MOST_CRASHES and not self.answers:
            return Answer({"error": self.crash})
        if self.pid is None:
            error = self._start()
            if error is not None:
                return Answer({"error": error}, output=self.output.text())
        patience = self._patience(seconds)
        number = secrets.token_hex(8)
        try:
            self.line.settimeout(patience)
            message = message | {"number": number, "seconds": patience}
            wire.send(self.line, message, blobs)
            tensors = sum("dtype" in spec for spec in message.get("args", ()))
            facts, data = self._answer(number, patience, tensors)
            if "error" in facts:
                error = error_of(facts) or {}
                facts["error"] = error
                if error.get("fatal"):
                    self.stop()  # its link to the card is broken: the next case gets a fresh child
                if error["where"] == "hang":
                    self.stop()
                    self.hangs, self.hang = self.hangs + 1, error
                if error["where"] == "tampering":
                    self.stop()
                    self.load_error = error
            self.answers += 1
            return Answer(facts, data, self.output.text())
        except (TimeoutError, wire.WireError, OSError) as error:
            return Answer({"error": self._died(error)}, output=self.output.text())

    def _answer(self, number: str, patience: float, tensors: int) -> tuple[dict, list]:
        """The answer to the request of this number, and what was said ahead of it.

        What the recorder sees it says at once: what has been said cannot be taken back, and an
        answer that leaves it out is not believed.
        """
        said: Counter = Counter()
        for _ in range(MOST_REMARKS):
            facts, data = self._receive(patience)
            remark = facts.get("remark")
            if remark == "launched":
                patience = COMPILE_SECONDS
            elif remark == "reset":
                said.clear()
            elif remark in ("outside", "hazards"):
                said[remark] += 1
            else:
                break
        if facts.pop("number", None) != number:
            raise wire.WireError("it answers what nobody asked")
        if "error" not in facts:
            if not sound(self.lane, facts, data, tensors):
                raise wire.WireError("what it answers makes no sense")
            if any(len(facts[key]) < count for key, count in said.items()):
                names = ["the record of what the kernel did"]
                facts["error"] = {"where": "tampering", "names": names}
        return facts, data

    def _patience(self, seconds: float) -> float:
        if not self.hangs:
            return seconds
        card = self.lane in ("gpu", "speed", "card talk")
        return min(seconds, HASTY_CARD_SECONDS if card else max(HASTE * CASE_SECONDS, 0.5))

    def _receive(self, seconds: float) -> tuple[dict, list]:
        """One message within `seconds` in all (not per packet); raises TimeoutError.

        A child stops itself after so much processor time, and can then tell the line that it was
        at. One that only waits for its turn on a busy machine gets up to ten times as long.
        """
        start, used = time.monotonic(), self._processor_time()[0]

        class Timed:
            def recv_into(inner, view):  # noqa: N805 (self is the child)
                while True:
                    waited = time.monotonic() - start
                    left = seconds - waited
                    if left <= 0:
                        spent, runs = self._processor_time()
                        ended = waited > 10 * seconds or spent - used > HARD * seconds or not runs
                        # It may have answered, and then fallen asleep, in this very moment.
                        if ended and not select.select([self.line], [], [], 0)[0]:
                            raise TimeoutError
                    self.line.settimeout(max(left, 0.05))
                    with contextlib.suppress(TimeoutError):
                        return self.line.recv_into(view)

        facts, blobs = wire.receive(Timed())  # type: ignore[arg-type]
        return plain(facts), blobs

    def _processor_time(self) -> tuple[float, bool]:
        """Seconds of processor time that the child has had, and whether it wants more."""
        try:
            stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            return 0.0, False
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), stat[0] in "RD"

    def _died(self, error: Exception) -> dict:
        """The child is ended; how it came to that, as an error description."""
        status, alive = self.stop()
        if isinstance(error, TimeoutError):
            self.hangs += 1
            return self.hang
        crash = self._crashed(error, status, alive)
        if crash["where"] == "crash":
            self.crash, self.crashes = crash, self.crashes + 1
        return crash

    def _crashed(self, error: Exception, status: int | None, alive: bool) -> dict:
        fact = {"where": "crash", "type": "Crash", "message": "", "line": None}
        if status is None:
            return fact | {"where": "orphan", "message": "the process that supervises it is gone"}
        if alive or (os.WIFEXITED(status) and os.WEXITSTATUS(status) == BROKEN_OFF):
            return fact | {"message": str(error), "alive": True}
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            known = number in set(signal.Signals)
            name = signal.Signals(number).name if known else f"signal {number}"
            return fact | {"message": f"it was killed by {name}"}
        return fact | {"message": f"it left with exit code {os.WEXITSTATUS(status)}"}

    def cancel(self) -> None:
        """Break off what the child is doing, from any thread, and let nothing more begin."""
        self.cancelled = True
        pid = self.pid
        if pid is not None:  # not reaped before its own thread has seen it die
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def stop(self) -> tuple[int | None, bool]:
        """End the child: its wait status if there was one, and whether it still ran."""
        if self.pid is None:
            return None, False
        with contextlib.suppress(OSError):
            self.line.close()
        ended = self.nursery.end(self.pid, self.births)
        self.output.close()
        self.printed = self.printed or self.output.text()
        self.pid = None
        return ended


BROKEN_OFF = 113  # as in `worker`


class _Drain:
    """Reads a child's output so that it never blocks, and keeps the first 4,000 bytes."""

    def __init__(self, fd: int):
        self.fd, self.kept, self._closed = fd, bytearray(), False
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        while not self._closed:
            ready, _, _ = select.select([self.fd], [], [], 0.5)
            data = os.read(self.fd, 1 << 16) if ready else None
            if data == b"":
                break
            if data and len(self.kept) < 4000:
                self.kept += data[: 4000 - len(self.kept)]
        os.close(self.fd)

    def text(self) -> str:
        return plain(self.kept.decode(errors="replace"))

    def close(self) -> None:
        """Stop reading; what the child has written by now is still taken in."""
        self._thread.join(0.5)
        self._closed = True
