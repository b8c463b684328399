"""The compile lane: Triton's real compiler, for several GPUs, on a machine that needs none.

While a ``CompileLane`` is entered, ``kernel[grid](...)`` launches nothing. Each launch is planned
for every target, through Triton's own ``JITFunction.run``: arguments are bound and specialised
exactly as for a real launch (pointers and sizes divisible by 16, a size of 1 made a constant).
The compiling itself happens when ``launches`` is read, in forked children: several at a time, and a
compiler that aborts or hangs costs one entry instead of the process.

Private names of Triton are used in this module alone, each with the reason beside it. Known to hold
for Triton 3.6, 3.7 and 3.9. What the texts of a compiled kernel say is read by ``grader.irtext``,
what fits a chip is known to ``grader.chips``.
"""

from __future__ import annotations

import ast
import contextlib
import faulthandler
import functools
import json
import linecache
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import types
import warnings
from pathlib import Path

import torch
import triton
from triton.backends import backends  # the backends of this installation, by name
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend  # private: finds the backend of a target
from triton.runtime import _allocation  # private: holds what triton.set_allocator was given
from triton.runtime.autotuner import Autotuner
from triton.runtime.cache import triton_key  # private: hash of the installation, half a second
from triton.runtime.driver import driver
from triton.runtime.jit import JITFunction

from grader import chips, hints, irtext
from grader.processes import family_time

# The last step of JITFunction.run: private, and the one place where everything that decides about
# the code (types, constants, divisibility, options) is known and nothing is compiled yet.
_DO_COMPILE = JITFunction._do_compile
_RUN = JITFunction.run

_MESSAGE_LINES = 20
_MESSAGE_COLUMNS = 300


def gpu_target(name: str) -> GPUTarget:
    """Triton's target for ``"sm_90"`` or ``"gfx942"``; ValueError for a name of another form."""
    match = re.fullmatch(r"sm_(\d+)", name)
    if match:
        return GPUTarget("cuda", int(match.group(1)), 32)
    match = re.fullmatch(r"gfx(\d+)[0-9a-f]{2}", name)
    if match:
        # From gfx10 on (RDNA) a wave has 32 lanes.
        return GPUTarget("hip", name, 32 if int(match.group(1)) >= 10 else 64)
    raise ValueError(f"a target is named like sm_90 or gfx942, not {name!r}")


@functools.lru_cache
def if_supported(name: str) -> str | None:
    """None when the installed Triton can compile for a target, else the reason why not."""
    unknown = f"{name} is not known to Triton {triton.__version__}"
    try:
        target = gpu_target(name)
    except ValueError as error:
        return f"{unknown}: {error}"
    backend = {"cuda": "nvidia", "hip": "amd"}[target.backend]
    if backend not in backends:
        return f"{unknown}: this installation has no {backend} backend"
    if target.backend == "cuda" and name not in chips.CHIPS:
        # LLVM and ptxas abort on architectures they do not know; ptxas can say which it knows.
        listed = "".join(
            _output([tool, "--help"]) for tool in _NVIDIA_BIN.glob("ptxas*") if tool.is_file()
        )
        if listed and f"'{name}'" not in listed:
            return f"{unknown}: its ptxas does not list it"
    return None


def warm_up(targets: list[str]) -> None:
    """Does what the first compilation of a process pays for: about 0.7 s.

    A process that forks workers calls it once, so that none of them has to.
    """
    triton_key()
    for name in targets:
        if if_supported(name) is None:
            make_backend(gpu_target(name)).hash()  # asks ptxas for its version


