"""The sandbox: what a submission sees of this machine, what it may use, and what is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from grader import sandbox, wire
from grader.cell import Limits, unpacked
from grader.evidence import Evidence
from grader.grading import grade
from grader.judge import Cancelled, Child, Nursery
from grader.reasons import NotJudged, Wrong

PROJECT = Path(__file__).resolve().parents[2]
RIGHT = Path(__file__).parent / "golden" / "right" / "01_vector_add" / "kernel.py"
LIMITS = Limits(
    seconds=60, memory=512 << 20, processes=8, file_size=1 << 20, output=20_000, disk=8 << 20
)
ALONE = 2  # processes in a sandbox without children: bubblewrap's first one and the nursery
KATA = "01_vector_add"
TRACE = {"trace": True, "compile": False, "gpu": False}

needs_sandbox = pytest.mark.skipif(bool(sandbox.trouble()), reason=sandbox.trouble() or "-")


@pytest.fixture(scope="module")
def locked_up():
    """A nursery in the sandbox, with limits that are soon reached."""
    nursery = Nursery(sandbox.choose("bwrap"), LIMITS)
    yield nursery
    nursery.close()


@pytest.fixture
def loaded(locked_up, tmp_path):
    """loaded(code): the child that has run this code as its file, and the flags that were raised."""
    made = []

    def load(code: str, seconds: float = 60, name: str = "kernel.py"):
        file = tmp_path / name
        file.write_text(code)
        flags: list[tuple[str, str]] = []
        child = Child(
            locked_up,
            "trace",
            {"file": str(file), "launcher": "add"},
            time.monotonic() + seconds,
            lambda *flag: flags.append(flag),
        )
        made.append(child)
        child._start()
        child.stop()
        return child, flags

    yield load
    for child in made:
        child.stop()


def processes_of(nursery: Nursery) -> list[int]:
    """All processes in the sandbox of a nursery, as this machine numbers them."""
    return below(nursery._process.pid)


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    found, queue = [], [pid]
    while queue:
        pid = queue.pop()
        try:
            below = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            continue
        found += map(int, below)
        queue += map(int, below)
    return found


# ---- what is in sight -------------------------------------------------------------------------

LOOK = """
import json, os, socket
def tried(what, *arguments):
    try:
        what(*arguments)
        return ""
    except OSError as error:
        return type(error).__name__
def connect():
    socket.create_connection(("192.0.2.1", 80), 1)
def writable(top):
    for folder, inside, files in os.walk(top):
        if folder == top:
            inside[:] = [name for name in inside if not name.isdigit()]
        for path in (f"{folder}/{name}" for name in files):
            if not os.path.islink(path) and not tried(lambda: os.close(os.open(path, os.O_WRONLY))):
                yield path
