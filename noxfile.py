"""Check, prove and maintain the Triton katas.

`nox` alone says what to type next; `nox -s check-1` checks kata 1.

All sessions share one Python, chosen here without importing torch or triton:

1. $KATAS_PYTHON, if it is set;
2. the Python that runs nox, or that of the active environment, if torch and triton are there:
   an environment that is used as it is, with nothing installed into it;
3. otherwise .venv in this folder, made and filled once with the versions pinned in tests/*.txt.
"""

from __future__ import annotations

import argparse
import difflib
import functools
import hashlib
import importlib.util
import json
import logging
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

import nox
import nox.command
import nox.registry

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
RANGE = ROOT / ".nox" / "range"
REQUIREMENTS = ROOT / "tests" / "requirements.txt"
DEV_REQUIREMENTS = ROOT / "tests" / "requirements-dev.txt"
GRADING_REQUIREMENTS = ROOT / "tests" / "requirements-grading.txt"
CLUSTER_REQUIREMENTS = ROOT / "tests" / "requirements-cluster.txt"
CONSTRAINTS = ROOT / "tests" / "constraints.txt"
OLDEST, NEWEST = (3, 10), (3, 13)
PYTEST_USAGE = 4  # pytest's exit code where it is given an option that it does not know
SHARE = 5  # how many solutions one process checks

nox.needs_version = ">=2024.4.15"
nox.options.sessions = ["home"]


# The katas


def katas() -> dict[int, str]:
    """Every kata by its number: {1: "01_vector_add", ...}, found by its folder.

    The lesson will do: a learner may have deleted the kernel, and reset-N brings it back.
    """
    folders = "exercises/[0-9][0-9]_*"
    found = {
        path.parent.name
        for name in ("kernel.py", "README.md")
        for path in ROOT.glob(f"{folders}/{name}")
    }
    return {int(name[:2]): name for name in sorted(found)}


def title(kata: str) -> str:
    """A kata's name for people: the heading of its lesson, or else its folder's name."""
    lesson = ROOT / "exercises" / kata / "README.md"
    if lesson.is_file():
        for line in lesson.read_text(encoding="utf-8").splitlines():
            if line.startswith("# "):
                return re.sub(r"^(kata\s*)?\d+\s*[:.\-]?\s*", "", line[2:].strip(), flags=re.I)
    return kata[3:].replace("_", " ")


def requested() -> list[str]:
    """The session names on the command line (or in $NOXSESSION), read as nox reads them."""
    words = sys.argv[1:]
    words = words[: words.index("--")] if "--" in words else words
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("-s", "-e", "--sessions", "--session", nargs="*", dest="names")
    try:
        names = parser.parse_known_args(words)[0].names
    except (argparse.ArgumentError, SystemExit):  # nox will say what is wrong with it
        return []
    if names is None:
        names = os.environ.get("NOXSESSION", "").split(",")
    return [name.strip() for name in names if name.strip()]


def asked_for(names: list[str]) -> dict[str, tuple[str, int]]:
    """What is to be done with which kata: {"hint-3": ("hint", 3)}, with any spelling of the number.

    A kata that is not there ends the run.
    """
    found = {}
    for name in names:
        family = re.match(rf"({'|'.join(PER_KATA)})(-|$)", name)
        if not family or name == "bench-table":
            continue
        number = re.fullmatch(r"[a-z]+-0*(\d+)", name)
        there = ", ".join(map(str, katas())) or "none"
        if not number:
            stop(f"there is no session {name} here; write {family[1]}-N, with N of katas: {there}")
        if int(number[1]) not in katas():
            stop(f"there is no kata {number[1]} here; katas: {there}")
        found[name] = family[1], int(number[1])
    return found


def refuse_unknown(names: list[str]) -> None:
    """End the run with one line if a session is asked for that is not there."""
    known = [*nox.registry.get(), *(f"{name}-{n}" for n in katas() for name in PER_KATA)]
    for name in names:
        if name not in known and name not in asked_for([name]):
            near = difflib.get_close_matches(name.lower(), known, 1)
            meant = f"did you mean {near[0]}? " if near else ""
            stop(f"there is no session {name} here; {meant}{nox_command()} -l lists them")


