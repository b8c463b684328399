"""The worker: the only process that imports the file under test. Answers in JSON and raw bytes.

`python -m grader.worker FD SETTINGS` is the nursery: it imports torch and triton once, then forks a child
(about 10 ms) whenever the judge asks for one. A child serves one lane for one file: it loads the
file, then runs case after case until the judge hangs up or ends it. A crash, a hang or a hostile
file costs one child; the next one starts clean. In the sandbox every child gets a `cell` of its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import inspect
import io
import json
import linecache
import math
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
import tokenize
import traceback
import types
import warnings
from collections.abc import Callable
from pathlib import Path

from . import cell, hints
from .guard import Guard
from .loading import uncollected

MAX_WRITTEN = 1 << 28  # bytes of a file that a child writes
MEMORY_HEADROOM = 3 << 30  # bytes of address space a child may take beyond what the nursery has
BROKEN_OFF = 113  # exit code of a child that lost its line to the judge
MAX_FILE = 1 << 20  # bytes of a kernel.py
MOST_TEXT = 20_000  # characters of an error that are looked at, half from each end
ON_CARD = ("gpu", "speed", "card talk")  # lanes whose children use the card


# ---- the nursery -----------------------------------------------------------------------------


def nursery(fd: int, settings: dict) -> None:
    """Fork children on request until the judge hangs up. Runs as the main program.

    Each child works in a folder of its own inside `scratch`, and at the end all of it is removed; or,
    where `cells` is true, in a cell. `limits` holds what a child may use, if that is limited.
    """
    scratch = settings["scratch"]
    limits = cell.Limits(**settings["limits"]) if settings["limits"] else None
    with uncollected():
        import numpy  # noqa: F401  (imported here so that every child has it already)
        import torch
        import triton
        import triton.runtime.interpreter  # noqa: F401
        from triton.runtime.jit import mangle_type

        from . import client, compiling, gpu, interpreter, recorder, speed, watch  # noqa: F401

    torch.set_num_threads(1)
    _prctl(4, 0)  # PR_SET_DUMPABLE: no child reads or changes this process, unless root runs all
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans of a child come back here to be ended
    cells = cell.Cells(limits or cell.Limits()) if settings["cells"] else None
    control = socket.socket(fileno=fd)
    children: dict[int, str] = {}  # pid -> its folder
    guard = None
    while True:
        try:
            text, fds, _, _ = socket.recv_fds(control, 1 << 16, 3)
        except OSError:
            break
        if not text:
            break
        request = json.loads(text)
        if "spawn" in request:
            mangle_type(0)  # Triton imports more of itself at the first launch: a tenth of a second
            if request["spawn"] == "compile":
                compiling.warm_up(["sm_90"])  # half a second the first time, then nothing
            if "talk" in request["spawn"]:
                client.warm_up()  # the same
            guard = Guard(guard)
            directory = ""
            if cells is None:
                directory = request["directory"] = tempfile.mkdtemp(dir=scratch)
                pid = os.fork()
                if pid == 0:
                    control.close()
                    _child(fds, request, limits, guard)
            else:
                run = functools.partial(_child, fds, request, limits, guard)
                pid = cells.fork(tuple(fds), request["spawn"] in ON_CARD, run)
            children[pid] = directory
            for each in fds:
                os.close(each)
            answer: dict = {"pid": pid}
        else:
            answer = _end(request["end"], children, cells, request["patience"])
        control.sendall(json.dumps(answer).encode())
    for pid in list(children):
        _end(pid, children, cells)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)  # nothing is left to do; unloading torch would take a second


def _end(
    pid: int, children: dict[int, str], cells: cell.Cells | None = None, patience: float = 0.1
) -> dict:
    """End a child, its process group and whatever it left behind.

    Gives the wait status (None for a stranger), whether the child had to be killed, and of one in a
    cell what its keeper has to say: the limit that it went beyond, the processes that it left.
    """
    directory = children.pop(pid, None)
    if directory is None:
        return {"status": None, "alive": False}
    status, alive = None, False
    until = time.monotonic() + patience
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
    else:
        alive = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    if cells is not None:  # the kernel has ended all that was in the cell
        report = cells.report(pid)
        if report.get("status") is not None:
            status = report["status"]
        return report | {"status": status, "alive": alive}
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _end_orphans(children)
    shutil.rmtree(directory, ignore_errors=True)
    return {"status": status, "alive": alive}


def _end_orphans(children: dict[int, str]) -> None:
    """Kill processes that a dead child left behind (they were handed to this subreaper)."""
    for _ in range(50):
        try:
            own = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        except OSError:
            return
        strays = [int(p) for p in own if int(p) not in children]
        if not strays:
            return
        for pid in strays:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _prctl(option: int, value: int) -> None:
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# ---- one child -------------------------------------------------------------------------------


def _child(fds: list[int], request: dict, limits: cell.Limits | None, guard: Guard) -> None:
    """Serve one lane. `fds`: the line to the judge, the output; in a cell, what is handed over."""
    line, output, *handed_over = fds
    code = 1
    try:
        os.setsid()
        _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive the nursery
        os.dup2(output, 1)
        os.dup2(output, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(output)
        sock = socket.socket(fileno=line)
        if handed_over:
            cell.hello(sock, request.get("port"))
            _move_in(handed_over[0], request)
        else:
            _prctl(4, 1)  # PR_SET_DUMPABLE: one's own /proc can be read, unlike the nursery's
            os.chdir(request["directory"])
            os.environ["TMPDIR"] = request["directory"]
        tempfile.tempdir = os.environ["TMPDIR"]
        _limit(request["spawn"], limits, bool(handed_over))
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        warnings.simplefilter("ignore")  # a library's worries are no output of the file under test
        serve(sock, request, guard)
        code = 0
    except BaseException:
        code = BROKEN_OFF
    finally:
        os._exit(code)


def _move_in(handed_over: int, request: dict) -> None:
    """Lay out in the cell what the judge has sent as text, the file under test among it."""
    contents = cell.unpacked(handed_over)
    cell.furnish({f"{name}.py": text for name, text in contents.items()})
    request["file"] = f"{cell.HOME}/kernel.py"
    for name in contents:
        if name != "kernel":
            request[name] = f"{cell.HOME}/{name}.py"
    request["fleeting"] = [request[name] for name in contents if name != "kernel"]


def _limit(lane: str, limits: cell.Limits | None, in_cell: bool) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    headroom = MEMORY_HEADROOM if limits is None else limits.memory
    ceiling = pages * resource.getpagesize() + headroom
    if lane not in ON_CARD:  # a CUDA context reserves far more than it uses
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
    if in_cell:  # which has seen to the rest
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = MAX_WRITTEN if limits is None else limits.file_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    if limits is not None:
        # The kernel counts all that this user runs, and does not count root's.
        most = _threads_of_user() + limits.processes
        resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        seconds = int(limits.seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _threads_of_user() -> int:
    """How many threads the user of this process has."""
    count = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == os.getuid():
                count += len(os.listdir(entry / "task"))
    return count


class Unreadable(Exception):
    """The launcher returned something that breaks when it is looked at."""


class Overtime(BaseException):
    """Raised in the file under test when its processor time is up: so its line is known."""


@contextlib.contextmanager
def time_limit(seconds: float):
    """Raise Overtime after so many seconds of processor time; the judge stops what ignores it."""

    def stop(number, frame):
        raise Overtime

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def serve(sock: socket.socket, request: dict, guard: Guard) -> None:
    """Load the file under test, then answer one request after another.

    `guard`: of the process that this one was forked from.
    """
    from . import wire

    loaded = False
    number = request.pop("number")  # of the answer about its import; the file is not to find it

    def remark(text: str) -> None:
        """Tell the judge something at once, ahead of the answer.

        What a kernel does that is launched while the file is imported is no part of any answer.
        """
        if loaded:
            wire.send(sock, {"remark": text})

    lane = LANES[request["spawn"]](request)
    lane.remark = remark
    try:
        with time_limit(request["seconds"]):
            answer = lane.load(guard)
    except Overtime:
        answer = {"error": lane.describe(Overtime())}
    guard = lane.guard
    wire.send(sock, answer | {"number": number})
    loaded = True
    while "error" not in answer:
        try:
            message, blobs = wire.receive(sock)
        except wire.WireError:
            return
        try:
            with time_limit(message["seconds"]):
                facts, out = lane.run(message, blobs)
        except Unreadable as error:
            facts, out = (
                {"error": lane.describe(error.__cause__ or error) | {"where": "result"}},
                [],
            )
        except (Exception, Overtime) as error:
            # Where memory runs out it is the file under test that has taken it.
            where = "launcher" if _out_of_memory(error) else "grader"
            facts, out = {"error": {"where": where} | lane.describe(error)}, []
        changed = guard.changed()
        if changed:
            facts, out = {"error": {"where": "tampering", "names": changed}}, []
        wire.send(sock, facts | {"number": message["number"]}, out)


def _out_of_memory(error: BaseException) -> bool:
    """Whether this is how Python, the system or PyTorch say that there is no memory left."""
    return (
        isinstance(error, MemoryError)
        or getattr(error, "errno", None) == errno.ENOMEM
        or (isinstance(error, RuntimeError) and "allocate memory" in str(error))
    )


def read_source(file: str) -> bytes:
    """The bytes of a Python file; raises ValueError for what cannot be one."""
    with open(file, "rb") as opened:
        source = opened.read(MAX_FILE + 1)
    if len(source) > MAX_FILE:
        raise ValueError("it is larger than 1 MiB")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        text = source.decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        raise ValueError("it is not a text in UTF-8") from None
    if "\0" in text:
        raise ValueError("it holds zero bytes, which no Python file does")
    return source


class Lane:
    """What the lanes share: the file under test and how a call of its launcher is described."""

    interpret = False
    remark: Callable[[str], None]

    def __init__(self, request: dict):
        self.request = request
        self.file = request["file"]
        self.name = request[
            "launcher"
        ]  # of the launcher that is called unless a case says otherwise
        self.names = request.get("launchers") or [self.name]
        self.launchers: dict[str, Callable] = {}
        self.allowed = request.get("allowed", [])

    def load(self, known: Guard) -> dict:
        """Import the file; {"parameters": [...]} of the launcher, or {"error": ...}.

        `known`: a guard from before this process was patched.
        """
        import triton

        triton.knobs.runtime.interpret = self.interpret
        self.prepare()
        self.guard = guard = Guard(known)
        module = types.ModuleType("kernel")
        module.__file__ = self.file
        self.equip(module)
        sys.modules["kernel"] = module
        try:
            with self.importing():
                code = compile(read_source(self.file), self.file, "exec", dont_inherit=True)
                exec(code, module.__dict__)
        except BaseException as error:
            return {"error": {"where": "import"} | self.describe(error)}
        changed = guard.changed()
        if changed:
            return {"error": {"where": "tampering", "names": changed}}
        for wanted in self.names:
            launcher = module.__dict__.get(wanted)
            if callable(launcher):
                self.launchers[wanted] = launcher
                continue
            functions = (types.FunctionType, triton.KernelInterface)
            defined = [
                name
                for name, value in module.__dict__.items()
                if isinstance(value, functions) and name != "range"
            ]
            missing = {"where": "launcher", "missing": wanted, "defined": defined[:8]}
            if wanted in module.__dict__:
                missing["found"] = type(launcher).__name__
            return {"error": missing}
        with contextlib.suppress(TypeError, ValueError):
            return {"parameters": list(inspect.signature(self.launcher).parameters)}
        return {"parameters": None}

    @property
    def launcher(self) -> Callable:
        """The main launcher."""
        return self.launchers[self.name]

    def called(self, message: dict) -> Callable:
        """The launcher that a case calls."""
        return self.launchers[message.get("launcher") or self.name]

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        """Run one case: facts and raw blobs."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Patch this process before the file is imported."""

    def equip(self, module) -> None:
        """Add names to the module before its code runs."""

    def importing(self) -> contextlib.AbstractContextManager:
        """What surrounds the import of the file."""
        return contextlib.nullcontext()

    def describe(self, error: BaseException) -> dict:
        """An exception as type, message, and the innermost line of the file under test."""
        try:
            return self._describe(error)
        except BaseException:
            text = "an error that cannot be shown"
            return {"type": "Exception", "message": text, "line": None}

    def _describe(self, error: BaseException) -> dict:
        kernel, line = False, None
        here: BaseException | None = error
        chain = []
        while here is not None and here not in chain:
            chain.append(here)
            for frame, number in traceback.walk_tb(here.__traceback__):
                code = frame.f_code
                if code.co_filename == self.file:
                    line = number
                if code.co_name == "__call__" and code.co_filename.endswith("interpreter.py"):
                    kernel = True
            here = here.__cause__ or here.__context__
        root = chain[-1] if type(chain[0]).__name__ == "InterpreterError" else chain[0]
        if isinstance(root, SyntaxError) and root.filename == self.file:
            line = root.lineno
        try:
            text = str(root).strip()
            if len(text) > MOST_TEXT:  # else looking for words in it takes as long as a case may
                text = text[: MOST_TEXT // 2] + text[-MOST_TEXT // 2 :]
            message = text.splitlines() or [""]
        except BaseException:
            message = ["(an error that cannot be shown)"]
        if isinstance(root, Overtime):
            return {"where": "hang", "type": "Hang", "message": "", "line": line}
        kind, written = type(root).__name__, linecache.getline(self.file, line or 0)
        hint = hints.plain(f"{kind}: " + "\n".join(message), written, kernel)
        if hint:
            message = [hint]
            kind = kind if type(root).__module__ == "builtins" else "TypeError"
        described = {
            "type": kind,
            "message": "\n".join(text[:400] for text in message[-6:])[-800:],
            "line": line,
        }
        if not kernel:
            return described
        frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(root.__traceback__)]
        # What Triton's language itself refuses, the compiler refuses too: no limit of the interpreter.
        language = bool(frames) and "/triton/language/" in frames[-1]
        return described | {"where": "kernel", "language": language}