print(json.dumps({
    "machine": list(writable("/proc")),
    "tests": os.listdir(%(tests)r),
    "project": os.listdir(%(project)r),
    "hidden": [path for path in %(hidden)r if os.path.exists(path)],
    "processes": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
    "network": tried(connect),
    "interfaces": [name for _, name in socket.if_nameindex()],
    "wrote": [p for p in ("/x", "/usr/x", "/etc/x", "/tmp/x", "/home/x", %(tests)r + "/grader/x",
                          "/proc/sys/kernel/hostname") if not tried(open, p, "w")],
    "keeper": tried(open, "/proc/1/mem", "rb"),
    "namespaces": tried(getattr(os, "unshare", lambda flags: None), 0x10000000),
    "power": [l.split()[1] for l in open("/proc/self/status") if l.startswith("Cap")],
    "privileges": [l.split()[1] for l in open("/proc/self/status") if l.startswith("NoNewPrivs")],
    "environment": dict(os.environ),
    "fds": sorted(int(f) for f in os.listdir("/proc/self/fd")),
}))
add = print
"""


@needs_sandbox
def test_a_file_sees_nothing_that_is_not_its_own(loaded, monkeypatch, tmp_path):
    suites = [str(path) for path in (PROJECT / "tests").glob("test_*.py")]
    folders = [str(PROJECT / name) for name in ("solutions", "exercises", "tests/mutants", ".git")]
    hidden = [*suites, *folders, str(tmp_path / "kernel.py"), str(tmp_path), "/etc/passwd"]
    names = {"tests": str(PROJECT / "tests"), "project": str(PROJECT), "hidden": hidden}
    child, flags = loaded(LOOK % names)
    seen = json.loads(child.printed)
    assert seen["tests"] == ["grader"]
    assert "tests" in seen["project"]
    assert set(seen["project"]) <= {"tests", ".venv", ".nox"}
    assert seen["hidden"] == []
    assert seen["processes"] == [1, 2]
    assert seen["network"]
    assert seen["interfaces"] == ["lo"]
    assert seen["wrote"] == []
    assert seen["machine"] == []  # of which root, who may have started the grader, is the owner
    assert seen["keeper"] == "PermissionError"
    assert {int(power, 16) for power in seen["power"]} == {0}
    assert seen["privileges"] == ["1"]
    home = "/home/katas"
    assert seen["environment"]["HOME"] == home
    assert seen["environment"]["TRITON_CACHE_DIR"].startswith(home)
    assert not any(str(Path.home()) in seen["environment"].get(k, "") for k in ("PWD", "TMPDIR"))
    assert flags == []


@needs_sandbox
def test_no_name_of_the_environment_is_passed_on_but_a_few(monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("KATAS_SEED", "x")
    passed = sandbox.choose("bwrap").environment()
    assert not {"SECRET_TOKEN", "KATAS_SEED"} & set(passed)


@needs_sandbox
def test_what_one_file_writes_the_next_does_not_find(loaded):
    note = "import glob; print(glob.glob('/home/katas/**', recursive=True)); add = print\n"
    first, _ = loaded(note + "import os; open(os.environ['HOME'] + '/note', 'w').write('secret')")
    second, _ = loaded(note)
    assert "note" not in first.printed
    assert second.printed == first.printed


@needs_sandbox
def test_nothing_outlives_a_file_not_even_in_a_session_of_its_own(loaded, locked_up):
    code = (
        "import os, time\nadd = print\n"
        "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(100)\n"
        "    time.sleep(100)\n"
    )
    child, flags = loaded(code)
    assert child.load_error is None
    assert len(processes_of(locked_up)) == ALONE
    assert [flag for flag, _ in flags] == ["leaves processes behind"]


@needs_sandbox
def test_a_file_can_be_broken_off_from_outside(locked_up, tmp_path):
    """The sandbox numbers its processes its own way: those of this machine are left alone."""
    file = tmp_path / "kernel.py"
    file.write_text("while True:\n    pass\n")
    child = Child(locked_up, "trace", {"file": str(file), "launcher": "add"})
    ended: list[object] = []

    def call():
        try:
            ended.append(child.call({}, []))
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    until = time.monotonic() + 20
    while child.seen_pid is None and time.monotonic() < until:
        time.sleep(0.01)
    assert child.seen_pid in processes_of(locked_up)
    child.cancel()
    thread.join(20)
    child.stop()
    assert [type(one) for one in ended] == [Cancelled]


@needs_sandbox
def test_neither_keeper_nor_nursery_can_be_ended_or_stopped(loaded, locked_up):
    births = locked_up.births
    numbers = [int(n) for n in (signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGTERM)]
    code = f"import os\nfor n in {numbers}:\n    os.kill(os.getppid(), n)\nprint('on')\nadd = print"
    child, _ = loaded(code)
    assert child.load_error is None
    assert child.printed == "on\n"
    assert locked_up.births == births


KILLED = """
import sys, time
sys.path.insert(0, %r)
from grader import judge, sandbox
nursery = judge.Nursery(sandbox.choose("bwrap"))
child = judge.Child(nursery, "trace", {"file": %r, "launcher": "add"})
child._start()
print(nursery._process.pid, flush=True)
time.sleep(600)
"""


@needs_sandbox
def test_a_judge_that_is_killed_leaves_nothing_running(tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("import os, time\nadd = print\nif os.fork() == 0:\n    time.sleep(600)\n")
    code = KILLED % (str(PROJECT / "tests"), str(file))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as killed:
        first = int(killed.stdout.readline())
        pids = [first, *below(first)]
        killed.kill()
    assert len(pids) >= 5  # bubblewrap, its first process, nursery, keeper, child (and its own)
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < until:
        time.sleep(0.05)
    assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []


@needs_sandbox
def test_a_nursery_outlives_the_thread_that_made_it():
    made = []
    thread = threading.Thread(target=lambda: made.append(Nursery(sandbox.choose("bwrap"))))
    thread.start()
    thread.join()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            made[0]._process.wait(0.5)
    finally:
        made[0].close()


# ---- what it may use --------------------------------------------------------------------------

HOG = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        kept = b"x" * (200 << 20)
        time.sleep(60)
time.sleep(60)
"""
SHARED = """
import ctypes
c = ctypes.CDLL(None)
c.shmat.restype = ctypes.c_void_p
while True:
    at = c.shmat(c.shmget(0, 64 << 20, 0o1600), None, 0)
    ctypes.memset(at, 1, 64 << 20)
    c.shmdt(ctypes.c_void_p(at))
"""
DISK = """
import os
for n in range(1000):
    with open(os.environ["HOME"] + f"/{n}", "wb") as file:
        file.write(bytes(1 << 20))
"""
STAY = "import time\ntime.sleep(60)"