def takes_no_words(session: nox.Session) -> None:
    """End the run if there are words for this session; beside others, they may be for those."""
    if session.posargs and len(requested()) < 2:
        stop(f"{session.name} takes no further words")


# Talking


def say(text: str) -> None:
    """One line for the person at the keyboard, apart from the reports on standard output."""
    print(text, file=sys.stderr, flush=True)


def stop(text: str) -> NoReturn:
    """Give up with one line and exit code 2: something has to be done outside first."""
    say(text)
    raise SystemExit(2)


def nox_command() -> str:
    """How nox was called, to be repeated in advice."""
    if Path(sys.argv[0]).name == "__main__.py":
        return f"{shown(sys.executable)} -m nox"
    return ".venv/bin/nox" if in_venv() and not shutil.which("nox") else "nox"


def shown(path: str | Path) -> str:
    """A path as short as it can be said from here."""
    path = Path(path)
    if path.is_relative_to(ROOT):
        return str(path.relative_to(ROOT))
    return path.name if shutil.which(path.name) == str(path) else str(path)


class Hush(logging.Filter):
    """Keeps nox's own remarks out of a learner's report, which says it all already."""

    remarks = re.compile(
        r"(Running session|Session) ([a-z]+-\d+|bench-table|grade|home|doctor|status|next|watch|pictures)"
        r"( (was|failed).*)?"
        r"|uv binary not found"
    )

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.remarks.fullmatch(record.getMessage().rstrip("."))


if not {"-v", "--verbose"} & set(sys.argv):
    logging.getLogger("nox").addFilter(Hush())


# The Python that serves all sessions

PROBE = """
import importlib.util as u, json, sys
def here(name):
    spec = u.find_spec(name)
    return spec is not None and spec.origin is not None
print(json.dumps([list(sys.version_info[:2]), [n for n in sys.argv[1:] if here(n)]]))
"""


def probe(python: str, *modules: str) -> tuple[tuple[int, int], set[str]] | None:
    """The version of a Python and which of `modules` it has; None if it does not run."""
    command = [python, "-c", PROBE, *modules]
    try:
        answer = subprocess.run(command, capture_output=True, timeout=60, check=True, text=True)
        version, found = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return (version[0], version[1]), set(found)


def probe_here(*modules: str) -> tuple[tuple[int, int], set[str]]:
    """The same for the Python that runs nox, in no time."""
    specs = {name: importlib.util.find_spec(name) for name in modules}
    return sys.version_info[:2], {n for n, s in specs.items() if s is not None and s.origin}


def in_venv() -> bool:
    return Path(sys.prefix).resolve() == VENV


