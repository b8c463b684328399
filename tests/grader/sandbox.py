"""The sandbox that submissions nobody can vouch for run in: what they see, and what they may use.

Judge side. `choose` says whether bubblewrap can be used here, by using it. One bubblewrap holds a
nursery for as long as it lives: no network, a read-only system that is what Python, torch and the
compiler need, and of this repository only tests/grader. In it every child gets a cell of its own
(see `cell`): processes, memory, files and loopback that end with it. The file under test goes in as
text; no folder of submissions is ever in sight.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .cell import HOME, NAME, Limits

__all__ = ["Limits", "Sandbox", "choose", "source_of"]

TESTS = Path(__file__).resolve().parent.parent
PROJECT = TESTS.parent
WANTED = ("auto", "bwrap", "off")
MAX_SOURCE = 1 << 20  # bytes of a kernel.py
PROBE_SECONDS = 30
SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # often links into /usr
ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime")
ELSEWHERE = ("/nix/store", "/gnu/store", "/opt/rocm", "/opt/cuda", "/run/opengl-driver")
CARDS = ("nvidia*", "dri", "kfd", "dxg")  # in /dev
PLAIN_DEVICES = ("null", "full", "random", "urandom")
FOR_CARDS = ("zero",)  # a driver may want it; shared, it is memory that nobody counts (see `cell`)
PACKAGES = ("torch", "triton", "numpy", "openai")  # where these lie, a child must be able to read
PASSED_ON = ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE")
PASSED_PREFIXES = ("LC_", "CUDA_", "HIP_", "ROCR_", "NVIDIA_", "OMP_", "MKL_", "OPENBLAS_")
POWERS = ("CAP_SYS_ADMIN", "CAP_SYS_RESOURCE", "CAP_NET_ADMIN")  # to build cells; not passed on


@dataclass(frozen=True)
class Sandbox:
    """Bubblewrap, ready to use. `arguments`: its command line up to the command that it runs."""

    name: str
    text: str
    arguments: tuple[str, ...] = field(repr=False)

    def command(self, *command: str) -> list[str]:
        """The command line that runs this Python module command inside."""
        return [*self.arguments, "--", sys.executable, *command]

    def environment(self) -> dict[str, str]:
        """What of the environment is passed on: no tokens, no names, no paths of the home."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in PASSED_ON or name.startswith(PASSED_PREFIXES)
        }
        paths = [str(TESTS), *map(str, _places_of_packages())]
        return (
            kept
            | {"HOME": HOME, "USER": NAME, "LOGNAME": NAME}
            | {"PYTHONPATH": os.pathsep.join(paths)}
        )


def choose(wanted: str, hidden: Sequence[Path] = ()) -> Sandbox | None:
    """The sandbox to use; `wanted` is "auto", "bwrap" or "off". None: there is none.

    `hidden`: folders that must be out of sight even where they lie in the system or beside a Python.

    Raises ValueError, with one line to show, for another word, and where bubblewrap is demanded and
    cannot be used here.
    """
    if wanted not in WANTED:
        raise ValueError(f"no such sandbox: {wanted}; there are {', '.join(WANTED)}")
    if wanted == "off":
        return None
    reason = trouble()
    if not reason:
        return _sandbox(hidden)
    if wanted == "bwrap":
        raise ValueError(f"the sandbox cannot be used: {reason}")
    return None


def _sandbox(hidden: Sequence[Path] = ()) -> Sandbox:
    text = (
        "bubblewrap: no network, a read-only system, no sight of suites, solutions, other "
        "submissions or the home folder; own processes, memory and files for each submission"
    )
    return Sandbox("bwrap", text, tuple(_arguments(hidden)))