@needs_sandbox
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os\nwhile True:\n    os.fork()", "it started more than 8 processes"),
        (HOG, "it took more than 512 MiB of memory"),
        (SHARED, "it took more than 512 MiB of memory"),
        ("try:\n" + DISK.replace("\n", "\n    ") + "\nexcept OSError:\n    pass\n" + STAY, "8 MiB"),
        ("while True:\n    print('x' * 1000)", "it printed more than 20,000 bytes"),
        (
            "import threading, time\nthreading.stack_size(1 << 16)\nfor _ in range(100):\n"
            "    threading.Thread(target=time.sleep, args=(60,)).start()\n" + STAY,
            "it started more than 64 threads",
        ),
    ],
    ids=["fork bomb", "memory of many", "shared memory", "disk bomb", "print flood", "threads"],
)
def test_a_limit_ends_a_file_and_is_named(loaded, locked_up, code, words):
    child, flags = loaded(code)
    assert words in child.load_error["message"]
    assert [flag for flag, _ in flags] == ["limit reached"]
    assert words in flags[0][1]
    assert len(processes_of(locked_up)) == ALONE
    child, flags = loaded("add = print\nprint('the next one')")
    assert (child.load_error, child.printed, flags) == (None, "the next one\n", [])


@needs_sandbox
def test_memory_that_nobody_counts_is_refused(loaded):
    code = (
        "import ctypes, os\nadd = print\ntry:\n    os.memfd_create('x')\n"
        "except PermissionError as error:\n    print(error.strerror)\n"
        "print(ctypes.CDLL(None).ptrace(0, 0, 0, 0))\n"
    )
    child, _ = loaded(code)
    assert child.load_error is None
    assert child.printed == "Operation not permitted\n-1\n"


@needs_sandbox
def test_memory_that_processes_share_is_in_a_file_or_refused(loaded):
    """Of pages in no file and no count the keeper would hear nothing, nor of /dev/zero's."""
    code = (
        "import mmap, os\nadd = print\n"
        "for flags in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):\n"
        "    try:\n        print(len(mmap.mmap(-1, 4096, flags=flags)))\n"
        "    except PermissionError as error:\n        print(error.strerror)\n"
        "file = os.open(os.environ['HOME'] + '/shared', os.O_RDWR | os.O_CREAT)\n"
        "os.truncate(file, 4096)\nprint(len(mmap.mmap(file, 4096)), os.path.exists('/dev/zero'))\n"
    )
    child, _ = loaded(code)
    assert child.load_error is None
    there = Path("/dev/nvidia0").exists()
    assert child.printed == f"4096\nOperation not permitted\n4096 {there}\n"


@needs_sandbox
def test_a_process_may_call_itself_anything(loaded):
    code = (
        "import ctypes, os, time\nadd = print\n"
        "if os.fork() == 0:\n    os.setsid()\n"
        "    ctypes.CDLL(None).prctl(15, b'\\xff) Z\\n')\n    time.sleep(60)\ntime.sleep(0.5)\n"
    )
    child, flags = loaded(code)
    assert child.load_error is None
    assert flags == [("leaves processes behind", "\N{REPLACEMENT CHARACTER}) Z\n")]


@needs_sandbox
def test_one_process_cannot_take_more_memory_either(loaded):
    child, _ = loaded("kept = bytes(2 << 30)")
    assert child.load_error["type"] == "MemoryError"