class TraceLane(Lane):
    """Runs the kernel in the interpreter, with every access recorded."""

    interpret = True

    def prepare(self) -> None:
        from . import interpreter
        from .recorder import Recorder

        self.recorder = Recorder(self.remark)
        self.tuner = TunerHook()
        interpreter.install(self.recorder, self.file)
        self.tuner.install()
        pretend_gpu()

    def equip(self, module) -> None:
        self.recorder.guard = self.guard.changed
        with contextlib.suppress(OSError, ValueError):  # which is then said when it is imported
            self.recorder.source = read_source(self.file)
        self.guard.hold(self.recorder, "remark", "guard", "source")

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        import torch

        from .memory import Memory
        from .watch import Watch

        memory = Memory()
        arguments, tensors = build_arguments(message["args"], blobs, memory)
        memory.remember(self.recorder.memory.rooms())
        keep = message.get("keep", 0)
        grid, instead = message.get("grid"), bool(message.get("instead"))
        self.recorder.reset(memory, grid, message.get("sample"), keep, instead)
        self.tuner.choose(message.get("config"))
        rounds = [None]
        if "again" in message:
            rounds.append(message["again"])
        earlier: list = []  # results of the first call, kept alive: a second call must not reuse them
        for second in rounds:
            if second is not None:
                refill(tensors, second, blobs, memory)
                memory.age()
                for buffer in memory.buffers:
                    buffer.resync()
                self.recorder.reset(memory, grid, instead=instead)
            watch = Watch(self.file, memory, self.recorder, self.allowed)
            try:
                with watch:
                    result = self.called(message)(*arguments)
            except BaseException as error:
                answer = {"error": self.describe(error)}
                kept, lanes = self.recorder.kept()
                answer |= self.recorder.facts() | {"tuners": self.tuner.seen} | kept
                return answer, lanes
            if second is None and len(rounds) > 1:
                earlier = [p for p in _parts(result) if isinstance(p, torch.Tensor)]
        self.guard.look(self, self.recorder, self.tuner, memory, watch)
        self.recorder.check_shadows()
        out, results = describe_result(result, memory, torch)
        places = {p.untyped_storage().data_ptr() for p in earlier if p.numel()}
        for fact, part in zip(results, _parts(result), strict=False):
            if "data" in fact and part.numel():
                fact["reused"] = part.untyped_storage().data_ptr() in places
        inputs: list[int | None] = []
        answer = self.recorder.facts() | {
            "result": results,
            "foreign": list(watch.foreign.values()),
            "copies": watch.copies,
            "watched": watch.seen,
            "tuners": self.tuner.seen,
            "inputs": inputs,
        }
        for tensor in tensors:
            buffer = memory.of(tensor)
            inputs.append(len(out) if buffer is not None else None)
            if buffer is not None:
                out.append(buffer.raw.tobytes())
        kept, lanes = self.recorder.kept()  # the last blobs of all
        return answer | kept, out + lanes


