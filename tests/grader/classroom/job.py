"""A job: the process that judges one unit after another. `python -m grader.classroom.job LINE LIFE`.

It imports the suites and keeps one warm nursery; the submission is imported by the nursery's children
alone. It ends with the grader that started it: LIFE is a pipe that nobody writes to, and that closes.
`Job` is the other side of it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from .. import wire
from ..processes import family_time
from .units import LANES, Unit

TESTS = Path(__file__).resolve().parents[2]
START_SECONDS = 300.0  # until a job says that it is there: torch on a slow disk
MOST_SAID = 1 << 16  # bytes of what a job says that does not come up
GRACE = 30.0  # seconds beyond the limit of a unit, in which the nursery should have ended it


class Dead(Exception):
    """The job is gone, with whatever it was at."""


class NoStart(Exception):
    """No job comes up here, as one line: that is the machine's fault and no submission's."""


class Late(Exception):
    """The job did not answer in time, and was ended."""


# ---- the grader's side -----------------------------------------------------------------------


class Job:
    """A job process. `settings`: sandbox and limits, for `serve`; `cores`: where it may run.

    Raises NoStart if it does not come up, ValueError (one line) if it cannot work as it should.
    """

    def __init__(self, settings: dict, card: str = "", cores: set[int] | None = None):
        self.seconds = float(settings["seconds"])
        self.line, theirs = socket.socketpair()
        ours, self._life = os.pipe()
        environment = os.environ | {"CUDA_VISIBLE_DEVICES": card}
        # Many threads come and go, one a lane: each would keep a heap of its own.
        environment.setdefault("MALLOC_ARENA_MAX", "2")
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(TESTS), os.environ.get("PYTHONPATH", "")])
        )
        words = [sys.executable, "-m", "grader.classroom.job", str(theirs.fileno()), str(ours)]
        if cores:
            words += [",".join(map(str, sorted(cores)))]
        self.process: subprocess.Popen | None = None
        said = os.memfd_create("said", os.MFD_CLOEXEC)  # no disk: that may be what is full
        try:
            self.process = subprocess.Popen(
                words,
                pass_fds=[theirs.fileno(), ours],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said if not os.environ.get("KATAS_DEBUG") else None,
                env=environment,
                cwd=TESTS,
                start_new_session=True,
            )
            theirs.close()
            os.close(ours)
            wire.send(self.line, settings)
            self.hello = self._receive(START_SECONDS)[0]
        except (wire.WireError, OSError) as error:
            self.end()
            last = os.pread(said, MOST_SAID, 0).decode(errors="replace").split("\n")
            reason = next((line for line in last[::-1] if line.strip()), str(error))
            text = f"the process that judges does not start here: {reason.strip()[:200]}"
            raise NoStart(text) from None
        finally:
            os.close(said)
        if "refused" in self.hello:
            self.end()
            raise ValueError(self.hello["refused"])

    def judge(self, unit: Unit, content: bytes, seed: str) -> dict:
        """The record of a unit. Raises Dead or Late; then the job has been ended."""
        asked = {"kata": unit.kata, "part": unit.part, "whole": unit.whole, "seed": seed}
        return self._ask(asked, [content], self.seconds + GRACE)

    def outline(self, kata: str) -> dict:
        """What a kata's suite asks for: its checks, and whether it is an agent."""
        return self._ask({"outline": kata}, [], START_SECONDS)

    def _ask(self, message: dict, blobs: list[bytes], seconds: float) -> dict:
        try:
            wire.send(self.line, message, blobs)
            return self._receive(seconds)[0]
        except TimeoutError:
            self.end()
            raise Late from None
        except (wire.WireError, OSError) as error:
            self.end()
            raise Dead(str(error)) from None

    def _receive(self, seconds: float) -> tuple[dict, list]:
        self.line.settimeout(seconds)
        return wire.receive(self.line)

    def end(self, patience: float = 0) -> None:
        """End the process, after `patience` by force; its nursery and that one's children end too."""
        with contextlib.suppress(OSError):
            self.line.close()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience)
        if self._life >= 0:
            os.close(self._life)
            self._life = -1
        if self.process is not None:
            self.process.kill()
            self.process.wait()