@needs_sandbox
def test_one_file_of_a_submission_is_limited(loaded):
    child, _ = loaded("import os\nopen(os.environ['HOME'] + '/big', 'wb').truncate(1 << 30)")
    assert "File too large" in child.load_error["message"]


@needs_sandbox
def test_the_time_of_a_submission_is_limited_as_a_whole(loaded):
    child, flags = loaded(STAY, seconds=0.5)
    assert child.load_error["where"] == "limit"
    assert flags == [("limit reached", "all in all it takes longer than 60 seconds")]
    assert child.call({"args": []}, []).error["where"] == "limit"


@needs_sandbox
def test_a_verdict_is_the_same_in_the_sandbox(locked_up, short_katas):
    card = grade(KATA, RIGHT, locked_up, TRACE, "sandbox")
    assert [c.message for c in card.checks if c.status == "failed"] == []
    assert card.flags == []
    assert card.success


@needs_sandbox
def test_the_whole_submission_fails_when_its_time_is_up(short_katas, locked_up, monkeypatch):
    monkeypatch.setattr(locked_up, "limits", Limits(seconds=0.01))
    card = grade(KATA, RIGHT, locked_up, TRACE, "sandbox")
    messages = {c.message for c in card.checks if c.status == "failed"}
    assert messages == {
        "add is not judged to its end: all in all it takes longer than 0.01 seconds"
    }
    assert [f["flag"] for f in card.flags] == ["limit reached"]


# ---- without a sandbox ------------------------------------------------------------------------