def venv_python() -> Path:
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def active_pythons() -> list[str]:
    """The Pythons of the environments that are active in the shell, except the project's own."""
    prefixes = [os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    folders = [Path(prefix) for prefix in prefixes if prefix and Path(prefix).resolve() != VENV]
    names = ("Scripts/python.exe", "python.exe") if os.name == "nt" else ("bin/python",)
    return [str(folder / name) for folder in folders for name in names if (folder / name).is_file()]


@functools.cache
def existing_python() -> str | None:
    """An environment with torch and triton that is to be used as it is, or None."""
    wanted = ("torch", "triton", "numpy", "pytest")
    named = os.environ.get("KATAS_PYTHON")
    if named:
        python = shutil.which(os.path.expanduser(named))
        found = python and probe(python, *wanted)
        if not python or not found:
            stop(f"KATAS_PYTHON={named}: that is not a Python that runs")
        missing = [name for name in wanted if name not in found[1]]
        if missing:
            packages = " ".join(missing)
            stop(f"KATAS_PYTHON={named} lacks {packages}: {named} -m pip install {packages}")
        return python
    candidates = [] if in_venv() else [(sys.executable, probe_here(*wanted))]
    candidates += [] if in_venv() else [(path, probe(path, *wanted)) for path in active_pythons()]
    for python, found in candidates:
        if found is None or not {"torch", "triton"} <= found[1]:
            continue
        missing = " ".join(name for name in wanted if name not in found[1])
        if missing:
            install = f"{shown(python)} -m pip install {missing}"
            stop(f"{python} has torch and triton but lacks {missing}: {install}")
        if not OLDEST <= found[0] <= NEWEST:
            stop(
                f"{python} is Python {dotted(found[0])}, and the katas are made for "
                f"{dotted(OLDEST)} to {dotted(NEWEST)}: set KATAS_PYTHON to another one "
                f"(or to this one, to try it all the same)"
            )
        return python
    return None


@functools.cache
def shared_python() -> str:
    """The Python of every session that runs a kernel; fills .venv first where that is needed."""
    python = existing_python()
    if python:
        say(f"Using {python}, with the torch and triton that are installed there.")
        return python
    python = str(make_venv())
    cost = "one to five minutes, 1.7 GB, or 5 GB where pip takes PyTorch's CUDA build (see README)"
    install_once(VENV, [REQUIREMENTS], "PyTorch 2.13, Triton 3.7 and pytest", cost)
    return python


@functools.cache
def dev_python(*tools: str) -> str | None:
    """The shared Python with the maintainers' tools, or None if an existing one lacks some."""
    python = shared_python()
    if existing_python():
        found = probe(python, *tools)
        return python if found and set(tools) <= found[1] else None
    what = "ruff, mypy, pytest-xdist, nox, openai and what the class grader needs"
    install_once(VENV, [DEV_REQUIREMENTS, GRADING_REQUIREMENTS], what, "a few seconds, 0.2 GB")
    return python


def grading_python(cluster: bool) -> str:
    """The shared Python with what grading a class needs; an existing one is used as it is."""
    python = shared_python()
    if not existing_python():
        what, cost = "the class grader's templates and plots", "a few seconds, 0.1 GB"
        install_once(VENV, [GRADING_REQUIREMENTS], what, cost)
        if cluster:
            install_once(VENV, [CLUSTER_REQUIREMENTS], "Ray", "a few seconds, 0.2 GB")
    return python


def any_python() -> str:
    """The Python that would serve, with nothing installed: for what must run in a broken house."""
    if os.environ.get("KATAS_PYTHON") and shutil.which(os.environ["KATAS_PYTHON"]):
        return os.environ["KATAS_PYTHON"]
    for python in active_pythons() if not in_venv() else ():
        found = probe(python, "torch", "triton")
        if found and found[1]:
            return python
    if probe_here("torch")[1] or not venv_python().is_file():
        return sys.executable
    return str(venv_python())


def dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def make_venv() -> Path:
    """The Python of .venv, made if it is not there or no longer runs."""
    python = venv_python()
    config = VENV / "pyvenv.cfg"
    if python.is_file() and config.is_file():
        version = venv_version()
        if not OLDEST <= version <= NEWEST:
            stop(
                f".venv is Python {dotted(version)}, and PyTorch and Triton are pinned for "
                f"{dotted(OLDEST)} to {dotted(NEWEST)}: delete it and make it with one of those, "
                f"such as python3.12 -m venv .venv"
            )
        return python
    refuse_other_platforms()
    builders = [sys.executable]
    builders += [f"python3.{minor}" for minor in range(NEWEST[1], OLDEST[1] - 1, -1)] + ["python3"]
    for builder in filter(None, map(shutil.which, builders)):
        found = probe(builder)
        if found and OLDEST <= found[0] <= NEWEST:
            break
    else:
        stop(
            f"No Python {dotted(OLDEST)} to {dotted(NEWEST)} found on this machine (nox runs on "
            f"{platform.python_version()}): install one, such as python3.12, and call this again"
        )
    made = subprocess.run(
        [builder, "-m", "venv", *(["--clear"] if config.is_file() else []), str(VENV)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if made.returncode:
        last = (made.stdout.strip().splitlines() or [f"exit code {made.returncode}"])[-1]
        stop(
            f"{builder} -m venv .venv failed ({last}). On Debian and Ubuntu it needs the package "
            f"python3-venv: apt install python3-venv"
        )
    return python


def venv_version() -> tuple[int, int]:
    """The Python version of .venv, from its own notes."""
    if in_venv():
        return sys.version_info[:2]
    notes = (VENV / "pyvenv.cfg").read_text(encoding="utf-8")
    version = re.search(r"^version(?:_info)?\s*=\s*(\d+)\.(\d+)", notes, flags=re.M)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def refuse_other_platforms() -> None:
    if sys.platform != "linux":
        system = {"darwin": "macOS", "win32": "Windows"}.get(sys.platform, sys.platform)
        stop(
            f"Triton has no wheel for {system}: run the katas on Linux, in WSL 2, or on a notebook "
            f"host (no GPU is needed). {nox_command()} -s doctor says more"
        )


def install_once(venv: Path, files: list[Path], what: str, cost: str) -> None:
    """Install pinned requirements into an environment, unless its stamp says that they are there.

    The stamp is written last. An installation that was cut short leaves "unfinished" in it, and
    the next run lays every package anew.
    """
    pins = b"".join(path.read_bytes() for path in [*files, CONSTRAINTS])
    version = dotted(venv_version()) if venv == VENV else ""
    want = f"{hashlib.sha256(pins).hexdigest()} {version}\n"
    stamp = venv / ("katas-stamp" + files[0].stem.removeprefix("requirements"))
    have = stamp.read_text(encoding="utf-8") if stamp.is_file() else ""
    if have == want:
        return
    refuse_other_platforms()
    python = str(venv_python())
    say(f"Installing {what} into {shown(venv)}, once: {cost}.")
    if not has_pip(python):
        subprocess.run([python, "-m", "ensurepip"], capture_output=True, check=False)
    arguments = [word for path in files for word in ("-r", str(path))]
    arguments += ["--force-reinstall"] if have == "unfinished" else []
    stamp.write_text("unfinished", encoding="utf-8")
    code, output = pip_install(python, arguments)
    if code:
        if have != "unfinished":
            stamp.unlink()
        say("\n".join(output[-8:]))
        stop("Installing failed, see above. The same command takes it up again.")
    stamp.write_text(want, encoding="utf-8")


def has_pip(python: str) -> bool:
    found = probe(python, "pip")
    return bool(found and found[1])


def pip_install(python: str, arguments: list[str]) -> tuple[int, list[str]]:
    """Run pip install, showing on a terminal one line that moves. Returns code and output.

    Compiling all of torch takes half of the time; Python compiles what is imported and keeps it,
    unless it is told not to.
    """
    command = [python, "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    if not os.environ.get("PYTHONDONTWRITEBYTECODE"):
        command.append("--no-compile")
    started = time.monotonic()
    output: list[str] = []
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as pip:

        def listen() -> None:
            for line in pip.stdout or ():
                output.append(line.rstrip())

        listener = threading.Thread(target=listen, daemon=True)
        listener.start()
        while pip.poll() is None or listener.is_alive():
            time.sleep(0.1)
            if sys.stderr.isatty():
                width = shutil.get_terminal_size().columns - 1
                now = output[-1].strip() if output else ""
                text = f"{time.monotonic() - started:4.0f} s  {now}"[:width]
                print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
        return pip.returncode, output


# Running


def environment(*overlays: Path) -> dict[str, str]:
    """The environment of a child: tests/ (and overlays before it) on its path, and how to call nox."""
    paths = [*map(str, overlays), str(ROOT / "tests")]
    before = os.environ.get("PYTHONPATH")
    path = os.pathsep.join(paths + ([before] if before else []))
    return os.environ | {"PYTHONPATH": path, "KATAS_NOX": nox_command()}


def run(*command: str, env: dict[str, str] | None = None, cwd: str | Path = ROOT) -> int:
    """Run a command with this terminal; on Ctrl-C let it say its last words."""
    with subprocess.Popen(command, cwd=cwd, env=env or environment()) as child:
        try:
            return child.wait()
        except KeyboardInterrupt:
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
            raise


def finish(code: int) -> None:
    """End a session as its command ended: 1 as a failure, bad input (2 and above) at once."""
    if code == 1:
        raise nox.command.CommandFailed
    if code:
        raise SystemExit(2 if code == PYTEST_USAGE else code)


def suites(katas: list[str], root: str, *arguments: str) -> list[str]:
    """The command line that checks katas. Plugins that happen to be installed stay out of it."""
    tests = [f"tests/test_{kata}.py" for kata in katas]
    return ["-m", "pytest", *tests, f"--root={root}", *arguments]


def suite_environment(*overlays: Path) -> dict[str, str]:
    return environment(*overlays) | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}


def side_by_side(python: str, commands: list[list[str]], env: dict[str, str]) -> int:
    """Run commands of one Python, print what each says when it ends; the worst exit code.

    As many run at a time as there are cores, but one where there is a GPU: others would disturb
    its timings.
    """

    def one(command: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            [python, *command],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout

    worst = 0
    with ThreadPoolExecutor(1 if gpu_nodes() else os.cpu_count() or 1) as pool:
        for code, output in pool.map(one, commands):
            print(output, flush=True)
            worst = max(worst, code)
    return worst


def check_solutions(python: str, arguments: list[str], env: dict[str, str]) -> int:
    """Check every reference solution, a few katas to a process; the worst exit code.

    Loading torch and triton takes longer than most of the checks.
    """
    names = list(katas().values())
    shares = [names[start : start + SHARE] for start in range(0, len(names), SHARE)]
    return side_by_side(python, [suites(share, "solutions", *arguments) for share in shares], env)


def gpu_nodes() -> bool:
    """Whether a GPU's device files are here: NVIDIA's, WSL's or AMD's."""
    return any(Path(path).exists() for path in ("/dev/nvidia0", "/dev/dxg", "/dev/kfd"))


# Sessions for learners


@nox.session(venv_backend="none")
def home(session: nox.Session) -> None:
    """Say where you are and what to type next (what `nox` alone does)."""
    takes_no_words(session)
    finish(run(any_python(), "-m", "grader.status", "home"))


@nox.session(venv_backend="none")
def status(session: nox.Session) -> None:
    """Show all katas: what is solved, with which score."""
    takes_no_words(session)
    finish(run(any_python(), "-m", "grader.status", "status"))


@nox.session(name="next", venv_backend="none")
def following(session: nox.Session) -> None:
    """Name the next kata to solve, its lesson and its first TODO."""
    takes_no_words(session)
    finish(run(any_python(), "-m", "grader.status", "next"))


@nox.session(venv_backend="none")
def watch(session: nox.Session) -> None:
    """Check a kata again at every save; -- N begins with kata N."""
    finish(run(shared_python(), "-m", "grader.watching", *session.posargs))


def check_kata(number: int):
    """The session that checks the learner's file of one kata."""
    kata = katas()[number]

    def check(session: nox.Session) -> None:
        python = shared_python()
        command = suites([kata], "exercises", *session.posargs)
        finish(run(python, *command, env=suite_environment()))

    check.__doc__ = f"Check exercises/{kata}/kernel.py: {title(kata)}."
    return check


def command_kata(module: str, python: Callable[[], str], text: str, words: bool = True):
    """What makes the session that runs one of the grader's commands on a kata.

    `words`: whether it takes more than the kata's number.
    """

    def of(number: int):
        def command(session: nox.Session) -> None:
            if not words:
                takes_no_words(session)
            more = session.posargs if words else []
            finish(run(python(), "-m", module, str(number), *more))

        command.__doc__ = text
        return command

    return of


def bench_kata(number: int):
    """The session that measures one kata on this machine's GPU."""
    kata = katas()[number]

    def bench(session: nox.Session) -> None:
        python = shared_python()
        found = probe(python, "pytest_benchmark", "pygal")
        here = found[1] if found else set()
        if "pytest_benchmark" not in here:
            stop(f"A benchmark needs pytest-benchmark: {python} -m pip install pytest-benchmark")
        histogram = any(word.startswith("--benchmark-histogram") for word in session.posargs)
        if histogram and "pygal" not in here:
            stop(f"--benchmark-histogram needs pygal: {python} -m pip install pygal pygaljs")
        command = ["-m", "pytest", "-p", "pytest_benchmark.plugin", "tests/bench.py", "-q", "-rs"]
        columns = "--benchmark-columns=min,median,iqr,rounds"
        words = [f"--kata={number}", columns, *session.posargs]
        finish(run(python, *command, *words, env=suite_environment()))

    bench.__doc__ = f"Measure exercises/{kata}/kernel.py beside PyTorch, over sizes (needs a GPU)."
    return bench


# What can be done with every kata: the session NAME-N of each.
PER_KATA = {
    "check": check_kata,
    "hint": command_kata(
        "grader.clues",
        any_python,
        "A hint on what the last check found wrong; one more each time.",
        words=False,
    ),
    "reset": command_kata(
        "grader.stubs", any_python, "Bring the stub back, keeping your file aside.", words=False
    ),
    "show": command_kata(
        "grader.show", shared_python, "Draw your kernel at work, as a page to look at (-- --open)."
    ),
    "viz": command_kata(
        "grader.viz",
        shared_python,
        "Your kernel in triton-viz, block by block (an extra; -- --open).",
    ),
    "debug": command_kata(
        "grader.hunts",
        shared_python,
        "A kernel with one mistake, and what its user says: find it, mend it.",
    ),
    "bench": bench_kata,
    "torch": command_kata(
        "grader.beside",
        shared_python,
        "Your kernel beside the one torch.compile writes, with both speeds (a GPU).",
    ),
    "sanitize": command_kata(
        "grader.sanitize",
        shared_python,
        "Your kernel under NVIDIA's compute-sanitizer (needs a GPU).",
    ),
}


def define_sessions() -> None:
    """Make check-N for every kata, and what else is asked for; `nox -l` shows the rest for one."""
    wanted = {f"check-{number}": ("check", number) for number in katas()}
    wanted |= {f"{name}-{number}": (name, number) for number in [*katas()][:1] for name in PER_KATA}
    for spelling, (name, number) in (wanted | asked_for(requested())).items():
        nox.session(name=spelling, venv_backend="none")(PER_KATA[name](number))


define_sessions()


@nox.session(venv_backend="none")
def doctor(session: nox.Session) -> None:
    """Say what this machine can judge, and what to do about the rest."""
    takes_no_words(session)
    finish(run(any_python(), "-m", "grader.doctor"))


# For instructors


@nox.session(venv_backend="none")
def grade(session: nox.Session) -> None:
    """Grade a class: -- SUBMISSIONS --out OUT (-- --help lists the options)."""
    words = session.posargs
    cluster = "--engine=ray" in words or ("--engine" in words and "ray" in words)
    python = grading_python(cluster)
    # Paths are meant from where the command was typed.
    command = [python, "-m", "grader.classroom", *words]
    finish(run(*command, cwd=session.invoked_from))


# Sessions for maintainers

_all_tests = False


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run all that belongs to the project's tests: solutions, selfcheck, selftest and lint."""
    global _all_tests
    _all_tests = True
    shared_python()
    for name in ("solutions", "selfcheck", "selftest", "lint"):
        session.notify(name)


@nox.session(venv_backend="none")
def solutions(session: nox.Session) -> None:
    """Check every reference solution with its suite."""
    finish(check_solutions(shared_python(), session.posargs, suite_environment()))


@nox.session(venv_backend="none")
def selfcheck(session: nox.Session) -> None:
    """Prove the suites: stubs and mutants fail, solutions and honest variants pass."""
    checked = ["--skip=solution"] if _all_tests else []  # by the session before this one
    finish(run(shared_python(), "-m", "grader.selfcheck", *checked, *session.posargs))


@nox.session(name="bench-table", venv_backend="none")
def bench_table(session: nox.Session) -> None:
    """Measure the solutions and write the figures into solutions/README.md (needs a GPU)."""
    finish(run(shared_python(), "-m", "grader.table", *session.posargs))


@nox.session(venv_backend="none")
def pictures(session: nox.Session) -> None:
    """Make the README's pictures anew: a report and a page of show-1 (needs Chromium)."""
    finish(run(shared_python(), "-m", "grader.screenshots"))


@nox.session(venv_backend="none")
def selftest(session: nox.Session) -> None:
    """Run the tests of the grader itself."""
    python = dev_python("nox") or shared_python()
    if session.posargs:
        return finish(run(python, "-m", "pytest", *session.posargs))
    jobs = 1 if gpu_nodes() else os.cpu_count() or 1  # beside others, a GPU's timings say nothing
    found = probe(python, "xdist")
    spread = [f"-n{jobs}", "--dist=loadfile"] if jobs > 1 and found and found[1] else []
    return finish(run(python, "-m", "pytest", "-q", *spread, "tests/selftest"))


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Check layout, lint rules and types with ruff and mypy."""
    python = dev_python("ruff", "mypy")
    if python is None:
        advice = f"ruff and mypy are not installed: {shared_python()} -m pip install ruff mypy"
        if _all_tests:
            session.skip(advice)
        stop(advice)
    codes = [
        run(python, "-m", "ruff", "check", "."),
        run(python, "-m", "ruff", "format", "--check", "."),
        run(python, "-m", "mypy"),
    ]
    finish(1 if any(codes) else 0)


# Both ends of the declared range: Triton, the PyTorch that it pairs with, Python.
ENDS = {"3.6.0": ("2.11.0", "2.2.6", "3.10"), "3.9.0": ("2.15.0", "2.4.6", "3.13")}


@nox.session(name="range", venv_backend="none")
def both_ends(session: nox.Session) -> None:
    """Check the solutions on the oldest and the newest Triton (-- --pythons: and Python)."""
    arguments = [word for word in session.posargs if word != "--pythons"]
    full = len(arguments) != len(session.posargs)
    shared = shared_python()

    def prepared(triton: str) -> tuple[str | None, list[Path]]:
        torch, numpy, version = ENDS[triton]
        if full:
            return range_environment(triton, torch, numpy, version), []
        return shared, [range_overlay(shared, triton, numpy)]

    codes = []
    with ThreadPoolExecutor() as pool:  # the second end is filled while the first one is checked
        ready = {triton: pool.submit(prepared, triton) for triton in ENDS}
        for triton, end in ready.items():
            python, overlays = end.result()
            if python is None:
                version = ENDS[triton][2]
                say(f"python{version} is not here: Triton {triton} on it is not checked.")
                codes.append(2)
                continue
            say(f"The solutions on Triton {triton}:")
            env = suite_environment(*overlays)
            if full:
                codes.append(check_solutions(python, arguments, env))
            else:  # one process for all: loading torch and triton costs more than the checks
                command = ["-m", "grader.selfcheck", "--only=solutions/", *arguments]
                codes.append(run(python, *command, env=env))
    finish(max(codes))


def range_overlay(python: str, triton: str, numpy: str) -> Path:
    """A folder with another Triton and numpy, to be put before the shared environment's."""
    found = probe(python)
    version = found[0] if found else sys.version_info[:2]
    numpy = numpy if version >= (3, 11) else "2.2.6"
    folder = RANGE / f"triton-{triton}-py{dotted(version)}"
    install_to(folder, python, ["--no-deps", "--target", str(folder)], triton, numpy)
    return folder


def range_environment(triton: str, torch: str, numpy: str, version: str) -> str | None:
    """An environment of its own at one end of the range, or None without that Python."""
    builder = shutil.which(f"python{version}")
    found = builder and probe(builder)
    if not builder or not found or dotted(found[0]) != version:
        return None
    folder = RANGE / f"env-triton-{triton}-py{version}"
    python = str(folder / "bin" / "python")
    if not Path(python).is_file():
        subprocess.run([builder, "-m", "venv", str(folder)], check=True)
    install_to(folder, python, [], triton, numpy, f"torch=={torch}", "pytest>=8")
    return python


def install_to(
    folder: Path, python: str, arguments: list[str], triton: str, numpy: str, *more: str
) -> None:
    """Fill a folder for the range session, once."""
    stamp = folder / "katas-stamp"
    packages = [f"triton=={triton}", f"numpy=={numpy}", *more]
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == " ".join(packages):
        return
    if "--target" in arguments:
        shutil.rmtree(folder, ignore_errors=True)
    say(f"Installing {', '.join(packages)} into {shown(folder)}, once.")
    code, output = pip_install(python, [*arguments, *packages])
    if code:
        say("\n".join(output[-8:]))
        stop("Installing failed, see above. The same command takes it up again.")
    stamp.write_text(" ".join(packages), encoding="utf-8")


refuse_unknown(requested())