class CompileLane:
    """Compiles whatever is launched while it is entered, and runs nothing.

    Parameters
    ----------
    targets:
        names such as ``"sm_80"``, ``"sm_100"``, ``"gfx942"``. While the launcher runs, Triton's
        driver answers with the first of them.
    file:
        path of the file under test; line numbers are given for this file alone.
    details:
        False leaves out registers, stack, spills and occupancy on NVIDIA, and saves the call of
        cuobjdump for each.
    tune_on:
        targets for which every config of an autotuner is compiled; on the others only the first
        config its pruning kept. None: all targets.
    processes:
        how many children compile at a time; None: one for each CPU this process may use, at most 8;
        0: compile in this process, one after another, with no protection from crashes.
    timeout:
        seconds one kernel may take for one target (not kept with ``processes=0``).

    The kernels must be compiled ones (``triton.knobs.runtime.interpret`` off when their file was
    imported), the tensors may be on the CPU. Compiled code is kept in Triton's own cache
    (TRITON_CACHE_DIR). A second lane cannot be entered inside of one.

    Attributes
    ----------
    launches: list of dicts, one for every distinct (kernel, config, specialisation, target).
        Always there:

        ``kernel`` (name), ``config`` (None without autotuning, else as in ``tuners``),
        ``target``, ``launch_line``, ``grids`` (the distinct grids, each [x, y, z]), ``grid_error``
        (None or an error, see below), ``allocator_set`` (triton.set_allocator was called),
        ``signature`` (argument name -> type, such as "*fp16, divisible by 16", "i32" or
        "constexpr 64"; None when the arguments could not be bound), ``specialised`` (names of
        arguments that became constants although not declared constexpr: their value was 1 or None),
        ``ok`` (True, False, or None: this Triton does not know the target), ``error`` (None or
        ``{"type", "message", "line"}``).

        When ok is True also: ``accumulators``, ``dots``, ``reductions`` (``irtext.read_ttir``),
        ``layouts`` (``irtext.read_layouts``), ``accesses`` and ``mnemonics`` (``irtext.read_ptx``),
        ``tensor_cores`` (bool), ``num_warps``, ``num_stages``, ``warps`` (of one program, as
        compiled), ``shared`` (bytes of one program), ``tensor_memory`` (columns of one program),
        ``scratch`` (bytes of global memory that one program wants from the allocator),
        ``registers`` (of one thread), ``stack`` and ``spills`` (bytes of one thread),
        ``occupancy`` (``chips.occupancy``), ``fits`` and ``fits_note`` (``chips.fits``), ``unread``
        (texts that could not be read, with the reason). What is not known is None.
    tuners: list of dicts, one for every autotuner that was launched:
        ``kernel``, ``keys`` (argument names), ``configs`` (each ``{"kwargs", "num_warps",
        "num_stages"}`` and what else is set), ``total``, ``distinct`` (how many differ), ``kept``
        (indices of those that pruning ever kept), ``prune_error`` (None or an error; all configs
        are compiled then).
    """

    _entered: CompileLane | None = None

    def __init__(
        self,
        targets: list[str],
        file: str,
        *,
        details: bool = True,
        tune_on: list[str] | None = None,
        processes: int | None = None,
        timeout: float = 60.0,
    ):
        self.targets = list(targets)
        self.file = os.path.realpath(file)
        self.details = details
        self.tune_on = self.targets if tune_on is None else list(tune_on)
        if processes is None:
            processes = min(len(os.sched_getaffinity(0)), 8)
        self.processes = processes
        self.timeout = timeout
        self.tuners: list[dict] = []
        self._driver = _Driver(next((t for t in self.targets if not if_supported(t)), "sm_80"))
        self._config: tuple[int, dict] | None = None  # index and facts of the config at hand
        self._planned: dict | None = None
        self._in_process = False
        self._entries: dict[tuple, dict] = {}
        self._jobs: dict[tuple, dict] = {}  # what is to be compiled, with the entries that wait
        self._results: dict[tuple, dict] = {}
        self._tuners: dict[int, dict] = {}
        self._alive: list = []  # keeps functions alive whose id() is part of a key

    def __enter__(self) -> CompileLane:
        if CompileLane._entered is not None:
            raise RuntimeError("a compile lane is entered already")
        CompileLane._entered = self
        # Triton looks these up on the class at every launch.
        self._tune_before = Autotuner.run
        JITFunction.run = lambda fn, *args, grid, warmup, **kwargs: self._launch(
            fn, args, kwargs, grid, warmup
        )
        JITFunction._do_compile = lambda fn, *args, **kwargs: self._plan_or_compile(
            fn, *args, **kwargs
        )
        Autotuner.run = lambda tuner, *args, **kwargs: self._tune(tuner, args, kwargs)
        self._driver_before = driver._active  # private: `active` would look for a GPU
        driver.set_active(self._driver)
        return self

    def __exit__(self, *exc) -> None:
        JITFunction.run = _RUN
        JITFunction._do_compile = _DO_COMPILE
        Autotuner.run = self._tune_before
        driver._active = self._driver_before
        CompileLane._entered = None

    @property
    def launches(self) -> list[dict]:
        """The facts, after compiling what was launched since they were last asked for."""
        jobs = [(key, job) for key, job in self._jobs.items() if key not in self._results]
        if jobs:
            warm_up(sorted({job["target"] for _, job in jobs}))
            results = _run_jobs(
                [job for _, job in jobs], self._compile, self.processes, self.timeout
            )
            for (key, job), result in zip(jobs, results, strict=True):
                self._results[key] = result
                for entry in job["entries"]:
                    entry.update(result)
                job["entries"] = []
        return list(self._entries.values())

    # ---------------------------------------------------------------- planning

    def _launch(self, fn: JITFunction, args, kwargs, grid, warmup):
        """Stands for JITFunction.run."""
        line = self._line_of_caller()
        shape, grid_error = (None, None) if warmup else self._grid(fn, args, kwargs, grid, line)
        allocator = _allocation._allocator.get()  # private: there is no public way to ask
        allocator_set = not isinstance(allocator, _allocation.NullAllocator)
        index, config = self._config or (0, None)
        for target in self.targets:
            if index and target not in self.tune_on:
                continue
            job, error = self._plan(fn, args, kwargs, target, line)
            key = (id(fn), target, job["key"] if job else json.dumps(error))
            entry_key = (*key, json.dumps(config))
            entry = self._entries.get(entry_key)
            if entry is None:
                entry = self._entries[entry_key] = {
                    "kernel": fn.__name__,
                    "defined": hints.defined(fn.fn),
                    "config": config,
                    "target": target,
                    "launch_line": line,
                    "grids": [],
                    "grid_error": None,
                    "allocator_set": allocator_set,
                    "signature": job["readable"] if job else None,
                    "specialised": job["specialised"] if job else [],
                    "ok": None if if_supported(target) else False,
                    "error": error,
                }
                self._alive.append(fn)
                if job:
                    waiting = self._jobs.setdefault(key, job)
                    if key in self._results:
                        entry.update(self._results[key])
                    else:
                        waiting["entries"].append(entry)
            if shape is not None and shape not in entry["grids"]:
                entry["grids"].append(shape)
            entry["grid_error"] = entry["grid_error"] or grid_error
            entry["allocator_set"] = entry["allocator_set"] and allocator_set
        if not warmup:
            return None
        # A launcher that calls `kernel.warmup` looks at what it gets back.
        self._driver.target = next((t for t in self.targets if not if_supported(t)), "sm_80")
        self._in_process = self._driver.in_process = True
        try:
            return _RUN(fn, *args, grid=grid, warmup=True, **kwargs)
        finally:
            self._in_process = self._driver.in_process = False

    def _plan(self, fn, args, kwargs, target, line) -> tuple[dict | None, dict | None]:
        """What would be compiled for a launch, or why it cannot come to that."""
        unsupported = if_supported(target)
        if unsupported:
            return None, {"type": "UnknownTarget", "message": unsupported, "line": None}
        self._planned = None
        first = self._driver.target
        self._driver.target = target
        try:
            _RUN(fn, *args, grid=None, warmup=True, **kwargs)
        except Exception as error:
            described = describe(error, self.file, line=line)
            # Triton binds arguments with a function it generates for the kernel.
            described["message"] = described["message"].replace(
                "dynamic_func()", f"{fn.__name__}()"
            )
            return None, described
        finally:
            self._driver.target = first
        return self._planned, None

    def _plan_or_compile(
        self, fn, key, signature, device, constexprs, options, attrs, *rest, **more
    ):
        """Stands for JITFunction._do_compile."""
        arguments = [key, signature, device, constexprs, options, attrs, *rest]
        if self._in_process:
            return _DO_COMPILE(fn, *arguments, **more)
        constants = {path[0]: value for path, value in constexprs.items() if len(path) == 1}
        declared = [param.is_constexpr for param in fn.params]  # private: the kernel's parameters
        readable, specialised = {}, []
        for at, (name, kind) in enumerate(signature.items()):
            text = ", ".join(map(str, kind)) if isinstance(kind, tuple) else str(kind)
            if kind == "constexpr":
                text = f"constexpr {_plain(constants.get(at))}"
                if not declared[at]:
                    specialised.append(name)
            marks = [mark for mark in attrs.get((at,), []) if mark[0] == "tt.divisibility"]
            readable[name] = f"{text}, divisible by {marks[0][1]}" if marks else text
        self._planned = {
            "fn": fn,
            "key": str(key),
            "target": self._driver.target,
            "arguments": arguments,
            "more": more,
            "readable": readable,
            "specialised": specialised,
            "entries": [],
        }
        return None

    def _grid(self, fn, args, kwargs, grid, line) -> tuple[list[int] | None, dict | None]:
        """The grid as [x, y, z], or what is wrong with it."""
        try:
            if callable(grid):
                # A kernel's launch options (num_warps, ...) are no arguments of its own.
                known = fn.signature.parameters
                own = {name: value for name, value in kwargs.items() if name in known}
                bound = fn.signature.bind_partial(*args, **own)
                bound.apply_defaults()
                names = dict(bound.arguments)
                try:
                    grid = grid(dict(names))
                except Exception as error:
                    text = hints.grid_function(error, list(names), list(known))
                    raise TypeError(text) from error
            sizes = list(hints.grid_sizes(grid))
        except Exception as error:
            return None, describe(error, self.file, line=line)
        problem = chips.grid_fault(sizes)
        if problem:
            return None, {"type": "ValueError", "message": problem, "line": line}
        return sizes + [1] * (3 - len(sizes)), None

    def _tune(self, tuner: Autotuner, args, kwargs) -> None:
        """Stands for Autotuner.run: every config that pruning keeps is launched, none is timed."""
        tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
        record = self._tuners.get(id(tuner))
        if record is None:
            configs = [_config_facts(config) for config in tuner.configs]
            record = self._tuners[id(tuner)] = {
                "kernel": tuner.base_fn.__name__,
                "keys": list(tuner.keys),
                "configs": configs,
                "total": len(configs),
                "distinct": len({json.dumps(config, sort_keys=True) for config in configs}),
                "kept": [],
                "prune_error": None,
            }
            self._alive.append(tuner)
            self.tuners.append(record)
        kept = tuner.configs
        if len(kept) > 1:
            try:
                kept = list(tuner.prune_configs(kwargs))
            except Exception as error:
                record["prune_error"] = describe(error, self.file)
        record["kept"] = sorted(
            {*record["kept"], *(at for at, one in enumerate(tuner.configs) if one in kept)}
        )
        # `_bench` (private) does all that belongs to one config: pre_hooks, which may set the block
        # shape of a tensor descriptor, the launch, post_hooks. Its stopwatch is the cached property
        # `do_bench`, hidden here by an attribute of the same name.
        tuner.__dict__["do_bench"] = lambda call, quantiles=None, **_: (call(), (1.0, 1.0, 1.0))[1]
        try:
            for index, config in enumerate(kept):
                self._config = index, _config_facts(config)
                tuner._bench(*args, config=config, **kwargs)
        finally:
            self._config = None
            tuner.nargs = None
            tuner.__dict__.pop("do_bench", None)

    def _line_of_caller(self) -> int | None:
        frame: types.FrameType | None = sys._getframe(2)
        while frame is not None:
            if _real(frame.f_code.co_filename) == self.file:
                return frame.f_lineno
            frame = frame.f_back
        return None

    # ---------------------------------------------------------------- compiling

    def _compile(self, job: dict, log: int | None = None) -> dict:
        """Compiles one job; ``log`` is the file that receives what the compiler prints."""
        before = driver._active
        target_before = self._driver.target
        self._driver.target = job["target"]
        self._driver.in_process = True
        job["arguments"][2] = self._driver.get_current_device()
        driver.set_active(self._driver)
        try:
            try:
                kernel = _DO_COMPILE(job["fn"], *job["arguments"], **job["more"])
            except RuntimeError as error:
                # The first look at a kernel stops at a foreign function without saying where; the
                # second gets as far as the front end, which names the line.
                if "Unsupported function referenced" not in str(error):
                    raise
                kernel = _DO_COMPILE(job["fn"], *job["arguments"], **job["more"])
        except Exception as error:
            described = describe(error, self.file, _read(log) if log is not None else "")
            if "unsupported target" in described["message"]:  # LLVM's word for a chip it misses
                message = f"{job['target']} is not known to Triton {triton.__version__}"
                unknown = {"type": "UnknownTarget", "message": message, "line": None}
                return {"ok": None, "error": unknown}
            return {"ok": False, "error": described}
        finally:
            driver._active = before
            self._driver.target = target_before
            self._driver.in_process = False
        return {
            "ok": True,
            "error": None,
            **read_kernel(kernel, job["target"], self.file, details=self.details),
        }