def test_limits_hold_without_a_sandbox_too(short_katas, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("while True:\n    print('x' * 1000)")
    nursery = Nursery(limits=LIMITS)
    try:
        card = grade(KATA, file, nursery, TRACE, "sandbox")
        assert "it printed more than 20,000 bytes" in card.checks[0].message
        assert grade(KATA, RIGHT, nursery, TRACE, "sandbox").success
    finally:
        nursery.close()


@pytest.mark.parametrize("field", ["seconds", "memory", "processes", "file_size", "output", "disk"])
def test_a_limit_of_nothing_is_refused(field):
    with pytest.raises(ValueError, match=f"the limit {field} must be above 0, not 0"):
        Limits(**{field: 0})


# ---- choosing ---------------------------------------------------------------------------------


def test_a_sandbox_is_chosen_by_what_is_there(monkeypatch):
    assert sandbox.choose("off") is None
    with pytest.raises(ValueError, match="no such sandbox: jail; there are auto, bwrap, off"):
        sandbox.choose("jail")
    monkeypatch.setenv("PATH", "")
    sandbox.trouble.cache_clear()
    try:
        assert sandbox.choose("auto") is None
        with pytest.raises(ValueError, match="cannot be used: bubblewrap is not installed"):
            sandbox.choose("bwrap")
    finally:
        sandbox.trouble.cache_clear()


def test_a_bubblewrap_that_may_not_make_namespaces_is_no_sandbox(monkeypatch, tmp_path):
    false = tmp_path / "bwrap"
    false.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    false.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sandbox.trouble.cache_clear()
    try:
        with pytest.raises(ValueError, match=r"not let bubblewrap .*uid map: Permission denied"):
            sandbox.choose("bwrap")
    finally:
        sandbox.trouble.cache_clear()


@needs_sandbox
def test_a_python_below_what_is_hidden_is_seen_and_its_surroundings_are_not(tmp_path, monkeypatch):
    """An environment inside the repository, which lies in a folder that is bound as a whole."""
    project = tmp_path / "packages" / "course"
    (project / ".venv" / "lib").mkdir(parents=True)
    (project / "solutions").mkdir()
    monkeypatch.setattr(sandbox, "PROJECT", project)
    monkeypatch.setattr(sandbox, "_places_of_packages", lambda: [tmp_path, project / ".venv"])
    monkeypatch.setattr(sandbox, "_inside", lambda path, folders: path == project)
    words = sandbox._arguments([])
    at = words.index("--tmpfs")
    assert words[at + 1] == str(project)
    assert str(project / ".venv") in words[at + 2 :]


@needs_sandbox
def test_submissions_beside_a_python_are_hidden(tmp_path, monkeypatch):
    for name in ("in", "packages"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    packages = sandbox._places_of_packages()
    monkeypatch.setattr(sandbox, "_places_of_packages", lambda: [tmp_path, *packages])
    hidden = [tmp_path / "in", tmp_path / "nowhere", tmp_path, Path("/usr")]
    chosen = sandbox.choose("bwrap", hidden)
    listed = [*chosen.arguments, "--", "ls", *(str(tmp_path / n) for n in ("in", "packages"))]
    tried = subprocess.run(listed, capture_output=True, text=True)
    assert tried.stdout.split() == [f"{tmp_path}/in:", f"{tmp_path}/packages:", "file"], (
        tried.stderr
    )


# ---- what is handed over ----------------------------------------------------------------------


def test_texts_are_handed_over_as_they_are():
    contents = {"kernel": b"\0\xff\n\n3 4\n", "suite": b"", "reference": b"x" * 3_000_000}
    assert unpacked(sandbox.packed(contents)) == contents


def test_only_a_plain_file_is_a_submission(tmp_path):
    good, link, pipe, big = (tmp_path / name for name in ("good", "link", "pipe", "big"))
    good.write_bytes(b"x = 1\n")
    link.symlink_to(good)
    os.mkfifo(pipe)
    with big.open("wb") as file:
        file.truncate(100 << 20)
    assert sandbox.source_of(good) == b"x = 1\n"
    for path, words in (
        (link, "it is a link; hand in the file itself"),
        (pipe, "it is no plain file"),
        (tmp_path, "it is no plain file"),
        (Path("/dev/zero"), "it is no plain file"),
        (big, "it is larger than 1 MiB"),
        (tmp_path / "none", "it cannot be read"),
    ):
        with pytest.raises(ValueError, match=words):
            sandbox.source_of(path)


@needs_sandbox
def test_the_probe_says_so_when_a_cell_does_not_hold():
    chosen = sandbox.choose("bwrap")
    words = [w for w in chosen.arguments if w not in ("--cap-add", *sandbox.POWERS)]
    tried = subprocess.run(
        [*words, "--", sys.executable, "-m", "grader.cell"],
        env=chosen.environment(),
        capture_output=True,
        text=True,
    )
    assert tried.returncode != 0
    assert "unshare" in tried.stderr


@needs_sandbox
def test_an_agent_reaches_the_judge_and_nobody_else(locked_up, short_katas):
    """Its loopback is one of its own; the judge's server answers there all the same."""
    agent = PROJECT / "solutions" / "22_softmax_tool" / "kernel.py"
    card = grade("22_softmax_tool", agent, locked_up, TRACE, "sandbox")
    assert [c.message for c in card.checks if c.status == "failed"] == []
    assert card.success


@needs_sandbox
def test_what_speed_is_held_against_is_gone_before_the_file_is_imported(locked_up, tmp_path):
    file = tmp_path / "kernel.py"
    file.write_text("import os\nadd = print\nprint(sorted(os.listdir(os.environ['HOME'])))")
    held = {name: str(tmp_path / f"{name}.py") for name in ("suite", "reference")}
    for path in held.values():
        Path(path).write_text("SECRET = 1\n")
    child = Child(locked_up, "speed", {"file": str(file), "launcher": "add"} | held)
    child._start()
    child.stop()
    assert "'kernel.py'" in child.printed
    assert not any(name in child.printed for name in held)


@needs_sandbox
def test_no_word_of_the_seed_goes_in(locked_up, short_katas, monkeypatch):
    """Neither with a request nor with a case, in any lane."""
    sent = []
    real_send, real_spawn = wire.send, Nursery.spawn

    def send(line, message, blobs=()):
        sent.append(json.dumps(message))
        real_send(line, message, blobs)

    def spawn(self, lane, request, contents=None):
        sent.append(json.dumps(request))
        return real_spawn(self, lane, request, contents)

    monkeypatch.setattr(wire, "send", send)
    monkeypatch.setattr(Nursery, "spawn", spawn)
    lanes = {"trace": True, "compile": True, "gpu": False}
    assert grade(KATA, RIGHT, locked_up, lanes, "ThisIsSecret").success
    evidence = Evidence(short_katas[KATA], RIGHT, locked_up, {}, "ThisIsSecret")
    with pytest.raises((NotJudged, Wrong)):
        evidence.speed()
    evidence.close()
    assert any("rounds" in text for text in sent)
    assert len(sent) > 10
    assert not any("ThisIsSecret" in text for text in sent)
