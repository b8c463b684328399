"""The cell of one child inside the sandbox: its own processes, files, loopback, and no power at all.

Worker side; plain Python, since it runs between a fork and the file under test. The nursery forks a
keeper, which is the first process of new namespaces and forks the child. The keeper watches what the
child's processes use together and ends all of them at once, whatever they do: when it ends, the
kernel kills everything in its namespace, and the files, which lie in memory, are gone with it.

The child can neither see nor signal the keeper's memory, the nursery or any other child.
`python -m grader.cell` tries out whether this machine allows for cells.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

NAME = "katas"  # of the user and the machine that a child sees
HOME = "/home/katas"  # the only place where it can write
LOOK_SECONDS = 0.1  # between two looks at what it uses
MOST_FILES = 20_000  # inodes of its file system
CARD_MEMORY = 4 << 30  # bytes that a card's driver may take of each process besides
THREADS = 8  # for each process that it may have
# Calls of the kernel that a child is refused, by number. Files in memory that have no name are seen
# by nobody who counts; the others look into processes, or are where kernels were broken before.
REFUSED = {
    "x86_64": {
        "memfd_create": 319, "memfd_secret": 447, "userfaultfd": 323, "io_uring_setup": 425,
        "bpf": 321, "perf_event_open": 298, "keyctl": 250, "add_key": 248, "request_key": 249,
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
    },
    "aarch64": {
        "memfd_create": 279, "memfd_secret": 447, "userfaultfd": 282, "io_uring_setup": 425,
        "bpf": 280, "perf_event_open": 241, "keyctl": 219, "add_key": 217, "request_key": 218,
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271,
    },
}  # fmt: skip
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # as seccomp calls them
ON_CARDS = ("memfd_create",)  # which a card's driver may need
# Memory that processes share without a file is in no count of any of them: it is refused too.
MMAP = {"x86_64": 9, "aarch64": 222}
MAP_KIND, SHARED_AND_NAMELESS = 0x2F, 0x21  # of its flags: MAP_TYPE | MAP_ANONYMOUS, and with both

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND = 1, 2, 4, 8, 32, 4096
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PDEATHSIG, DUMPABLE, SECCOMP, CAPBSET_DROP, NO_NEW_PRIVS = 1, 4, 22, 24, 38  # of prctl
LAST_CAPABILITY = 63


@dataclass(frozen=True)
class Limits:
    """What one submission may use for one kata.

    seconds    of wall time, all cases and lanes together
    memory     bytes beyond what torch and triton take, of all its processes and files
    processes  at a time
    file_size  bytes of one file
    output     bytes that it may print, in one lane
    disk       bytes of all its files (in the sandbox)
    """

    seconds: float = 600.0
    memory: int = 3 << 30
    processes: int = 64
    file_size: int = 64 << 20
    output: int = 4 << 20
    disk: int = 256 << 20

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"the limit {name} must be above 0, not {value}")


# ---- the nursery's part ----------------------------------------------------------------------


class Cells:
    """Forks children into cells. `limits` of each, `card`: whether a lane uses the card."""

    def __init__(self, limits: Limits):
        self.limits = limits
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._reports: dict[int, int] = {}  # keeper -> pipe

    def fork(self, keep: tuple[int, ...], card: bool, child: Callable[[], None]) -> int:
        """Run `child` in a cell, with only these file descriptors; the pid of its keeper."""
        ours, theirs = os.pipe()
        _call("unshare", NEWPID)  # for what is forked next, not for this process
        pid = os.fork()
        if pid == 0:
            try:
                os.close(ours)
                _keeper(theirs, keep, self.limits, card, child)
            except Exception as error:
                said = {"error": f"{type(error).__name__}: {error}"}
                os.write(theirs, json.dumps(said).encode())
            finally:
                os._exit(1)
        _call("setns", self._own, NEWPID)
        os.close(theirs)
        self._reports[pid] = ours
        return pid

    def report(self, pid: int) -> dict:
        """How a child came to its end, once its keeper is gone: status, limit, left."""
        with os.fdopen(self._reports.pop(pid), "rb") as pipe:
            said = pipe.read()
        return json.loads(said) if said else {}


# ---- the keeper ------------------------------------------------------------------------------


def _keeper(
    report: int, keep: tuple[int, ...], limits: Limits, card: bool, child: Callable[[], None]
) -> None:
    """The first process of the cell: builds it, starts the child, watches, and takes all with it."""
    _prctl(PDEATHSIG, signal.SIGKILL)
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a handler could be called
    _build(limits)
    if card:
        limits = replace(limits, memory=limits.memory + CARD_MEMORY)
    _prctl(DUMPABLE, 0)
    base = _anonymous("self")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    pid = os.fork()
    if pid == 0:
        os.close(report)
        _renounce(keep, limits, card)
        signal.signal(signal.SIGINT, interrupted)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        child()
        os._exit(0)
    _close_all((report,))
    said: dict = {"status": None, "limit": ""}
    while said["status"] is None and not said["limit"]:
        signal.sigtimedwait({signal.SIGCHLD}, LOOK_SECONDS)
        said["status"] = _reap(pid)
        said["limit"] = _exceeded(limits, base)
    said["left"] = [name for number, name in _others() if number != pid][:8]
    with contextlib.suppress(OSError):
        os.write(report, json.dumps(said).encode())
    os._exit(0)


def _build(limits: Limits) -> None:
    """New mounts, loopback and shared memory for this process and its children."""
    _call("unshare", NEWNS | NEWIPC | NEWNET | NEWUTS)
    _mount("none", "/", "", MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    with open("/proc/sys/user/max_user_namespaces", "w") as most:
        most.write("0")  # in a user namespace of its own a child would have power again
    flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    for place in _of_all():
        _mount(place, place, "", MS_BIND)
        _mount("none", place, "", flags)
    size = f"size={limits.disk},nr_inodes={MOST_FILES},mode=700"
    _mount("tmpfs", HOME, "tmpfs", MS_NOSUID | MS_NODEV, size)
    os.mkdir(f"{HOME}/.shm", 0o700)
    _mount(f"{HOME}/.shm", "/dev/shm", "", MS_BIND)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sh", b"lo", 1)  # IFF_UP
        fcntl.ioctl(any_socket, 0x8914, up.ljust(40, b"\0"))  # SIOCSIFFLAGS


def _of_all() -> list[str]:
    """What in /proc belongs to the whole machine and could be written to.

    A grader that root has started is the owner of all of it, and so is the child: it could reset the
    machine, or put a card to sleep. Its own processes stay as they are: NVIDIA's driver names its
    threads there, or it fails.
    """
    found = []
    with os.scandir("/proc") as entries:
        for entry in entries:
            if entry.name.isdigit() or entry.is_symlink():
                continue
            if entry.is_dir() or entry.stat().st_mode & 0o222:
                found.append(entry.path)
    return found


def _renounce(keep: tuple[int, ...], limits: Limits, card: bool) -> None:
    """The child gives up all that it could use against others, for good."""
    _prctl(PDEATHSIG, signal.SIGKILL)
    _close_all(keep)
    for capability in range(LAST_CAPABILITY + 1):
        _prctl(CAPBSET_DROP, capability)
    header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    _call("capset", ctypes.c_char_p(header), ctypes.c_char_p(bytes(24)))
    _prctl(NO_NEW_PRIVS, 1)
    _prctl(DUMPABLE, 1)
    _refuse(card)
    for what, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, limits.file_size),
        (resource.RLIMIT_NOFILE, 4096 if card else 256),
        (resource.RLIMIT_CPU, int(limits.seconds) + 1),
        (resource.RLIMIT_MEMLOCK, 1 << 20),
        (resource.RLIMIT_MSGQUEUE, 1 << 16),
    ):
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        if not (card and what == resource.RLIMIT_MEMLOCK):  # a card's memory is pinned
            resource.setrlimit(what, (most, most))


def _refuse(card: bool) -> None:
    """Have the kernel refuse some calls (EPERM), whoever makes them from here on.

    A filter is a program for the kernel's own small machine: load a word of the call, jump, return.
    """
    machine = os.uname().machine
    if machine not in REFUSED:
        return
    load, keep_bits, jump_if_equal, jump_if_above, give = 0x20, 0x54, 0x15, 0x25, 0x06
    allow, refuse = 0x7FFF0000, 0x00050000 | errno.EPERM
    numbers = [n for name, n in REFUSED[machine].items() if not (card and name in ON_CARDS)]
    mapping: list[tuple[int, int, int, int]] = []
    if not card:  # a driver may share such memory with itself
        mapping = [
            (jump_if_equal, 0, 3, MMAP[machine]),
            (load, 0, 0, 16 + 3 * 8),  # its fourth argument
            (keep_bits, 0, 0, MAP_KIND),
            (jump_if_equal, 1, 0, SHARED_AND_NAMELESS),
        ]
    left = len(numbers) + len(mapping)
    program = [
        (load, 0, 0, 4),  # the architecture
        (jump_if_equal, 0, left + 3, ARCHITECTURES[machine]),  # 32-bit calls have other numbers
        (load, 0, 0, 0),  # the call's number
        (jump_if_above, left + 1, 0, 0x3FFFFFFF),  # x32, which has others too
    ]
    program += [(jump_if_equal, left - place, 0, n) for place, n in enumerate(numbers)]
    program += [*mapping, (give, 0, 0, allow), (give, 0, 0, refuse)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in program))
    header = struct.pack("@HP", len(program), ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(SECCOMP, ctypes.c_ulong(2), ctypes.c_char_p(header), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp is refused")


def _reap(child: int) -> int | None:
    """Collect whatever has died; the wait status of the child if it was among them."""
    status = None
    while True:
        try:
            pid, how = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == child:
            status = how


def _others() -> list[tuple[int, str]]:
    """The processes of the cell but for the keeper: (pid, name), without those that are dead."""
    out = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            with contextlib.suppress(OSError):
                said = Path(f"/proc/{entry}/stat").read_bytes().decode(errors="replace")
                name, _, rest = said.rpartition(")")  # a process may call itself anything
                if rest.split()[0] not in "ZX":
                    out.append((int(entry), name.partition("(")[2]))
    return out


def _exceeded(limits: Limits, base: int) -> str:
    """The limit that the processes of the cell go beyond together, in words; "" if none."""
    processes = _others()
    if len(processes) > limits.processes:
        return f"it started more than {limits.processes} processes"
    threads = used = 0
    for pid, _ in processes:
        with contextlib.suppress(OSError, ValueError):
            used += max(_anonymous(str(pid)) - base, 0)
            threads += len(os.listdir(f"/proc/{pid}/task"))
    if threads > THREADS * limits.processes:
        return f"it started more than {THREADS * limits.processes} threads"
    files = os.statvfs(HOME)
    written = (files.f_blocks - files.f_bfree) * files.f_frsize
    if files.f_blocks and not files.f_bfree:
        return f"it wrote more than {_size(limits.disk)} into files"
    with contextlib.suppress(OSError, ValueError, IndexError):
        table = Path("/proc/sysvipc/shm").read_text().splitlines()
        place = table[0].split().index("rss")
        used += sum(int(row.split()[place]) for row in table[1:])
    if used + written > limits.memory:
        return f"it took more than {_size(limits.memory)} of memory"
    return ""


def _anonymous(pid: str) -> int:
    """Bytes of a process that are in memory and in no file."""
    pages = Path(f"/proc/{pid}/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * resource.getpagesize()


def _size(count: int) -> str:
    return f"{count / (1 << 30):.3g} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.3g} MiB"


# ---- the child's part ------------------------------------------------------------------------


def hello(line: socket.socket, port: int | None) -> None:
    """The first thing that the judge hears: who is at the other end, and where it can be asked.

    The kernel tells the judge the pid. `port`: the judge's own server is expected at this port of
    the cell's loopback; it gets the listening socket, since it cannot reach in from outside.
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    fds = []
    if port is not None:
        listening.bind(("127.0.0.1", port))
        listening.listen(64)
        fds = [listening.fileno()]
    socket.send_fds(line, [b"\0"], fds)
    listening.close()


