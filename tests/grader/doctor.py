"""What this machine can judge, and what to do about the rest: `python -m grader.doctor`.

Made for broken houses: PyTorch and Triton are imported in child processes, so a missing wheel, a
library that crashes on import or a driver that hangs becomes a line of advice. `collect` looks,
`diagnose` judges what it saw; the two meet in one plain dict, so that any machine can be tested
from any other.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .words import plural, speak, wrapped

OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 13)
OLDEST_TRITON, NEWEST_TRITON = (3, 6), (3, 9)
OLDEST_TORCH = (2, 11)
OLDEST_CAPABILITY = (8, 0)

Facts = dict[str, Any]


@dataclass(frozen=True)
class Line:
    """One finding: `level` is "ok", "note", "warn" or "bad"; `todo` says what to do about it."""

    level: str
    text: str
    todo: str = ""

    def __str__(self) -> str:
        sign = {"ok": " ok  ", "note": "     ", "warn": " !   ", "bad": " X   "}[self.level]
        advice = "\n" + wrapped(self.todo, "     -> ") if self.todo else ""
        return wrapped(self.text, sign) + advice


# Looking

TORCH_PROBE = """
import json, torch
facts = {"version": torch.__version__, "cuda": torch.version.cuda,
         "hip": getattr(torch.version, "hip", None), "devices": [], "gpu_error": None}
try:
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            p = torch.cuda.get_device_properties(i)
            facts["devices"].append({
                "name": p.name, "capability": [p.major, p.minor], "sms": p.multi_processor_count,
                "memory": p.total_memory,
                "arch": getattr(p, "gcnArchName", "").split(":")[0] if facts["hip"] else ""})
    elif facts["cuda"] or facts["hip"]:
        torch.cuda.init()
except Exception as error:
    facts["gpu_error"] = str(error).strip().splitlines()[0] if str(error).strip() else repr(error)
print("\\n" + json.dumps(facts))
"""

TRITON_PROBE = """
import json, os, triton, triton.language
home = os.path.join(os.path.dirname(triton.__file__), "backends")
tools = [os.path.join(home, "nvidia", "bin", name) for name in ("ptxas", "cuobjdump")]
print("\\n" + json.dumps({
    "version": triton.__version__,
    "missing_tools": [os.path.basename(path) for path in tools if not os.path.exists(path)],
    "backends": sorted(n for n in os.listdir(home) if os.path.isdir(os.path.join(home, n))
                       and not n.startswith("_")) if os.path.isdir(home) else []}))