# ---- the job's side --------------------------------------------------------------------------


def main(line: int, life: int, cores: str = "") -> None:
    """Serve until the grader hangs up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the grader's to answer
    threading.Thread(target=_end_with, args=(life,), daemon=True).start()
    if cores:
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    sock = socket.socket(fileno=line)
    settings, _ = wire.receive(sock)
    try:
        nursery, hello = _prepare(settings)
    except ValueError as error:
        wire.send(sock, {"refused": str(error)})
        return
    wire.send(sock, hello)
    while True:
        try:
            asked, blobs = wire.receive(sock)
        except wire.WireError:
            break
        if "outline" in asked:
            wire.send(sock, outline(asked["outline"]))
        else:
            wire.send(sock, told(asked, bytes(blobs[0]), nursery))
            gc.collect()  # evidence refers to itself, and holds every tensor of the unit
    nursery.close()
    os._exit(0)  # unloading torch would take a second


def _end_with(life: int) -> None:
    os.read(life, 1)
    os._exit(1)


def _prepare(settings: dict):
    """The nursery, and what the grader wants to know about this place."""
    from ..loading import uncollected
    from ..sandbox import Limits, choose

    limits = Limits(**settings["limits"])
    sandbox = choose(settings["sandbox"], [Path(path) for path in settings["hidden"]])
    with uncollected():
        from .. import grading  # noqa: F401  (loads torch)
        from ..judge import Nursery
        from ..plugin import find_gpu
        from ..scorecard import environment

    nursery = Nursery(sandbox, limits)
    card = find_gpu() if os.environ.get("CUDA_VISIBLE_DEVICES") else None
    hello = {
        "environment": environment(card),
        "sandbox": sandbox and {"name": sandbox.name, "text": sandbox.text},
    }
    return nursery, hello


def outline(kata: str) -> dict:
    """The checks of a suite before anything has run."""
    from .. import grading
    from ..talk import Agent

    module = grading.suite(kata)
    functions = [f for f in vars(module).values() if hasattr(f, "graded")]
    checks = [grading.open_check(f) for f in functions]
    return {
        "agent": isinstance(module.KATA, Agent),
        "checks": [check.as_json() | {"title": check.title} for check in checks],
    }


def told(asked: dict, content: bytes, nursery) -> dict:
    """The record of a unit; of a fault that is the grader's own, a record that says so."""
    try:
        return judge(asked, content, nursery)
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(at.filename).name}, line {at.lineno}"
        text = f"the grader itself failed: {type(error).__name__}: {error} ({where})"
        return {"status": "error", "message": text}


def judge(asked: dict, content: bytes, nursery) -> dict:
    """One suite on one file: the record that is kept."""
    from .. import grading

    kata = asked["kata"]
    statement = grading.suite(kata).KATA
    part = "whole" if asked["whole"] else asked["part"]
    without: frozenset[str] = frozenset()
    if part == "gpu":
        without = frozenset(case.group for case in statement.cases) - {"probe"}
    started, used = time.monotonic(), _processor_time(nursery)
    folder = Path(tempfile.mkdtemp(prefix="katas-"))
    try:
        file = folder / kata / "kernel.py"
        file.parent.mkdir()
        file.write_bytes(content)
        card = grading.grade(kata, file, nursery, LANES[part], asked["seed"], without)
        facts = card.as_json() | {"file": f"{kata}/kernel.py"}
        facts["flags"] = [*getattr(card, "flags", ())]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    facts = json.loads(json.dumps(facts).replace(f"{folder}/", ""))
    return {
        "status": "judged",
        "card": facts,
        "seconds": round(time.monotonic() - started, 3),
        "cpu": round(max(_processor_time(nursery) - used, 0.0), 3),
    }


def _processor_time(nursery) -> float:
    """Seconds of processor time of this process, the nursery and all that they have ended."""
    times = os.times()
    spent = times.user + times.system + times.children_user + times.children_system
    return spent + family_time(nursery._process.pid)[0]


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