@functools.cache
def trouble() -> str:
    """Why bubblewrap cannot be used here, in a sentence; "" if it can."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (on Debian and Ubuntu: apt install bubblewrap)"
    sandbox = _sandbox()
    try:
        tried = subprocess.run(
            sandbox.command("-m", "grader.cell"),
            env=sandbox.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PROBE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap does not start ({type(error).__name__})"
    if tried.returncode == 0:
        return ""
    said = (tried.stderr.strip().splitlines() or [f"exit code {tried.returncode}"])[-1]
    return f"this machine does not let bubblewrap make namespaces ({said[:200]})"


# ---- what is in sight ------------------------------------------------------------------------


def _arguments(more_hidden: Sequence[Path]) -> list[str]:
    """The command line of bubblewrap, up to its command."""
    out = ["bwrap", "--die-with-parent"]
    out += [f"--unshare-{what}" for what in ("user", "pid", "net", "ipc", "uts", "cgroup-try")]
    out += ["--uid", "1000", "--gid", "1000", "--hostname", NAME]
    for power in POWERS:
        out += ["--cap-add", power]
    out += ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM:
        path = Path("/", name)
        if path.is_symlink():
            out += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            out += ["--ro-bind", str(path), str(path)]
    for place in [f"/etc/{name}" for name in ETC] + list(ELSEWHERE):
        out += ["--ro-bind-try", place, place]
    out += ["--proc", "/proc", "--dir", HOME, "--dir", "/dev/shm"]
    cards = [path for pattern in CARDS for path in sorted(Path("/dev").glob(pattern))]
    for name in (*PLAIN_DEVICES, *FOR_CARDS) if cards else PLAIN_DEVICES:
        out += ["--dev-bind", f"/dev/{name}", f"/dev/{name}"]
    for card in cards:
        out += ["--dev-bind-try", str(card), str(card)]
    if cards:
        out += ["--ro-bind-try", "/sys", "/sys"]
    places = _places_of_python()
    out += _bound(places)
    # A system folder, or an environment, may hold what must not be seen.
    seen = [Path("/usr"), *places]
    for hidden in (Path.home(), PROJECT, *more_hidden):
        if hidden.is_dir() and hidden not in seen and _inside(hidden, seen):
            out += ["--tmpfs", str(hidden)]
            out += _bound([place for place in places if hidden in place.parents])
    engine = str(TESTS / "grader")
    return [*out, "--ro-bind", engine, engine, "--remount-ro", "/", "--chdir", str(TESTS)]


def _bound(places: list[Path]) -> list[str]:
    return [word for place in places for word in ("--ro-bind-try", str(place), str(place))]


def _places_of_python() -> list[Path]:
    """The folders of this Python and its packages that are not part of the system anyway."""
    places = [Path(sys.prefix), Path(sys.base_prefix), Path(os.path.realpath(sys.base_prefix))]
    python = Path(sys.executable)
    while True:  # an environment's python may be a link to a link
        places.append(python.parent.parent)
        if not python.is_symlink():
            break
        python = Path(os.path.normpath(python.parent / os.readlink(python)))
    places += _places_of_packages()
    places += [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(":") if p[:1] == "/"]
    kept: list[Path] = []
    for place in places:
        wide = place == Path("/") or place in (Path.home(), PROJECT, *PROJECT.parents)
        if not wide and not _inside(place, [Path("/usr"), *kept]) and place.exists():
            kept.append(place)
    return kept


def _places_of_packages() -> list[Path]:
    """The folders that torch, triton and their like are imported from."""
    found: list[Path] = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin:
            found.append(Path(spec.origin).parent.parent)
    return list(dict.fromkeys(found))


def _inside(path: Path, folders: list[Path]) -> bool:
    return any(folder == path or folder in path.parents for folder in folders)


# ---- what is handed over ---------------------------------------------------------------------


def source_of(file: Path) -> bytes:
    """The bytes of a submitted file. Raises ValueError, in words, for what is no plain file.

    Nothing but a file of its own folder is read: no link, no pipe that never ends, no device.
    """
    try:
        opened = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if Path(file).is_symlink():
            raise ValueError("it is a link; hand in the file itself") from None
        raise ValueError(f"it cannot be read ({error.strerror})") from None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise ValueError("it is no plain file")
        with os.fdopen(opened, "rb", closefd=False) as stream:
            source = stream.read(MAX_SOURCE + 1)
    finally:
        os.close(opened)
    if len(source) > MAX_SOURCE:
        raise ValueError("it is larger than 1 MiB")
    return source


def packed(contents: dict[str, bytes]) -> int:
    """A file descriptor of nameless memory that holds these texts, for `cell.unpacked`."""
    memory = os.memfd_create("handed-over", os.MFD_CLOEXEC)
    for name, content in contents.items():
        for piece in _framed(name, content):
            os.write(memory, piece)
    os.lseek(memory, 0, os.SEEK_SET)
    return memory


def _framed(name: str, content: bytes) -> Iterator[bytes]:
    yield f"{name} {len(content)}\n".encode()
    view = memoryview(content)
    while view:
        yield bytes(view[: 1 << 20])
        view = view[1 << 20 :]