# ------------------------------------------------------------------------------------------------
# What is asked of a GPU driver


def pretend_driver(target: str = "sm_90") -> None:
    """Let launchers that ask Triton's driver about the card work on a machine without one."""
    driver.set_active(_Driver(target))


class _Driver:
    """Answers from the table of chips what compiling, and a launcher, may ask a GPU driver."""

    def __init__(self, target: str):
        self.target = target
        self.in_process = False

    def get_current_target(self) -> GPUTarget:
        return gpu_target(self.target)

    def get_current_device(self) -> str:
        # Triton keeps a kernel's variants by device: a name for each target keeps them apart, and
        # apart from those of real devices. Under the names used for planning nothing is ever kept,
        # so that every launch comes as far as _do_compile.
        return f"compile lane, {self.target}" + (", in process" if self.in_process else "")

    def get_current_stream(self, device) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_benchmarker(self):
        def refuse(*args, **kwargs):
            raise RuntimeError("nothing can be timed where nothing is launched")

        return refuse

    # For a launcher that sizes its grid by the card or by a kernel's registers.

    @property
    def utils(self) -> _Driver:
        return self

    def get_device_properties(self, device) -> dict:
        chip = chips.CHIPS.get(self.target, chips.CHIPS["sm_80"])
        return {
            "max_shared_mem": chip.shared_per_block,
            "max_num_regs": chip.registers_per_sm,
            "multiprocessor_count": chips.cards_of(chip.target)[0].sms,
            "warpSize": chip.warp_size,
            "sm_clock_rate": 1_700_000,  # kHz; the clocks and the bus are plausible, no more
            "mem_clock_rate": 2_600_000,
            "mem_bus_width": 5120,
        }

    def load_binary(self, name, binary, shared, device) -> tuple:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(binary)
            file.flush()
            registers, stack = _resources(file.name, name)
        return None, None, registers or 0, (stack or 0) // 4, 1024

    def launcher_cls(self, source, metadata):
        # A kernel that `warmup` gave may be launched by itself: what counts is that it compiled.
        return lambda *args, **kwargs: None


