"""The worker: the only process that imports the file under test. Answers in JSON and raw bytes.

`python -m grader.worker FD` is the nursery: it imports torch and triton once, then forks a child
(about 10 ms) whenever the judge asks for one. A child serves one lane for one file: it loads the
file, then runs case after case until the judge hangs up or ends it. A crash, a hang or a hostile
file costs one child; the next one starts clean.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import json
import math
import os
import resource
import signal
import socket
import sys
import time
import traceback
import types
from pathlib import Path

MEMORY_HEADROOM = 6 << 30  # bytes of address space a child may take beyond what the nursery has
MAX_FILE = 1 << 20  # bytes of a kernel.py


# ---- the nursery -----------------------------------------------------------------------------


def nursery(fd: int) -> None:
    """Fork children on request until the judge hangs up. Runs as the main program."""
    import numpy  # noqa: F401  (imported here so that every child has it already)
    import torch
    import triton  # noqa: F401
    import triton.runtime.interpreter  # noqa: F401

    from . import compiling, gpu, interpreter, recorder, speed, watch  # noqa: F401

    torch.set_num_threads(1)
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: orphans of a child come back here to be ended
    control = socket.socket(fileno=fd)
    children: set[int] = set()
    while True:
        try:
            text, fds, _, _ = socket.recv_fds(control, 1 << 16, 2)
        except OSError:
            break
        if not text:
            break
        request = json.loads(text)
        if "spawn" in request:
            if request["spawn"] == "compile":
                compiling.warm_up(["sm_90"])  # half a second the first time, then nothing
            pid = os.fork()
            if pid == 0:
                control.close()
                _child(fds[0], fds[1], request)
            children.add(pid)
            for each in fds:
                os.close(each)
            answer = {"pid": pid}
        else:
            answer = {"status": _end(request["end"], children)}
        control.sendall(json.dumps(answer).encode())
    for pid in list(children):
        _end(pid, children)


def _end(pid: int, children: set[int]) -> int:
    """End a child, its process group and whatever it left behind; the wait status."""
    status = None
    for _ in range(20):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    children.discard(pid)
    _end_orphans(children)
    return status


def _end_orphans(children: set[int]) -> None:
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


def _child(line: int, output: int, request: dict) -> None:
    code = 1
    try:
        os.setsid()
        _prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: never outlive the nursery
        os.dup2(output, 1)
        os.dup2(output, 2)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(output)
        os.chdir(request["directory"])
        _limit(request["spawn"])
        sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
        sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
        serve(socket.socket(fileno=line), request)
        code = 0
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def _limit(lane: str) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    ceiling = pages * resource.getpagesize() + MEMORY_HEADROOM
    if lane not in ("gpu", "speed"):  # a CUDA context reserves far more than it uses
        resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 28, 1 << 28))


def serve(sock: socket.socket, request: dict) -> None:
    """Load the file under test, then answer one request after another."""
    from . import wire

    lane = LANES[request["spawn"]](request)
    answer = lane.load()
    wire.send(sock, answer)
    while "error" not in answer:
        try:
            message, blobs = wire.receive(sock)
        except wire.WireError:
            return
        wire.send(sock, *lane.run(message, blobs))


class Lane:
    """What the lanes share: the file under test and how a call of its launcher is described."""

    interpret = False

    def __init__(self, request: dict):
        self.request = request
        self.file = request["file"]
        self.name = request["launcher"]
        self.allowed = request.get("allowed", [])

    def load(self) -> dict:
        """Import the file; {"parameters": [...]} of the launcher, or {"error": ...}."""
        import triton

        triton.knobs.runtime.interpret = self.interpret
        self.prepare()
        module = types.ModuleType("kernel")
        module.__file__ = self.file
        self.equip(module)
        sys.modules["kernel"] = module
        try:
            if os.path.getsize(self.file) > MAX_FILE:
                raise ValueError("the file is larger than 1 MiB")
            source = Path(self.file).read_bytes()
            exec(compile(source, self.file, "exec"), module.__dict__)
        except BaseException as error:
            return {"error": self.describe(error) | {"where": "import"}}
        self.launcher = module.__dict__.get(self.name)
        if not callable(self.launcher):
            defined = [
                name
                for name, value in module.__dict__.items()
                if inspect.isfunction(value) and value.__module__ == "kernel"
            ]
            return {"error": {"where": "launcher", "missing": self.name, "defined": defined[:8]}}
        with contextlib.suppress(TypeError, ValueError):
            return {"parameters": list(inspect.signature(self.launcher).parameters)}
        return {"parameters": None}

    def prepare(self) -> None:
        """Patch this process before the file is imported."""

    def equip(self, module) -> None:
        """Add names to the module before its code runs."""

    def describe(self, error: BaseException) -> dict:
        """An exception as type, message, and the innermost line of the file under test."""
        kernel = False
        line, here = None, error
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
        message = str(root).strip().splitlines() or [""]
        return {
            "type": type(root).__name__,
            "message": "\n".join(message[-6:])[-800:],
            "line": line,
            "where": "kernel" if kernel else "launcher",
        }


class TraceLane(Lane):
    """Runs the kernel in the interpreter, with every access recorded."""

    interpret = True

    def prepare(self) -> None:
        from . import interpreter
        from .recorder import Recorder

        self.recorder = Recorder()
        self.tuner = TunerHook()
        interpreter.install(self.recorder, self.file)
        self.tuner.install()
        pretend_gpu()

    def equip(self, module) -> None:
        from .interpreter import kernel_range

        module.__dict__["range"] = kernel_range

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        import torch

        from .memory import Memory
        from .watch import Watch

        memory = Memory()
        arguments, tensors = build_arguments(message["args"], blobs, memory)
        self.recorder.reset(memory, message.get("grid"))
        self.tuner.choose(message.get("config"))
        rounds = [None]
        if "again" in message:
            rounds.append(message["again"])
        earlier: list = []  # results of the first call, kept alive: a second call must not reuse them
        for second in rounds:
            if second is not None:
                refill(tensors, second, blobs, memory)
                for buffer in memory.buffers:
                    buffer.resync()
                self.recorder.reset(memory, message.get("grid"))
            watch = Watch(self.file, memory, self.recorder, self.allowed)
            try:
                with watch:
                    result = self.launcher(*arguments)
            except BaseException as error:
                answer = {"error": self.describe(error)}
                answer |= self.recorder.facts() | {"tuners": self.tuner.seen}
                return answer, []
            if second is None and len(rounds) > 1:
                earlier = [p for p in _parts(result) if isinstance(p, torch.Tensor)]
        self.recorder.check_shadows()
        out, results = describe_result(result, memory, torch)
        places = {p.untyped_storage().data_ptr() for p in earlier if p.numel()}
        for fact, part in zip(results, _parts(result), strict=False):
            if fact["type"] == "Tensor" and part.numel():
                fact["reused"] = part.untyped_storage().data_ptr() in places
        answer = self.recorder.facts() | {
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
                out.append(buffer.raw.tobytes())
        return answer, out


class CompileLaneChild(Lane):
    """Sends every kernel and config that a call would launch through the real compiler."""

    def prepare(self) -> None:
        pretend_gpu()

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        from .compiling import CompileLane
        from .memory import Memory

        arguments, _ = build_arguments(message["args"], blobs, Memory())
        lane = CompileLane(message["targets"], self.file)
        answer: dict = {}
        try:
            with lane:
                self.launcher(*arguments)
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
                    result = self.launcher(*arguments)
                self.card.synchronize()
                if second is None and len(rounds) > 1:
                    earlier = [p for p in _parts(result) if isinstance(p, torch.Tensor)]
        except BaseException as error:
            return {"error": self.card.explain(self.describe(error)), "tuners": self.tuner.seen}, []
        out, results = describe_result(result, memory, torch)
        places = {p.untyped_storage().data_ptr() for p in earlier if p.numel()}
        for fact, part in zip(results, _parts(result), strict=False):
            if fact["type"] == "Tensor" and part.numel():
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

    def run(self, message: dict, blobs: list) -> tuple[dict, list]:
        return self.bench.run(self, message), []


LANES = {"trace": TraceLane, "compile": CompileLaneChild, "gpu": GpuLane, "speed": SpeedLane}


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
    blobs: list[bytes] = []
    facts = []
    device = memory.device if memory is not None else "cpu"
    for part in _parts(result):
        if type(part) not in (torch.Tensor, torch.nn.Parameter):
            facts.append({"type": type(part).__name__})
            continue
        fact = {
            "type": "Tensor",
            "dtype": str(part.dtype).removeprefix("torch."),
            "shape": list(part.shape),
            "strides": list(part.stride()),
            "contiguous": torch.Tensor.is_contiguous(part),
            "device": part.device.type,
            "storage": None,
        }
        if part.device.type == device and part.layout is torch.strided and not part.is_conj():
            buffer = memory.of(part) if memory is not None else None
            if buffer is not None:
                fact["storage"] = buffer.name
                fact["kind"] = buffer.kind
            fact["data"] = len(blobs)
            blobs.append(_raw(part, torch))
            if buffer is not None and buffer.itemsize == part.element_size():
                fact["coverage"] = len(blobs)
                blobs.append(_coverage(part, buffer))
        facts.append(fact)
    return blobs, facts


def _parts(result) -> list:
    return list(result)[:4] if isinstance(result, (tuple, list)) else [result]


def _raw(tensor, torch) -> bytes:
    flat = torch.Tensor.contiguous(torch.Tensor.detach(tensor)).reshape(-1)
    return flat.view(torch.uint8).cpu().numpy().tobytes() if flat.numel() else b""


def _coverage(tensor, buffer) -> bytes:
    """Per element of the result: 1 written by a kernel, 2 dropped by a mask, 4 written twice."""
    import numpy as np

    flags = (
        buffer.written.astype(np.uint8) | (buffer.masked_off << np.uint8(1)) | (buffer.twice << 2)
    ).astype(np.uint8)
    if math.prod(tensor.shape) == 0:
        return b""
    offset = tensor.storage_offset()
    view = np.lib.stride_tricks.as_strided(flags[offset:], tuple(tensor.shape), tensor.stride())
    return np.ascontiguousarray(view).tobytes()


# ---- autotune and a pretended GPU ------------------------------------------------------------


class TunerHook:
    """Lets `@triton.autotune` work without a GPU: one config by itself, or the whole tuned call.

    In the tuned call every config runs once, as on a GPU, with the hooks Triton gives it; the
    config that is tried last then wins.
    """

    def __init__(self) -> None:
        self.config = None
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
    from .compiling import pretend_driver

    pretend_driver()


if __name__ == "__main__":
    nursery(int(sys.argv[1]))