class CompileLaneChild(Lane):
    """Sends every kernel and config that a call would launch through the real compiler."""

    def prepare(self) -> None:
        pretend_gpu()

    def importing(self) -> contextlib.AbstractContextManager:
        """A kernel that is launched at module level is let through, for no chip at all."""
        from .compiling import CompileLane

        return CompileLane([], self.file)

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        from .compiling import CompileLane
        from .memory import Memory

        arguments, _ = build_arguments(message["args"], blobs, Memory())
        lane = CompileLane(message["targets"], self.file)
        answer: dict = {}
        try:
            with lane:
                self.called(message)(*arguments)
            self.remark("launched")
        except BaseException as error:
            answer["error"] = self.describe(error)
        answer["launches"] = lane.launches
        answer["tuners"] = lane.tuners
        return answer, []


class GpuLane(Lane):
    """Runs the kernel on the card, in guarded memory."""

    def prepare(self) -> None:
        from .gpu import Card

        self.tuner = TunerHook()
        self.card = Card(self.tuner)

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        import torch

        from .watch import Watch

        if self.card.failure:
            return {"error": self.card.failure}, []
        memory = self.card.memory()
        earlier: list = []
        try:
            arguments, tensors = build_arguments(message["args"], blobs, memory)
            self.tuner.choose(message.get("config"))
            rounds = [None, message["again"]] if "again" in message else [None]
            for second in rounds:
                if second is not None:
                    refill(tensors, second, blobs, memory)
                watch = Watch(self.file, memory, None, self.allowed)
                with self.card.listening(memory, watch), watch:
                    result = self.called(message)(*arguments)
                self.card.synchronize()
                if second is None and len(rounds) > 1:
                    earlier = [p for p in _parts(result) if isinstance(p, torch.Tensor)]
        except BaseException as error:
            return {"error": self.card.explain(self.describe(error)), "tuners": self.tuner.seen}, []
        out, results = describe_result(result, memory, torch)
        places = {p.untyped_storage().data_ptr() for p in earlier if p.numel()}
        for fact, part in zip(results, _parts(result), strict=False):
            if "data" in fact and part.numel():
                fact["reused"] = part.untyped_storage().data_ptr() in places
        answer = self.card.facts(memory) | {
            "result": results,
            "foreign": list(watch.foreign.values()),
            "copies": watch.copies,
            "watched": watch.seen,
            "tuners": self.tuner.seen,
            "inputs": [],
        }
        for tensor in tensors:
            buffer = memory.of(tensor)
            answer["inputs"].append(len(out) if buffer is not None else None)
            if buffer is not None:
                out.append(buffer.content())
        return answer, out