# ------------------------------------------------------------------------------------------------
# What a compiled kernel tells

_NVIDIA_BIN = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def read_kernel(kernel, target: str, file: str, *, details: bool = True) -> dict:
    """The facts about one compiled kernel (those of ``CompileLane.launches`` when ok is True).

    A text that cannot be read costs its own facts and is named in ``unread``.
    """
    meta = kernel.metadata
    facts: dict = {
        "accumulators": None,
        "dots": None,
        "reductions": None,
        "layouts": None,
        "accesses": None,
        "mnemonics": None,
        "tensor_cores": None,
        "registers": None,
        "stack": None,
        "spills": None,
        "num_warps": meta.num_warps,
        "num_stages": meta.num_stages,
        "warps": meta.num_warps,
        "shared": meta.shared,
        "tensor_memory": getattr(meta, "tmem_size", None) or 0,
        "scratch": getattr(meta, "global_scratch_size", None) or 0,
        "occupancy": None,
        "unread": [],
    }

    def read(name, reader):
        if name in kernel.asm:
            try:
                return reader(kernel.asm[name], file)
            except Exception as error:  # a form this module has not seen
                facts["unread"].append(f"{name}: {type(error).__name__}: {error}")
        return None

    facts.update(read("ttir", irtext.read_ttir) or {})
    facts["layouts"] = read("ttgir", irtext.read_layouts)
    text = read("ptx", irtext.read_ptx) or read("amdgcn", irtext.read_amdgcn) or {}
    facts.update({name: value for name, value in text.items() if name in facts})
    facts["warps"] = facts["warps"] or meta.num_warps
    if facts["mnemonics"] is not None:
        facts["tensor_cores"] = bool(facts["mnemonics"])
    if details and "cubin" in kernel.asm:
        # private: the files of a kernel in Triton's cache
        path = next((p for n, p in kernel.metadata_group.items() if n.endswith(".cubin")), None)
        facts["registers"], facts["stack"] = _resources(path, kernel.name)
        if facts["stack"] is not None:
            # The stack holds what was spilled and what the code keeps in local arrays.
            facts["spills"] = max(0, facts["stack"] - text.get("local", 0))
    chip = chips.CHIPS.get(target)
    if chip is not None and facts["registers"] is not None:
        facts["occupancy"] = chips.occupancy(
            chip, facts["registers"], facts["shared"], facts["warps"], facts["tensor_memory"]
        )
    facts["fits"], facts["fits_note"] = chips.fits(
        target, facts["shared"], facts["warps"], facts["tensor_memory"]
    )
    return facts