def unpacked(memory: int) -> dict[str, bytes]:
    """The texts that `sandbox.packed` put into this memory, which is closed."""
    out = {}
    with os.fdopen(memory, "rb") as stream:
        while head := stream.readline():
            name, _, size = head.decode().rpartition(" ")
            out[name] = stream.read(int(size))
    return out


def furnish(contents: dict[str, bytes]) -> None:
    """Make the home of a child: these files, a folder for temporary ones, caches of its own."""
    for name, content in contents.items():
        Path(HOME, name).write_bytes(content)
    os.mkdir(f"{HOME}/tmp")
    os.environ.update(
        HOME=HOME,
        TMPDIR=f"{HOME}/tmp",
        XDG_CACHE_HOME=f"{HOME}/.cache",
        TRITON_HOME=HOME,
        TRITON_CACHE_DIR=f"{HOME}/.cache/triton",
        TORCHINDUCTOR_CACHE_DIR=f"{HOME}/.cache/inductor",
        CUDA_CACHE_PATH=f"{HOME}/.cache/cuda",
    )
    os.chdir(f"{HOME}/tmp")


# ---- calls of the kernel ---------------------------------------------------------------------


def _call(name: str, *arguments) -> None:
    """A function of the C library that returns 0; raises OSError with its name if not."""
    library = ctypes.CDLL(None, use_errno=True)
    if getattr(library, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    texts = [ctypes.c_char_p(text.encode()) for text in (source, target, kind)]
    _call("mount", *texts, ctypes.c_ulong(flags), ctypes.c_char_p(data.encode()))


def _prctl(option: int, value: int) -> None:
    """Some options are refused for values that a kernel does not know: no matter."""
    ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def _close_all(but: tuple[int, ...]) -> None:
    """Close every file descriptor except the standard ones and these."""
    start = 3
    for kept in sorted({*but}):
        os.closerange(start, kept)
        start = kept + 1
    os.closerange(start, os.sysconf("SC_OPEN_MAX"))


# ---- a trial ---------------------------------------------------------------------------------


def _try_out() -> int:
    """Build a cell and see that it holds; 0 if it does."""

    def child() -> None:
        furnish({})
        for forbidden in ("/anything", "/proc/1/mem", "/proc/sys/kernel/core_pattern"):
            with contextlib.suppress(OSError), open(forbidden, "r+b"):
                os._exit(3)
        os._exit(0 if len(_others()) == 1 else 4)  # the keeper; it does not count itself

    cells = Cells(Limits())
    pid = cells.fork((), False, child)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        done, _ = os.waitpid(pid, os.WNOHANG)
        if done:
            report = cells.report(pid)
            if report.get("status") == 0:
                return 0
            sys.stderr.write(f"a cell does not hold: {report.get('error') or report}\n")
            return 1
        time.sleep(0.01)
    sys.stderr.write("the cell does not end\n")
    return 1


if __name__ == "__main__":
    sys.exit(_try_out())