"""

VERSION_PROBE = """
import json, importlib
print("\\n" + json.dumps({"version": importlib.import_module(NAME).__version__}))
"""


def ask(code: str, timeout: float = 120) -> Facts:
    """Run a probe in a child: its JSON, or {"error": a broken package's last words}."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            timeout=timeout,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"it did not answer within {timeout:.0f} s"}
    except OSError as error:
        return {"error": str(error)}
    if done.returncode < 0:
        try:
            name = signal.Signals(-done.returncode).name
        except ValueError:
            name = str(-done.returncode)
        return {"error": f"the process died of {name}"}
    try:
        facts = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {"error": last[:200]}
    return facts if isinstance(facts, dict) else {"error": "an answer that makes no sense"}


def collect() -> Facts:
    """Everything that `diagnose` wants to know about this machine, as plain data."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "cores": available_cores(),
        "torch": ask(TORCH_PROBE),
        "triton": ask(TRITON_PROBE),
        "numpy": ask(VERSION_PROBE.replace("NAME", "'numpy'")),
        "pytest": ask(VERSION_PROBE.replace("NAME", "'pytest'")),
        "nvidia_smi": nvidia_cards(),
        "amd_device": os.path.exists("/dev/kfd"),
        "cache": cache_facts(),
        "env": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith("TRITON_") or name.endswith("_VISIBLE_DEVICES")
        },
    }


def available_cores() -> int:
    """The cores that this process may use, which a container or a cluster may have cut down."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def nvidia_cards() -> str:
    """The cards that the driver's own tool sees, "name, driver version" a line; "" for none."""
    if not shutil.which("nvidia-smi"):
        return ""
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, timeout=30, text=True, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def cache_facts() -> Facts:
    """Where Triton keeps compiled kernels, how much is there, and whether more can be written."""
    chosen = os.environ.get("TRITON_CACHE_DIR", "").strip()
    home = os.environ.get("TRITON_HOME", "").strip() or str(Path("~").expanduser())
    path = Path(chosen) if chosen else Path(home, ".triton", "cache")
    size = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                size += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue
    return {"path": str(path), "size": size, "writable": is_writable(path)}


def is_writable(path: Path) -> bool:
    """Whether a file can be made in a folder, or in the nearest one above it that exists."""
    while not path.exists() and path != path.parent:
        path = path.parent
    try:
        with tempfile.NamedTemporaryFile(dir=path):
            return True
    except OSError:
        return False


# Judging


def version_of(text: str) -> tuple[int, int]:
    """The first two numbers of a version: "3.7.1+git" is (3, 7)."""
    numbers = [int("".join(c for c in part if c.isdigit()) or 0) for part in text.split(".")[:2]]
    return (numbers[0], numbers[1] if len(numbers) > 1 else 0)


def dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def lanes(facts: Facts) -> dict[str, bool]:
    """Which lanes can speak here."""
    works = all("version" in facts[name] for name in ("torch", "triton", "numpy"))
    tools = works and not facts["triton"]["missing_tools"]
    return {
        "trace": works,
        "compile": tools and facts["cache"]["writable"],
        "gpu": works and bool(facts["torch"]["devices"]) and facts["cache"]["writable"],
    }


def diagnose(facts: Facts) -> list[Line]:
    """Every finding about a machine, from the ground up: platform, packages, GPU, cache, shell."""
    return [
        *on_platform(facts),
        *on_packages(facts),
        *on_gpu(facts),
        *on_cache(facts),
        *on_shell(facts),
        *on_lanes(facts),
    ]


def on_platform(facts: Facts) -> list[Line]:
    system = {"Darwin": "macOS"}.get(facts["system"], facts["system"])
    where = f"{system} on {facts['machine']}, {plural(facts['cores'], 'core')}"
    if system == "Linux":
        found = [Line("ok", where)]
    elif "version" in facts["triton"]:
        found = [Line("note", f"{where}: the katas are tried out on Linux only")]
    else:
        instead = "WSL 2 (a Linux inside Windows)" if system == "Windows" else "a Linux container"
        todo = f"use {instead}, a Linux machine or a notebook host; no GPU is needed"
        found = [Line("bad", f"{where}: Triton has no wheel for {system}", todo)]
    python = (facts["python"][0], facts["python"][1])
    text = f"Python {'.'.join(map(str, facts['python']))} ({facts['executable']})"
    if OLDEST_PYTHON <= python <= NEWEST_PYTHON:
        found.append(Line("ok", text))
    else:
        asked = f"{dotted(OLDEST_PYTHON)} to {dotted(NEWEST_PYTHON)}"
        text += f" is outside what the katas are made for, {asked}"
        todo = f"use a Python in {asked}, such as python3.12 -m venv .venv"
        found.append(Line("warn", text, todo))
    return found


def on_packages(facts: Facts) -> list[Line]:
    found = []
    for name, title in (("torch", "PyTorch"), ("triton", "Triton"), ("numpy", "numpy")):
        error = facts[name].get("error")
        if error is None:
            continue
        if "No module named" in error and f"'{name}'" in error:
            found.append(Line("bad", f"{title} is not installed in this Python", install(facts)))
        else:
            todo = f"install it anew: {facts['executable']} -m pip install --force-reinstall {name}"
            found.append(Line("bad", f"{title} is there but cannot be imported: {error}", todo))
    if "error" in facts["pytest"]:
        todo = f"{facts['executable']} -m pip install pytest"
        found.append(Line("bad", "pytest is not installed: no check can be run", todo))
    if "version" in facts["torch"]:
        found.append(on_torch(facts["torch"]))
    if "version" in facts["triton"]:
        found += on_triton(facts)
    return found


def install(facts: Facts) -> str:
    """What to do where a package is missing altogether."""
    if facts["system"] == "Linux":
        return "nox -s check-1 installs what is needed into .venv, once"
    return "see the platform above"


def on_torch(torch: Facts) -> Line:
    build = "for ROCm " + torch["hip"] if torch["hip"] else ""
    build = build or ("for CUDA " + torch["cuda"] if torch["cuda"] else "for the CPU only")
    text = f"PyTorch {torch['version']} {build}"
    if version_of(torch["version"]) >= OLDEST_TORCH:
        return Line("ok", text)
    todo = f"update PyTorch to {dotted(OLDEST_TORCH)} or later, with the Triton that it brings"
    return Line("warn", f"{text} is older than the katas are tried with", todo)


def on_triton(facts: Facts) -> list[Line]:
    triton = facts["triton"]
    version = version_of(triton["version"])
    asked = f"{dotted(OLDEST_TRITON)} to {dotted(NEWEST_TRITON)}"
    if OLDEST_TRITON <= version <= NEWEST_TRITON:
        found = [Line("ok", f"Triton {triton['version']}")]
    else:
        text = f"Triton {triton['version']} is outside what the katas are made for, {asked}"
        todo = f"install a PyTorch that brings Triton {asked}, or let nox make .venv"
        found = [Line("warn", text, todo)]
    numpy = facts["numpy"].get("version", "0")
    if version <= (3, 6) and version_of(numpy) >= (2, 4):
        text = (
            f"numpy {numpy} does not go with Triton {triton['version']}: its interpreter fails at "
            "`range(0, K, BLOCK_K)` when K is known at run time only"
        )
        todo = f'{facts["executable"]} -m pip install "numpy<2.4", or Triton 3.7 or later'
        found.append(Line("warn", text, todo))
    if triton["missing_tools"]:
        names = " and ".join(triton["missing_tools"])
        text = f"This Triton comes without {names}, which the compile lane needs for NVIDIA targets"
        found.append(Line("warn", text, "install Triton from its wheel: pip brings both tools"))
    return found


def on_gpu(facts: Facts) -> list[Line]:
    torch = facts["torch"]
    if "version" not in torch:
        return []
    if torch["devices"]:
        backend = "hip" if torch["hip"] else "cuda"
        return [line for device in torch["devices"] for line in on_device(device, backend)]
    cards = facts["nvidia_smi"].splitlines()
    hidden = [
        name
        for name, value in facts["env"].items()
        if name.endswith("_VISIBLE_DEVICES") and value.strip() in ("", "-1", "none", "void")
    ]
    if cards and hidden:
        text = f"A GPU is there ({cards[0]}) but {hidden[0]} hides it"
        return [Line("warn", text, f"unset {hidden[0]}")]
    if cards and not torch["cuda"]:
        text = f"A GPU is there ({cards[0]}) but this PyTorch is not a CUDA build"
        todo = "install the CUDA build (PyTorch's install page names the command), or do without"
        return [Line("warn", text, todo)]
    if cards:
        said = torch["gpu_error"] or "torch.cuda.is_available() is False"
        text = f"A GPU is there (name, driver: {cards[0]}) but PyTorch cannot use it: {said}"
        todo = f"update the driver to one for CUDA {torch['cuda']}, or take an older CUDA build"
        return [Line("warn", text, todo)]
    if facts["amd_device"] and not torch["hip"]:
        text = "An AMD GPU seems to be there (/dev/kfd) but this PyTorch is not a ROCm build"
        todo = "install the ROCm build (PyTorch's install page names the command), or do without"
        return [Line("warn", text, todo)]
    if facts["amd_device"]:
        said = torch["gpu_error"] or "torch.cuda.is_available() is False"
        text = f"An AMD GPU seems to be there (/dev/kfd) but PyTorch cannot use it: {said}"
        return [Line("warn", text, "check rocminfo, and that you may read and write /dev/kfd")]
    return [Line("note", "No GPU: none is needed, but for speed and behaviour on real hardware")]


def on_device(device: Facts, backend: str) -> list[Line]:
    major, minor = device["capability"]
    arch = device["arch"] or f"sm_{major}{minor}"
    units = "compute units" if backend == "hip" else "SMs"
    text = (
        f"GPU {device['name']}: {backend}, {arch}, {device['sms']} {units}, "
        f"{device['memory'] / 2**30:.0f} GiB"
    )
    if backend == "cuda" and (major, minor) < OLDEST_CAPABILITY:
        text += f"; Triton supports compute capability {dotted(OLDEST_CAPABILITY)} and later"
        todo = "do not count on the gpu lane: nox -s check-1 -- --lanes=trace,compile"
        return [Line("warn", text, todo)]
    return [Line("ok", text)]


def on_cache(facts: Facts) -> list[Line]:
    cache = facts["cache"]
    text = f"Triton's cache: {cache['path']}, {cache['size'] / 2**20:.0f} MiB"
    if not cache["writable"]:
        todo = "set TRITON_CACHE_DIR to a folder that you can write to"
        return [Line("bad", f"{text}, cannot be written", todo)]
    if cache["size"] > 10 * 2**30:
        return [Line("note", text, "it may be deleted at any time: Triton fills it again")]
    return [Line("ok", text)]


def on_shell(facts: Facts) -> list[Line]:
    """Variables that change what Triton does, as far as they were set."""
    found = []
    for name, value in facts["env"].items():
        if name == "TRITON_INTERPRET" and value.strip().lower() not in ("", "0", "false", "off"):
            text = f"TRITON_INTERPRET={value} is set in this shell: Triton then compiles nothing"
            todo = "unset TRITON_INTERPRET (each lane chooses by itself whether to interpret)"
            found.append(Line("warn", text, todo))
        elif name == "TRITON_ALWAYS_COMPILE" and value.strip().lower() not in ("", "0", "false"):
            text = f"{name}={value} is set: every check compiles everything again"
            found.append(Line("note", text, f"unset {name} for quicker checks"))
        elif name.startswith("TRITON_") and name not in HARMLESS:
            text = f"{name}={value} is set: it may change what Triton compiles, or its speed"
            found.append(Line("note", text, f"unset {name} if a verdict surprises you"))
    return found


HARMLESS = {"TRITON_INTERPRET", "TRITON_ALWAYS_COMPILE", "TRITON_CACHE_DIR", "TRITON_HOME"}


LANES = {
    "trace": "the interpreter with every load and store watched: values, bounds, what is written "
    "how often, bytes moved",
    "compile": "the real compiler, for GPUs that need not be here: what the interpreter forgives, "
    "accumulator types, tensor cores, registers, shared memory",
    "gpu": "the card itself: values in guarded buffers, and speed",
}


def on_lanes(facts: Facts) -> list[Line]:
    """What each lane judges, and whether it can do so here."""
    off = {
        "trace": ("bad", "without it no verdict is complete", "put right what is marked above"),
        "compile": ("warn", "what only it sees cannot be judged", "put right what is marked above"),
        "gpu": ("note", "speed and behaviour on a card are shown as not judged", ""),
    }
    found = []
    for lane, on in lanes(facts).items():
        if on:
            found.append(Line("ok", f"lane {lane}: {LANES[lane]}"))
        else:
            level, loss, todo = off[lane]
            found.append(Line(level, f"lane {lane} does not work here: {loss}", todo))
    return found


def main() -> int:
    facts = collect()
    for line in diagnose(facts):
        print(line)
    return 0 if lanes(facts)["trace"] and "version" in facts["pytest"] else 1


if __name__ == "__main__":
    speak(main)
