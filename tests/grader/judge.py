"""The judge's side of the worker: start it, send cases, take answers, survive everything.

The judge never imports the file under test. It keeps one nursery process (torch and triton loaded)
and asks it for a child per lane. A child that dies or hangs costs the case it was running; the
next case gets a fresh child.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import secrets
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from . import wire
from .answers import error_of, plain, sound, sound_beside_error
from .cell import HOME, Limits
from .processes import family_time, is_ending
from .sandbox import Sandbox, packed, source_of

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
HELD_AGAINST = ("suite", "reference")  # files that the speed lane needs besides the one under test
CREDENTIALS = struct.Struct("3i")  # pid, uid, gid as the kernel tells them
FORGED = ("it answers what nobody asked", "what it answers makes no sense")
MOST_BYTES, MOST_TIMES = 64 << 20, 8  # of an answer: so many, and so many times what was sent
DYING_SECONDS = 1.0  # for a child whose line is closed to come to its end, and to be asked how
KILL_SECONDS = 0.1  # the same, of one that hangs
MOST_REMARKS = 10_000  # of a child, ahead of one answer
MOST_HANGS = 3  # after so many the remaining cases of a lane are not tried
MOST_CRASHES = 5  # the same, if not one case got through

# Bubblewrap ends when the thread that started it does: so one that lives as long as this process.
_starter = ThreadPoolExecutor(1, thread_name_prefix="starter")


def _after_fork() -> None:
    """Threads do not come along into a forked process, which then needs one of its own."""
    global _starter
    _starter = ThreadPoolExecutor(1, thread_name_prefix="starter")


os.register_at_fork(after_in_child=_after_fork)


class Ended(NamedTuple):
    """How a child came to its end: wait status (None: the nursery is gone), whether it still ran.

    Of one in the sandbox: the limit that it went beyond, the names of processes that it left, and
    why the sandbox could not be built.
    """

    status: int | None
    alive: bool
    limit: str = ""
    left: tuple[str, ...] = ()
    trouble: str = ""


class Nursery:
    """The process that forks children. Started once, early, so that it loads while pytest does.

    `sandbox`: what it and its children are locked up in; `limits`: what each file may use. Without
    them it is as fast as can be, for a learner who runs their own file.
    """

    def __init__(self, sandbox: Sandbox | None = None, limits: Limits | None = None) -> None:
        self.sandbox = sandbox
        self.limits = Limits() if sandbox is not None and limits is None else limits
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
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")])
        )
        settings = {"scratch": self._scratch, "cells": False, "limits": None}
        if self.limits is not None:
            settings["limits"] = asdict(self.limits)
        command = ["-m", "grader.worker", str(theirs.fileno())]
        if self.sandbox is None:
            command = [sys.executable, *command, json.dumps(settings)]
        else:
            environment = self.sandbox.environment()
            settings |= {"scratch": HOME, "cells": True}
            command = self.sandbox.command(*command, json.dumps(settings))
        environment.update(
            OPENBLAS_NUM_THREADS="1",
            OMP_NUM_THREADS="1",
            MKL_NUM_THREADS="1",
            PYTHONDONTWRITEBYTECODE=os.environ.get("PYTHONDONTWRITEBYTECODE", ""),
        )
        start = functools.partial(
            subprocess.Popen,
            command,
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd=TESTS,
            start_new_session=True,
        )
        self._process = start() if self.sandbox is None else _starter.submit(start).result()
        theirs.close()
        ours.settimeout(1)
        self._control, self._ready = ours, False

    def spawn(
        self, lane: str, request: dict, contents: dict[str, bytes] | None = None
    ) -> tuple[int, socket.socket, int]:
        """A fresh child for a lane: (pid, line to it, file descriptor of its output).

        `contents`: texts that it gets in the sandbox, where it sees no file of ours. Raises OSError or
        WireError when no process can be started.
        """
        ours, theirs = socket.socketpair()
        out_read, out_write = os.pipe()
        handed = [] if contents is None else [packed(contents)]
        try:
            if handed:
                ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # see `Child._greet`
            with self._lock:
                for attempt in (1, 2):
                    if self._closed:
                        raise wire.WireError("the judge has finished")
                    try:
                        message = json.dumps(request | {"spawn": lane}).encode()
                        socket.send_fds(
                            self._control, [message], [theirs.fileno(), out_write, *handed]
                        )
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
            for each in (out_write, *handed):
                os.close(each)

    def end(self, pid: int, births: int, patience: float = KILL_SECONDS) -> Ended:
        """End a child and everything it started.

        `births`: how often the nursery had been started when it forked the child; `patience`: seconds
        in which it may come to its end by itself.
        """
        with self._lock:
            if births == self.births and not self._closed:
                try:
                    self._control.sendall(json.dumps({"end": pid, "patience": patience}).encode())
                    answer = self._answer()
                    return Ended(
                        answer["status"],
                        answer["alive"],
                        answer.get("limit", ""),
                        tuple(plain(answer.get("left", []))),
                        answer.get("error", ""),
                    )
                except (OSError, wire.WireError):
                    self.start()
            if self.sandbox is None:  # in there pids are others, and all is gone with the nursery
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            return Ended(None, True)

    def lost(self, births: int) -> bool:
        """Whether the process that forked a child then is gone, or has been killed."""
        return births != self.births or self._process is None or is_ending(self._process.pid)

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

    def __init__(
        self,
        nursery: Nursery,
        lane: str,
        request: dict[str, Any],
        until: float | None = None,
        flag: Callable[[str, str], None] | None = None,
    ):
        """`until`: when its time is up (time.monotonic()); `flag`: hears what looks like deceit."""
        self.nursery, self.lane, self.request = nursery, lane, request
        self.until, self.flag = until, flag or (lambda flag, evidence: None)
        self.answering: Callable[[socket.socket], None] | None = None  # gets its listening socket
        self.pid: int | None = None
        self.seen_pid: int | None = None  # as this process sees it, if the nursery does otherwise
        self.hangs = self.births = self.crashes = self.answers = 0
        self.most_bytes = MOST_BYTES
        self.output: _Drain | None = None
        self.file = request["file"], 0
        with contextlib.suppress(OSError):
            self.file = request["file"], os.lstat(request["file"]).st_mtime_ns
        self.crash: dict = {}
        self.hang: dict = {"where": "hang", "type": "Hang", "message": "", "line": None}
        self.printed = ""  # the first thing that the file printed, if anything
        self.load_error: dict | None = None
        self.parameters: list[str] | None = None
        self.cancelled = False

    def _start(self) -> dict | None:
        """Get a fresh child that has loaded the file; an error description if it cannot."""
        contents: dict[str, bytes] | None = None
        if self.nursery.sandbox is not None:
            try:
                contents = self._contents()
            except ValueError as error:
                text = {"type": "ValueError", "message": str(error), "line": None}
                self.load_error = {"where": "import"} | text
                return self.load_error
        self.births, self.seen_pid = self.nursery.births, None
        patience = SET_UP_SECONDS if self.lane == "speed" else LOAD_CASES * CASE_SECONDS
        number = secrets.token_hex(8)
        request = self.request | {"seconds": patience, "number": number}
        self.pid, self.line, self.output_fd = self.nursery.spawn(self.lane, request, contents)
        self.births = self.nursery.births
        most = None if self.nursery.limits is None else self.nursery.limits.output
        self.output = _Drain(self.output_fd, most, self.line)
        try:
            self.seen_pid = self.pid if contents is None else self._greet()
            loaded, _ = self._receive(patience)
            if loaded.get("number") != number:
                raise wire.WireError("it answers what nobody asked")
        except (TimeoutError, wire.WireError) as error:
            died = self._died(error) | {"loading": True}
            self.load_error = None if died["where"] == "orphan" else died
            return died
        self.load_error = error_of(loaded, self.lane)
        if self.load_error is not None and self.load_error["where"] == "hang":
            self.load_error["loading"] = True
        parameters = loaded.get("parameters")
        self.parameters = parameters if isinstance(parameters, list) else None
        if self.load_error is not None:
            self._suspect(self.load_error)
            self.stop()
        return self.load_error

    def _contents(self) -> dict[str, bytes]:
        """What the child gets as text: the file under test; for speed, what it is held against."""
        more = {name: Path(self.request[name]) for name in HELD_AGAINST if name in self.request}
        return {"kernel": source_of(Path(self.request["file"]))} | {
            name: path.read_bytes() for name, path in more.items()
        }

    def _greet(self) -> int:
        """The pid of a child in a cell, which only the kernel knows; its listening socket is taken."""
        self.line.settimeout(NURSERY_SECONDS)
        size = socket.CMSG_SPACE(CREDENTIALS.size) + socket.CMSG_SPACE(4)
        said, extra, _, _ = self.line.recvmsg(1, size)
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
        pid = 0
        for level, kind, data in extra:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
                pid = CREDENTIALS.unpack(data)[0]
            elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                listening = socket.socket(fileno=struct.unpack("i", data[:4])[0])
                if self.answering is None:
                    listening.close()
                else:
                    self.answering(listening)
        if said != b"\0" or not pid:
            raise wire.WireError("the sandbox does not answer")
        return pid

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
        self.flag("ends its supervisor", f"in the {self.lane} lane")
        self.load_error = {"where": "crash", "message": text, "line": None, "attack": True}
        return Answer({"error": self.load_error}, output=answer.output)

    def _try(self, message: dict, blobs: list, seconds: float) -> Answer:
        if self.load_error is not None:
            return Answer({"error": self.load_error})
        if self._out_of_time():
            return Answer({"error": self._overdue()})
        if self.hangs >= MOST_HANGS:
            return Answer({"error": self.hang})
        if self.crashes >= MOST_CRASHES and not self.answers:
            return Answer({"error": self.crash})
        if self.pid is None:
            error = self._start()
            if error is not None:
                return Answer({"error": error}, output=self._said())
        patience = self._patience(seconds)
        number = secrets.token_hex(8)
        sent = sum(len(blob) for blob in blobs)
        self.most_bytes = min(MOST_BYTES + MOST_TIMES * sent, wire.MAX_BYTES)
        try:
            self.line.settimeout(patience)
            message = message | {"number": number, "seconds": patience}
            wire.send(self.line, message, blobs)
            tensors = sum("dtype" in spec for spec in message.get("args", ()))
            calls = 2 if "again" in message else 1
            facts, data = self._answer(number, patience, tensors, calls)
            if self.nursery.lost(self.births):  # a quick answer comes before the end of both
                raise wire.WireError("the process that supervises it is gone")
            if "error" in facts:
                error = error_of(facts, self.lane) or {}
                facts["error"] = error
                self._suspect(error)
                if error.get("fatal"):
                    self.stop()  # its link to the card is broken: the next case gets a fresh child
                if error["where"] == "hang":
                    self.stop()
                    self.hangs, self.hang = self.hangs + 1, error
                if error["where"] == "tampering":
                    self.stop()
                    self.load_error = error
            self.answers += 1
            return Answer(facts, data, self._said())
        except (TimeoutError, wire.WireError, OSError) as error:
            return Answer({"error": self._died(error)}, output=self._said())

    def _answer(self, number: str, patience: float, tensors: int, calls: int) -> tuple[dict, list]:
        """The answer to the request of this number, and what was said ahead of it.

        What the recorder sees it says at once: what has been said cannot be taken back, and an
        answer that leaves it out is not believed.
        """
        said: Counter = Counter()
        for _ in range(MOST_REMARKS):
            facts, data = self._receive(patience)
            remark = facts.get("remark")
            if remark == "launched" and self.lane == "compile":
                patience = COMPILE_SECONDS
            elif remark == "reset" and calls:
                said.clear()
                calls -= 1  # each call of the launcher begins with one
            elif remark in ("outside", "hazards"):
                said[remark] += 1
            else:
                break
        if facts.pop("number", None) != number:
            raise wire.WireError("it answers what nobody asked")
        if "error" in facts:
            if not sound_beside_error(self.lane, facts):
                raise wire.WireError("what it answers makes no sense")
        else:
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
        start, used = time.monotonic(), family_time(self.seen_pid)[0]
        child = self

        class Timed:
            def recv_into(inner, view):  # noqa: N805 (self is the child)
                while True:
                    if child._out_of_time():
                        raise TimeoutError
                    waited = time.monotonic() - start
                    left = seconds - waited
                    if left <= 0:
                        spent, runs = family_time(self.seen_pid)
                        ended = waited > 10 * seconds or spent - used > HARD * seconds or not runs
                        # It may have answered, and then fallen asleep, in this very moment.
                        if ended and not select.select([self.line], [], [], 0)[0]:
                            raise TimeoutError
                    if child.until is not None:
                        left = min(left, child.until - time.monotonic())
                    self.line.settimeout(max(left, 0.05))
                    with contextlib.suppress(TimeoutError):
                        return self.line.recv_into(view)

        facts, blobs = wire.receive(Timed(), self.most_bytes)  # type: ignore[arg-type]
        try:
            return plain(facts), blobs
        except ValueError as error:
            raise wire.WireError(f"what it answers makes no sense ({error})") from None

    def _said(self) -> str:
        """What the child has printed so far."""
        return self.output.text() if self.output is not None else ""

    def _out_of_time(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until

    def _overdue(self) -> dict:
        """The error that stands for all that is left when the file's time is up."""
        limits = self.nursery.limits or Limits()
        text = f"all in all it takes longer than {limits.seconds:g} seconds"
        self.flag("limit reached", text)
        self.load_error = {"where": "limit", "type": "Limit", "message": text, "line": None}
        return self.load_error

    def _suspect(self, error: dict) -> None:
        if error["where"] == "tampering":
            self.flag("tampering", "replaces " + (", ".join(error["names"]) or "the grader"))

    def _died(self, error: Exception) -> dict:
        """The child is ended; how it came to that, as an error description."""
        flooded = self.output.flooded if self.output else ""
        ended = self.stop(KILL_SECONDS if isinstance(error, TimeoutError) else DYING_SECONDS)
        if self._out_of_time():
            return self._overdue()
        limit = ended.limit or flooded
        if isinstance(error, TimeoutError) and not limit:
            self.hangs += 1
            return self.hang
        crash = self._crashed(error, ended, limit)
        if crash["where"] == "crash":
            self.crash, self.crashes = crash, self.crashes + 1
        return crash

    def _crashed(self, error: Exception, ended: Ended, limit: str) -> dict:
        fact = {"where": "crash", "type": "Crash", "message": "", "line": None}
        status, alive = ended.status, ended.alive
        if ended.trouble:
            return fact | {"where": "grader", "message": f"the sandbox fails: {ended.trouble}"}
        if status is None:
            return fact | {"where": "orphan", "message": "the process that supervises it is gone"}
        if limit:
            self.flag("limit reached", limit)
            return fact | {"message": limit, "alive": True}
        if isinstance(error, wire.WireError) and str(error).startswith(FORGED):
            self.flag("forged answer", str(error))
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
        pid = self.seen_pid  # in a sandbox, `self.pid` is somebody else's number out here
        if self.pid is not None and pid is not None:  # not reaped before its thread saw it die
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)

    def stop(self, patience: float | None = None) -> Ended:
        """End the child, if there is one. It hears that the line is closed, and may end by itself."""
        if self.pid is None:
            return Ended(None, False)
        with contextlib.suppress(OSError):
            self.line.close()
        ended = self.nursery.end(
            self.pid, self.births, DYING_SECONDS if patience is None else patience
        )
        if self.output is not None:
            self.output.close()
        self.printed = self.printed or self._said()
        self.pid = None
        if ended.left and not ended.limit:
            self.flag("leaves processes behind", ", ".join(ended.left))
        return ended


BROKEN_OFF = 113  # as in `worker`


class _Drain:
    """Reads a child's output so that it never blocks, and keeps the first 4,000 bytes.

    A child that prints more than `most` bytes loses its line to the judge, and so comes to its end.
    """

    def __init__(self, fd: int, most: int | None, line: socket.socket):
        self.fd, self.kept, self._closed = fd, bytearray(), False
        self.most, self._line = most, line
        self.flooded = ""
        self._thread = threading.Thread(target=self._pump, daemon=True)
        self._thread.start()

    def _pump(self) -> None:
        count = 0
        while not self._closed:
            ready, _, _ = select.select([self.fd], [], [], 0.5)
            data = os.read(self.fd, 1 << 16) if ready else None
            if data == b"":
                break
            count += len(data or b"")
            if self.most is not None and count > self.most:
                self.flooded = f"it printed more than {self.most:,} bytes"
                with contextlib.suppress(OSError):
                    self._line.shutdown(socket.SHUT_RDWR)
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