class SpeedLane(Lane):
    """Times the launcher against the reference solution, PyTorch and what the card can do."""

    def prepare(self) -> None:
        from .speed import Bench

        self.bench = Bench(self.request)
        for path in self.request.get("fleeting", ()):
            os.unlink(path)  # the file under test is not to read the reference solution

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        return self.bench.run(self, message), []


class CardTalkLane(Lane):
    """Lets an agent talk with the judge's scripted server (see `talk`); it may use the card."""

    def prepare(self) -> None:
        from . import client

        client.prepare()

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        from . import client

        calls: list[dict] = []
        softmax = client.noted_softmax(message["softmax"], calls)
        more = {} if message["max_turns"] is None else {"max_turns": message["max_turns"]}
        ended: dict
        try:
            connected = client.connect(message["url"])
            text = self.launcher(connected, message["model"], message["messages"], softmax, **more)
            ended = {"returned": type(text).__name__, "text": text if type(text) is str else None}
        except Overtime:
            raise
        except BaseException as error:
            ended = {"raised": self.describe(error), "runtime": client.gives_up(error)}
        return ended | {"softmax": calls}, []


class TalkLane(CardTalkLane):
    """The same, out of sight of any card."""

    def prepare(self) -> None:
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            os.environ[name] = ""
        super().prepare()