def _resources(cubin: str | None, name: str) -> tuple[int | None, int | None]:
    """Registers and stack bytes of one thread, as the wheel's cuobjdump prints them."""
    tool = _NVIDIA_BIN / "cuobjdump"
    if cubin is None or not tool.exists():
        return None, None
    text = _output([tool, "--dump-resource-usage", cubin])
    found = re.findall(r"Function ([^\s:]+):\s+REG:(\d+) STACK:(\d+).*?LOCAL:(\d+)", text)
    for function, registers, stack, local in found:
        if function == name or len(found) == 1:
            return int(registers), int(stack) + int(local)
    return None, None


def _output(command: list) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


# ------------------------------------------------------------------------------------------------
# Errors in the words of the one who wrote the kernel


def describe(error: BaseException, file: str, printed: str = "", line: int | None = None) -> dict:
    """An error as ``{"type", "message", "line"}``.

    ``message`` has the last meaningful lines (one screen at most, no traceback), ``line`` is the
    line in ``file``: the one given if the error tells none, or None. ``printed`` is what the
    compiler wrote to its standard error.
    """
    chain = [error]
    while len(chain) < 20:
        last = chain[-1]
        after = last.__cause__ or (None if last.__suppress_context__ else last.__context__)
        if after is None or after in chain:
            break
        chain.append(after)
    # Triton's front end raises one error for every function on the way in, each with the text of
    # that function and a place in it (attributes src, node, error_message).
    placed: list = [one for one in chain if isinstance(getattr(one, "src", None), str)]
    if placed:
        excerpt = ""
        source = _source(file)
        for one in placed:  # the innermost function of this file wins over Triton's library
            found = _line_of_node(one, source)
            if found is not None:
                line, excerpt = found, _excerpt(one)
        inner = placed[-1]
        text = str(inner.error_message or inner)
        if chain[-1] is not inner:
            text = repr(chain[-1])
        text = hints.plain(text, excerpt.split("\n")[0]) or _without_repr(text)
        message = f"{text}\n{excerpt}" if excerpt else text
    else:
        said = error.args[0] if isinstance(error, KeyError) and error.args else error
        message = _last_lines(str(said)) or type(error).__name__
        for one in chain:
            for frame, number in _frames(one):
                if _real(frame.f_code.co_filename) == _real(file):
                    line = number
        diagnosed = _DIAGNOSTIC.findall(printed)
        for path, number, _ in diagnosed:
            if line is None and _real(path) == _real(file):
                line = int(number)
        more = [text for _, _, text in diagnosed if not _NOISE.match(text)]
        code = linecache.getline(file, line or 0)
        said_plainly = hints.plain(f"{type(error).__name__}: {message}", code, kernel=False)
        of_passes = [said for text in more if (said := hints.plain(text, code))]
        message = said_plainly or message
        message = of_passes[0] if of_passes else "\n".join(dict.fromkeys([message, *more]))
    return {"type": type(error).__name__, "message": _clip(message), "line": line}


# `kernel.py:3:4: error: ...` and `loc("kernel.py":3:4): error: ...` of the compiler's passes.
_DIAGNOSTIC = re.compile(r'"?([^\s"():]+)"?:(\d+):\d+\)*: error: (.*)')
# Lines of tools that say nothing about the kernel.
_NOISE = re.compile(
    r"\s*$|={5,}|`ptxas` stderr:|Repro command:|please share the reproducer"
    r"|Failures have been detected while processing an MLIR pass pipeline"
)
_REPR = re.compile(r"(\w+)\((['\"].*['\"]),?\)", re.S)


def _without_repr(text: str) -> str:
    """`NameError('x is not defined')`, as Triton prints what it caught, in plain words."""
    match = _REPR.fullmatch(text)
    if match is None:
        return text
    try:
        words = ast.literal_eval(match.group(2))
    except (ValueError, SyntaxError):
        return text
    # These two say everything in their words.
    plain = match.group(1) in ("AssertionError", "ValueError")
    return str(words) if plain else f"{match.group(1)}: {words}"


def _last_lines(text: str) -> str:
    kept = [line for line in text.splitlines() if not _NOISE.match(line)]
    return re.sub(r"\S*/tmp\S*\.ptx", "the PTX", "\n".join(kept))


def _clip(text: str) -> str:
    lines = [line[:_MESSAGE_COLUMNS] for line in text.strip().splitlines()]
    return "\n".join(lines[-_MESSAGE_LINES:])