LANES = {
    "trace": TraceLane,
    "compile": CompileLaneChild,
    "gpu": GpuLane,
    "speed": SpeedLane,
    "talk": TalkLane,
    "card talk": CardTalkLane,
}


# ---- arguments and results -------------------------------------------------------------------


def build_arguments(specs: list[dict], blobs: list, memory) -> tuple[list, list]:
    """Arguments from their description: plain values, and tensors in guarded memory.

    A tensor spec has name, dtype, shape, strides, offset, elements (of the storage) and blob.
    """
    import torch

    arguments, tensors = [], []
    for spec in specs:
        if "dtype" not in spec:
            arguments.append(spec["value"])
            continue
        dtype = getattr(torch, spec["dtype"])
        tensor = memory.place(
            spec["shape"],
            spec["strides"],
            dtype,
            spec["name"],
            "input",
            spec["offset"],
            spec["elements"],
        )
        tensors.append(tensor)
        arguments.append(tensor)
        buffer = memory.of(tensor)
        if buffer is not None:
            buffer.updated = spec.get("updated", False)
        _fill(tensor, blobs[spec["blob"]], memory)
    return arguments, tensors


def _fill(tensor, blob, memory) -> None:
    buffer = memory.of(tensor)
    if buffer is not None:
        buffer.fill(blob)


def refill(tensors: list, places: list[int], blobs: list, memory) -> None:
    """New values in the same memory, for a second call."""
    for tensor, place in zip(tensors, places, strict=True):
        _fill(tensor, blobs[place], memory)


def describe_result(result, memory, torch) -> tuple[list[bytes], list[dict]]:
    """What the launcher returned: blobs, and for each result what it is and which blobs hold it."""
    try:
        return _described(result, memory, torch)
    except Exception as error:
        raise Unreadable from error


def _described(result, memory, torch) -> tuple[list[bytes], list[dict]]:
    blobs: list[bytes] = []
    facts = []
    device = memory.device if memory is not None else "cpu"
    several = isinstance(result, (tuple, list))
    of = {"container": type(result).__name__, "count": len(result)} if several else {}
    for part in _parts(result):
        if type(part) is not torch.Tensor:
            facts.append(of | {"type": type(part).__name__})
            continue
        strided = part.layout is torch.strided
        fact = of | {
            "type": "Tensor",
            "dtype": str(part.dtype).removeprefix("torch."),
            "shape": list(part.shape),
            "strides": list(part.stride()) if strided else [],
            "contiguous": strided and part.is_contiguous(),
            "device": part.device.type,
            "layout": str(part.layout).removeprefix("torch."),
            "storage": None,
        }
        if part.device.type == device and strided and not part.is_conj():
            buffer = None
            if memory is not None:
                buffer = getattr(memory, "known", memory.of)(part)
            if buffer is not None:
                fact["storage"] = None if buffer.kind == "kept" else buffer.name
                fact["kind"] = buffer.kind
            fact["data"] = len(blobs)
            blobs.append(_raw(part, torch))
            if buffer is not None and buffer.itemsize <= part.element_size():
                fact["coverage"] = len(blobs)
                blobs.append(_coverage(part, buffer))
        facts.append(fact)
    return blobs, facts


def _parts(result) -> list:
    """The first few parts of a result; tensors without what was hung on them (methods, gradients)."""
    import torch

    parts = list(result)[:4] if isinstance(result, (tuple, list)) else [result]
    tensors = (torch.Tensor, torch.nn.Parameter)
    return [torch.Tensor.detach(p) if type(p) in tensors else p for p in parts]