def _frames(error: BaseException):
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


@functools.lru_cache(maxsize=256)
def _real(path: str) -> str:
    return os.path.realpath(path)


def _source(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _line_of_node(error, source: str) -> int | None:
    """The line in the file of a place that is counted from a function's `def`."""
    number = getattr(error.node, "lineno", None)
    if number is None:
        return None
    start = source.find(error.src)
    if start >= 0:
        return source.count("\n", 0, start) + number
    # An indented function: Triton keeps its text without the indentation.
    first = error.src.split("\n", 1)[0].strip()
    for at, line in enumerate(source.splitlines()):
        if line.strip() == first and line[:1].isspace():
            return at + number
    return None


def _excerpt(error) -> str:
    """The line of source with a mark below the place."""
    lines = error.src.split("\n")
    number = error.node.lineno
    if not 1 <= number <= len(lines):
        return ""
    line = lines[number - 1]
    indent = len(line) - len(line.lstrip())
    return f"    {line.strip()}\n    {' ' * max(0, error.node.col_offset - indent)}^"


def _plain(value):
    """A value as JSON can hold it."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    return getattr(value, "__name__", None) or str(value)


def _config_facts(config: triton.Config) -> dict:
    options = {
        name: _plain(value)
        for name, value in config.all_kwargs().items()
        if name not in config.kwargs and (name, value) != ("num_ctas", 1)
    }
    return {"kwargs": {name: _plain(v) for name, v in config.kwargs.items()}, **options}


# ------------------------------------------------------------------------------------------------
# Children that compile

_INDEX_BYTES = 4
MOST_WAITING = 10  # times its time, for a job that a busy machine lets wait


class _Child:
    """A forked process that takes jobs until none is left."""

    def __init__(self, pid: int, results: int, log):
        self.pid = pid
        self.results = results  # pipe with a line of JSON before and after every job
        self.log = log  # what the job at hand printed
        self.buffer = b""
        self.job: int | None = None
        self.began = self.used = 0.0  # when the job began, and the processor time until then

    def out_of_time(self, timeout: float) -> bool:
        """Whether its job has had its time; where a machine is busy that is processor time."""
        waited = time.monotonic() - self.began
        if waited <= timeout:
            return False
        used, wants_more = family_time(self.pid)
        return used - self.used > timeout or not wants_more or waited > MOST_WAITING * timeout


def _run_jobs(jobs: list[dict], work, processes: int, timeout: float) -> list[dict]:
    """Results of ``work(job, log)`` for every job, in order."""
    if processes < 1:
        return [work(job) for job in jobs]
    results: list[dict | None] = [None] * len(jobs)
    # Children read the number of their next job from one file, whose position they share: none of
    # them waits for another.
    queue = tempfile.TemporaryFile()  # noqa: SIM115
    queue.write(b"".join(at.to_bytes(_INDEX_BYTES, "little") for at in range(len(jobs))))
    queue.seek(0)
    selector = selectors.DefaultSelector()
    children: list[_Child] = []
    taken = 0
    try:
        for _ in range(min(processes, len(jobs))):
            children.append(_start_child(queue.fileno(), jobs, work))
            selector.register(children[-1].results, selectors.EVENT_READ, children[-1])
        while selector.get_map():
            for key, _ in selector.select(timeout=0.2):
                child = key.data
                data = os.read(child.results, 1 << 20)
                child.buffer += data
                *lines, child.buffer = child.buffer.split(b"\n")
                for line in lines:
                    message = json.loads(line)
                    if "result" in message:
                        results[message["job"]] = message["result"]
                        child.job = None
                    else:
                        taken += 1
                        child.job = message["job"]
                        child.began, child.used = time.monotonic(), family_time(child.pid)[0]
                if data:
                    continue
                selector.unregister(child.results)
                status = _end_child(child)
                if child.job is not None and results[child.job] is None:
                    results[child.job] = _crashed(status, child)
                child.log.close()
                children.remove(child)
                if taken < len(jobs) and not selector.get_map():
                    children.append(_start_child(queue.fileno(), jobs, work))
                    selector.register(children[-1].results, selectors.EVENT_READ, children[-1])
            for child in children:
                if child.job is not None and child.out_of_time(timeout):
                    message = f"compiling took more than {timeout:g} s"
                    error = {"type": "TimeoutError", "message": message, "line": None}
                    results[child.job] = {"ok": False, "error": error}
                    child.job = None
                    os.kill(child.pid, signal.SIGKILL)
    except OSError:
        pass  # no more processes allowed here: what is left is compiled below
    finally:
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            _end_child(child)
            child.log.close()
        selector.close()
        queue.close()
    return [
        work(job) if result is None else result for job, result in zip(jobs, results, strict=True)
    ]


def _start_child(queue: int, jobs: list[dict], work) -> _Child:
    read_end, write_end = os.pipe()
    log = tempfile.TemporaryFile()  # noqa: SIM115
    with warnings.catch_warnings():
        # Python warns of forking a process with threads. Torch's are not touched in the child.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(write_end)
        return _Child(pid, read_end, log)
    try:
        os.close(read_end)
        faulthandler.disable()  # a traceback of this process tells nothing about the kernel
        for descriptor in (1, 2):  # also what the compiler's C++ prints, also when it aborts
            os.dup2(log.fileno(), descriptor)
        while number := os.read(queue, _INDEX_BYTES):
            at = int.from_bytes(number, "little")
            os.ftruncate(log.fileno(), 0)
            os.lseek(log.fileno(), 0, os.SEEK_SET)
            _send(write_end, {"job": at})
            _send(write_end, {"job": at, "result": work(jobs[at], log.fileno())})
    finally:
        os._exit(0)


def _send(pipe: int, message: dict) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]


def _end_child(child: _Child) -> int:
    with contextlib.suppress(OSError):
        os.close(child.results)
    try:
        return os.waitpid(child.pid, 0)[1]
    except ChildProcessError:  # somebody waited for all children of this process
        return 0


def _crashed(status: int, child: _Child) -> dict:
    if os.WIFSIGNALED(status):
        how = f"was ended by {signal.Signals(os.WTERMSIG(status)).name}"
    else:
        how = f"ended its process with status {os.waitstatus_to_exitcode(status)}"
    printed = _read(child.log.fileno()).splitlines()
    telling = [line for line in printed if re.search(r"error|assert|abort", line, re.I)]
    message = "\n".join([f"the compiler {how}", *(telling or printed)[-8:]])
    return {
        "ok": False,
        "error": {"type": "CompilerCrash", "message": _clip(message), "line": None},
    }


def _read(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    start = max(0, size - (1 << 20))
    return os.pread(descriptor, size - start, start).decode("utf-8", "replace")