def _raw(tensor, torch) -> bytes:
    flat = tensor.contiguous().reshape(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes() if flat.numel() else b""


def _coverage(tensor, buffer) -> bytes:
    """Per element of the result: 1 written by a kernel, 2 dropped by a mask, 4 written twice."""
    import numpy as np

    flags = (
        buffer.written.astype(np.uint8) | (buffer.masked_off << np.uint8(1)) | (buffer.twice << 2)
    ).astype(np.uint8)
    if math.prod(tensor.shape) == 0:
        return b""
    wide = tensor.element_size() // buffer.itemsize  # a view of memory allocated in smaller pieces
    strides = [wide * stride for stride in tensor.stride()]
    first = flags[wide * tensor.storage_offset() :]
    view = np.lib.stride_tricks.as_strided(first, tuple(tensor.shape), strides)
    return np.ascontiguousarray(view).tobytes()


# ---- autotune and a pretended GPU ------------------------------------------------------------


TRIALS = 2  # runs of each config in place of the many that a tuner times


class TunerHook:
    """Lets `@triton.autotune` work without a GPU: one config by itself, or the whole tuned call.

    In the tuned call every config runs several times on the launcher's own arguments, as on a GPU,
    with Triton's hooks around each (pre_hook, post_hook, restore_value, reset_to_zero); the config
    that is tried last then wins. So what a kernel changes in place without telling the tuner shows.
    """

    def __init__(self) -> None:
        self.config: int | None = None
        self.seen: list[dict] = []

    def choose(self, config: int | None) -> None:
        self.config = config
        self.seen = []

    @staticmethod
    def key_values(tuner, args, kwargs) -> list[str]:
        """What the tuner looks its winner up by, apart from dtypes."""
        named = dict(zip(tuner.arg_names, args, strict=False)) | kwargs
        return [repr(named.get(key)) for key in tuner.keys if not hasattr(named.get(key), "dtype")]

    def note(self, tuner, args, kwargs) -> None:
        """Remember a tuned call: the kernel, its configs and the key."""
        self.seen.append(
            {
                "kernel": getattr(tuner.base_fn, "__name__", "kernel"),
                "keys": [str(key) for key in tuner.keys],
                "configs": [
                    {"kwargs": {k: repr(v) for k, v in c.kwargs.items()}}
                    | {"num_warps": c.num_warps, "num_stages": c.num_stages}
                    | {"num_ctas": c.num_ctas, "maxnreg": c.maxnreg, "hook": bool(c.pre_hook)}
                    for c in tuner.configs
                ],
                "key_values": self.key_values(tuner, args, kwargs),
            }
        )

    def install(self) -> None:
        from triton.runtime.autotuner import Autotuner

        hook, original = self, Autotuner.run

        def run(self, *args, **kwargs):
            hook.note(self, args, kwargs)
            count = 0

            def bench(call, quantiles=None, **_):
                nonlocal count
                count += 1
                for _trial in range(TRIALS):
                    call()
                return [1.0 / count] * 3

            self.__dict__["do_bench"] = bench
            if hook.config is None:
                return original(self, *args, **kwargs)
            configs = self.configs
            self.configs = [configs[min(hook.config, len(configs) - 1)]]
            try:
                return original(self, *args, **kwargs)
            finally:
                self.configs = configs

        Autotuner.run = run


class Event:
    """Stands in for torch.cuda.Event where every launch is done when it returns."""

    __module__ = "torch.cuda"  # the guard knows it by that name alone

    def __init__(self, *arguments, **options):
        pass

    def record(self, stream=None) -> None:
        pass

    wait = record

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def elapsed_time(self, later) -> float:
        return 0.0


class Stream:
    """Stands in for torch.cuda.Stream: there is nothing to wait for."""

    __module__ = "torch.cuda"
    cuda_stream = 0

    def __init__(self, *arguments, **options):
        pass

    def wait_stream(self, stream) -> None:
        pass

    wait_event = wait_stream

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True

    def record_event(self, event=None) -> Event:
        return event or Event()


def pretend_gpu() -> None:
    """Answer the questions launchers ask about the card, on a machine that has none.

    The answers are those of an H100 (132 multiprocessors), so that a kernel which sizes its grid
    by the card can be traced and compiled anywhere.
    """
    import torch

    card = types.SimpleNamespace(
        name="no GPU (pretended H100)",
        multi_processor_count=132,
        total_memory=80 << 30,
        major=9,
        minor=0,
        warp_size=32,
        shared_memory_per_block_optin=227 << 10,
        regs_per_multiprocessor=65536,
        max_threads_per_multi_processor=2048,
    )
    torch.cuda.get_device_properties = lambda *a, **k: card
    torch.cuda.get_device_capability = lambda *a, **k: (9, 0)
    torch.cuda.get_device_name = lambda *a, **k: card.name
    torch.cuda.current_device = lambda: 0
    torch.cuda.device_count = lambda: 1
    torch.cuda.synchronize = lambda *a, **k: None
    torch.cuda.set_device = lambda *a, **k: None
    torch.cuda.device = lambda *a, **k: contextlib.nullcontext()
    torch.cuda.Stream, torch.cuda.Event = Stream, Event
    torch.cuda.current_stream = torch.cuda.default_stream = lambda *a, **k: Stream()
    torch.cuda.stream = lambda *a, **k: contextlib.nullcontext()
    torch.Tensor.record_stream = lambda *a, **k: None
    # Where there is a card, these lanes leave it alone: it could only say that memory runs out.
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["HIP_VISIBLE_DEVICES"] = ""
    from .compiling import pretend_driver

    pretend_driver()


if __name__ == "__main__":
    nursery(int(sys.argv[1]), json.loads(sys.argv[2]))
